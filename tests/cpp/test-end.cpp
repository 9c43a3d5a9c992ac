#include <atomic>
#include <csetjmp>
#include <cstdlib>
#include <memory>
#include <regatta/core.hpp>
#include <thread>

#include "../testthat/threads-endless.hpp"
#include "check.hpp"

// Programs that end while threads are at work. Each has to end by itself, with its own exit status.

namespace {

template <class Fact>
void wait_for(const Fact& fact) {
  while (!fact()) std::this_thread::yield();
}

void breathe() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

std::atomic<long> begun(0);
std::atomic<bool> at_end(false);

}  // namespace

PROGRAM(ends_while_a_task_polls) {
  regatta::set_default_threads(3);
  regatta::push([] {
    ++begun;
    while (!regatta::isInterrupted()) breathe();
  });
  regatta::push([] {
    ++begun;
    while (!regatta::shouldStop()) breathe();
  });
  wait_for([] { return begun.load() == 2; });
  return 3;
}

PROGRAM(ends_while_a_static_pool_polls) {
  static regatta::ThreadPool pool(2);
  pool.push([] {
    ++begun;
    while (!regatta::isInterrupted()) breathe();
  });
  wait_for([] { return begun.load() == 1; });
  return 3;
}

PROGRAM(ends_while_a_task_is_in_a_loop) {
  regatta::set_default_threads(3);
  regatta::push([] {
    regatta::parallelFor(std::int64_t(0), std::int64_t(1) << 50, [](std::int64_t i) {
      if (i == 0) ++begun;
    });
  });
  wait_for([] { return begun.load() == 1; });
  return 3;
}

PROGRAM(ends_while_tasks_push_and_wait) {
  regatta::set_default_threads(4);
  for (int i = 0; i < 3; ++i) endless::push_tasks(begun);
  wait_for([] { return begun.load() >= 100; });
  return 3;
}

// Pushes go on until the process is gone, from threads that nobody joins.
PROGRAM(ends_while_detached_threads_push) {
  regatta::set_default_threads(3);
  for (int i = 0; i < 2; ++i) {
    std::thread([] {
      for (;;) {
        ++begun;
        regatta::push([] {});
        if (at_end.load()) std::this_thread::yield();
      }
    }).detach();
  }
  wait_for([] { return begun.load() > 1000; });
  std::atexit([] { at_end = true; });
  return 3;
}

PROGRAM(ends_while_a_detached_thread_is_in_a_loop) {
  regatta::set_default_threads(3);
  for (int i = 0; i < 2; ++i) endless::detach_loops(begun);
  wait_for([] { return begun.load() > 100; });
  return 3;
}

// Catches nothing, as nobody has interrupted it.
PROGRAM(ends_while_a_strange_thread_is_in_a_loop) {
  regatta::set_default_threads(3);
  std::thread([] {
    for (;;) {
      regatta::parallelFor(0, 100000, [](int k) {
        if (k == 0) ++begun;
      });
    }
  }).detach();
  std::thread([] {
    for (;;) {
      for (int i = 0; i < 100; ++i) regatta::push([] { ++begun; });
      regatta::wait();
    }
  }).detach();
  wait_for([] { return begun.load() > 1000; });
  return 3;
}

PROGRAM(exits_in_a_task) {
  regatta::set_default_threads(3);
  regatta::push([] { std::exit(3); });
  for (;;) breathe();
}

PROGRAM(exits_in_a_task_that_another_waits_for) {
  regatta::set_default_threads(3);
  regatta::push([] {
    regatta::TaskGroup group;
    for (int i = 0; i < 2; ++i) {
      group.push([i] {
        ++begun;
        wait_for([] { return begun.load() == 2; });
        if (i == 0) std::exit(3);
        while (!regatta::isInterrupted()) breathe();
      });
    }
    group.wait();
  });
  regatta::wait();
  for (;;) breathe();
}

PROGRAM(exits_in_a_task_of_a_static_pool) {
  static regatta::ThreadPool pool(2);
  pool.push([] { std::exit(3); });
  pool.wait();
  for (;;) breathe();
}

PROGRAM(exits_in_a_body_of_a_helper) {
  regatta::set_default_threads(2);
  regatta::parallelFor(0, 2, [](int) {
    ++begun;
    wait_for([] { return begun.load() == 2; });
    if (!regatta::onMainThread()) std::exit(3);
    for (;;) breathe();
  });
  return 4;
}

PROGRAM(exits_in_a_body_of_the_main_thread) {
  regatta::set_default_threads(2);
  regatta::parallelFor(0, 2, [](int) {
    ++begun;
    wait_for([] { return begun.load() == 2; });
    if (regatta::onMainThread()) std::exit(3);
    while (!regatta::isInterrupted()) breathe();
  });
  return 4;
}

PROGRAM(exits_in_a_thread) {
  static std::unique_ptr<regatta::Thread> thread;
  std::atomic<bool> go(false);
  thread.reset(new regatta::Thread([&] {
    wait_for([&] { return go.load(); });
    std::exit(3);
  }));
  go = true;
  for (;;) breathe();
}

// Older static objects are destroyed after the pool has ended: by then nothing runs, and what is
// pushed is dropped, or runs there and then.
PROGRAM(works_after_the_end) {
  regatta::set_default_threads(3);
  struct Late {
    ~Late() {
      std::atomic<int> sum(0);
      regatta::push([] {});
      regatta::wait();
      regatta::parallelFor(0, 1000, [&](int) { ++sum; });
      if (sum.load() != 1000 || regatta::isInterrupted()) std::_Exit(5);
      std::_Exit(3);
    }
  };
  static Late late;
  regatta::push([] { ++begun; });
  regatta::wait();
  return 4;
}

// What R's errors do. The first use of threads after it says so; one thread, so that none is left in
// the loop.
PROGRAM(leaves_a_body_by_longjmp) {
  static std::jmp_buf home;
  regatta::set_default_threads(1);
  const auto leaves = [] { std::longjmp(home, 1); };
  if (!setjmp(home)) regatta::parallelFor(0, 10, [&](int i) { if (i == 3) leaves(); });
  const auto said = [](const std::string& message) {
    return message.find("left by a longjmp") != std::string::npos;
  };
  if (!said(check::thrown([] { regatta::parallelFor(0, 10, [](int) {}); }))) std::_Exit(4);
  if (!said(check::thrown([] { regatta::wait(); }))) std::_Exit(5);
  std::_Exit(3);
}

TEST(a_body_that_was_left_by_longjmp_is_told_of) {
  if (check::address_sanitizer || check::thread_sanitizer) return check::skip("no jumps with sanitizers");
  CHECK(check::run_program("leaves_a_body_by_longjmp") == 3);
}

TEST(a_program_ends_while_tasks_run) {
  CHECK(check::run_program("ends_while_a_task_polls") == 3);
  CHECK(check::run_program("ends_while_a_static_pool_polls") == 3);
  CHECK(check::run_program("ends_while_a_task_is_in_a_loop") == 3);
  for (int i = 0; i < 10; ++i) CHECK(check::run_program("ends_while_tasks_push_and_wait") == 3);
}

TEST(a_program_ends_while_threads_that_nobody_joins_work) {
  for (int i = 0; i < 10; ++i) {
    CHECK(check::run_program("ends_while_detached_threads_push") == 3);
    CHECK(check::run_program("ends_while_a_detached_thread_is_in_a_loop") == 3);
    CHECK(check::run_program("ends_while_a_strange_thread_is_in_a_loop") == 3);
  }
}

TEST(a_body_may_call_exit) {
  CHECK(check::run_program("exits_in_a_task") == 3);
  CHECK(check::run_program("exits_in_a_task_that_another_waits_for") == 3);
  CHECK(check::run_program("exits_in_a_task_of_a_static_pool") == 3);
  CHECK(check::run_program("exits_in_a_body_of_a_helper") == 3);
  CHECK(check::run_program("exits_in_a_body_of_the_main_thread") == 3);
  CHECK(check::run_program("exits_in_a_thread") == 3);
}

TEST(static_objects_may_use_the_pool_after_its_end) {
  CHECK(check::run_program("works_after_the_end") == 3);
}
