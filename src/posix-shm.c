#include "posix-shm.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "posix-name.h"
#include "shm-vector.h"
#include "shm-view.h"
#include "sys-fd.h"
#include "sys-map.h"

static const char *name_of(SEXP name) { return Rf_translateChar(STRING_ELT(name, 0)); }

static SEXP failure_with(const char *operation, int code, double available) {
  const char *names[] = {"operation", "errno", "available", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_mkString(operation));
  SET_VECTOR_ELT(result, 1, Rf_ScalarInteger(code));
  SET_VECTOR_ELT(result, 2, Rf_ScalarReal(available));
  UNPROTECT(1);
  return result;
}

static SEXP failure(const char *operation, int code) {
  return failure_with(operation, code, NA_REAL);
}

/* Bytes that the file system of such objects has left, NA if it does not say. */
static double available_at(int fd) {
  struct statvfs info;
  if (fstatvfs(fd, &info) < 0 || info.f_blocks == 0) return NA_REAL;
  return (double)info.f_bavail * (double)info.f_frsize;
}

/* Read and written slice by slice, between which R looks for an interrupt. */
static const size_t most_at_once = (size_t)1 << 25;

static size_t slice(size_t left) { return left < most_at_once ? left : most_at_once; }

static int read_all(int fd, char *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = pread(fd, to + done, slice(size - done), (off_t)done);
    if (n == 0) return EIO;
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) done += (size_t)n;
    R_CheckUserInterrupt();
  }
  return 0;
}

typedef struct {
  const char *path, *data;
  size_t size;
  int fd, whole;
} write_call;

/* Writing takes no page fault, as filling a mapping would for each page. */
static SEXP write_run(void *data) {
  write_call *call = data;
  const char *operation = NULL;
  for (size_t done = 0; done < call->size && !operation; done += slice(call->size - done)) {
    size_t some = slice(call->size - done);
    if (rg_fd_reserve(call->fd, (int64_t)done, (int64_t)some) < 0) {
      operation = "reserve";
    } else if (rg_fd_pwrite_all(call->fd, call->data + done, some, (int64_t)done) < 0) {
      operation = "write";
    } else {
      R_CheckUserInterrupt();
    }
  }
  call->whole = !operation;
  if (call->whole) return R_NilValue;
  int code = errno;
  int emptied = ftruncate(call->fd, 0) == 0; /* what it had got counts as available */
  return failure_with(operation, code, emptied ? available_at(call->fd) : NA_REAL);
}

static void write_end(void *data) {
  const write_call *call = data;
  if (!call->whole) shm_unlink(call->path);
  close(call->fd);
}

/* An object that is overwritten is replaced: whoever has the old one open or mapped keeps it as
   it is, while truncating it would kill a reader. */
SEXP ffi_posix_shm_write(SEXP name, SEXP x, SEXP overwrite) {
  write_call call = {.path = name_of(name)};
  call.size = (size_t)XLENGTH(x) * rg_shm_vector_unit(TYPEOF(x));
  call.data = call.size > 0 ? DATAPTR_RO(x) : NULL;
  if (Rf_asLogical(overwrite) == TRUE && shm_unlink(call.path) < 0 && errno != ENOENT) {
    return failure("shm_unlink", errno);
  }
  call.fd = shm_open(call.path, O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
  if (call.fd < 0) return failure("shm_open", errno);
  return R_ExecWithCleanup(write_run, &call, write_end, &call);
}

SEXP ffi_posix_shm_unlink(SEXP name) {
  return shm_unlink(name_of(name)) < 0 ? failure("shm_unlink", errno) : R_NilValue;
}

SEXP ffi_posix_shm_unit(SEXP type) {
  size_t unit = rg_shm_vector_unit((SEXPTYPE)Rf_asInteger(type));
  return Rf_ScalarInteger(unit > 0 ? (int)unit : NA_INTEGER);
}

SEXP ffi_posix_shm_altrep(SEXP x) {
  return Rf_ScalarInteger(!ALTREP(x) ? 0 : DATAPTR_OR_NULL(x) == NULL ? 1 : 2);
}

static SEXP read_copy(int fd, SEXPTYPE type, R_xlen_t length, size_t size) {
  SEXP x = PROTECT(Rf_allocVector(type, length));
  int code = read_all(fd, (char *)DATAPTR_RO(x), size);
  UNPROTECT(1);
  return code == 0 ? x : failure("read", code);
}

/* What is written to the vector is seen by nobody else, forked children included, and its
   serialisation is that of an ordinary one: the object has no name any more. */
static SEXP map_private(int fd, SEXPTYPE type, R_xlen_t length, size_t size) {
  SEXP pointer = rg_shm_view_of_file(fd, (int64_t)size, length);
  if (!pointer) return errno == ENOMEM ? read_copy(fd, type, length, size) : failure("mmap", errno);
  PROTECT(pointer);
  SEXP x = rg_shm_vector_new(pointer, type);
  UNPROTECT(1);
  return x;
}

typedef struct {
  int fd;
  SEXPTYPE type;
  R_xlen_t length;
  size_t size;
  int copy;
} read_call;

static SEXP read_run(void *data) {
  read_call *call = data;
  /* macOS cannot map such objects privately, and does not say who has them open. */
  if (call->copy || call->size == 0 || !rg_map_has_room() || !rg_posix_name_is_alone(call->fd)) {
    return read_copy(call->fd, call->type, call->length, call->size);
  }
  return map_private(call->fd, call->type, call->length, call->size);
}

static void read_end(void *data) { close(((read_call *)data)->fd); }

SEXP ffi_posix_shm_read(SEXP name, SEXP type, SEXP length, SEXP size, SEXP copy) {
  const char *path = name_of(name);
  struct stat info;
  rg_posix_fault fault;
  int fd = rg_posix_name_open(path, &info, &fault);
  if (fd < 0) return failure(rg_posix_fault_name(fault), fault == RG_POSIX_SYSTEM ? errno : 0);
  shm_unlink(path);
  read_call call = {fd, (SEXPTYPE)Rf_asInteger(type), (R_xlen_t)Rf_asReal(length),
                    (size_t)Rf_asReal(size), Rf_asLogical(copy) == TRUE};
#if defined(__APPLE__)
  int fits = info.st_size >= (off_t)call.size; /* sizes are of whole pages there */
#else
  int fits = info.st_size == (off_t)call.size;
#endif
  if (!fits) {
    close(fd);
    return failure(rg_posix_fault_name(RG_POSIX_SIZE), 0);
  }
  return R_ExecWithCleanup(read_run, &call, read_end, &call);
}
