#ifndef REGATTA_CORE_POLL_HPP
#define REGATTA_CORE_POLL_HPP

#include <chrono>
#include <thread>
#include <utility>

#include "failure.hpp"
#include "frame.hpp"
#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// How often the main thread turns to its host while it works or waits. An interrupt has to be
// answered in 150 ms, of which this leaves most to the tasks.
constexpr double poll_us = 25000.0;

struct PollGuard : NoCopy {
  explicit PollGuard(Process& process) : process_(process) { process_.polling = true; }
  ~PollGuard() { process_.polling = false; }
  Process& process_;
};

// Main thread only, in the handler of what a function of the host has thrown. Where the host is
// asked nothing may be thrown, as workers use what is on the stack: it counts as an interrupt, and
// is thrown in place of one.
inline void keep_host_error(Process& process) noexcept {
  if (!process.host_error) process.host_error = std::current_exception();
}

// Main thread only, as the two below; false if the user asked to stop meanwhile.
inline bool print_text(Process& process, int stream, const std::string& text) {
  PollGuard guard(process);
  try {
    return process.host().print(stream, text.data(), text.size());
  } catch (...) {
    keep_host_error(process);
    return false;
  }
}

inline bool print_waiting(Process& process) {
  bool goes_on = true;
  if (!process.output.waits() || !process.host().print) return goes_on;
  for (const OutputPiece& piece : process.output.take()) {
    goes_on = print_text(process, piece.stream, piece.text) && goes_on;
  }
  return goes_on;
}

// Main thread only. An interrupt that was noticed where nothing can be thrown: others hear of it,
// and the host will notice it again.
inline void interrupt_later(Process& process) {
  process.count_interrupt();
  if (process.host_error || !process.host().interrupt_again) return;
  try {
    process.host().interrupt_again();
  } catch (...) {
    keep_host_error(process);
  }
}

inline void print_now(Process& process) {
  if (process.polling) return;
  if (!print_waiting(process)) interrupt_later(process);
}

// Text of the main thread itself is printed at once. Lines of others wait until it has ended its own.
inline void print_own(Process& process, int stream, const std::string& text) {
  if (process.polling || !process.host().print) {
    process.output.add(stream, text);
    return;
  }
  if (!process.line_open) print_now(process);
  if (text.empty()) return;
  process.line_open = text.back() != '\n';
  if (!print_text(process, stream, text)) interrupt_later(process);
}

// Main thread only: prints what waits and asks whether the user wants to stop. A host may run
// other code of this library meanwhile (R's event handlers), which must not poll again.
inline bool poll_host(Process& process) {
  if (process.polling || process.ending()) return false;
  process.last_poll = ticks_now();
  bool stops = !print_waiting(process);
  PollGuard guard(process);
  try {
    if (process.host().interrupted) stops = process.host().interrupted() || stops;
  } catch (...) {
    keep_host_error(process);
  }
  return stops || process.host_error;
}

// Main thread only: asks if it is time to, and tells the other threads.
inline void poll_if_due(Process& process, Ticks now) {
  if (process.us_between(process.last_poll, now) > poll_us && poll_host(process)) process.count_interrupt();
}

// What checks that follow each other closely are answered with is at most this old: some 50 us.
constexpr Ticks fresh_ticks = 100000;

REGATTA_NOINLINE inline bool look_on_main(Process& process) {
  const Frame& frame = frame_here();
  if (frame.context && interrupted_here(process, frame)) return true;
  if (ticks_now() - process.last_poll < fresh_ticks && !process.output.waits()) return false;
  if (!poll_host(process)) return false;
  process.count_interrupt();
  return true;
}

// On the main thread the host is asked; other threads hear what the main thread has heard.
// Before there has ever been one, they need not find out which work it would have to follow.
inline bool look_for_interrupt(Process& process) {
  if (process.on_main()) return look_on_main(process);
  return process.interrupts() != 0 && interrupted_here(process, frame_here());
}

// What ends the work of the main thread ends it for its interrupts too, whichever came first:
// threads that this library knows nothing of must not answer them again.
REGATTA_NOINLINE inline void throw_error(Process& process, std::exception_ptr error) {
  if (process.on_main()) {
    process.report_interrupts();
    process.host_error = nullptr;
  }
  std::rethrow_exception(error);
}

REGATTA_NOINLINE inline void throw_interrupt(Process& process) {
  if (process.on_main()) {
    process.report_interrupts();
    std::exception_ptr error;
    std::swap(error, process.host_error);
    if (error) std::rethrow_exception(error);
  }
  throw UserInterruptException();
}

// As throw_interrupt(), of a loop or wait. The end of the program interrupts those of threads that
// the library knows nothing of, too, which may have been detached and catch nothing: what they throw
// would abort the program. One that somebody joins goes on after a while.
REGATTA_NOINLINE inline void throw_interrupt_of_work(Process& process) {
  if (process.ending() && !process.on_main() && !frame_here().context) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  throw_interrupt(process);
}

// Only when nothing of what may fail runs any more.
inline void throw_first(Process& process, Failure& failure) {
  std::size_t others = 0;
  std::exception_ptr error = failure.take(&others);
  if (!error) return;
  thread_state().suppressed = others;
  throw_error(process, error);
}

// When work has ended: throws what it threw, that it was interrupted, or that nobody wants it because
// the work around it has stopped.
inline void throw_if_stopped(Process& process, Failure& failure, bool interrupted, const Context* around) {
  if (failure.any()) throw_first(process, failure);
  if (interrupted) throw_interrupt_of_work(process);
  if (around && around->stopped()) throw Stopped();
}

}  // namespace detail

// Throws a UserInterruptException if the user asked to stop; `condition` false: does nothing.
inline void checkUserInterrupt(bool condition = true) {
  if (!condition) return;
  detail::Process& process = detail::process();
  if (detail::look_for_interrupt(process)) detail::throw_interrupt(process);
}

// Whether the user asked to stop; `condition` false: does not look and says no.
inline bool isInterrupted(bool condition = true) {
  if (!condition) return false;
  return detail::look_for_interrupt(detail::process());
}

// Whether a body or task should end soon, since nobody wants its result any more: the user asked to
// stop, or its loop or group, or one around that, has failed or was cancelled.
inline bool shouldStop() {
  const detail::Context* const context = detail::frame_here().context;
  return (context && context->stopped()) || isInterrupted();
}

REGATTA_NAMESPACE_END

#endif
