#ifndef REGATTA_H5_WRITE_HPP
#define REGATTA_H5_WRITE_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "h5-dataset.hpp"

/* New datasets, written chunk by chunk. Chunks are encoded by whoever has the elements, in any process;
   one process puts them into the file. */

namespace regatta {
namespace h5 {

/* What a dataset of two dimensions is to be. Extents are in the file's order: lines first. */
struct Plan {
  std::uint64_t extent[2], chunk[2];
  Type type;
  int level; /* of deflate, 0: not compressed */
  bool shuffle;
};

/* Makes the dataset, and the file and the groups that it is in if there are none. */
void create_dataset(const std::string& path, const std::string& name, const Plan& plan);

/* Takes the dataset out of the file again. */
void remove_dataset(const std::string& path, const std::string& name);

/* A block of elements as R has them; one of the two addresses is set. It begins at a border of chunks, and
   ends at one or at the end of the matrix. */
struct Block {
  const double* real;
  const int* integer;
  std::uint64_t slow, fast; /* its extents */
};

/* The chunks of a block as they are stored, those of one line of chunks after another. */
std::vector<std::vector<unsigned char>> encode_chunks(const Plan& plan, const Block& block);

/* A chunk as it is stored, somewhere in memory. */
struct StoredChunk {
  const unsigned char* data;
  std::size_t size;
};

/* Puts chunks `slow` x `fast`, the first of which is number (slow_at, fast_at), into the dataset. */
void put_chunks(const std::string& path, const std::string& name, const std::uint64_t at[2],
                const std::uint64_t count[2], const std::vector<StoredChunk>& chunks);

}  // namespace h5
}  // namespace regatta

#endif
