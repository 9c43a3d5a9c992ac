#ifndef REGATTA_CORE_POOL_TASKS_HPP
#define REGATTA_CORE_POOL_TASKS_HPP

#include <limits>

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// How much stack tasks that wait for others may use by running these on top of them.
constexpr std::ptrdiff_t deep_stack = 512 * 1024;

// Whether the calling body is so deep in bodies that run on top of each other.
inline bool too_deep() {
  const char* const base = frame_here().base;
  if (!base) return false;
  const std::ptrdiff_t used = base - stack_here();
  return used > deep_stack || used < -deep_stack;
}

inline void Pool::push(Group& group, Task* task) {
  if (closing_.load(std::memory_order_relaxed)) {
    drop_task(task);
    return;
  }
  task->group = &group;
  task->interrupts = interrupts_before(process_);
  task->cancels = group.cancellation.requests();
  if (group.by_index) task->index += group.pushed.fetch_add(1, std::memory_order_relaxed);
  if (!group.has_room() && !make_room(group)) {
    drop_task(task);
    throw_interrupt_of_work(process_);
  }
  // Before the task can be seen, so that the count is never less than the tasks that exist.
  group.pending.fetch_add(1, std::memory_order_relaxed);
  if (worker_count_ == 0 || (started() == 0 && !start_one())) {
    push_alone(task);
    return;
  }
  add_task(group, task);
  if (idle_.any()) {
    idle_.notify(1);
  } else if (started_.load(std::memory_order_seq_cst) < can_start_.load(std::memory_order_relaxed) &&
             groups_.any()) {
    start_one();
  }
}

// Who pushes waits until tasks are done. A task of the group does some in their place, as far as there are any and
// the stack allows: it is not done itself before it has pushed, and if all threads were to wait so, none would be.
// False for who has waited and was interrupted.
REGATTA_NOINLINE inline bool Pool::make_room(Group& group) {
  if (!is_within(group)) {
    const std::uint32_t before = interrupts_before(process_);
    wait_until(group, &Group::has_space);
    return process_.interrupts() == before;
  }
  const SlotLease lease(*this);
  Slot* const me = lease.slot();
  while (!group.has_space() && !too_deep()) {
    Task* const task = find_task(me, &group, true);
    if (!task) break;
    run_tasks(task, me);
    if (me) report_done(*me);
  }
  return true;
}

// One that is not to be run: the program ends, or who pushes is interrupted.
REGATTA_COLD inline void Pool::drop_task(Task* task) {
  Magazine alone;
  destroy_task(task, free_list_, alone);
  alone.send(free_list_);
}

inline bool Pool::runs_here() const {
  const Frame& frame = frame_here();
  if (frame.pool == this) return true;
  for (const Context* one = frame.context; one; one = one->parent) {
    if (one->group && &one->group->pool == this) return true;
  }
  return false;
}

inline bool Pool::is_within(const Group& group) {
  for (const Context* one = frame_here().context; one; one = one->parent) {
    if (one->group == &group) return true;
  }
  return false;
}

inline void Pool::add_task(Group& group, Task* task) {
  if (!group.queue.add(task)) return;
  std::lock_guard<std::mutex> lock(tasks_mutex_);
  // A thread that was taking tasks just then may have taken this one as well. A group without tasks
  // must not be listed: it may be destroyed before anybody looks there.
  if (!group.listed.load(std::memory_order_relaxed) && !group.queue.empty()) groups_.add(group);
}

// Where there is no thread to run it the task runs at once, as far as the stack allows; what is
// beyond that is left to the outermost push, and to who waits. The main thread turns to its host as in a loop.
inline void Pool::push_alone(Task* task) {
  const bool inside = frame_here().pool == this;
  const std::uint32_t before = task->interrupts;
  if (inside && too_deep()) {
    add_task(*task->group, task);
    return;
  }
  Slot* const me = inside ? frame_here().slot : nullptr;
  run_tasks(task, me);
  if (me) report_done(*me);
  if (inside) return;
  while (Task* const next = fetch_task(nullptr, nullptr, false)) run_tasks(next, nullptr);
  if (!process_.on_main()) return;
  poll_if_due(process_, ticks_now());
  if (process_.interrupts() != before) throw_interrupt_of_work(process_);
}

// Runs the task, and with a record those that are next in its run queue and of the same group, so that
// what is around a task is made once for them. The main thread stops when it is time to turn to its
// host.
inline void Pool::run_tasks(Task* task, Slot* me) {
  Group& group = *task->group;
  const bool singly = !me || group.limit < usual_limit;
  if (me && me->done_group != &group) report_done(*me);
  const bool main = process_.on_main();
  const Ticks due = main ? process_.last_poll + static_cast<Ticks>(poll_us * process_.ticks_per_us) : 0;
  Magazine alone;
  {
    Context context(process_, group.parent, nullptr, &group.cancellation);
    context.group = &group;
    FrameScope scope(this, me, context);
    for (std::uint32_t left = RunQueue::places; task; task = me->run_queue.take(&group)) {
      call_task(*task, context);
      destroy_task(task, free_list_, me ? me->magazine : alone);
      scope.end_body();
      if (me) {
        me->done_group = &group;  // the task may have waited, and the thread run others
        ++me->done;
      }
      if (singly || --left == 0) break;
      if (main && static_cast<std::int64_t>(ticks_now() - due) > 0) break;
    }
  }
  if (!me) {
    alone.send(free_list_);
    count_done(group, 1);
    return;
  }
  if (singly || me->done >= RunQueue::places) report_done(*me);
}

inline void Pool::call_task(Task& task, Context& context) {
  Group& group = *context.group;
  context.failure = &group.reporting().first_exception;
  context.interrupts = task.interrupts;
  context.cancels_before = task.cancels;
  context.index = task.index;
  context.running_at.stops.store(0, std::memory_order_relaxed);
  if (closing_.load(std::memory_order_relaxed)) return;
  if (process_.interrupts() != task.interrupts) {
    group.note_interrupt();
  } else if (!context.stopped()) {
    try {
      task.run();
    } catch (...) {
      context.record_current();
    }
  }
}

// From here on the group may be gone. The last one to leave a group that nobody waits for leaves the
// group above, too.
inline void Pool::count_done(Group& group, std::uint64_t count) {
  Group* one = &group;
  for (;;) {
    Pool& pool = one->pool;
    Group* const above = one->parent_group;
    const std::uint64_t low = one->low_mark();
    // seq_cst: the waker's store, see EventCount. acquire: who finds nobody left takes over what
    // the others have left.
    const std::uint64_t before = one->pending.fetch_sub(count, std::memory_order_seq_cst);
    const std::uint64_t left = before - count;
    if (left > 0) {
      if ((left == 1 || (before > low && left <= low)) && pool.waiting_.any()) {
        pool.waiting_.notify_all();
      }
      return;
    }
    if (!above) return;  // its owner destroys it
    pass_on(*one);
    delete one;
    one = above;
    count = 1;
  }
}

// What tasks have thrown that nobody has waited for is thrown where the task is waited for that has
// pushed them.
inline void Pool::pass_on(Group& group) {
  if (!group.first_exception.any()) return;
  Group& above = group.parent_group->reporting();
  above.first_exception.take_over(group.first_exception, group.outer.index - 1);
  above.process.look_up();
}

inline void leave_children(Group* first) noexcept {
  while (first) {
    Group* const next = first->sibling;
    first->left.store(true, std::memory_order_release);
    Pool::pass_on(*first);
    Pool::count_done(*first, 1);
    first = next;
  }
}

// The group of what `user` pushes from outside of tasks. Each library that shares the pool of the
// process has its own; a pool by itself has one.
inline Group& Pool::root(const void* user) {
  if (process_.pool.load(std::memory_order_relaxed) != this) user = nullptr;
  for (Group* one = roots_.load(std::memory_order_acquire); one; one = one->sibling) {
    if (one->user == user) return *one;
  }
  return add_root(user);
}

REGATTA_NOINLINE inline Group& Pool::add_root(const void* user) {
  std::lock_guard<std::mutex> lock(tasks_mutex_);
  Group* const first = roots_.load(std::memory_order_relaxed);
  for (Group* one = first; one; one = one->sibling) {
    if (one->user == user) return *one;
  }
  Group* const made = new Group(process_, *this, nullptr, user);
  made->sibling = first;
  roots_.store(made, std::memory_order_release);
  return *made;
}

// The group that a push of `user` belongs to: children of the body that pushes, where the pool runs
// it, else the root.
inline Group& Pool::group_here(const void* user) {
  Frame& frame = frame_here();
  if (frame.pool != this) return root(user);
  refuse_lost_body(process_);
  for (Group* one = frame.children; one; one = one->sibling) {
    if (one->user == user) return *one;
  }
  const Context* task = frame.context;
  while (task && !(task->group && &task->group->pool == this)) task = task->parent;
  Group* const made = new Group(*this, task ? *task->group : root(user), task, user);
  made->sibling = frame.children;
  frame.children = made;
  return *made;
}

// Under the mutex: after tasks have been taken from the group's queue.
inline void Pool::update_list(Group& group) {
  if (!group.queue.empty() && group.parent_group) return;
  groups_.remove(group);
  if (!group.queue.empty()) groups_.add(group);
}

// A task of the first group, or of `group` and those below it. With a slot whose run queue is empty it
// fetches some, of which others may take theirs.
inline Task* Pool::fetch_task(Slot* me, Group* group, bool thorough) {
  std::lock_guard<std::mutex> lock(tasks_mutex_);
  Group* from = groups_.first();
  if (group && group->listed.load(std::memory_order_relaxed)) {
    from = group;
  } else if (group) {
    const int all = std::numeric_limits<int>::max();
    const int depth = thorough ? all : 64;
    int steps = thorough ? all : 16;
    while (from && !from->counts_for(*group, depth)) from = --steps > 0 ? from->after : nullptr;
  }
  if (!from) return nullptr;
  Task* const task = from->queue.take();
  if (me && me->run_queue.empty()) me->run_queue.fill(from->queue, from);
  update_list(*from);
  return task;
}

// Its own, then a queue's, then those that another has fetched and not begun. With a group only
// what that group waits for: of those that were fetched its own, of those in queues any that is found in a few steps,
// or in any number if `thorough`.
inline Task* Pool::find_task(Slot* me, Group* group, bool thorough) {
  if (me) {
    if (Task* const task = me->run_queue.take(group)) return task;
  }
  if (me && me->emptied && !group) {
    // A queue that is looked at all the time is slow to push to: a few microseconds for more to come,
    // in which nobody has to wait for what has been done.
    me->emptied = false;
    report_done(*me);
    pause_cpu(100);
  }
  if (groups_.any()) {
    if (Task* const task = fetch_task(me, group, thorough)) {
      const bool more = groups_.any();
      if (me) me->emptied = !more;
      if (more || (me && !me->run_queue.empty())) call_workers(1);
      return task;
    }
  }
  for (unsigned i = 0; i < slot_count(); ++i) {
    RunQueue& run_queue = slots_[i].run_queue;
    Task* const task = run_queue.take(group);
    if (!task) continue;
    // The one who fetched them called one thread, which calls the next.
    if (!run_queue.empty()) call_workers(1);
    return task;
  }
  return nullptr;
}

// seq_cst: a sleeper's second look, see EventCount.
inline bool Pool::tasks_left() const {
  if (groups_.any()) return true;
  for (unsigned i = 0; i < slot_count(); ++i) {
    if (!slots_[i].run_queue.empty()) return true;
  }
  return false;
}

// What the thread has fetched and not begun goes to the queues again, before it sleeps: others may wait for a group
// above, and find that only there.
inline bool Pool::give_back(Slot& me) {
  bool any = false;
  while (Task* const task = me.run_queue.take(nullptr)) {
    add_task(*task->group, task);
    any = true;
  }
  if (any) waiting_.notify_all();
  return any;
}

inline bool Pool::run_task(Slot& me) {
  Task* const task = find_task(&me, nullptr);
  if (!task) return false;
  stop_searching(me);
  run_tasks(task, &me);
  return true;
}

// Before a thread that has done tasks turns to something else: those who wait hear of them.
inline void Pool::report_done(Slot& me) {
  if (me.done == 0) return;
  const std::uint64_t done = me.done;
  me.done = 0;
  me.magazine.send(free_list_);
  count_done(*me.done_group, done);
}

// Runs tasks that the group waits for until it is as wanted. A thread of the pool helps, and so does
// any other where it counts as one (see the constructor); a pool made for `n` threads runs no more
// than `n` tasks at once. Tasks of other groups are left alone: they might wait for what is below
// this wait on the stack, and there may be any number of them.
inline void Pool::wait_until(Group& group, bool (Group::*wanted)() const) {
  if ((group.*wanted)()) return;
  if (frame_here().pool == this && too_deep() && wait_elsewhere(group, wanted)) return;
  const bool helps = may_help();
  const SlotLease lease(*this, helps);
  Slot* const me = lease.slot();
  work_until([&group, wanted] { return (group.*wanted)(); }, [&](double idle_us) {
    const bool takes = helps || (alone_ && idle_us > 2.0 * poll_us);
    Group* const only = started() > 0 ? &group : nullptr;
    if (Task* const task = takes ? find_task(me, only, idle_us > spin_us) : nullptr) {
      run_tasks(task, me);
      return true;
    }
    if (me) report_done(*me);
    return me && give_back(*me);
  });
  if (me) report_done(*me);
}

// Tasks that wait for tasks that wait are run on top of each other, which a stack bears to some
// depth only. From there on a new thread does it in place of the calling one, which sleeps, but for
// the main thread, which turns to its host. False if the system has no thread to give.
inline bool Pool::wait_elsewhere(Group& group, bool (Group::*wanted)() const) {
  Context context(process_, frame_here().context, &group.first_exception, nullptr);
  std::atomic<bool> over(false);
  std::thread other;
  try {
    SignalsBlocked blocked;
    other = std::thread([this, &group, &context, &over, wanted] {
      {
        const FrameScope scope(this, nullptr, context);
        wait_until(group, wanted);
      }
      over.store(true, std::memory_order_seq_cst);
      waiting_.notify_all();
    });
  } catch (const std::exception&) {  // no thread to be had, or no memory
    return false;
  }
  if (process_.on_main()) {
    work_until([&over] { return over.load(std::memory_order_seq_cst); }, [](double) { return false; });
  }
  other.join();
  return true;
}

inline void Pool::wait_for_all(Group& group) {
  wait_until(group, &Group::done);
  if (process_.on_main()) print_now(process_);
}

// Until all tasks of the group are done. Throws the first exception of a task (those not begun by
// then are dropped), UserInterruptException, or Stopped.
inline void Pool::wait(Group& group) {
  refuse_lost_body(process_);
  const Context* const here = frame_here().context;
  // A group that this body has made is none that it belongs to; others are rarely waited for.
  const bool own = group.parent_group || group.parent == here;
  if (!own && is_within(group)) {
    throw Error("a task waits for the group that it belongs to, which is not done before the task "
                "is: give what it waits for a TaskGroup of its own");
  }
  const std::uint32_t before = interrupts_before(process_);
  wait_for_all(group);
  const bool interrupted = group.interrupted.exchange(false, std::memory_order_relaxed);
  throw_if_stopped(process_, group.first_exception, interrupted || process_.interrupts() != before, here);
}

// As wait(), but throws nothing: an interrupt that nothing has thrown is left to the host.
inline void Pool::finish(Group& group) noexcept {
  wait_for_all(group);
  const bool interrupted = group.interrupted.exchange(false, std::memory_order_relaxed);
  const bool told = process_.interrupts() == process_.reported();
  if (interrupted && process_.on_main() && !told) interrupt_later(process_);
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
