#ifndef RG_SYS_CLOCK_H
#define RG_SYS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock. Every deadline and duration uses it, so that a
   step of the wall clock moves nothing. Async-signal-safe (POSIX lists clock_gettime). */
static inline int64_t rg_clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CPU nanoseconds of the calling process, all threads together. */
static inline int64_t rg_clock_cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Likewise of the calling thread alone. */
static inline int64_t rg_clock_cpu_thread(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
