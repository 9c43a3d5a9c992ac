#include <omp.h>

#include "cells.hpp"

namespace {

struct StaticLoop {
  template <class Body>
  static void run(int size, const Body& body) {
#pragma omp parallel for schedule(static) num_threads(bench_threads)
    for (int i = 0; i < size; ++i) body(i);
  }
};

struct DynamicLoop {
  template <class Body>
  static void run(int size, const Body& body) {
#pragma omp parallel for schedule(dynamic) num_threads(bench_threads)
    for (int i = 0; i < size; ++i) body(i);
  }
};

struct GuidedLoop {
  template <class Body>
  static void run(int size, const Body& body) {
#pragma omp parallel for schedule(guided) num_threads(bench_threads)
    for (int i = 0; i < size; ++i) body(i);
  }
};

void push(int jobs) {
#pragma omp parallel num_threads(bench_threads)
#pragma omp single
  for (int i = 0; i < jobs; ++i) {
#pragma omp task firstprivate(i)
    bench_empty_job(i);
  }
}

BenchPeer task_peer() {
  BenchPeer peer = {};
  peer.name = "OpenMP task";
  peer.empty_push = push;
  return peer;
}

const BenchRegistration registered_static(bench::Cells<StaticLoop>::peer("OpenMP static"));
const BenchRegistration registered_dynamic(bench::Cells<DynamicLoop>::peer("OpenMP dynamic"));
const BenchRegistration registered_guided(bench::Cells<GuidedLoop>::peer("OpenMP guided"));
const BenchRegistration registered_task(task_peer());

}  // namespace
