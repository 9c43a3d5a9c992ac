#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include "cells.hpp"

namespace {

// Set once: making the limit anew in every call would be part of what is measured.
void limit_threads() {
  static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                         static_cast<std::size_t>(bench_threads));
}

struct Loop {
  template <class Body>
  static void run(int size, const Body& body) {
    limit_threads();
    tbb::parallel_for(0, size, body);
  }
};

void push(int jobs) {
  limit_threads();
  tbb::task_group group;
  for (int i = 0; i < jobs; ++i) group.run([i] { bench_empty_job(i); });
  group.wait();
}

BenchPeer peer() {
  BenchPeer peer = bench::Cells<Loop>::peer("oneTBB");
  peer.empty_push = push;
  return peer;
}

const BenchRegistration registered(peer());

}  // namespace
