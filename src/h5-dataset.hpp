#ifndef REGATTA_H5_DATASET_HPP
#define REGATTA_H5_DATASET_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "h5-decode.hpp"
#include "h5-library.hpp"

/* What a dataset of numbers is, and its elements tile by tile. */

namespace regatta {
namespace h5 {

/* The types that elements have in memory. */
enum class Type { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 };

std::size_t size_of(Type type);
const char* name_of(Type type);

struct NumberType {
  Type type;
  bool direct;  /* the bytes of the file are those of `type`, in one order or the other */
  bool swap;    /* in the other order */
  bool boolean; /* an enumeration of FALSE = 0 and TRUE = 1 */
  bool bits;    /* a bit field, which the library converts to nothing but another */
};

enum class Layout { compact, contiguous, chunked, virtual_ };

/* Facts about a dataset, copied from the file. Extents are in the file's order, the last index
   running fastest. */
struct Facts {
  std::string path, name;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> chunk; /* empty: not chunked */
  NumberType number;
  Layout layout;
  bool external; /* its bytes are in other files */
  bool plain_edges; /* chunks that reach over the edge are stored without filters */
  std::vector<Filter> filters;
  std::vector<std::string> filter_names;
  std::uint64_t stored; /* bytes in the file */
  std::uint64_t file_size;
};

Facts read_facts(const Library& library, const FileId& file, const DatasetId& dataset,
                 const std::string& path, const std::string& name);

/* The type of numbers; false if the elements are none. */
bool number_type(hid_t type, NumberType* number);

/* A part of the matrix: `slow` lines of `fast` elements each, the lines `stride` elements apart. */
struct Tile {
  const unsigned char* data;
  std::uint64_t slow_at, fast_at;
  std::size_t slow, fast, stride;
};

/* What one thread reads with. */
struct Scratch {
  Decoder decoder;
  std::vector<unsigned char> stored, elements;
};

/* A dataset as a matrix: the last index of the file runs along a line ("fast"), the one before it
   from line to line ("slow"); of further ones, a single value is chosen. One of rank 1 is one line.
   Tiles are chunks where there are chunks. read() may be called by several threads at once. */
class Matrix {
 public:
  Matrix(const std::string& path, const std::string& name, const std::vector<std::uint64_t>& plane);
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

  /* The tile in line `i` and column `j` of tiles. */
  Tile read(std::uint64_t i, std::uint64_t j, Scratch& scratch) const;

 private:
  enum class Way { library, chunks, bytes };

  /* Where a chunk is stored. */
  struct Stored {
    std::uint64_t at;
    std::uint64_t size;
    std::uint32_t mask;
  };

  void choose_way(const Library& library);
  void read_fill(const Library& library);
  void find_chunks(const Library& library);
  std::vector<hsize_t> chunk_offset(std::uint64_t i, std::uint64_t j) const;
  [[noreturn]] void fail_chunk(const std::vector<hsize_t>& offset, const std::string& what,
                               const std::string& filter = "", const std::string& advice = "") const;
  void read_chunk(std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const;
  bool fetch_chunk(const std::vector<hsize_t>& offset, std::uint64_t index, Scratch& scratch,
                   std::size_t* size, std::uint32_t* mask) const;
  void read_bytes(Tile* tile, Scratch& scratch) const;
  void read_library(Tile* tile, Scratch& scratch) const;
  void fill(std::size_t count, Scratch& scratch) const;
  void pread_all(unsigned char* to, std::size_t size, std::uint64_t at) const;
  hid_t memory_type() const;

  FileId file_;
  DatasetId dataset_;
  Facts facts_;
  std::vector<std::uint64_t> plane_; /* values of all indices but the last two */
  std::uint64_t slow_, fast_, tile_slow_, tile_fast_;
  Way way_;
  int fd_;
  std::uint64_t at_; /* of contiguous elements, in the file */
  unsigned char fill_[8];
  bool addressed_;             /* `stored_` says where each chunk is */
  std::vector<Stored> stored_; /* one for each tile */
};

}  // namespace h5
}  // namespace regatta

#endif
