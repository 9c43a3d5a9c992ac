// The cells of run.R, compiled once for each peer and run in a process of its own.
#include <cstdio>
#include <cstring>
#include <vector>

#if defined(PEER_RCPPTHREAD)
#include <RcppThread.h>
namespace api = RcppThread;
#elif defined(PEER_RCPPPARALLEL)
#include <RcppParallel.h>
#else
#include <regatta/regatta.hpp>
namespace api = regatta;
#endif

namespace {

// A number of kB in /proc/self/status.
double bytes_now(const char* name) {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  char line[256];
  double kilobytes = 0.0;
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) std::sscanf(line + std::strlen(name), ": %lf", &kilobytes);
  }
  if (file) std::fclose(file);
  return 1024.0 * kilobytes;
}

void forget_peak() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  std::fputs("5", file);
  std::fclose(file);
}

double value(int row, std::size_t column) { return static_cast<double>(row % 7) + static_cast<double>(column % 3); }

using Sums = std::vector<double>;

void add_row(Sums& sums, int row) {
  for (std::size_t column = 0; column < sums.size(); ++column) sums[column] += value(row, column);
}

void add_sums(Sums& sums, const Sums& others) {
  for (std::size_t column = 0; column < sums.size(); ++column) sums[column] += others[column];
}

#if defined(PEER_RCPPPARALLEL)

void tasks(int, int) {}

struct Reducer : RcppParallel::Worker {
  explicit Reducer(std::size_t columns) : sums(columns) {}
  Reducer(const Reducer& from, RcppParallel::Split) : sums(from.sums.size()) {}
  void operator()(std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) add_row(sums, static_cast<int>(row));
  }
  void join(const Reducer& other) { add_sums(sums, other.sums); }
  Sums sums;
};

Sums reduction(int rows, int columns, int threads) {
  Reducer reducer(static_cast<std::size_t>(columns));
  RcppParallel::parallelReduce(0, static_cast<std::size_t>(rows), reducer, 1, threads);
  return reducer.sums;
}

#else

void tasks(int count, int threads) {
  api::ThreadPool pool(static_cast<std::size_t>(threads));
  for (int i = 0; i < count; ++i) pool.push([i] { __asm__ volatile("" : : "r"(i)); });
  pool.wait();
}

#if defined(PEER_RCPPTHREAD)

Sums reduction(int, int, int) { return Sums(); }

#else

struct Row {
  int number;
};

struct Add {
  Sums operator()(Sums sums, Row row) const {
    add_row(sums, row.number);
    return sums;
  }
  Sums operator()(Sums sums, const Sums& others) const {
    add_sums(sums, others);
    return sums;
  }
};

Sums reduction(int rows, int columns, int threads) {
  return api::parallelReduce(0, rows, Sums(static_cast<std::size_t>(columns)), [](int i) { return Row{i}; }, Add(),
                             static_cast<std::size_t>(threads));
}

#endif
#endif

}  // namespace

// Bytes that the resident set has grown by at its peak and afterwards, and a sum of what was computed.
extern "C" void bench_memory(char** cell, int* size, int* threads, double* peak, double* kept, double* sum) {
  const bool reduces = std::strcmp(*cell, "reduction") == 0;
  // The threads are there, and what the first call allocates.
  if (reduces) reduction(4, 10, *threads);
  else tasks(100, *threads);
  forget_peak();
  const double before = bytes_now("VmRSS");
  *sum = 0.0;
  if (reduces) {
    for (double one : reduction(2000, *size, *threads)) *sum += one;
  } else {
    tasks(*size, *threads);
  }
  *peak = bytes_now("VmHWM") - before;
  *kept = bytes_now("VmRSS") - before;
}
