#ifndef REGATTA_H5_SPARSE_HPP
#define REGATTA_H5_SPARSE_HPP

#include <cstdint>
#include <string>

#include "h5-read.hpp"
#include "h5-stats.hpp"

namespace regatta {
namespace h5 {

/* A sparse matrix as three vectors of a file: the entries of each major index (column, in CSC) lie side
   by side in `data`, their minor indices in `indices`; where they begin is in `pointers`. */
struct SparseNames {
  std::string path, data, indices, pointers;
  Shape shape;  /* of `data`, when the matrix was opened */
  Cache* cache; /* or null */
};

/* Statistics of each major index over the minor ones, of each minor index over the major ones, or both,
   in one pass over the entries; elements that are not stored are zeros. */
void reduce_sparse(const SparseNames& names, std::uint64_t majors, std::uint64_t minors,
                   const Groups& major, const Groups& minor, const Wanted& wanted, const Limits& limits,
                   Results* of_major, Results* of_minor);

/* Medians of the same. */
void find_sparse_medians(const SparseNames& names, std::uint64_t majors, std::uint64_t minors, const Groups& major,
                         const Groups& minor, const Limits& limits, Results* of_major, Results* of_minor);

/* Columns of a sparse matrix in memory, if majors are its columns: where each begins in the other two, at
   0 the first, one more at the end. */
struct SparsePart {
  std::vector<double> pointers;
  std::vector<int> index;
  std::vector<double> value;
  bool rounded;
};

/* The entries of the chosen major indices, which rise. `minor_to`: what becomes of each minor index, -1 if it
   is left out; empty: nothing. */
void read_sparse(const SparseNames& names, std::uint64_t majors, std::uint64_t minors, const Selection& major,
                 const std::vector<int>& minor_to, unsigned threads, SparsePart* part);

}  // namespace h5
}  // namespace regatta

#endif
