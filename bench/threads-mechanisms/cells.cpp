// The cells of run.R, compiled once for each variant of the headers. Each variant is a release of its
// own to the headers, so that all have pools of their own in one process.
#include <regatta/core.hpp>

#include <time.h>

#include <cstring>

namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void pass(double us) {
  const timespec time = {0, static_cast<long>(1e3 * us)};
  nanosleep(&time, nullptr);
}

void work(double us) {
  const double end = seconds(CLOCK_MONOTONIC) + 1e-6 * us;
  while (seconds(CLOCK_MONOTONIC) < end) {
  }
}

void empty_loop(int size) {
  regatta::parallelFor(0, size, [](int i) { __asm__ volatile("" : : "r"(i)); });
}

void tasks(int count) {
  for (int i = 0; i < count; ++i) {
    regatta::push([i] { __asm__ volatile("" : : "r"(i)); });
  }
  regatta::wait();
}

void falling_units(double us) {
  regatta::parallelFor(0, 10, [us](int i) { work(us / 45 * (9 - i)); });
}

// Bodies that sleep do not need a processor of their own.
void sleeping_units(int cheap, int units, int dear) {
  regatta::parallelFor(0, cheap + units, [=](int i) {
    if (i >= cheap) pass(i == dear ? 30000.0 : 1000.0);
  });
}

void run(const char* cell) {
  const auto is = [cell](const char* name) { return std::strcmp(cell, name) == 0; };
  if (is("tasks, 100")) tasks(100);
  if (is("tasks, 1,000")) tasks(1000);
  if (is("tasks, 100,000")) tasks(100000);
  if (is("empty loop, 100")) empty_loop(100);
  if (is("empty loop, 10,000")) empty_loop(10000);
  if (is("empty loop, 1,000,000")) empty_loop(1000000);
  if (is("10 falling units, 40 us")) falling_units(40.0);
  if (is("10 falling units, 400 us, threads asleep")) falling_units(400.0);
  if (is("empty loop, 1,000, threads asleep")) empty_loop(1000);
  if (is("1,057 units of nothing, then 60 of 1 ms")) sleeping_units(1057, 60, -1);
  if (is("units of nothing, one of 30 ms, 60 of 1 ms")) sleeping_units(100, 61, 100);
}

}  // namespace

// Seconds of wall clock and of processor time for one call of the cell, after a pause if asked for.
extern "C" void bench_cell(char** cell, int* times, double* pause, double* wall, double* processor) {
  *wall = *processor = 0.0;
  for (int i = 0; i < *times; ++i) {
    if (*pause > 0.0) pass(1e6 * *pause);
    const double started = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    run(*cell);
    *wall += (seconds(CLOCK_MONOTONIC) - started) / *times;
    *processor += (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / *times;
  }
}

extern "C" void bench_threads(int* threads) {
  regatta::set_default_threads(static_cast<std::size_t>(*threads));
}
