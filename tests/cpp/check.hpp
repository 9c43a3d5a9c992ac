#ifndef REGATTA_TESTS_CHECK_HPP
#define REGATTA_TESTS_CHECK_HPP

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

// A test is a function that registers itself and calls CHECK(), which any thread may do.

namespace check {

struct Test {
  Test(const char* with_name, void (*with_run)());
  const char* name;
  void (*run)();
};

extern std::atomic<long> passed;
void fail(const char* file, int line, const std::string& what);

inline void that(bool holds, const char* file, int line, const char* what) {
  if (holds) {
    passed.fetch_add(1, std::memory_order_relaxed);
  } else {
    fail(file, line, what);
  }
}

// Sanitizers slow everything down; a fact that is waited for may take this much longer.
extern double slowness;

// Waits for a fact, without which the test cannot go on.
template <class Fact>
bool wait_until(const Fact& fact, double seconds = 20.0) {
  const auto start = std::chrono::steady_clock::now();
  while (!fact()) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (std::chrono::duration<double>(waited).count() > seconds * slowness) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// A program registers itself like a test, and is run as a process of its own: its end is what is tested.
struct Program {
  Program(const char* with_name, int (*with_run)());
  const char* name;
  int (*run)();
};

// How a child has ended: its exit status; a negative number is the signal that ended it.
int status_of(int pid);

// Its exit status; a negative number is the signal that ended it, that of SIGALRM if it took too long.
int run_program(const char* name, double seconds = 30.0);

// Says why a test does not run here.
inline void skip(const char* reason) { std::printf("skip   (%s) ", reason); }

// Clang says so in another way.
#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

// The message of what `body` throws, "" if it throws nothing.
template <class Body>
std::string thrown(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "?";
  }
  return "";
}

}  // namespace check

#define TEST(name)                                                   \
  static void test_##name();                                         \
  static const check::Test register_##name(#name, &test_##name);     \
  static void test_##name()

// Its body is that of main().
#define PROGRAM(name)                                                          \
  static int program_##name();                                                 \
  static const check::Program register_program_##name(#name, &program_##name); \
  static int program_##name()

#define CHECK(condition) check::that(static_cast<bool>(condition), __FILE__, __LINE__, #condition)

#endif
