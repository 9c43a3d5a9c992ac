#ifndef RG_POSIX_NAME_H
#define RG_POSIX_NAME_H

#include <sys/stat.h>

/*
 * What stands at a name of POSIX shared memory may have been put there by anybody: the folder of
 * the names can be written by all users of the machine. Nothing is read or mapped before these
 * functions have looked at it.
 */

/* Why it is not used. RG_POSIX_SYSTEM: the system refuses, errno says why. */
typedef enum {
  RG_POSIX_FINE = 0,
  RG_POSIX_SYSTEM,
  RG_POSIX_TYPE,  /* no regular file */
  RG_POSIX_OWNER, /* another user's */
  RG_POSIX_MODE,  /* others may write to it */
  RG_POSIX_SIZE   /* not of the size it should have */
} rg_posix_fault;

/* The name of a fault, as R code knows it; RG_POSIX_SYSTEM has that of the call of the system. */
const char *rg_posix_fault_name(rg_posix_fault fault);

/* A descriptor to read from, or -1 with *fault. A pipe, a device or a link is never waited for
   nor followed. */
int rg_posix_name_open(const char *name, struct stat *info, rg_posix_fault *fault);

/* Whether users other than the owner may write to the file, and so change or shorten it. */
int rg_posix_name_is_lax(const struct stat *info);

/* Whether this process is the only one that can ever reach the file, which has no name any more:
   only then can nobody shorten it under a mapping, whose reader would be killed by SIGBUS. 0 where
   that cannot be told. */
int rg_posix_name_is_alone(int fd);

#endif
