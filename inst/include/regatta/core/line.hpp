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

  // Gives whole lines away; with `all`, what follows the last newline too.
  std::string take(bool all) {
    if (text_.tellp() <= 0) return std::string();
    std::string text = text_.str();
    const std::size_t size = all ? text.size() : text.rfind('\n') + 1;
    if (size == 0) return std::string();
    text_.str(text.substr(size));
    text_.seekp(0, std::ios_base::end);
    text.resize(size);
    return text;
  }

  void pass_on(OutputQueue& output, bool all) {
    const std::string text = take(all);
    if (!text.empty()) output.add(stream_, text);
  }

 private:
  int stream_;
  std::ostringstream text_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
