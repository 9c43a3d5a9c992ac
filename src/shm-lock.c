#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <R_ext/Utils.h>

#include "shm-array.h"
#include "sys-clock.h"

/* A lock and a counter are shared arrays of bytes: they travel as such. */

static pthread_mutex_t *mutex_of(SEXP lock) {
  return rg_shm_array_data(lock, sizeof(pthread_mutex_t));
}

SEXP ffi_shm_lock_new(SEXP limit) {
#ifdef __linux__
  SEXP lock = PROTECT(rg_shm_array_of(RG_LIVE_LOCK, sizeof(pthread_mutex_t), rg_shm_array_limit(limit)));
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  int failed = pthread_mutex_init(mutex_of(lock), &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (failed) Rf_error("cannot make a lock: %s", strerror(failed));
  UNPROTECT(1);
  return lock;
#else
  (void)limit;
  Rf_error("locks between processes need Linux: this system's do not survive their holder");
#endif
}

#ifdef __linux__
/* pthread_mutex_timedlock() counts by the clock of the day. */
static int wait_for_lock(pthread_mutex_t *mutex, int64_t ns) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  int64_t end = until.tv_nsec + ns;
  until.tv_sec += end / 1000000000;
  until.tv_nsec = end % 1000000000;
  return pthread_mutex_timedlock(mutex, &until);
}
#endif

/* Whether the lock was taken from a process that died with it. An interrupt is answered meanwhile. */
static int take_lock(SEXP lock, double seconds) {
#ifdef __linux__
  const int64_t look = 50 * 1000000;
  pthread_mutex_t *mutex = mutex_of(lock);
  int64_t deadline = seconds < 9e9 ? rg_clock_now() + (int64_t)(seconds * 1e9) : INT64_MAX;
  int got = pthread_mutex_trylock(mutex);
  while (got == EBUSY || got == ETIMEDOUT) {
    R_CheckUserInterrupt();
    int64_t left = deadline - rg_clock_now();
    if (left <= 0) Rf_error("the lock was not free within %g s", seconds);
    got = wait_for_lock(mutex, left < look ? left : look);
  }
  if (got == EOWNERDEAD) {
    pthread_mutex_consistent(mutex);
    return 1;
  }
  if (got == EDEADLK) Rf_error("this process has the lock already");
  if (got != 0) Rf_error("cannot take the lock: %s", strerror(got));
  return 0;
#else
  (void)lock, (void)seconds;
  Rf_error("locks between processes need Linux");
#endif
}

typedef struct {
  SEXP lock, call, died, env;
  int holder_died;
} locked_call;

static SEXP run_locked(void *data) {
  locked_call *locked = data;
  if (locked->holder_died) Rf_eval(locked->died, locked->env);
  return Rf_eval(locked->call, locked->env);
}

static void release_lock(void *data, Rboolean jump) {
  (void)jump;
  pthread_mutex_unlock(mutex_of(((locked_call *)data)->lock));
}

/* Evaluates `call` in `env` with the lock, before it `died` if the last holder has died. However it
   is left, the lock is released, and there is no moment in which an interrupt could prevent it. */
SEXP ffi_shm_lock_with(SEXP lock, SEXP timeout, SEXP call, SEXP died, SEXP env) {
  locked_call locked = {lock, call, died, env, 0};
  SEXP token = PROTECT(R_MakeUnwindCont());
  locked.holder_died = take_lock(lock, Rf_asReal(timeout));
  SEXP value = R_UnwindProtect(run_locked, &locked, release_lock, &locked, token);
  UNPROTECT(1);
  return value;
}

static _Atomic int64_t *counter_of(SEXP counter) {
  return rg_shm_array_data(counter, sizeof(_Atomic int64_t));
}

SEXP ffi_shm_counter_new(SEXP start, SEXP limit) {
  SEXP counter = PROTECT(rg_shm_array_of(RG_LIVE_COUNTER, sizeof(int64_t), rg_shm_array_limit(limit)));
  atomic_store(counter_of(counter), (int64_t)Rf_asReal(start));
  UNPROTECT(1);
  return counter;
}

/* The value after the addition. */
SEXP ffi_shm_counter_add(SEXP counter, SEXP by) {
  int64_t add = (int64_t)Rf_asReal(by), sum;
  _Atomic int64_t *at = counter_of(counter);
  int64_t before = atomic_load(at);
  do {
    if (__builtin_add_overflow(before, add, &sum)) {
      Rf_error("the counter is at %.0f: to add %.0f would lead beyond 2^63, so nothing was added",
               (double)before, (double)add);
    }
  } while (!atomic_compare_exchange_weak(at, &before, sum));
  return Rf_ScalarReal((double)sum);
}

SEXP ffi_shm_counter_value(SEXP counter) {
  return Rf_ScalarReal((double)atomic_load(counter_of(counter)));
}
