#ifndef THREADSTATS_KDE_H
#define THREADSTATS_KDE_H

#include <cmath>
#include <cstddef>

namespace threadstats {

// Gaussian kernel density estimate of the sample x[0..n) at one point.
inline double kde_at(const double* x, std::size_t n, double bandwidth, double point) {
  const double sqrt_two_pi = 2.506628274631000502;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = (point - x[i]) / bandwidth;
    sum += std::exp(-0.5 * u * u);
  }
  return sum / (static_cast<double>(n) * bandwidth * sqrt_two_pi);
}

}  // namespace threadstats

#endif
