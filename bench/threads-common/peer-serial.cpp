#include <R_ext/Utils.h>

#include <thread>
#include <vector>

#include "cells.hpp"

namespace {

struct Loop {
  template <class Body>
  static void run(int size, const Body& body) {
    for (int i = 0; i < size; ++i) body(i);
  }
};

void create(int threads) {
  std::vector<std::thread> all;
  all.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) all.emplace_back([] {});
  for (std::thread& thread : all) thread.join();
}

void check_main(int times) {
  for (int i = 0; i < times; ++i) R_CheckUserInterrupt();
}

BenchPeer serial_peer() {
  BenchPeer peer = bench::Cells<Loop>::peer("serial");
  peer.empty_push = peer.empty_function;
  return peer;
}

// The yardsticks of cells that have no serial form.
BenchPeer thread_peer() {
  BenchPeer peer = {};
  peer.name = "std::thread";
  peer.create = create;
  return peer;
}

BenchPeer r_peer() {
  BenchPeer peer = {};
  peer.name = "R_CheckUserInterrupt";
  peer.check_main = check_main;
  return peer;
}

const BenchRegistration registered_serial(serial_peer());
const BenchRegistration registered_r(r_peer());
const BenchRegistration registered_thread(thread_peer());

}  // namespace
