#ifdef REGATTA_WITH_HDF5
#include <atomic>
#include <limits>
#include <memory>
#include <type_traits>

#include <regatta/core/for.hpp>
#include <regatta/core/local.hpp>
#include <regatta/core/progress.hpp>

#include "h5-entries.hpp"
#include "h5-median.hpp"

/* Medians of sparse matrices. A first pass counts what is not zero: where more than half of the elements are zeros, the
   median is 0. For what is left, the entries of as many rows or columns as fit into the memory, a panel, are put side
   by side, and the middle ones are selected among them and the zeros. */

namespace regatta {
namespace h5 {

namespace {

/* Entries as they are held: narrow whole numbers as a wider type, since the library has this code once for each. */
template <class T>
using HeldEntry = typename std::conditional<std::numeric_limits<T>::is_integer && sizeof(T) < sizeof(std::int32_t),
                                            std::int32_t, typename Held<T>::Value>::type;

/* Of one axis, whose indices are `kept`. A cell is an index and a group of the other axis, index first. */
template <class Value>
class Finder {
 public:
  /* `counted`: of each cell, how many elements are missing, how many are not, and how many of these are not zero. The
     last argument is any element of the file's type. */
  template <class T>
  Finder(const SparseNames& names, const SparseFile& file, std::uint64_t minors, const Groups& major,
         const Groups& minor, bool of_major, const Results& counted, T)
      : names_(names), file_(file), major_(major), minor_(minor), minors_(minors), of_major_(of_major),
        kept_(of_major ? major : minor), other_(of_major ? minor : major),
        extent_(static_cast<std::size_t>(of_major ? file.pointers.size() - 1 : minors)), counted_(counted),
        next_(counted.count.size()), put_(&Finder::put<T>) {}

  void run(const Limits& limits, Results* results) {
    const std::size_t each = other_.times.empty() ? other_.count : 1, cells = extent_ * each;
    results->median.assign(cells, no_median);
    results->count.assign(cells, 0.0);
    results->missing.assign(cells, 0.0);
    std::vector<std::size_t> open; /* results that need entries */
    for (std::size_t k = 0; k < cells; ++k) {
      double count = 0, nonzero = 0, missing = 0;
      each_cell(k, [&](std::size_t cell, std::int64_t times) {
        const double often = static_cast<double>(times);
        count += often * counted_.count[cell];
        missing += often * counted_.missing[cell];
        nonzero += often * counted_.nonzero[cell];
      });
      results->count[k] = count;
      results->missing[k] = missing;
      if (count == 0 || group_of(kept_, k % extent_) < 0) continue;
      if (2 * (count - nonzero) > count) {
        results->median[k] = 0;
      } else {
        open.push_back(k);
      }
    }
    /* Those of an index are found together. */
    std::sort(open.begin(), open.end(), [this](std::size_t a, std::size_t b) {
      return a % extent_ != b % extent_ ? a % extent_ < b % extent_ : a < b;
    });
    find(open, limits, results);
  }

 private:
  /* Calls f(cell, how often it counts) for the cells of a result. */
  template <class F>
  void each_cell(std::size_t result, F f) const {
    if (other_.times.empty()) return f(result, 1);
    for (std::size_t g = 0; g < other_.count; ++g) f(g * extent_ + result, other_.times[g]);
  }

  std::uint64_t entries_of(std::size_t result) const {
    std::uint64_t entries = 0;
    each_cell(result, [&](std::size_t cell, std::int64_t) {
      entries += static_cast<std::uint64_t>(counted_.nonzero[cell]);
    });
    return entries;
  }

  void find(const std::vector<std::size_t>& open, const Limits& limits, Results* results) {
    const std::uint64_t chunk = file_.data.matrix().tile_fast();
    step_ = (piece_entries + chunk - 1) / chunk * chunk;
    const double entry = static_cast<double>(size_of(file_.data.matrix().type()) + sizeof(std::uint64_t));
    const double reading = static_cast<double>(file_.data.matrix().memory() + file_.indices.matrix().memory()) +
                           static_cast<double>(step_) * entry;
    const Share share(limits, reading);
    const double each = sizeof(Value) + (other_.times.empty() ? 0.0 : static_cast<double>(sizeof(Counted<Value>)));
    const double most = share.held / each;
    /* How many panels there will be is not known before, nor how long each takes. */
    bar_.reset(limits.progress ? new ProgressBar(open.size()) : nullptr);
    for (std::size_t from = 0, to; from < open.size(); from = to) {
      std::uint64_t size = 0;
      for (to = from; to < open.size(); ++to) {
        const std::uint64_t more = entries_of(open[to]);
        if (to > from && static_cast<double>(size + more) > most) break;
        size += more;
      }
      find_panel(open, from, to, size, share.threads, results);
    }
  }

  /* The results open[from] ... open[to - 1], which have so many entries. */
  void find_panel(const std::vector<std::size_t>& open, std::size_t from, std::size_t to, std::uint64_t size,
                  unsigned threads, Results* results) {
    values_.reset(new Value[static_cast<std::size_t>(size)]);
    begin_.assign(next_.size(), nowhere);
    std::size_t place = 0;
    std::vector<bool> chosen(extent_);
    for (std::size_t k = from; k < to; ++k) {
      chosen[open[k] % extent_] = true;
      each_cell(open[k], [&](std::size_t cell, std::int64_t) {
        begin_[cell] = place;
        next_[cell].store(0, std::memory_order_relaxed);
        place += static_cast<std::size_t>(counted_.nonzero[cell]);
      });
    }
    read(chosen, threads);
    std::atomic<bool> rounded(false);
    PerThread<std::vector<Counted<Value>>> lists;
    parallelFor(from, to, [&](std::size_t k) {
      bool here = false;
      results->median[open[k]] = select(open[k], lists.local(), &here);
      if (here) rounded.store(true, std::memory_order_relaxed);
      if (bar_) ++*bar_;
    }, threads);
    results->rounded = results->rounded || rounded.load();
  }

  /* Puts the entries of all cells that have a place there. `chosen`: the indices that are kept. */
  void read(const std::vector<bool>& chosen, unsigned threads) {
    const std::vector<Entries> pieces = file_.pieces(step_, [&](std::size_t k) {
      return group_of(major_, k) >= 0 && (!of_major_ || chosen[k]);
    });
    file_.locate_each(pieces, [&](const SparseFile::Places& places, std::size_t from, std::size_t to) {
      parallelFor(from, to, [&](std::size_t k) { (this->*put_)(places, pieces[k]); }, places.threads(threads));
    });
  }

  template <class T>
  void put(const SparseFile::Places& places, const Entries& piece) {
    EntryScratch& scratch = scratch_.local();
    read_entries(file_, places, piece.first, piece.second, scratch);
    std::size_t major = file_.major_of(piece.first);
    for (std::uint64_t entry = piece.first; entry < piece.second; ++entry) {
      while (file_.pointers[major + 1] <= entry) ++major;
      const std::size_t k = static_cast<std::size_t>(entry - piece.first);
      if (scratch.minor[k] >= minors_) fail_outside(names_, entry, minors_);
      const std::size_t minor = static_cast<std::size_t>(scratch.minor[k]);
      const int group = of_major_ ? group_of(minor_, minor) : group_of(major_, major);
      if (group < 0) continue;
      const std::size_t cell = static_cast<std::size_t>(group) * extent_ + (of_major_ ? major : minor);
      if (begin_[cell] == nowhere) continue;
      const T x = element_at<T>(scratch.values.data(), k);
      const Value value = held(x);
      if (is_missing(x) || value == Value(0)) continue;
      const std::size_t number = next_[cell].fetch_add(1, std::memory_order_relaxed);
      if (number >= static_cast<std::size_t>(counted_.nonzero[cell])) fail_changed();
      values_[begin_[cell] + number] = value;
    }
  }

  double select(std::size_t result, std::vector<Counted<Value>>& list, bool* rounded) const {
    list.clear();
    std::int64_t zeros = 0;
    double median = no_median;
    each_cell(result, [&](std::size_t cell, std::int64_t times) {
      const std::size_t entries = static_cast<std::size_t>(counted_.nonzero[cell]);
      if (next_[cell].load(std::memory_order_relaxed) != entries) fail_changed();
      const std::int64_t others = static_cast<std::int64_t>(counted_.count[cell]) - static_cast<std::int64_t>(entries);
      Value* const values = values_.get() + begin_[cell];
      if (other_.times.empty()) {
        median = median_of(middle_of(values, entries, static_cast<std::uint64_t>(others)), rounded);
        return;
      }
      zeros += times * others;
      for (std::size_t k = 0; k < entries; ++k) list.emplace_back(values[k], times);
    });
    return other_.times.empty() ? median : median_of(middle_of(list, zeros), rounded);
  }

  /* Between the two passes. */
  [[noreturn]] void fail_changed() const {
    throw failure("the file has changed while it was read: " + place(names_.path, names_.data), names_.path,
                  names_.data);
  }

  const SparseNames& names_;
  const SparseFile& file_;
  const Groups &major_, &minor_;
  const std::uint64_t minors_;
  const bool of_major_;
  const Groups &kept_, &other_;
  const std::size_t extent_;
  const Results& counted_;
  std::uint64_t step_ = 0; /* entries of a piece */
  std::unique_ptr<Value[]> values_;
  std::vector<std::size_t> begin_;              /* where the entries of each cell are put; `nowhere`: not now */
  std::vector<std::atomic<std::size_t>> next_;  /* how many of them are there */
  void (Finder::*const put_)(const SparseFile::Places&, const Entries&);
  PerThread<EntryScratch> scratch_;
  std::unique_ptr<ProgressBar> bar_;
};

}  // namespace

void find_sparse_medians(const SparseNames& names, std::uint64_t majors, std::uint64_t minors, const Groups& major,
                         const Groups& minor, const Limits& limits, Results* of_major, Results* of_minor) {
  /* What counts several times is counted once here. */
  const Groups by_major = {major.of, major.count, {}}, by_minor = {minor.of, minor.count, {}};
  const Wanted nonzero = {false, false, false, true};
  Results major_counts, minor_counts;
  reduce_sparse(names, majors, minors, by_major, by_minor, nonzero, limits, of_major ? &major_counts : nullptr,
                of_minor ? &minor_counts : nullptr);
  const SparseFile file(names, majors);
  with_type(file.data.matrix().type(), [&](auto type) {
    typedef Finder<HeldEntry<decltype(type)>> Each;
    if (of_major) Each(names, file, minors, major, minor, true, major_counts, type).run(limits, of_major);
    if (of_minor) Each(names, file, minors, major, minor, false, minor_counts, type).run(limits, of_minor);
  });
}

}  // namespace h5
}  // namespace regatta
#endif
