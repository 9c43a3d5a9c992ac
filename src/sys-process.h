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

/* Whether the child `pid` has ended, its status not being collected by that. */
int rg_process_has_ended(pid_t pid);

/* Collects the child `pid` and kills what is left of the process group that it led: 1 if it has
   ended (and *end is filled), 0 if it is running. Does not wait, and asks for this pid only, so that
   children of other packages are left to them. */
int rg_process_collect(pid_t pid, rg_process_end *end);

/* The same, waiting for up to `ms` milliseconds: even a process that was killed may take its time,
   in a call of the system that nothing interrupts. Ctrl-C cuts it short (sys-interrupt.h). */
int rg_process_collect_within(pid_t pid, int64_t ms, rg_process_end *end);

/*
 * The tree of a process. Where the system can (Linux), orphans among the descendants of a process
 * that has called rg_process_adopt() become its children, whatever group or session they are in, so
 * that nothing below it leaves the tree as long as it lives.
 */
void rg_process_adopt(void);

/* The same for some time: whether it did so before, and as it was then. */
int rg_process_adopts(void);
void rg_process_set_adopting(int adopting);

/* Kills `pid`, its process group and every descendant found in /proc. The caller must
   not have collected `pid` yet: until then the number cannot belong to anybody else. */
void rg_process_kill_tree(pid_t pid);

/* Kills `pid` and the process group that it leads; under the same condition. */
void rg_process_kill_group(pid_t pid);

/* Kills all descendants of the calling process, which must have adopted orphans and is about to end:
   statuses are collected on the way. Async-signal-safe. */
void rg_process_end_children(void);

/* The children that the calling process has at some time, to tell those that it gets later from them. Memory of
   the caller's, to be freed by _forget(); one that is all zero knows of none, and takes none for new. */
typedef struct {
  int64_t since; /* when that was, in ticks of the clock by which /proc tells when a process began */
  int count;
  struct rg_process_child *child;
} rg_process_children;

void rg_process_children_note(rg_process_children *before);
void rg_process_children_forget(rg_process_children *before);

/* Whether the calling process has children that began later: its own, and orphans of its descendants if it has
   adopted them. */
int rg_process_children_came(const rg_process_children *before);

/* Kills these with all their descendants, and collects them; gives up after some seconds. */
void rg_process_children_end(const rg_process_children *before);

/* Whether `pid` has children. Where /proc does not tell: no. */
int rg_process_has_children(pid_t pid);

/* For descendants of a process that has ended without ending them. `mark` is one of the parts, with
   colons between them, of the environment variable `name` of each program that was started below it.
   Kills those; a copy that has started no program is not found. */
void rg_process_kill_marked(const char *name, const char *mark);

/* Whether the first thread of `pid` sleeps until something happens: it neither runs, nor waits for the
   disk, nor is it stopped. Where /proc does not tell: no. */
int rg_process_is_asleep(pid_t pid);

/* CPU nanoseconds used by `pid`, all its threads together, or -1. */
int64_t rg_process_cpu(pid_t pid);

/* What the calling process has used so far, all threads together. */
typedef struct {
  int64_t cpu_ns;
  int64_t peak_bytes; /* largest resident set, since rg_memory_forget_peak() or ever */
} rg_process_usage;

/* One call of the system. */
void rg_process_use(rg_process_usage *usage);

#endif
