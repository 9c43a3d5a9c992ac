#include "shm-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call-r.h"
#include "encode.h"
#include "sys-layout.h"
#include "sys-map.h"
#include "sys-memory.h"

RG_LAYOUT_SIZE(rg_handle, 96);
RG_LAYOUT(rg_handle, form, 0, 4);
RG_LAYOUT(rg_handle, type, 4, 4);
RG_LAYOUT(rg_handle, length, 8, 8);
RG_LAYOUT(rg_handle, offset, 16, 8);
RG_LAYOUT(rg_handle, size, 24, 8);
RG_LAYOUT(rg_handle, live, 32, 8);
RG_LAYOUT(rg_handle, key, 40, 56);

static rg_arena *context_arena;
static int context_run;
static rg_copy context_copy;
static const rg_wrapper_tail *context_written;

void rg_shm_view_begin(rg_arena *arena, rg_copy copy) {
  context_run = 1;
  context_arena = arena;
  context_copy = copy;
}

void rg_shm_view_finish(void) {
  context_run = 0;
  context_arena = NULL;
  context_copy = RG_COPY_NONE;
  context_written = NULL;
}

void rg_shm_view_watch(const rg_wrapper_tail *written) { context_written = written; }

const char *rg_live_class(rg_live kind) {
  static const char *const classes[RG_LIVE_KINDS] = {NULL, "shm_array", "shm_lock", "shm_counter",
                                                     "regatta_slots"};
  return classes[kind];
}

static void free_view(rg_view *view) {
  free(view->parts);
  if (view->own) rg_map_drop(view->own, view->size);
  if (view->block) rg_block_close(view->block);
  if (view->region) rg_region_close(view->region);
  free(view);
}

void rg_shm_view_drop(SEXP pointer) {
  rg_view *view = rg_shm_view_get(pointer);
  if (!view) return;
  R_ClearExternalPtr(pointer);
  free_view(view);
}

static SEXP wrap(const rg_view *content) {
  rg_view *view = malloc(sizeof *view);
  if (!view) {
    if (content->block) rg_block_close(content->block);
    if (content->region) rg_region_close(content->region);
    Rf_error("cannot allocate %d bytes for a view on shared memory", (int)sizeof *view);
  }
  *view = *content;
  SEXP pointer = PROTECT(R_MakeExternalPtr(view, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, rg_shm_view_drop, TRUE);
  UNPROTECT(1);
  return pointer;
}

SEXP rg_shm_view_of_block(rg_block *block, R_xlen_t length) {
  rg_view view = {.block = block,
                  .data = block->address,
                  .offset = block->span.offset,
                  .size = block->span.size,
                  .length = length};
  /* Who may write to the block's mapping, for as long as it likes, must not write to this vector. */
  if (block->lent && !(view.data = view.own = rg_arena_map(block->arena, block->span))) {
    int saved = errno;
    rg_block_close(block);
    errno = saved;
    return NULL;
  }
  return wrap(&view);
}

static void fail_to_map(int64_t size) {
  if (errno == ENOMEM) rg_encode_abort_maps(size, rg_map_count());
  Rf_error("cannot map %.0f bytes of shared memory: %s", (double)size, strerror(errno));
}

SEXP rg_shm_view_of_region(rg_region *region, int64_t offset, int64_t size, R_xlen_t length,
                           rg_live live) {
  rg_view view = {.region = region, .offset = offset, .size = size, .length = length, .live = live};
  if (region->writable) {
    view.data = region->data + offset;
    view.state = RG_VIEW_LIVE;
  } else {
    view.data = view.own = rg_region_map(region, offset, size);
    if (!view.own) {
      int saved = errno;
      rg_region_close(region);
      errno = saved;
      return NULL;
    }
  }
  return wrap(&view);
}

SEXP rg_shm_view_of_file(int fd, int64_t size, R_xlen_t length) {
  rg_view content = {.size = size, .length = length, .state = RG_VIEW_CHANGED};
  SEXP pointer = PROTECT(wrap(&content)); /* first: an R error would lose the mapping */
  void *address = rg_map_new(fd, 0, size, RG_MAP_PRIVATE);
  UNPROTECT(1);
  if (!address) return NULL;
  rg_view *view = rg_shm_view_get(pointer);
  view->data = view->own = address;
  return pointer;
}

SEXP rg_shm_view_look(SEXP pointer) {
  rg_view *view = rg_shm_view_get(pointer);
  view->region->references++;
  SEXP look = rg_shm_view_of_region(view->region, view->offset, view->size, view->length, view->live);
  rg_shm_view_get(look)->state = RG_VIEW_LOOK;
  return look;
}

static rg_view *view_with_data(SEXP pointer) {
  rg_view *view = rg_shm_view_get(pointer);
  if (!view) Rf_error("this vector is a stand-in for shared memory and has no data here");
  return view;
}

const void *rg_shm_view_read(SEXP pointer) { return view_with_data(pointer)->data; }

/* What others write to the region from now on is not seen in this view. */
static void take_snapshot(rg_view *view) {
  void *own = rg_map_new(-1, 0, view->size, RG_MAP_FRESH);
  if (!own) fail_to_map(view->size);
  memcpy(own, view->data, (size_t)view->size);
  view->data = view->own = own;
}

/* Vectors on one block read the same mapping. One that may be written to needs another, unless it
   is alone, and then nobody else may come to it. */
static void lend(rg_view *view) {
  if (view->block && !view->own && view->block->references > 1) {
    view->own = rg_arena_map(view->block->arena, view->block->span);
    if (!view->own) fail_to_map(view->size);
    view->data = view->own;
  }
  if (view->block && !view->own) view->block->lent = 1;
  view->state = RG_VIEW_LENT;
}

void *rg_shm_view_write(SEXP pointer) {
  rg_view *view = view_with_data(pointer);
  switch (view->state) {
  case RG_VIEW_PRISTINE:
    lend(view);
    break;
  case RG_VIEW_LIVE:
  case RG_VIEW_LOOK:
    take_snapshot(view);
    view->state = RG_VIEW_CHANGED;
    break;
  case RG_VIEW_LENT:
  case RG_VIEW_CHANGED:
    break;
  }
  return view->data;
}

void rg_shm_view_lend(SEXP pointer) {
  rg_view *view = view_with_data(pointer);
  if (view->state == RG_VIEW_PRISTINE) view->state = RG_VIEW_LENT;
}

void rg_shm_view_change(SEXP pointer) { view_with_data(pointer)->state = RG_VIEW_CHANGED; }

rg_view_state rg_shm_view_state(SEXP pointer) {
  rg_view *view = rg_shm_view_get(pointer);
  if (!view) return RG_VIEW_CHANGED;
  if (view->state == RG_VIEW_LOOK) return RG_VIEW_LIVE;
  if (view->state != RG_VIEW_LENT) return view->state;
  /* -1: the system does not tell. */
  int used = view->differs ? view->differs(view) : rg_memory_is_copied(view->data, view->size);
  if (used > 0) view->state = RG_VIEW_CHANGED;
  return used == 0 ? RG_VIEW_PRISTINE : RG_VIEW_CHANGED;
}

int rg_shm_view_is_reachable(SEXP pointer, const rg_arena *arena) {
  rg_view *view = rg_shm_view_get(pointer);
  if (view->block) return view->block->arena == arena;
  /* A worker's result must not hang on memory that the worker may drop, or take with it. */
  return view->region && (!arena || arena->owner == getpid() || view->region->known);
}

/* Handles. */

static SEXP handle_raw(const rg_handle *handle) {
  SEXP state = Rf_allocVector(RAWSXP, sizeof *handle);
  memcpy(RAW(state), handle, sizeof *handle);
  return state;
}

SEXP rg_shm_view_span_handle(rg_span span, SEXPTYPE type, R_xlen_t length) {
  rg_handle handle = {.form = RG_HANDLE_ARENA,
                      .type = (int32_t)type,
                      .length = length,
                      .offset = span.offset,
                      .size = span.size,
                      .key = {.tag = context_arena->tag}};
  return handle_raw(&handle);
}

/* Whether what is being serialised goes to a process that can attach. What a run sends is settled:
   the session has what is known. Else R code decides, which can see who serialises. */
static int goes_to_reader(SEXP pointer) {
  if (context_run) return context_arena || rg_shm_view_get(pointer)->region->known;
  SEXP answer = PROTECT(rg_call_r("sends_handles", 1, pointer));
  int yes = Rf_asLogical(answer) == TRUE;
  UNPROTECT(1);
  return yes;
}

/* Of a live vector that is being serialised: whether it is only what a wrapper holds that is no array
   any more. Outside of a run the bytes are not seen, and R code finds the object that they are of. */
static int is_wrapped_plain(SEXP pointer) {
  if (context_run) return context_written && rg_wrapper_around_next(context_written) == RG_WRAPPER_PLAIN;
  SEXP wrapped = PROTECT(rg_call_r("wrapped_views", 0));
  int plain = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(wrapped == R_NilValue ? wrapped : VECTOR_ELT(wrapped, 0)); i++) {
    if (VECTOR_ELT(VECTOR_ELT(wrapped, 0), i) != pointer) continue;
    plain = INTEGER_RO(VECTOR_ELT(wrapped, 1))[i] == RG_WRAPPER_PLAIN;
    SET_VECTOR_ELT(VECTOR_ELT(wrapped, 0), i, R_NilValue); /* the next time it is the next of its kind */
    break;
  }
  UNPROTECT(1);
  return plain;
}

SEXP rg_shm_view_handle(SEXP pointer, SEXPTYPE type) {
  rg_view *view = rg_shm_view_get(pointer);
  if (!rg_shm_view_is_reachable(pointer, context_arena)) return NULL;
  if (view->block) {
    return context_arena ? rg_shm_view_span_handle(view->block->span, type, view->length) : NULL;
  }
  if (!goes_to_reader(pointer) || (view->live != RG_LIVE_NOT && is_wrapped_plain(pointer))) return NULL;
  rg_handle handle = {.form = RG_HANDLE_REGION,
                      .type = (int32_t)type,
                      .length = view->length,
                      .offset = view->offset,
                      .size = view->size,
                      .live = view->live,
                      .key = rg_region_key_of(view->region)};
  return handle_raw(&handle);
}

static rg_handle handle_of(SEXP state) {
  rg_handle handle;
  if (TYPEOF(state) != RAWSXP || XLENGTH(state) != sizeof handle) {
    Rf_error("this is not the handle of a shared vector");
  }
  memcpy(&handle, RAW_RO(state), sizeof handle);
  return handle;
}

R_xlen_t rg_shm_view_handle_length(SEXP state) { return (R_xlen_t)handle_of(state).length; }

/* `room`: the bytes that are there. */
static void check_span(const rg_handle *handle, int64_t room, const rg_shm_view_maker *maker) {
  int sound = handle->length >= 0 && handle->offset >= 0 && handle->size > 0 &&
              handle->offset % rg_arena_page() == 0 && handle->size <= room &&
              handle->offset <= room - handle->size;
  int64_t least = sound ? maker->least((SEXPTYPE)handle->type, (R_xlen_t)handle->length) : -1;
  if (least < 0 || least > handle->size) {
    Rf_error("the handle of a shared vector is damaged: %.0f elements in %.0f bytes at %.0f of %.0f",
             (double)handle->length, (double)handle->size, (double)handle->offset, (double)room);
  }
}

static SEXP open_view(SEXP pointer, const rg_handle *handle, const rg_shm_view_maker *maker) {
  PROTECT(pointer);
  SEXP x = maker->open(pointer, (SEXPTYPE)handle->type);
  UNPROTECT(1);
  return x;
}

/* An ordinary vector of what is mapped at `data` for as long as this takes. */
static SEXP copy_mapped(char *data, const rg_handle *handle, const rg_shm_view_maker *maker) {
  if (!data) fail_to_map(handle->size);
  rg_view view = {.own = data, .data = data, .size = handle->size, .length = handle->length};
  SEXP pointer = PROTECT(wrap(&view));
  SEXP x = PROTECT(maker->copy(data, handle->size, (SEXPTYPE)handle->type,
                               (R_xlen_t)handle->length));
  rg_shm_view_drop(pointer);
  UNPROTECT(2);
  return x;
}

static int wants_copy(const rg_shm_view_maker *maker) { return context_copy >= maker->copied_from; }

static SEXP resolve_arena(const rg_handle *handle, const rg_shm_view_maker *maker) {
  if (!context_arena || handle->key.tag != context_arena->tag) {
    Rf_error("the shared vector of %.0f elements belongs to another session, or the memory "
             "it stood in is gone",
             (double)handle->length);
  }
  /* Of the file itself: what the processes have written down about it may have been overwritten. */
  check_span(handle, rg_arena_size(context_arena), maker);
  rg_span span = {handle->offset, handle->size};
  rg_block *block = wants_copy(maker) ? NULL : rg_block_open(context_arena, span);
  SEXP pointer = block ? rg_shm_view_of_block(block, (R_xlen_t)handle->length) : NULL;
  if (pointer) return open_view(pointer, handle, maker);
  if (!wants_copy(maker) && errno != ENOMEM) fail_to_map(handle->size);
  SEXP x = PROTECT(copy_mapped(rg_arena_map(context_arena, span), handle, maker));
  if (!rg_block_owns(context_arena, span.offset)) rg_arena_release(context_arena, span);
  UNPROTECT(1);
  return x;
}

void rg_shm_view_refuse(rg_region_status status, const rg_region_key *key) {
  double mb = (double)key->size / 1e6;
  switch (status) {
  case RG_REGION_HOST:
    Rf_error("the shared memory of %.1f MB is on another machine, or was before this one was "
             "started: send an ordinary copy, as shm_copy() makes it",
             mb);
  case RG_REGION_GONE:
    Rf_error("the shared memory of %.1f MB is gone: process %lld, which owned it, has ended or "
             "dropped it; it must keep the object until the receiver has it",
             mb, (long long)key->pid);
  case RG_REGION_FORGED:
    Rf_error("the handle of a shared vector does not fit what it leads to in process %lld: it is "
             "damaged or forged",
             (long long)key->pid);
  default:
    if (status == RG_REGION_MAPS) rg_encode_abort_maps(key->size, rg_map_count());
    if (errno == EMFILE) rg_encode_abort_files(key->size);
    Rf_error("cannot attach %.1f MB of shared memory of process %lld: %s", mb,
             (long long)key->pid, strerror(errno));
  }
}

static SEXP resolve_region(const rg_handle *handle, const rg_shm_view_maker *maker) {
  rg_region *region;
  if (handle->live < 0 || handle->live >= RG_LIVE_KINDS) {
    Rf_error("the handle of a shared vector is damaged: there is no kind %.0f", (double)handle->live);
  }
  check_span(handle, handle->key.size, maker);
  rg_region_status status = rg_region_attach(&handle->key, handle->live != RG_LIVE_NOT, &region);
  if (rg_encode_may_try_again(status)) {
    status = rg_region_attach(&handle->key, handle->live != RG_LIVE_NOT, &region);
  }
  if (status != RG_REGION_OK) rg_shm_view_refuse(status, &handle->key);
  /* A lock or counter is no value: a copy would be of no use. */
  int views = !wants_copy(maker) && (region->writable || rg_map_has_room());
  if (views || handle->live > RG_LIVE_ARRAY) {
    SEXP pointer = rg_shm_view_of_region(region, handle->offset, handle->size,
                                         (R_xlen_t)handle->length, (rg_live)handle->live);
    if (!pointer) fail_to_map(handle->size);
    SEXP x = open_view(pointer, handle, maker);
    /* R's wrapper of a temporary without the class would write to the array through what it alone refers to. */
    if (handle->live != RG_LIVE_NOT) MARK_NOT_MUTABLE(x);
    return x;
  }
  char *data = rg_region_map(region, handle->offset, handle->size);
  rg_region_close(region);
  return copy_mapped(data, handle, maker);
}

SEXP rg_shm_view_resolve(SEXP state, const rg_shm_view_maker *maker) {
  rg_handle handle = handle_of(state);
  switch (handle.form) {
  case RG_HANDLE_ARENA:
    return resolve_arena(&handle, maker);
  case RG_HANDLE_REGION:
    return resolve_region(&handle, maker);
  default:
    Rf_error("the handle of a shared vector is damaged: there is no form %u", handle.form);
  }
}
