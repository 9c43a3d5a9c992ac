#ifndef REGATTA_CORE_POOL_HPP
#define REGATTA_CORE_POOL_HPP

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cores.hpp"
#include "event-count.hpp"
#include "slot.hpp"
#include "ticker.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Threads that help with loops and run tasks. The thread that calls a loop works itself; workers
// start when they are first needed and sleep when they are not.
class REGATTA_SHARED Pool : public ActiveWork {
 public:
  // `workers` threads of its own; how many take part in a loop, its caller included, is `most`. `alone`: a
  // worker runs tasks in place of the main thread; only when nothing goes on is it joined by others.
  Pool(Process& in, unsigned workers, unsigned most, bool alone);
  ~Pool() override;

  // Calls loop.run() for all units 0 .. units - 1, on at most `threads` threads, and returns when
  // all is done. Throws the first exception of a body, or UserInterruptException.
  void run(Loop& loop, Unit units, unsigned threads);

  void push(Group& group, Task* task);
  void wait(Group& group);
  void finish(Group& group) noexcept;
  Group& root(const void* user);
  Group& group_here(const void* user);
  static void pass_on(Group& group);
  static void count_done(Group& group, std::uint64_t count);
  void look_up() override;
  // Ends the threads when their tasks are done; they start again when there is work.
  void stop_threads();
  void end();
  // Whether the calling thread is in one of its bodies.
  bool runs_here() const;
  // Whether it is in a task of this group, or in what such a task has called or pushed.
  static bool is_within(const Group& group);

  unsigned loop_threads() const { return most_; }
  Process& process() const { return process_; }
  TaskFreeList& free_list() { return free_list_; }
  // For tests and reports: threads that exist.
  unsigned started() const { return started_.load(std::memory_order_acquire); }

 private:
  friend class SlotLease;
  friend class LoopWork;

  // Threads, in pool-threads.hpp.
  bool start_one();
  void close();
  void release_threads();
  void call_workers(int count);
  void serve(Slot& me);
  bool look_around(Slot& me);
  void park(Slot& me);
  void start_searching(Slot& me);
  bool stop_searching(Slot& me);
  double search_again_in(Slot& me);
  std::uint64_t count_loops() const;

  // Loops, in pool-loops.hpp.
  Slot* lend_slot();
  bool join_loop(Slot& me);
  Rundown* choose_loop(Slot& me, std::uint64_t* word);
  void help(Slot& me, Rundown& rundown, Loop& loop);
  void leave(Rundown& rundown);
  bool leapfrog(Slot& me, const Loop& above);
  void run_alone(Loop& loop, Unit units, StealableRange& range, Slot* me);
  void run_together(Loop& loop, Unit units, Slot& me);
  void wait_for_workers(Loop& loop, Slot& me, Rundown& rundown);

  // Tasks, in pool-tasks.hpp.
  Group& add_root(const void* user);
  void add_task(Group& group, Task* task);
  void drop_task(Task* task);
  void push_alone(Task* task);
  void update_list(Group& group);
  Task* fetch_task(Slot* me, Group* group, bool thorough);
  Task* find_task(Slot* me, Group* group, bool thorough = false);
  bool give_back(Slot& me);
  bool make_room(Group& group);
  bool tasks_left() const;
  bool run_task(Slot& me);
  void run_tasks(Task* task, Slot* me);
  void call_task(Task& task, Context& context);
  void report_done(Slot& me);
  void wait_until(Group& group, bool (Group::*wanted)() const);
  bool wait_elsewhere(Group& group, bool (Group::*wanted)() const);
  void wait_for_all(Group& group);

  // Works until done(): work(idle_us) does some, or says that there is none, and then the thread waits
  // for a notification. The main thread turns to its host now and then.
  template <class Done, class Work>
  void work_until(const Done& done, const Work& work) {
    const bool main = process_.on_main();
    // To look at the clock takes as long as a small task, so that it is done once for each.
    Ticks now = ticks_now();
    for (Ticks since = now; !done();) {
      if (main) poll_if_due(process_, now);
      const bool worked = work(process_.us_between(since, now));
      now = ticks_now();
      if (worked) {
        since = now;
      } else if (process_.us_between(since, now) < spin_us) {
        pause_cpu(4);
      } else {
        waiting_.wait_unless(done, poll_us);
      }
    }
  }

  // Whether the calling thread may run tasks while it waits. One that counts as none of the pool's
  // threads may not: a pool made for `n` threads runs no more than `n` tasks at once.
  bool may_help() const {
    return frame_here().pool == this || most_ > worker_count_ || started() == 0;
  }

  // Whether units of this cost, in ticks, are worth waking a worker for.
  bool is_enough(Unit units, double cost) const {
    return static_cast<double>(units) * cost > wake_us * process_.ticks_per_us;
  }

  unsigned slot_count() const { return worker_count_ + external_slots; }
  // One for the caller, then one per slot.
  unsigned range_count() const { return slot_count() + 1; }

  // Threads that are none of the pool's and may be in loops or run tasks at the same time; loops of
  // more of them run alone, and look up after every unit.
  static constexpr unsigned external_slots = 8;

  Process& process_;
  const unsigned worker_count_;
  const unsigned most_;
  std::unique_ptr<Slot[]> slots_;  // of its threads, then for external ones
  Ticker ticker_;
  const bool alone_;

  // relaxed: workers that see a new loop by themselves within search_us. A loop that finds none
  // wakes one; a wrong number costs a late start, no more.
  std::atomic<int> searching_{0};
  EventCount idle_;
  EventCount waiting_;  // who waits for workers or for tasks

  std::mutex stop_mutex_;  // one thread at a time ends the others; taken before threads_mutex_
  std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  // acquire and release: who counts a worker sees its record. `can_start_` falls when the
  // system refuses a thread.
  std::atomic<unsigned> started_{0};
  std::atomic<unsigned> can_start_;
  std::atomic<bool> stopping_{false};  // seq_cst: a sleeper's second look, see EventCount
  std::atomic<bool> closing_;  // tasks not begun are dropped; relaxed: "when you can"

  TaskFreeList free_list_;
  std::mutex tasks_mutex_;  // guards the list and the queues of its groups
  GroupList groups_;
  std::atomic<Group*> roots_{nullptr};  // acquire and release; grows under the mutex
};

// One thread at work for a loop.
class LoopWork : NoCopy {
 public:
  LoopWork(Pool& pool, Loop& loop, StealableRange& range, Slot* slot, Ticks now);

  void run();
  void call_from_now_on() { calls_ = true; }
  void call_worker();

  // For Loop::run, which is compiled together with the body.
  bool next();
  Unit first() const { return at_; }
  void left_at(Unit unit) { at_ = unit; }
  StealableRange& range() { return range_; }
  Pool& pool() { return pool_; }
  Slot* slot() { return slot_; }

 private:
  void poll();
  Unit most_units() const;
  bool steal();

  Pool& pool_;
  Loop& loop_;
  StealableRange& range_;
  Slot* const slot_;
  const bool main_;
  bool calls_ = false;  // is the caller, who calls workers when there is work for them
  Unit from_ = 0;       // the first unit of the chunk
  Unit at_ = 0;         // the next one
  Ticks next_call_;  // not before then
  AdaptiveGrain grain_;
};

// The slot of the calling thread for the time of a loop or wait: its own if it has one, else one that
// is lent; none if too many external threads are there. What was fetched with one that was lent goes back.
class SlotLease : NoCopy {
 public:
  explicit SlotLease(Pool& pool, bool wanted = true) : pool_(pool) {
    if (!wanted) return;
    const Frame& frame = frame_here();
    slot_ = frame.pool == &pool && frame.slot ? frame.slot : lent_ = pool.lend_slot();
  }
  ~SlotLease() {
    if (!lent_) return;
    pool_.give_back(*lent_);
    lent_->lent.unlock();
  }

  Slot* slot() const { return slot_; }

 private:
  Pool& pool_;
  Slot* slot_ = nullptr;
  Slot* lent_ = nullptr;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#include "pool-threads.hpp"
#include "pool-loops.hpp"
#include "pool-tasks.hpp"

#endif
