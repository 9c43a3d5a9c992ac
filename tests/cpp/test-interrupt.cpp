#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"
#include "host.hpp"

namespace {

void busy_ms(double ms) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
             .count() < ms) {
  }
}

// Asks the host for an interrupt once `begun` says that the work is under way, and checks that the
// work ends by it. The bodies would take minutes.
template <class Work>
void interrupt_during(std::atomic<bool>& begun, const Work& work) {
  begun = false;
  fake_host::interrupt = false;
  std::thread user([&] {
    check::wait_until([&] { return begun.load(); });
    fake_host::interrupt = true;
  });
  bool interrupted = false;
  try {
    work();
  } catch (const regatta::UserInterruptException&) {
    interrupted = true;
  }
  user.join();
  CHECK(interrupted);
  CHECK(!fake_host::interrupt.load());
  // Nothing is left of it.
  CHECK(!regatta::isInterrupted());
  std::atomic<int> count(0);
  regatta::parallelFor(0, 100, [&](int) { ++count; });
  CHECK(count.load() == 100);
}

}  // namespace

TEST(interrupt_in_direct_checks) {
  CHECK(!regatta::isInterrupted());
  fake_host::interrupt = true;
  CHECK(!regatta::isInterrupted(false));
  // The host is not asked again at once, but soon.
  CHECK(check::wait_until([] { return regatta::isInterrupted(); }));
  CHECK(!regatta::isInterrupted());
  fake_host::interrupt = true;
  regatta::checkUserInterrupt(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(check::thrown([] { regatta::checkUserInterrupt(); }) == "C++ call interrupted by the user.");
  CHECK(check::thrown([] { regatta::checkUserInterrupt(); }) == "");
}

TEST(interrupt_in_loops) {
  std::atomic<bool> begun(false);
  for (std::size_t threads : {1U, 2U, 4U}) {
    interrupt_during(begun, [&] {
      regatta::parallelFor(0, 100000, [&](int) {
        begun = true;
        busy_ms(2.0);
      }, threads);
    });
    interrupt_during(begun, [&] {
      regatta::parallelFor(std::int64_t(0), std::int64_t(1) << 40, [&](std::int64_t) {
        begun.store(true, std::memory_order_relaxed);
      }, threads);
    });
    interrupt_during(begun, [&] {
      regatta::parallelFor(0, 100000, [&](int) {
        begun = true;
        busy_ms(2.0);
      }, threads, 50000);
    });
  }
}

TEST(interrupt_in_nested_loops) {
  std::atomic<bool> begun(false);
  interrupt_during(begun, [&] {
    regatta::parallelFor(0, 1000, [&](int) {
      regatta::parallelFor(0, 1000, [&](int) {
        begun = true;
        busy_ms(0.5);
      });
    });
  });
}

TEST(interrupt_while_only_helpers_work) {
  std::atomic<bool> begun(false);
  const std::thread::id self = std::this_thread::get_id();
  interrupt_during(begun, [&] {
    regatta::parallelFor(0, 2, [&](int) {
      // The caller has nothing left to do; the worker's body looks for interrupts itself.
      if (std::this_thread::get_id() == self) {
        check::wait_until([&] { return begun.load(); });
        return;
      }
      for (;;) {
        begun = true;
        busy_ms(1.0);
        regatta::checkUserInterrupt();
      }
    }, 2);
  });
}

// Half a second of tasks for a group or pool.
template <class Tasks>
void push_work(Tasks& tasks) {
  for (int i = 0; i < 500; ++i) tasks.push([] { busy_ms(1.0); });
}

// The destructor of what still has tasks must not ask the host for an interrupt that is on its way to the caller.
TEST(an_interrupt_that_leaves_a_loop_beside_tasks_is_told_once) {
  std::atomic<bool> begun(false);
  const auto loop = [&] {
    regatta::parallelFor(0, 1 << 30, [&](int) {
      begun = true;
      busy_ms(1.0);
    });
  };
  const int again = fake_host::posted_again.load();
  interrupt_during(begun, [&] {
    regatta::TaskGroup group;
    push_work(group);
    loop();
  });
  interrupt_during(begun, [&] {
    regatta::ThreadPool pool(2);
    push_work(pool);
    loop();
  });
  CHECK(fake_host::posted_again.load() == again);
  // One that comes while the destructor waits was told to nobody.
  {
    regatta::TaskGroup group;
    push_work(group);
    fake_host::interrupt = true;
  }
  CHECK(fake_host::posted_again.load() == again + 1);
  CHECK(check::thrown([] { regatta::checkUserInterrupt(); }) != "");
}

TEST(who_pushes_beyond_the_limit_hears_of_an_interrupt) {
  std::atomic<bool> begun(false);
  std::atomic<int> done(0);
  const int many = 1000000;
  const auto task = [&] {
    begun = true;
    ++done;
    busy_ms(1.0);
  };
  interrupt_during(begun, [&] {
    regatta::TaskGroup group(10);
    for (int i = 0; i < many; ++i) group.push(task);
  });
  interrupt_during(begun, [&] {
    regatta::ThreadPool pool(1);
    for (int i = 0; i < many; ++i) pool.push(task);
  });
  // Without threads a push is what runs the task.
  interrupt_during(begun, [&] {
    regatta::ThreadPool pool(0);
    for (int i = 0; i < many; ++i) pool.push(task);
  });
  CHECK(done.load() < many);
}

TEST(interrupt_in_pools) {
  std::atomic<bool> begun(false);
  const auto task = [&] {
    begun = true;
    busy_ms(2.0);
  };
  for (std::size_t workers : {1U, 2U}) {
    interrupt_during(begun, [&] {
      regatta::ThreadPool pool(workers);
      for (int i = 0; i < 20000; ++i) pool.push(task);
      pool.wait();
    });
    interrupt_during(begun, [&] {
      regatta::ThreadPool pool(workers);
      for (int i = 0; i < 20000; ++i) pool.push(task);
      pool.join();
    });
  }
  interrupt_during(begun, [&] {
    for (int i = 0; i < 20000; ++i) regatta::push(task);
    regatta::wait();
  });
}

// Where tasks that wait stand on top of each other so deep that another thread runs what is below, the
// main thread waits for that thread, and asks its host all the same.
TEST(interrupt_below_many_waits) {
  fake_host::interrupt = false;
  regatta::ThreadPool pool(0);
  std::atomic<bool> heard(false);
  std::function<void()> next = [&] {
    if (regatta::onMainThread()) {
      pool.push(next);
      pool.wait();
    } else {
      fake_host::interrupt = true;
      heard = check::wait_until([] { return regatta::isInterrupted(); });
    }
  };
  bool interrupted = false;
  try {
    pool.push(next);
    pool.wait();
  } catch (const regatta::UserInterruptException&) {
    interrupted = true;
  }
  CHECK(heard.load());
  CHECK(interrupted);
  fake_host::interrupt = false;
}

TEST(interrupt_in_threads) {
  std::atomic<bool> begun(false);
  const auto task = [&] {
    for (;;) {
      begun = true;
      busy_ms(1.0);
      regatta::checkUserInterrupt();
    }
  };
  interrupt_during(begun, [&] {
    regatta::Thread a(task), b(task);
    a.join();
    b.join();
  });
}

TEST(a_thread_that_ignores_interrupts_leaves_no_stale_one) {
  std::atomic<bool> go_on(true), begun(false);
  regatta::Thread stubborn([&] {
    while (go_on.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  interrupt_during(begun, [&] {
    regatta::parallelFor(0, 100000, [&](int) {
      begun = true;
      busy_ms(2.0);
    });
  });
  go_on = false;
  // It began before the interrupt and so hears of it now.
  CHECK(check::thrown([&] { stubborn.join(); }) == "C++ call interrupted by the user.");
}

TEST(interrupt_while_a_pool_is_destroyed_is_left_to_the_host) {
  fake_host::interrupt = false;
  const int before = fake_host::posted_again.load();
  std::atomic<int> count(0);
  {
    regatta::ThreadPool pool(1);
    for (int i = 0; i < 5000; ++i) {
      pool.push([&] {
        if (++count == 3) fake_host::interrupt = true;
        busy_ms(2.0);
      });
    }
  }
  CHECK(count.load() < 5000);
  CHECK(fake_host::posted_again.load() == before + 1);
  CHECK(fake_host::interrupt.exchange(false));
}

TEST(threads_hear_of_interrupts_only_from_the_main_thread) {
  std::atomic<bool> begun(false), heard(false);
  regatta::Thread thread([&] {
    begun = true;
    CHECK(check::wait_until([] { return regatta::isInterrupted(); }));
    heard = true;
  });
  check::wait_until([&] { return begun.load(); });
  fake_host::interrupt = true;
  CHECK(regatta::isInterrupted());
  CHECK(check::wait_until([&] { return heard.load(); }));
  CHECK(check::thrown([&] { thread.join(); }) != "");
}

TEST(loops_of_other_threads_are_interrupted) {
  std::atomic<bool> begun(false), interrupted(false);
  interrupt_during(begun, [&] {
    regatta::Thread thread([&] {
      try {
        regatta::parallelFor(0, 100000, [&](int) {
          begun = true;
          busy_ms(2.0);
        });
      } catch (const regatta::UserInterruptException&) {
        interrupted = true;
        throw;
      }
    });
    thread.join();
  });
  CHECK(interrupted.load());
}

namespace {

std::atomic<bool> host_throws(false);

bool throwing_host() {
  if (host_throws.exchange(false)) throw std::runtime_error("by the host");
  return false;
}

bool throwing_print(int, const char*, std::size_t) { throw std::runtime_error("by the printer"); }

// What the work throws when the host throws while it is under way, and whether its threads have left
// what lies on this stack by then.
template <class Work>
std::string thrown_with_host(const Work& work) {
  std::atomic<bool> begun(false);
  std::atomic<int> inside(0);
  regatta::set_host(regatta::Host{throwing_host, nullptr, nullptr, nullptr});
  std::thread user([&] {
    check::wait_until([&] { return begun.load(); });
    host_throws = true;
  });
  const std::string what = check::thrown([&] { work(begun, inside); });
  CHECK(inside.load() == 0);
  user.join();
  CHECK(!host_throws.load());
  CHECK(!regatta::isInterrupted());
  fake_host::install();
  return what;
}

// Until the work is interrupted, whatever by.
void stay(std::atomic<bool>& begun, std::atomic<int>& inside) {
  ++inside;
  begun = true;
  check::wait_until([] { return regatta::shouldStop(); });
  // Time for a caller that does not wait to be gone.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  --inside;
}

}  // namespace

TEST(a_host_that_throws_ends_work_like_an_interrupt) {
  CHECK(thrown_with_host([](std::atomic<bool>& begun, std::atomic<int>& inside) {
    std::atomic<int> arrived(0);
    regatta::parallelFor(0, 2, [&](int) {
      ++arrived;
      check::wait_until([&] { return arrived.load() == 2; });
      if (!regatta::onMainThread()) stay(begun, inside);
    });
  }) == "by the host");
  CHECK(thrown_with_host([](std::atomic<bool>& begun, std::atomic<int>& inside) {
    for (int i = 0; i < 1000; ++i) {
      regatta::push([&] { regatta::onMainThread() ? busy_ms(1.0) : stay(begun, inside); });
    }
    regatta::wait();
  }) == "by the host");
  CHECK(thrown_with_host([](std::atomic<bool>& begun, std::atomic<int>& inside) {
    regatta::Thread thread([&] { stay(begun, inside); });
    thread.join();
  }) == "by the host");
  CHECK(thrown_with_host([](std::atomic<bool>& begun, std::atomic<int>& inside) {
    begun = true;
    static_cast<void>(inside);
    check::wait_until([] {
      regatta::checkUserInterrupt();
      return false;
    });
  }) == "by the host");
}

// Mostly at the end of the loop, where a destructor prints.
TEST(a_host_that_throws_when_it_prints_ends_the_loop) {
  regatta::isInterrupted();
  regatta::set_host(regatta::Host{nullptr, nullptr, throwing_print, nullptr});
  CHECK(check::thrown([] {
    regatta::parallelFor(0, 4, [&](int) { regatta::Rcout << "line" << std::endl; });
  }) == "by the printer");
  fake_host::install();
  CHECK(!regatta::isInterrupted());
}

// As when a package is loaded while tasks of another one run.
TEST(a_host_is_set_while_tasks_run) {
  std::atomic<bool> go_on(true);
  std::atomic<int> running(0);
  for (int i = 0; i < 2; ++i) {
    regatta::push([&] {
      ++running;
      while (go_on.load()) {
        if (regatta::onMainThread()) break;
        regatta::isInterrupted();
      }
    });
  }
  check::wait_until([&] { return running.load() == 2; });
  for (int i = 0; i < 100; ++i) fake_host::install();
  go_on = false;
  regatta::wait();
  CHECK(regatta::onMainThread());
}
