#ifndef REGATTA_COMPAT_RCPPTHREAD_H
#define REGATTA_COMPAT_RCPPTHREAD_H

// For packages written for RcppThread: a package that links to regatta in its place adds this folder
// to its include path and finds its headers, its namespace and its names.

#include <atomic>
#include <chrono>
#include <string>

#include "../regatta.hpp"
// R's own as RcppThread includes it.
#include <R.h>

REGATTA_NAMESPACE_BEGIN
namespace rcppthread {

using namespace ::regatta;

// Counts on any thread, and calls printProgress() where it is time to, on the thread that has
// counted. What derived classes look at is what those of RcppThread have.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(std::size_t numIt, std::size_t printEvery = 1)
      : it_(0), numUpdates_(0), isDone_(false), numIt_(numIt), printEvery_(printEvery),
        startTime_(std::chrono::steady_clock::now()) {}
  virtual ~ProgressPrinter() {}

  virtual void printProgress() = 0;

  std::size_t operator++() { return advance() + 1; }
  std::size_t operator++(int) { return advance(); }

 protected:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - startTime_).count();
  }

  std::size_t advance() {
    const std::size_t before = it_++;
    if (needsPrint()) printProgress();
    return before;
  }

  // Whether a period has passed that nobody has shown, or all is done. Of several threads that ask at
  // a time one hears yes, but for the end, which isDone_ is for.
  bool needsPrint() {
    std::size_t shown = numUpdates_;
    const bool due = seconds() > static_cast<double>((shown + 1) * printEvery_);
    return (due && numUpdates_.compare_exchange_strong(shown, shown + 1)) || it_ == numIt_;
  }

  std::size_t remainingSecs() {
    const double done = static_cast<double>(it_);
    if (done <= 0.0) return 0;
    return static_cast<std::size_t>(seconds() * (static_cast<double>(numIt_) - done) / done);
  }

  std::string progressString() {
    const std::size_t done = it_;
    if (done >= numIt_) return "100% (done)                         \n";
    const double part = static_cast<double>(done) / static_cast<double>(numIt_);
    return std::to_string(static_cast<int>(100.0 * part + 0.5)) + "%  (~" +
           formatTime(remainingSecs()) + " remaining)       ";
  }

  std::string formatTime(std::size_t secs) {
    return ::regatta::detail::format_seconds(static_cast<double>(secs));
  }

  std::atomic<std::size_t> it_;  // done so far
  std::atomic<std::size_t> numUpdates_;
  std::atomic<bool> isDone_;
  std::size_t numIt_;
  std::size_t printEvery_;  // seconds
  std::chrono::time_point<std::chrono::steady_clock> startTime_;
};

struct RPrinter : Printer {
  constexpr RPrinter() : Printer(1) {}
};

struct RErrPrinter : Printer {
  constexpr RErrPrinter() : Printer(2) {}
};

}  // namespace rcppthread
REGATTA_NAMESPACE_END

namespace RcppThread = ::regatta::rcppthread;

#endif
