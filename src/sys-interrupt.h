#ifndef RG_SYS_INTERRUPT_H
#define RG_SYS_INTERRUPT_H

#include <stdint.h>

/*
 * Ctrl-C for code that R must not jump out of, as what ends workers: between begin and end SIGINT is only
 * noted, and waits in between are cut short by it. The end gives the signal to who would have had it, so
 * that R ends what it evaluates as if it had come just then. May be nested; not where R can jump.
 *
 * What came before the beginning and has not been looked at by R yet is not known here: the next one is.
 */
void rg_interrupt_begin(void);
void rg_interrupt_end(void);

/* For a wait that began at `since`: `until`, or, where Ctrl-C has come, a second after that (or after the
   beginning of the wait, if that was later) if it is earlier. Times are those of rg_clock_now(). */
int64_t rg_interrupt_limit(int64_t until, int64_t since);

/* A wait with an end: the nanoseconds that are left of it. Between two looks no more than a tenth of a second counts:
   what takes longer may be a pause of the whole machine, in which nobody has got on. */
typedef struct {
  int64_t left, looked, since;
} rg_patience;

rg_patience rg_patience_of(int64_t ns);

/* Another look; Ctrl-C makes the wait short, as above. */
int rg_patience_is_over(rg_patience *patience);

/* How many milliseconds to sleep, of those wanted, before the limit is asked for again: the signal may be
   taken by another thread, and wakes this one only at the end of the sleep. */
int rg_interrupt_slice(int64_t ms);

#endif
