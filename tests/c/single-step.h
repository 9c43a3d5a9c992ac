#ifndef RG_TESTS_SINGLE_STEP_H
#define RG_TESTS_SINGLE_STEP_H

#include <stdint.h>

/* Deaths at a chosen instruction. Signals at random moments never reach a critical section of
   twenty instructions; a debugger that lets the process run instruction by instruction does. */

typedef enum {
  STEP_KILLED,  /* before the end of `body` */
  STEP_ENDED,   /* `body` takes no more than this many instructions */
  STEP_REFUSED, /* the system lets nobody look into another process */
  STEP_BROKEN   /* the child ended on its own before `body` did */
} step_end;

/* Runs body(state) in a forked child, which is killed after `instructions` of it. What they share
   must be shared memory. */
step_end step_and_kill(long instructions, void (*body)(void *), void *state);

/* The same, killed once `look`, a number for all that others can see, has changed `changes` times.
   Between two changes it makes no difference where a process dies, unless it is in a lock. */
step_end step_to_change_and_kill(int changes, void (*body)(void *), uint64_t (*look)(void *),
                                 void *state);

#endif
