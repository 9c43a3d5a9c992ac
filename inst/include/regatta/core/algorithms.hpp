#ifndef REGATTA_CORE_ALGORITHMS_HPP
#define REGATTA_CORE_ALGORITHMS_HPP

#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "task_group.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// `count` elements in blocks of `per_block`, the last of what is left. Reductions and scans work on such as
// depend on the number of elements alone, so that sums of floating-point numbers come out the same on
// any number of threads.
struct Blocks {
  explicit Blocks(std::uint64_t count) : Blocks(count, count <= most ? 1 : (count - 1) / most + 1) {}
  Blocks(std::uint64_t count, std::uint64_t per_block)
      : size(count), step(per_block), number(count == 0 ? 0 : (count - 1) / step + 1) {}

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
struct Padded {
  T value;
  Padding apart;
};

// Combines the results of blocks, which come in any order, along a binary tree over their numbers. Of
// two neighbours that the tree joins, the first that comes waits at the boundary between them, and who
// brings the other combines both; what is combined with what depends on the number of blocks alone.
// Each boundary is that of one pair: its lowest bit is the number of blocks on either side. Blocks
// that lie beside each other leave but one value for each level of the tree; and there are no more
// gaps between those that have come than threads.
template <class T, class Combine>
class BlockTree {
 public:
  BlockTree(std::uint64_t blocks, Combine& combine)
      : combine_(combine), waiting_(static_cast<std::size_t>(blocks + 1)) {}
  ~BlockTree() {
    for (std::atomic<T*>& one : waiting_) delete one.load(std::memory_order_relaxed);
  }

  // From any thread. release and acquire: who brings the other half sees the one that waits.
  void add(std::uint64_t first, T&& value) {
    for (std::uint64_t size = 1;; size *= 2) {
      const bool is_left = (first & size) == 0;
      std::atomic<T*>& boundary = at(is_left ? first + size : first);
      T* there = boundary.load(std::memory_order_acquire);
      if (!there) {
        std::unique_ptr<T> mine(new T(std::move(value)));
        if (boundary.compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel)) {
          mine.release();
          return;
        }
        value = std::move(*mine);
      }
      boundary.store(nullptr, std::memory_order_relaxed);
      const std::unique_ptr<T> other(there);
      value = is_left ? combine_(std::move(value), std::move(*other))
                      : combine_(std::move(*other), std::move(value));
      if (!is_left) first -= size;
    }
  }

  // When all have come: the blocks in their order, `init` before the first. Left are the largest nodes.
  T result(T init) {
    const std::uint64_t blocks = waiting_.size() - 1;
    std::uint64_t last = 0;
    for (std::uint64_t size = Blocks::most; size > 0; size /= 2) {
      if ((blocks & size) == 0) continue;
      last += size;
      init = combine_(std::move(init), std::move(*at(last).load(std::memory_order_acquire)));
    }
    return init;
  }

 private:
  std::atomic<T*>& at(std::uint64_t boundary) { return waiting_[static_cast<std::size_t>(boundary)]; }

  Combine& combine_;
  std::vector<std::atomic<T*>> waiting_;
};

}  // namespace detail

// All f(i) combined, in their order, by an associative `combine` of which `init` is the neutral
// element. The result does not depend on the number of threads, to the last bit: terms are combined
// in blocks, and the blocks along a binary tree, which both depend on end - begin alone. There are
// at most some twenty values of T at a time for each thread.
template <class Begin, class End, class T, class F, class Combine>
T parallelReduce(Begin begin, End end, const T& init, F&& f, Combine&& combine,
                 std::size_t nThreads = defaultThreads()) {
  using Index = detail::IndexOf<Begin, End>;
  const Index first = static_cast<Index>(begin), last = static_cast<Index>(end);
  if (!(first < last)) return init;
  const std::uint64_t from = static_cast<std::uint64_t>(first);
  const detail::Blocks blocks(static_cast<std::uint64_t>(last) - from);
  detail::BlockTree<T, typename std::remove_reference<Combine>::type> tree(blocks.number, combine);
  parallelFor(std::uint64_t(0), blocks.number, [&](std::uint64_t block) {
    T sum = init;
    // Without a sign: the distance of two indices may be more than their type holds.
    for (std::uint64_t i = blocks.first(block); i < blocks.last(block); ++i) {
      sum = combine(std::move(sum), detail::call_with(f, static_cast<Index>(from + i)));
    }
    tree.add(block, std::move(sum));
  }, nThreads);
  return tree.result(init);
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
  std::vector<detail::Padded<T>> before(static_cast<std::size_t>(blocks.number),
                                       detail::Padded<T>{init, detail::Padding()});
  parallelFor(std::uint64_t(0), blocks.number, [&](std::uint64_t block) {
    T sum = init;
    for (std::uint64_t i = blocks.first(block); i < blocks.last(block); ++i) {
      sum = combine(std::move(sum), first[static_cast<Difference>(i)]);
    }
    before[static_cast<std::size_t>(block)].value = std::move(sum);
  }, nThreads);
  T total = init;
  for (detail::Padded<T>& part : before) {
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
  TaskGroup group;
  const int pushed[] = {0, (group.push(std::ref(fs)), 0)...};
  static_cast<void>(pushed);
  group.wait();
}

REGATTA_NAMESPACE_END

#endif
