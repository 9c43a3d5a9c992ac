// The road of the paper for users of cpp11 in place of Rcpp.

#include <cpp11.hpp>
#include <regatta/regatta.hpp>

#include <stdexcept>

[[cpp11::linking_to("regatta")]]

[[cpp11::register]] cpp11::doubles square_in_threads(cpp11::doubles x) {
  // Views of R's vectors may call R; the threads are given plain addresses.
  cpp11::writable::doubles out(x.size());
  const double* from = REAL(x);
  double* to = REAL(out);
  regatta::parallelFor(0, x.size(), [from, to](int i) { to[i] = from[i] * from[i]; }, 2);
  return out;
}

[[cpp11::register]] void print_from_loop(int lines) {
  regatta::parallelFor(0, lines, [](int i) { regatta::Rcout << "line " << i << std::endl; });
}

[[cpp11::register]] void throw_from_pool() {
  regatta::ThreadPool pool(2);
  pool.push([] { throw std::runtime_error("a pushed job failed"); });
  pool.wait();
}
