#ifndef REGATTA_H5_MATRIX_HPP
#define REGATTA_H5_MATRIX_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "h5-cache.hpp"
#include "h5-decode.hpp"
#include "h5-index.hpp"
#include "h5-stream.hpp"

/* The elements of a dataset, tile by tile. */

namespace regatta {
namespace h5 {

/* A part of the matrix: `slow` lines of `fast` elements each, the lines `stride` elements apart. To who takes them so,
   whole numbers from 0 to 255 may come as bytes, and then not as elements. */
struct Tile {
  const unsigned char* data;
  const unsigned char* bytes;
  std::uint64_t slow_at, fast_at;
  std::size_t slow, fast, stride;
};

/* What one thread reads with. */
struct Scratch {
  Decoder decoder;
  bool takes_bytes = false;
  std::vector<unsigned char> stored, elements, lines;
  Packing packing;
  /* Chunks that are read part by part, by their number, and the tile that `elements` has of one. */
  typedef std::pair<std::uint64_t, std::uint64_t> Number;
  std::map<Number, std::unique_ptr<ChunkStream>> streams;
  Number streamed = Number(UINT64_MAX, UINT64_MAX);
};

class Matrix;

/* Tiles of a matrix that can be read now. */
class Located {
 public:
  /* How many of `threads` threads may read at once. With one it has to be R's. */
  unsigned threads(unsigned threads) const { return anywhere_ && !in_order_ ? threads : 1; }

  /* The tile in line `i` and column `j` of tiles. */
  Tile read(std::uint64_t i, std::uint64_t j, Scratch& scratch) const;

 private:
  friend class Matrix;
  const Matrix* matrix_;
  bool anywhere_; /* no tile needs libhdf5 */
  bool in_order_; /* tiles are parts of chunks, to be read one after another */
  ChunkTable chunks_;
};

/* A dataset as a matrix: the last index of the file runs along a line ("fast"), the one before it
   from line to line ("slow"); of further ones, a single value is chosen. One of rank 1 is one line.
   Tiles are chunks where there are chunks, or parts of chunks that are too large to be decoded at once. Made, asked
   and ended on R's thread. */
class Matrix {
 public:
  /* With a cache, tiles are taken from it, and given to it, as long as the file is what it was. With a shape, the
     dataset has to be of it. */
  Matrix(const std::string& path, const std::string& name, const std::vector<std::uint64_t>& plane,
         Cache* cache = nullptr, const Shape* before = nullptr);
  ~Matrix();
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  const Facts& facts() const { return facts_; }
  Type type() const { return facts_.number.type; }
  std::uint64_t slow() const { return slow_; }
  std::uint64_t fast() const { return fast_; }
  std::uint64_t tile_slow() const { return tile_slow_; }
  std::uint64_t tile_fast() const { return tile_fast_; }
  std::uint64_t tiles_slow() const { return tile_slow_ ? (slow_ + tile_slow_ - 1) / tile_slow_ : 0; }
  std::uint64_t tiles_fast() const { return tile_fast_ ? (fast_ + tile_fast_ - 1) / tile_fast_ : 0; }

  /* Bytes of memory that a thread needs to read a tile. */
  std::size_t memory() const;

  /* What a cache is made for; false if the elements cannot be watched, being in other files too. */
  bool tiling(const Library& library, Tiling* tiling) const;

  /* Finds these tiles; see each_band(). */
  Located locate(Tiles slow, Tiles fast) const;

 private:
  friend class Located;
  enum class Way { library, chunks, streams, bytes };

  void check_tiles() const;
  void choose_way(const Library& library);
  void find_shuffle();
  bool cut_chunks();
  void read_fill(const Library& library);
  [[noreturn]] void fail_chunk(const std::vector<hsize_t>& offset, const std::string& what,
                               const std::string& filter = "", const std::string& advice = "") const;
  void read_chunk(const Stored* known, std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const;
  const unsigned char* bytes_of_planes(const unsigned char* planes, std::size_t elements) const;
  void read_stream(const Stored& stored, std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const;
  [[noreturn]] void fail_decoding(const std::vector<hsize_t>& offset, const DecodeResult& result) const;
  std::size_t plane_in_chunk() const;
  bool fetch_chunk(const std::vector<hsize_t>& offset, const Stored* known, Scratch& scratch, std::size_t* size,
                   std::uint32_t* mask) const;
  void read_bytes(Tile* tile, Scratch& scratch) const;
  void read_library(Tile* tile, Scratch& scratch) const;
  void fill(std::size_t count, Scratch& scratch) const;
  void pread_all(int fd, unsigned char* to, std::size_t size, std::uint64_t at) const;
  hid_t memory_type() const;

  FileId file_;
  DatasetId dataset_;
  Facts facts_;
  std::vector<std::uint64_t> plane_; /* values of all indices but the last two */
  std::uint64_t slow_, fast_, tile_slow_, tile_fast_;
  std::uint64_t chunk_tiles_slow_, chunk_tiles_fast_; /* tiles of a chunk along each axis */
  Way way_;
  int fd_;           /* of contiguous elements */
  std::uint64_t at_; /* where they are in it */
  unsigned char fill_[8];
  bool shuffles_;                  /* the first filter shuffles whole numbers, the second compresses */
  std::vector<Filter> unshuffled_; /* the others */
  std::unique_ptr<ChunkIndex> index_;
  CachedTiles cached_;
};

/* Calls work(tiles, a, a_end, b, b_end) for parts of all chosen tiles, whose chunks can be found at a time: those
   of lines `slow[a]` ... and columns `fast[b]` ... . Parts come in the order of lines, if a line is one part. */
template <class Work>
void each_band(const Matrix& matrix, const std::vector<std::uint64_t>& slow, const std::vector<std::uint64_t>& fast,
               Work work) {
  const auto fitting = [](const std::vector<std::uint64_t>& tiles, std::size_t from, std::uint64_t most) {
    std::size_t to = from + 1;
    while (to < tiles.size() && tiles[to] - tiles[from] < most) ++to;
    return to;
  };
  for (std::size_t b = 0, b_end; b < fast.size(); b = b_end) {
    b_end = fitting(fast, b, most_located);
    const std::uint64_t width = fast[b_end - 1] - fast[b] + 1;
    for (std::size_t a = 0, a_end; a < slow.size(); a = a_end) {
      a_end = fitting(slow, a, most_located / width);
      const Located tiles = matrix.locate(Tiles{slow.data() + a, a_end - a}, Tiles{fast.data() + b, b_end - b});
      work(tiles, a, a_end, b, b_end);
    }
  }
}

}  // namespace h5
}  // namespace regatta

#endif
