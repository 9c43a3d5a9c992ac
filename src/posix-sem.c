#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* semtimedop() */
#endif

#include "posix-sem.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <time.h>

/*
 * How long a wait sleeps before it lets R look for an interrupt. R's handler of SIGINT is
 * installed so that the system goes on waiting after it: only the end of a slice returns.
 */
enum { SLICE_NS = 100 * 1000 * 1000 };

static SEXP failure(const char *operation) {
  int code = errno;
  const char *names[] = {"operation", "errno", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_mkString(operation));
  SET_VECTOR_ELT(result, 1, Rf_ScalarInteger(code));
  UNPROTECT(1);
  return result;
}

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

SEXP ffi_posix_sem_open(SEXP name, SEXP create, SEXP overwrite, SEXP value) {
  const char *path = Rf_translateChar(STRING_ELT(name, 0));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, sem_finalize, FALSE);
  sem_t *sem;
  if (Rf_asLogical(create) == TRUE) {
    if (Rf_asLogical(overwrite) == TRUE && sem_unlink(path) < 0 && errno != ENOENT) {
      UNPROTECT(1);
      return failure("sem_unlink");
    }
    unsigned first = (unsigned)Rf_asReal(value);
    sem = sem_open(path, O_CREAT | O_EXCL, S_IRUSR | S_IWUSR, first);
  } else {
    sem = sem_open(path, 0);
  }
  if (sem == SEM_FAILED) {
    UNPROTECT(1);
    return failure("sem_open");
  }
  R_SetExternalPtrAddr(pointer, sem);
  UNPROTECT(1);
  return pointer;
}

SEXP ffi_posix_sem_post(SEXP pointer) {
  return sem_post(sem_borrow(pointer)) < 0 ? failure("sem_post") : R_NilValue;
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
    if (errno != EAGAIN) return failure("sem_wait");
    R_CheckUserInterrupt();
  }
}

SEXP ffi_posix_sem_close(SEXP pointer) {
  sem_t *sem = sem_borrow(pointer);
  R_ClearExternalPtr(pointer);
  return sem_close(sem) < 0 ? failure("sem_close") : R_NilValue;
}

SEXP ffi_posix_sem_unlink(SEXP name) {
  const char *path = Rf_translateChar(STRING_ELT(name, 0));
  return sem_unlink(path) < 0 ? failure("sem_unlink") : R_NilValue;
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
  if (id < 0) return failure("semget");
  union semun argument = {.array = first};
  if (semctl(id, 0, SETALL, argument) < 0) {
    SEXP result = PROTECT(failure("semctl"));
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
    if (errno != EAGAIN && errno != EINTR) return failure("semop");
    R_CheckUserInterrupt();
  }
  return R_NilValue;
}

SEXP ffi_semv_remove(SEXP id) {
  return semctl(Rf_asInteger(id), 0, IPC_RMID) < 0 ? failure("semctl") : R_NilValue;
}
