#ifndef RG_THREADS_SHARE_H
#define RG_THREADS_SHARE_H

#include <Rinternals.h>

/* To be called in the parent right before each fork whose child calls threads_share().
   GCC's OpenMP library keeps its threads between regions, and a child, which has none of
   them, waits for them forever in its first region of more than one thread. This ends
   the idle threads (the next region makes new ones, in 0.1 ms), so that the child may
   use OpenMP like any process. It also looks up the functions that the child will call:
   a child must not wait for a lock of the dynamic linker that another thread held at the
   fork. */
void rg_threads_share_settle(void);

SEXP ffi_threads_share_settle(void);
SEXP ffi_threads_share(SEXP share);
SEXP ffi_threads_share_now(void);

#endif
