#ifndef REGATTA_H5_ORDERED_HPP
#define REGATTA_H5_ORDERED_HPP

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include <regatta/core/for.hpp>
#include <regatta/core/poll.hpp>

namespace regatta {
namespace h5 {

/* Work in any order, merged in the order of its numbers: so that sums of floating-point numbers do not
   depend on how many threads there are, in memory that does not grow with the work. */
template <class Part>
class Ordered {
 public:
  /* At most `threads` bodies run at a time, and at most `window` parts are made and not merged. */
  Ordered(std::uint64_t count, unsigned threads)
      : count_(count), threads_(threads < 1 ? 1 : threads), window_(threads_ == 1 ? 1 : 4 * threads_),
        parts_(window_), done_(window_, 0), claimed_(0), merged_(0), merging_(false), failed_(false) {}

  /* make(k, part) fills a part, several threads at once; merge(k, part) takes them one after another,
     k rising. The first exception ends all. */
  template <class Make, class Merge>
  void run(Make make, Merge merge) {
    /* A thread that waits waits for numbers that another thread is working on, never for one that
       nobody has begun: so it does not matter how many of these bodies run at once. */
    parallelFor(0U, threads_, [&](unsigned) {
      try {
        std::uint64_t k = 0;
        while (claim(&k)) {
          checkUserInterrupt();
          make(k, parts_[k % window_]);
          settle(k, merge);
        }
      } catch (...) {
        fail();
        throw;
      }
    }, threads_, threads_);
  }

  std::size_t window() const { return window_; }

 private:
  bool claim(std::uint64_t* k) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!failed_ && claimed_ < count_ && claimed_ - merged_ >= window_) {
      news_.wait_for(lock, std::chrono::milliseconds(20));
      lock.unlock();
      checkUserInterrupt();
      lock.lock();
    }
    if (failed_ || claimed_ == count_) return false;
    *k = claimed_++;
    return true;
  }

  /* Whoever completes the next number in turn merges it and those behind it that wait. */
  template <class Merge>
  void settle(std::uint64_t k, Merge& merge) {
    std::unique_lock<std::mutex> lock(mutex_);
    done_[k % window_] = 1;
    if (merging_) return;
    merging_ = true;
    while (!failed_ && merged_ < claimed_ && done_[merged_ % window_]) {
      const std::uint64_t next = merged_;
      lock.unlock();
      merge(next, parts_[next % window_]);
      lock.lock();
      done_[next % window_] = 0;
      ++merged_;
      news_.notify_all();
    }
    merging_ = false;
  }

  void fail() {
    std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    news_.notify_all();
  }

  const std::uint64_t count_;
  const unsigned threads_;
  const std::size_t window_;
  std::vector<Part> parts_;
  std::vector<char> done_;
  std::uint64_t claimed_, merged_;
  bool merging_, failed_;
  std::mutex mutex_;
  std::condition_variable news_;
};

}  // namespace h5
}  // namespace regatta

#endif
