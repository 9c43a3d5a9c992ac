#ifndef REGATTA_CORE_OUTPUT_HPP
#define REGATTA_CORE_OUTPUT_HPP

#include <ostream>
#include <sstream>
#include <string>

#include "poll.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Text that is no part of a line being written: passed on as it is, and printed on the main thread.
inline void emit(int stream, const std::string& text) {
  Process& now = process();
  now.output.add(stream, text);
  if (now.on_main()) print_now(now);
}

}  // namespace detail

// To be used as an output stream, by any thread: the main thread prints, the others leave whole
// lines to it. It has no state of its own, so that a copy of it is as good.
class Printer {
 public:
  explicit constexpr Printer(int stream) : stream_(stream) {}

  template <class T>
  const Printer& operator<<(const T& value) const {
    text() << value;
    finish(false);
    return *this;
  }
  const Printer& operator<<(std::ostream& (*manipulator)(std::ostream&)) const {
    text() << manipulator;
    finish(manipulator == static_cast<std::ostream& (*)(std::ostream&)>(std::flush));
    return *this;
  }
  const Printer& operator<<(std::ios_base& (*manipulator)(std::ios_base&)) const {
    text() << manipulator;
    return *this;
  }
  const Printer& flush() const {
    finish(true);
    return *this;
  }

 private:
  std::ostringstream& text() const {
    detail::thread_state().line_begun = true;
    return detail::line_of(stream_).text();
  }

  void finish(bool all) const {
    detail::Process& now = detail::process();
    detail::Line& line = detail::line_of(stream_);
    if (now.on_main()) {
      detail::print_own(now, stream_, line.take(true));
    } else {
      line.pass_on(now.output, all);
    }
  }

  int stream_;
};

#if defined(__cpp_inline_variables)
inline constexpr Printer Rcout{1};
inline constexpr Printer Rcerr{2};
#else
constexpr Printer Rcout{1};
constexpr Printer Rcerr{2};
#endif

REGATTA_NAMESPACE_END

#endif
