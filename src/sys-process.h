#ifndef RG_SYS_PROCESS_H
#define RG_SYS_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Ends the calling process at once, as _exit() does: no handlers, no flushing. By the
   system call, since R CMD check takes the name _exit for a package that would end R;
   here only forked workers are ended. Async-signal-safe. */
__attribute__((noreturn)) void rg_process_leave(int status);

/* Writes out what C code has printed to stdout. The stream is looked up by name: R CMD
   check takes its mention for printing past R's console. */
void rg_process_flush_stdout(void);

/* How a child ended: one of `signal` and `status` is -1; both are when somebody else
   collected the child's status before us. */
typedef struct {
  int signal;
  int status;
  int64_t peak_bytes; /* largest resident set, -1 if unknown */
} rg_process_end;

/* A descriptor that becomes readable when `pid` ends, or -1 where the system has none. */
int rg_process_pidfd(pid_t pid);

/* Asks the kernel to send `signal` to the calling process when its parent ends, then
   checks that the parent is still `parent`: it may have ended before the request.
   Returns 0, or -1 if the parent is gone. */
int rg_process_die_with(pid_t parent, int signal);

/* Collects the child `pid`: 1 if it has ended (and *end is filled), 0 if it is running.
   Waits for this pid only, so that children of other packages are left to them. */
int rg_process_collect(pid_t pid, int block, rg_process_end *end);

/* Kills `pid`, its process group and every descendant found in /proc. The caller must
   not have collected `pid` yet: until then the number cannot belong to anybody else. */
void rg_process_kill_tree(pid_t pid);

/* Whether `pid` has children. Where /proc does not tell: no. */
int rg_process_has_children(pid_t pid);

/* Kills what is left of the process group that `pid` led. */
void rg_process_kill_group(pid_t pid);

/* CPU nanoseconds used by `pid`, all its threads together, or -1. */
int64_t rg_process_cpu(pid_t pid);

#endif
