#ifndef REGATTA_CORE_FRAME_HPP
#define REGATTA_CORE_FRAME_HPP

#include "context.hpp"
#include "line.hpp"
#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

struct Desk;
struct Task;

// What the calling thread is doing; all null outside of loops, tasks and Threads. Each library
// that is loaded may have its own copy (a thread-local variable is not unique as others are), so
// it is set by code that is compiled together with the body.
struct Frame {
  Pool* pool;
  Desk* desk;
  const Context* context;
  Task* task;  // of the pool, also in the bodies of its loops
};

inline Frame& frame_here() {
  static thread_local Frame frame = {nullptr, nullptr, nullptr, nullptr};
  return frame;
}

// Around a body: says what the thread is doing, and leaves no line unfinished when the outermost
// one is left.
class FrameScope {
 public:
  FrameScope(const Frame& frame, Process& process)
      : here_(frame_here()), before_(here_), process_(process) {
    here_ = frame;
  }
  ~FrameScope() {
    here_ = before_;
    if (!before_.context) end_lines(process_.output);
  }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Frame& here_;
  Frame before_;
  Process& process_;
};

// The number of interrupts that work begun now does not answer to: that of the work it is part of.
inline std::uint32_t interrupts_before(const Process& process) {
  const Context* const context = frame_here().context;
  return context ? context->interrupts : process.interrupts();
}

// Whether the work of the calling thread has been interrupted. A thread that this library knows
// nothing of hears of an interrupt until the main thread has reported it.
inline bool interrupted_here(const Process& process, const Frame& frame) {
  const std::uint32_t before = frame.context ? frame.context->interrupts : process.reported();
  return process.interrupts() != before;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
