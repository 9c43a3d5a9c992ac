#include <cmath>
#include <limits>
#include <numeric>
#include <regatta/core.hpp>
#include <string>
#include <vector>

#include "check.hpp"

TEST(reduce_sums) {
  CHECK(regatta::parallelReduce(0, 1000, 0, [](int i) { return i; }) == 499500);
  CHECK(regatta::parallelReduce(0, 0, 7, [](int i) { return i; }) == 7);
  const double most = regatta::parallelReduce(
      0, 12345, -1.0, [](int i) { return std::sin(i); },
      [](double a, double b) { return a > b ? a : b; });
  CHECK(most > 0.999);
}

TEST(reduce_keeps_the_order_of_terms) {
  const std::string text = regatta::parallelReduce(
      0, 3000, std::string(), [](int i) { return std::string(1, static_cast<char>('a' + i % 26)); },
      [](const std::string& a, const std::string& b) { return a + b; });
  bool right = text.size() == 3000;
  for (std::size_t i = 0; right && i < text.size(); ++i) {
    right = text[i] == static_cast<char>('a' + static_cast<int>(i % 26));
  }
  CHECK(right);
}

TEST(reduce_is_the_same_on_any_number_of_threads) {
  const auto term = [](int i) { return 1.0 / (1.0 + i); };
  const double one = regatta::parallelReduce(0, 100001, 0.0, term, std::plus<double>(), 1);
  for (std::size_t threads : {2U, 3U, 4U}) {
    for (int round = 0; round < 5; ++round) {
      CHECK(regatta::parallelReduce(0, 100001, 0.0, term, std::plus<double>(), threads) == one);
    }
  }
}

TEST(scan_gives_partial_sums) {
  for (std::size_t size : {0U, 1U, 5U, 2048U, 2049U, 100000U}) {
    std::vector<long> x(size), wanted(size);
    std::iota(x.begin(), x.end(), 1L);
    std::partial_sum(x.begin(), x.end(), wanted.begin());
    std::vector<long> out(size);
    regatta::parallelScan(x.begin(), x.end(), out.begin());
    CHECK(out == wanted);
    regatta::parallelScan(x.begin(), x.end(), x.begin());
    CHECK(x == wanted);
  }
  const std::vector<int> x = {3, 1, 4, 1, 5};
  std::vector<int> most(5);
  regatta::parallelScan(x.begin(), x.end(), most.begin(), 0,
                        [](int a, int b) { return a > b ? a : b; });
  CHECK((most == std::vector<int>{3, 3, 4, 4, 5}));
}

TEST(invoke_calls_all) {
  std::atomic<int> sum(0);
  regatta::parallelInvoke([&] { sum += 1; }, [&] { sum += 10; }, [&] { sum += 100; });
  CHECK(sum.load() == 111);
  CHECK(check::thrown([] {
    regatta::parallelInvoke([] {}, [] { regatta::stop("second"); });
  }) == "second");
}

TEST(per_thread_values_are_private) {
  regatta::PerThread<int> counts([] { return 0; });
  regatta::parallelFor(0, 10000, [&](int) { ++counts.local(); });
  CHECK(counts.combine(0, std::plus<int>()) == 10000);
  int threads = 0;
  counts.forEach([&](int& value) {
    CHECK(value >= 0);
    ++threads;
  });
  CHECK(threads >= 1 && threads <= 5);
  regatta::PerThread<std::vector<double>> plain;
  plain.local().push_back(1.0);
  CHECK(plain.local().size() == 1);
}

TEST(reduce_holds_few_values_at_a_time) {
  // Counts itself, as the memory of a large accumulator would be counted.
  struct Counted {
    explicit Counted(std::atomic<int>* now, std::atomic<int>* most, long long value)
        : now_(now), most_(most), sum(value) { begin(); }
    Counted(const Counted& other) : now_(other.now_), most_(other.most_), sum(other.sum) { begin(); }
    Counted(Counted&& other) noexcept : now_(other.now_), most_(other.most_), sum(other.sum) {
      other.now_ = nullptr;
    }
    Counted& operator=(Counted&& other) noexcept {
      end();
      now_ = other.now_;
      sum = other.sum;
      other.now_ = nullptr;
      return *this;
    }
    ~Counted() { end(); }
    void begin() {
      const int count = ++*now_;
      int most = most_->load();
      while (count > most && !most_->compare_exchange_weak(most, count)) {
      }
    }
    void end() {
      if (now_) --*now_;
    }
    std::atomic<int>* now_;
    std::atomic<int>* most_;
    long long sum;
  };
  for (int threads : {1, 2, 4}) {
    std::atomic<int> now(0), most(0);
    const Counted zero(&now, &most, 0);
    const Counted sum = regatta::parallelReduce(
        0, 100000, zero, [&](int i) { return Counted(&now, &most, i); },
        [](Counted a, Counted b) {
          a.sum += b.sum;
          return a;
        }, static_cast<std::size_t>(threads));
    CHECK(sum.sum == 4999950000LL);
    CHECK(most.load() < 10 + 30 * threads);
    CHECK(now.load() == 2);
  }
}

TEST(reduce_takes_any_bounds) {
  const int low = std::numeric_limits<int>::min(), high = std::numeric_limits<int>::max();
  // Too many to be counted one by one: the first ends it.
  CHECK(check::thrown([&] {
    regatta::parallelReduce(low, high, 0LL, [](int i) -> long long {
      if (i > -2147400000) throw std::runtime_error("far enough");
      return i;
    }, std::plus<long long>(), 2);
  }) == "far enough");
  CHECK(regatta::parallelReduce(high - 5, high, 0LL, [](int i) { return static_cast<long long>(i); }) ==
        5LL * high - 15LL);
  CHECK(regatta::parallelReduce(low, low + 5, 0LL, [](int i) { return static_cast<long long>(i); }) == 5LL * low + 10LL);
  CHECK(regatta::parallelReduce(-3000, 3001, 0LL, [](int i) { return static_cast<long long>(i); }) == 0LL);
  static_assert(sizeof(regatta::detail::IndexOf<int, unsigned>) == 8, "any two types of 32 bits");
}

TEST(reduce_throws_what_a_combination_throws) {
  CHECK(check::thrown([] {
    regatta::parallelReduce(0, 5000, 0, [](int i) { return i; }, [](int a, int b) -> int {
      if (a + b > 1000000) throw std::runtime_error("too much");
      return a + b;
    });
  }) == "too much");
}

TEST(scan_keeps_the_order_of_terms) {
  std::vector<std::string> x;
  for (int i = 0; i < 3000; ++i) x.push_back(std::string(1, static_cast<char>('a' + i % 26)));
  std::vector<std::string> wanted(x.size()), out(x.size());
  std::partial_sum(x.begin(), x.end(), wanted.begin());
  regatta::parallelScan(x.begin(), x.end(), out.begin());
  CHECK(out == wanted);
  // What comes last wins: associative, and far from commutative.
  std::vector<int> numbers(10000), last(10000);
  std::iota(numbers.begin(), numbers.end(), 1);
  regatta::parallelScan(numbers.begin(), numbers.end(), last.begin(), 0,
                        [](int a, int b) { return b != 0 ? b : a; });
  CHECK(last == numbers);
}

namespace {

// Neither moved nor copied, and refers to itself.
struct Fixed {
  Fixed() : self(this), uses(0) {}
  Fixed(const Fixed&) = delete;
  Fixed& operator=(const Fixed&) = delete;
  Fixed* self;
  int uses;
};

}  // namespace

TEST(per_thread_values_stay_where_they_are_made) {
  regatta::PerThread<Fixed> values;
  std::atomic<int> moved(0);
  regatta::parallelFor(0, 1000, [&](int) {
    Fixed& mine = values.local();
    ++mine.uses;
    moved += mine.self != &mine;
  });
  CHECK(moved.load() == 0);
  int uses = 0;
  values.forEach([&](Fixed& one) { uses += one.uses; });
  CHECK(uses == 1000);
#if __cplusplus >= 201703L
  regatta::PerThread<Fixed> made([] { return Fixed(); });
  CHECK(made.local().self == &made.local());
#endif
}

TEST(per_thread_numbers_are_dense) {
  regatta::PerThread<int> counts;
  std::atomic<int> arrived(0);
  std::vector<std::atomic<int>> users(4);
  for (std::atomic<int>& one : users) one = 0;
  regatta::parallelFor(0, 4, [&](int) {
    ++users[counts.index()];
    ++arrived;
    CHECK(check::wait_until([&] { return arrived.load() == 4; }));
  });
  CHECK(counts.size() == 4);
  bool each_once = true;
  for (std::atomic<int>& one : users) each_once = each_once && one == 1;
  CHECK(each_once);
}

TEST(matrix_views) {
  std::vector<double> data(12);
  std::iota(data.begin(), data.end(), 0.0);
  regatta::RMatrix<double> x(data.data(), 3, 4);
  CHECK(x.nrow() == 3 && x.ncol() == 4 && x.length() == 12);
  CHECK(x(1, 2) == 7.0 && x[7] == 7.0);
  auto row = x.row(1);
  CHECK(row.length() == 4 && row[2] == 7.0);
  CHECK(std::accumulate(row.begin(), row.end(), 0.0) == 1 + 4 + 7 + 10);
  CHECK(row.end() - row.begin() == 4);
  CHECK(*(row.begin() + 3) == 10.0 && row.begin()[1] == 4.0);
  auto column = x.column(3);
  CHECK(column.size() == 3 && column[0] == 9.0);
  std::fill(column.begin(), column.end(), -1.0);
  CHECK(data[11] == -1.0);
  std::fill(row.begin(), row.end(), 0.0);
  CHECK(data[4] == 0.0 && data[10] == 0.0);
  const regatta::RMatrix<double>& fixed = x;
  CHECK(fixed.row(0)[3] == -1.0);
}
