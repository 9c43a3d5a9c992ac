#ifndef REGATTA_CORE_TASK_HPP
#define REGATTA_CORE_TASK_HPP

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "config.hpp"
#include "frame.hpp"
#include "free-list.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// A place in a queue. release and acquire: who follows the link sees the task it leads to.
struct Link {
  std::atomic<Link*> next{nullptr};
};

// One call that was pushed to a group.
struct Task : Link {
  virtual ~Task() {}
  virtual void run() = 0;

  Group* group = nullptr;
  // What its context begins with, see there.
  std::uint64_t index = 1;
  std::uint32_t interrupts = 0;
  std::uint32_t cancels = 0;
  bool in_block = false;  // of the pool's TaskFreeList
};

template <class Call>
struct TaskOf final : Task {
  explicit TaskOf(Call&& with) : call(std::move(with)) {}
  void run() override { call(); }
  Call call;
};

// Memory for free(), of any alignment, which `new` ignores before C++17.
inline void* allocate_aligned(std::size_t size, std::size_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) throw std::bad_alloc();
  return memory;
}

// A task for `call`, in a block if it fits.
template <class Call>
Task* make_task(Call&& call, TaskFreeList& memory) {
  using Made = TaskOf<typename std::decay<Call>::type>;
  const bool fits = sizeof(Made) <= TaskFreeList::size && alignof(Made) <= alignof(std::max_align_t);
  void* const place = fits ? memory.take() : allocate_aligned(sizeof(Made), alignof(Made));
  try {
    Task* const task = new (place) Made(std::move(call));
    task->in_block = fits;
    return task;
  } catch (...) {
    free(place);
    throw;
  }
}

// `task` is all of the object that make_task() made, and begins where that does.
inline void destroy_task(Task* task, TaskFreeList& memory, Magazine& magazine) {
  const bool in_block = task->in_block;
  task->~Task();
  if (in_block) {
    magazine.add(task, memory);
  } else {
    free(task);
  }
}

// The tasks of a group that nobody has fetched, in the order they were pushed. Any thread adds without
// waiting; to take needs the mutex of the pool. The queue of D. Vyukov: who adds a task first becomes
// the last, then links itself to the one before it, and until it has done so the rest cannot be
// reached.
class MpscQueue {
 public:
  // True if there was no task: the caller then has to see to it that somebody looks here.
  bool add(Link* link) {
    Link* const before = append(link);
    before->next.store(link, std::memory_order_release);
    return before == &stub_;
  }

  // The first half of add(): the one to link from. acq_rel: who adds the next one finds the end of
  // the queue in this one.
  Link* append(Link* link) {
    link->next.store(nullptr, std::memory_order_relaxed);
    return last_.exchange(link, std::memory_order_acq_rel);
  }

  // Under the mutex. Whether an add() has said that there was no task, or the next one will.
  bool empty() const {
    return first_ == &stub_ && !stub_.next.load(std::memory_order_acquire);
  }

  // Under the mutex. The oldest; null if there is none that can be reached yet.
  Task* take() {
    Link* first = first_;
    Link* next = first->next.load(std::memory_order_acquire);
    if (first == &stub_) {
      if (!next) return nullptr;
      first_ = first = next;
      next = first->next.load(std::memory_order_acquire);
    }
    if (!next) {
      // The only one may be taken once the stub stands behind it.
      if (first != last_.load(std::memory_order_relaxed)) return nullptr;
      add(&stub_);
      next = first->next.load(std::memory_order_acquire);
      if (!next) return nullptr;
    }
    first_ = next;
    return static_cast<Task*>(first);
  }

 private:
  std::atomic<Link*> last_{&stub_};
  Padding apart_;
  Link* first_ = &stub_;
  Link stub_;
};

// Tasks of one group that a thread has fetched from its queue; any other may take them while that
// thread is busy with a long one. Places are numbered without end, so that a number stands for one
// task: who moves `front` from a number to the next has that number's task.
class RunQueue {
 public:
  static constexpr std::uint32_t places = 32;

  bool empty() const {
    const std::uint64_t range = range_.load(std::memory_order_seq_cst);
    return front(range) == back(range);
  }

  // The owner's, under the pool's mutex, and only into an empty ring. release: who takes a task
  // sees it.
  void fill(MpscQueue& queue, const Group* group) {
    const std::uint32_t first = back(range_.load(std::memory_order_relaxed));
    std::uint32_t at = first;
    for (; at - first < places; ++at) {
      Task* const task = queue.take();
      if (!task) break;
      places_[at % places].store(task, std::memory_order_relaxed);
    }
    group_.store(group, std::memory_order_relaxed);
    range_.store(pack(first, at), std::memory_order_seq_cst);
  }

  // A task of the group, or of any if that is null. acquire: pairs with fill(). Place and group are
  // read before the number is claimed; the owner writes to them again only when it has seen the ring
  // empty, and then the claim fails. release: so that what it writes then is not what was read here.
  Task* take(const Group* group) {
    std::uint64_t range = range_.load(std::memory_order_acquire);
    while (front(range) != back(range)) {
      if (group && group_.load(std::memory_order_relaxed) != group) return nullptr;
      Task* const task = places_[front(range) % places].load(std::memory_order_relaxed);
      if (range_.compare_exchange_weak(range, pack(front(range) + 1, back(range)),
                                       std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return task;
      }
    }
    return nullptr;
  }

 private:
  static std::uint32_t front(std::uint64_t range) { return static_cast<std::uint32_t>(range >> 32); }
  static std::uint32_t back(std::uint64_t range) { return static_cast<std::uint32_t>(range); }
  static std::uint64_t pack(std::uint32_t first, std::uint32_t last) {
    return (static_cast<std::uint64_t>(first) << 32) | last;
  }

  std::atomic<std::uint64_t> range_{0};
  std::atomic<const Group*> group_{nullptr};
  std::atomic<Task*> places_[places] = {};
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
