#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <cstddef>
#include <functional>

// A loop or wait that takes some seconds unless an interrupt ends it.
struct BenchWait {
  const char* name;
  void (*run)();
};

// What one peer can be asked to run. An entry that the peer has no counterpart for is null.
struct BenchPeer {
  const char* name;
  void (*empty_inline)(int jobs);
  void (*empty_function)(int jobs);
  void (*empty_push)(int jobs);
  void (*sleep_units)(int units);
  void (*busy_units)(int units);
  void (*kde)(int n, int d);
  void (*kendall)(int n, int d);
  void (*create)(int threads);
  void (*check_main)(int times);
  void (*check_child)(int times);
  const BenchWait* waits;
  std::size_t wait_count;
};

// A translation unit that defines one of these is a peer of every library it is linked into.
struct BenchRegistration {
  explicit BenchRegistration(const BenchPeer& peer);
};

// The number of threads each peer is held to; set before a peer runs for the first time.
extern int bench_threads;

// Defined in another translation unit, so that no compiler sees through the call.
extern const std::function<void(int)> bench_empty_job;

// Input and output of the two kernels: `x` holds at least n * d values.
extern const double* bench_x;
extern double* bench_out;

#endif
