#ifndef REGATTA_COMPAT_RCPPPROGRESS_HPP
#define REGATTA_COMPAT_RCPPPROGRESS_HPP

// The Progress class of RcppProgress, which any thread of this library may use.
#include "../regatta.hpp"

REGATTA_NAMESPACE_BEGIN

class Progress {
 public:
  // `max` steps in all; shown if `display`.
  explicit Progress(unsigned long max, bool display = true)
      : display_(display), bar_(static_cast<std::size_t>(max)) {}

  // Counts steps and says whether to go on.
  bool increment(unsigned long steps = 1) {
    if (display_) {
      for (unsigned long i = 0; i < steps; ++i) ++bar_;
    }
    return !is_aborted();
  }

  // Whether the user asked to stop.
  static bool is_aborted() { return isInterrupted(); }
  static bool check_abort() { return isInterrupted(); }

 private:
  const bool display_;
  ProgressBar bar_;
};

REGATTA_NAMESPACE_END

#endif
