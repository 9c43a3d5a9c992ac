#include "single-step.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys-fork.h"

#ifdef __linux__
#include <sys/ptrace.h>

enum { BEFORE, INSIDE, AFTER };

static _Atomic int *shared_phase(void) {
  static _Atomic int *phase;
  if (!phase) {
    void *page = mmap(NULL, sizeof *phase, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    phase = page == MAP_FAILED ? NULL : page;
  }
  return phase;
}

static void run_traced(_Atomic int *phase, void (*body)(void *), void *state) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) _exit(1);
  raise(SIGSTOP);
  atomic_store(phase, INSIDE);
  body(state);
  atomic_store(phase, AFTER);
  for (;;) pause();
}

static int is_stopped(pid_t child) {
  int status;
  return waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

typedef struct {
  long instructions; /* -1: no limit */
  int changes;       /* likewise */
  uint64_t (*look)(void *);
} limits;

static int may_go_on(limits *left, uint64_t *seen, void *state) {
  if (left->instructions >= 0) return left->instructions-- > 0;
  uint64_t now = left->look(state);
  if (now != *seen) left->changes--;
  *seen = now;
  return left->changes > 0;
}

static step_end step(limits left, void (*body)(void *), void *state) {
  _Atomic int *phase = shared_phase();
  if (!phase) return STEP_REFUSED;
  atomic_store(phase, BEFORE);
  pid_t child = rg_fork_worker();
  if (child < 0) return STEP_REFUSED;
  if (child == 0) run_traced(phase, body, state);
  if (!is_stopped(child)) return STEP_REFUSED;
  uint64_t seen = left.look ? left.look(state) : 0;
  step_end end = STEP_KILLED;
  while (atomic_load(phase) == BEFORE || may_go_on(&left, &seen, state)) {
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0 || !is_stopped(child)) return STEP_BROKEN;
    if (atomic_load(phase) != AFTER) continue;
    end = STEP_ENDED;
    break;
  }
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) == child) continue;
  return end;
}

step_end step_and_kill(long instructions, void (*body)(void *), void *state) {
  return step((limits){instructions, -1, NULL}, body, state);
}

step_end step_to_change_and_kill(int changes, void (*body)(void *), uint64_t (*look)(void *),
                                 void *state) {
  return step((limits){-1, changes, look}, body, state);
}

#else

step_end step_and_kill(long instructions, void (*body)(void *), void *state) {
  (void)instructions, (void)body, (void)state;
  return STEP_REFUSED;
}

step_end step_to_change_and_kill(int changes, void (*body)(void *), uint64_t (*look)(void *),
                                 void *state) {
  (void)changes, (void)body, (void)look, (void)state;
  return STEP_REFUSED;
}

#endif
