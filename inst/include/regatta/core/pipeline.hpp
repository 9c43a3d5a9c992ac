#ifndef REGATTA_CORE_PIPELINE_HPP
#define REGATTA_CORE_PIPELINE_HPP

#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>

#include "for.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Items are numbered from 0. Item i is in place i % places from when it begins to be read until it
// has been combined, so that no more than `places` are in flight. All fields are guarded by the
// mutex; an item is touched outside of it by the thread whose step it is in.
template <class Item, class Read, class Transform, class Combine>
class Pipeline {
 public:
  Pipeline(Read& read, Transform& transform, Combine& combine, std::size_t places)
      : read_(read), transform_(transform), combine_(combine), places_(places),
        slots_(new Slot[places]) {}

  // What each thread does until all is done.
  void work() {
    Process& here = process();
    const bool main = here.on_main();
    std::unique_lock<std::mutex> lock(mutex_);
    while (combine_next_ < end_) {
      lock.unlock();
      // A worker is one long body: nobody else asks the host on the main thread.
      if (main) poll_if_due(here, ticks_now());
      const bool stops = frame_here().context->stopped();
      lock.lock();
      if (stops) break;
      // What is serial comes first: everything else waits for it.
      if (!combine(lock) && !read(lock) && !transform(lock)) {
        change_.wait_for(lock, std::chrono::microseconds(static_cast<long>(poll_us)));
      }
    }
    change_.notify_all();
  }

  // After all threads have returned.
  void throw_first() {
    if (error_) throw_error(process(), error_);
  }

 private:
  enum class State { free, read, transformed };
  struct Slot {
    State state = State::free;
    Item item{};
  };

  Slot& slot(std::uint64_t index) { return slots_[static_cast<std::size_t>(index % places_)]; }

  // Runs a step without the lock. Of several that throw the first item's exception is kept, and
  // items before it still run to their end: they may throw, too, as they would have in a serial
  // loop. Those behind it are dropped.
  template <class Step>
  void run(std::unique_lock<std::mutex>& lock, std::uint64_t index, const Step& step) {
    lock.unlock();
    std::exception_ptr error;
    try {
      step();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && index < end_) {
      end_ = index;
      error_ = error;
    }
    change_.notify_all();
  }

  // Each of these three runs one step if there is one to be run now.
  bool combine(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t index = combine_next_;
    if (combining_ || index >= end_ || slot(index).state != State::transformed) return false;
    combining_ = true;
    run(lock, index, [&] { combine_(slot(index).item); });
    combining_ = false;
    slot(index).state = State::free;
    if (index < end_) ++combine_next_;
    return true;
  }

  bool read(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t index = read_next_;
    if (reading_ || index >= end_ || index - combine_next_ >= places_) return false;
    reading_ = true;
    bool more = false;
    run(lock, index, [&] { more = read_(slot(index).item); });
    reading_ = false;
    if (!more) {
      end_ = std::min(end_, index);
    } else if (index < end_) {
      slot(index).state = State::read;
      ++read_next_;
    }
    return true;
  }

  bool transform(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t index = transform_next_;
    if (index >= read_next_ || index >= end_) return false;
    ++transform_next_;
    run(lock, index, [&] { transform_(slot(index).item); });
    slot(index).state = State::transformed;
    return true;
  }

  Read& read_;
  Transform& transform_;
  Combine& combine_;
  const std::uint64_t places_;
  const std::unique_ptr<Slot[]> slots_;
  std::mutex mutex_;
  std::condition_variable change_;
  std::uint64_t read_next_ = 0, transform_next_ = 0, combine_next_ = 0;
  // The number of items, or of those before one that threw.
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
  bool reading_ = false, combining_ = false;
  std::exception_ptr error_;
};

template <class Item, class Read, class Transform, class Combine>
void run_pipeline(Read& read, Transform& transform, Combine& combine, std::size_t in_flight,
                  std::size_t threads, const Cancellation* token) {
  threads = std::max<std::size_t>(1, std::min(threads, defaultThreads()));
  Pipeline<Item, Read, Transform, Combine> line(read, transform, combine,
                                                in_flight > 0 ? in_flight : 4 * threads);
  auto worker = [&line](std::size_t) { line.work(); };
  run_for(pool_here(), std::size_t(0), threads, worker, threads, threads, token);
  line.throw_first();
}

}  // namespace detail

// An ordered pipeline. read(item) fills an Item and returns true, or false when there are no more;
// transform(item) works on it, on several threads at a time; combine(item) takes it. Items are read
// one after the other and combined one after the other, in the same order; both may happen on any
// thread. At most `inFlight` items exist at a time (0: four for each thread), which are used again
// and again: a buffer in an item need not be allocated anew. docs/THREADS.md of the sources has an example.
// Throws the exception of the first item that throws one, in the order of items: all items before
// it have been combined then, and none behind it. Throws UserInterruptException as loops do.
template <class Item, class Read, class Transform, class Combine>
void parallelPipeline(Read&& read, Transform&& transform, Combine&& combine,
                      std::size_t inFlight = 0, std::size_t nThreads = defaultThreads()) {
  detail::run_pipeline<Item>(read, transform, combine, inFlight, nThreads, nullptr);
}

// As above, until cancelled: then it returns without having read or combined all items.
template <class Item, class Read, class Transform, class Combine>
void parallelPipeline(Read&& read, Transform&& transform, Combine&& combine,
                      const Cancellation& token, std::size_t inFlight = 0,
                      std::size_t nThreads = defaultThreads()) {
  detail::run_pipeline<Item>(read, transform, combine, inFlight, nThreads, &token);
}

REGATTA_NAMESPACE_END

#endif
