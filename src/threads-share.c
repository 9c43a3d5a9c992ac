#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "threads-share.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys-cores.h"

enum { LIBRARIES = 4 };

typedef struct {
  const char *name, *get, *set;
} library_names;

static const library_names names[LIBRARIES] = {
    {"openblas", "openblas_get_num_threads", "openblas_set_num_threads"},
    {"openmp", "omp_get_max_threads", "omp_set_num_threads"},
    {"mkl", "MKL_Get_Max_Threads", "MKL_Set_Num_Threads"},
    {"blis", "bli_thread_get_num_threads", "bli_thread_set_num_threads"},
};
enum { OPENBLAS = 0, OPENMP = 1, BLIS = 3 };

/* The libraries with threads of their own that are loaded, as last looked up. BLIS counts
   in its own integer type, which is 64 bits wide by default. */
static struct {
  int looked_up;
  union {
    int (*get)(void);
    int64_t (*get_wide)(void);
  } reader[LIBRARIES];
  union {
    void (*set)(int);
    void (*set_wide)(int64_t);
  } writer[LIBRARIES];
  int (*openblas_parallel)(void);
  int *openblas_threads;
  int (*openmp_pause)(int);
  int openmp_is_gcc;
} loaded;

/* The process whose OpenMP pool, if it has one, has all its threads: the one that loaded
   this library, or a child that was forked right after its parent had settled. Any other
   child (of parallel::mclapply, say) may have a pool whose threads it lacks. */
static pid_t sound;
__attribute__((constructor)) static void note_loader(void) { sound = getpid(); }

/* The process that has ended its pool's threads and whose next child will be sound. */
static pid_t settled;

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises
   that the two look the same. */
static int find(void *library, const char *name, void *slot) {
  void *address = dlsym(library, name);
  memcpy(slot, &address, sizeof address);
  return address != NULL;
}

static void look_up_openmp(void *library) {
  Dl_info info;
  void *address = dlsym(library, names[OPENMP].set);
  find(library, names[OPENMP].get, &loaded.reader[OPENMP]);
  find(library, names[OPENMP].set, &loaded.writer[OPENMP]);
  find(library, "omp_pause_resource_all", &loaded.openmp_pause);
  loaded.openmp_is_gcc =
      address && dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "libgomp");
}

static void look_up(void) {
  for (int i = 0; i < LIBRARIES; i++) {
    find(RTLD_DEFAULT, names[i].get, &loaded.reader[i]);
    find(RTLD_DEFAULT, names[i].set, &loaded.writer[i]);
  }
  find(RTLD_DEFAULT, "openblas_get_parallel", &loaded.openblas_parallel);
  find(RTLD_DEFAULT, "blas_cpu_number", &loaded.openblas_threads);
  look_up_openmp(RTLD_DEFAULT);
  /* An R without OpenMP leaves it to packages, whose libraries are not searched above. */
  const char *elsewhere[] = {"libgomp.so.1", "libomp.so.5", "libiomp5.so"};
  for (int i = 0; i < 3 && !loaded.writer[OPENMP].set; i++) {
    void *library = dlopen(elsewhere[i], RTLD_LAZY | RTLD_NOLOAD);
    if (!library) continue;
    look_up_openmp(library);
    dlclose(library);
  }
  loaded.looked_up = 1;
}

void rg_threads_share_settle(void) {
  /* omp_pause_hard. Only GCC's library needs it: LLVM's and Intel's make a new pool in
     the child, and some of their versions crash after a pause. To end a pool whose
     threads do not exist would be to wait for them. */
  const int hard = 2;
  int ended;
  look_up();
  if (!loaded.openmp_is_gcc) {
    ended = 1;
  } else if (sound != getpid()) {
    ended = 0;
  } else if (loaded.openmp_pause) {
    ended = loaded.openmp_pause(hard) == 0;
  } else {
    ended = rg_cores_threads() == 1;
  }
  settled = ended ? getpid() : 0;
}

/* A region of one thread needs no pool and is safe anywhere. */
static int openmp_share(int share) {
  if (sound != getpid() && settled != 0 && settled == getppid()) sound = getpid();
  return !loaded.openmp_is_gcc || sound == getpid() ? share : 1;
}

static int openblas_has_own_threads(void) {
  return loaded.openblas_parallel && loaded.openblas_parallel() == 1;
}

/* The parent's threads of OpenBLAS ended at the fork. Its own function would first start
   all of them anew, in every worker, and then let all but `n` sleep; the count that it
   sets can be set alone, and the threads are then started when there is work for them. */
static void limit_openblas(int n) {
  if (openblas_has_own_threads() && loaded.openblas_threads) {
    *loaded.openblas_threads = n;
  } else {
    loaded.writer[OPENBLAS].set(n);
  }
}

static int threads_of(int library) {
  if (!loaded.reader[library].get) return NA_INTEGER;
  return library == BLIS ? (int)loaded.reader[library].get_wide() : loaded.reader[library].get();
}

/* A share is a limit: who was content with less keeps that. */
static void limit_library(int library, int n) {
  int now = threads_of(library);
  if (!loaded.writer[library].set || (now != NA_INTEGER && now >= 1 && now <= n)) return;
  if (library == OPENBLAS) {
    limit_openblas(n);
  } else if (library == BLIS) {
    loaded.writer[library].set_wide(n);
  } else {
    loaded.writer[library].set(n);
  }
}

static const char *const variables[] = {
    "OMP_NUM_THREADS",        "OPENBLAS_NUM_THREADS",      "MKL_NUM_THREADS",           "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RCPP_PARALLEL_NUM_THREADS", "R_DATATABLE_NUM_THREADS", "REGATTA_THREADS",
    "MC_CORES"};
enum { VARIABLES = sizeof variables / sizeof *variables };

/* The environment refers to these texts. Allocated one by one they would be in as many places of a heap that every
   forked worker has to copy page by page. */
static char texts[VARIABLES][48];

static void limit_variable(int v, int n) {
  const char *old = getenv(variables[v]);
  long now = old ? strtol(old, NULL, 10) : 0;
  if (now >= 1 && now <= n) return;
  snprintf(texts[v], sizeof texts[v], "%s=%d", variables[v], n);
  putenv(texts[v]);
}

SEXP ffi_threads_share_settle(void) {
  rg_threads_share_settle();
  return Rf_ScalarLogical(settled != 0);
}

/* `share` is c(threads, processes): the limits of this process and of its own parallel
   maps. Returns how many threads OpenMP may use. In a forked worker it is called first. */
SEXP ffi_threads_share(SEXP share) {
  int n = INTEGER(share)[0], processes = INTEGER(share)[1];
  if (!loaded.looked_up) look_up();
  int openmp = openmp_share(n);
  for (int i = 0; i < LIBRARIES; i++) {
    /* MKL, BLIS and one build of OpenBLAS run on OpenMP's threads. */
    int own = i == OPENBLAS && openblas_has_own_threads();
    limit_library(i, own ? n : openmp);
  }
  for (int v = 0; v < VARIABLES; v++) limit_variable(v, v == VARIABLES - 1 ? processes : n);
  return Rf_ScalarInteger(openmp);
}

/* Threads that each library would use now, NA if it is not loaded. */
SEXP ffi_threads_share_now(void) {
  const char *labels[LIBRARIES + 1];
  for (int i = 0; i < LIBRARIES; i++) labels[i] = names[i].name;
  labels[LIBRARIES] = "";
  look_up();
  SEXP out = PROTECT(Rf_mkNamed(INTSXP, labels));
  for (int i = 0; i < LIBRARIES; i++) INTEGER(out)[i] = threads_of(i);
  UNPROTECT(1);
  return out;
}
