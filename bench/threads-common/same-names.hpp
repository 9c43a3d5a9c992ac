#ifndef BENCH_SAME_NAMES_HPP
#define BENCH_SAME_NAMES_HPP

// The cells of the two libraries that share their names; whoever includes this has made the
// namespace `api` an alias of one of them.

#include <chrono>
#include <iterator>
#include <thread>
#include <vector>

#include "cells.hpp"

namespace {

struct Loop {
  template <class Body>
  static void run(int size, const Body& body) {
    api::parallelFor(0, size, body, static_cast<std::size_t>(bench_threads));
  }
};

void push(int jobs) {
  api::ThreadPool& pool = api::ThreadPool::globalInstance();
  for (int i = 0; i < jobs; ++i) pool.push(bench_empty_job, i);
  pool.wait();
}

void create(int threads) {
  std::vector<api::Thread> all;
  all.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) all.emplace_back([] {});
  for (api::Thread& thread : all) thread.join();
}

void check_main(int times) {
  for (int i = 0; i < times; ++i) api::checkUserInterrupt();
}

void check_child(int times) {
  std::thread child([times] { check_main(times); });
  child.join();
}

// Below: about two seconds of work each, to be cut short by an interrupt. The bodies do not look
// for it themselves, unless a thread of its own leaves nobody else to look.

void busy(double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
  }
}

const double interrupt_seconds = 2.0;

int units_of(double seconds) {
  return static_cast<int>(interrupt_seconds * bench_threads / seconds);
}

void wait_long_bodies() { Loop::run(units_of(1e-2), [](int) { busy(1e-2); }); }
void wait_short_bodies() { Loop::run(units_of(1e-6), [](int) { busy(1e-6); }); }

void wait_one_thread() {
  api::parallelFor(0, units_of(1e-3) / bench_threads, [](int) { busy(1e-3); }, 1);
}

void wait_nested() {
  Loop::run(units_of(1e-2), [](int) { Loop::run(10, [](int) { busy(1e-3); }); });
}

void wait_for_each() {
  std::vector<int> items(static_cast<std::size_t>(units_of(1e-3)));
  api::parallelForEach(items, [](int&) { busy(1e-3); },
                       static_cast<std::size_t>(bench_threads));
}

void wait_pool_wait() {
  api::ThreadPool pool(static_cast<std::size_t>(bench_threads));
  for (int i = 0; i < units_of(1e-3); ++i) pool.push([] { busy(1e-3); });
  pool.wait();
}

void wait_pool_join() {
  api::ThreadPool pool(static_cast<std::size_t>(bench_threads));
  for (int i = 0; i < units_of(1e-3); ++i) pool.push([] { busy(1e-3); });
  pool.join();
}

void wait_thread_join() {
  api::Thread thread([] {
    for (int i = 0; i < units_of(1e-3) / bench_threads; ++i) {
      busy(1e-3);
      api::checkUserInterrupt();
    }
  });
  thread.join();
}

const BenchWait waits[] = {{"parallelFor, bodies of 10 ms", wait_long_bodies},
                           {"parallelFor, bodies of 1 us", wait_short_bodies},
                           {"parallelFor, one thread", wait_one_thread},
                           {"parallelFor, nested", wait_nested},
                           {"parallelForEach", wait_for_each},
                           {"ThreadPool::wait", wait_pool_wait},
                           {"ThreadPool::join", wait_pool_join},
                           {"Thread::join", wait_thread_join}};

BenchPeer same_names_peer(const char* name) {
  BenchPeer peer = bench::Cells<Loop>::peer(name);
  peer.empty_push = push;
  peer.create = create;
  peer.check_main = check_main;
  peer.check_child = check_child;
  peer.waits = waits;
  peer.wait_count = sizeof waits / sizeof *waits;
  return peer;
}

}  // namespace

#endif
