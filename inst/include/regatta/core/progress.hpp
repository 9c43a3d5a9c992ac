#ifndef REGATTA_CORE_PROGRESS_HPP
#define REGATTA_CORE_PROGRESS_HPP

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "output.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// "2h 5min 3s", without the parts that are zero in front.
inline std::string format_seconds(double seconds) {
  const unsigned long all = seconds < 0.0 ? 0 : static_cast<unsigned long>(seconds + 0.5);
  std::string text;
  if (all >= 86400) text += std::to_string(all / 86400) + "d ";
  if (all >= 3600) text += std::to_string(all / 3600 % 24) + "h ";
  if (all >= 60) text += std::to_string(all / 60 % 60) + "min ";
  return text + std::to_string(all % 60) + "s";
}

}  // namespace detail

// Counts iterations on any thread and shows now and then how far it is. Derived classes say how.
class ProgressPrinter {
 public:
  // `numIt` iterations in all; shown every `printEvery` seconds, and when all are done.
  explicit ProgressPrinter(std::size_t numIt, std::size_t printEvery = 1)
      : total_(numIt), every_us_(1e6 * static_cast<double>(printEvery)) {}
  virtual ~ProgressPrinter() {}

  // Returns how many iterations are done, like the ++ of a number.
  std::size_t operator++() { return advance() + 1; }
  std::size_t operator++(int) { return advance(); }

 protected:
  // What to print; `done` <= total(), `seconds` since the start.
  virtual std::string show(std::size_t done, double seconds) const = 0;
  std::size_t total() const { return total_; }

  // The part done, from 0 to 1.
  double part(std::size_t done) const {
    return total_ == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total_);
  }
  // "50%   (~3s remaining)       ", "100% (done)".
  std::string status(std::size_t done, double seconds) const {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3d%%", static_cast<int>(100.0 * part(done)));
    if (done >= total_) return std::string(percent) + " (done)                         ";
    const double left = seconds * (1.0 - part(done)) / part(done);
    return std::string(percent) + " (~" + detail::format_seconds(left) + " remaining)       ";
  }

 private:
  // relaxed: a count that nothing hangs on but what is shown.
  std::size_t advance() {
    const std::size_t before = done_.fetch_add(1, std::memory_order_relaxed);
    const std::size_t done = before + 1;
    if (done > total_) return before;
    const double us =
        std::chrono::duration<double, std::micro>(detail::Clock::now() - start_).count();
    // Whoever moves the number of the period that was shown last shows the next one.
    const long period = every_us_ > 0.0 ? static_cast<long>(us / every_us_) : static_cast<long>(done);
    long shown = shown_.load(std::memory_order_relaxed);
    const bool due = period > shown &&
                     shown_.compare_exchange_strong(shown, period, std::memory_order_relaxed);
    if (done == total_ || due) print(done, us * 1e-6);
    return before;
  }

  void print(std::size_t done, double seconds) {
    detail::emit(1, "\r" + show(done, seconds) + (done == total_ ? "\n" : ""));
  }

  const std::size_t total_;
  const double every_us_;
  std::atomic<std::size_t> done_{0};
  std::atomic<long> shown_{0};
  const detail::Clock::time_point start_ = detail::Clock::now();
};

// "Computing:  50% (~3s remaining)"
class ProgressCounter : public ProgressPrinter {
 public:
  explicit ProgressCounter(std::size_t numIt, std::size_t printEvery = 1,
                           std::string custom_msg = "Computing: ")
      : ProgressPrinter(numIt, printEvery), message_(std::move(custom_msg)) {}

 protected:
  std::string show(std::size_t done, double seconds) const override {
    return message_ + status(done, seconds);
  }

 private:
  std::string message_;
};

// "Computing: [=====>     ]  50% (~3s remaining)"
class ProgressBar : public ProgressPrinter {
 public:
  explicit ProgressBar(std::size_t numIt, std::size_t printEvery = 1)
      : ProgressPrinter(numIt, printEvery) {}

 protected:
  std::string show(std::size_t done, double seconds) const override {
    const std::size_t width = 40;
    const std::size_t filled = static_cast<std::size_t>(static_cast<double>(width) * part(done));
    std::string bar(width, ' ');
    for (std::size_t i = 0; i < filled; ++i) bar[i] = '=';
    if (filled < width) bar[filled] = '>';
    return "Computing: [" + bar + "] " + status(done, seconds);
  }
};

REGATTA_NAMESPACE_END

#endif
