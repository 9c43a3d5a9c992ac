#include <cstdint>
#include <functional>
#include <limits>
#include <regatta/core.hpp>
#include <set>
#include <vector>

#include "check.hpp"

namespace {

// How often each index of a loop was visited.
class Visits {
 public:
  explicit Visits(std::size_t size) : counts_(new std::atomic<int>[size]), size_(size) {
    for (std::size_t i = 0; i < size; ++i) counts_[i].store(0);
  }
  void add(std::size_t i) { counts_[i].fetch_add(1, std::memory_order_relaxed); }
  bool all_are(int wanted) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (counts_[i].load() != wanted) return false;
    }
    return true;
  }
  std::size_t at_least_once() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += counts_[i].load() > 0;
    return count;
  }

 private:
  std::unique_ptr<std::atomic<int>[]> counts_;
  std::size_t size_;
};

void busy(int turns) {
  for (int i = 0; i < turns; ++i) regatta::detail::pause_cpu();
}

// Most threads that were inside at the same time.
class Crowd {
 public:
  Crowd() : inside_(0), most_(0) {}
  template <class Body>
  void visit(const Body& body) {
    const int now = inside_.fetch_add(1) + 1;
    int most = most_.load();
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
    body();
    inside_.fetch_sub(1);
  }
  int most() const { return most_.load(); }

 private:
  std::atomic<int> inside_, most_;
};

std::atomic<std::int64_t> taken{0};
void take_int(int i) { taken.fetch_add(i); }

// Two ways to be called, of which one takes the index as it is.
struct Overloaded {
  void operator()(std::size_t i) const { taken.fetch_add(static_cast<std::int64_t>(i)); }
  void operator()(const char*) const { taken.fetch_add(1000); }
};

}  // namespace

TEST(for_visits_each_index_once) {
  for (std::size_t size : {0U, 1U, 2U, 3U, 7U, 100U, 1000U, 4097U, 100000U}) {
    for (std::size_t threads : {0U, 1U, 2U, 3U, 4U, 100U}) {
      for (std::size_t batches : {0U, 1U, 3U, 1000U}) {
        Visits visits(size);
        regatta::parallelFor(std::size_t(0), size, [&](std::size_t i) { visits.add(i); }, threads,
                             batches);
        CHECK(visits.all_are(1));
      }
    }
  }
}

TEST(for_with_uneven_bodies) {
  for (int round = 0; round < 50; ++round) {
    Visits visits(500);
    regatta::parallelFor(0, 500, [&](int i) {
      busy((i * 7919) % 97 == 0 ? 3000 : i % 13);
      visits.add(static_cast<std::size_t>(i));
    });
    CHECK(visits.all_are(1));
  }
}

TEST(for_takes_any_pair_of_bounds) {
  std::atomic<long> sum(0);
  regatta::parallelFor(-50, 50, [&](int i) { sum += i; });
  CHECK(sum.load() == -50);
  sum = 0;
  regatta::parallelFor(0, std::size_t(100), [&](int i) { sum += i; });
  CHECK(sum.load() == 4950);
  sum = 0;
  regatta::parallelFor(short(5), 10L, [&](long i) { sum += i; });
  CHECK(sum.load() == 35);
  sum = 0;
  regatta::parallelFor(std::uint8_t(250), std::uint8_t(255), [&](int i) { sum += i; });
  CHECK(sum.load() == 1260);
  sum = 0;
  regatta::parallelFor(10, 5, [&](int) { ++sum; });
  CHECK(sum.load() == 0);
}

// That this compiles without a warning is half of the test.
TEST(for_bodies_take_the_index_as_they_declare_it) {
  const std::size_t n = 5;
  const std::int64_t sum = 10;
  const auto adds = [&](const std::function<void()>& loop) {
    taken.store(0);
    loop();
    return taken.load() == sum;
  };
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, [](int i) { taken.fetch_add(i); }); }));
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, [](const int& i) { taken.fetch_add(i); }); }));
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, [](std::size_t& i) { take_int(static_cast<int>(i)); }); }));
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, [](double i) { take_int(static_cast<int>(i)); }); }));
  CHECK(adds([&] { regatta::parallelFor(0, 5, [](std::size_t i) { take_int(static_cast<int>(i)); }); }));
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, take_int); }));
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, Overloaded()); }));
  int count = 0;
  auto counts = [count](int i) mutable { taken.fetch_add(i + 0 * ++count); };
  CHECK(adds([&] { regatta::parallelFor(std::size_t(0), n, counts); }));
}

TEST(for_indices_have_64_bits) {
  const std::int64_t begin = std::int64_t(1) << 40;
  std::atomic<std::int64_t> wrong(0), seen(0);
  regatta::parallelFor(begin, begin + 1000, [&](std::int64_t i) {
    if (i < begin || i >= begin + 1000) ++wrong;
    seen += i - begin;
  });
  CHECK(wrong.load() == 0);
  CHECK(seen.load() == 499500);

  // More indices than 32 bits count, cut short.
  regatta::Cancellation enough;
  std::atomic<std::int64_t> count(0);
  const std::int64_t end = std::int64_t(1) << 34;
  regatta::parallelFor(std::int64_t(0), end, [&](std::int64_t i) {
    if (i < 0 || i >= end) ++wrong;
    if (++count >= 100000) enough.request();
  }, enough);
  CHECK(wrong.load() == 0);
  CHECK(count.load() >= 100000);
  CHECK(count.load() < 10000000);
}

TEST(for_covers_all_with_units_of_many) {
  for (std::size_t batches : {2U, 3U, 7U, 64U}) {
    Visits visits(1000);
    std::mutex mutex;
    std::set<std::size_t> starts;
    std::size_t previous = 0;
    regatta::parallelFor(std::size_t(0), std::size_t(1000), [&](std::size_t i) {
      visits.add(i);
      static thread_local std::size_t last = std::numeric_limits<std::size_t>::max();
      std::lock_guard<std::mutex> lock(mutex);
      if (i == 0 || last != i - 1) starts.insert(i);
      last = i;
      previous = i;
    }, 4, batches);
    CHECK(visits.all_are(1));
    // Each batch is done at a stretch, so that a thread goes elsewhere only at a border of two.
    const std::size_t step = (1000 - 1) / batches + 1;
    bool on_borders = true;
    for (std::size_t start : starts) on_borders = on_borders && start % step == 0;
    CHECK(on_borders);
  }
}

TEST(for_uses_no_more_threads_than_asked) {
  for (int threads : {1, 2, 3}) {
    Crowd crowd;
    regatta::parallelFor(0, 200, [&](int) { crowd.visit([] { busy(300); }); },
                         static_cast<std::size_t>(threads));
    CHECK(crowd.most() <= threads);
  }
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> elsewhere(0);
  regatta::parallelFor(0, 1000, [&](int) { elsewhere += std::this_thread::get_id() != self; }, 0);
  CHECK(elsewhere.load() == 0);
}

TEST(for_keeps_out_workers_that_look_for_work) {
  for (int round = 0; round < 5; ++round) {
    Crowd crowd;
    std::atomic<int> ended(0);
    // Workers are at tasks until the loop has begun, and look for more while it runs.
    for (int i = 0; i < 3; ++i) {
      regatta::push([&] {
        CHECK(check::wait_until([&] { return crowd.most() > 0; }));
        ++ended;
      });
    }
    regatta::parallelFor(0, 400, [&](int) {
      crowd.visit([&] {
        CHECK(check::wait_until([&] { return ended.load() == 3; }));
        busy(3000);
      });
    }, 2);
    CHECK(crowd.most() <= 2);
    regatta::wait();
  }
}

TEST(for_uses_all_threads_for_long_bodies) {
  // Each body waits for the others, which only works if all run at the same time.
  std::atomic<int> arrived(0);
  regatta::parallelFor(0, 4, [&](int) {
    ++arrived;
    CHECK(check::wait_until([&] { return arrived.load() == 4; }));
  });
  CHECK(arrived.load() == 4);
}

TEST(for_calls_helpers_that_sleep) {
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived(0);
    regatta::parallelFor(0, 2, [&](int) {
      ++arrived;
      CHECK(check::wait_until([&] { return arrived.load() == 2; }));
    });
  }
}

TEST(small_loops_stay_in_the_caller) {
  if (check::thread_sanitizer) return check::skip("with the thread sanitizer no loop is small");
  regatta::set_default_threads(4);
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> elsewhere(0);
  for (int round = 0; round < 100; ++round) {
    regatta::parallelFor(0, 50, [&](int) { elsewhere += std::this_thread::get_id() != self; });
  }
  // A worker may look at a loop while the system lets its caller wait, so not always zero.
  CHECK(elsewhere.load() < 2500);
}

TEST(for_each_visits_each_item) {
  std::vector<double> x(1000, 1.0);
  regatta::parallelForEach(x, [](double& value) { value *= 2.0; });
  regatta::parallelForEach(x, [](double& value) { value += 1.0; }, 3, 10);
  bool right = true;
  for (double value : x) right = right && value == 3.0;
  CHECK(right);
  int plain[10] = {};
  regatta::parallelForEach(plain, [](int& value) { value = 7; });
  CHECK(plain[0] == 7 && plain[9] == 7);
  const std::vector<int> fixed(100, 2);
  std::atomic<int> sum(0);
  regatta::parallelForEach(fixed, [&](const int& value) { sum += value; });
  CHECK(sum.load() == 200);
}

TEST(nested_loops_are_complete) {
  for (int round = 0; round < 20; ++round) {
    Visits visits(100 * 100);
    regatta::parallelFor(0, 100, [&](int i) {
      regatta::parallelFor(0, 100, [&, i](int j) {
        visits.add(static_cast<std::size_t>(i * 100 + j));
      });
    });
    CHECK(visits.all_are(1));
  }
}

TEST(deeply_nested_loops_are_complete) {
  std::atomic<int> count(0);
  const auto again = [&count](int) {
    regatta::parallelFor(0, 4, [&count](int) {
      regatta::parallelFor(0, 4, [&count](int) {
        regatta::parallelFor(0, 4, [&count](int) { ++count; });
      });
    });
  };
  regatta::parallelFor(0, 4, [&](int i) { regatta::parallelFor(0, 4, [&](int) { again(i); }); });
  CHECK(count.load() == 4 * 4 * 4 * 4 * 4);
}

TEST(nested_loops_share_the_threads) {
  Crowd crowd;
  regatta::parallelFor(0, 8, [&](int) {
    regatta::parallelFor(0, 8, [&](int) { crowd.visit([] { busy(500); }); });
  });
  CHECK(crowd.most() <= 4);
}

TEST(waiting_callers_help_inside) {
  // One body ends at once, the other opens a loop that needs a second thread to end.
  std::atomic<int> arrived(0);
  regatta::parallelFor(0, 2, [&](int i) {
    if (i == 0) return;
    regatta::parallelFor(0, 2, [&](int) {
      ++arrived;
      CHECK(check::wait_until([&] { return arrived.load() == 2; }));
    }, 2);
  }, 2);
  CHECK(arrived.load() == 2);
}

TEST(loops_of_many_threads_at_once) {
  std::vector<std::thread> callers;
  std::atomic<long> sum(0);
  for (int caller = 0; caller < 10; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        regatta::parallelFor(0, 200, [&](int i) { sum += i; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(sum.load() == 10L * 50L * 19900L);
}

TEST(the_first_exception_reaches_the_caller) {
  for (std::size_t threads : {1U, 4U}) {
    CHECK(check::thrown([&] {
      regatta::parallelFor(0, 1000, [](int i) {
        if (i == 500) throw std::runtime_error("five hundred");
      }, threads);
    }) == "five hundred");
    CHECK(regatta::suppressedExceptions() == 0);
  }
  CHECK(check::thrown([] { regatta::parallelFor(0, 3, [](int) { throw 5; }); }) == "?");
}

TEST(later_exceptions_are_counted) {
  std::atomic<int> arrived(0);
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 4, [&](int) {
      ++arrived;
      check::wait_until([&] { return arrived.load() == 4; });
      throw std::runtime_error("each");
    });
  }) == "each");
  CHECK(regatta::suppressedExceptions() == 3);
}

TEST(an_exception_ends_the_loop_early) {
  std::atomic<int> count(0);
  check::thrown([&] {
    regatta::parallelFor(0, 1000000, [&](int i) {
      ++count;
      busy(100);
      if (i == 10) regatta::stop("enough");
    });
  });
  CHECK(count.load() < 1000000);
}

TEST(exceptions_of_nested_loops_reach_the_outermost) {
  for (int round = 0; round < 50; ++round) {
    CHECK(check::thrown([&] {
      regatta::parallelFor(0, 20, [&](int i) {
        regatta::parallelFor(0, 20, [&, i](int j) {
          if (i == round % 20 && j == 7) throw std::runtime_error("inner");
        });
      });
    }) == "inner");
  }
}

TEST(an_exception_changes_no_pool) {
  const std::size_t before = regatta::defaultThreads();
  check::thrown([] { regatta::parallelFor(0, 10, [](int) { throw 1; }, 1); });
  CHECK(regatta::defaultThreads() == before);
  std::atomic<int> arrived(0);
  regatta::parallelFor(0, 2, [&](int) {
    ++arrived;
    CHECK(check::wait_until([&] { return arrived.load() == 2; }));
  });
}

TEST(set_error_ends_the_loop) {
  std::atomic<int> count(0);
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 1000000, [&](int i) noexcept {
      ++count;
      busy(100);
      if (i == 10) regatta::setError("no value at 10");
    });
  }) == "no value at 10");
  CHECK(count.load() < 1000000);
  CHECK(check::thrown([] { regatta::setError("outside"); }) == "outside");
}

TEST(cancellation_ends_loops_without_error) {
  regatta::Cancellation token;
  std::atomic<int> count(0);
  regatta::parallelFor(0, 1000000, [&](int i) {
    ++count;
    busy(100);
    if (i == 10) token.request();
  }, token);
  CHECK(count.load() < 1000000);
  count = 0;
  std::vector<int> items(100);
  regatta::parallelForEach(items, [&](int&) { ++count; }, token);
  CHECK(count.load() == 0);
}

TEST(a_body_may_change_its_state) {
  struct Counter {
    int calls;
    void operator()(int) { ++calls; }
  };
  Counter counter = {0};
  regatta::parallelFor(0, 10, counter, 1);
  CHECK(counter.calls == 10);
}
