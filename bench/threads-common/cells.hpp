#ifndef BENCH_CELLS_HPP
#define BENCH_CELLS_HPP

// The work that every peer is given, written once against a peer's `loop(size, body)`. Each peer is
// its own translation unit, so that its compiler flags and macros stay its own.

#include <chrono>
#include <memory>
#include <thread>

#include "kde.h"
#include "kendall.h"
#include "peer.h"

namespace bench {

const int grid_points = 500;

// An empty body that the optimiser has to keep: it may not know what reads `i`.
struct EmptyJob {
  void operator()(int i) const { __asm__ volatile("" : : "r"(i)); }
};

// The data are the seconds that each unit takes; most of them take none.
struct SleepUnit {
  void operator()(int i) const {
    if (bench_x[i] > 0.0) std::this_thread::sleep_for(std::chrono::duration<double>(bench_x[i]));
  }
};

struct BusyUnit {
  void operator()(int i) const {
    if (bench_x[i] <= 0.0) return;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - start).count() < bench_x[i]) {
    }
  }
};

// One variable of the data per index, as in the paper.
struct KdeColumn {
  int n;
  void operator()(int j) const {
    const double* x = bench_x + static_cast<std::ptrdiff_t>(j) * n;
    double* out = bench_out + static_cast<std::ptrdiff_t>(j) * grid_points;
    for (int k = 0; k < grid_points; ++k) {
      out[k] = threadstats::kde_at(x, static_cast<std::size_t>(n), 0.3, -3.0 + 0.012 * k);
    }
  }
};

// One row of the upper triangle per index: row 0 has d - 1 pairs, the last has none. Splitting
// only this outer loop is what the paper does; the imbalance is the point of the cell.
struct KendallRow {
  int n;
  int d;
  void operator()(int i) const {
    const double* x = bench_x;
    const threadstats::ColumnOrder column =
        threadstats::order_column(x + static_cast<std::ptrdiff_t>(i) * n, n);
    std::unique_ptr<double[]> scratch(new double[2 * static_cast<std::size_t>(n)]);
    for (int j = i + 1; j < d; ++j) {
      bench_out[static_cast<std::ptrdiff_t>(i) * d + j] = threadstats::kendall_tau(
          column, x + static_cast<std::ptrdiff_t>(j) * n, n, scratch.get());
    }
  }
};

template <class Loop>
struct Cells {
  static void empty_inline(int jobs) { Loop::run(jobs, EmptyJob()); }
  static void empty_function(int jobs) { Loop::run(jobs, bench_empty_job); }
  static void sleep_units(int units) { Loop::run(units, SleepUnit()); }
  static void busy_units(int units) { Loop::run(units, BusyUnit()); }
  static void kde(int n, int d) { Loop::run(d, KdeColumn{n}); }
  static void kendall(int n, int d) { Loop::run(d, KendallRow{n, d}); }

  static BenchPeer peer(const char* name) {
    BenchPeer peer = {};
    peer.name = name;
    peer.empty_inline = empty_inline;
    peer.empty_function = empty_function;
    peer.sleep_units = sleep_units;
    peer.busy_units = busy_units;
    peer.kde = kde;
    peer.kendall = kendall;
    return peer;
  }
};

}  // namespace bench

#endif
