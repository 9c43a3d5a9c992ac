#ifndef REGATTA_CORE_FOR_HPP
#define REGATTA_CORE_FOR_HPP

#include <cstdint>
#include <iterator>
#include <type_traits>

#include "pool.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// The type that indices are counted in: that of both bounds where they agree on a sign, else a
// signed one of 64 bits.
template <class Begin, class End>
using IndexOf = typename std::conditional<
    std::is_signed<Begin>::value == std::is_signed<End>::value,
    typename std::common_type<Begin, End>::type, std::int64_t>::type;

// The parameter of a function or of a lambda that takes one, void where overloads or a template leave it open.
template <class Call>
struct OnlyParameter {
  using type = void;
};
template <class R, class A>
struct OnlyParameter<R (*)(A)> {
  using type = A;
};
template <class R, class C, class A>
struct OnlyParameter<R (C::*)(A)> {
  using type = A;
};
template <class R, class C, class A>
struct OnlyParameter<R (C::*)(A) const> {
  using type = A;
};

template <class F, class = void>
struct ParameterOf : OnlyParameter<typename std::decay<F>::type> {};
template <class F>
struct ParameterOf<F, typename std::conditional<false, decltype(&F::operator()), void>::type>
    : OnlyParameter<decltype(&F::operator())> {};

template <class F, class Index>
struct IndexFor {
  using A = typename ParameterOf<F>::type;
  using Value = typename std::decay<A>::type;
  static constexpr bool written =
      std::is_lvalue_reference<A>::value && !std::is_const<typename std::remove_reference<A>::type>::value;
  using type = typename std::conditional<std::is_arithmetic<Value>::value && !written, Value, Index&>::type;
};

// Users loop from 0 to a size() with a body that takes an int: that the index is converted is their
// business, and no reason for a compiler to warn of this header.
template <class F, class Index>
inline auto call_with(F& f, Index i) -> decltype(f(static_cast<typename IndexFor<F, Index>::type>(i))) {
  return f(static_cast<typename IndexFor<F, Index>::type>(i));
}

// A loop over indices. With a step of more than one a unit is that many of them, which one thread
// does at a stretch.
template <class Index, class F>
struct IndexLoop : Loop {
  IndexLoop(Process& in, Index begin, std::uint64_t size, std::uint64_t per_unit, F& f)
      : Loop(in, &IndexLoop::run_units, last_cost()), first(begin), count(size), step(per_unit),
        body(f) {}

  // One for each type of body, which with a lambda is one for each place in the code.
  static std::atomic<float>& last_cost() {
    static std::atomic<float> cost(0.0f);
    return cost;
  }

  static void run_units(Loop& loop, LoopWork& work) {
    IndexLoop& self = static_cast<IndexLoop&>(loop);
    const FrameScope scope(&work.pool(), work.slot(), loop);
    while (work.next()) {
      const Unit refused = self.step == 1 ? self.run_single(work.first(), work.range())
                                          : self.run_several(work.first(), work.range());
      work.left_at(refused - 1);
    }
  }

  // Both return what claim() has refused, which is one past where they have come to: to keep
  // that, too, would be a seventh of the instructions of a loop that does nothing. Functions of
  // their own, which leaves such a loop the registers it needs; the body may change anything but
  // where it is itself.
  REGATTA_NOINLINE Unit run_single(Unit next, StealableRange& range) {
    F& f = body;
    for (Index i = at(next); range.claim(++next); ++i) call_with(f, i);
    return next;
  }

  REGATTA_NOINLINE Unit run_several(Unit next, StealableRange& range) {
    F& f = body;
    while (range.claim(++next)) {
      const Index stop = at(std::min(next * step, count));
      for (Index i = at((next - 1) * step); i < stop; ++i) call_with(f, i);
    }
    return next;
  }

  // Without a sign, since the distance of two indices may be more than the type holds.
  Index at(std::uint64_t offset) const {
    return static_cast<Index>(static_cast<std::uint64_t>(first) + offset);
  }

  const Index first;
  const std::uint64_t count;
  const std::uint64_t step;
  F& body;
};

template <class Begin, class End, class F>
void run_for(Pool& pool, Begin first, End last, F& f, std::size_t threads, std::size_t batches,
             const Cancellation* token) {
  using Index = IndexOf<Begin, End>;
  const Index begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (!(begin < end)) return;
  const std::uint64_t count = static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin);
  const std::uint64_t step = batches > 0 && batches < count ? (count - 1) / batches + 1 : 1;
  IndexLoop<Index, F> loop(pool.process(), begin, count, step, f);
  loop.cancellation = token;
  if (batches > 0) loop.max_units = 1;
  const unsigned most = pool.loop_threads();
  pool.run(loop, (count - 1) / step + 1,
           threads < most ? static_cast<unsigned>(threads) : most);
}

template <class Items>
using Subscript = typename std::iterator_traits<decltype(
    std::begin(std::declval<Items&>()))>::difference_type;

template <class Items, class F>
void run_for_each(Pool& pool, Items& items, F& f, std::size_t threads, std::size_t batches,
                  const Cancellation* token) {
  const auto first = std::begin(items);
  auto body = [&](Subscript<Items> i) { f(first[i]); };
  run_for(pool, Subscript<Items>(0), Subscript<Items>(std::distance(first, std::end(items))), body,
          threads, batches, token);
}

}  // namespace detail

// Calls f(i) for all begin <= i < end, in no particular order, and returns when all is done.
// At most `nThreads` threads take part, the calling one included, and never more than the pool
// has; 0 or 1: the calling thread alone. With `nBatches` the indices are cut into that many parts
// of equal size; 0: as the cost of the body suggests.
// Throws the first exception of f (see suppressedExceptions()) or UserInterruptException.
template <class Begin, class End, class F>
void parallelFor(Begin begin, End end, F&& f, std::size_t nThreads = defaultThreads(),
                 std::size_t nBatches = 0) {
  detail::run_for(detail::pool_here(), begin, end, f, nThreads, nBatches, nullptr);
}

// As above, until cancelled: then returns without having called f for all indices.
template <class Begin, class End, class F>
void parallelFor(Begin begin, End end, F&& f, const Cancellation& token,
                 std::size_t nThreads = defaultThreads(), std::size_t nBatches = 0) {
  detail::run_for(detail::pool_here(), begin, end, f, nThreads, nBatches, &token);
}

// Calls f(item) for all items of a container with random access; see parallelFor().
template <class Items, class F>
void parallelForEach(Items&& items, F&& f, std::size_t nThreads = defaultThreads(),
                     std::size_t nBatches = 0) {
  detail::run_for_each(detail::pool_here(), items, f, nThreads, nBatches, nullptr);
}

template <class Items, class F>
void parallelForEach(Items&& items, F&& f, const Cancellation& token,
                     std::size_t nThreads = defaultThreads(), std::size_t nBatches = 0) {
  detail::run_for_each(detail::pool_here(), items, f, nThreads, nBatches, &token);
}

// Ends the loop or the tasks that the calling code belongs to, as stop() does, but without an
// exception: for code that none may pass through. Outside of both it throws after all.
inline void setError(const std::string& message) {
  const detail::Frame& frame = detail::frame_here();
  if (!frame.context || !frame.context->failure) stop(message);
  frame.context->record(std::make_exception_ptr(Error(message)));
}

REGATTA_NAMESPACE_END

#endif
