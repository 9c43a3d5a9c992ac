#ifndef REGATTA_CORE_CONTEXT_HPP
#define REGATTA_CORE_CONTEXT_HPP

#include <atomic>
#include <exception>

#include "failure.hpp"
#include "process.hpp"

REGATTA_NAMESPACE_BEGIN

// Ends loops early, without an error: a body or another thread calls request(), and every loop
// that was given the object begins no further unit.
class Cancellation {
 public:
  // relaxed: like an interrupt, it says "look when you can".
  void request() {
    requests_.fetch_add(1, std::memory_order_relaxed);
    detail::process().look_up();
  }
  bool requested() const { return requests() != 0; }
  std::uint32_t requests() const { return requests_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> requests_{0};
};

// Thrown by a loop or wait inside a body when the work around it has failed or was cancelled: the
// inner work is not complete, and nobody wants it any more. Whoever runs the body drops it.
class REGATTA_SHARED Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "The work around this has been stopped."; }
};

namespace detail {

struct Group;

// What can end the work of a loop, a task or a Thread: its own failure and cancellation, those of
// all work around it, and an interrupt.
// A context is read by the threads that work for it, and by those of work inside of it. So what is
// around it has to outlive it, as has all that it points to.
struct Context {
  Context(Process& in, const Context* around, Failure* slot,
          const Cancellation* token)
      : process(in), parent(around), interrupts(around ? around->interrupts : in.interrupts()),
        failure(slot), cancellation(token) {}

  // Work may lie in work to any depth: what has been asked since the process last heard of something
  // that ends work is not asked again.
  bool stopped() const {
    if (process.interrupts() != interrupts) return true;
    const std::uint32_t now = process.stops();
    const Context* known = this;
    for (; known && known->running_at.stops.load(std::memory_order_relaxed) != now; known = known->parent) {
      if (known->stopped_itself()) return true;
    }
    for (const Context* one = this; one != known; one = one->parent) {
      one->running_at.stops.store(now, std::memory_order_relaxed);
    }
    return false;
  }

  // relaxed: "stop when you can".
  bool stopped_itself() const {
    return (failure && failure->ends(index)) ||
           (cancellation && cancellation->requests() != cancels_before);
  }

  void record(std::exception_ptr error) const noexcept {
    failure->record(error, index - 1);
    process.look_up();
  }

  // In the handler of what a body has thrown.
  void record_current() const noexcept {
    try {
      throw;
    } catch (const Stopped&) {
      if (!stopped()) record(std::current_exception());
    } catch (...) {
      record(std::current_exception());
    }
  }

  bool is_inside(const Context* other) const {
    for (const Context* one = parent; one; one = one->parent) {
      if (one == other) return true;
    }
    return false;
  }

  Process& process;
  const Context* parent;     // the work around it, null if there is none
  std::uint32_t interrupts;  // before the outermost work began: a later one ends it
  Failure* failure;          // where exceptions go; null for a Thread
  std::uint64_t index = 1;   // in that slot: 1, but for tasks whose lowest failure counts
  const Cancellation* cancellation;
  std::uint32_t cancels_before = 0;  // requests that are not for this
  Group* group = nullptr;  // of a task

  // The value of process.stops() at which neither this nor anything around it had stopped. relaxed:
  // threads that find it for themselves store the same. A copy asks anew.
  struct Stamp {
    Stamp() {}
    Stamp(const Stamp&) {}
    std::atomic<std::uint32_t> stops{0};
  };
  mutable Stamp running_at;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
