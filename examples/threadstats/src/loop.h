#ifndef THREADSTATS_LOOP_H
#define THREADSTATS_LOOP_H

#include <cstddef>

#include <regatta/regatta.hpp>

namespace threadstats {

struct LoopOptions {
  std::size_t threads;  // 0: as many as the pool of the process has
  bool progress;
};

inline LoopOptions loop_options(SEXP threads, SEXP progress) {
  return {static_cast<std::size_t>(Rf_asInteger(threads)), Rf_asLogical(progress) == TRUE};
}

template <class Body>
void run_loop(std::ptrdiff_t size, const LoopOptions& options, const Body& body) {
  if (options.threads == 0) {
    regatta::parallelFor(0, size, body);
  } else {
    regatta::parallelFor(0, size, body, options.threads);
  }
}

// Calls body(i) for 0 <= i < size on the threads of the pool, which stops at an interrupt and
// rethrows the first exception of a body here. The bar is updated once per second.
template <class Body>
void for_each_index(std::ptrdiff_t size, const LoopOptions& options, const Body& body) {
  if (!options.progress || size == 0) {
    run_loop(size, options, body);
    return;
  }
  regatta::ProgressBar bar(static_cast<std::size_t>(size), 1);
  run_loop(size, options, [&bar, &body](std::ptrdiff_t i) {
    body(i);
    ++bar;
  });
}

}  // namespace threadstats

#endif
