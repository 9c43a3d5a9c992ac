#ifndef REGATTA_CORE_FRAME_HPP
#define REGATTA_CORE_FRAME_HPP

#include <memory>
#include <sstream>
#include <string>

#include "context.hpp"
#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// What one thread has written to one stream and not yet ended by a newline.
class Line {
 public:
  explicit Line(int stream) : stream_(stream) {}
  ~Line() { pass_on(process().output, true); }

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

struct Slot;

// In pool-tasks.hpp: the body that has pushed to these groups has ended.
void leave_children(Group* first) noexcept;

// What the calling thread is doing; all null outside of loops, tasks and Threads.
struct Frame {
  Pool* pool;
  Slot* slot;
  const Context* context;
  Group* children;   // groups of what the body has pushed
  const char* base;  // about where the stack of the outermost body begins
};

// About where the stack of the calling function is. Its variables may lie elsewhere, as the address
// sanitizer sees to.
inline const char* stack_here() {
#if defined(__GNUC__) || defined(__clang__)
  return static_cast<const char*>(__builtin_frame_address(0));
#else
  const char here = 0;
  return &here;
#endif
}

// What libraries of any ABI know of a thread: for whose pool it is at work beside others, null if
// for none. Its layout is fixed for all releases.
struct WorkMark {
  const void* process;
};

extern "C" REGATTA_SHARED inline void* regatta_work_mark_1() {
  static thread_local WorkMark mark = {nullptr};
  return &mark;
}

inline WorkMark* work_mark() {
  return static_cast<WorkMark*>(shared_by<&regatta_work_mark_1>("regatta_work_mark_1"));
}

// All that is kept for one thread, one for all libraries of one ABI: a body of one may call a
// function of another, which has to find that the thread is at work.
struct ThreadState {
  Frame frame = {};
  std::size_t suppressed = 0;  // exceptions beside the one that was thrown last
  bool line_begun = false;
  // Two threads never write into the same buffer, so that lines stay whole, and std::setprecision()
  // and the like hold for the thread that uses them.
  std::unique_ptr<Line> lines[2];
  WorkMark* const mark = work_mark();
};

extern "C" REGATTA_SHARED inline void* REGATTA_ABI(regatta_thread_)() {
  static thread_local ThreadState state;
  return &state;
}

REGATTA_NOINLINE inline ThreadState* find_thread_state() {
  return static_cast<ThreadState*>(
      shared_by<&REGATTA_ABI(regatta_thread_)>(REGATTA_TEXT(REGATTA_ABI(regatta_thread_))));
}

inline ThreadState& thread_state() {
  static thread_local ThreadState* here = nullptr;
  if (!REGATTA_LIKELY(here)) here = find_thread_state();
  return *here;
}

inline Frame& frame_here() { return thread_state().frame; }

inline Line& line_of(int stream) {
  std::unique_ptr<Line>& line = thread_state().lines[stream == 2];
  if (!line) line.reset(new Line(stream));
  return *line;
}

// At the end of a task: a line without newline must not wait for what the thread does next.
inline void end_lines(ThreadState& here, OutputQueue& output) {
  here.line_begun = false;
  for (std::unique_ptr<Line>& line : here.lines) {
    if (line) line->pass_on(output, true);
  }
}

// Whether the calling thread works for the pool of another ABI, whose threads have the cores: work
// begun now would only take them away. Without other threads there it is free to have its own.
inline bool works_elsewhere(const ThreadState& here, const Process& process) {
  const void* const other = here.mark->process;
  return other && other != &process;
}

// Around a body: says what the thread is doing, and leaves no line unfinished when the outermost
// one is left.
class FrameScope : NoCopy {
 public:
  FrameScope(Pool* pool, Slot* slot, const Context& context)
      : here_(thread_state()), before_(here_.frame), mark_before_(here_.mark->process),
        process_(context.process) {
    here_.frame = Frame{pool, slot, &context, nullptr, before_.base ? before_.base : stack_here()};
    if (slot || context.group) here_.mark->process = &process_;
  }
  ~FrameScope() {
    end_body();
    here_.frame = before_;
    here_.mark->process = mark_before_;
  }

  // After each body, where several run in the scope.
  void end_body() {
    if (here_.frame.children || here_.line_begun) end_children_and_lines();
  }

 private:
  REGATTA_NOINLINE void end_children_and_lines() {
    if (here_.frame.children) leave_children(here_.frame.children);
    here_.frame.children = nullptr;
    if (!before_.context) end_lines(here_, process_.output);
  }

  ThreadState& here_;
  Frame before_;
  const void* const mark_before_;
  Process& process_;
};

// A longjmp out of a body, as R's errors leave, skips what ends the body. The calling thread is nearer
// to the beginning of its stack then than the body that it still seems to be in. That is sure on the
// main thread alone, whose stack lies apart from all others.
inline void refuse_lost_body(const Process& process) {
  const char* const base = frame_here().base;
  if (!base || !process.on_main()) return;
  const std::ptrdiff_t above = stack_here() - base;
  if (above < 64 || above > (std::ptrdiff_t(1) << 26)) return;
  throw Error("a body of a loop or task has been left by a longjmp, such as an R error: threads of this "
              "process can be used no more. Call stop() in bodies, and nothing of R; save what is "
              "needed and start R again");
}

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

// After a loop or wait has thrown on this thread: how many further exceptions its tasks threw.
inline std::size_t suppressedExceptions() { return detail::thread_state().suppressed; }

REGATTA_NAMESPACE_END

#endif
