#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"

namespace {

bool loop_works(std::size_t threads) {
  std::atomic<int> arrived(0);
  const int wanted = static_cast<int>(threads);
  regatta::parallelFor(0, wanted, [&](int) {
    ++arrived;
    check::wait_until([&] { return arrived.load() == wanted; }, 20.0);
  }, threads);
  return arrived.load() == wanted;
}

// Runs `body` in a forked child, which says with its exit status whether the body holds.
template <class Body>
bool in_child(const Body& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    bool holds = false;
    try {
      holds = body();
    } catch (...) {
    }
    _exit(holds ? 0 : 1);
  }
  return check::status_of(pid) == 0;
}

// Runs `body` in a forked child that then ends by exit(), as a program does.
template <class Body>
bool ends_well(const Body& body) {
  std::fflush(stdout);  // the child would print it again
  return in_child([&]() -> bool {
    body();
    std::exit(0);
  });
}

// What a child has of its parent's threads, their stacks among it, counts as leaked where it ends
// by exit().
bool no_leak_check() {
  if (check::address_sanitizer) check::skip("leaks of the parent's threads are reported in a child");
  return check::address_sanitizer;
}

// The thread sanitizer takes a new thread of a child for one of its parent's, since both can have
// the same address.
bool no_children() {
  if (check::thread_sanitizer) check::skip("threads in a forked child confuse the thread sanitizer");
  return check::thread_sanitizer;
}

// Threads that run or are just starting at the moment of the fork may be allocating.
bool no_busy_fork() {
  if (check::address_sanitizer) {
    check::skip("a fork may leave the address sanitizer's allocator locked");
  }
  return check::address_sanitizer;
}

}  // namespace

TEST(a_child_has_a_pool_of_its_own) {
  if (no_children()) return;
  for (int round = 0; round < 10; ++round) {
    CHECK(loop_works(4));
    CHECK(in_child([] { return loop_works(4); }));
    CHECK(loop_works(4));
  }
}

TEST(a_child_of_a_child_works_too) {
  if (no_children()) return;
  CHECK(loop_works(2));
  CHECK(in_child([] { return loop_works(2) && in_child([] { return loop_works(2); }); }));
}

TEST(a_child_that_is_forked_while_helpers_are_busy) {
  if (no_children() || no_busy_fork()) return;
  std::atomic<bool> go_on(true);
  std::atomic<int> running(0);
  for (int i = 0; i < 3; ++i) {
    regatta::push([&] {
      ++running;
      while (go_on.load()) {
        regatta::Rcout << "busy" << std::endl;
        std::vector<int> memory(1000);
        regatta::parallelFor(0, 100, [&](int k) { memory[static_cast<std::size_t>(k)] = k; });
      }
    });
  }
  check::wait_until([&] { return running.load() == 3; });
  for (int round = 0; round < 20; ++round) {
    CHECK(in_child([] {
      regatta::Rcout << "in the child" << std::endl;
      return loop_works(4);
    }));
  }
  go_on = false;
  regatta::wait();
}

TEST(a_pool_made_before_the_fork_works_in_the_child) {
  if (no_children() || no_busy_fork()) return;
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  std::atomic<bool> go(false);
  for (int i = 0; i < 10; ++i) {
    pool.push([&] {
      while (!go.load()) std::this_thread::yield();
      ++count;
    });
  }
  CHECK(in_child([&] {
    // The parent's tasks are the parent's.
    std::atomic<int> own(0);
    for (int i = 0; i < 10; ++i) pool.push([&] { ++own; });
    pool.wait();
    pool.parallelFor(0, 100, [&](int) { ++own; });
    pool.join();
    return own.load() == 110 && count.load() == 0;
  }));
  CHECK(in_child([&] {
    regatta::ThreadPool* unused = new regatta::ThreadPool(2);
    delete unused;
    return true;
  }));
  go = true;
  pool.wait();
  CHECK(count.load() == 10);
}

TEST(a_pool_is_destroyed_in_the_child) {
  if (no_children()) return;
  std::unique_ptr<regatta::ThreadPool> pool(new regatta::ThreadPool(2));
  pool->push([] {});
  pool->wait();
  CHECK(in_child([&] {
    pool.reset();
    return true;
  }));
}

// Threads that are there when the process forks: one that is just beginning may hold a lock of the allocator.
class Waiters {
 public:
  void wait() {
    ++there_;
    while (!go_.load()) std::this_thread::yield();
  }
  void await(int count) const {
    while (there_.load() < count) std::this_thread::yield();
  }
  void release() { go_ = true; }

 private:
  std::atomic<int> there_{0};
  std::atomic<bool> go_{false};
};

TEST(a_thread_of_the_parent_is_dropped_in_the_child) {
  if (no_children()) return;
  Waiters waiters;
  std::unique_ptr<regatta::Thread> thread(new regatta::Thread([&] { waiters.wait(); }));
  waiters.await(1);
  CHECK(in_child([&] {
    thread.reset();
    return loop_works(2);
  }));
  waiters.release();
  thread->join();
}

TEST(a_thread_of_the_parent_cannot_be_joined_in_the_child) {
  if (no_children()) return;
  Waiters waiters;
  regatta::Thread thread([&] { waiters.wait(); });
  regatta::Thread detached([&] { waiters.wait(); });
  waiters.await(2);
  CHECK(in_child([&] {
    const bool told = check::thrown([&] { thread.join(); }).find("before a fork") != std::string::npos;
    detached.detach();
    return told && !thread.joinable() && !detached.joinable() && loop_works(2);
  }));
  waiters.release();
  thread.join();
  detached.join();
}

TEST(the_child_counts_its_cores_anew) {
  if (no_children()) return;
  regatta::set_default_threads(0);
  CHECK(in_child([] {
    setenv("REGATTA_THREADS", "3", 1);
    return regatta::defaultThreads() == 3 && loop_works(3);
  }));
  regatta::set_default_threads(4);
}

TEST(a_child_that_ends_leaves_its_parents_threads_alone) {
  if (no_children() || no_leak_check()) return;
  CHECK(loop_works(4));
  CHECK(ends_well([] {}));
  CHECK(ends_well([] { loop_works(4); }));
  CHECK(loop_works(4));
}

namespace {

std::atomic<bool> ending(false);
int report[2];

}  // namespace

TEST(the_end_of_the_program_waits_for_a_task_that_runs) {
  if (no_children() || no_leak_check()) return;
  CHECK(pipe(report) == 0);
  CHECK(ends_well([] {
    std::atomic<bool> runs(false);
    regatta::push([&] {
      runs = true;
      while (!ending.load()) std::this_thread::yield();
      // Time for a program that does not wait to be gone.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (write(report[1], "x", 1) != 1) std::abort();
    });
    check::wait_until([&] { return runs.load(); });
    std::atexit([] { ending = true; });  // called before the pool is ended, as it is younger
  }));
  close(report[1]);
  char text = 0;
  CHECK(read(report[0], &text, 1) == 1 && text == 'x');
  close(report[0]);
}
