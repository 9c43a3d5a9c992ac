#ifndef REGATTA_CORE_EVENT_COUNT_HPP
#define REGATTA_CORE_EVENT_COUNT_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "clock.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Where threads without work sleep. A sleeper prepares to wait, looks once more for work and then
// commits; a waker makes the work visible and then notifies. seq_cst on both sides: one of the two
// sees the other, so that no work is left lying while all sleep.
class EventCount {
 public:
  // What a sleeper has been told of before it prepared.
  using Ticket = std::uint64_t;

  EventCount() : sleepers_(0), events_(0), asleep_(0), grants_(0) {}

  // acquire on the events: who prepares after a notification sees the work that it was for.
  Ticket prepare_wait() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    return events_.load(std::memory_order_acquire);
  }
  void cancel_wait() { sleepers_.fetch_sub(1, std::memory_order_seq_cst); }
  bool any() const { return sleepers_.load(std::memory_order_seq_cst) > 0; }

  // After prepare_wait(). Sleeps until notified, at most `us` microseconds if that is not negative;
  // false if nobody has. Grants are for those who slept when they were given: a thread that comes
  // later must not use one up.
  bool commit_wait(Ticket ticket, double us) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto missed = [this, ticket] { return events_.load(std::memory_order_relaxed) != ticket; };
    const auto granted = [this, &missed] { return grants_ > 0 && missed(); };
    bool woken = missed();
    if (!woken) {
      ++asleep_;
      if (us < 0.0) {
        bell_.wait(lock, granted);
        woken = true;
      } else {
        woken = bell_.wait_for(lock, std::chrono::microseconds(static_cast<long>(us)), granted);
      }
      --asleep_;
      grants_ = std::min(woken ? grants_ - 1 : grants_, asleep_);
    }
    cancel_wait();
    return woken;
  }

  // Wakes up to `count` sleepers, and all that are about to sleep.
  void notify(int count) {
    if (!any()) return;
    int woken = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      woken = std::min(count, asleep_ - grants_);
      grants_ += woken;
      events_.fetch_add(1, std::memory_order_release);
    }
    for (int i = 0; i < woken; ++i) bell_.notify_one();
  }

  void notify_all() {
    std::lock_guard<std::mutex> lock(mutex_);
    grants_ = asleep_;
    events_.fetch_add(1, std::memory_order_release);
    bell_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable bell_;
  std::atomic<int> sleepers_;   // who sleep or are about to
  std::atomic<Ticket> events_;  // notifications so far; raised under the mutex
  // Guarded by the mutex: who sleep, and how many of these have been told to wake.
  int asleep_;
  int grants_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
