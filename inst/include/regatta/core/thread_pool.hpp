#ifndef REGATTA_CORE_THREAD_POOL_HPP
#define REGATTA_CORE_THREAD_POOL_HPP

#include <exception>
#include <future>
#include <memory>

#include "for.hpp"
#include "invoke.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Whether the stack is being unwound.
inline bool unwinding() {
#if defined(__cpp_lib_uncaught_exceptions)
  return std::uncaught_exceptions() > 0;
#else
  return std::uncaught_exception();
#endif
}

template <class F, class... Args>
void push_to(Pool& pool, F&& f, Args&&... args) {
  using Call = BoundTo<F, Args...>;
  Call call = bind_call(std::forward<F>(f), std::forward<Args>(args)...);
  pool.push(make_task(std::move(call), pool.task_memory()));
}

template <class F, class... Args>
std::future<Result<F, Args...>> push_return_to(Pool& pool, F&& f, Args&&... args) {
  using Value = Result<F, Args...>;
  std::packaged_task<Value()> task(bind_call(std::forward<F>(f), std::forward<Args>(args)...));
  std::future<Value> future = task.get_future();
  push_to(pool, std::move(task));
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
      : size_(limited(nWorkers)), shared_(false), pool_(make(detail::process(), size_)) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool(ThreadPool&&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ThreadPool& operator=(ThreadPool&&) = delete;

  // Finishes the tasks, or drops those not begun if the stack is being unwound. An exception that
  // no wait() has asked for is lost.
  ~ThreadPool() {
    detail::Pool* const pool = pool_.load(std::memory_order_acquire);
    // A forked child has the pool's memory, but no threads to end.
    if (!pool || &pool->process() != &detail::process()) return;
    if (detail::unwinding()) pool->drop_tasks();
    pool->finish();
    delete pool;
  }

  // The pool that the free functions use.
  static ThreadPool& globalInstance() {
    static ThreadPool global(Shared{});
    return global;
  }

  // Calls f(args...) on a worker, with copies of the arguments.
  template <class F, class... Args>
  void push(F&& f, Args&&... args) {
    detail::push_to(pool(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // The same; the future gives what f returns or throws. get() does not answer interrupts.
  template <class F, class... Args>
  auto pushReturn(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
    return detail::push_return_to(pool(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // Pushes f(item) for each item.
  template <class F, class Items>
  void map(F&& f, Items&& items) {
    for (auto&& item : items) push(f, item);
  }

  template <class Begin, class End, class F>
  void parallelFor(Begin begin, End end, F&& f, std::size_t nBatches = 0) {
    using Index = detail::IndexOf<Begin, End>;
    detail::run_for(pool(), static_cast<Index>(begin), static_cast<Index>(end), f,
                    detail::max_threads, nBatches, nullptr);
  }

  template <class Items, class F>
  void parallelForEach(Items&& items, F&& f, std::size_t nBatches = 0) {
    detail::run_for_each(pool(), items, f, detail::max_threads, nBatches, nullptr);
  }

  // Until all tasks are done. Throws the first exception of a task (tasks not begun by then are
  // dropped) or UserInterruptException.
  void wait() { pool().wait(); }

  // wait(), then ends the threads; they start again when there is work.
  void join() {
    wait();
    if (!shared_ && detail::frame_here().pool != &pool()) pool().stop_threads();
  }

  // Drops the tasks that have not begun.
  void cancel() { pool().drop_tasks(); }

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
  explicit ThreadPool(Shared) : size_(0), shared_(true), pool_(nullptr) {}

  static unsigned limited(std::size_t threads) {
    return static_cast<unsigned>(std::min<std::size_t>(threads, detail::max_threads));
  }

  static detail::Pool* make(detail::Process& process, unsigned size) {
    return new detail::Pool(process, size, size > 0 ? size : 1);
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

  unsigned size_;
  const bool shared_;
  // acquire and release: who reads the pointer uses the pool.
  std::atomic<detail::Pool*> pool_;
};

// Tasks for the pool of this process. Like those of a ThreadPool.
template <class F, class... Args>
void push(F&& f, Args&&... args) {
  detail::push_to(detail::pool_here(), std::forward<F>(f), std::forward<Args>(args)...);
}

template <class F, class... Args>
auto pushReturn(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
  return detail::push_return_to(detail::pool_here(), std::forward<F>(f),
                                std::forward<Args>(args)...);
}

template <class F, class... Args>
auto async(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
  return pushReturn(std::forward<F>(f), std::forward<Args>(args)...);
}

// Until all tasks of push() and pushReturn() are done.
inline void wait() { detail::pool_here().wait(); }

REGATTA_NAMESPACE_END

#endif
