#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "check.h"
#include "sys-clock.h"

/* Processes together never have more tokens than there are, and none is lost with a process. */

static char folder[64];

static void own_folder(void) {
  strcpy(folder, "/tmp/regatta-budget-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  setenv("REGATTA_BUDGET", folder, 1);
}

static void remove_folder(void) {
  char path[RG_BUDGET_PATH_MAX];
  rg_budget_leave();
  rg_budget_path(path);
  unlink(path);
  CHECK(rmdir(folder) == 0);
  unsetenv("REGATTA_BUDGET");
}

static _Atomic int *shared_numbers(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void await(_Atomic int *number, int value) {
  for (int64_t until = rg_clock_now() + (int64_t)60 * 1000000000; atomic_load(number) < value && rg_clock_now() < until;) {
    poll(NULL, 0, 1);
  }
  CHECK(atomic_load(number) >= value);
}

/* Of a child: it takes part, is not given a token, and says so; it waits for it from then on. */
static void want_in_vain_of(int cores, int low, _Atomic int *told) {
  if (rg_budget_join(cores, low) != 0 || rg_budget_try()) _exit(1);
  atomic_store(told, 1);
}

static void want_in_vain(int low, _Atomic int *told) { want_in_vain_of(1, low, told); }

static void take(void) {
  while (!rg_budget_try()) poll(NULL, 0, rg_budget_pause());
}

TEST(processes_together_have_no_more_tokens_than_the_largest_of_their_budgets) {
  enum { PROCESSES = 6, ROUNDS = 200, NOW = 0, MOST = 1, DONE = 2 };
  own_folder();
  _Atomic int *n = shared_numbers();
  for (int p = 0; p < PROCESSES; p++) {
    if (fork() == 0) {
      if (rg_budget_join(p % 2 ? 2 : 3, p == 0) != 0) _exit(1);
      for (int round = 0; round < ROUNDS; round++) {
        take();
        int now = atomic_fetch_add(&n[NOW], 1) + 1, most = atomic_load(&n[MOST]);
        while (now > most && !atomic_compare_exchange_weak(&n[MOST], &most, now)) continue;
        if (round % 8 == 0) poll(NULL, 0, 1);
        atomic_fetch_sub(&n[NOW], 1);
        rg_budget_give();
      }
      atomic_fetch_add(&n[DONE], 1);
      _exit(0);
    }
  }
  while (wait(NULL) > 0) continue;
  CHECK(n[DONE] == PROCESSES);
  CHECK(n[MOST] <= 3 && n[MOST] > 1);
  munmap(n, 4096);
  remove_folder();
}

TEST(a_token_comes_back_from_a_holder_that_is_killed_and_a_fork_has_none) {
  enum { HELD = 0, PID = 1 };
  own_folder();
  _Atomic int *n = shared_numbers();
  pid_t holder = fork();
  if (holder == 0) {
    if (rg_budget_join(1, 0) != 0 || !rg_budget_try()) _exit(1);
    pid_t copy = fork();
    if (copy == 0) {
      for (;;) pause();
    }
    atomic_store(&n[PID], (int)copy);
    atomic_store(&n[HELD], 1);
    for (;;) pause();
  }
  await(&n[HELD], 1);
  CHECK(rg_budget_join(1, 0) == 0);
  CHECK(!rg_budget_has() && !rg_budget_try() && rg_budget_pause() == 1);
  CHECK(!rg_budget_try() && rg_budget_pause() == 2);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  CHECK(rg_budget_try()); /* although a copy of the holder lives */
  kill(atomic_load(&n[PID]), SIGKILL);
  munmap(n, 4096);
  remove_folder();
}

TEST(low_priority_takes_a_token_only_while_nobody_else_waits_who_gets_it_from_a_holder) {
  enum { STEP = 0, LOW = 1, LOOKS = 2 };
  own_folder();
  _Atomic int *n = shared_numbers();
  CHECK(rg_budget_join(1, 0) == 0 && rg_budget_try());
  CHECK(!rg_budget_is_due(INT64_MAX)); /* nobody waits */
  pid_t low = fork();
  if (low == 0) {
    want_in_vain(1, &n[LOW]);
    while (!rg_budget_try()) {
      atomic_fetch_add(&n[LOOKS], 1);
      poll(NULL, 0, rg_budget_pause());
    }
    atomic_store(&n[LOW], 2);
    _exit(0);
  }
  await(&n[LOW], 1);
  CHECK(!rg_budget_is_due(INT64_MAX)); /* nobody who counts */
  pid_t other = fork();
  if (other == 0) {
    want_in_vain(0, &n[STEP]);
    await(&n[STEP], 2);
    /* The token is free, and this one waits: the low one looks. */
    int before = atomic_load(&n[LOOKS]);
    while (atomic_load(&n[LOOKS]) < before + 10 && atomic_load(&n[LOW]) == 1) poll(NULL, 0, 1);
    if (atomic_load(&n[LOW]) != 1) _exit(3);
    take();
    rg_budget_give();
    _exit(0);
  }
  await(&n[STEP], 1);
  CHECK(rg_budget_is_due(INT64_MAX) && !rg_budget_is_due(0) && rg_budget_politeness() > 0);
  rg_budget_give();
  atomic_store(&n[STEP], 2);
  int status = -1;
  waitpid(other, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  waitpid(low, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && n[LOW] == 2);
  munmap(n, 4096);
  remove_folder();
}

TEST(a_holder_of_low_priority_gives_at_once_and_does_not_wait_for_ever_for_who_was_stopped) {
  enum { STEP = 0 };
  own_folder();
  _Atomic int *n = shared_numbers();
  CHECK(rg_budget_join(1, 1) == 0 && rg_budget_try());
  pid_t stopped = fork();
  if (stopped == 0) {
    want_in_vain(0, &n[STEP]);
    for (;;) pause();
  }
  await(&n[STEP], 1);
  CHECK(rg_budget_is_due(0));
  rg_budget_give();
  CHECK(!rg_budget_try());
  int looks = 1; /* with none of the pauses: the other one does nothing, and its lock stays */
  while (looks < 10000 && !rg_budget_try()) looks++;
  CHECK(looks > 100 && looks < 10000);
  CHECK(rg_budget_is_due(0));
  rg_budget_give();
  CHECK(rg_budget_try()); /* it is not waited for again */
  kill(stopped, SIGKILL);
  waitpid(stopped, NULL, 0);
  munmap(n, 4096);
  remove_folder();
}

TEST(who_does_not_want_a_token_any_more_is_not_waited_for) {
  enum { STEP = 0 };
  own_folder();
  _Atomic int *n = shared_numbers();
  CHECK(rg_budget_join(1, 0) == 0 && rg_budget_try());
  pid_t other = fork();
  if (other == 0) {
    want_in_vain(0, &n[STEP]);
    await(&n[STEP], 2);
    rg_budget_give();
    atomic_store(&n[STEP], 3);
    for (;;) pause();
  }
  await(&n[STEP], 1);
  CHECK(rg_budget_is_due(INT64_MAX));
  atomic_store(&n[STEP], 2);
  await(&n[STEP], 3);
  CHECK(!rg_budget_is_due(INT64_MAX) && rg_budget_politeness() == 0);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  munmap(n, 4096);
  remove_folder();
}

TEST(a_file_that_was_closed_is_noticed_and_a_look_at_it_takes_no_token_away) {
  char path[RG_BUDGET_PATH_MAX];
  own_folder();
  rg_budget_path(path);
  CHECK(access(path, F_OK) < 0 && rg_budget_check() == 0);
  CHECK(rg_budget_join(1, 0) == 0 && rg_budget_try() && rg_budget_is_whole());
  CHECK(rg_budget_check() == 0);
  pid_t other = fork();
  if (other == 0) _exit(rg_budget_join(1, 0) == 0 && !rg_budget_try() ? 0 : 1);
  int status = -1;
  waitpid(other, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  struct stat file, open_one;
  CHECK(stat(path, &file) == 0);
  for (int fd = 3; fd < 256; fd++) {
    if (fstat(fd, &open_one) == 0 && open_one.st_ino == file.st_ino && open_one.st_dev == file.st_dev) close(fd);
  }
  CHECK(!rg_budget_is_whole());
  rg_budget_give();
  CHECK(rg_budget_try() < 0 && errno == EBADF);
  remove_folder();
}

TEST(a_process_takes_more_tokens_that_are_free_and_gives_all_when_it_leaves) {
  enum { HELD = 0, OVER = 1, WAITS = 2 };
  own_folder();
  _Atomic int *n = shared_numbers();
  pid_t other = fork();
  if (other == 0) {
    if (rg_budget_join(4, 0) != 0) _exit(1);
    take();
    atomic_store(&n[HELD], 1);
    await(&n[OVER], 1);
    _exit(0);
  }
  await(&n[HELD], 1);
  CHECK(rg_budget_join(4, 0) == 0 && rg_budget_try() == 1);
  CHECK(rg_budget_more(2) == 2);
  CHECK(rg_budget_join(4, 0) == 0 && rg_budget_try() == 1);
  CHECK(rg_budget_more(9) == 3); /* the fourth is the other's */
  pid_t third = fork();
  if (third == 0) {
    want_in_vain_of(4, 0, &n[WAITS]);
    take();
    _exit(0);
  }
  await(&n[WAITS], 1);
  CHECK(rg_budget_more(9) == 1); /* somebody waits */
  rg_budget_leave();
  CHECK(waitpid(third, NULL, 0) == third);
  atomic_store(&n[OVER], 1);
  CHECK(waitpid(other, NULL, 0) == other);
  remove_folder();
}

TEST(a_file_that_others_may_open_is_refused) {
  char path[RG_BUDGET_PATH_MAX];
  own_folder();
  rg_budget_path(path);
  close(open(path, O_RDWR | O_CREAT, 0600));
  CHECK(chmod(path, 0644) == 0);
  CHECK(rg_budget_join(1, 0) == EPERM && rg_budget_has());
  CHECK(unlink(path) == 0 && symlink("/dev/null", path) == 0);
  CHECK(rg_budget_join(1, 0) == ELOOP);
  CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
  CHECK(rg_budget_join(1, 0) == EPERM);
  remove_folder();
}
