/* Two programs over arrays of bytes: the average of two arrays, and the average of 11-wide averages
 * of both. Each as a loop over the whole array on threads, and as a function of a range of it.
 */
#include <Rinternals.h>
#include <pthread.h>
#include <string.h>

enum { REACH = 5, THREADS_MAX = 16 };

typedef struct {
  const Rbyte *a, *b;
  R_xlen_t size; /* of both */
} input;

/* Writes the elements number from to `to` - 1, counted from 0. */
typedef void (*kernel)(const input *in, R_xlen_t from, R_xlen_t to, Rbyte *restrict out);

static void average(const input *in, R_xlen_t from, R_xlen_t to, Rbyte *restrict out) {
  const Rbyte *a = in->a + from, *b = in->b + from;
  for (R_xlen_t i = 0; i < to - from; i++) out[i] = (Rbyte)((a[i] + b[i]) / 2);
}

static int window_average(const Rbyte *x, R_xlen_t size, R_xlen_t i) {
  R_xlen_t first = i < REACH ? 0 : i - REACH, last = i + REACH < size ? i + REACH : size - 1;
  int sum = 0;
  for (R_xlen_t j = first; j <= last; j++) sum += x[j];
  return sum / (int)(last - first + 1);
}

static void average_windows(const input *in, R_xlen_t from, R_xlen_t to, Rbyte *restrict out) {
  for (R_xlen_t i = from; i < to; i++) {
    out[i - from] = (Rbyte)((window_average(in->a, in->size, i) +
                             window_average(in->b, in->size, i)) / 2);
  }
}

static kernel kernel_of(SEXP name) {
  return strcmp(CHAR(STRING_ELT(name, 0)), "average") == 0 ? average : average_windows;
}

typedef struct {
  const input *in;
  kernel run;
  R_xlen_t from, to;
  Rbyte *out;
} share;

static void *run_share(void *data) {
  share *part = data;
  part->run(part->in, part->from, part->to, part->out);
  return NULL;
}

/* A new raw vector, written by `threads` threads in shares of equal size. */
SEXP bench_loop(SEXP a, SEXP b, SEXP name, SEXP threads) {
  input in = {RAW_RO(a), RAW_RO(b), XLENGTH(a)};
  int count = Rf_asInteger(threads);
  if (count < 1 || count > THREADS_MAX || XLENGTH(b) != in.size) Rf_error("wrong arguments");
  SEXP result = PROTECT(Rf_allocVector(RAWSXP, in.size));
  share shares[THREADS_MAX];
  pthread_t ids[THREADS_MAX];
  for (int t = 0; t < count; t++) {
    R_xlen_t from = in.size / count * t, to = t + 1 < count ? in.size / count * (t + 1) : in.size;
    shares[t] = (share){&in, kernel_of(name), from, to, RAW(result) + from};
    if (t > 0 && pthread_create(&ids[t], NULL, run_share, &shares[t]) != 0) Rf_error("no thread");
  }
  run_share(&shares[0]);
  for (int t = 1; t < count; t++) pthread_join(ids[t], NULL);
  UNPROTECT(1);
  return result;
}

/* The elements of `range`, positions from 1 without gaps; only the first of them is looked at, so
   that a compact range stays compact. */
SEXP bench_range(SEXP a, SEXP b, SEXP name, SEXP range) {
  input in = {RAW_RO(a), RAW_RO(b), XLENGTH(a)};
  R_xlen_t count = XLENGTH(range), from;
  from = (R_xlen_t)(TYPEOF(range) == INTSXP ? INTEGER_ELT(range, 0) : REAL_ELT(range, 0)) - 1;
  if (from < 0 || from + count > in.size || XLENGTH(b) != in.size) Rf_error("wrong range");
  SEXP result = PROTECT(Rf_allocVector(RAWSXP, count));
  kernel_of(name)(&in, from, from + count, RAW(result));
  UNPROTECT(1);
  return result;
}
