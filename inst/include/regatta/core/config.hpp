#ifndef REGATTA_CORE_CONFIG_HPP
#define REGATTA_CORE_CONFIG_HPP

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#define REGATTA_VERSION_MAJOR 0
#define REGATTA_VERSION_MINOR 1

// Packages that are built against different layouts of the classes below must not share one pool, so
// that what decides on the layout is part of every symbol's name: the release of the headers, and
// what the standard library's string and containers look like.
#if defined(_LIBCPP_VERSION)
#define REGATTA_ABI_STRINGS _libcpp
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define REGATTA_ABI_STRINGS _cow
#else
#define REGATTA_ABI_STRINGS _sso
#endif
#if defined(_GLIBCXX_DEBUG)
#define REGATTA_ABI_DEBUG _debug
#else
#define REGATTA_ABI_DEBUG
#endif
#define REGATTA_JOIN_NAMES(a, b, c, d, e) a##b##_##c##d##e
#define REGATTA_JOIN(a, b, c, d, e) REGATTA_JOIN_NAMES(a, b, c, d, e)
#define REGATTA_ABI(prefix)                                                                   \
  REGATTA_JOIN(prefix, REGATTA_VERSION_MAJOR, REGATTA_VERSION_MINOR, REGATTA_ABI_STRINGS,     \
               REGATTA_ABI_DEBUG)
#define REGATTA_TEXT_OF(name) #name
#define REGATTA_TEXT(name) REGATTA_TEXT_OF(name)

#define REGATTA_NAMESPACE_BEGIN \
  namespace regatta {           \
  inline namespace REGATTA_ABI(v) {
#define REGATTA_NAMESPACE_END \
  }                           \
  }

#if defined(__GNUC__) || defined(__clang__)
// The state of the process and the exceptions stay visible where a package is compiled with
// -fvisibility=hidden: with GCC's unique symbols all packages of a session then share one pool.
#define REGATTA_SHARED __attribute__((visibility("default")))
// What each library has for itself.
#define REGATTA_HIDDEN __attribute__((visibility("hidden")))
#define REGATTA_NOINLINE __attribute__((noinline))
// What runs once or never: compiled for its size.
#define REGATTA_COLD __attribute__((cold))
#define REGATTA_LIKELY(x) __builtin_expect(static_cast<bool>(x), 1)
#else
#define REGATTA_SHARED
#define REGATTA_HIDDEN
#define REGATTA_NOINLINE
#define REGATTA_COLD
#define REGATTA_LIKELY(x) (x)
#endif

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Two lines of 64 bytes: x86 fetches them in pairs, and an Apple core's line is 128 bytes.
constexpr std::size_t cache_line = 128;

// What has one owner and one place.
struct NoCopy {
  NoCopy() = default;
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;
};

// Between what different threads write to. Instead of alignas, which `new` ignores before C++17.
struct Padding {
  Padding() {}
  char space[cache_line];
};

// Tells the core that this thread waits for another one's store.
inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

inline void pause_cpu(int times) {
  for (int i = 0; i < times; ++i) pause_cpu();
}

// For a few instructions at a time. Whoever waits for long gives its core to the thread that holds
// the lock, which the system may have stopped; and sleeps in the end, since a thread of real-time
// priority yields to none of a lower one.
class SpinLock {
 public:
  // acquire, and release below: who takes it finds all as the last one left it.
  bool try_lock() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    for (int turn = 0; !try_lock(); ++turn) {
      if (turn < 64) {
        pause_cpu(4);
      } else if (turn < 256) {
        sched_yield();
      } else {
        usleep(50);
      }
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

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
