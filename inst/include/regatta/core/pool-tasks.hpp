#ifndef REGATTA_CORE_POOL_TASKS_HPP
#define REGATTA_CORE_POOL_TASKS_HPP

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Without helpers the task runs at once, in the caller, and is not counted.
inline void Pool::push(Task* task) {
  task->interrupts = interrupts_before(process_);
  if (helper_count_ == 0 || (started() == 0 && !start_one())) {
    const Frame& frame = frame_here();
    const bool inside = frame.pool == this;
    SpareBundle bundle;
    finish_task(task, inside ? frame.task : nullptr, inside ? frame.desk : nullptr, bundle);
    bundle.send(task_memory_);
    return;
  }
  queue_.push(task);
  if (bed_.any()) {
    bed_.wake(1);
  } else if (started_.load(std::memory_order_seq_cst) < can_start_.load(std::memory_order_relaxed) &&
             !queue_.empty()) {
    start_one();
  }
}

// `within`: the task that is counted as waiting while this one waits.
inline void Pool::finish_task(Task* task, Task* within, Desk* desk, SpareBundle& bundle) {
  if (process_.interrupts() != task->interrupts) {
    interrupted_.store(true, std::memory_order_relaxed);
  } else if (!dropping_.load(std::memory_order_relaxed)) {
    call_task(task, within, desk);
  }
  destroy_task(task, task_memory_, bundle);
}

inline void Pool::call_task(Task* task, Task* within, Desk* desk) {
  Context context(process_, nullptr, &failure_, nullptr);
  context.interrupts = task->interrupts;
  try {
    task->run(Frame{this, desk, &context, within}, process_);
  } catch (...) {
    context.record_current();
  }
  // setError() throws nothing.
  if (failure_.any()) dropping_.store(true, std::memory_order_relaxed);
}

// Its own, then the queue's, then those that another has fetched and not begun.
inline Task* Pool::find_task(Helper& me) {
  if (Task* const task = me.ring.take()) return task;
  if (me.emptied) {
    // A queue that is looked at all the time is slow to push to: a few microseconds for more to come.
    me.emptied = false;
    pause_cpu(100);
  }
  if (!queue_.empty()) {
    const unsigned fetched = me.ring.fill(queue_);
    me.emptied = fetched > 0 && fetched < TaskRing::places;
    if (fetched > 0 && (!queue_.empty() || !me.ring.empty())) call_helpers(1);
    if (Task* const task = me.ring.take()) return task;
  }
  for (unsigned i = 0; i < helper_count_ + guests; ++i) {
    TaskRing& ring = helpers_[i].ring;
    Task* const task = ring.take();
    if (!task) continue;
    // The one who fetched them called one thread, which calls the next.
    if (!ring.empty()) call_helpers(1);
    return task;
  }
  return nullptr;
}

// seq_cst: a sleeper's second look, see Bed.
inline bool Pool::tasks_left() const {
  if (!queue_.empty()) return true;
  for (unsigned i = 0; i < helper_count_ + guests; ++i) {
    if (!helpers_[i].ring.empty()) return true;
  }
  return false;
}

inline bool Pool::run_task(Helper& me) {
  Task* const task = find_task(me);
  if (!task) return false;
  stop_watching(me);
  finish_task(task, task, me.desk, me.spare);
  me.done.store(me.done.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  me.reported = false;
  return true;
}

// Before a thread that has done tasks turns to something else: lets those who wait have a look.
// seq_cst: see Bed.
inline void Pool::report_done(Helper& me) {
  if (me.reported) return;
  me.reported = true;
  me.spare.send(task_memory_);
  me.done.store(me.done.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  if (waiting_.any()) waiting_.wake_all();
}

// For a task that waits (`inside`), other waiting tasks count as done: two that wait for each
// other's end would never return. Done tasks are counted first: one that goes on from waiting to
// done in between must not be counted twice. seq_cst, because this is a sleeper's second look.
inline bool Pool::all_done(bool inside) const {
  std::uint64_t done = dropped_.load(std::memory_order_seq_cst);
  for (unsigned i = 0; i < helper_count_ + guests; ++i) {
    done += helpers_[i].done.load(std::memory_order_seq_cst);
  }
  if (inside) done += waiting_tasks_.load(std::memory_order_seq_cst);
  return done >= queue_.added();
}

inline SeatLease::SeatLease(Pool& pool, bool wanted) : helper_(nullptr), lent_(nullptr) {
  if (!wanted) return;
  const Frame& frame = frame_here();
  Desk* desk = frame.pool == &pool ? frame.desk : nullptr;
  if (!desk) desk = lent_ = pool.lend_desk();
  if (desk) helper_ = pool.helpers_.get() + (desk - pool.desks_.get());
}

inline void Pool::wait_step(bool inside, Helper* me, Ticks* since) {
  if (me && run_task(*me)) {
    *since = ticks_now();
    return;
  }
  if (me) report_done(*me);
  if (us_since(*since) < spin_us) {
    pause_cpu(4);
    return;
  }
  waiting_.announce();
  if (all_done(inside)) {
    waiting_.withdraw();
  } else {
    waiting_.sleep(poll_us);
  }
}

// A thread of the pool helps while it waits, and so does any other where it counts as one (see
// the constructor); a pool made for `n` threads runs no more than `n` tasks at once.
inline void Pool::wait_until_done(bool inside) {
  const bool main = process_.on_main();
  const bool helps = frame_here().pool == this || most_ > helper_count_ || started() == 0;
  const SeatLease seat(*this, helps);
  Ticks since = ticks_now();
  while (!all_done(inside)) {
    if (main) poll_if_due(process_, us_since(process_.last_poll));
    wait_step(inside, seat.helper(), &since);
  }
  if (seat.helper()) report_done(*seat.helper());
  if (main) print_now(process_);
}

// A task counts once, however many bodies of its loops wait.
inline void Pool::begin_wait(Task* task) {
  {
    std::lock_guard<std::mutex> lock(waits_mutex_);
    if (task->waits++ == 0) waiting_tasks_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (waiting_.any()) waiting_.wake_all();
}

inline void Pool::end_wait(Task* task) {
  std::lock_guard<std::mutex> lock(waits_mutex_);
  if (--task->waits == 0) waiting_tasks_.fetch_sub(1, std::memory_order_seq_cst);
}

inline void Pool::wait() {
  const Frame& frame = frame_here();
  const std::uint32_t before = interrupts_before(process_);
  if (frame.pool == this && frame.task) {
    begin_wait(frame.task);
    wait_until_done(true);
    end_wait(frame.task);
    return;
  }
  wait_until_done(false);
  dropping_.store(false, std::memory_order_relaxed);
  const bool interrupted = interrupted_.exchange(false, std::memory_order_relaxed);
  if (failure_.any()) throw_first(process_, failure_);
  if (interrupted || process_.interrupts() != before) throw_interrupt(process_);
}

inline void Pool::finish() noexcept {
  try {
    wait_until_done(false);
    const bool interrupted = interrupted_.exchange(false, std::memory_order_relaxed);
    if (interrupted && process_.on_main()) interrupt_later(process_);
  } catch (...) {
    drop_tasks();
  }
}

inline void Pool::drop_tasks() {
  std::uint64_t dropped = 0;
  SpareBundle bundle;
  const auto destroy = [this, &bundle](Task* task) { destroy_task(task, task_memory_, bundle); };
  while (unsigned some = queue_.take(1000, destroy)) dropped += some;
  for (unsigned i = 0; i < helper_count_ + guests; ++i) {
    while (Task* const task = helpers_[i].ring.take()) {
      destroy(task);
      ++dropped;
    }
  }
  bundle.send(task_memory_);
  dropped_.fetch_add(dropped, std::memory_order_seq_cst);
  if (waiting_.any()) waiting_.wake_all();
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
