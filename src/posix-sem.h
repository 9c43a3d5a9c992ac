#ifndef RG_POSIX_SEM_H
#define RG_POSIX_SEM_H

#include <Rinternals.h>

/*
 * Semaphores: named ones of POSIX and sets of System V. Calls that fail give
 * list(operation, errno), which the R half words; waiting can be interrupted. The operation may be
 * a fault of posix-name.h: then what stands at the name is no semaphore of this user alone.
 */
SEXP ffi_posix_sem_open(SEXP name, SEXP create, SEXP overwrite, SEXP value);
SEXP ffi_posix_sem_post(SEXP sem);
SEXP ffi_posix_sem_wait(SEXP sem);
SEXP ffi_posix_sem_close(SEXP sem);
SEXP ffi_posix_sem_unlink(SEXP name);

/* A new set with these values; its id. */
SEXP ffi_semv_create(SEXP values);
/* All of the operations at once, when all are possible: `number` of the semaphore in the set
   (from 0), `change` (0: wait until it is 0) and `undo` at the end of the process. */
SEXP ffi_semv_operate(SEXP id, SEXP number, SEXP change, SEXP undo);
SEXP ffi_semv_remove(SEXP id);

#endif
