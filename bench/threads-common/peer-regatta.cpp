#include <regatta/regatta.hpp>

namespace api = regatta;

#include "same-names.hpp"

namespace {

// Waits that only this library has.

void wait_reduce() {
  api::parallelReduce(0, units_of(1e-3), 0, [](int) {
    busy(1e-3);
    return 1;
  });
}

int slow_sum(int a, int b) {
  busy(1e-3);
  return a + b;
}

// Each element is combined twice.
void wait_scan() {
  std::vector<int> x(static_cast<std::size_t>(units_of(1e-3) / 2), 1);
  api::parallelScan(x.begin(), x.end(), x.begin(), 0, slow_sum);
}

void wait_invoke() {
  const auto part = [] { Loop::run(units_of(1e-3) / 2, [](int) { busy(1e-3); }); };
  api::parallelInvoke(part, part);
}

std::vector<BenchWait> all_waits() {
  std::vector<BenchWait> all(std::begin(waits), std::end(waits));
  all.push_back({"parallelReduce", wait_reduce});
  all.push_back({"parallelScan", wait_scan});
  all.push_back({"parallelInvoke of two loops", wait_invoke});
  return all;
}

BenchPeer regatta_peer() {
  static const std::vector<BenchWait> all = all_waits();
  BenchPeer peer = same_names_peer("regatta");
  peer.waits = all.data();
  peer.wait_count = all.size();
  return peer;
}

const BenchRegistration registered(regatta_peer());

}  // namespace
