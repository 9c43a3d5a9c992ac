/* Handles of shared vectors with every content: one that is taken leads to bytes that are there. */
#include "shm-view.c"

#include "shm-vector.c"

extern int64_t nondet_number(void);
static rg_handle handle;
static const int64_t page = 4096;

int64_t rg_arena_page(void) { return page; }
/* An error of R does not come back. */
void Rf_error(const char *format, ...) { __CPROVER_assume(0); }

void check_handle(void) {
  rg_handle any;
  handle = any;
  int64_t room = nondet_number();
  __CPROVER_assume(room >= 0);
  check_span(&handle, room, &vector_maker);
  __CPROVER_assert(handle.offset >= 0 && handle.size > 0 && handle.offset <= INT64_MAX - handle.size &&
                       handle.offset + handle.size <= room,
                   "the span lies in the memory");
  __CPROVER_assert(handle.offset % page == 0, "at the beginning of a page");
  size_t unit = rg_shm_vector_unit((SEXPTYPE)handle.type);
  __CPROVER_assert(unit > 0 && handle.length >= 0 && (uint64_t)handle.length <= (uint64_t)handle.size / unit,
                   "it holds all elements");
}
