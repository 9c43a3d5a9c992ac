#ifndef REGATTA_CORE_ALGORITHMS_HPP
#define REGATTA_CORE_ALGORITHMS_HPP

#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "local.hpp"
#include "task_group.hpp"

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
  Padding<> apart;
};

// Combines the results of blocks, which come in any order, as a binary tree over their numbers says:
// two neighbours that the tree joins become one as soon as both are there. What is combined with
// what depends on the number of blocks alone. Blocks that lie beside each other leave but one value
// for each level of the tree; and there are no more gaps between those that have come than threads.
template <class T, class Combine>
class BlockTree {
 public:
  explicit BlockTree(Combine& combine) : combine_(combine) {}

  // From any thread.
  void add(std::uint64_t block, T&& value) {
    Run& run = runs_.local();
    if (run.next != block) hand_over(run);
    run.next = block + 1;
    run.nodes.push_back(Node{block, 1, std::move(value)});
    while (run.nodes.size() > 1) {
      Node& left = run.nodes[run.nodes.size() - 2];
      if (!joins(left, run.nodes.back())) break;
      join(left, run.nodes.back());
      run.nodes.pop_back();
    }
  }

  // When all have come: the blocks in their order, `init` before the first.
  T result(T init) {
    runs_.forEach([this](Run& run) { hand_over(run); });
    for (auto& one : waiting_) init = combine_(std::move(init), std::move(one.second.value));
    return init;
  }

 private:
  // The result of `size` blocks from `first` on; both are what a binary tree has.
  struct Node {
    std::uint64_t first;
    std::uint64_t size;
    T value;
  };
  // What one thread has done without a gap, before the block `next`.
  struct Run {
    Run() : next(0) {}
    std::uint64_t next;
    std::vector<Node> nodes;
  };

  static bool joins(const Node& left, const Node& right) {
    return left.size == right.size && left.first % (2 * left.size) == 0 &&
           left.first + left.size == right.first;
  }

  void join(Node& left, Node& right) {
    left.value = combine_(std::move(left.value), std::move(right.value));
    left.size *= 2;
  }

  void hand_over(Run& run) {
    std::vector<Node> nodes;
    nodes.swap(run.nodes);
    for (Node& node : nodes) {
      // Combined outside of the lock; meanwhile the other half of the result may come.
      std::vector<Node> other;
      while (take_other_half(node, other)) {
        if (other[0].first < node.first) std::swap(node, other[0]);
        join(node, other[0]);
        other.clear();
      }
    }
  }

  // Leaves the node to wait, unless what it is to be joined with waits already.
  bool take_other_half(Node& node, std::vector<Node>& other) {
    const bool is_left = node.first % (2 * node.size) == 0;
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = waiting_.find(is_left ? node.first + node.size : node.first - node.size);
    if (found == waiting_.end() || found->second.size != node.size) {
      waiting_.emplace(node.first, std::move(node));
      return false;
    }
    other.push_back(std::move(found->second));
    waiting_.erase(found);
    return true;
  }

  Combine& combine_;
  PerThread<Run> runs_;
  std::mutex mutex_;
  std::map<std::uint64_t, Node> waiting_;
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
  detail::BlockTree<T, typename std::remove_reference<Combine>::type> tree(combine);
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
  std::vector<detail::Apart<T>> before(static_cast<std::size_t>(blocks.number),
                                       detail::Apart<T>{init, detail::Padding<>()});
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
  TaskGroup group;
  const int pushed[] = {(group.push(std::ref(fs)), 0)...};
  static_cast<void>(pushed);
  group.wait();
}

REGATTA_NAMESPACE_END

#endif
