#ifndef REGATTA_CORE_THREAD_POOL_HPP
#define REGATTA_CORE_THREAD_POOL_HPP

#include <exception>
#include <future>

#include "for.hpp"
#include "invoke.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Exceptions that unwind the stack at the moment; before C++17 no more than one is told.
inline int unwinding() {
#if defined(__cpp_lib_uncaught_exceptions)
  return std::uncaught_exceptions();
#else
  return std::uncaught_exception() ? 1 : 0;
#endif
}

template <class F, class... Args>
void push_to(Group& group, F&& f, Args&&... args) {
  using Call = BoundTo<F, Args...>;
  Call call = bind_call(std::forward<F>(f), std::forward<Args>(args)...);
  group.pool.push(group, make_task(std::move(call), group.pool.free_list()));
}

// A call whose result or exception goes to a future; dropped, it leaves a broken promise there. No
// std::packaged_task, whose memory takes no notice of the alignment before C++17.
template <class Value, class Call>
struct Promised {
  template <class T>
  struct Of {};
  void operator()() {
    try {
      give(Of<Value>());
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }
  template <class T>
  void give(Of<T>) {
    promise.set_value(call());
  }
  void give(Of<void>) {
    call();
    promise.set_value();
  }
  Call call;
  std::promise<Value> promise;
};

template <class F, class... Args>
std::future<Result<F, Args...>> push_return_to(Group& group, F&& f, Args&&... args) {
  using Value = Result<F, Args...>;
  Promised<Value, BoundTo<F, Args...>> task = {
      bind_call(std::forward<F>(f), std::forward<Args>(args)...), std::promise<Value>()};
  std::future<Value> future = task.promise.get_future();
  push_to(group, std::move(task));
  return future;
}

}  // namespace detail

// A pool with threads of its own, which start when there is work. Loops return when they are done;
// tasks run until wait() or join(). With 0 workers everything runs in the calling thread.
class ThreadPool {
 public:
  // As many workers as loops use by default.
  ThreadPool() : ThreadPool(defaultThreads()) {}
  explicit ThreadPool(std::size_t nWorkers)
      : size_(limited(nWorkers)), unwinding_(detail::unwinding()), shared_(false),
        pool_(make(detail::process(), size_)) {}

  // Finishes the tasks, or drops those not begun if an exception has left the scope of the pool. An exception that
  // no wait() has asked for is lost.
  ~ThreadPool() {
    detail::Pool* const pool = pool_.load(std::memory_order_acquire);
    // A forked child has the pool's memory, but no threads to end.
    if (!pool || &pool->process() != &detail::process()) return;
    // A body has called exit(), which destroys static objects: the system takes the pool back.
    if (pool->runs_here()) return;
    detail::Group& root = pool->root(this);
    if (detail::unwinding() != unwinding_) root.cancellation.request();
    pool->finish(root);
    delete pool;
  }

  // The pool that the free functions use. Libraries that share it have tasks of their own, so that
  // none waits for those of another or gets their exceptions.
  REGATTA_HIDDEN static ThreadPool& globalInstance() {
    // No static object made when first needed: a process may be forked meanwhile.
    static std::atomic<ThreadPool*> slot(nullptr);
    ThreadPool* here = slot.load(std::memory_order_acquire);
    if (REGATTA_LIKELY(here != nullptr)) return *here;
    ThreadPool* const fresh = new ThreadPool(Shared{});
    if (slot.compare_exchange_strong(here, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *here;
  }

  // Calls f(args...) on a worker, with copies of the arguments.
  template <class F, class... Args>
  void push(F&& f, Args&&... args) {
    detail::push_to(group(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // The same; the future gives what f returns or throws. get() does not answer interrupts.
  template <class F, class... Args>
  auto pushReturn(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
    return detail::push_return_to(group(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // Pushes f(item) for each item.
  template <class F, class Items>
  void map(F&& f, Items&& items) {
    for (auto&& item : items) push(f, item);
  }

  template <class Begin, class End, class F>
  void parallelFor(Begin begin, End end, F&& f, std::size_t nBatches = 0) {
    detail::run_for(pool(), begin, end, f, detail::max_threads, nBatches, nullptr);
  }

  template <class Items, class F>
  void parallelForEach(Items&& items, F&& f, std::size_t nBatches = 0) {
    detail::run_for_each(pool(), items, f, detail::max_threads, nBatches, nullptr);
  }

  // Until all tasks are done, and those that they have pushed; in a task, until those are done that
  // it has pushed. Throws the first exception of a task (tasks not begun by then are dropped) or
  // UserInterruptException.
  void wait() { pool().wait(group()); }

  // wait(), then ends the threads; they start again when there is work.
  void join() {
    wait();
    if (!shared_ && detail::frame_here().pool != &pool()) pool().stop_threads();
  }

  // Drops the tasks that have not begun; those that run can ask shouldStop().
  void cancel() { pool().root(this).cancellation.request(); }

  // Changes the number of workers, when all tasks are done.
  void resize(std::size_t threads) {
    wait();
    if (shared_) {
      set_default_threads(threads);
    } else {
      size_ = limited(threads);
      delete pool_.exchange(make(detail::process(), size_), std::memory_order_acq_rel);
    }
  }
  void setNumThreads(std::size_t threads) { resize(threads); }
  std::size_t getNumThreads() const { return shared_ ? defaultThreads() : size_; }

 private:
  struct Shared {};
  explicit ThreadPool(Shared)
      : size_(0), unwinding_(0), shared_(true), pool_(nullptr) {}
  friend class TaskGroup;

  static unsigned limited(std::size_t threads) {
    return static_cast<unsigned>(std::min<std::size_t>(threads, detail::max_threads));
  }

  static detail::Pool* make(detail::Process& process, unsigned size) {
    return new detail::Pool(process, size, size > 0 ? size : 1, false);
  }

  // A forked child has none of the parent's threads, and its tasks are the parent's business.
  detail::Pool& pool() {
    detail::Process& now = detail::process();
    if (shared_) return detail::shared_pool(now);
    detail::Pool* pool = pool_.load(std::memory_order_acquire);
    if (REGATTA_LIKELY(&pool->process() == &now)) return *pool;
    detail::Pool* const fresh = make(now, size_);
    if (pool_.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *pool;
  }

  detail::Group& group() { return pool().group_here(this); }

  unsigned size_;
  const int unwinding_;  // exceptions under way when it was made
  const bool shared_;
  // acquire and release: who reads a pointer uses what it points to.
  std::atomic<detail::Pool*> pool_;
};

namespace detail {

// Where the free functions push: to the pool that the calling thread works for, else that of the
// process.
REGATTA_HIDDEN inline Group& free_group() {
  return pool_here().group_here(&ThreadPool::globalInstance());
}

}  // namespace detail

// Tasks for the pool that the calling body runs on, else that of this process. Like those of a
// ThreadPool.
template <class F, class... Args>
REGATTA_HIDDEN void push(F&& f, Args&&... args) {
  detail::push_to(detail::free_group(), std::forward<F>(f), std::forward<Args>(args)...);
}

template <class F, class... Args>
REGATTA_HIDDEN auto pushReturn(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
  return detail::push_return_to(detail::free_group(), std::forward<F>(f),
                                std::forward<Args>(args)...);
}

template <class F, class... Args>
REGATTA_HIDDEN auto async(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
  return pushReturn(std::forward<F>(f), std::forward<Args>(args)...);
}

// Until all tasks of push() and pushReturn() are done that this library has pushed; see
// ThreadPool::wait().
REGATTA_HIDDEN inline void wait() {
  detail::Group& group = detail::free_group();
  group.pool.wait(group);
}

REGATTA_NAMESPACE_END

#endif
