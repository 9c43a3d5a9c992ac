#ifndef REGATTA_CORE_POOL_THREADS_HPP
#define REGATTA_CORE_POOL_THREADS_HPP

#include <chrono>
#include <cstdlib>

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Called when the program ends or the library that holds the pool is unloaded: tasks that run are
// told and waited for, so that what they use of older static objects is still there. In a forked
// child there are no threads to end.
inline void end_pool() {
  Process& now = *process_slot().load(std::memory_order_acquire);
  if (now.in_child()) return;
  now.begin_end();
  if (Pool* const pool = now.pool.load(std::memory_order_acquire)) pool->end();
}

// Registered when a thread is first needed, after the static objects that its tasks can know. To be
// registered twice does no harm. No static object is made for that: a process may be forked meanwhile,
// and its child would wait for ever for who makes it.
REGATTA_SHARED inline void keep_pool() {
  static std::atomic<bool> kept(false);
  if (kept.load(std::memory_order_relaxed)) return;
  if (std::atexit(&end_pool) == 0) kept.store(true, std::memory_order_relaxed);
}

inline Pool::Pool(Process& in, unsigned workers, unsigned most, bool alone)
    : process_(in), worker_count_(workers), most_(most),
      slots_(new Slot[workers + external_slots]), ticker_(*this), alone_(alone), can_start_(workers),
      closing_(in.ending()) {
  process_.add_active(this);
}

inline Pool::~Pool() {
  process_.remove_active(this);
  close();
  for (unsigned i = 0; i < slot_count(); ++i) slots_[i].magazine.send(free_list_);
  for (Group* one = roots_.load(std::memory_order_relaxed); one;) {
    Group* const next = one->sibling;
    delete one;
    one = next;
  }
}

inline void Pool::close() {
  closing_.store(true, std::memory_order_relaxed);
  stop_threads();
  while (Task* const task = find_task(nullptr, nullptr)) run_tasks(task, nullptr);
}

// At the end of the program. The pool itself stays for the system to take back, since threads that
// nobody joins may be at work with it.
inline void Pool::end() {
  if (frame_here().context) {
    release_threads();
  } else {
    close();
  }
}

// A body has called exit(). Its own thread cannot be joined, and others may wait for the body.
inline void Pool::release_threads() {
  closing_.store(true, std::memory_order_relaxed);
  ticker_.end();
  std::lock_guard<std::mutex> lock(threads_mutex_);
  stopping_.store(true, std::memory_order_seq_cst);
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

// False if all have been started or the system refuses one more thread.
inline bool Pool::start_one() {
  if (started_.load(std::memory_order_relaxed) >= can_start_.load(std::memory_order_relaxed)) {
    return false;
  }
  keep_pool();
  std::lock_guard<std::mutex> lock(threads_mutex_);
  const unsigned next = started_.load(std::memory_order_relaxed);
  if (next >= can_start_.load(std::memory_order_relaxed)) return false;
  if (stopping_.load(std::memory_order_relaxed) || closing_.load(std::memory_order_relaxed)) return false;
  try {
    SignalsBlocked blocked;
    Slot& slot = slots_[next];
    threads_.emplace_back([this, &slot] { serve(slot); });
  } catch (const std::exception&) {  // no thread to be had, or no memory
    can_start_.store(next, std::memory_order_relaxed);
    return false;
  }
  started_.store(next + 1, std::memory_order_release);
  return true;
}

// For work that is known to be enough, and for a loop that starts when no worker would see it.
REGATTA_NOINLINE inline void Pool::call_workers(int count) {
  if (idle_.any()) {
    idle_.notify(static_cast<std::uint32_t>(count));
  } else {
    start_one();
  }
}

inline void Pool::serve(Slot& me) {
  me.last_work = ticks_now();
  me.called = true;
  start_searching(me);
  while (!stopping_.load(std::memory_order_acquire)) {
    if (look_around(me)) {
      me.last_work = ticks_now();
      continue;
    }
    start_searching(me);
    if (process_.us_since(me.last_work) < spin_us) {
      pause_cpu(8);
    } else {
      park(me);
    }
  }
  report_done(me);
  stop_searching(me);
}

inline bool Pool::look_around(Slot& me) {
  if (run_task(me)) return true;
  report_done(me);
  return join_loop(me);
}

inline void Pool::start_searching(Slot& me) {
  if (me.searching) return;
  me.searching = true;
  searching_.fetch_add(1, std::memory_order_relaxed);
}

// True if nobody searches now.
inline bool Pool::stop_searching(Slot& me) {
  if (!me.searching) return false;
  me.searching = false;
  return searching_.fetch_sub(1, std::memory_order_relaxed) == 1;
}

inline std::uint64_t Pool::count_loops() const {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < slot_count(); ++i) sum += Rundown::number(slots_[i].levels[0].rundown.peek());
  return sum;
}

// In how many microseconds a worker that is about to sleep looks again; less and less often while
// no loop is run, and no more (a negative number) after some time or if two others look. Two,
// so that one is left when the other has work.
inline double Pool::search_again_in(Slot& me) {
  const std::uint64_t loops = count_loops();
  if (loops != me.loops_seen) {
    me.loops_seen = loops;
    me.last_work = ticks_now();
  }
  const double idle = process_.us_since(me.last_work);
  if (idle < search_until_us && searching_.load(std::memory_order_relaxed) <= 2) {
    return std::max(search_us, idle);
  }
  stop_searching(me);
  return -1.0;
}

inline void Pool::park(Slot& me) {
  const double us = search_again_in(me);
  bool wanted = false;
  me.called = idle_.wait_unless([&] {
    return wanted = tasks_left() || stopping_.load(std::memory_order_seq_cst);
  }, us);
  if (me.called) {
    me.last_work = ticks_now();
  } else if (wanted && process_.us_since(me.last_work) > 4.0 * spin_us) {
    // A thread that pushes has been held up at a moment when nothing can be taken. It may need this
    // core to go on, which it does not get as long as a thread of higher priority keeps looking.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  start_searching(me);
}

inline void Pool::stop_threads() {
  ticker_.end();
  std::lock_guard<std::mutex> alone(stop_mutex_);
  std::vector<std::thread> threads;
  {
    std::lock_guard<std::mutex> lock(threads_mutex_);
    stopping_.store(true, std::memory_order_seq_cst);
    threads.swap(threads_);
  }
  idle_.notify_all();
  for (std::thread& thread : threads) thread.join();
  {
    std::lock_guard<std::mutex> lock(threads_mutex_);
    can_start_.store(worker_count_, std::memory_order_relaxed);
    stopping_.store(false, std::memory_order_seq_cst);
    // seq_cst, and in push(): who pushes meanwhile sees that there is no thread, or is seen here.
    started_.store(0, std::memory_order_seq_cst);
  }
  if (tasks_left() && !closing_.load(std::memory_order_relaxed)) start_one();
}

REGATTA_NOINLINE inline Pool& make_pool(Process& in) {
  keep_pool();
  std::lock_guard<std::mutex> lock(in.pool_mutex);
  Pool* pool = in.pool.load(std::memory_order_acquire);
  if (!pool) {
    // On one thread tasks still run while their pusher goes on, so that it can wait for a future.
    const unsigned size = pool_size(in);
    pool = new Pool(in, size > 1 ? size - 1 : 1, size, size == 1);
    in.pool.store(pool, std::memory_order_release);
  }
  return *pool;
}

// The pool of this process, made on first use.
inline Pool& shared_pool(Process& in) {
  Pool* const pool = in.pool.load(std::memory_order_acquire);
  return REGATTA_LIKELY(pool != nullptr) ? *pool : make_pool(in);
}

// The pool that the calling thread works for, else that of the process.
inline Pool& pool_here() {
  Process& now = process();
  Pool* const pool = frame_here().pool;
  return pool && &pool->process() == &now ? *pool : shared_pool(now);
}

}  // namespace detail

// Sets the size of the pool of this process, the calling thread included; 0: as many as
// detectCores() says. A pool that exists is replaced, which nothing may be using at the moment.
inline void set_default_threads(std::size_t threads) {
  detail::Process& now = detail::process();
  std::lock_guard<std::mutex> lock(now.pool_mutex);
  delete now.pool.exchange(nullptr, std::memory_order_acq_rel);
  now.forced_threads =
      static_cast<unsigned>(std::min<std::size_t>(threads, detail::max_threads));
  now.threads.store(0, std::memory_order_relaxed);
}

REGATTA_NAMESPACE_END

#endif
