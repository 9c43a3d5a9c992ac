// The entries that the R scripts of the thread benchmarks call: all peers are loaded into one
// process and each call times one block of one of them, so that the scripts can let them take
// turns.

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "peer.h"

#define R_NO_REMAP
#include <R_ext/Utils.h>
#include <Rinternals.h>

int bench_threads = 2;
const std::function<void(int)> bench_empty_job = [](int i) { __asm__ volatile("" : : "r"(i)); };
const double* bench_x = nullptr;
double* bench_out = nullptr;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A function's static, since peers register while statics are still being made.
std::vector<BenchPeer>& peers() {
  static std::vector<BenchPeer> all;
  return all;
}

const BenchPeer& peer_named(SEXP name) {
  for (const BenchPeer& peer : peers()) {
    if (std::strcmp(peer.name, CHAR(STRING_ELT(name, 0))) == 0) return peer;
  }
  Rf_error("no peer is called %s", CHAR(STRING_ELT(name, 0)));
}

// One call of a cell with its one or two numbers; an empty function if the peer lacks the cell.
std::function<void()> cell_call(const BenchPeer& peer, const char* cell, int first, int second) {
  using Named = std::pair<const char*, void (*)(int)>;
  const Named of_one[] = {{"empty_inline", peer.empty_inline},
                          {"empty_function", peer.empty_function},
                          {"empty_push", peer.empty_push},
                          {"sleep_units", peer.sleep_units},
                          {"busy_units", peer.busy_units},
                          {"create", peer.create},
                          {"check_main", peer.check_main},
                          {"check_child", peer.check_child}};
  for (const Named& named : of_one) {
    void (*const run)(int) = named.second;
    if (std::strcmp(named.first, cell) != 0 || !run) continue;
    return [run, first] { run(first); };
  }
  void (*const kernel)(int, int) = std::strcmp(cell, "kde") == 0       ? peer.kde
                                   : std::strcmp(cell, "kendall") == 0 ? peer.kendall
                                                                       : nullptr;
  if (!kernel) return nullptr;
  return [kernel, first, second] { kernel(first, second); };
}

// Runs `body` where a C++ exception may come out; Rf_error only once nothing is left to destroy.
template <class Body>
double run_or_error(const Body& body) {
  char message[256];
  try {
    return body();
  } catch (const std::exception& error) {
    std::snprintf(message, sizeof message, "%s", error.what());
  }
  Rf_error("a benchmark cell failed: %s", message);
}

// Interrupts the main thread after `delay` seconds and returns how long the wait then still took:
// negative if it had already ended by itself.
double interrupted_after(void (*run)(), double delay) {
  const pthread_t main_thread = pthread_self();
  Clock::time_point sent;
  std::thread sender([main_thread, delay, &sent] {
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    sent = Clock::now();
    pthread_kill(main_thread, SIGINT);
  });
  try {
    run();
  } catch (const std::exception&) {
  }
  const Clock::time_point ended = Clock::now();
  sender.join();
  return std::chrono::duration<double>(ended - sent).count();
}

void check_interrupt(void*) { R_CheckUserInterrupt(); }

}  // namespace

BenchRegistration::BenchRegistration(const BenchPeer& peer) { peers().push_back(peer); }

extern "C" {

// x: the data of the kernels; room: how many results they may write; threads: for every peer.
SEXP bench_setup(SEXP x, SEXP room, SEXP threads) {
  static std::vector<double> data, results;
  data.assign(REAL(x), REAL(x) + Rf_xlength(x));
  results.assign(static_cast<std::size_t>(Rf_asReal(room)), 0.0);
  bench_x = data.data();
  bench_out = results.data();
  bench_threads = Rf_asInteger(threads);
  return R_NilValue;
}

SEXP bench_peers() {
  SEXP names = PROTECT(Rf_allocVector(STRSXP, static_cast<R_xlen_t>(peers().size())));
  R_xlen_t i = 0;
  for (const BenchPeer& peer : peers()) SET_STRING_ELT(names, i++, Rf_mkChar(peer.name));
  UNPROTECT(1);
  return names;
}

// Seconds per call over `times` calls after `warm` untimed ones; NA if the peer lacks the cell.
SEXP bench_time(SEXP name, SEXP cell, SEXP sizes, SEXP times, SEXP warm) {
  const BenchPeer& peer = peer_named(name);
  const char* what = CHAR(STRING_ELT(cell, 0));
  const int first = INTEGER(sizes)[0];
  const int second = Rf_length(sizes) > 1 ? INTEGER(sizes)[1] : 0;
  const int warm_calls = Rf_asInteger(warm), calls = Rf_asInteger(times);
  return Rf_ScalarReal(run_or_error([=, &peer] {
    const std::function<void()> call = cell_call(peer, what, first, second);
    if (!call) return NA_REAL;
    for (int i = 0; i < warm_calls; ++i) call();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return seconds_since(start) / calls;
  }));
}

// The first `count` results, which are then reset.
SEXP bench_results(SEXP count) {
  const R_xlen_t n = static_cast<R_xlen_t>(Rf_asReal(count));
  SEXP out = PROTECT(Rf_allocVector(REALSXP, n));
  for (R_xlen_t i = 0; i < n; ++i) {
    REAL(out)[i] = bench_out[i];
    bench_out[i] = 0.0;
  }
  UNPROTECT(1);
  return out;
}

SEXP bench_waits(SEXP name) {
  const BenchPeer& peer = peer_named(name);
  SEXP names = PROTECT(Rf_allocVector(STRSXP, static_cast<R_xlen_t>(peer.wait_count)));
  for (std::size_t i = 0; i < peer.wait_count; ++i) {
    SET_STRING_ELT(names, static_cast<R_xlen_t>(i), Rf_mkChar(peer.waits[i].name));
  }
  UNPROTECT(1);
  return names;
}

// Seconds from an interrupt, sent `delay` seconds after the start, to the end of the wait.
SEXP bench_interrupt(SEXP name, SEXP wait, SEXP delay) {
  const BenchPeer& peer = peer_named(name);
  const BenchWait& chosen = peer.waits[Rf_asInteger(wait) - 1];
  const double seconds = interrupted_after(chosen.run, Rf_asReal(delay));
  // An interrupt that the peer left pending must not hit the next one.
  R_ToplevelExec(check_interrupt, nullptr);
  return Rf_ScalarReal(seconds);
}

// CPU seconds of all threads of this process so far.
SEXP bench_cpu() {
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return Rf_ScalarReal(static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec));
}

}  // extern "C"
