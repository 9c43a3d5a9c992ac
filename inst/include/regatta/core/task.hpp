#ifndef REGATTA_CORE_TASK_HPP
#define REGATTA_CORE_TASK_HPP

#include <atomic>
#include <cstddef>
#include <mutex>
#include <type_traits>
#include <utility>

#include "config.hpp"
#include "loop.hpp"
#include "task-memory.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// A place in a queue. release and acquire: who follows the link sees the task it leads to.
struct Link {
  Link() : next(nullptr) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  std::atomic<Link*> next;
};

// One call that was pushed to a pool.
struct Task : Link {
  Task() : interrupts(0), waits(0), in_block(false) {}
  virtual ~Task() {}
  virtual void run(const Frame& frame, Process& process) = 0;

  std::uint32_t interrupts;  // before it was pushed, see Frame
  unsigned waits;  // how many of its threads wait for the pool; guarded by the pool's waits_mutex_
  bool in_block;   // its memory is a block of the pool's TaskMemory
};

template <class Call>
struct TaskOf final : Task {
  explicit TaskOf(Call&& with) : call(std::move(with)) {}
  void run(const Frame& frame, Process& process) override {
    const FrameScope scope(frame, process);
    call();
  }
  Call call;
};

// A task for `call`, in a block if it fits.
template <class Call>
Task* make_task(Call&& call, TaskMemory& memory) {
  using Made = TaskOf<typename std::decay<Call>::type>;
  if (sizeof(Made) > TaskMemory::size || alignof(Made) > alignof(std::max_align_t)) {
    return new Made(std::move(call));
  }
  void* const block = memory.take();
  try {
    Task* const task = new (block) Made(std::move(call));
    task->in_block = true;
    return task;
  } catch (...) {
    SpareBundle bundle;
    bundle.add(block, memory);
    bundle.send(memory);
    throw;
  }
}

// `task` is all of the object that make_task() made, and begins where that does.
inline void destroy_task(Task* task, TaskMemory& memory, SpareBundle& bundle) {
  if (!task->in_block) {
    delete task;
    return;
  }
  task->~Task();
  bundle.add(task, memory);
}

// Tasks in the order they were pushed. Any thread pushes without waiting; those that take have a
// mutex among themselves. The queue of D. Vyukov: a pusher first becomes the last, then links
// itself to the one before it, and until it has done so the rest cannot be reached.
class TaskQueue {
 public:
  TaskQueue() : last_(&stub_), added_(0), first_(&stub_), taken_(0) { static_cast<void>(apart_); }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // seq_cst on the count, because the pusher asks for sleepers next (see Bed).
  void push(Task* task) {
    added_.fetch_add(1, std::memory_order_seq_cst);
    append(task);
  }

  // seq_cst: the sleeper's second look. False while a push is under way.
  bool empty() const {
    return taken_.load(std::memory_order_seq_cst) >= added_.load(std::memory_order_seq_cst);
  }
  std::uint64_t added() const { return added_.load(std::memory_order_seq_cst); }

  // Calls keep(task) for up to `most` tasks, the oldest first, and returns how many they were.
  template <class Keep>
  unsigned take(unsigned most, const Keep& keep) {
    std::lock_guard<std::mutex> lock(mutex_);
    unsigned count = 0;
    for (; count < most; ++count) {
      Task* const task = take_one();
      if (!task) break;
      keep(task);
    }
    if (count > 0) taken_.fetch_add(count, std::memory_order_seq_cst);
    return count;
  }

 private:
  void append(Link* link) {
    link->next.store(nullptr, std::memory_order_relaxed);
    Link* const before = last_.exchange(link, std::memory_order_acq_rel);
    before->next.store(link, std::memory_order_release);
  }

  // Null if there is none, or if its pusher has not linked it yet.
  Task* take_one() {
    Link* first = first_;
    Link* next = first->next.load(std::memory_order_acquire);
    if (first == &stub_) {
      if (!next) return nullptr;
      first_ = first = next;
      next = first->next.load(std::memory_order_acquire);
    }
    if (!next) {
      // The only one may be taken once the stub stands behind it.
      if (first != last_.load(std::memory_order_acquire)) return nullptr;
      append(&stub_);
      next = first->next.load(std::memory_order_acquire);
      if (!next) return nullptr;
    }
    first_ = next;
    return static_cast<Task*>(first);
  }

  std::atomic<Link*> last_;
  std::atomic<std::uint64_t> added_;
  char apart_[cache_line];
  std::mutex mutex_;
  Link* first_;
  std::atomic<std::uint64_t> taken_;
  Link stub_;
};

// Tasks that one thread has fetched from the queue; any other may take them while that thread is
// busy with a long one. Places are numbered without end, so that a number stands for one task:
// who moves `front` from a number to the next has that number's task.
class TaskRing {
 public:
  static constexpr std::uint32_t places = 32;

  TaskRing() : range_(0) {
    for (std::atomic<Task*>& place : places_) place.store(nullptr, std::memory_order_relaxed);
  }

  bool empty() const {
    const std::uint64_t range = range_.load(std::memory_order_seq_cst);
    return front(range) == back(range);
  }

  // The owner's, and only into an empty ring: fetches what fits and says how many that was. release:
  // who takes a task sees it.
  unsigned fill(TaskQueue& queue) {
    const std::uint32_t first = back(range_.load(std::memory_order_relaxed));
    std::uint32_t at = first;
    const unsigned fetched = queue.take(places, [this, &at](Task* task) {
      places_[at++ % places].store(task, std::memory_order_relaxed);
    });
    if (fetched > 0) range_.store(pack(first, at), std::memory_order_seq_cst);
    return fetched;
  }

  // acquire: pairs with fill(). The place is read before it is claimed; the owner writes to it
  // again only when it has seen the ring empty. release: so that what it writes then is not what
  // was read here.
  Task* take() {
    std::uint64_t range = range_.load(std::memory_order_acquire);
    while (front(range) != back(range)) {
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

  std::atomic<std::uint64_t> range_;
  std::atomic<Task*> places_[places];
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
