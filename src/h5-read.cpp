#ifdef REGATTA_WITH_HDF5
#include "h5-read.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include <regatta/core/for.hpp>
#include <regatta/core/local.hpp>

#include "h5-number.hpp"

/* A part of a matrix for R. */

namespace regatta {
namespace h5 {

namespace {

/* A chosen index and where it goes. */
struct Place {
  std::uint64_t from, to;
};

/* What is chosen of one axis, in the order of the file, cut by tiles. */
struct Axis {
  std::vector<Place> places;
  std::vector<std::uint64_t> tiles;  /* those that something is chosen of */
  std::vector<std::size_t> begin;    /* where the places of each begin; one more at the end */
};

Axis cut(const Selection& chosen, std::uint64_t extent, std::uint64_t tile) {
  Axis axis;
  const std::uint64_t size = chosen.size(extent);
  axis.places.reserve(static_cast<std::size_t>(size));
  for (std::uint64_t k = 0; k < size; ++k) {
    axis.places.push_back(Place{chosen.all ? k : chosen.index[static_cast<std::size_t>(k)], k});
  }
  if (!chosen.all) {
    std::sort(axis.places.begin(), axis.places.end(), [](const Place& a, const Place& b) {
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
  }
  for (std::size_t k = 0; k < axis.places.size(); ++k) {
    const std::uint64_t here = axis.places[k].from / tile;
    if (axis.tiles.empty() || axis.tiles.back() != here) {
      axis.tiles.push_back(here);
      axis.begin.push_back(k);
    }
  }
  axis.begin.push_back(axis.places.size());
  return axis;
}

template <class T>
void put(const unsigned char* line, std::size_t i, double* to, bool* rounded) {
  const T value = element_at<T>(line, i);
  if (is_missing(value) && !Number<T>::real) {
    *to = missing_double();
    return;
  }
  *to = static_cast<double>(value);
  if (is_rounded(value)) *rounded = true;
}

/* Types whose values R's integers do not hold never come here with an address of integers. */
template <class T>
void put(const unsigned char* line, std::size_t i, int* to, bool*) {
  *to = static_cast<int>(element_at<T>(line, i));
}

/* Whether the places follow each other in the file and in what is read: no repeat, no change of order. */
bool are_together(const Place* first, std::size_t count) {
  for (std::size_t k = 1; k < count; ++k) {
    if (first[k].from != first[0].from + k || first[k].to != first[0].to + k) return false;
  }
  return true;
}

template <class T, class Out>
bool put_tile(const Tile& tile, const Axis& slow, std::size_t i, const Axis& fast, std::size_t j,
              std::uint64_t width, Out* out) {
  bool rounded = false;
  const Place* const first = fast.places.data() + fast.begin[j];
  const std::size_t count = fast.begin[j + 1] - fast.begin[j];
  const bool together = are_together(first, count);
  for (std::size_t s = slow.begin[i]; s < slow.begin[i + 1]; ++s) {
    const unsigned char* const line =
        tile.data + (slow.places[s].from - tile.slow_at) * tile.stride * sizeof(T);
    Out* const row = out + slow.places[s].to * width;
    if (together) {
      const std::size_t from = static_cast<std::size_t>(first[0].from - tile.fast_at);
      Out* const to = row + first[0].to;
      for (std::size_t k = 0; k < count; ++k) put<T>(line, from + k, to + k, &rounded);
    } else {
      for (std::size_t k = 0; k < count; ++k) {
        put<T>(line, static_cast<std::size_t>(first[k].from - tile.fast_at), row + first[k].to, &rounded);
      }
    }
  }
  return rounded;
}

}  // namespace

bool is_r_integer(Type type) {
  return type == Type::i8 || type == Type::u8 || type == Type::i16 || type == Type::u16 ||
         type == Type::i32;
}

bool read_part(const Matrix& matrix, const Selection& slow, const Selection& fast, Target target,
               unsigned threads) {
  const Axis lines = cut(slow, matrix.slow(), matrix.tile_slow());
  const Axis columns = cut(fast, matrix.fast(), matrix.tile_fast());
  const std::uint64_t width = fast.size(matrix.fast());
  std::atomic<bool> rounded(false);
  PerThread<Scratch> scratch;
  each_band(matrix, lines.tiles, columns.tiles,
            [&](const Located& tiles, std::size_t a, std::size_t a_end, std::size_t b, std::size_t b_end) {
    const std::size_t across = b_end - b;
    parallelFor(std::size_t(0), (a_end - a) * across, [&](std::size_t k) {
      const std::size_t i = a + k / across, j = b + k % across;
      const Tile tile = tiles.read(lines.tiles[i], columns.tiles[j], scratch.local());
      const bool lost = with_type(matrix.type(), [&](auto type) {
        using T = decltype(type);
        return target.integer ? put_tile<T>(tile, lines, i, columns, j, width, target.integer)
                              : put_tile<T>(tile, lines, i, columns, j, width, target.real);
      });
      if (lost) rounded.store(true, std::memory_order_relaxed);
    }, tiles.threads(threads));
  });
  return rounded.load();
}

}  // namespace h5
}  // namespace regatta
#endif
