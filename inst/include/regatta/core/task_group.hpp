#ifndef REGATTA_CORE_TASK_GROUP_HPP
#define REGATTA_CORE_TASK_GROUP_HPP

#include "thread_pool.hpp"

REGATTA_NAMESPACE_BEGIN

// Which exception wait() of a group throws, if several tasks have failed. With byIndex it is that of
// the task that was pushed first: as the tasks before it are run all the same, it is the one that
// a serial program would have thrown.
enum class FirstException { byTime, byIndex };

// Tasks that are waited for together. Its wait() is for its tasks and for those that they push, and
// for no others; its exceptions and its cancellation concern no other group. A group that a body makes
// belongs to it: it is destroyed before the body ends, and its tasks stop when the body's work does.
class TaskGroup {
 public:
  // Tasks for the pool that the calling body runs on, else that of the process. A push beyond `limit`
  // tasks that are not done helps with them, or waits.
  explicit TaskGroup(std::size_t limit = detail::usual_limit,
                     FirstException first = FirstException::byTime)
      : TaskGroup(detail::pool_here(), limit, first) {}
  explicit TaskGroup(ThreadPool& pool, std::size_t limit = detail::usual_limit,
                     FirstException first = FirstException::byTime)
      : TaskGroup(pool.pool(), limit, first) {}

  // Waits for the tasks; drops those not begun if an exception has left the scope of the group. An
  // exception that no wait() has asked for is lost.
  ~TaskGroup() {
    // A forked child has none of the tasks.
    if (&group_.process != &detail::process()) return;
    if (detail::unwinding() != unwinding_) group_.cancellation.request();
    group_.pool.finish(group_);
  }

  template <class F, class... Args>
  void push(F&& f, Args&&... args) {
    detail::push_to(here(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // The future gives what f returns or throws.
  template <class F, class... Args>
  auto pushReturn(F&& f, Args&&... args) -> std::future<detail::Result<F, Args...>> {
    return detail::push_return_to(here(), std::forward<F>(f), std::forward<Args>(args)...);
  }

  // Until all tasks are done. Throws the first exception of a task (tasks not begun by then are
  // dropped), UserInterruptException, or Stopped.
  void wait() { group_.pool.wait(here()); }

  // Drops the tasks that have not begun; those that run can ask shouldStop(). Later tasks are run.
  void cancel() { group_.cancellation.request(); }

 private:
  TaskGroup(detail::Pool& pool, std::size_t limit, FirstException first)
      : unwinding_(detail::unwinding()),
        group_(detail::process(), pool, detail::frame_here().context) {
    group_.limit = std::max<std::size_t>(limit, 1);
    group_.by_index = first == FirstException::byIndex;
  }

  // Its place is the stack of the body it belongs to.
  static void* operator new(std::size_t) = delete;

  detail::Group& here() {
    if (&group_.process != &detail::process()) {
      stop("a TaskGroup made before a fork was used in the child: its tasks are the parent's");
    }
    return group_;
  }

  const int unwinding_;
  detail::Group group_;
};

REGATTA_NAMESPACE_END

#endif
