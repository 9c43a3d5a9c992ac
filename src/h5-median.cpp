#ifdef REGATTA_WITH_HDF5
#include "h5-median.hpp"

#include <atomic>
#include <cstring>
#include <memory>

#include <regatta/core/for.hpp>
#include <regatta/core/local.hpp>
#include <regatta/core/progress.hpp>

/* Medians of lines or columns. As many of these as fit into the memory are a panel: its tiles are decoded, and their
   elements put where those of each line or column, and in it of each group, lie side by side; then the middle ones are
   selected. A tile that reaches over several panels is decoded for each. */

namespace regatta {
namespace h5 {

namespace {

/* What counts of an axis, in the order of the file and by tiles. */
struct Chosen {
  Chosen(const Groups& groups, std::uint64_t extent, std::uint64_t tile_size)
      : all(groups.of.empty()), group_begin(groups.count + 1, 0) {
    for (std::uint64_t k = 0; k < extent; ++k) {
      const int group = all ? 0 : groups.of[static_cast<std::size_t>(k)];
      if (group < 0) continue;
      if (tiles.empty() || tiles.back() != k / tile_size) {
        tiles.push_back(k / tile_size);
        tile_begin.push_back(index.size());
      }
      index.push_back(k);
      ++group_begin[static_cast<std::size_t>(group) + 1];
    }
    tile_begin.push_back(index.size());
    for (std::size_t g = 1; g < group_begin.size(); ++g) group_begin[g] += group_begin[g - 1];
    std::vector<std::size_t> next(group_begin);
    for (std::uint64_t k : index) {
      const int group = all ? 0 : groups.of[static_cast<std::size_t>(k)];
      place.push_back(next[static_cast<std::size_t>(group)]++);
    }
  }

  bool all;
  std::vector<std::uint64_t> index;     /* the chosen indices */
  std::vector<std::size_t> place;       /* where each stands, if they are sorted by groups */
  std::vector<std::size_t> group_begin; /* where each group begins then; one more at the end */
  std::vector<std::uint64_t> tiles;     /* those in which one is */
  std::vector<std::size_t> tile_begin;  /* the number of the first in each of these; one more at the end */
};

/* Chosen indices from `begin` to `end`, in the tiles from `tile` to `tile_end` of Chosen::tiles. */
struct Panel {
  std::size_t begin, end, tile, tile_end;
};

std::vector<Panel> cut(const Chosen& kept, std::size_t most) {
  std::vector<Panel> panels;
  for (std::size_t t = 0; t < kept.tiles.size(); ++t) {
    const std::size_t begin = kept.tile_begin[t], end = kept.tile_begin[t + 1];
    if (!panels.empty() && end - panels.back().begin <= most) {
      panels.back().end = end;
      panels.back().tile_end = t + 1;
      continue;
    }
    const std::size_t parts = (end - begin + most - 1) / most;
    for (std::size_t k = 0; k < parts; ++k) {
      panels.push_back(Panel{begin + (end - begin) * k / parts, begin + (end - begin) * (k + 1) / parts, t, t + 1});
    }
  }
  return panels;
}

/* Medians of each index of one axis, which is `kept`, across the other. */
template <class T>
class Medians {
 public:
  typedef typename Held<T>::Value Value;
  Medians(const Matrix& matrix, bool of_fast, const Groups& slow, const Groups& fast)
      : matrix_(matrix), of_fast_(of_fast), extent_(of_fast ? matrix.fast() : matrix.slow()),
        groups_(of_fast ? slow : fast), slow_(slow, matrix.slow(), matrix.tile_slow()),
        fast_(fast, matrix.fast(), matrix.tile_fast()), kept_(of_fast ? fast_ : slow_),
        across_(of_fast ? slow_ : fast_), width_(across_.index.size()) {}

  unsigned run(const Limits& limits, Results* results) {
    const std::size_t cells = static_cast<std::size_t>(extent_) * (groups_.times.empty() ? groups_.count : 1);
    results->median.assign(cells, no_median);
    results->count.assign(cells, 0.0);
    results->missing.assign(cells, 0.0);
    if (width_ == 0 || kept_.index.empty()) return limits.threads;
    const double counted = groups_.times.empty() ? 0.0 : static_cast<double>(width_ * sizeof(Counted<Value>));
    const Share share(limits, static_cast<double>(matrix_.memory()) + counted);
    const double most = std::max(1.0, share.held / static_cast<double>(width_ * sizeof(Value)));
    const double size = static_cast<double>(kept_.index.size());
    const std::vector<Panel> panels = cut(kept_, static_cast<std::size_t>(std::min(most, size)));
    std::size_t highest = 0, tiles = 0;
    for (const Panel& panel : panels) {
      highest = std::max(highest, panel.end - panel.begin);
      tiles += (panel.tile_end - panel.tile) * across_.tiles.size();
    }
    /* Each is written before it is read. */
    values_.reset(new Value[highest * width_]);
    bar_.reset(limits.progress ? new ProgressBar(tiles) : nullptr);
    unsigned threads = share.threads;
    for (const Panel& panel : panels) {
      threads = fill(panel, threads);
      std::atomic<bool> rounded(false);
      parallelFor(panel.begin, panel.end, [&](std::size_t k) {
        bool here = false;
        settle(values_.get() + (k - panel.begin) * width_, static_cast<std::size_t>(kept_.index[k]), results, &here);
        if (here) rounded.store(true, std::memory_order_relaxed);
      }, share.threads);
      results->rounded = results->rounded || rounded.load();
    }
    return threads;
  }

 private:
  /* Returns how many threads could read. */
  unsigned fill(const Panel& panel, unsigned threads) {
    const std::vector<std::uint64_t> own(kept_.tiles.begin() + static_cast<std::ptrdiff_t>(panel.tile),
                                         kept_.tiles.begin() + static_cast<std::ptrdiff_t>(panel.tile_end));
    const std::vector<std::uint64_t>&down = of_fast_ ? across_.tiles : own, &across = of_fast_ ? own : across_.tiles;
    each_band(matrix_, down, across,
              [&](const Located& tiles, std::size_t a, std::size_t a_end, std::size_t b, std::size_t b_end) {
      threads = tiles.threads(threads);
      const std::size_t width = b_end - b;
      parallelFor(std::size_t(0), (a_end - a) * width, [&](std::size_t k) {
        const std::size_t i = a + k / width, j = b + k % width;
        const Tile tile = tiles.read(down[i], across[j], scratch_.local());
        put(tile, panel, (of_fast_ ? j : i) + panel.tile, of_fast_ ? i : j);
        if (bar_) ++*bar_;
      }, threads);
    });
    return threads;
  }

  /* The elements of a tile to their places: `kept` and `across` are the numbers of its place along both axes. */
  void put(const Tile& tile, const Panel& panel, std::size_t kept, std::size_t across) {
    const std::uint64_t kept_at = of_fast_ ? tile.fast_at : tile.slow_at;
    const std::uint64_t across_at = of_fast_ ? tile.slow_at : tile.fast_at;
    const std::size_t kept_step = of_fast_ ? 1 : tile.stride, across_step = of_fast_ ? tile.stride : 1;
    const std::size_t begin = std::max(panel.begin, kept_.tile_begin[kept]);
    const std::size_t end = std::min(panel.end, kept_.tile_begin[kept + 1]);
    const std::size_t from = across_.tile_begin[across], to = across_.tile_begin[across + 1];
    for (std::size_t k = begin; k < end; ++k) {
      const unsigned char* const line =
          tile.data + static_cast<std::size_t>(kept_.index[k] - kept_at) * kept_step * sizeof(T);
      Value* const out = values_.get() + (k - panel.begin) * width_;
      if (across_.all) {
        for (std::size_t q = 0; q < to - from; ++q) out[from + q] = held(element_at<T>(line, q * across_step));
        continue;
      }
      for (std::size_t q = from; q < to; ++q) {
        const std::size_t at = static_cast<std::size_t>(across_.index[q] - across_at) * across_step;
        out[across_.place[q]] = held(element_at<T>(line, at));
      }
    }
  }

  /* Selects among the values of index `at`. */
  void settle(Value* values, std::size_t at, Results* results, bool* rounded) {
    std::vector<Counted<Value>>& counted = counted_.local();
    counted.clear();
    std::int64_t missing_times = 0, count_times = 0;
    for (std::size_t g = 0; g < groups_.count; ++g) {
      Value* const begin = values + across_.group_begin[g];
      Value* const all = values + across_.group_begin[g + 1];
      Value* const end = std::partition(begin, all, [](Value x) { return !is_missing(x); });
      const std::size_t count = static_cast<std::size_t>(end - begin);
      if (!groups_.times.empty()) {
        const std::int64_t times = groups_.times[g];
        for (const Value* one = begin; one < end; ++one) counted.emplace_back(*one, times);
        count_times += times * static_cast<std::int64_t>(count);
        missing_times += times * (all - end);
        continue;
      }
      const std::size_t cell = g * static_cast<std::size_t>(extent_) + at;
      results->count[cell] = static_cast<double>(count);
      results->missing[cell] = static_cast<double>(all - end);
      if (count > 0) results->median[cell] = median_of(middle_of(begin, count, 0), rounded);
    }
    if (groups_.times.empty()) return;
    results->count[at] = static_cast<double>(count_times);
    results->missing[at] = static_cast<double>(missing_times);
    if (!counted.empty()) results->median[at] = median_of(middle_of(counted, 0), rounded);
  }

  const Matrix& matrix_;
  const bool of_fast_;
  const std::uint64_t extent_;
  const Groups& groups_; /* of the other axis */
  const Chosen slow_, fast_;
  const Chosen &kept_, &across_;
  const std::size_t width_;
  std::unique_ptr<Value[]> values_;
  std::unique_ptr<ProgressBar> bar_;
  PerThread<Scratch> scratch_;
  PerThread<std::vector<Counted<Value>>> counted_;
};

}  // namespace

unsigned find_medians(const Matrix& matrix, const Groups& slow, const Groups& fast, const Limits& limits,
                      Results* of_fast, Results* of_slow) {
  return with_type(matrix.type(), [&](auto type) {
    typedef Medians<decltype(type)> Finder;
    unsigned threads = limits.threads;
    if (of_fast) threads = Finder(matrix, true, slow, fast).run(limits, of_fast);
    if (of_slow) threads = Finder(matrix, false, slow, fast).run(limits, of_slow);
    return threads;
  });
}

}  // namespace h5
}  // namespace regatta
#endif
