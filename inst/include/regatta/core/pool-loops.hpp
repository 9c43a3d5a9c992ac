#ifndef REGATTA_CORE_POOL_LOOPS_HPP
#define REGATTA_CORE_POOL_LOOPS_HPP

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// One for external threads that nobody has; null if there is none.
inline Slot* Pool::lend_slot() {
  for (unsigned i = worker_count_; i < slot_count(); ++i) {
    if (slots_[i].lent.try_lock()) return &slots_[i];
  }
  return nullptr;
}

inline LoopWork::LoopWork(Pool& pool, Loop& loop, StealableRange& range, Slot* slot,
                          Ticks now)
    : pool_(pool), loop_(loop), range_(range), slot_(slot), main_(loop.process.on_main()),
      next_call_(loop.start), grain_(loop, now) {}

inline void LoopWork::run() {
  try {
    loop_.run(loop_, *this);
  } catch (...) {
    loop_.record_current();
    range_.set(Range{0, 0});
  }
}

// Whether there is a unit to claim, which is first(); false if nothing is left to begin.
inline bool LoopWork::next() {
  // To look at the clock once more would be a tenth of the cost of the smallest loops.
  if (loop_.range_count == 1 && range_.left(at_) == 0) return false;
  if (at_ > from_) {
    grain_.finished(at_ - from_);
    poll();
  }
  while (range_.left(at_) > 0 || steal()) {
    const Unit limit = range_.take(at_, most_units(), grain_.now());
    // After take(), so that what it had not heard of before will make it look up.
    if (loop_.stopped()) {
      range_.set(Range{0, 0});
      return false;
    }
    from_ = at_;
    if (at_ < limit) return true;
  }
  return false;
}

// Between two chunks. The caller lets others know what a unit costs and calls workers if there
// is work for them; the main thread turns to the host now and then.
inline void LoopWork::poll() {
  if (main_) {
    poll_if_due(loop_.process, grain_.now());
    if (loop_.process.us_between(loop_.start, grain_.now()) > wake_us) pool_.ticker_.start();
  }
  if (!calls_) return;
  loop_.cost.store(static_cast<float>(grain_.cost()), std::memory_order_relaxed);
  if (static_cast<std::int64_t>(grain_.now() - next_call_) < 0) return;
  if (pool_.is_enough(range_.left(at_), grain_.cost())) {
    call_worker();
  }
}

// One that calls the others; should it find no time, the next is called in a millisecond.
inline void LoopWork::call_worker() {
  pool_.call_workers(1);
  next_call_ = grain_.now() + static_cast<Ticks>(1000.0 * loop_.process.ticks_per_us);
}

// On the main thread nothing but the ticker would end a chunk that turns out dear.
inline Unit LoopWork::most_units() const {
  return main_ && !pool_.ticker_.ticks() ? std::min(grain_.next(), unticked_units) : grain_.next();
}

// Takes over units of another thread, of a chunk that it is in only where there are no others.
// False if there are none worth it.
inline bool LoopWork::steal() {
  if (loop_.range_count == 1) return false;
  const Ticks then = loop_.dear_before(grain_.now());
  bool is_any_dear = false;
  for (bool dear : {false, true}) {
    if (dear && !is_any_dear) break;
    for (unsigned i = 0; i < loop_.range_count; ++i) {
      StealableRange& other = loop_.ranges[i];
      if (&other == &range_) continue;
      is_any_dear = is_any_dear || other.is_dear(then);
      if (dear ? !other.is_dear(then) : !grain_.is_worth(other.free())) continue;
      const Range stolen = other.steal(dear);
      if (stolen.size() == 0) continue;
      range_.set(stolen);
      at_ = stolen.first;
      grain_.restart();
      return true;
    }
  }
  return false;
}

inline void Pool::run(Loop& loop, Unit units, unsigned threads) {
  refuse_lost_body(process_);
  const ThreadState& here = thread_state();
  loop.start = ticks_now();
  {
    threads = works_elsewhere(here, process_) ? 1 : std::min(threads, worker_count_ + 1);
    SlotLease lease(*this);
    Slot* const me = lease.slot();
    if (!me || me->depth == max_levels) {
      StealableRange own;
      loop.max_units = 1;
      run_alone(loop, units, own, me);
    } else {
      loop.threads = units > 1 ? std::max(threads, 1U) : 1;
      run_together(loop, units, *me);
    }
  }
  if (process_.output.waits() && process_.on_main()) print_now(process_);
  throw_if_stopped(process_, loop.first_exception, process_.interrupts() != loop.interrupts, loop.parent);
}

inline void Pool::run_alone(Loop& loop, Unit units, StealableRange& range, Slot* me) {
  loop.ranges = &range;
  range.reset(Range{0, units});
  LoopWork(*this, loop, range, me, loop.start).run();
}

// In the next level of the slot, where others find it.
inline void Pool::run_together(Loop& loop, Unit units, Slot& me) {
  Level& level = me.levels[me.depth];
  if (!level.ranges) level.ranges.reset(new StealableRange[range_count()]);
  ++me.depth;
  level.live.store(true, std::memory_order_release);
  if (loop.threads == 1) {
    run_alone(loop, units, level.ranges[0], &me);
  } else {
    loop.ranges = level.ranges.get();
    loop.range_count = range_count();
    loop.ranges[0].reset(Range{0, units});
    LoopWork work(*this, loop, loop.ranges[0], &me, loop.start);
    level.rundown.open(&loop, loop.threads - 1);
    // Called only after its first unit a worker would do too few of a loop of few, long units.
    const float usual = loop.usual_cost.load(std::memory_order_relaxed);
    if (is_enough(units - 1, usual)) {
      work.call_worker();
    } else if (searching_.load(std::memory_order_relaxed) == 0) {
      call_workers(1);
    }
    work.call_from_now_on();
    work.run();
    if (level.rundown.close() > 0) wait_for_workers(loop, me, level.rundown);
    // The smallest loops would notice one more look at the clock.
    const double last = std::max(loop.cost.load(std::memory_order_relaxed), usual);
    if (is_enough(units, last)) loop.remember_cost(units);
  }
  level.live.store(false, std::memory_order_relaxed);
  --me.depth;
}

// Makes every thread that works for a loop look up before its next unit. A loop that begins just now
// looks up after its first unit anyway.
inline void Pool::look_up() {
  for (unsigned i = 0; i < slot_count(); ++i) {
    for (Level& level : slots_[i].levels) {
      if (!level.live.load(std::memory_order_acquire)) continue;
      for (unsigned j = 0; j < range_count(); ++j) level.ranges[j].look_up();
    }
  }
}

// The caller has nothing left to begin. It takes back what workers have not begun and helps with
// the loops inside their bodies; loops elsewhere could need a lock that this thread holds.
inline void Pool::wait_for_workers(Loop& loop, Slot& me, Rundown& rundown) {
  work_until([&rundown] { return rundown.inside() == 0; }, [&](double) {
    const Ticks now = ticks_now();
    if (loop.stopped() || !loop.has_work(now)) return leapfrog(me, loop) || give_back(me);
    loop.ranges[0].set(Range{0, 0});
    LoopWork(*this, loop, loop.ranges[0], &me, now).run();
    return true;
  });
}

// A loop that has been there for a moment; a worker that was called does not hesitate.
inline Rundown* Pool::choose_loop(Slot& me, std::uint64_t* word) {
  const Ticks now = ticks_now();
  for (int level = 0; level < max_levels; ++level) {
    for (unsigned i = 0; i < slot_count(); ++i) {
      Rundown& rundown = slots_[i].levels[level].rundown;
      *word = rundown.peek();
      if (!Rundown::has_room(*word) || &slots_[i] == &me) continue;
      if (me.left.is(&rundown, *word) && process_.us_since(me.left.when) < spin_us) continue;
      if (me.called) return &rundown;
      if (!me.candidate.is(&rundown, *word)) {
        me.candidate = SeenLoop{&rundown, Rundown::number(*word), now};
        return nullptr;
      }
      return process_.us_since(me.candidate.when) < ripe_us ? nullptr : &rundown;
    }
  }
  return nullptr;
}

inline bool Pool::join_loop(Slot& me) {
  std::uint64_t word = 0;
  Rundown* const rundown = choose_loop(me, &word);
  me.called = me.called && rundown;
  Loop* const loop = rundown ? rundown->join(word) : nullptr;
  if (!loop) return false;
  // While all who search have work, nobody would see that this loop can use more threads.
  if (stop_searching(me) && worker_count_ > 1 && Rundown::has_room(rundown->peek()) &&
      loop->free() > 1) {
    call_workers(1);
  }
  help(me, *rundown, *loop);
  me.left = SeenLoop{rundown, Rundown::number(word), ticks_now()};
  return true;
}

// Between join() and leave() of the rundown.
inline void Pool::help(Slot& me, Rundown& rundown, Loop& loop) {
  const Ticks now = ticks_now();
  if (loop.has_work(now)) {
    StealableRange& own = loop.ranges[static_cast<unsigned>(&me - slots_.get()) + 1];
    own.set(Range{0, 0});
    LoopWork work(*this, loop, own, &me, now);
    // While the caller's first unit takes its time, each unit is taken to last as long as that.
    const double so_far = static_cast<double>(now - loop.start);
    const double known = loop.cost.load(std::memory_order_relaxed);
    const double usual = loop.usual_cost.load(std::memory_order_relaxed);
    const double cost = known > 0.0 ? known : std::max(usual, so_far);
    // One is for this thread.
    const Unit others = loop.free();
    if (others > 1 && is_enough(others - 1, cost) && Rundown::has_room(rundown.peek())) call_workers(2);
    work.run();
  }
  leave(rundown);
}

// From here on the loop may be gone.
inline void Pool::leave(Rundown& rundown) {
  if (rundown.leave()) waiting_.notify_all();
}

// Joins a loop that a body of the loop `above` has opened; false if there is none.
inline bool Pool::leapfrog(Slot& me, const Loop& above) {
  bool helped = false;
  for (unsigned i = 0; i < slot_count() && !helped; ++i) {
    if (&slots_[i] == &me) continue;
    for (int level = 0; level < max_levels && !helped; ++level) {
      Rundown& rundown = slots_[i].levels[level].rundown;
      Loop* const loop = rundown.join(rundown.peek());
      if (!loop) continue;
      helped = loop->is_inside(&above) && loop->has_work(ticks_now());
      if (helped) {
        help(me, rundown, *loop);
      } else {
        leave(rundown);
      }
    }
  }
  return helped;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
