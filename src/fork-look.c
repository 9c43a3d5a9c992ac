#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fork-pool.h"
#include "sys-clock.h"

/* What any process of this user does: the control block of each of its runs is a file in memory, which /proc shows
   to whoever may look into that process, and to nobody else. A process that is looked at does nothing for it. */

/* The label is anybody's to use: what the file has in it decides (control.h). */
static int is_labelled(int directory, const char *name) {
  static const char start[] = "/memfd:" RG_CONTROL_LABEL;
  char target[64];
  ssize_t size = readlinkat(directory, name, target, sizeof target);
  return size >= (ssize_t)sizeof start - 1 && strncmp(target, start, sizeof start - 1) == 0;
}

static double seconds_since(int64_t then) { return (double)(rg_clock_now() - then) / 1e9; }

/* list(call, elements, ended, seconds, pid, element, element_seconds, active): of the run, and of each worker that
   it has or has had last at its place. */
static SEXP run_as_list(int fd, const rg_control_facts *facts) {
  const char *names[] = {"call", "elements", "ended", "seconds", "pid", "element", "element_seconds", "active", ""};
  rg_slot_facts *slots = (rg_slot_facts *)R_alloc((size_t)facts->workers + 1, sizeof *slots);
  int count = 0;
  for (int w = 0; w < facts->workers; w++) {
    rg_slot_facts *slot = &slots[count];
    count += rg_control_read_slot(fd, facts, w, slot) == 0 && slot->pid > 0;
  }
  SEXP run = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(run, 0, Rf_mkString(facts->verb));
  SET_VECTOR_ELT(run, 1, Rf_ScalarReal((double)facts->elements));
  SET_VECTOR_ELT(run, 2, Rf_ScalarReal((double)facts->ended));
  SET_VECTOR_ELT(run, 3, Rf_ScalarReal(seconds_since(facts->since)));
  SEXP pid = SET_VECTOR_ELT(run, 4, Rf_allocVector(INTSXP, count));
  SEXP element = SET_VECTOR_ELT(run, 5, Rf_allocVector(REALSXP, count));
  SEXP seconds = SET_VECTOR_ELT(run, 6, Rf_allocVector(REALSXP, count));
  SEXP active = SET_VECTOR_ELT(run, 7, Rf_allocVector(LGLSXP, count));
  for (int k = 0; k < count; k++) {
    INTEGER(pid)[k] = slots[k].pid;
    REAL(element)[k] = slots[k].current < 0 ? NA_REAL : (double)(slots[k].current + 1);
    REAL(seconds)[k] = slots[k].current < 0 ? NA_REAL : seconds_since(slots[k].started);
    LOGICAL(active)[k] = !slots[k].waiting;
  }
  UNPROTECT(1);
  return run;
}

/* A file that was inherited or is worked for is told of by the process that has made it. */
static SEXP look_at(int directory, const char *name, pid_t pid) {
  rg_control_facts facts;
  SEXP run = R_NilValue;
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return run;
  if (rg_control_read(fd, &facts) == 0 && facts.owner == pid) run = run_as_list(fd, &facts);
  close(fd);
  return run;
}

/* The runs of a process; an errno, if it is gone or may not be looked into. */
SEXP ffi_fork_look(SEXP number) {
  enum { RUNS_MAX = 1000 };
  char path[64];
  int count = 0;
  pid_t pid = (pid_t)Rf_asInteger(number);
  const struct dirent *entry;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *list = opendir(path);
  if (!list) return Rf_ScalarInteger(errno);
  SEXP runs = PROTECT(Rf_allocVector(VECSXP, RUNS_MAX));
  while (count < RUNS_MAX && (entry = readdir(list))) {
    if (!is_labelled(dirfd(list), entry->d_name)) continue;
    SEXP run = look_at(dirfd(list), entry->d_name, pid);
    if (run != R_NilValue) SET_VECTOR_ELT(runs, count++, run);
  }
  closedir(list);
  runs = Rf_lengthgets(runs, count);
  UNPROTECT(1);
  return runs;
}
