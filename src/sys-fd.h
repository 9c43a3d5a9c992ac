#ifndef RG_SYS_FD_H
#define RG_SYS_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All functions return 0 or a count on success and -1 with errno set on failure. No descriptor that
   they open has a number below 3: a program may be started without stdin, stdout or stderr, and
   those numbers are given new meanings in workers. */

/* The number of a descriptor says little: foreign code may close it, and the next file that is
   opened gets it. What it was opened on is the identity, which is looked at before something is
   written to it that would do harm elsewhere. */
typedef struct {
  uint64_t device, inode;
} rg_fd_identity;

/* All zero, which no file has, if `fd` cannot be asked. */
rg_fd_identity rg_fd_identify(int fd);
int rg_fd_is(int fd, rg_fd_identity identity);

/* The same file under a number of 3 or more, `fd` itself if it has one; -1 stays -1. */
int rg_fd_lift(int fd);

/* A pipe whose ends are closed by exec; `nonblock` says which ends must not block. */
enum { RG_FD_READ_END = 1, RG_FD_WRITE_END = 2 };
int rg_fd_pipe(int fd[2], int nonblock);

/* An unnamed file in memory: it is listed nowhere and gone with its last descriptor. */
int rg_fd_memory(const char *label);

/* Forbids every process to change the size of such a file, or what is in it (once nobody has
   it mapped for writing), from now on. A system that cannot do so does nothing. */
enum { RG_FD_SEAL_SIZE = 1, RG_FD_SEAL_WRITE = 2 };
int rg_fd_seal(int fd, int seals);
int rg_fd_is_sealed(int fd, int seals);
/* Writes one byte to a pipe. If nobody can read it any more no SIGPIPE comes of it, for which R
   has a handler that ends what runs. */
int rg_fd_wake(int fd);

/* The next three fail with EFBIG, and no SIGXFSZ comes of it, where the process may make no file so
   large (RLIMIT_FSIZE): that is true of files in memory, too. */

/* As ftruncate(). */
int rg_fd_resize(int fd, int64_t size);

/* Reserves the pages of [offset, offset + size), so that writing them cannot fail for want of
   memory. A system that cannot do so does nothing; there the write reports the want. */
int rg_fd_reserve(int fd, int64_t offset, int64_t size);

/* Writes all `size` bytes at `offset`, whatever the kernel takes at a time. */
int rg_fd_pwrite_all(int fd, const void *data, size_t size, int64_t offset);

/* Reads all of them, or returns -1 with errno; EBADMSG if the file has fewer. */
int rg_fd_pread_all(int fd, void *data, size_t size, int64_t offset);

/* How large a file this process may make, in bytes; INT64_MAX: no limit. */
int64_t rg_fd_size_limit(void);

/* Gives the pages of [offset, offset + size) back; they read as zero afterwards. */
int rg_fd_punch(int fd, int64_t offset, int64_t size);

/* A descriptor that knows which of the given ones (negative ones are left out) can be read.
   To ask it is the cheapest of all system calls that can answer that while the answer is no. */
int rg_fd_watch(const int *fds, int count);

/* Whether any of the watched can be read, without waiting; 1 if that cannot be told. */
int rg_fd_watch_ready(int watch);

/* Closes *fd unless it is negative and sets it to -1. */
void rg_fd_close(int *fd);

#endif
