#ifndef RG_SHM_SHARE_H
#define RG_SHM_SHARE_H

#include <Rinternals.h>

SEXP ffi_shm_share(SEXP x, SEXP from, SEXP limit);
SEXP ffi_shm_is(SEXP x);
SEXP ffi_shm_copy(SEXP x);
SEXP ffi_shm_last_region(void);
SEXP ffi_shm_info(void);
SEXP ffi_shm_peer_is_near(SEXP port);

#endif
