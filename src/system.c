#include "system.h"

#include <Rinternals.h>
#include <R_ext/Utils.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-memory.h"

/* Facts of the system for R code. */

enum { SLICE_NS = 50000000 }; /* how long a signal may go unnoticed that another thread has got */

SEXP ffi_clock(void) { return Rf_ScalarReal((double)rg_clock_now() / 1e9); }

SEXP ffi_clock_cpu(void) { return Rf_ScalarReal((double)rg_clock_cpu_thread() / 1e9); }

/* Of all threads. */
SEXP ffi_clock_cpu_process(void) { return Rf_ScalarReal((double)rg_clock_cpu() / 1e9); }

/* Unlike Sys.sleep() of R before 4.3 it is left by no interrupt while interrupts are suspended. */
SEXP ffi_sleep(SEXP seconds) {
  const int64_t until = rg_clock_now() + (int64_t)(Rf_asReal(seconds) * 1e9);
  for (int64_t left; (left = until - rg_clock_now()) > 0;) {
    R_CheckUserInterrupt();
    poll(NULL, 0, left > SLICE_NS ? (int)(SLICE_NS / 1000000) : (int)(left / 1000000) + 1);
  }
  return R_NilValue;
}

SEXP rg_system_failure(const char *operation, int code) {
  const char *names[] = {"operation", "errno", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_mkString(operation));
  SET_VECTOR_ELT(result, 1, Rf_ScalarInteger(code));
  UNPROTECT(1);
  return result;
}

/* "File too large" does not say that a limit of the process is meant, and that files in memory count. */
SEXP ffi_system_message(SEXP code) {
  char text[256];
  int number = Rf_asInteger(code);
  int64_t limit = rg_fd_size_limit();
  if (number != EFBIG || limit == INT64_MAX) return Rf_mkString(strerror(number));
  snprintf(text, sizeof text,
           "%s: this process may make no file, nor shared memory, of more than %lld bytes "
           "(RLIMIT_FSIZE); `ulimit -f unlimited` in the shell that starts R lifts that",
           strerror(number), (long long)limit);
  return Rf_mkString(text);
}

/* c(rows, columns) of the terminal that stdout is; 0: it is none, or does not tell. */
SEXP ffi_terminal_size(void) {
  struct winsize size = {0, 0, 0, 0};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0) size.ws_row = size.ws_col = 0;
  SEXP result = Rf_allocVector(INTSXP, 2);
  INTEGER(result)[0] = size.ws_row;
  INTEGER(result)[1] = size.ws_col;
  return result;
}

SEXP ffi_memory_anon(SEXP pid) {
  return Rf_ScalarReal((double)rg_memory_anon((pid_t)Rf_asInteger(pid)));
}

/* c(what may still be taken, of how much, seconds for which processes have waited for memory), the first two of the
   machine or of the control group with the least room; NA: unknown. `root` is that of rg_memory_read_at(). */
SEXP ffi_memory_available(SEXP root) {
  const char *at = CHAR(STRING_ELT(root, 0));
  rg_memory memory = {-1, -1, -1, -1, -1};
  int known = rg_memory_read_at(at, &memory) == 0;
  int in_group = memory.limit >= 0 && memory.limit < memory.total;
  int64_t stalled = rg_memory_stalled_at(at);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, 3));
  REAL(result)[0] = known && memory.available >= 0 ? (double)memory.available : NA_REAL;
  REAL(result)[1] = known ? (double)(in_group ? memory.limit : memory.total) : NA_REAL;
  REAL(result)[2] = stalled < 0 ? NA_REAL : (double)stalled / 1e6;
  UNPROTECT(1);
  return result;
}

SEXP ffi_memory_oom_kills(void) { return Rf_ScalarReal((double)rg_memory_oom_kills()); }

SEXP ffi_memory_malloced(void) { return Rf_ScalarReal((double)rg_memory_malloced()); }

SEXP ffi_memory_keep_freed(void) {
  rg_memory_keep_freed();
  return R_NilValue;
}

/* What is not a null pointer in this process and in its forks, and is one wherever it comes by serialisation. */
SEXP ffi_process_mark(void) {
  static int here;
  return R_MakeExternalPtr(&here, R_NilValue, R_NilValue);
}
