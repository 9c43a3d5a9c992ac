#include "kde.h"

#include "entries.h"
#include "loop.h"

// x: n values in each of d columns; bandwidth: d values; grid: `points` values in each of d
// columns. Returns the densities in the shape of the grid.
SEXP ffi_kde(SEXP x, SEXP bandwidth, SEXP grid, SEXP threads, SEXP progress) {
  // Memory of R is taken and its addresses are read here, on R's own thread: the bodies below
  // run on others, where nothing of R may be called.
  SEXP density = PROTECT(Rf_allocMatrix(REALSXP, Rf_nrows(grid), Rf_ncols(grid)));
  const std::ptrdiff_t n = Rf_nrows(x), points = Rf_nrows(grid), size = Rf_xlength(grid);
  const double* samples = REAL(x);
  const double* widths = REAL(bandwidth);
  const double* at = REAL(grid);
  double* out = REAL(density);
  const threadstats::LoopOptions options = threadstats::loop_options(threads, progress);

  SEXP result = regatta::entry([=] {
    threadstats::for_each_index(size, options, [=](std::ptrdiff_t i) {
      const std::ptrdiff_t column = i / points;
      out[i] = threadstats::kde_at(samples + column * n, static_cast<std::size_t>(n),
                                   widths[column], at[i]);
    });
    return density;
  });
  UNPROTECT(1);
  return result;
}
