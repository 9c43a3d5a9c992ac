#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sys-bury.h"
#include "sys-clock.h"
#include "sys-fork.h"
#include "sys-interrupt.h"

/* Nobody waits for a child that was killed, and none stays a zombie. */

enum { PATIENCE_MS = 60000, CHILDREN = 8 };

static pid_t sleeper(void) {
  pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  return pid;
}

/* Neither running nor a zombie: there is no such child any more. */
static int is_collected(pid_t pid) { return waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD; }

/* Waiting collects nothing that a thread has not. */
static void wait_for_all(void) {
  rg_bury_wait(PATIENCE_MS);
  CHECK(rg_bury_count() == 0);
}

TEST(children_that_were_killed_are_collected_and_counted_until_then) {
  pid_t pids[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) pids[i] = sleeper();
  CHECK(rg_bury_count() == 0);
  CHECK(rg_bury_later(pids, CHILDREN) == 0);
  CHECK(rg_bury_count() == CHILDREN); /* none has ended yet */
  kill(pids[0], SIGKILL);
  for (int64_t until = rg_clock_now() + (int64_t)PATIENCE_MS * 1000000;
       rg_bury_count() == CHILDREN && rg_clock_now() < until;) {
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
  }
  CHECK(rg_bury_count() == CHILDREN - 1);
  for (int i = 1; i < CHILDREN; i++) kill(pids[i], SIGKILL);
  wait_for_all();
  for (int i = 0; i < CHILDREN; i++) CHECK(is_collected(pids[i]));
}

TEST(waiting_for_what_does_not_end_has_a_limit) {
  pid_t pid = sleeper();
  CHECK(rg_bury_later(&pid, 1) == 0);
  int64_t begun = rg_clock_now();
  rg_bury_wait(50);
  CHECK(rg_clock_now() - begun >= 50 * (int64_t)1000000);
  CHECK(rg_bury_count() == 1);
  kill(pid, SIGKILL);
  wait_for_all();
}

TEST(a_pause_of_the_machine_is_no_time_that_was_waited) {
  const struct timespec pause = {0, 400000000};
  rg_patience patience = rg_patience_of(300 * (int64_t)1000000);
  nanosleep(&pause, NULL);
  CHECK(!rg_patience_is_over(&patience));
  nanosleep(&pause, NULL);
  CHECK(!rg_patience_is_over(&patience));
  nanosleep(&pause, NULL);
  CHECK(rg_patience_is_over(&patience)); /* it has an end nevertheless */
}

static volatile sig_atomic_t interrupts;
static void count_interrupt(int number) {
  (void)number;
  interrupts++;
}

TEST(ctrl_c_shortens_the_wait_for_what_does_not_end) {
  /* Not ignored: who ignores it does not hear it here either. */
  struct sigaction counted = {.sa_handler = count_interrupt}, before;
  pid_t pid = sleeper();
  CHECK(rg_bury_later(&pid, 1) == 0);
  sigaction(SIGINT, &counted, &before);
  rg_interrupt_begin();
  raise(SIGINT);
  int64_t begun = rg_clock_now();
  rg_bury_wait(PATIENCE_MS);
  CHECK(rg_clock_now() - begun < PATIENCE_MS * (int64_t)1000000 / 2);
  CHECK(rg_bury_count() == 1 && interrupts == 0);
  rg_interrupt_end();
  CHECK(interrupts == 1); /* it is handed on */
  sigaction(SIGINT, &before, NULL);
  kill(pid, SIGKILL);
  wait_for_all();
}

TEST(a_child_that_somebody_else_has_collected_holds_nothing_up) {
  pid_t pids[2] = {sleeper(), sleeper()};
  kill(pids[0], SIGKILL);
  CHECK(waitpid(pids[0], NULL, 0) == pids[0]);
  kill(pids[1], SIGKILL);
  CHECK(rg_bury_later(pids, 2) == 0);
  wait_for_all();
  CHECK(is_collected(pids[1]));
}

TEST(nothing_is_buried_where_there_is_nobody) {
  CHECK(rg_bury_later(NULL, 0) == 0);
  CHECK(rg_bury_count() == 0);
}

/* A fork has neither the thread nor the children. */
static int bury_in_fork(void) {
  if (rg_bury_count() != 0) return 1;
  pid_t pid = sleeper();
  if (rg_bury_later(&pid, 1) < 0 || rg_bury_count() != 1) return 2;
  kill(pid, SIGKILL);
  rg_bury_wait(PATIENCE_MS);
  return rg_bury_count() == 0 && is_collected(pid) ? 0 : 3;
}

TEST(a_fork_has_children_of_its_own_alone) {
  pid_t pid = sleeper();
  int status;
  CHECK(rg_bury_later(&pid, 1) == 0);
  pid_t child = fork();
  if (child == 0) _exit(bury_in_fork());
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(rg_bury_count() == 1);
  kill(pid, SIGKILL);
  wait_for_all();
}

static void bury_many(void) {
  for (int round = 0; round < 5; round++) {
    pid_t pids[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) kill(pids[i] = sleeper(), SIGKILL);
    CHECK(rg_bury_later(pids, CHILDREN) == 0);
  }
}

static pid_t at_alarm;

static void kill_it(int number) {
  (void)number;
  kill(at_alarm, SIGKILL);
}

/* Forked at a run's end, it has not come to dropping what it has of the witness. */
TEST(a_worker_that_is_being_buried_is_nobody_who_reads_the_arena) {
  struct sigaction action = {.sa_handler = kill_it}, before;
  const struct itimerval soon = {{0, 0}, {0, 100000}};
  rg_fork_witness witness;
  rg_fork_watch();
  CHECK(rg_fork_witness_open(&witness) == 0);
  pid_t foreign = fork();
  if (foreign == 0) _exit(0);
  CHECK(waitpid(foreign, NULL, 0) == foreign);
  at_alarm = rg_fork_worker();
  if (at_alarm == 0) {
    for (;;) pause();
  }
  CHECK(rg_bury_later(&at_alarm, 1) == 0);
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &soon, NULL);
  CHECK(rg_fork_alone(&witness));
  wait_for_all();
  sigaction(SIGALRM, &before, NULL);
  /* One that others have forked, and that lives, is not waited for. */
  foreign = sleeper();
  CHECK(!rg_fork_alone(&witness));
  kill(foreign, SIGKILL);
  CHECK(waitpid(foreign, NULL, 0) == foreign);
  rg_fork_witness_close(&witness);
}

TEST(parties_that_threads_collect_at_the_same_time_are_all_counted) {
  bury_many();
  wait_for_all();
  CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}
