#ifndef REGATTA_CORE_FAILURE_HPP
#define REGATTA_CORE_FAILURE_HPP

#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>

#include "config.hpp"

// The same for packages of every ABI, so that an interrupt of one's loop is one in another's: they
// hold what the standard's exceptions hold and nothing else.
namespace regatta {

// Thrown by stop(), and by a loop or wait one of whose tasks called setError().
class REGATTA_SHARED Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

class REGATTA_SHARED UserInterruptException : public std::exception {
 public:
  const char* what() const noexcept override { return "C++ call interrupted by the user."; }
};

}  // namespace regatta

REGATTA_NAMESPACE_BEGIN

// Ends the task and the loop it belongs to; the caller of the loop gets the error. May be called
// on any thread, unlike Rf_error() and Rcpp::stop().
[[noreturn]] inline void stop(const std::string& message) { throw Error(message); }

namespace detail {

// The slot for the first exception of a loop or group: the first in time, which is recorded as that of
// index 0, or that of the lowest index, if given. Others are counted.
class Failure {
 public:
  void record(std::exception_ptr error, std::uint64_t index = 0) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    if (index >= failed_at_.load(std::memory_order_relaxed)) return;
    first_ = error;
    failed_at_.store(index, std::memory_order_release);
  }

  bool any() const noexcept { return failed_at_.load(std::memory_order_acquire) != none; }
  // Whether work of this index (from 1) is not wanted any more.
  bool ends(std::uint64_t index) const noexcept {
    return failed_at_.load(std::memory_order_acquire) < index;
  }

  // Gives the first exception away and forgets all. Only when no task of the group runs any more.
  std::exception_ptr take(std::size_t* others) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    *others = count_ > 1 ? count_ - 1 : 0;
    count_ = 0;
    failed_at_.store(none, std::memory_order_relaxed);
    std::exception_ptr error;
    std::swap(error, first_);
    return error;
  }

  // Adds what another slot has, as of the index.
  void take_over(Failure& from, std::uint64_t index) noexcept {
    std::size_t others = 0;
    const std::exception_ptr error = from.take(&others);
    if (!error) return;
    record(error, index);
    std::lock_guard<std::mutex> lock(mutex_);
    count_ += others;
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t(0);

  // Changed under the mutex. release and acquire: who sees a failure sees what led to it.
  std::atomic<std::uint64_t> failed_at_{none};
  std::mutex mutex_;
  std::exception_ptr first_;
  std::size_t count_ = 0;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
