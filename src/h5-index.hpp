#ifndef REGATTA_H5_INDEX_HPP
#define REGATTA_H5_INDEX_HPP

#include <cstdint>
#include <vector>

#include "h5-dataset.hpp"

/* Where the chunks of a dataset are in its file. libhdf5 is asked, on R's thread; the chunks themselves can
   then be read by any thread. */

namespace regatta {
namespace h5 {

/* Where a chunk is stored. One that was never written has no bytes. */
struct Stored {
  std::uint64_t at, size;
  std::uint32_t mask; /* filters that were left out */
};

/* Numbers of tiles along an axis, rising. */
struct Tiles {
  const std::uint64_t* at;
  std::size_t size;
};

/* Chunks (i, j) for all i of `slow` and j of `fast`, in a table of all of the rectangle around them. */
struct ChunkTable {
  std::uint64_t slow_at, fast_at; /* of the rectangle */
  std::size_t width;
  std::vector<Stored> stored;
  Stored& at(std::uint64_t i, std::uint64_t j) {
    return stored[static_cast<std::size_t>(i - slow_at) * width + static_cast<std::size_t>(j - fast_at)];
  }
  const Stored& at(std::uint64_t i, std::uint64_t j) const { return const_cast<ChunkTable*>(this)->at(i, j); }
};

/* So many chunks are in a table at most. */
const std::uint64_t most_located = std::uint64_t(1) << 19;

/* The first element of a chunk, in the file's order of indices. */
std::vector<hsize_t> chunk_offset(const Facts& facts, const std::vector<std::uint64_t>& plane, std::uint64_t i,
                                  std::uint64_t j);

class ChunkIndex {
 public:
  ChunkIndex(const Facts& facts, const std::vector<std::uint64_t>& plane);
  ~ChunkIndex();
  ChunkIndex(const ChunkIndex&) = delete;
  ChunkIndex& operator=(const ChunkIndex&) = delete;

  /* Fills the table. Returns false if it cannot be said where chunks are: then libhdf5 has to read them. */
  bool find(const Library& library, const DatasetId& dataset, Tiles slow, Tiles fast, ChunkTable* table);

  /* The file that they are in, once find() has found some. */
  int fd() const { return fd_; }

 private:
  const Facts& facts_;
  const std::vector<std::uint64_t>& plane_;
  int fd_;
#if defined(REGATTA_WITH_H5DCHUNK_ITER)
  bool check(const Library& library, const DatasetId& dataset, Tiles slow, Tiles fast, const ChunkTable& table);
  bool checked_;
#else
  bool open_again(const Library& library);
  FileId file_;
  DatasetId dataset_;
#endif
};

}  // namespace h5
}  // namespace regatta

#endif
