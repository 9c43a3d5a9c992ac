#ifndef RG_CLUSTER_WIRE_H
#define RG_CLUSTER_WIRE_H

#include <Rinternals.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster-bytes.h"

/*
 * The socket of a node, under the connection that R has for it. Nothing here waits for the other end:
 * what a node has sent is gathered piece by piece, and what cannot be sent at once is kept, so that a
 * node that stops in the middle of a message holds nobody up. R's handler of SIGINT only notes the
 * signal while C code runs, in whatever thread it comes: no interrupt divides a message.
 *
 * While the node is not in step, R's number for the socket leads to a file in its place (it is
 * parked): a call of package parallel fails and does not read what is meant for somebody else.
 *
 * Two kinds of messages come from a node: what parallel serialises, and frames, each an
 * rg_cluster_frame followed by its payload.
 */

/* Sends all of it, waiting as long as that takes; -1 with errno if the other end has gone. */
int rg_cluster_wire_send_all(int fd, const void *data, size_t size);

SEXP ffi_cluster_wire_find(SEXP port, SEXP call, SEXP env);
SEXP ffi_cluster_wire_new(SEXP fd, SEXP deadline);
SEXP ffi_cluster_wire_park(SEXP pointer);
SEXP ffi_cluster_wire_unpark(SEXP pointer);
SEXP ffi_cluster_wire_send(SEXP pointer, SEXP bytes);
SEXP ffi_cluster_wire_read(SEXP pointer);
SEXP ffi_cluster_wire_poll(SEXP pointers, SEXP timeout);
SEXP ffi_cluster_wire_watch(SEXP pointer, SEXP pid);
SEXP ffi_cluster_kill_marked(SEXP mark);
SEXP ffi_cluster_wire_close(SEXP pointer, SEXP kill_it);
SEXP ffi_cluster_wire_part(SEXP pointer);
SEXP ffi_cluster_wire_signal(SEXP pointer, SEXP number);
SEXP ffi_cluster_guard(SEXP call, SEXP env, SEXP stop);

#endif
