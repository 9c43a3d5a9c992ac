#ifndef REGATTA_CORE_BED_HPP
#define REGATTA_CORE_BED_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "clock.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Where threads without work sleep. A sleeper announces itself, looks once more for work and then
// sleeps; a waker makes the work visible and then asks for sleepers. seq_cst on both sides: one of
// the two sees the other, so that no work is left lying while all sleep.
class Bed {
 public:
  Bed() : sleepers_(0), calls_(0) {}

  void announce() { sleepers_.fetch_add(1, std::memory_order_seq_cst); }
  void withdraw() { sleepers_.fetch_sub(1, std::memory_order_seq_cst); }
  bool any() const { return sleepers_.load(std::memory_order_seq_cst) > 0; }

  // After announce(). Sleeps until called, at most `us` microseconds if that is not negative;
  // false if nobody called.
  bool sleep(double us) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto called = [this] { return calls_ > 0; };
    bool woken = true;
    if (us < 0.0) {
      bell_.wait(lock, called);
    } else {
      woken = bell_.wait_for(lock, std::chrono::microseconds(static_cast<long>(us)), called);
    }
    if (woken) --calls_;
    withdraw();
    return woken;
  }

  // Calls up to `count` sleepers; a call that nobody needs any more wakes the next sleeper once.
  void wake(int count) {
    if (!any()) return;
    int calls = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const int now = sleepers_.load(std::memory_order_relaxed);
      calls = std::min(count, std::max(0, now - calls_));
      calls_ += calls;
    }
    for (int i = 0; i < calls; ++i) bell_.notify_one();
  }

  void wake_all() {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_ = sleepers_.load(std::memory_order_seq_cst);
    bell_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable bell_;
  std::atomic<int> sleepers_;
  int calls_;  // given and not yet answered; guarded by the mutex
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
