#ifndef REGATTA_H5_READ_HPP
#define REGATTA_H5_READ_HPP

#include <cstdint>
#include <vector>

#include "h5-matrix.hpp"

namespace regatta {
namespace h5 {

/* Which lines or columns, in which order; from 0, any number of times each. `all` of them in order
   where it says so. */
struct Selection {
  bool all;
  std::vector<std::uint64_t> index;
  std::uint64_t size(std::uint64_t extent) const { return all ? extent : index.size(); }
};

/* Elements as R has them: one of the two addresses is set. Fast index first, as in the file. */
struct Target {
  double* real;
  int* integer;
};

/* Fills `target` with the chosen part, in `threads` threads. Returns whether a whole number had to be
   rounded. */
bool read_part(const Matrix& matrix, const Selection& slow, const Selection& fast, Target target,
               unsigned threads);

/* Whether R's integers hold all values of a type. */
bool is_r_integer(Type type);

}  // namespace h5
}  // namespace regatta

#endif
