#ifndef RG_CLUSTER_BYTES_H
#define RG_CLUSTER_BYTES_H

#include <stdatomic.h>
#include <stdint.h>

/* tests/c/layout.c makes tables of docs/ARCHITECTURE.md from this, so no R header is included. */

/*
 * What the workers of a cluster do now, in memory that those of this machine share with the
 * session: one slot for each, in a shared array of bytes, which travels as such.
 */
typedef struct {
  _Atomic int64_t current;     /* number of the element being run, from 1; 0 between elements */
  _Atomic int64_t try;         /* which try of it that is, as the session has said; set before `current` */
  _Atomic int64_t last;        /* the one that was begun last, 0 none */
  _Atomic int64_t cancel;      /* element that the session wants interrupted, 0 none */
  _Atomic int64_t started;     /* when it began, monotonic ns */
  _Atomic int64_t cpu_started; /* the worker's CPU ns when it began */
  _Atomic int64_t signalled;   /* 0 from before `cancel` is set until the interrupt has been sent,
                                  if there was an element to interrupt */
} rg_cluster_slot;

enum { RG_CLUSTER_CANCEL_ALL = -1 };

/* Stands before what a node has to say of an element; numbers are in the order of its machine. */
enum { RG_CLUSTER_TOKEN = 48, RG_CLUSTER_MAGIC = 0x31465252 }; /* "RRF1": no serialisation begins so */

typedef struct {
  uint32_t magic;
  int32_t type, kind, tries; /* of rg_record */
  double index, times[2];
  uint64_t size; /* of the payload */
  char token[RG_CLUSTER_TOKEN];
} rg_cluster_frame;

#endif
