#include <RcppParallel.h>

#include "cells.hpp"

namespace {

template <class Body>
struct RangeWorker : public RcppParallel::Worker {
  explicit RangeWorker(const Body& body) : body(body) {}
  void operator()(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(static_cast<int>(i));
  }
  const Body& body;
};

struct Loop {
  template <class Body>
  static void run(int size, const Body& body) {
    RangeWorker<Body> worker(body);
    RcppParallel::parallelFor(0, static_cast<std::size_t>(size), worker, 1, bench_threads);
  }
};

const BenchRegistration registered(bench::Cells<Loop>::peer("RcppParallel"));

}  // namespace
