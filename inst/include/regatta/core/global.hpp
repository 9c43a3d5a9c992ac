#ifndef REGATTA_CORE_GLOBAL_HPP
#define REGATTA_CORE_GLOBAL_HPP

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

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
