#ifndef RG_DRIVER_QUEUE_H
#define RG_DRIVER_QUEUE_H

#include <Rinternals.h>

/* How many of the elements that are left a worker is to be given next (rg_queue_batch() of queue.h): the
   setting `batch` or 0, the batch before and the seconds it took (0: none), the elements that are left,
   and how many workers there are. */
SEXP ffi_driver_batch(SEXP fixed, SEXP before, SEXP seconds, SEXP left, SEXP workers);

#endif
