#ifndef RG_LOG_H
#define RG_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A log is a folder with a file of records that is only appended to, a lock, a note of who has it, and files for
 * what is too large for a record. A record is whole or is none: its header tells where in the file it stands, how
 * long it is and the checksums of both, so that after damaged bytes, or a record that was cut off, the
 * next whole record is found, and bytes within a value that look like a record are not taken for one.
 *
 * One process at a time writes to a log. Its lock is one of fcntl() that belongs to the open file (F_OFD_SETLK):
 * the system gives it back when the last descriptor of that is closed, so when the process ends, however it ends.
 * Children close theirs as soon as they are forked. Where there are no such locks it is one of the process,
 * which is lost when that closes any descriptor of the file, as it does that copies the folder. Either way
 * two logs of one process exclude each other by a list of those that are open.
 */

/* Numbers are in the machine's own order. */
typedef struct {
  char mark[8];         /* RG_LOG_MARK */
  uint64_t offset;      /* of this header in the file */
  uint64_t size;        /* bytes of the payload, which follows */
  uint8_t key[16];      /* by which a record is found */
  uint64_t index;       /* element, from 1; 0: of none */
  uint32_t type;        /* who writes says what it means; not 0 */
  uint32_t payload_sum; /* checksums: of the payload, */
  uint32_t header_sum;  /* and of all members but this one */
  uint32_t unused;      /* 0 */
} rg_log_header;

#define RG_LOG_MARK "rgtlog1\n"

/* The files of a log. */
#define RG_LOG_NAME "regatta.log"
#define RG_LOG_LOCK "regatta.lock"
#define RG_LOG_HOLDER "regatta.holder" /* one line of text, for the user alone */

typedef struct rg_log rg_log;

/* Why a log cannot be used: what was tried, and errno. For the operation "lock" `holder` is the process
   that has the lock, 0 if the system cannot say; "owner" and "mode" are files that others own or
   write to. */
typedef struct {
  const char *operation;
  int errnum;
  pid_t holder;
} rg_log_failure;

/* The folder must be there. With `write` the log is made unless it is there, and locked. NULL: *failure.
   Not for several threads at once. */
rg_log *rg_log_open(const char *folder, int write, rg_log_failure *failure);
void rg_log_close(rg_log *log);

/* Calls found() for each whole record in the order of the file, and sets
   *damaged to the number of bytes that belong to none. What comes after the last whole record is cut off
   in a log that is written to. -1 with errno: the file cannot be read; EILSEQ: it is no log. */
typedef void rg_log_found(void *data, const rg_log_header *header);
int rg_log_scan(rg_log *log, rg_log_found *found, void *data, int64_t *damaged);

/* Appends `n` records, in one write: mark, offset and checksums of the headers are set here. -1 with errno: nothing
   was appended; ENOENT: the file has been removed. */
int rg_log_append(rg_log *log, rg_log_header *headers, const void *const *payloads, size_t n);

/* Reads a payload of `size` bytes whose header stands at `offset`. -1 with errno: EBADMSG if it is damaged. */
int rg_log_read(rg_log *log, uint64_t offset, void *payload, size_t size);

/* What has been appended survives the end of the machine from now on. -1 with errno, ENOENT as above. */
int rg_log_sync(rg_log *log);

/* A file beside the records, written under another name and given its own when it is safe on the disk:
   it is there whole or not at all. Begin, write, end; each returns -1 with errno, after which `drop`
   takes away what was begun. */
typedef struct {
  int fd;
  int64_t size;
  uint32_t sum;
} rg_log_file;
int rg_log_file_begin(rg_log_file *file, const char *part);
int rg_log_file_write(rg_log_file *file, const void *bytes, size_t size);
int rg_log_file_end(rg_log_file *file, const char *part, const char *name, const char *folder);
void rg_log_file_drop(rg_log_file *file, const char *part);

/* How much is summed at a time: rg_log_file_write() must be called with so many bytes but for the last time. */
enum { RG_LOG_FILE_CHUNK = 1 << 16 };

/* Size and checksum of such a file as it now is. */
int rg_log_file_check(const char *name, int64_t *size, uint32_t *sum);

#endif
