#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena-block.h"
#include "arena.h"
#include "check.h"
#include "single-step.h"
#include "sys-fork.h"

/* What the system says of the file is what counts: blocks, not the arena's own numbers. */
static int64_t bytes_of_file(const rg_arena *arena) {
  struct stat file;
  return fstat(arena->fd, &file) == 0 ? (int64_t)file.st_blocks * 512 : -1;
}

static int64_t pages(int64_t n) { return n * rg_arena_page(); }

static int overlap(rg_span a, rg_span b) {
  return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

TEST(a_span_holds_what_was_written_to_it) {
  rg_arena *arena = rg_arena_create();
  char text[5000];
  for (int i = 0; i < 5000; i++) text[i] = (char)(i * 7);
  rg_piece pieces[2] = {{text, 3000}, {text + 3000, 2000}};
  rg_span span;
  rg_arena_need need;
  CHECK(rg_arena_write(arena, pieces, 2, &span, &need) == RG_ARENA_OK);
  CHECK(span.offset % rg_arena_page() == 0 && span.size >= 5000);
  char *map = rg_arena_map(arena, span);
  CHECK(memcmp(map, text, 5000) == 0);
  map[0] = 'x'; /* private */
  char *again = rg_arena_map(arena, span);
  CHECK(again[0] == text[0]);
  rg_arena_unmap(map, span);
  rg_arena_unmap(again, span);
  rg_arena_destroy(arena);
}

TEST(a_released_span_is_used_again_unless_it_is_much_too_large) {
  rg_arena *arena = rg_arena_create();
  rg_span span, again, small;
  rg_arena_need need;
  rg_arena_reserve(arena, pages(10), &span, &need);
  rg_arena_release(arena, span);
  rg_arena_reserve(arena, pages(2), &small, &need);
  CHECK(!overlap(span, small)); /* it would waste more than it uses */
  rg_arena_reserve(arena, pages(9), &again, &need);
  CHECK(again.offset == span.offset && again.size == span.size);
  rg_arena_destroy(arena);
}

TEST(the_smallest_span_that_fits_is_taken) {
  rg_arena *arena = rg_arena_create();
  rg_span spans[3], got;
  rg_arena_need need;
  const int64_t sizes[3] = {9, 6, 8};
  for (int i = 0; i < 3; i++) rg_arena_reserve(arena, pages(sizes[i]), &spans[i], &need);
  for (int i = 0; i < 3; i++) rg_arena_release(arena, spans[i]);
  rg_arena_reserve(arena, pages(7), &got, &need);
  CHECK(got.offset == spans[2].offset);
  rg_arena_destroy(arena);
}

TEST(what_is_not_kept_goes_back_to_the_system) {
  rg_arena *arena = rg_arena_create();
  rg_span span;
  rg_arena_need need;
  arena->keep = 0;
  rg_arena_reserve(arena, pages(100), &span, &need);
  CHECK(bytes_of_file(arena) == pages(100));
  rg_arena_release(arena, span);
  CHECK(bytes_of_file(arena) == 0);
  arena->keep = pages(1000);
  rg_arena_reserve(arena, pages(100), &span, &need);
  rg_arena_release(arena, span);
  CHECK(bytes_of_file(arena) == pages(100));
  CHECK(rg_arena_trim(arena) == pages(100));
  CHECK(bytes_of_file(arena) == 0);
  CHECK(atomic_load(&arena->shared->used) == 0 && atomic_load(&arena->shared->warm) == 0);
  rg_arena_destroy(arena);
}

TEST(what_is_above_the_limit_is_refused_and_leaves_nothing) {
  rg_arena *arena = rg_arena_create();
  rg_span first, second;
  rg_arena_need need;
  arena->limit = pages(20);
  CHECK(rg_arena_reserve(arena, pages(15), &first, &need) == RG_ARENA_OK);
  CHECK(rg_arena_reserve(arena, pages(6), &second, &need) == RG_ARENA_FULL);
  CHECK(need.requested == pages(6) && need.available == pages(5));
  CHECK(bytes_of_file(arena) == pages(15));
  CHECK(rg_arena_reserve(arena, pages(5), &second, &need) == RG_ARENA_OK);
  rg_arena_destroy(arena);
}

/* Damage: what stray writes can do to what the processes share about the arena. */

TEST(an_end_that_was_overwritten_makes_no_span_over_another) {
  const int64_t ends[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT64_MAX / 4096 * 4096};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    rg_arena *arena = rg_arena_create();
    rg_span first, second;
    rg_arena_need need;
    CHECK(rg_arena_reserve(arena, pages(3), &first, &need) == RG_ARENA_OK);
    CHECK(rg_arena_is_sound(arena));
    atomic_store(&arena->shared->end, ends[i]);
    CHECK(!rg_arena_is_sound(arena));
    CHECK(rg_arena_reserve(arena, pages(1), &second, &need) == RG_ARENA_OVERWRITTEN);
    CHECK(rg_arena_size(arena) == pages(3));
    rg_arena_destroy(arena);
  }
}

TEST(a_free_span_that_was_overwritten_is_neither_used_nor_given_back) {
  rg_arena *arena = rg_arena_create();
  rg_span live, freed, next;
  rg_arena_need need;
  const rg_piece text = {"lives", 6};
  CHECK(rg_arena_write(arena, &text, 1, &live, &need) == RG_ARENA_OK);
  rg_arena_reserve(arena, pages(1), &freed, &need);
  rg_arena_release(arena, freed);
  int entry = 0;
  while (entry < RG_ARENA_FREE_MAX && atomic_load(&arena->shared->free[entry].state) != RG_FREE_OPEN) entry++;
  CHECK(entry < RG_ARENA_FREE_MAX);
  arena->shared->free[entry].span.offset = live.offset;
  rg_arena_reserve(arena, pages(1), &next, &need);
  CHECK(!overlap(live, next));
  atomic_store(&arena->shared->free[entry].state, RG_FREE_OPEN);
  rg_arena_trim(arena);
  char *map = rg_arena_map(arena, live);
  CHECK(memcmp(map, "lives", 6) == 0);
  rg_arena_unmap(map, live);
  rg_arena_destroy(arena);
}

TEST(a_child_releases_nothing) {
  rg_arena *arena = rg_arena_create();
  rg_span span;
  rg_arena_need need;
  rg_arena_reserve(arena, pages(3), &span, &need);
  pid_t child = rg_fork_worker();
  if (child == 0) {
    rg_arena_release(arena, span);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  CHECK(atomic_load(&arena->shared->used) == pages(3));
  CHECK(atomic_load(&arena->shared->warm) == 0);
  rg_arena_destroy(arena);
}

/* Owner and children, thousands of spans, each marked by who has it. */

enum { LIVE = 64 };

static int64_t *mark_of(rg_arena *arena, rg_span span) {
  int64_t *at = mmap(NULL, (size_t)span.size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd,
                     (off_t)span.offset);
  return at == MAP_FAILED ? NULL : at;
}

static void mark(rg_arena *arena, rg_span span, int64_t number) {
  int64_t *at = mark_of(arena, span);
  at[0] = at[span.size / (int64_t)sizeof *at - 1] = number;
  munmap(at, (size_t)span.size);
}

static int is_marked(rg_arena *arena, rg_span span, int64_t number) {
  int64_t *at = mark_of(arena, span);
  int right = at[0] == number && at[span.size / (int64_t)sizeof *at - 1] == number;
  munmap(at, (size_t)span.size);
  return right;
}

TEST(spans_in_use_never_overlap_in_a_random_history) {
  rg_arena *arena = rg_arena_create();
  rg_span live[LIVE];
  int64_t number[LIVE] = {0}, used = 0, next = 1;
  rg_arena_need need;
  uint64_t seed = 11;
  arena->keep = pages(120);
  for (int step = 0; step < 20000; step++) {
    int at = (int)check_below(&seed, LIVE);
    if (number[at]) {
      CHECK(is_marked(arena, live[at], number[at]));
      used -= live[at].size;
      rg_arena_release(arena, live[at]);
      number[at] = 0;
    } else {
      CHECK(rg_arena_reserve(arena, 1 + check_below(&seed, pages(12)), &live[at], &need) ==
            RG_ARENA_OK);
      used += live[at].size;
      number[at] = next++;
      mark(arena, live[at], number[at]);
    }
    CHECK(atomic_load(&arena->shared->used) == used);
  }
  CHECK(atomic_load(&arena->shared->warm) <= arena->keep);
  CHECK(bytes_of_file(arena) == used + atomic_load(&arena->shared->warm));
  rg_arena_destroy(arena);
}

/* Four processes take spans while the owner gives others back. */

typedef struct {
  rg_span span;
  int64_t number;
} claim;

TEST(processes_that_reserve_at_once_get_spans_of_their_own) {
  enum { WORKERS = 4, EACH = 300 };
  rg_arena *arena = rg_arena_create();
  rg_arena_need need;
  claim *claims = mmap(NULL, WORKERS * EACH * sizeof *claims, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  rg_span warm[200];
  for (int i = 0; i < 200; i++) rg_arena_reserve(arena, pages(1 + i % 5), &warm[i], &need);
  for (int i = 0; i < 100; i++) rg_arena_release(arena, warm[i]);
  for (int w = 0; w < WORKERS; w++) {
    if (rg_fork_worker() > 0) continue;
    uint64_t seed = (uint64_t)w;
    for (int i = 0; i < EACH; i++) {
      claim *mine = &claims[w * EACH + i];
      if (rg_arena_reserve(arena, pages(1 + check_below(&seed, 5)), &mine->span, &need) !=
          RG_ARENA_OK) {
        _exit(1);
      }
      mark(arena, mine->span, 1 + w * EACH + i);
      mine->number = 1 + w * EACH + i;
    }
    _exit(0);
  }
  for (int i = 100; i < 200; i++) rg_arena_release(arena, warm[i]);
  int64_t used = 0;
  for (int w = 0; w < WORKERS; w++) {
    int status;
    wait(&status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (int i = 0; i < WORKERS * EACH; i++) {
    CHECK(claims[i].number == i + 1 && is_marked(arena, claims[i].span, i + 1));
    used += claims[i].span.size;
  }
  CHECK(atomic_load(&arena->shared->used) == used);
  munmap(claims, WORKERS * EACH * sizeof *claims);
  rg_arena_destroy(arena);
}

/* A worker that dies with a span. */

typedef struct {
  rg_arena *arena;
  rg_span *got;
} reservation;

static void reserve_twice(void *state) {
  reservation *r = state;
  rg_arena_need need;
  rg_arena_reserve(r->arena, pages(4), &r->got[0], &need); /* a warm one */
  rg_arena_reserve(r->arena, pages(9), &r->got[1], &need); /* from the end */
}

/* What others can see of an arena: the table and what the file takes. */
static uint64_t look_at_arena(void *state) {
  const rg_arena *arena = ((reservation *)state)->arena;
  const uint64_t *words = (const uint64_t *)arena->shared;
  uint64_t hash = (uint64_t)bytes_of_file(arena);
  for (size_t i = 0; i < sizeof *arena->shared / sizeof *words; i++) {
    hash = (hash ^ words[i]) * 0x100000001b3u;
  }
  return hash;
}

TEST(a_worker_killed_at_any_point_of_a_reservation_leaves_nothing_after_the_run) {
  int reached = 0, changes;
  for (changes = 0; changes < 100; changes++) {
    rg_arena *arena = rg_arena_create();
    rg_span kept, warm;
    rg_arena_need need;
    rg_span *got = mmap(NULL, 2 * sizeof *got, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rg_arena_reserve(arena, pages(2), &kept, &need);
    rg_arena_reserve(arena, pages(4), &warm, &need);
    rg_arena_release(arena, warm);
    rg_block *block = rg_block_open(arena, kept);
    mark(arena, kept, 77);
    rg_block_run_begin();
    reservation r = {arena, got};
    step_end end = step_to_change_and_kill(changes, reserve_twice, look_at_arena, &r);
    rg_block_run_end(arena, 1);
    if (end != STEP_REFUSED) {
      CHECK(end != STEP_BROKEN);
      CHECK(atomic_load(&arena->shared->used) == pages(2));
      CHECK(bytes_of_file(arena) == pages(2));
      CHECK(is_marked(arena, kept, 77));
      rg_span next[2];
      for (int i = 0; i < 2; i++) {
        CHECK(rg_arena_reserve(arena, pages(4), &next[i], &need) == RG_ARENA_OK);
        CHECK(!overlap(next[i], kept));
      }
      CHECK(!overlap(next[0], next[1]));
    }
    reached |= got[1].size > 0;
    rg_block_close(block);
    rg_arena_destroy(arena);
    munmap(got, 2 * sizeof *got);
    if (end == STEP_REFUSED) {
      check_skip("no process may be traced here");
      return;
    }
    if (end == STEP_ENDED) break;
  }
  CHECK(reached && changes > 6);
}

/* Blocks. */

TEST(a_block_is_shared_by_its_readers_and_released_by_the_last) {
  rg_arena *arena = rg_arena_create();
  rg_span span;
  rg_arena_need need;
  rg_arena_reserve(arena, pages(3), &span, &need);
  int64_t before = rg_block_count();
  rg_block *one = rg_block_open(arena, span), *two = rg_block_open(arena, span);
  CHECK(one == two && rg_block_count() == before + 1);
  CHECK(rg_block_owns(arena, span.offset) && !rg_block_owns(arena, span.offset + pages(1)));
  rg_block_close(one);
  CHECK(atomic_load(&arena->shared->used) == pages(3));
  rg_block_close(two);
  CHECK(atomic_load(&arena->shared->used) == 0 && rg_block_count() == before);
  rg_arena_destroy(arena);
}

TEST(a_block_dropped_during_a_run_is_held_until_its_end) {
  rg_arena *arena = rg_arena_create();
  rg_span span, other;
  rg_arena_need need;
  rg_arena_reserve(arena, pages(3), &span, &need);
  rg_block *block = rg_block_open(arena, span);
  rg_block_run_begin();
  rg_block_run_begin();
  rg_block_close(block);
  CHECK(rg_block_owns(arena, span.offset));
  rg_block_run_end(arena, 0);
  CHECK(rg_block_owns(arena, span.offset)); /* another run is on */
  rg_arena_reserve(arena, pages(3), &other, &need);
  CHECK(!overlap(span, other)); /* a worker may still send its handle */
  block = rg_block_open(arena, span);
  CHECK(block != NULL);
  rg_block_run_end(arena, 0);
  CHECK(rg_block_owns(arena, span.offset)); /* somebody has opened it again */
  rg_block_close(block);
  CHECK(!rg_block_owns(arena, span.offset));
  CHECK(atomic_load(&arena->shared->used) == pages(3));
  rg_arena_destroy(arena);
}
