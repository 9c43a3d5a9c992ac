#ifndef RG_POSIX_SHM_H
#define RG_POSIX_SHM_H

#include <Rinternals.h>

/*
 * Vectors in named POSIX shared memory. The maps of this package use memory without a name
 * (arena.h); named objects are for programs that hand them on by name.
 *
 * An object holds the elements and nothing else. It is made with mode 0600, never by opening
 * what is there already, and its memory is reserved before it is written: a lack of it is an
 * error and not a SIGBUS.
 */

/* Each gives NULL, or list(operation, errno, available) with the call of the system that has
   failed and the bytes that are left for such objects (NA: not known). */
SEXP ffi_posix_shm_write(SEXP name, SEXP x, SEXP overwrite);
SEXP ffi_posix_shm_unlink(SEXP name);

/* The vector without its attributes, or such a list; its errno is 0 where the operation is a fault
   of posix-name.h. The object has lost its name then, unless it could not be opened or is not this
   user's. It is mapped only where nobody can shorten it any more, and copied otherwise. */
SEXP ffi_posix_shm_read(SEXP name, SEXP type, SEXP length, SEXP size, SEXP copy);

/* Bytes of an element, NA for a type that has no place in shared memory. */
SEXP ffi_posix_shm_unit(SEXP type);

/* 0: an ordinary vector, 1: one that makes its elements when asked, 2: it has made them. */
SEXP ffi_posix_shm_altrep(SEXP x);

#endif
