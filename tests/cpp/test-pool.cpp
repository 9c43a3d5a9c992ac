#include <functional>
#include <limits>
#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"

namespace {

void add(std::atomic<int>& sum, int value) { sum += value; }

struct Adder {
  std::atomic<int> sum{0};
  void add(int value) { sum += value; }
};

}  // namespace

TEST(pool_runs_all_tasks) {
  for (std::size_t workers : {0U, 1U, 2U, 5U}) {
    regatta::ThreadPool pool(workers);
    std::atomic<int> sum(0);
    for (int i = 0; i < 1000; ++i) pool.push([&sum](int value) { sum += value; }, i);
    pool.wait();
    CHECK(sum.load() == 499500);
    CHECK(pool.getNumThreads() == workers);
    for (int i = 0; i < 1000; ++i) pool.push(add, std::ref(sum), 1);
    pool.join();
    CHECK(sum.load() == 500500);
    pool.push(add, std::ref(sum), 1);
    pool.wait();
    CHECK(sum.load() == 500501);
  }
}

TEST(pool_takes_functions_of_all_kinds) {
  regatta::ThreadPool pool(2);
  Adder adder;
  pool.push(&Adder::add, &adder, 3);
  std::unique_ptr<int> owned(new int(4));
  pool.push([&adder](std::unique_ptr<int> value) { adder.add(*value); }, std::move(owned));
  std::vector<int> copied(3, 5);
  pool.push([&adder](std::vector<int>& values) { adder.add(values[2]); }, copied);
  const std::function<void(int)> function = [&adder](int value) { adder.add(value); };
  pool.push(function, 6);
  pool.wait();
  CHECK(adder.sum.load() == 18);
}

TEST(pool_without_workers_runs_in_the_caller) {
  regatta::ThreadPool pool(0);
  const std::thread::id self = std::this_thread::get_id();
  bool here = false;
  pool.push([&] { here = std::this_thread::get_id() == self; });
  CHECK(here);
  CHECK(pool.pushReturn([] { return 5; }).get() == 5);
  int sum = 0;
  pool.parallelFor(0, 10, [&](int i) { sum += i; });
  CHECK(sum == 45);
}

TEST(pool_with_one_worker_keeps_the_order) {
  regatta::ThreadPool pool(1);
  std::vector<int> order;
  for (int i = 0; i < 500; ++i) pool.push([&order, i] { order.push_back(i); });
  pool.wait();
  bool sorted = order.size() == 500;
  for (std::size_t i = 0; sorted && i < order.size(); ++i) sorted = order[i] == static_cast<int>(i);
  CHECK(sorted);
}

TEST(pool_runs_tasks_before_anybody_waits) {
  regatta::ThreadPool pool(1);
  std::atomic<bool> done(false);
  pool.push([&] { done = true; });
  CHECK(check::wait_until([&] { return done.load(); }));
}

TEST(pool_runs_as_many_tasks_at_once_as_it_has_workers) {
  regatta::ThreadPool pool(3);
  std::atomic<int> arrived(0);
  for (int i = 0; i < 3; ++i) {
    pool.push([&] {
      ++arrived;
      CHECK(check::wait_until([&] { return arrived.load() == 3; }));
    });
  }
  pool.wait();
  CHECK(arrived.load() == 3);
}

TEST(tasks_behind_a_long_one_are_taken_by_others) {
  regatta::ThreadPool pool(2);
  std::atomic<bool> last(false);
  for (int i = 0; i < 20; ++i) pool.push([] {});
  // Whoever fetched this task fetched some of the next ones with it.
  pool.push([&] { CHECK(check::wait_until([&] { return last.load(); })); });
  for (int i = 0; i < 20; ++i) pool.push([] {});
  pool.push([&] { last = true; });
  pool.wait();
  CHECK(last.load());
}

TEST(push_return_gives_references) {
  regatta::ThreadPool pool(2);
  double value = 1.0;
  pool.pushReturn([&value]() -> double& { return value; }).get() = 2.0;
  CHECK(value == 2.0);
}

TEST(push_return_gives_values_and_exceptions) {
  regatta::ThreadPool pool(2);
  std::vector<std::future<double>> futures;
  for (int i = 0; i < 10; ++i) futures.push_back(pool.pushReturn([](int k) { return 0.5 * k; }, i));
  double sum = 0.0;
  for (std::future<double>& future : futures) sum += future.get();
  CHECK(sum == 22.5);
  std::future<void> failing = pool.pushReturn([] { throw std::runtime_error("in the future"); });
  CHECK(check::thrown([&] { failing.get(); }) == "in the future");
  pool.wait();
}

TEST(wait_throws_the_first_exception_and_the_pool_goes_on) {
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  for (int i = 0; i < 1000; ++i) {
    pool.push([&count, i] {
      ++count;
      if (i == 3) throw std::runtime_error("task 3");
    });
  }
  CHECK(check::thrown([&] { pool.wait(); }) == "task 3");
  CHECK(check::thrown([&] { pool.wait(); }) == "");
  count = 0;
  pool.push([&] { ++count; });
  pool.wait();
  CHECK(count.load() == 1);
  pool.push([] { regatta::setError("told"); });
  CHECK(check::thrown([&] { pool.join(); }) == "told");
}

TEST(tasks_may_push_and_wait) {
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  for (int i = 0; i < 10; ++i) {
    pool.push([&] {
      for (int j = 0; j < 10; ++j) pool.push([&] { ++count; });
      pool.wait();
      ++count;
    });
  }
  pool.wait();
  CHECK(count.load() == 110);
}

TEST(tasks_may_wait_within_tasks_that_wait) {
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  std::function<void(int)> grow = [&](int depth) {
    if (depth > 0) {
      pool.push(grow, depth - 1);
      pool.push(grow, depth - 1);
      pool.wait();
    }
    ++count;
  };
  pool.push(grow, 9);
  pool.wait();
  CHECK(count.load() == 1023);
}

TEST(bodies_of_loops_may_push_and_wait) {
  regatta::ThreadPool pool(3);
  std::atomic<int> early(0);
  const auto body = [&](int) {
    std::atomic<int> done(0);
    for (int j = 0; j < 5; ++j) {
      pool.push([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        ++done;
      });
    }
    pool.wait();
    if (done.load() != 5) ++early;
  };
  pool.parallelFor(0, 20, body);
  CHECK(early.load() == 0);
}

TEST(tasks_may_run_loops) {
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  for (int i = 0; i < 20; ++i) {
    pool.push([&] {
      regatta::parallelFor(0, 100, [&](int) { ++count; });
      pool.parallelFor(0, 100, [&](int) { ++count; });
    });
  }
  pool.wait();
  CHECK(count.load() == 20 * 200);
}

TEST(pool_loops_are_complete_when_they_return) {
  regatta::ThreadPool pool(3);
  std::vector<std::vector<int>> x(50, std::vector<int>(50, 1));
  pool.parallelFor(0, 50, [&](int i) {
    pool.parallelFor(0, 50, [&, i](int j) {
      x[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] *= 2;
    }, 5);
  });
  int sum = 0;
  for (const std::vector<int>& row : x) {
    for (int value : row) sum += value;
  }
  CHECK(sum == 5000);
  pool.parallelForEach(x, [](std::vector<int>& row) { row.assign(1, 1); }, 7);
  CHECK(x[49].size() == 1);
}

TEST(several_threads_may_join_one_pool) {
  regatta::ThreadPool pool(3);
  std::atomic<int> count(0);
  const auto use = [&] {
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 3; ++i) pool.push([&] { ++count; });
      pool.join();
    }
  };
  std::thread other(use);
  use();
  other.join();
  CHECK(count.load() == 1200);
}

TEST(loops_over_more_indices_than_their_type_counts) {
  std::atomic<long> sum(0);
  const int least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  regatta::parallelFor(least, most, [&](int i) {
    if (i % 1000000000 == 0) sum += i / 1000000000;
  }, 2, 8);
  CHECK(sum.load() == 0);
}

TEST(map_pushes_a_task_per_item) {
  regatta::ThreadPool pool(2);
  const std::vector<int> items = {1, 2, 3, 4};
  std::atomic<int> sum(0);
  pool.map([&sum](int value) { sum += value; }, items);
  pool.wait();
  CHECK(sum.load() == 10);
}

TEST(a_destroyed_pool_finishes_its_tasks) {
  std::atomic<int> count(0);
  {
    regatta::ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) pool.push([&] { ++count; });
  }
  CHECK(count.load() == 100);
}

TEST(a_pool_destroyed_by_an_exception_drops_its_tasks) {
  std::atomic<int> count(0);
  // What is declared behind the pool is destroyed before it, and the task reads these to its end.
  std::atomic<bool> begun(false), go(false);
  CHECK(check::thrown([&] {
    regatta::ThreadPool pool(1);
    pool.push([&] {
      begun = true;
      while (!go.load()) std::this_thread::yield();
    });
    for (int i = 0; i < 100; ++i) pool.push([&] { ++count; });
    check::wait_until([&] { return begun.load(); });
    pool.cancel();
    go = true;
    throw std::runtime_error("unwinds");
  }) == "unwinds");
  CHECK(count.load() < 100);
}

TEST(pools_can_be_resized) {
  regatta::ThreadPool pool(1);
  pool.resize(3);
  CHECK(pool.getNumThreads() == 3);
  pool.setNumThreads(0);
  std::atomic<int> count(0);
  pool.push([&] { ++count; });
  CHECK(count.load() == 1);
}

TEST(free_functions_use_the_pool_of_the_process) {
  regatta::set_default_threads(4);
  std::atomic<int> sum(0);
  for (int i = 0; i < 1000; ++i) regatta::push([&sum](int value) { sum += value; }, i);
  regatta::wait();
  CHECK(sum.load() == 499500);
  CHECK(regatta::pushReturn([] { return 3; }).get() == 3);
  CHECK(regatta::async([](int i) { return i + 1; }, 3).get() == 4);
  regatta::ThreadPool& global = regatta::ThreadPool::globalInstance();
  CHECK(global.getNumThreads() == 4);
  global.push([&] { sum = 1; });
  global.wait();
  CHECK(sum.load() == 1);
  global.resize(2);
  CHECK(regatta::defaultThreads() == 2);
  global.resize(4);
}

TEST(many_threads_push_at_once) {
  regatta::ThreadPool pool(2);
  std::atomic<int> count(0);
  std::vector<std::thread> pushers;
  for (int i = 0; i < 8; ++i) {
    pushers.emplace_back([&] {
      for (int j = 0; j < 2000; ++j) pool.push([&] { ++count; });
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  pool.wait();
  CHECK(count.load() == 16000);
}
