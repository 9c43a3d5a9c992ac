#ifndef REGATTA_CORE_EVENT_COUNT_HPP
#define REGATTA_CORE_EVENT_COUNT_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Where threads without work sleep. A sleeper prepares to wait, looks once more for work and then
// commits; a waker makes the work visible and then notifies. seq_cst on both sides: one of the two
// sees the other, so that no work is left lying while all sleep.
//
// The state: in bits 0-31 how many sleep or are about to and have not been notified, so that nobody
// notifies them again while they wake up; in bits 32-63 the number of notifications.
class EventCount {
 public:
  bool any() const { return sleepers(state_.load(std::memory_order_seq_cst)) > 0; }

  // Sleeps until notified, at most `us` microseconds if that is not negative; false if nobody has, or if
  // ready() says at the second look that there is no need to sleep.
  template <class Ready>
  bool wait_unless(const Ready& ready, double us) {
    const Ticket ticket = prepare_wait();
    if (!ready()) return commit_wait(ticket, us);
    cancel_wait(ticket);
    return false;
  }

  // Wakes up to `count` sleepers, and all that are about to sleep.
  void notify(std::uint32_t count) {
    if (!any()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    const std::uint32_t woken = std::min(count, waiting_);
    waiting_ -= woken;
    grants_ += woken;
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    while (!state_.compare_exchange_weak(
        state, (static_cast<std::uint64_t>(number(state) + 1) << 32) | waiting_,
        std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    for (std::uint32_t i = 0; i < woken; ++i) bell_.notify_one();
  }

  void notify_all() { notify(std::numeric_limits<std::uint32_t>::max()); }

 private:
  // What a sleeper has been told of before it prepared.
  using Ticket = std::uint32_t;

  // acquire: who prepares after a notification sees the work that it was for.
  Ticket prepare_wait() { return number(state_.fetch_add(1, std::memory_order_seq_cst)); }

  // One that has been notified meanwhile is not counted any more.
  void cancel_wait(Ticket ticket) {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    while (number(state) == ticket &&
           !state_.compare_exchange_weak(state, state - 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed)) {
    }
  }

  // False if nobody has notified. Grants are for those who slept when they were given: a thread that comes
  // later must not use one up.
  bool commit_wait(Ticket ticket, double us) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto notified = [this, ticket] {
      return number(state_.load(std::memory_order_relaxed)) != ticket;
    };
    if (notified()) return true;
    ++waiting_;
    const auto granted = [this, &notified] { return grants_ > 0 && notified(); };
    if (us < 0.0) {
      bell_.wait(lock, granted);
    } else if (!bell_.wait_for(lock, std::chrono::microseconds(static_cast<long>(us)), granted)) {
      --waiting_;
      state_.fetch_sub(1, std::memory_order_seq_cst);
      return false;
    }
    --grants_;
    return true;
  }

  static Ticket number(std::uint64_t state) { return static_cast<Ticket>(state >> 32); }
  static std::uint32_t sleepers(std::uint64_t state) { return static_cast<std::uint32_t>(state); }

  std::mutex mutex_;
  std::condition_variable bell_;
  std::atomic<std::uint64_t> state_{0};
  // Guarded by the mutex: who sleep without having been told to wake, and how many have been told.
  std::uint32_t waiting_ = 0;
  std::uint32_t grants_ = 0;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
