#include <chrono>
#include <functional>
#include <malloc.h>
#include <memory>
#include <pthread.h>
#include <regatta/core.hpp>
#include <sched.h>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "check.hpp"

namespace {

// Memory that the program has from the system's allocator and uses, in bytes.
std::size_t memory_in_use() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
#else
  return 0;
#endif
}

constexpr int no_priority = 4;

// The calling thread shares one processor with all that it starts from now on.
void stay_on_one_processor() {
#if defined(__linux__)
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  std::size_t first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  sched_setaffinity(0, sizeof one, &one);
#endif
}

}  // namespace

// A thread that pushes stands still between the two halves of MpscQueue::add(), where a thread of
// real-time priority on the same processor finds a queue of which nothing can be taken. The system ends
// the program if that one goes on for half a second of processor time without letting go.
PROGRAM(pushes_beside_a_thread_of_real_time_priority) {
  namespace detail = regatta::detail;
  stay_on_one_processor();
  std::atomic<int> step(0), done(0);
  const auto wait_for = [&](int wanted) {
    while (step.load() != wanted) std::this_thread::sleep_for(std::chrono::microseconds(200));
  };
  detail::Pool& pool = *new detail::Pool(detail::process(), 1, 1, false);
  detail::Group& group = *new detail::Group(detail::process(), pool, nullptr);
  const auto task = [&](std::function<void()> call) {
    detail::Task* const made = detail::make_task(std::move(call), pool.free_list());
    made->group = &group;
    return made;
  };
  pool.push(group, task([&] {
    const rlimit limit = {500000, 500000};
    sched_param priority;
    priority.sched_priority = 1;
    const bool can = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0 &&
                     setrlimit(RLIMIT_RTTIME, &limit) == 0;
    step = can ? 1 : -1;
    if (can) wait_for(2);
  }));
  while (step.load() == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (step.load() < 0) std::_Exit(no_priority);
  pool.push(group, task([&] { ++done; }));
  detail::Task* const half = task([&] { ++done; });
  group.pending.fetch_add(1);
  detail::Link* const before = group.queue.append(half);
  step = 2;
  // As long as the system may leave the processor to the other thread before it ends the program.
  for (int i = 0; i < 3000; ++i) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (done.load() != 0) std::_Exit(5);
  before->next.store(half, std::memory_order_release);
  pool.wait(group);
  std::_Exit(done.load() == 2 ? 3 : 6);
}

TEST(a_thread_of_real_time_priority_lets_a_push_end) {
  const int status = check::run_program("pushes_beside_a_thread_of_real_time_priority");
  if (status == no_priority) return check::skip("threads may not have real-time priority");
  CHECK(status == 3);
}

TEST(wait_in_a_task_is_for_all_that_the_task_has_pushed) {
  regatta::ThreadPool pool(3);
  std::atomic<int> early(0), children(0);
  for (int i = 0; i < 40; ++i) {
    pool.push([&] {
      std::atomic<int> done(0);  // gone when the task returns
      for (int j = 0; j < 4; ++j) {
        pool.push([&] {
          pool.push([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            ++done;
          });
          ++children;
        });
      }
      pool.wait();
      if (done.load() != 4) ++early;
    });
  }
  pool.wait();
  CHECK(early.load() == 0);
  CHECK(children.load() == 160);
}

TEST(wait_is_for_children_that_their_task_has_not_waited_for) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> count(0);
    regatta::TaskGroup group;
    std::function<void(int)> grow = [&](int depth) {
      ++count;
      if (depth == 0) return;
      regatta::push(grow, depth - 1);
      regatta::push(grow, depth - 1);
    };
    group.push(grow, 6);
    group.wait();
    CHECK(count.load() == 127);
  }
}

TEST(groups_that_share_a_pool_fail_and_end_each_for_itself) {
  std::atomic<int> ran(0), wrong(0);
  const auto use = [&](const std::string& name) {
    for (int round = 0; round < 100; ++round) {
      regatta::TaskGroup group;
      for (int i = 0; i < 10; ++i) group.push([&] { throw std::runtime_error(name); });
      if (check::thrown([&] { group.wait(); }) != name) ++wrong;
      regatta::TaskGroup unharmed;
      for (int i = 0; i < 10; ++i) unharmed.push([&] { ++ran; });
      if (check::thrown([&] { unharmed.wait(); }) != "") ++wrong;
    }
  };
  std::thread other([&] { use("other"); });
  use("this");
  other.join();
  CHECK(wrong.load() == 0);
  CHECK(ran.load() == 2000);
}

TEST(a_cancelled_group_leaves_others_alone) {
  regatta::TaskGroup cancelled, other;
  std::atomic<int> begun(0), heard(0), ran(0), dropped(100);
  // All threads of the pool are busy, so that what is pushed next does not begin.
  const int workers = static_cast<int>(regatta::defaultThreads()) - 1;
  for (int i = 0; i < workers; ++i) {
    cancelled.push([&] {
      ++begun;
      if (check::wait_until([] { return regatta::shouldStop(); })) ++heard;
    });
  }
  CHECK(check::wait_until([&] { return begun.load() == workers; }));
  for (int i = 0; i < 100; ++i) cancelled.push([&] { --dropped; });
  for (int i = 0; i < 100; ++i) other.push([&] { ++ran; });
  cancelled.cancel();
  other.wait();
  cancelled.wait();
  CHECK(ran.load() == 100);
  CHECK(heard.load() == workers);
  CHECK(dropped.load() == 100);
  // What is pushed afterwards is wanted.
  cancelled.push([&] { ran = 1; });
  cancelled.wait();
  CHECK(ran.load() == 1);
}

TEST(wait_of_a_group_does_not_wait_for_other_tasks) {
  regatta::ThreadPool pool(2);
  std::atomic<bool> go(false);
  pool.push([&] { check::wait_until([&] { return go.load(); }); });
  std::atomic<int> ran(0);
  regatta::TaskGroup group(pool);
  for (int i = 0; i < 10; ++i) group.push([&] { ++ran; });
  group.wait();
  CHECK(ran.load() == 10);
  CHECK(!go.load());
  go = true;
  pool.wait();
}

TEST(what_a_task_has_pushed_stops_with_its_group) {
  std::atomic<bool> begun(false), heard(false);
  regatta::TaskGroup group;
  group.push([&] {
    regatta::push([&] {
      begun = true;
      heard = check::wait_until([] { return regatta::shouldStop(); });
    });
  });
  CHECK(check::wait_until([&] { return begun.load(); }));
  group.cancel();
  group.wait();
  CHECK(heard.load());
}

TEST(the_exception_of_the_lowest_task_is_thrown_if_asked_for) {
  for (int round = 0; round < 20; ++round) {
    regatta::TaskGroup group(1000, regatta::FirstException::byIndex);
    std::atomic<bool> failed(false);
    std::atomic<int> before(0);
    // The tasks before the one that fails first are run all the same.
    group.push([&] { check::wait_until([&] { return failed.load(); }); });
    for (int i = 0; i < 20; ++i) group.push([&] { ++before; });
    group.push([&] {
      check::wait_until([&] { return failed.load(); });
      throw std::runtime_error("the lower one");
    });
    group.push([&] {
      failed = true;
      throw std::runtime_error("the first in time");
    });
    CHECK(check::thrown([&] { group.wait(); }) == "the lower one");
    CHECK(before.load() == 20);
    CHECK(regatta::suppressedExceptions() == 1);
    group.push([&] { ++before; });
    group.wait();
    CHECK(before.load() == 21);
  }
}

TEST(exceptions_nobody_has_waited_for_reach_who_waits_for_the_task) {
  regatta::TaskGroup group;
  group.push([] { regatta::push([] { regatta::push([] { throw std::runtime_error("deep"); }); }); });
  CHECK(check::thrown([&] { group.wait(); }) == "deep");
  group.push([&] {
    regatta::push([] { throw std::runtime_error("child"); });
    CHECK(check::thrown([] { regatta::wait(); }) == "child");
  });
  group.wait();
  // Of one that has failed, and is gone, before the task ends that has pushed it.
  regatta::ThreadPool pool(2);
  std::atomic<bool> gone(false);
  pool.push([&] {
    std::shared_ptr<void> held(nullptr, [&](void*) { gone = true; });
    pool.push([held] { throw std::runtime_error("early"); });
    held.reset();
    CHECK(check::wait_until([&] { return gone.load(); }));
  });
  CHECK(check::thrown([&] { pool.wait(); }) == "early");
}

TEST(who_waits_for_a_group_runs_no_task_of_another) {
  regatta::ThreadPool pool(2);
  std::atomic<bool> running(false), go(false), waited(false), begun(false);
  pool.push([&] {
    regatta::TaskGroup group(pool);
    group.push([&] {
      running = true;
      check::wait_until([&] { return go.load(); });
    });
    CHECK(check::wait_until([&] { return running.load(); }));  // by the other thread
    group.wait();
    waited = true;
  });
  CHECK(check::wait_until([&] { return running.load(); }));
  // On top of the task that waits it would wait for what is below it.
  pool.push([&] {
    begun = true;
    CHECK(check::wait_until([&] { return waited.load(); }));
  });
  for (int i = 0; i < 50 && !begun.load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  go = true;
  pool.wait();
  CHECK(begun.load());
}

TEST(any_number_of_tasks_may_wait_for_children) {
  const int tasks = check::thread_sanitizer || check::address_sanitizer ? 10000 : 100000;
  for (std::size_t workers : {1U, 3U}) {
    regatta::ThreadPool pool(workers);
    std::atomic<int> done(0);
    for (int i = 0; i < tasks; ++i) {
      pool.push([&] {
        std::atomic<int> children(0);
        for (int j = 0; j < 2; ++j) pool.push([&] { ++children; });
        pool.wait();
        if (children.load() == 2) ++done;
      });
    }
    pool.wait();
    CHECK(done.load() == tasks);
  }
}

TEST(tasks_may_wait_for_each_other_at_any_depth) {
  for (std::size_t workers : {0U, 3U}) {
    // With workers each level may wait for another thread to wake.
    // That it ends in time tells that no level asks all those above it.
    const bool slow = check::thread_sanitizer || check::address_sanitizer;
    const int depth = workers > 0 ? 1500 : slow || sizeof(void*) < 8 ? 3000 : 200000;
    regatta::ThreadPool pool(workers);
    std::atomic<int> done(0);
    std::function<void(int)> next = [&](int left) {
      if (left > 0) {
        pool.push(next, left - 1);
        pool.wait();
      }
      ++done;
    };
    pool.push(next, depth);
    pool.wait();
    CHECK(done.load() == depth + 1);
  }
}

// What has been found to go on is asked again when anything stops, and only what is around it counts.
TEST(a_stop_is_heard_at_any_depth) {
  for (int how = 0; how < 3; ++how) {
    regatta::TaskGroup outer, elsewhere;
    regatta::Cancellation token;
    std::atomic<bool> went_on(true), heard(false), fails(false);
    std::function<void(int)> descend = [&](int left) {
      went_on = went_on && !regatta::shouldStop();
      if (left > 0) {
        regatta::TaskGroup group;
        group.push(descend, left - 1);
        group.wait();
        return;
      }
      elsewhere.cancel();
      went_on = went_on && !regatta::shouldStop();
      if (how == 0) outer.cancel();
      fails = how == 1;
      if (how == 2) token.request();
      heard = check::wait_until([] { return regatta::shouldStop(); });
    };
    const std::string error = check::thrown([&] {
      if (how == 2) {
        regatta::parallelFor(0, 2, [&](int i) { if (i == 0) descend(100); }, token);
      } else {
        // It has a thread before those that wait below each other have taken all of them.
        if (how == 1) {
          outer.push([&] {
            CHECK(check::wait_until([&] { return fails.load(); }));
            throw std::runtime_error("beside");
          });
        }
        outer.push(descend, 100);
        outer.wait();
      }
    });
    CHECK(went_on.load());
    CHECK(heard.load());
    CHECK(error == (how == 1 ? "beside" : ""));
  }
}

TEST(a_chain_of_pushes_is_run_on_one_thread) {
  regatta::set_default_threads(1);
  std::atomic<int> count(0);
  std::function<void(int)> next = [&](int left) {
    ++count;
    if (left > 0) regatta::push(next, left - 1);
  };
  regatta::push(next, 100000);
  regatta::wait();
  CHECK(count.load() == 100001);
  regatta::ThreadPool pool(0);
  std::function<void(int)> there = [&](int left) {
    ++count;
    if (left > 0) pool.push(there, left - 1);
  };
  count = 0;
  pool.push(there, 100000);
  pool.wait();
  CHECK(count.load() == 100001);
  regatta::set_default_threads(4);
}

TEST(tasks_exchange_data_on_one_thread) {
  regatta::set_default_threads(1);
  std::atomic<int> step(0);
  const auto turn = [&](int mine) {
    CHECK(check::wait_until([&] { return step.load() == mine; }));
    ++step;
  };
  regatta::push([&] {
    turn(1);
    turn(3);
  });
  turn(0);  // the one who pushes goes on, too
  regatta::push([&] {
    turn(2);
    turn(4);
  });
  regatta::wait();
  CHECK(step.load() == 5);
  CHECK(regatta::pushReturn([] { return 5; }).get() == 5);
  regatta::set_default_threads(4);
}

TEST(tasks_that_are_not_done_are_bounded_in_number) {
  for (std::size_t limit : {1U, 4U, 100U}) {
    regatta::TaskGroup group(limit);
    std::atomic<std::size_t> there(0), most(0);
    for (int i = 0; i < 3000; ++i) {
      const std::size_t now = ++there;
      if (now > most) most = now;
      group.push([&] { --there; });
    }
    group.wait();
    // One is counted here before it is pushed, and those done a little later than they say.
    CHECK(most.load() <= limit + 1);
  }
}

TEST(memory_of_many_tasks_is_bounded_and_given_back) {
  if (memory_in_use() == 0 || check::address_sanitizer || check::thread_sanitizer) {
    check::skip("the allocator does not say what is in use");
    return;
  }
  regatta::ThreadPool pool(2);
  std::atomic<std::size_t> most(0);
  std::atomic<int> done(0);
  const std::size_t before = memory_in_use();
  for (int i = 0; i < 3000000; ++i) {
    pool.push([&] { ++done; });
    if (i % 10000 == 0) most = std::max(most.load(), memory_in_use());
  }
  pool.wait();
  CHECK(done.load() == 3000000);
  CHECK(most.load() - before < 16000000);
  // Blocks are kept: 2 x 16,384 of 144 bytes.
  CHECK(memory_in_use() < before + 5000000);
}

// 33 is one more than a thread fetches at a time. With two threads none is left to do what the two that wait keep.
TEST(children_that_tasks_have_left_are_done_by_who_waits_above) {
  const std::size_t threads = regatta::defaultThreads();
  regatta::set_default_threads(2);
  for (const int children : {33, 40, 100, 271}) {
    std::atomic<int> done(0);
    const auto family = [&done, children] {
      for (int j = 0; j < children; ++j) regatta::push([&done] { ++done; });
    };
    for (int round = 0; round < 20; ++round) {
      regatta::parallelFor(0, 2, [&family](int) {
        regatta::push(family);
        regatta::wait();
      });
      regatta::parallelFor(0, 2, [&family](int) {
        regatta::TaskGroup group;
        group.push(family);
        group.wait();
      });
    }
    CHECK(done.load() == 20 * 2 * 2 * children);
  }
  regatta::set_default_threads(threads);
}

TEST(tasks_may_push_to_their_own_group_at_its_limit) {
  for (const std::size_t limit : {1u, 2u, 100u, 1000u}) {
    std::atomic<int> done(0);
    regatta::TaskGroup group(limit);
    std::function<void(int)> tree = [&](int depth) {
      ++done;
      for (int i = 0; i < 3 && depth > 0; ++i) group.push(std::ref(tree), depth - 1);
    };
    group.push(std::ref(tree), 7);
    group.wait();
    CHECK(done.load() == (6561 - 1) / 2);
  }
}

TEST(a_task_that_waits_for_its_own_group_is_told_so) {
  regatta::TaskGroup group;
  group.push([&] { group.wait(); });
  CHECK(check::thrown([&] { group.wait(); }).find("TaskGroup of its own") != std::string::npos);
}

TEST(a_pool_made_while_an_exception_passes_finishes_its_tasks) {
  static std::atomic<int> ran(0);
  struct Cleaner {
    ~Cleaner() {
      regatta::ThreadPool pool(2);
      for (int i = 0; i < 100; ++i) pool.push([] { ++ran; });
      regatta::TaskGroup group;
      for (int i = 0; i < 100; ++i) group.push([] { ++ran; });
    }
  };
  CHECK(check::thrown([] {
    const Cleaner cleaner;
    throw std::runtime_error("passes");
  }) == "passes");
  CHECK(ran.load() == 200);
}

TEST(tasks_keep_the_alignment_of_what_they_hold) {
  struct alignas(128) Wide {
    char bytes[128];
  };
  std::atomic<int> wrong(0);
  regatta::ThreadPool pool(2);
  regatta::TaskGroup group(pool);
  const auto look = [&](const Wide& held) {
    if (reinterpret_cast<std::uintptr_t>(&held) % alignof(Wide) != 0) ++wrong;
  };
  for (int i = 0; i < 20; ++i) {
    const Wide wide = Wide();
    std::vector<char> disorder(static_cast<std::size_t>(i) * 24 + 1);
    pool.push([wide, &look] { look(wide); });
    group.push(look, wide);
    group.pushReturn(look, wide);
  }
  group.wait();
  pool.wait();
  CHECK(wrong.load() == 0);
}
