#ifndef RG_SHM_WRAPPER_H
#define RG_SHM_WRAPPER_H

#include <Rinternals.h>
#include <stdint.h>

/*
 * R puts a vector of 64 elements or more into a wrapper of its own, an ALTREP object, where it changes
 * the attributes of one name of several. A wrapper is serialised as what it holds, with attributes
 * beside it: what it holds still has the class that the wrapper has lost, and is not told that it is
 * not sent by itself. It can be seen in the bytes before it.
 */

/* How what R is about to serialise is held. */
typedef enum {
  RG_WRAPPER_NONE = 0,
  RG_WRAPPER_OBJECT, /* by a wrapper with some class */
  RG_WRAPPER_PLAIN   /* by a wrapper without class */
} rg_wrapper;

/* The last pieces that R has written. */
enum { RG_WRAPPER_TAIL = 32 };
typedef struct {
  struct {
    int size;
    int32_t first; /* four bytes, if there are as many */
  } pieces[RG_WRAPPER_TAIL];
  unsigned count;
} rg_wrapper_tail;

/* A piece of the native binary format. */
void rg_wrapper_written(rg_wrapper_tail *tail, const void *bytes, int size);

rg_wrapper rg_wrapper_around_next(const rg_wrapper_tail *tail);

/* Serialises `object` to nowhere, `refhook` as for serialize(). list(pointers, how): the views of what is
   live in it, in the order in which R comes to them, and how each is held (rg_wrapper). */
SEXP ffi_shm_wrapped(SEXP object, SEXP refhook);

/* Whether ffi_shm_wrapped() asks for the state of a vector, and any will do; it notes the view of one
   that is `live`. */
int rg_wrapper_note(SEXP pointer, int live);

#endif
