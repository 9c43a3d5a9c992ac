#ifndef REGATTA_CORE_LINE_HPP
#define REGATTA_CORE_LINE_HPP

#include <sstream>
#include <string>

#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// What one thread has written to one stream and not yet ended by a newline.
class Line {
 public:
  explicit Line(int stream) : stream_(stream) {}
  ~Line() { pass_on(process().output, true); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  std::ostringstream& text() { return text_; }

  // Passes on whole lines; with `all`, what follows the last newline too.
  void pass_on(OutputQueue& output, bool all) {
    if (text_.tellp() <= 0) return;
    std::string text = text_.str();
    const std::size_t size = all ? text.size() : text.rfind('\n') + 1;
    if (size == 0) return;
    text_.str(text.substr(size));
    text_.seekp(0, std::ios_base::end);
    text.resize(size);
    output.add(stream_, text);
  }

 private:
  int stream_;
  std::ostringstream text_;
};

// One per thread: two threads never write into the same buffer, so that lines stay whole, and
// std::setprecision() and the like hold for the thread that uses them.
inline Line& line_of(int stream) {
  static thread_local Line output(1);
  static thread_local Line errors(2);
  return stream == 2 ? errors : output;
}

inline bool& line_begun() {
  static thread_local bool begun = false;
  return begun;
}

// At the end of a task: a line without newline must not wait for what the thread does next.
inline void end_lines(OutputQueue& output) {
  if (!line_begun()) return;
  line_begun() = false;
  line_of(1).pass_on(output, true);
  line_of(2).pass_on(output, true);
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
