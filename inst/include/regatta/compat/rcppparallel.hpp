#ifndef REGATTA_COMPAT_RCPPPARALLEL_HPP
#define REGATTA_COMPAT_RCPPPARALLEL_HPP

// The loops of RcppParallel on this library's pool, for code that is written in its terms:
//   namespace RcppParallel = regatta::rcppparallel;
#include "../regatta.hpp"

REGATTA_NAMESPACE_BEGIN
namespace rcppparallel {

using ::regatta::RMatrix;
using ::regatta::RVector;

// Work on the indices begin <= i < end.
struct Worker {
  virtual ~Worker() {}
  virtual void operator()(std::size_t begin, std::size_t end) = 0;
};

namespace detail {

using ::regatta::detail::Blocks;

inline std::size_t threads_of(int numThreads) {
  return numThreads > 0 ? static_cast<std::size_t>(numThreads) : defaultThreads();
}

// Parts of at least `grain` indices, eight for each thread where there is enough to do.
inline Blocks parts_of(std::size_t begin, std::size_t end, std::size_t grain, std::size_t threads) {
  const std::size_t size = begin < end ? end - begin : 0;
  return Blocks(size, std::max<std::size_t>(std::max<std::size_t>(grain, 1), size / (8 * threads)));
}

}  // namespace detail

inline void parallelFor(std::size_t begin, std::size_t end, Worker& worker,
                        std::size_t grainSize = 1, int numThreads = -1) {
  const std::size_t threads = detail::threads_of(numThreads);
  const detail::Blocks parts = detail::parts_of(begin, end, grainSize, threads);
  ::regatta::parallelFor(std::size_t(0), parts.number, [&](std::size_t part) {
    worker(begin + parts.first(part), begin + parts.last(part));
  }, threads, parts.number);
}

// Marks the constructor by which a reducer is copied for a part of the work.
struct Split {};

// A Reducer has Reducer(Reducer&, Split), operator()(begin, end) and join(other). Parts are joined
// in their order, so that the result does not depend on which thread did which.
template <class Reducer>
void parallelReduce(std::size_t begin, std::size_t end, Reducer& reducer,
                    std::size_t grainSize = 1, int numThreads = -1) {
  const std::size_t threads = detail::threads_of(numThreads);
  const detail::Blocks parts = detail::parts_of(begin, end, grainSize, threads);
  std::vector<std::unique_ptr<Reducer>> partial(parts.number);
  for (std::unique_ptr<Reducer>& one : partial) one.reset(new Reducer(reducer, Split()));
  ::regatta::parallelFor(std::size_t(0), parts.number, [&](std::size_t part) {
    (*partial[part])(begin + parts.first(part), begin + parts.last(part));
  }, threads, parts.number);
  for (const std::unique_ptr<Reducer>& one : partial) reducer.join(*one);
}

}  // namespace rcppparallel
REGATTA_NAMESPACE_END

#endif
