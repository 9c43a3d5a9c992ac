#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* semtimedop() */
#endif

#include "posix-sem.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "posix-name.h"
#include "system.h"

/*
 * How long a wait sleeps before it lets R look for an interrupt. R's handler of SIGINT is
 * installed so that the system goes on waiting after it: only the end of a slice returns.
 */
enum { SLICE_NS = 100 * 1000 * 1000 };

/* Named semaphores. The external pointer is cleared when the semaphore is closed. */

static sem_t *sem_borrow(SEXP pointer) {
  sem_t *sem = R_ExternalPtrAddr(pointer);
  if (!sem) Rf_error("this semaphore has been closed");
  return sem;
}

static void sem_finalize(SEXP pointer) {
  sem_t *sem = R_ExternalPtrAddr(pointer);
  if (!sem) return;
  R_ClearExternalPtr(pointer);
  sem_close(sem);
}

/*
 * On Linux a named semaphore is a file that is mapped, and whoever may write to it can shorten it:
 * the next use would kill this process. So the file is looked at before, and after it was opened by
 * its name it must still be the same one.
 */
#if defined(__linux__)
/* The name of the file, as an object of shared memory. */
static const char *file_of(const char *name) {
#if defined(__GLIBC__)
  const char *prefix = "/sem.";
#else
  const char *prefix = "/";
#endif
  while (*name == '/') name++;
  size_t size = strlen(prefix) + strlen(name) + 1;
  char *file = R_alloc(size, 1);
  snprintf(file, size, "%s%s", prefix, name);
  return file;
}

/* A descriptor of the file, or -1. */
static int open_file(const char *file, struct stat *info, rg_posix_fault *fault) {
  int fd = rg_posix_name_open(file, info, fault);
  if (fd < 0) return -1;
  if (rg_posix_name_is_lax(info)) *fault = RG_POSIX_MODE;
  if (info->st_size != (off_t)sizeof(sem_t)) *fault = RG_POSIX_SIZE;
  if (*fault == RG_POSIX_FINE) return fd;
  close(fd);
  return -1;
}

static sem_t *open_present(const char *name, rg_posix_fault *fault) {
  const char *file = file_of(name);
  for (;;) {
    struct stat before, after;
    int fd = open_file(file, &before, fault); /* while it is open its number stays taken */
    if (fd < 0) return SEM_FAILED;
    sem_t *sem = sem_open(name, 0);
    int code = errno;
    int again = open_file(file, &after, fault);
    int is_same = again >= 0 && before.st_dev == after.st_dev && before.st_ino == after.st_ino;
    close(fd);
    if (again >= 0) close(again);
    if (is_same || sem == SEM_FAILED) {
      *fault = RG_POSIX_FINE;
      errno = code;
      return sem;
    }
    sem_close(sem);
    if (again < 0) return SEM_FAILED;
  }
}
#else
static sem_t *open_present(const char *name, rg_posix_fault *fault) {
  *fault = RG_POSIX_FINE;
  return sem_open(name, 0);
}
#endif

/* A new one, or, if `or_present`, the one that is there. */
static sem_t *create(const char *name, int or_present, unsigned value, rg_posix_fault *fault) {
  for (;;) {
    *fault = RG_POSIX_FINE;
    sem_t *sem = sem_open(name, O_CREAT | O_EXCL, S_IRUSR | S_IWUSR, value);
    if (sem != SEM_FAILED || errno != EEXIST || !or_present) return sem;
    sem = open_present(name, fault);
    if (sem != SEM_FAILED) return sem;
    int is_gone = *fault <= RG_POSIX_SYSTEM && errno == ENOENT;
    if (!is_gone) return sem;
    R_CheckUserInterrupt();
  }
}

SEXP ffi_posix_sem_open(SEXP name, SEXP create_it, SEXP overwrite, SEXP value) {
  const char *path = Rf_translateChar(STRING_ELT(name, 0));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, sem_finalize, FALSE);
  rg_posix_fault fault;
  sem_t *sem = Rf_asLogical(create_it) == TRUE
                   ? create(path, Rf_asLogical(overwrite) == TRUE, (unsigned)Rf_asReal(value), &fault)
                   : open_present(path, &fault);
  if (sem == SEM_FAILED) {
    UNPROTECT(1);
    if (fault <= RG_POSIX_SYSTEM) return rg_system_failure("sem_open", errno);
    errno = 0;
    return rg_system_failure(rg_posix_fault_name(fault), errno);
  }
  R_SetExternalPtrAddr(pointer, sem);
  UNPROTECT(1);
  return pointer;
}

SEXP ffi_posix_sem_post(SEXP pointer) {
  return sem_post(sem_borrow(pointer)) < 0 ? rg_system_failure("sem_post", errno) : R_NilValue;
}

/* 0; -1 with errno EAGAIN when it has slept in vain. */
static int sem_wait_slice(sem_t *sem) {
#if defined(__APPLE__)
  if (sem_trywait(sem) == 0) return 0;
  if (errno != EAGAIN) return -1;
  struct timespec pause = {0, SLICE_NS / 20};
  nanosleep(&pause, NULL);
  errno = EAGAIN;
  return -1;
#else
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += SLICE_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  if (sem_timedwait(sem, &until) == 0) return 0;
  if (errno == ETIMEDOUT || errno == EINTR) errno = EAGAIN;
  return -1;
#endif
}

SEXP ffi_posix_sem_wait(SEXP pointer) {
  for (;;) {
    if (sem_wait_slice(sem_borrow(pointer)) == 0) return R_NilValue;
    if (errno != EAGAIN) return rg_system_failure("sem_wait", errno);
    R_CheckUserInterrupt();
  }
}

SEXP ffi_posix_sem_close(SEXP pointer) {
  sem_t *sem = sem_borrow(pointer);
  R_ClearExternalPtr(pointer);
  return sem_close(sem) < 0 ? rg_system_failure("sem_close", errno) : R_NilValue;
}

SEXP ffi_posix_sem_unlink(SEXP name) {
  const char *path = Rf_translateChar(STRING_ELT(name, 0));
  return sem_unlink(path) < 0 ? rg_system_failure("sem_unlink", errno) : R_NilValue;
}

/* System V. The caller of semctl() has to define this. */
union semun {
  int val;
  struct semid_ds *buf;
  unsigned short *array;
};

SEXP ffi_semv_create(SEXP values) {
  R_xlen_t n = XLENGTH(values);
  unsigned short *first = (unsigned short *)R_alloc((size_t)n, sizeof *first);
  for (R_xlen_t i = 0; i < n; i++) first[i] = (unsigned short)INTEGER_RO(values)[i];
  int id = semget(IPC_PRIVATE, (int)n, S_IRUSR | S_IWUSR);
  if (id < 0) return rg_system_failure("semget", errno);
  union semun argument = {.array = first};
  if (semctl(id, 0, SETALL, argument) < 0) {
    SEXP result = PROTECT(rg_system_failure("semctl", errno));
    semctl(id, 0, IPC_RMID);
    UNPROTECT(1);
    return result;
  }
  return Rf_ScalarInteger(id);
}

static int operate_slice(int id, struct sembuf *operations, size_t n) {
  struct timespec slice = {0, SLICE_NS};
#if defined(__linux__)
  return semtimedop(id, operations, n, &slice);
#else
  for (size_t i = 0; i < n; i++) operations[i].sem_flg |= IPC_NOWAIT;
  if (semop(id, operations, n) == 0) return 0;
  int code = errno;
  slice.tv_nsec /= 20;
  if (code == EAGAIN) nanosleep(&slice, NULL);
  errno = code;
  return -1;
#endif
}

SEXP ffi_semv_operate(SEXP id, SEXP number, SEXP change, SEXP undo) {
  R_xlen_t n = XLENGTH(number);
  struct sembuf *operations = (struct sembuf *)R_alloc((size_t)n, sizeof *operations);
  for (R_xlen_t i = 0; i < n; i++) {
    operations[i].sem_num = (unsigned short)INTEGER_RO(number)[i];
    operations[i].sem_op = (short)INTEGER_RO(change)[i];
    operations[i].sem_flg = LOGICAL_RO(undo)[i] == TRUE ? SEM_UNDO : 0;
  }
  while (operate_slice(Rf_asInteger(id), operations, (size_t)n) < 0) {
    if (errno != EAGAIN && errno != EINTR) return rg_system_failure("semop", errno);
    R_CheckUserInterrupt();
  }
  return R_NilValue;
}

SEXP ffi_semv_remove(SEXP id) {
  return semctl(Rf_asInteger(id), 0, IPC_RMID) < 0 ? rg_system_failure("semctl", errno) : R_NilValue;
}
