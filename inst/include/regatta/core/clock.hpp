#ifndef REGATTA_CORE_CLOCK_HPP
#define REGATTA_CORE_CLOCK_HPP

#include <chrono>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

using Clock = std::chrono::steady_clock;

// Ticks of the core's own counter: a loop looks at it every few microseconds, and where the
// system clock takes 30 to 60 ns this takes 10. Only the pace of a loop hangs on it, so a counter
// that jumps when the thread moves to another core does no harm.
using Ticks = std::uint64_t;

inline Ticks ticks_now() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  Ticks value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<Ticks>(Clock::now().time_since_epoch().count());
#endif
}

// Ticks in a microsecond, measured against the system clock for 20 us.
inline double measure_ticks_per_us() {
  const Clock::time_point start = Clock::now();
  const Ticks first = ticks_now();
  double elapsed = 0.0;
  while (elapsed < 20.0) {
    elapsed = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  const double rate = static_cast<double>(ticks_now() - first) / elapsed;
  // A counter that stands still or runs backwards would stall every decision made with it.
  return rate > 1.0 && rate < 1e5 ? rate : 1000.0;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
