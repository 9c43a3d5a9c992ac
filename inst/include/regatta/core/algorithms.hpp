#ifndef REGATTA_CORE_ALGORITHMS_HPP
#define REGATTA_CORE_ALGORITHMS_HPP

#include <functional>
#include <iterator>
#include <vector>

#include "for.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Reductions and scans work on blocks that depend on the number of elements alone, so that sums
// of floating-point numbers come out the same on any number of threads.
struct Blocks {
  explicit Blocks(std::uint64_t count)
      : size(count), step(count <= most ? 1 : (count - 1) / most + 1),
        number(count == 0 ? 0 : (count - 1) / step + 1) {}

  std::uint64_t first(std::uint64_t block) const { return block * step; }
  std::uint64_t last(std::uint64_t block) const { return std::min(size, (block + 1) * step); }

  static constexpr std::uint64_t most = 2048;
  std::uint64_t size;
  std::uint64_t step;
  std::uint64_t number;
};

// One value per element that several threads write at once: a std::vector<bool> packs them into
// shared words, and neighbours in one cache line slow each other down.
template <class T>
struct Apart {
  T value;
  char space[cache_line / 2];
};

}  // namespace detail

// combine(...combine(combine(init, f(begin)), f(begin + 1))..., f(end - 1)), for an associative
// `combine` of which `init` is the neutral element. The result does not depend on the number of
// threads: the terms are added in blocks, whose number depends on end - begin alone.
template <class Begin, class End, class T, class F, class Combine>
T parallelReduce(Begin begin, End end, const T& init, F&& f, Combine&& combine,
                 std::size_t nThreads = defaultThreads()) {
  using Index = detail::IndexOf<Begin, End>;
  const Index first = static_cast<Index>(begin), last = static_cast<Index>(end);
  if (!(first < last)) return init;
  const detail::Blocks blocks(static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first));
  std::vector<detail::Apart<T>> partial(static_cast<std::size_t>(blocks.number),
                                        detail::Apart<T>{init, {}});
  parallelFor(std::uint64_t(0), blocks.number, [&](std::uint64_t block) {
    T sum = init;
    const Index stop = static_cast<Index>(first + static_cast<Index>(blocks.last(block)));
    for (Index i = static_cast<Index>(first + static_cast<Index>(blocks.first(block))); i < stop;
         ++i) {
      sum = combine(std::move(sum), detail::call_with(f, i));
    }
    partial[static_cast<std::size_t>(block)].value = std::move(sum);
  }, nThreads);
  T total = init;
  for (detail::Apart<T>& part : partial) total = combine(std::move(total), std::move(part.value));
  return total;
}

// The sum of f(i), or what + means for its type.
template <class Begin, class End, class T, class F>
T parallelReduce(Begin begin, End end, const T& init, F&& f) {
  return parallelReduce(begin, end, init, f, std::plus<T>());
}

// out[i] = combine(...combine(combine(init, first[0]), first[1])..., first[i]) for random access
// iterators, `combine` and `init` as for parallelReduce(). `out` may be `first`. Each element is
// combined twice: the sums of blocks are needed before the blocks can be filled.
template <class In, class Out, class T, class Combine>
void parallelScan(In first, In last, Out out, const T& init, Combine&& combine,
                  std::size_t nThreads = defaultThreads()) {
  using Difference = typename std::iterator_traits<In>::difference_type;
  const detail::Blocks blocks(static_cast<std::uint64_t>(std::distance(first, last)));
  std::vector<detail::Apart<T>> before(static_cast<std::size_t>(blocks.number),
                                       detail::Apart<T>{init, {}});
  parallelFor(std::uint64_t(0), blocks.number, [&](std::uint64_t block) {
    T sum = init;
    for (std::uint64_t i = blocks.first(block); i < blocks.last(block); ++i) {
      sum = combine(std::move(sum), first[static_cast<Difference>(i)]);
    }
    before[static_cast<std::size_t>(block)].value = std::move(sum);
  }, nThreads);
  T total = init;
  for (detail::Apart<T>& part : before) {
    T with_this = combine(total, std::move(part.value));
    part.value = std::move(total);
    total = std::move(with_this);
  }
  parallelFor(std::uint64_t(0), blocks.number, [&](std::uint64_t block) {
    T sum = before[static_cast<std::size_t>(block)].value;
    for (std::uint64_t i = blocks.first(block); i < blocks.last(block); ++i) {
      sum = combine(std::move(sum), first[static_cast<Difference>(i)]);
      out[static_cast<Difference>(i)] = sum;
    }
  }, nThreads);
}

template <class In, class Out>
void parallelScan(In first, In last, Out out) {
  using T = typename std::iterator_traits<In>::value_type;
  parallelScan(first, last, out, T(), std::plus<T>());
}

// Calls all the functions, which take no arguments, and returns when all are done.
template <class... Fs>
void parallelInvoke(Fs&&... fs) {
  const std::function<void()> calls[] = {std::function<void()>(std::ref(fs))...};
  parallelFor(std::size_t(0), sizeof...(Fs), [&calls](std::size_t i) { calls[i](); },
              defaultThreads(), sizeof...(Fs));
}

REGATTA_NAMESPACE_END

#endif
