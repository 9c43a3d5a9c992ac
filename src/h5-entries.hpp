#ifndef REGATTA_H5_ENTRIES_HPP
#define REGATTA_H5_ENTRIES_HPP

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "h5-number.hpp"
#include "h5-sparse.hpp"

/* The entries of a sparse matrix, read in stretches. */

namespace regatta {
namespace h5 {

/* A piece of the entries, which one thread works on, has at least that many, so that what a piece costs is little. */
const std::uint64_t piece_entries = 131072;

/* Entry of no cell: its row or column was not chosen. */
const std::size_t nowhere = static_cast<std::size_t>(-1);

/* Entries from the first number to the one before the second. */
typedef std::pair<std::uint64_t, std::uint64_t> Entries;

/* What one thread reads a vector with: the tile that was read last, which the next stretch often begins in. */
struct ColumnScratch : Scratch {
  std::uint64_t number = UINT64_MAX;
  Tile tile = Tile();
};

/* A vector of the file, read in stretches. */
class Column {
 public:
  Column(const std::string& path, const std::string& name, Cache* cache, const Shape* before = nullptr)
      : matrix_(path, name, {}, cache, before) {
    if (matrix_.facts().extents.size() != 1) {
      throw failure(place(path, name) + " is no vector, as a sparse matrix has", path, name);
    }
  }
  const Matrix& matrix() const { return matrix_; }
  std::uint64_t size() const { return matrix_.fast(); }

  /* Finds where entries are: those of stretches from `first` to `second`, which rise. */
  Located locate(const std::vector<Entries>& stretches) const {
    const std::uint64_t line = 0, tile = matrix_.tile_fast();
    std::vector<std::uint64_t> tiles;
    for (const Entries& one : stretches) {
      for (std::uint64_t k = one.first / tile; k * tile < one.second; ++k) {
        if (tiles.empty() || tiles.back() < k) tiles.push_back(k);
      }
    }
    if (tiles.empty()) tiles.push_back(0);
    return matrix_.locate(Tiles{&line, 1}, Tiles{tiles.data(), tiles.size()});
  }

  /* So many elements can be located at a time. */
  std::uint64_t most() const {
    std::uint64_t elements;
    return __builtin_mul_overflow(most_located, matrix_.tile_fast(), &elements) ? UINT64_MAX : elements;
  }

  /* Calls take(data, first, count) for the elements from `begin` to `end`, tile by tile. */
  template <class Take>
  void read(const Located& tiles, std::uint64_t begin, std::uint64_t end, ColumnScratch& scratch, Take take) const {
    const std::size_t bytes = size_of(matrix_.type());
    while (begin < end) {
      const Tile& tile = read_tile(tiles, begin / matrix_.tile_fast(), scratch);
      const std::uint64_t stop = std::min<std::uint64_t>(end, tile.fast_at + tile.fast);
      take(tile.data + static_cast<std::size_t>(begin - tile.fast_at) * bytes, begin,
           static_cast<std::size_t>(stop - begin));
      begin = stop;
    }
  }

  /* Calls take(data, first, from, to) for each tile that has some of the elements `at`, which rise: the data of the tile,
     the number of its first element, and which of `at` are in it. */
  template <class Take>
  void read_some(const Located& tiles, const std::vector<std::uint64_t>& at, ColumnScratch& scratch, Take take) const {
    for (std::size_t from = 0, to; from < at.size(); from = to) {
      const Tile& tile = read_tile(tiles, at[from] / matrix_.tile_fast(), scratch);
      const auto rest = at.begin() + static_cast<std::ptrdiff_t>(from);
      to = static_cast<std::size_t>(std::lower_bound(rest, at.end(), tile.fast_at + tile.fast) - at.begin());
      take(tile.data, tile.fast_at, from, to);
    }
  }

  /* The same as read(), as whole numbers. One below zero becomes one that is too large for any matrix. */
  void read_whole(const Located& tiles, std::uint64_t begin, std::uint64_t end, ColumnScratch& scratch,
                  std::vector<std::uint64_t>* to) const {
    to->resize(static_cast<std::size_t>(end - begin));
    read(tiles, begin, end, scratch, [&](const unsigned char* data, std::uint64_t first, std::size_t count) {
      std::uint64_t* const out = to->data() + (first - begin);
      with_type(matrix_.type(), [&](auto type) {
        using T = decltype(type);
        for (std::size_t k = 0; k < count; ++k) out[k] = whole(element_at<T>(data, k));
      });
    });
  }

 private:
  const Tile& read_tile(const Located& tiles, std::uint64_t number, ColumnScratch& scratch) const {
    if (scratch.number != number) {
      scratch.number = UINT64_MAX;
      scratch.tile = tiles.read(0, number, scratch);
      scratch.number = number;
    }
    return scratch.tile;
  }

  template <class T>
  static std::uint64_t whole(T value) {
    return static_cast<std::uint64_t>(value);
  }
  static std::uint64_t whole(Half value) { return whole(static_cast<double>(value)); }
  static std::uint64_t whole(float value) { return whole(static_cast<double>(value)); }
  static std::uint64_t whole(double value) {
    return value >= 0.0 && value < 9007199254740992.0 ? static_cast<std::uint64_t>(value) : UINT64_MAX;
  }

  Matrix matrix_;
};

/* The three vectors, if they fit together. */
struct SparseFile {
  SparseFile(const SparseNames& names, std::uint64_t majors);

  /* Finds where the entries of these stretches are in both vectors. */
  struct Places {
    Located data, indices;
    unsigned threads(unsigned most) const { return std::min(data.threads(most), indices.threads(most)); }
  };
  Places locate(const std::vector<Entries>& stretches) const {
    return Places{data.locate(stretches), indices.locate(stretches)};
  }

  /* Calls f(places, from, to) for the stretches from number `from` to the one before `to`: as many as can be located at
     a time. */
  template <class Use>
  void locate_each(const std::vector<Entries>& stretches, Use f) const {
    const std::uint64_t most = std::min(data.most(), indices.most());
    for (std::size_t from = 0, to; from < stretches.size(); from = to) {
      to = from + 1;
      while (to < stretches.size() && stretches[to].second - stretches[from].first <= most) ++to;
      const auto at = [&](std::size_t k) { return stretches.begin() + static_cast<std::ptrdiff_t>(k); };
      f(locate(std::vector<Entries>(at(from), at(to))), from, to);
    }
  }

  /* The pieces of `step` entries, the last one of fewer, that have some of a major index that is chosen(). */
  template <class Chosen>
  std::vector<Entries> pieces(std::uint64_t step, Chosen chosen) const {
    std::vector<Entries> found;
    for (std::size_t k = 0; k + 1 < pointers.size(); ++k) {
      if (pointers[k] == pointers[k + 1] || !chosen(k)) continue;
      for (std::uint64_t from = pointers[k] / step * step; from < pointers[k + 1]; from += step) {
        if (found.empty() || found.back().first < from) found.emplace_back(from, std::min(from + step, data.size()));
      }
    }
    return found;
  }

  /* The major index that an entry belongs to. Of those that begin there it is the last, as the others are empty. */
  std::size_t major_of(std::uint64_t entry) const {
    return static_cast<std::size_t>(std::upper_bound(pointers.begin(), pointers.end(), entry) - pointers.begin()) - 1;
  }

  const Column data, indices;
  std::vector<std::uint64_t> pointers;
};

/* What one thread reads entries with, and what it has read: values as the type of the file has them. */
struct EntryScratch {
  ColumnScratch data, indices;
  std::vector<unsigned char> values;
  std::vector<std::uint64_t> minor;
};

void read_entries(const SparseFile& file, const SparseFile::Places& places, std::uint64_t begin, std::uint64_t end,
                  EntryScratch& scratch);

inline int group_of(const Groups& groups, std::size_t k) {
  return groups.of.empty() ? 0 : groups.of[k];
}

[[noreturn]] void fail_twice(const SparseNames& names);
[[noreturn]] void fail_outside(const SparseNames& names, std::uint64_t entry, std::uint64_t minors);

}  // namespace h5
}  // namespace regatta

#endif
