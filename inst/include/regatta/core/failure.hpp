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

// The first exception of a group of tasks; later ones are counted.
class Failure {
 public:
  Failure() : count_(0) {}
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  void record(std::exception_ptr error) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t before = count_.load(std::memory_order_relaxed);
    if (before == 0) first_ = error;
    count_.store(before + 1, std::memory_order_release);
  }

  void record_current() noexcept { record(std::current_exception()); }

  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

  // Gives the first exception away and forgets all. Only when no task of the group runs any more.
  std::exception_ptr take(std::size_t* others) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t count = count_.load(std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
    *others = count > 1 ? count - 1 : 0;
    std::exception_ptr error;
    std::swap(error, first_);
    return error;
  }

 private:
  // Changed under the mutex. release and acquire: who sees a failure sees what led to it.
  std::atomic<std::size_t> count_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
