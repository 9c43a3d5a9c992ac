#include <cmath>
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
