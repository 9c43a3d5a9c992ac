#ifndef REGATTA_CORE_CONFIG_HPP
#define REGATTA_CORE_CONFIG_HPP

#include <cstddef>
#include <cstdint>

#define REGATTA_VERSION_MAJOR 0
#define REGATTA_VERSION_MINOR 1

// Two packages built against different layouts of the classes below must not share one pool, so
// the layout is part of every symbol's name. Raise the number when a layout changes.
#define REGATTA_NAMESPACE_BEGIN \
  namespace regatta {           \
  inline namespace abi_1 {
#define REGATTA_NAMESPACE_END \
  }                           \
  }

#if defined(__GNUC__) || defined(__clang__)
// The state of the process and the exceptions stay visible where a package is compiled with
// -fvisibility=hidden: with GCC's unique symbols all packages of a session then share one pool.
#define REGATTA_SHARED __attribute__((visibility("default")))
#define REGATTA_NOINLINE __attribute__((noinline))
#define REGATTA_LIKELY(x) __builtin_expect(static_cast<bool>(x), 1)
#else
#define REGATTA_SHARED
#define REGATTA_NOINLINE
#define REGATTA_LIKELY(x) (x)
#endif

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Two lines of 64 bytes: x86 fetches them in pairs, and an Apple core's line is 128 bytes.
constexpr std::size_t cache_line = 128;

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

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
