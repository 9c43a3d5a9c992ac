#include "kendall.h"

#include <vector>

#include "entries.h"
#include "loop.h"

namespace {

using threadstats::ColumnOrder;

// Fills the d x d matrix `tau`. The loop runs over the pairs, not over the rows of the triangle:
// rows get shorter, so that the last threads would wait for the first row.
void fill_tau(const double* x, int n, int d, double* tau,
              const threadstats::LoopOptions& options) {
  std::vector<ColumnOrder> columns(static_cast<std::size_t>(d));
  const threadstats::LoopOptions quiet = {options.threads, false};
  threadstats::for_each_index(d, quiet, [&columns, x, n](std::ptrdiff_t j) {
    columns[static_cast<std::size_t>(j)] = threadstats::order_column(x + j * n, n);
  });

  // Two columns' worth of memory for each thread, not for each pair.
  regatta::PerThread<std::vector<double>> scratch(
      [n] { return std::vector<double>(2 * static_cast<std::size_t>(n)); });
  const double undefined = NA_REAL;
  const std::ptrdiff_t pairs = static_cast<std::ptrdiff_t>(threadstats::pairs_among(d));
  const auto fill_pair = [&columns, &scratch, x, n, d, tau, undefined](std::ptrdiff_t k) {
    const std::pair<int, int> pair = threadstats::pair_at(k, d);
    const std::ptrdiff_t i = pair.first, j = pair.second;
    const double value = threadstats::kendall_tau(columns[static_cast<std::size_t>(i)],
                                                  x + j * n, n, scratch.local().data());
    tau[i + j * d] = tau[j + i * d] = std::isnan(value) ? undefined : value;
  };
  threadstats::for_each_index(pairs, options, fill_pair);

  for (std::ptrdiff_t j = 0; j < d; ++j) tau[j + j * d] = 1.0;
}

}  // namespace

SEXP ffi_kendall(SEXP x, SEXP threads, SEXP progress) {
  const int n = Rf_nrows(x), d = Rf_ncols(x);
  // Taken before the loop starts, since its threads must not call R.
  SEXP tau = PROTECT(Rf_allocMatrix(REALSXP, d, d));
  const double* values = REAL(x);
  double* out = REAL(tau);
  const threadstats::LoopOptions options = threadstats::loop_options(threads, progress);

  SEXP result = regatta::entry([=] {
    fill_tau(values, n, d, out, options);
    return tau;
  });
  UNPROTECT(1);
  return result;
}
