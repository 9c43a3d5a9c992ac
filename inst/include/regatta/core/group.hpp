#ifndef REGATTA_CORE_GROUP_HPP
#define REGATTA_CORE_GROUP_HPP

#include <algorithm>
#include <atomic>

#include "context.hpp"
#include "task.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

class Pool;

// How many tasks of a group may be there at a time, unless it says otherwise: some 8 MB.
constexpr std::uint64_t usual_limit = 1 << 16;

// A count of tasks that can be waited for, with what makes them stop. Those who push hold it open; it
// goes when they have left it and the last task is done.
//
// Groups form trees: what a task pushes without naming a group goes to a group of its own children,
// which counts as one task of the group that the task belongs to.
struct Group : NoCopy {
  // `around`: the work that is not over before all of this group is, or null.
  Group(Process& in, Pool& on, const Context* around, const void* by = nullptr)
      : process(in), pool(on), parent(around), parent_group(nullptr), root(this), user(by),
        outer(in, nullptr, nullptr, nullptr) {}

  // Of what a task pushes, or a body that is part of no task. `task` may end before the group does,
  // and so may groups above that nobody can wait for: what is kept is the nearest that is open.
  Group(Pool& on, Group& above, const Context* task, const void* by)
      : process(above.process), pool(on), parent(task ? &outer : nullptr),
        parent_group(&above.reporting()), root(above.root), user(by),
        outer(task ? of_nearest(*task) : Context(process, nullptr, nullptr, nullptr)) {
    parent_group->pending.fetch_add(1, std::memory_order_relaxed);
  }

  // seq_cst: a sleeper's second look, see EventCount.
  bool done() const { return pending.load(std::memory_order_seq_cst) <= 1; }
  // relaxed: whether to push one more; a few too many do no harm.
  bool has_room() const { return pending.load(std::memory_order_relaxed) <= limit; }
  // Who waits for room waits for some more, so as not to wait for each task.
  bool has_space() const { return pending.load(std::memory_order_seq_cst) <= low_mark(); }
  std::uint64_t low_mark() const { return limit < 8 ? limit : limit / 2; }

  // Where exceptions of its tasks go: when nobody can wait for this group any more, to the nearest one
  // for which somebody can.
  Group& reporting() {
    Group* one = this;
    while (one->left.load(std::memory_order_acquire) && one->parent_group) one = one->parent_group;
    return *one;
  }

  // Whether tasks of this group are part of what `other` waits for, as far as can be seen in so many steps.
  bool counts_for(const Group& other, int steps) const {
    if (root != other.root) return false;
    if (&other == root) return true;
    for (const Group* one = this; one && steps > 0; one = one->parent_group, --steps) {
      if (one == &other) return true;
    }
    return false;
  }

  void note_interrupt() {
    for (Group* one = this; one; one = one->parent_group) {
      one->interrupted.store(true, std::memory_order_relaxed);
    }
  }

  Process& process;
  Pool& pool;
  const Context* const parent;  // the work around it
  Group* const parent_group;
  Group* const root;
  const void* const user;    // whose pushes these are, of those that share the pool
  Group* sibling = nullptr;  // further children of the same body, or roots of the same pool
  std::uint64_t limit = usual_limit;
  bool by_index = false;     // the exception of the lowest index counts, not the first in time
  const Context outer;       // of children: a copy of their task's context
  Failure first_exception;
  Cancellation cancellation;
  std::atomic<bool> left{false};         // by those who push: nobody can wait for it
  std::atomic<bool> interrupted{false};  // tasks were dropped for that; relaxed: read when all are done
  Padding apart_from_pushers;

  // Tasks and groups of children that are not done, and one while it is open.
  std::atomic<std::uint64_t> pending{1};
  std::atomic<std::uint64_t> pushed{0};  // counted where the index counts
  // Its taking side and what follows are guarded by the pool's mutex; `listed` may be looked at
  // without, as a hint.
  MpscQueue queue;
  std::atomic<bool> listed{false};
  Group* before = nullptr;
  Group* after = nullptr;

 private:
  static const Context& of_nearest(const Context& task) {
    const Context* context = &task;
    for (const Group* one = task.group;
         one->left.load(std::memory_order_acquire) && one->parent_group; one = one->parent_group) {
      context = &one->outer;
    }
    return *context;
  }
};

// The groups of a pool whose queue is not empty.
class GroupList {
 public:
  // Without the mutex. seq_cst: a sleeper's second look, see EventCount.
  bool any() const { return any_.load(std::memory_order_seq_cst); }

  // Under the pool's mutex, as all below.
  Group* first() const { return first_; }

  // Children come first: what is deep in the tree is done before more is begun, which bounds the
  // memory. Other groups take turns.
  void add(Group& group) {
    group.listed.store(true, std::memory_order_relaxed);
    Group* const next = group.parent_group ? first_ : nullptr;
    Group* const previous = next ? nullptr : last_;
    group.before = previous;
    group.after = next;
    (previous ? previous->after : first_) = &group;
    (next ? next->before : last_) = &group;
    any_.store(true, std::memory_order_seq_cst);
  }

  void remove(Group& group) {
    group.listed.store(false, std::memory_order_relaxed);
    (group.before ? group.before->after : first_) = group.after;
    (group.after ? group.after->before : last_) = group.before;
    any_.store(first_ != nullptr, std::memory_order_seq_cst);
  }

 private:
  Group* first_ = nullptr;
  Group* last_ = nullptr;
  std::atomic<bool> any_{false};
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
