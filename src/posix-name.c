#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_SETLEASE */
#endif

#include "posix-name.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

const char *rg_posix_fault_name(rg_posix_fault fault) {
  switch (fault) {
    case RG_POSIX_TYPE: return "type";
    case RG_POSIX_OWNER: return "owner";
    case RG_POSIX_MODE: return "mode";
    case RG_POSIX_SIZE: return "size";
    default: return "shm_open";
  }
}

/* On macOS an object is no file: it has an owner and a mode, but no type that fstat() knows. */
static rg_posix_fault look_at(int fd, struct stat *info) {
  if (fstat(fd, info) < 0) return RG_POSIX_SYSTEM;
#if !defined(__APPLE__)
  if (!S_ISREG(info->st_mode)) return RG_POSIX_TYPE;
#endif
  return info->st_uid == geteuid() ? RG_POSIX_FINE : RG_POSIX_OWNER;
}

int rg_posix_name_open(const char *name, struct stat *info, rg_posix_fault *fault) {
#if defined(__linux__)
  /* POSIX has no flag here that keeps the open from waiting for the writer of a pipe; on Linux
     names are files and shm_open() hands its flags on. */
  int fd = shm_open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
#else
  int fd = shm_open(name, O_RDONLY, 0);
#endif
  *fault = fd < 0 ? RG_POSIX_SYSTEM : look_at(fd, info);
  if (fd < 0 || *fault == RG_POSIX_FINE) return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}

/* An access control list shows in the bits of the group. */
int rg_posix_name_is_lax(const struct stat *info) {
  return (info->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

int rg_posix_name_is_alone(int fd) {
#if defined(F_SETLEASE)
  struct stat info;
  if (fstat(fd, &info) < 0 || info.st_nlink != 0) return 0;
  /* The system grants a lease of this kind while nobody has the file open for writing; who has it
     open for reading cannot shorten it. Without a name nobody can open it any more. */
  if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) return 0;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return 1;
#else
  (void)fd;
  return 0;
#endif
}
