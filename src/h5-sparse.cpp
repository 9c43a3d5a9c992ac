#ifdef REGATTA_WITH_HDF5
#include "h5-entries.hpp"

#include <functional>
#include <memory>

#include <regatta/core/for.hpp>
#include <regatta/core/local.hpp>
#include <regatta/core/pipeline.hpp>
#include <regatta/core/progress.hpp>

/* Statistics of sparse matrices. The entries are cut into pieces of whole chunks; a piece that has some of what is
   chosen is decoded and added up by one thread, and pieces are merged in their order. */

namespace regatta {
namespace h5 {

namespace {

/* What one thread works with. */
struct Desk {
  EntryScratch read;
  std::vector<std::uint64_t> sorted;
  std::vector<std::size_t> major_cell, minor_cell;
};

/* Entries of one major index that lie in one piece. */
struct Line {
  std::size_t major;
  std::uint64_t first, last; /* minor indices of the first entry and the last one */
  bool rises;
};

template <class Class>
struct Piece {
  Totals<Class> major, minor;
  Entries entries;
  Line head, tail; /* may have begun in the piece before, and may go on in the next one */
};

/* Lines come piece by piece: which major indices lie in several pieces, in which their minor ones do not rise. */
class Spanning {
 public:
  void add(const Line& line) {
    if (line.major != open_.major) {
      open_ = line;
      return;
    }
    open_.rises = open_.rises && line.rises && open_.last < line.first;
    open_.last = line.last;
    if (!open_.rises && (found_.empty() || found_.back() != line.major)) found_.push_back(line.major);
  }
  const std::vector<std::size_t>& found() const { return found_; }

 private:
  Line open_ = {nowhere, 0, 0, true};
  std::vector<std::size_t> found_;
};

/* How many indices there are in each group. */
std::vector<std::int64_t> sizes_of(const Groups& groups, std::uint64_t extent) {
  std::vector<std::int64_t> sizes(groups.count, 0);
  if (groups.of.empty()) sizes[0] = static_cast<std::int64_t>(extent);
  for (int group : groups.of) {
    if (group >= 0) ++sizes[static_cast<std::size_t>(group)];
  }
  return sizes;
}

inline std::uint64_t square_of(std::int64_t x) {
  const std::uint64_t size = static_cast<std::uint64_t>(x < 0 ? -x : x);
  return size * size;
}

template <class T, class Class>
void add_squares(const unsigned char* values, const std::vector<std::size_t>& cells, Totals<Class>* totals) {
  const auto visit = [&](auto f) {
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const T x = element_at<T>(values, k);
      if (cells[k] != nowhere && !is_missing(x)) f(cells[k], to_long_double(x));
    }
  };
  visit([&](std::size_t cell, long double x) { totals->off[cell] += x; });
  for (std::size_t c = 0; c < totals->count.size(); ++c) {
    if (totals->count[c] == 0) continue;
    const long double mean = totals->off[c] / static_cast<long double>(totals->count[c]);
    totals->near[c] = static_cast<double>(mean);
    totals->off[c] = mean - totals->near[c];
  }
  visit([&](std::size_t cell, long double x) {
    const long double distance = (x - totals->near[cell]) - totals->off[cell];
    totals->spread[cell] += distance * distance;
  });
}
template <class T>
void add_squares(const unsigned char* values, const std::vector<std::size_t>& cells,
                 Totals<Narrow>* totals) {
  for (std::size_t k = 0; k < cells.size(); ++k) {
    const T x = element_at<T>(values, k);
    if (cells[k] == nowhere || is_missing(x)) continue;
    totals->square[cells[k]] += square_of(static_cast<std::int64_t>(x));
  }
}

template <class T, class Class>
void add_entries(const unsigned char* values, const std::vector<std::size_t>& cells, const Wanted& wanted,
                 Totals<Class>* totals) {
  typedef typename Class::Value Value;
  for (std::size_t k = 0; k < cells.size(); ++k) {
    const std::size_t cell = cells[k];
    if (cell == nowhere) continue;
    const T x = element_at<T>(values, k);
    if (is_missing(x)) {
      ++totals->missing[cell];
      continue;
    }
    const Value value = static_cast<Value>(x);
    ++totals->count[cell];
    if (wanted.sum || wanted.var) totals->sum[cell] += static_cast<typename Class::Sum>(value);
    if (wanted.nonzero && value != Value(0)) ++totals->nonzero[cell];
    if (wanted.range) {
      totals->low[cell] = std::min(totals->low[cell], value);
      totals->high[cell] = std::max(totals->high[cell], value);
    }
  }
  if (wanted.var) add_squares<T>(values, cells, totals);
}

/* What is not stored is zero. */
template <class Class>
void add_zeros(const std::vector<std::int64_t>& sizes, std::size_t cells_each, const Wanted& wanted,
               Totals<Class>* totals) {
  Totals<Class> zeros;
  zeros.begin(1, wanted);
  if (wanted.range) zeros.low[0] = zeros.high[0] = 0;
  for (std::size_t cell = 0; cell < totals->count.size(); ++cell) {
    zeros.count[0] = sizes[cell / cells_each] - totals->count[cell] - totals->missing[cell];
    if (zeros.count[0] > 0) totals->merge(cell, zeros, 0, wanted);
  }
}

template <class Class>
class Reduction {
 public:
  /* `add`: add_entries() of the type of the values, which the rest need not know. */
  typedef decltype(add_entries<int, Class>)* Add;
  Reduction(const SparseNames& names, const SparseFile& file, std::uint64_t minors, const Groups& major,
            const Groups& minor, const Wanted& wanted, Add add)
      : names_(names), file_(file), pointers_(file.pointers), minors_(static_cast<std::size_t>(minors)),
        major_(major), minor_(minor), wanted_(wanted), add_(add) {}

  void run(const Limits& limits, Results* of_major, Results* of_minor) {
    const std::size_t majors = pointers_.size() - 1;
    Totals<Class> by_major, by_minor;
    if (of_major) by_major.begin(majors * minor_.count, wanted_);
    if (of_minor) by_minor.begin(minors_ * major_.count, wanted_);
    const std::uint64_t chunk = file_.data.matrix().tile_fast();
    const std::uint64_t least =
        std::max<std::uint64_t>(piece_entries, of_minor ? minors_ * major_.count / 2 : 0);
    const std::uint64_t step = (least + chunk - 1) / chunk * chunk;
    const auto chosen = [&](std::size_t major) { return group_of(major_, major) >= 0; };
    const std::vector<Entries> pieces = file_.pieces(step, chosen);
    PerThread<Desk> desks;
    std::unique_ptr<ProgressBar> bar(limits.progress ? new ProgressBar(pieces.size()) : nullptr);
    Spanning spanning;
    const auto merge = [&](const Piece<Class>& piece) {
      if (chosen(piece.head.major)) spanning.add(piece.head);
      if (piece.tail.major != piece.head.major && chosen(piece.tail.major)) spanning.add(piece.tail);
      const std::size_t cells = of_major ? piece.major.count.size() : 0;
      for (std::size_t c = 0; c < cells; ++c) {
        const std::size_t at = c % minor_.count * majors + piece.head.major + c / minor_.count;
        by_major.merge(at, piece.major, c, wanted_);
      }
      for (std::size_t c = 0; of_minor && c < by_minor.count.size(); ++c) {
        if (piece.minor.count[c] + piece.minor.missing[c] > 0) by_minor.merge(c, piece.minor, c, wanted_);
      }
    };
    file_.locate_each(pieces, [&](const SparseFile::Places& places, std::size_t from, std::size_t to) {
      std::size_t next = from;
      parallelPipeline<Piece<Class>>(
          [&](Piece<Class>& piece) {
            if (next == to) return false;
            piece.entries = pieces[next++];
            return true;
          },
          [&](Piece<Class>& piece) {
            make(places, of_major != nullptr, of_minor != nullptr, desks.local(), &piece);
            if (bar) ++*bar;
          },
          merge, 0, std::min(places.threads(limits.threads), fitting_threads(limits, step, of_minor != nullptr)));
    });
    for (std::size_t major : spanning.found()) find_twice(major, limits.threads);
    if (of_major && majors > 0) add_zeros(sizes_of(minor_, minors_), majors, wanted_, &by_major);
    if (of_minor && minors_ > 0) add_zeros(sizes_of(major_, majors), minors_, wanted_, &by_minor);
    if (of_major) finish(by_major, minor_, wanted_, of_major);
    if (of_minor) finish(by_minor, major_, wanted_, of_minor);
  }

 private:
  unsigned fitting_threads(const Limits& limits, std::uint64_t step, bool minor) const {
    const double entry = static_cast<double>(size_of(file_.data.matrix().type())) + 3 * 8.0;
    const double each = static_cast<double>(file_.data.matrix().memory() + file_.indices.matrix().memory()) +
                        entry * static_cast<double>(step) +
                        (minor ? 4.0 * 40.0 * static_cast<double>(minors_ * major_.count) : 0.0);
    const double most = std::max(1.0, limits.memory / each);
    return most < limits.threads ? static_cast<unsigned>(most) : limits.threads;
  }

  /* Where each entry counts, and what they come to. */
  void make(const SparseFile::Places& places, bool by_major, bool by_minor, Desk& desk, Piece<Class>* piece) const {
    const std::uint64_t begin = piece->entries.first, end = piece->entries.second;
    const std::size_t count = static_cast<std::size_t>(end - begin);
    read_entries(file_, places, begin, end, desk.read);
    const std::size_t first = file_.major_of(begin);
    std::size_t now = first, from = 0;
    piece->head.major = nowhere;
    const auto end_line = [&](std::size_t to) {
      piece->tail = line_of(desk, now, from, to);
      if (piece->head.major == nowhere) piece->head = piece->tail;
    };
    desk.major_cell.resize(count);
    desk.minor_cell.resize(count);
    for (std::size_t k = 0; k < count; ++k) {
      if (pointers_[now + 1] <= begin + k) {
        end_line(k);
        from = k;
        while (pointers_[now + 1] <= begin + k) ++now;
      }
      const std::uint64_t index = desk.read.minor[k];
      if (index >= minors_) {
        fail_outside(names_, begin + k, minors_);
      }
      const int of_major = group_of(major_, now);
      const int of_minor = group_of(minor_, static_cast<std::size_t>(index));
      const bool counts = of_major >= 0 && of_minor >= 0;
      desk.major_cell[k] =
          counts ? (now - first) * minor_.count + static_cast<std::size_t>(of_minor) : nowhere;
      desk.minor_cell[k] = counts ? static_cast<std::size_t>(of_major) * minors_ +
                                        static_cast<std::size_t>(index)
                                  : nowhere;
    }
    end_line(count);
    if (by_major) {
      piece->major.begin((now - first + 1) * minor_.count, wanted_);
      add_(desk.read.values.data(), desk.major_cell, wanted_, &piece->major);
    }
    if (by_minor) {
      piece->minor.begin(minors_ * major_.count, wanted_);
      add_(desk.read.values.data(), desk.minor_cell, wanted_, &piece->minor);
    }
  }

  /* Entries of a major index, in which no minor one may be twice: sums would be right, all else would not. Of most
     files indices rise. */
  Line line_of(Desk& desk, std::size_t major, std::size_t from, std::size_t to) const {
    const auto begin = desk.read.minor.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end = desk.read.minor.begin() + static_cast<std::ptrdiff_t>(to);
    const bool rises = std::adjacent_find(begin, end, std::greater_equal<std::uint64_t>()) == end;
    if (!rises) {
      desk.sorted.assign(begin, end);
      std::sort(desk.sorted.begin(), desk.sorted.end());
      if (std::adjacent_find(desk.sorted.begin(), desk.sorted.end()) != desk.sorted.end()) fail_twice(names_);
    }
    return Line{major, *begin, *(end - 1), rises};
  }

  /* Reads the indices of a major one that is too long to be sorted, and marks each. */
  void find_twice(std::size_t major, unsigned threads) const {
    struct Part {
      std::uint64_t begin, end;
      std::vector<std::uint64_t> minor;
    };
    std::vector<bool> seen(minors_);
    PerThread<ColumnScratch> scratches;
    const std::uint64_t end = pointers_[major + 1];
    for (std::uint64_t from = pointers_[major], to; from < end; from = to) {
      to = from + std::min(file_.indices.most(), end - from);
      const Located located = file_.indices.locate({Entries(from, to)});
      std::uint64_t next = from;
      parallelPipeline<Part>(
          [&](Part& part) {
            part.begin = next;
            part.end = next += std::min(piece_entries, to - next);
            return part.begin < to;
          },
          [&](Part& part) { file_.indices.read_whole(located, part.begin, part.end, scratches.local(), &part.minor); },
          [&](const Part& part) {
            for (std::uint64_t index : part.minor) {
              /* Somebody may have written to the file since they were added up. */
              if (index >= minors_) fail_outside(names_, part.begin, minors_);
              if (seen[static_cast<std::size_t>(index)]) fail_twice(names_);
              seen[static_cast<std::size_t>(index)] = true;
            }
          },
          0, located.threads(threads));
    }
  }

  const SparseNames& names_;
  const SparseFile& file_;
  const std::vector<std::uint64_t>& pointers_;
  const std::size_t minors_;
  const Groups &major_, &minor_;
  const Wanted& wanted_;
  const Add add_;
};

}  // namespace

void reduce_sparse(const SparseNames& names, std::uint64_t majors, std::uint64_t minors,
                   const Groups& major, const Groups& minor, const Wanted& wanted, const Limits& limits,
                   Results* of_major, Results* of_minor) {
  const SparseFile file(names, majors);
  with_type(file.data.matrix().type(), [&](auto type) {
    using T = decltype(type);
    Reduction<ClassOf<T>>(names, file, minors, major, minor, wanted, add_entries<T, ClassOf<T>>)
        .run(limits, of_major, of_minor);
  });
}

namespace {

/* Entries of chosen major indices that lie together: so many of the chosen ones from `first` on. */
struct Run {
  std::size_t first, count;
};

struct Found {
  std::vector<std::uint64_t> entries; /* of each major index of the run */
  std::vector<int> index;
  std::vector<double> value;
  bool rounded;
};

/* Puts the entries of one major index, from one place to another, into the order of their indices. */
void sort_entries(Found* found, std::size_t from, std::size_t end) {
  int* const index = found->index.data();
  if (std::is_sorted(index + from, index + end)) return;
  std::vector<std::pair<int, double>> both;
  for (std::size_t k = from; k < end; ++k) both.emplace_back(index[k], found->value[k]);
  std::sort(both.begin(), both.end(),
            [](const std::pair<int, double>& a, const std::pair<int, double>& b) { return a.first < b.first; });
  for (std::size_t k = from; k < end; ++k) {
    index[k] = both[k - from].first;
    found->value[k] = both[k - from].second;
  }
}

}  // namespace

void read_sparse(const SparseNames& names, std::uint64_t majors, std::uint64_t minors, const Selection& major,
                 const std::vector<int>& minor_to, unsigned threads, SparsePart* part) {
  const SparseFile file(names, majors);
  const std::size_t size = static_cast<std::size_t>(major.size(majors));
  const auto chosen = [&](std::size_t k) { return major.all ? k : static_cast<std::size_t>(major.index[k]); };
  /* Neighbours come in one run, until it has enough entries for a thread. */
  std::vector<Run> runs;
  std::uint64_t entries = 0;
  for (std::size_t k = 0; k < size; ++k) {
    const bool follows = k > 0 && chosen(k) == chosen(k - 1) + 1 && entries < piece_entries;
    if (!follows) {
      runs.push_back(Run{k, 0});
      entries = 0;
    }
    ++runs.back().count;
    entries += file.pointers[chosen(k) + 1] - file.pointers[chosen(k)];
  }
  std::vector<Found> found(runs.size());
  struct Reader {
    ColumnScratch data, indices;
    std::vector<std::uint64_t> minor, kept; /* indices of all entries, and which of them are chosen */
  };
  PerThread<Reader> readers;
  std::vector<Entries> stretches;
  for (const Run& run : runs) {
    stretches.emplace_back(file.pointers[chosen(run.first)], file.pointers[chosen(run.first + run.count - 1) + 1]);
  }
  const auto read_run = [&](const SparseFile::Places& places, std::size_t i) {
    Reader& reader = readers.local();
    Found& out = found[i];
    out.rounded = false;
    const std::uint64_t begin = stretches[i].first, end = stretches[i].second;
    file.indices.read_whole(places.indices, begin, end, reader.indices, &reader.minor);
    reader.kept.clear();
    for (std::size_t k = 0; k < runs[i].count; ++k) {
      const std::size_t at = chosen(runs[i].first + k), before = out.index.size();
      for (std::uint64_t e = file.pointers[at]; e < file.pointers[at + 1]; ++e) {
        const std::uint64_t index = reader.minor[static_cast<std::size_t>(e - begin)];
        if (index >= minors) fail_outside(names, e, minors);
        const int to = minor_to.empty() ? static_cast<int>(index) : minor_to[static_cast<std::size_t>(index)];
        if (to < 0) continue;
        out.index.push_back(to);
        reader.kept.push_back(e);
      }
      out.entries.push_back(out.index.size() - before);
    }
    out.value.resize(out.index.size());
    file.data.read_some(places.data, reader.kept, reader.data,
                        [&](const unsigned char* data, std::uint64_t first, std::size_t from, std::size_t to) {
      with_type(file.data.matrix().type(), [&](auto type) {
        using T = decltype(type);
        for (std::size_t k = from; k < to; ++k) {
          const T x = element_at<T>(data, static_cast<std::size_t>(reader.kept[k] - first));
          const bool missing = is_missing(x) && !Number<T>::real;
          out.value[k] = missing ? missing_double() : static_cast<double>(x);
          out.rounded |= is_rounded(x);
        }
      });
    });
    std::size_t at = 0;
    for (std::uint64_t count : out.entries) {
      const std::size_t end_of_it = at + static_cast<std::size_t>(count);
      sort_entries(&out, at, end_of_it);
      const auto index = out.index.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = out.index.begin() + static_cast<std::ptrdiff_t>(end_of_it);
      if (std::adjacent_find(index, last) != last) fail_twice(names);
      at = end_of_it;
    }
  };
  file.locate_each(stretches, [&](const SparseFile::Places& places, std::size_t from, std::size_t to) {
    parallelFor(from, to, [&](std::size_t i) { read_run(places, i); }, places.threads(threads));
  });
  part->rounded = false;
  part->pointers.assign(1, 0.0);
  std::uint64_t all = 0;
  for (const Found& one : found) all += one.index.size();
  if (all > INT32_MAX) {
    throw failure("the chosen part of " + place(names.path, names.data) + " has " + std::to_string(all) +
                      " entries, more than a sparse matrix in memory can have",
                  names.path, names.data, "Choose fewer rows or columns at a time.");
  }
  part->index.reserve(static_cast<std::size_t>(all));
  part->value.reserve(static_cast<std::size_t>(all));
  for (Found& one : found) {
    for (std::uint64_t count : one.entries) part->pointers.push_back(part->pointers.back() + static_cast<double>(count));
    part->index.insert(part->index.end(), one.index.begin(), one.index.end());
    part->value.insert(part->value.end(), one.value.begin(), one.value.end());
    part->rounded |= one.rounded;
    one = Found();
  }
}

}  // namespace h5
}  // namespace regatta
#endif
