#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "queue.h"
#include "single-step.h"

/* Every element is run once, or is the one that a dead worker was running, or waits. */

static void push(rg_control *control, const int64_t *elements, int64_t count) {
  CHECK(rg_queue_lock(control, -1) == 0);
  rg_queue_push(control, elements, count);
  rg_queue_unlock(control);
}

static void push_first(rg_control *control, const int64_t *elements, int64_t count) {
  CHECK(rg_queue_lock(control, -1) == 0);
  rg_queue_push_first(control, elements, count);
  rg_queue_unlock(control);
}

static void keep_first(rg_control *control, int64_t count) {
  CHECK(rg_queue_lock(control, -1) == 0);
  rg_queue_keep_first(control, count);
  rg_queue_unlock(control);
}

static int recover(rg_control *control, int worker, int64_t *elements) {
  CHECK(rg_queue_lock(control, -1) == 0);
  int count = rg_queue_recover(control, worker, elements);
  rg_queue_unlock(control);
  return count;
}

static rg_control *filled(int64_t elements, int workers) {
  rg_control *control = rg_control_create(elements, workers, 0, NULL);
  int64_t *all = malloc((size_t)elements * sizeof *all);
  for (int64_t i = 0; i < elements; i++) all[i] = i;
  push(control, all, elements);
  free(all);
  return control;
}

/* The next element of `worker`, claimed if need be, as a worker asks for it; -1: none is left. */
static int64_t next_of(rg_control *control, int worker, int wanted) {
  rg_slot *slot = &control->slots[worker];
  int64_t element = rg_queue_next(slot);
  if (element < 0 && rg_queue_claim(control, worker, wanted) > 0) element = rg_queue_next(slot);
  return element;
}

static void drain_into(rg_control *control, int worker, int *runs) {
  for (int64_t element; (element = next_of(control, worker, 3)) >= 0;) runs[element]++;
  atomic_store(&control->slots[worker].current, -1);
}

/* What the parent does about a death: the element that ran is lost, the others begin anew. */
static void bury(rg_control *control, int worker, int *runs) {
  int64_t left[RG_CLAIM_MAX];
  rg_slot *slot = &control->slots[worker];
  int count = recover(control, worker, left);
  int64_t lost = atomic_load(&slot->current);
  if (lost >= 0) runs[lost]++;
  atomic_store(&slot->current, -1);
  push_first(control, left, count);
}

TEST(a_queue_gives_each_element_once_and_in_order) {
  rg_control *control = filled(10, 1);
  CHECK(rg_queue_length(control) == 10);
  for (int64_t i = 0; i < 10; i++) CHECK(next_of(control, 0, 4) == i);
  CHECK(next_of(control, 0, 4) == -1);
  CHECK(rg_queue_length(control) == 0);
  rg_control_close(control);
}

/* What runs[] are, in memory that a fork shares. */
static int *shared_runs(int64_t elements) {
  return mmap(NULL, (size_t)elements * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
              -1, 0);
}

TEST(a_process_that_has_only_the_descriptor_works_on_the_same_queue) {
  enum { ELEMENTS = 200 };
  int fd = -1;
  rg_control *control = rg_control_create(ELEMENTS, 2, 0, &fd);
  int *runs = shared_runs(ELEMENTS);
  for (int64_t i = 0; i < ELEMENTS; i++) rg_queue_push(control, &i, 1);
  pid_t pid = fork();
  if (pid == 0) {
    rg_control *view = rg_control_open(fd, ELEMENTS, 2, 0);
    if (!view || view->shared == control->shared) _exit(2);
    rg_control_close(control);
    drain_into(view, 1, runs);
    /* It dies with the lock. */
    pthread_mutex_lock(&view->shared->lock);
    _exit(0);
  }
  int status = -1;
  drain_into(control, 0, runs);
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  drain_into(control, 0, runs);
  for (int i = 0; i < ELEMENTS; i++) CHECK(runs[i] == 1);
  munmap(runs, ELEMENTS * sizeof *runs);
  rg_control_close(control);
  close(fd);
}

TEST(a_block_of_other_numbers_is_not_opened) {
  int fd = -1;
  rg_control *control = rg_control_create(10, 2, 0, &fd);
  CHECK(rg_control_open(fd, 10, 3, 0) == NULL && errno == EINVAL);
  CHECK(rg_control_open(fd, 1000, 2, 0) == NULL && errno == EINVAL);
  CHECK(ftruncate(fd, 0) < 0);
  rg_control *again = rg_control_open(fd, 10, 2, 0);
  CHECK(again != NULL);
  rg_control_close(again);
  rg_control_close(control);
  close(fd);
}

TEST(who_may_read_the_block_sees_what_its_workers_do) {
  int fd = -1, other = -1;
  rg_control_facts facts;
  rg_slot_facts slot;
  rg_control *control = rg_control_create(10, 3, 0, &fd);
  CHECK(rg_control_read(fd, &facts) < 0); /* not told yet */
  const char escape[] = "par_\033[2J_and_more_than_there_is_room_for";
  rg_control_tell(control, escape);
  atomic_store(&control->slots[0].ended, 3);
  atomic_store(&control->slots[2].ended, 1);
  rg_control_reset_slot(&control->slots[2]);
  atomic_store(&control->slots[2].pid, 77);
  atomic_store(&control->slots[2].started, 5);
  atomic_store(&control->slots[2].waiting, 1);
  CHECK(rg_control_read(fd, &facts) == 0);
  CHECK(facts.elements == 10 && facts.ended == 4 && facts.workers == 3 && facts.owner == getpid());
  CHECK(strncmp(facts.verb, "par_?[2J_and", 12) == 0 && strlen(facts.verb) == RG_VERB_MAX - 1);
  CHECK(rg_control_read_slot(fd, &facts, 0, &slot) == 0 && slot.pid == 0 && slot.current == -1);
  CHECK(rg_control_read_slot(fd, &facts, 2, &slot) == 0 && slot.pid == 77 && slot.started == 5 && slot.waiting == 1);
  for (int64_t current = 8; current < 12; current++) {
    atomic_store(&control->slots[2].current, current);
    CHECK(rg_control_read_slot(fd, &facts, 2, &slot) == 0 && slot.current == (current < 10 ? current : -1));
  }
  /* Numbers that cannot be, in a block and in a file that is shorter than it says. */
  CHECK(rg_control_read_slot(fd, &facts, 3, &slot) < 0);
  control->shared->elements = -1;
  CHECK(rg_control_read(fd, &facts) < 0);
  control->shared->elements = INT64_MAX;
  CHECK(rg_control_read(fd, &facts) < 0);
  control->shared->elements = 10;
  control->shared->workers = -1;
  CHECK(rg_control_read(fd, &facts) < 0);
  control->shared->workers = 3;
  atomic_store(&control->shared->layout, 1);
  CHECK(rg_control_read(fd, &facts) < 0);
  rg_control_close(control);
  close(fd);
  other = open("/dev/null", O_RDONLY);
  CHECK(rg_control_read(other, &facts) < 0);
  close(other);
}

TEST(a_claim_leaves_work_for_the_others) {
  rg_control *control = filled(100, 4);
  CHECK(rg_queue_claim(control, 0, 1000) == 100 / 8 + 1);
  CHECK(rg_queue_claim(control, 1, 5) == 5);
  CHECK(rg_queue_length(control) == 100 - 13 - 5);
  rg_control_close(control);
}

TEST(a_claim_is_bounded) {
  rg_control *control = filled(10 * RG_CLAIM_MAX, 1);
  CHECK(rg_queue_claim(control, 0, 10 * RG_CLAIM_MAX) == RG_CLAIM_MAX);
  rg_control_close(control);
}

TEST(what_is_given_back_comes_next_and_in_order) {
  rg_control *control = filled(40, 1);
  CHECK(rg_queue_claim(control, 0, 16) == 16);
  CHECK(rg_queue_next(&control->slots[0]) == 0);
  rg_queue_give_back(control, 0);
  CHECK(rg_queue_length(control) == 39);
  for (int64_t i = 1; i < 40; i++) CHECK(next_of(control, 0, 7) == i);
  CHECK(next_of(control, 0, 7) == -1);
  rg_control_close(control);
}

TEST(what_is_pushed_first_comes_before_all_that_wait_and_in_order) {
  rg_control *control = filled(20, 1); /* places for 32 */
  for (int round = 0; round < 100; round++) {
    const int64_t again[] = {next_of(control, 0, 1), next_of(control, 0, 1), next_of(control, 0, 1)};
    CHECK(again[0] == 0 && again[1] == 1 && again[2] == 2);
    push_first(control, again, 3);
    CHECK(rg_queue_length(control) == 20);
  }
  for (int64_t i = 0; i < 20; i++) CHECK(next_of(control, 0, 7) == i);
  CHECK(next_of(control, 0, 7) == -1);
  const int64_t last[] = {7};
  push_first(control, last, 1);
  CHECK(next_of(control, 0, 7) == 7);
  rg_control_close(control);
}

TEST(more_can_be_pushed_first_than_was_claimed) {
  rg_control *control = rg_control_create(5, 1, 0, NULL); /* places for eight */
  const int64_t later[] = {3, 4}, before[] = {0, 1, 2};
  push(control, later, 2);
  push_first(control, before, 3);
  for (int64_t i = 0; i < 5; i++) CHECK(next_of(control, 0, 2) == i);
  CHECK(next_of(control, 0, 2) == -1);
  rg_control_close(control);
}

TEST(a_queue_goes_round_its_array) {
  rg_control *control = filled(5, 2); /* places for eight */
  int runs[5] = {0};
  for (int round = 0; round < 1000; round++) {
    int64_t element = next_of(control, 0, 1);
    CHECK(element == round % 5);
    runs[element]++;
    push(control, &element, 1); /* to be tried again */
  }
  for (int i = 0; i < 5; i++) CHECK(runs[i] == 200);
  rg_control_close(control);
}

TEST(workers_that_are_held_claim_nothing) {
  rg_control *control = filled(10, 2);
  atomic_store(&control->slots[0].held, 1);
  CHECK(!rg_queue_admits(control, 0));
  CHECK(rg_queue_admits(control, 1));
  CHECK(rg_queue_claim(control, 0, 1) == 0);
  CHECK(rg_queue_claim(control, 1, 1) == 1);
  rg_control_reset_slot(&control->slots[0]);
  CHECK(!rg_queue_admits(control, 0)); /* who comes after it is held, too */
  atomic_store(&control->slots[0].held, 0);
  CHECK(rg_queue_claim(control, 0, 1) == 1);
  rg_control_close(control);
}

TEST(workers_above_the_active_ones_claim_nothing) {
  rg_control *control = filled(10, 3);
  atomic_store(&control->shared->active, 1);
  CHECK(rg_queue_claim(control, 1, 1) == 0);
  CHECK(rg_queue_claim(control, 0, 1) == 1);
  rg_control_close(control);
}

TEST(only_the_first_elements_are_kept) {
  rg_control *control = filled(20, 1);
  CHECK(rg_queue_claim(control, 0, 3) == 3);
  keep_first(control, 8);
  CHECK(rg_queue_length(control) == 5);
  for (int64_t i = 0; i < 8; i++) CHECK(next_of(control, 0, 2) == i);
  CHECK(next_of(control, 0, 2) == -1);
  rg_control_close(control);
}

TEST(numbers_of_a_damaged_claim_are_not_believed) {
  rg_control *control = filled(20, 2);
  rg_slot *slot = &control->slots[1];
  int64_t left[RG_CLAIM_MAX];
  rg_queue_claim(control, 1, 5);
  slot->claim[1] = -3;
  slot->claim[2] = 20;
  slot->claim[3] = INT64_MAX;
  CHECK(recover(control, 1, left) == 2);
  CHECK(left[0] == 0 && left[1] == 4);
  const int32_t sizes[] = {-1, RG_CLAIM_MAX + 1, INT32_MAX};
  for (int i = 0; i < 3; i++) {
    atomic_store(&slot->claim_size, sizes[i]);
    CHECK(recover(control, 1, left) == 0);
  }
  atomic_store(&slot->claim_size, 5);
  atomic_store(&slot->claim_done, -100);
  CHECK(recover(control, 1, left) == 0);
  rg_control_close(control);
}

/* Deaths at every instruction. */

enum { ELEMENTS = 12, VICTIM = 1, SURVIVOR = 2, WORKERS = 3 };

typedef struct {
  rg_control *control;
  _Atomic int *finished; /* of the victim: elements that it has run to their end */
} scene;

static void claim(void *state) { rg_queue_claim(((scene *)state)->control, VICTIM, 3); }

static void next(void *state) { rg_queue_next(&((scene *)state)->control->slots[VICTIM]); }

static void give_back(void *state) { rg_queue_give_back(((scene *)state)->control, VICTIM); }

/* As a worker does it: an element has ended before the next one begins. */
static void run_three(void *state) {
  scene *s = state;
  for (int i = 0; i < 3; i++) {
    int64_t element = next_of(s->control, VICTIM, 2);
    if (element < 0) return;
    atomic_fetch_add(&s->finished[element], 1);
    atomic_store(&s->control->slots[VICTIM].current, -1);
  }
}

/* The victim has a claim of `claimed` elements, of which it has run `begun`. */
static scene make_scene(int claimed, int begun) {
  scene s = {filled(ELEMENTS, WORKERS), NULL};
  s.finished = mmap(NULL, ELEMENTS * sizeof *s.finished, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (claimed > 0) rg_queue_claim(s.control, VICTIM, claimed);
  for (int i = 0; i < begun; i++) {
    s.finished[rg_queue_next(&s.control->slots[VICTIM])] = 1;
    atomic_store(&s.control->slots[VICTIM].current, -1);
  }
  return s;
}

/* `ended` may count twice what also stands in `current`: the victim died between the two. */
static int settles_once(scene *s) {
  int runs[ELEMENTS] = {0}, right = 1;
  int64_t current = atomic_load(&s->control->slots[VICTIM].current);
  bury(s->control, VICTIM, runs);
  drain_into(s->control, SURVIVOR, runs);
  for (int i = 0; i < ELEMENTS; i++) {
    int finished = atomic_load(&s->finished[i]);
    int all = runs[i] + (finished && i == current ? 0 : finished);
    if (all != 1) right = 0;
  }
  return right && rg_queue_length(s->control) == 0;
}

static void close_scene(scene *s) {
  munmap((void *)s->finished, ELEMENTS * sizeof *s->finished);
  rg_control_close(s->control);
}

static void kill_at_every_instruction(void (*body)(void *), int claimed, int begun) {
  long last = 0;
  for (long n = 0; n < 20000; n += check_stride) {
    scene s = make_scene(claimed, begun);
    step_end end = step_and_kill(n, body, &s);
    if (end == STEP_REFUSED) {
      check_skip("no process may be traced here");
      close_scene(&s);
      return;
    }
    CHECK(end != STEP_BROKEN);
    CHECK(settles_once(&s));
    close_scene(&s);
    last = n;
    if (end != STEP_KILLED) break;
  }
  CHECK(last > 10); /* it has been there */
}

TEST(a_worker_killed_at_any_instruction_of_a_claim_loses_nothing) {
  kill_at_every_instruction(claim, 0, 0);
}

TEST(a_worker_killed_at_any_instruction_of_a_later_claim_loses_nothing) {
  kill_at_every_instruction(claim, 3, 3);
}

TEST(a_worker_killed_as_it_begins_an_element_loses_that_at_most) {
  kill_at_every_instruction(next, 3, 1);
}

TEST(a_worker_killed_at_any_instruction_of_giving_back_loses_nothing) {
  kill_at_every_instruction(give_back, 3, 1);
}

TEST(a_worker_killed_anywhere_in_its_work_loses_one_element_at_most) {
  kill_at_every_instruction(run_three, 2, 1);
}

/* The journal is carried out by whoever takes the lock next, and once is enough. */
TEST(a_journal_left_behind_is_carried_out) {
  rg_control *control = filled(ELEMENTS, WORKERS);
  control->slots[VICTIM].claim[0] = 0;
  control->slots[VICTIM].claim[1] = 1;
  control->shared->journal.worker = VICTIM;
  control->shared->journal.head = 2;
  control->shared->journal.claim_size = 2;
  atomic_store(&control->shared->journal.armed, 1);
  pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&control->shared->lock);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  int64_t left[RG_CLAIM_MAX];
  CHECK(recover(control, VICTIM, left) == 2);
  CHECK(left[0] == 0 && left[1] == 1);
  CHECK(atomic_load(&control->shared->journal.armed) == 0);
  CHECK(rg_queue_length(control) == ELEMENTS - 2);
  rg_control_close(control);
}

TEST(a_lock_that_a_stopped_worker_holds_is_not_waited_for_without_end) {
  rg_control *control = filled(ELEMENTS, WORKERS);
  pid_t child = fork();
  if (child == 0) {
    rg_queue_lock(control, -1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  CHECK(rg_queue_lock(control, 0) == EBUSY);
  CHECK(rg_queue_lock(control, 20) == EBUSY);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CHECK(rg_queue_lock(control, 0) == 0);
  rg_queue_unlock(control);
  rg_control_close(control);
}

TEST(ends_of_the_queue_that_cannot_be_are_not_believed) {
  const int64_t ends[][2] = {{-1, 3}, {5, 2}, {0, INT64_MAX}, {INT64_MIN, INT64_MAX}, {-7, -3}, {0, 17}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    rg_control *control = filled(ELEMENTS, WORKERS); /* places for sixteen */
    atomic_store(&control->shared->head, ends[i][0]);
    atomic_store(&control->shared->tail, ends[i][1]);
    const int64_t again[] = {3, 4, 5};
    keep_first(control, 4);
    CHECK(rg_queue_length(control) == 0);
    push(control, again, 3);
    CHECK(next_of(control, 0, 9) == 3 && next_of(control, 0, 9) == 4 && next_of(control, 0, 9) == 5);
    CHECK(next_of(control, 0, 9) == -1);
    rg_control_close(control);
  }
}

TEST(a_journal_that_cannot_be_is_not_carried_out) {
  const int32_t journals[][3] = {{-1, 2, 0}, {WORKERS, 2, 0}, {INT32_MAX, 2, 0}, {0, RG_CLAIM_MAX + 1, 0},
                                 {0, -1, 0}, {0, 2, -1}};
  for (size_t i = 0; i < sizeof journals / sizeof *journals; i++) {
    rg_control *control = filled(ELEMENTS, WORKERS);
    pid_t child = fork();
    if (child == 0) {
      rg_queue_lock(control, -1);
      control->shared->journal.worker = journals[i][0];
      control->shared->journal.claim_size = journals[i][1];
      control->shared->journal.claim_done = journals[i][2];
      atomic_store(&control->shared->journal.armed, 1);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    CHECK(rg_queue_lock(control, 0) == 0);
    rg_queue_unlock(control);
    CHECK(atomic_load(&control->shared->journal.armed) == 0);
    CHECK(rg_queue_length(control) == ELEMENTS && next_of(control, 0, 1) == 0);
    rg_control_close(control);
  }
}

/* Many processes, random schedules, random kills. */

enum { CROWD = 4, CROWD_ELEMENTS = 600 };

typedef struct {
  _Atomic int started[CROWD_ELEMENTS], ended[CROWD_ELEMENTS];
} tally;

static void work(rg_control *control, int worker, tally *counts, uint64_t seed) {
  for (;;) {
    int64_t element = next_of(control, worker, 1 + (int)check_below(&seed, 9));
    if (element < 0) return;
    atomic_fetch_add(&counts->started[element], 1);
    for (int64_t spin = check_below(&seed, 300); spin > 0; spin--) sched_yield();
    atomic_fetch_add(&counts->ended[element], 1);
    atomic_store(&control->slots[worker].current, -1);
    if (check_below(&seed, 5) == 0) rg_queue_give_back(control, worker);
  }
}

static pid_t hire(rg_control *control, int worker, tally *counts, uint64_t seed) {
  pid_t pid = fork();
  if (pid == 0) {
    work(control, worker, counts, seed);
    _exit(0);
  }
  return pid;
}

static void crowd_round(uint64_t *seed) {
  rg_control *control = filled(CROWD_ELEMENTS, CROWD);
  tally *counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int lost[CROWD_ELEMENTS] = {0};
  pid_t pids[CROWD];
  int kills = 20, living = CROWD;
  for (int w = 0; w < CROWD; w++) pids[w] = hire(control, w, counts, check_random(seed));
  while (living > 0) {
    if (kills-- > 0) {
      usleep((useconds_t)check_below(seed, 300));
      kill(pids[check_below(seed, CROWD)], SIGKILL);
    }
    int status;
    pid_t pid = waitpid(-1, &status, kills > 0 ? WNOHANG : 0);
    for (int w = 0; w < CROWD && pid > 0; w++) {
      if (pids[w] != pid) continue;
      if (WIFSIGNALED(status)) {
        bury(control, w, lost);
        pids[w] = hire(control, w, counts, check_random(seed));
      } else {
        pids[w] = 0x7fffffff; /* nobody's number */
        living--;
      }
    }
  }
  /* Who ended before a colleague died may have left work to nobody. */
  work(control, 0, counts, 1);
  for (int i = 0; i < CROWD_ELEMENTS; i++) {
    int started = atomic_load(&counts->started[i]), ended = atomic_load(&counts->ended[i]);
    CHECK(lost[i] <= 1 && started <= 1 && ended <= 1);
    CHECK(lost[i] || (started && ended));
  }
  CHECK(rg_queue_length(control) == 0);
  munmap(counts, sizeof *counts);
  rg_control_close(control);
}

TEST(random_schedules_with_random_kills_settle_every_element) {
  uint64_t seed = 20;
  for (int round = 0; round < 60; round++) crowd_round(&seed);
}

/* Threads in place of processes, for the thread sanitizer. */

typedef struct {
  rg_control *control;
  tally *counts;
  int worker;
} hand;

static void *run_hand(void *state) {
  hand *h = state;
  work(h->control, h->worker, h->counts, (uint64_t)h->worker + 7);
  return NULL;
}

TEST(batches_grow_by_a_factor_up_to_the_time_that_one_is_to_take) {
  CHECK(rg_queue_batch(0, 0, 5) == 1);
  CHECK(rg_queue_batch(0, 1, 1000) == RG_BATCH_GROWTH);
  CHECK(rg_queue_batch(0, 16, 1000) == RG_BATCH_GROWTH * 16);
  CHECK(rg_queue_batch(0, 100, RG_BATCH_NS / 7) == 7);
  CHECK(rg_queue_batch(0, 100, 2 * RG_BATCH_NS) == 1);
  CHECK(rg_queue_batch(0, RG_CLAIM_MAX, 1) == RG_CLAIM_MAX);
  CHECK(rg_queue_batch(0, 8, 0) == RG_BATCH_GROWTH * 8);
  CHECK(rg_queue_batch(3, 8, 1) == 3);
}

typedef struct {
  rg_control *control;
  int gives_back;
  _Atomic int begun, done;
} taker;

static void *run_taker(void *data) {
  taker *t = data;
  atomic_store(&t->begun, 1);
  if (t->gives_back) {
    rg_queue_give_back(t->control, 0);
  } else {
    rg_queue_claim(t->control, 0, 4);
  }
  atomic_store(&t->done, 1);
  return NULL;
}

TEST(nothing_is_claimed_or_given_back_while_another_has_the_lock) {
  for (int gives_back = 0; gives_back < 2; gives_back++) {
    rg_control *control = filled(100, 2);
    if (gives_back) rg_queue_claim(control, 0, 4);
    taker t = {control, gives_back, 0, 0};
    pthread_t thread;
    CHECK(rg_queue_lock(control, -1) == 0);
    int64_t length = rg_queue_length(control);
    pthread_create(&thread, NULL, run_taker, &t);
    while (!atomic_load(&t.begun)) sched_yield();
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < 50; i++) nanosleep(&nap, NULL);
    CHECK(!atomic_load(&t.done));
    CHECK(rg_queue_length(control) == length);
    rg_queue_unlock(control);
    pthread_join(thread, NULL);
    CHECK(rg_queue_length(control) != length);
    rg_control_close(control);
  }
}

TEST(workers_that_are_threads_run_each_element_once) {
  for (int round = 0; round < 20; round++) {
    rg_control *control = filled(CROWD_ELEMENTS, CROWD);
    tally *counts = calloc(1, sizeof *counts);
    pthread_t threads[CROWD];
    hand hands[CROWD];
    for (int w = 0; w < CROWD; w++) {
      hands[w] = (hand){control, counts, w};
      pthread_create(&threads[w], NULL, run_hand, &hands[w]);
    }
    for (int w = 0; w < CROWD; w++) pthread_join(threads[w], NULL);
    work(control, 0, counts, 1);
    int right = 1;
    for (int i = 0; i < CROWD_ELEMENTS; i++) right &= counts->started[i] == 1 && counts->ended[i] == 1;
    CHECK(right);
    free(counts);
    rg_control_close(control);
  }
}
