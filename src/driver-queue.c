#include "driver-queue.h"

#include "queue.h"

SEXP ffi_driver_batch(SEXP fixed, SEXP before, SEXP seconds, SEXP left, SEXP workers) {
  double size = Rf_asReal(before);
  int64_t each = size > 0 ? (int64_t)(Rf_asReal(seconds) * 1e9 / size) : 0;
  int64_t wanted = rg_queue_batch((int64_t)Rf_asReal(fixed), (int64_t)size, each);
  int64_t count = rg_queue_fair(wanted, (int64_t)Rf_asReal(left), (int64_t)Rf_asReal(workers));
  return Rf_ScalarInteger((int)count);
}
