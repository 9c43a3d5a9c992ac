#ifndef REGATTA_CORE_TICKER_HPP
#define REGATTA_CORE_TICKER_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "slot.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Makes the main thread look up every poll_us while it is in loops: units that have turned dear would
// keep it from its host. The loops themselves look at the clock between chunks only.
class Ticker {
 public:
  explicit Ticker(ActiveWork& whom) : whom_(whom) {}
  ~Ticker() { end(); }

  bool ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // The main thread's, now and then while it is in a loop of some length.
  void start() {
    if (!wanted_.load(std::memory_order_relaxed)) wanted_.store(true, std::memory_order_relaxed);
    if (!ticks()) wake();
  }

  // When no loop is under way; start() starts it again.
  void end() {
    std::thread ended;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
      ended.swap(thread_);
    }
    bell_.notify_all();
    if (ended.joinable()) ended.join();
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = false;
    ticks_.store(false, std::memory_order_relaxed);
  }

 private:
  REGATTA_NOINLINE void wake() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) {
      try {
        SignalsBlocked blocked;
        thread_ = std::thread([this] { tick(); });
      } catch (const std::exception&) {  // then chunks stay short
        return;
      }
    }
    ticks_.store(true, std::memory_order_relaxed);
    bell_.notify_all();
  }

  void tick() {
    std::unique_lock<std::mutex> lock(mutex_);
    int quiet = 0;
    while (!ending_) {
      if (!ticks()) {
        bell_.wait(lock);
        quiet = 0;
        continue;
      }
      bell_.wait_for(lock, std::chrono::microseconds(static_cast<long>(poll_us)));
      if (ending_) return;
      whom_.look_up();
      quiet = wanted_.exchange(false, std::memory_order_relaxed) ? 0 : quiet + 1;
      // Loops often follow each other, and waking takes the main thread some microseconds.
      if (quiet > 8) ticks_.store(false, std::memory_order_relaxed);
    }
  }

  ActiveWork& whom_;
  std::mutex mutex_;
  std::condition_variable bell_;
  std::thread thread_;
  // relaxed: whether chunks may be long, and whether a loop has gone on since the last tick.
  std::atomic<bool> wanted_{false};
  std::atomic<bool> ticks_{false};
  bool ending_ = false;  // guarded by the mutex
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
