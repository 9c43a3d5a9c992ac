#ifndef RG_FORK_BYTES_H
#define RG_FORK_BYTES_H

#include <stdint.h>

#include "arena.h"
#include "sys-process.h"

/*
 * What a session, a fork server and forked workers send each other. tests/c/layout.c makes tables of
 * docs/ARCHITECTURE.md from this, so no R header is included.
 */

/* The payload of a record that is RG_RECORD_STORED. */
typedef struct {
  rg_span span;
  int64_t size;
} rg_stored;

typedef enum { RG_SERVER_FORK = 1, RG_SERVER_COLLECT } rg_server_verb;

typedef struct {
  int32_t verb;
  int32_t pid;   /* to collect */
  uint64_t tag;  /* part of the mark of what is forked, whose line comes with the request */
} rg_server_request;

typedef struct {
  int32_t pid;   /* forked; 0: nothing was */
  int32_t error; /* why */
  int32_t ended; /* it has, and is collected: */
  rg_process_end end;
} rg_server_reply;

typedef enum { RG_MEMBER_RUN = 1, RG_MEMBER_CALL } rg_member_verb;

/* A message to a worker. The bytes of a call follow; with a run come the descriptors of rg_run_file, as
   far as `files` has their bits, in this order. */
typedef struct {
  int32_t verb;
  int32_t place; /* the worker's slot */
  int64_t size;  /* bytes that follow, or are in the file of the code */
  int64_t elements, batch, share_from, limit;
  int32_t workers, wants_cpu;
  int32_t cores, low; /* rg_pool */
  uint32_t files;
  int32_t owner;
  uint64_t arena_tag;
} rg_member_message;

typedef enum {
  RG_RUN_CONTROL = 0, RG_RUN_CODE, RG_RUN_DOORBELL, RG_RUN_WAKE, RG_RUN_ARENA, RG_RUN_SPANS,
  RG_RUN_STDOUT, RG_RUN_STDERR, /* write ends */
  RG_RUN_STDOUT_READER, RG_RUN_STDERR_READER,
  RG_RUN_FILES
} rg_run_file;

#endif
