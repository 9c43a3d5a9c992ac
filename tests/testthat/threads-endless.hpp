#ifndef REGATTA_TESTS_THREADS_ENDLESS_HPP
#define REGATTA_TESTS_THREADS_ENDLESS_HPP

// Work that goes on until the program ends, for tests with and without R. What has begun is counted.
#include <atomic>
#include <cstdlib>

namespace endless {

// Tasks that push and wait for what they have pushed, which pushes, too.
inline void push_tasks(std::atomic<long>& begun) {
  regatta::push([&begun] {
    while (!regatta::isInterrupted()) {
      regatta::TaskGroup group;
      for (int k = 0; k < 10; ++k) {
        group.push([&begun] {
          regatta::push([&begun] { ++begun; });
          regatta::wait();
        });
      }
      group.wait();
    }
  });
}

// A thread that nobody joins and that runs loops, interrupted or not.
inline void detach_loops(std::atomic<long>& begun) {
  regatta::Thread thread([&begun] {
    for (;;) {
      try {
        regatta::parallelFor(0, 100000, [&begun](int k) {
          if (k == 0) ++begun;
        });
      } catch (const regatta::UserInterruptException&) {
        ++begun;
      }
    }
  });
  thread.detach();
}

}  // namespace endless

#endif
