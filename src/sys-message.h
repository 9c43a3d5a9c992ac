#ifndef RG_SYS_MESSAGE_H
#define RG_SYS_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes and descriptors between processes of this machine, through a pair of connected sockets that
 * one of them has inherited: no address, so that nobody else can come in.
 *
 * `until` is a time of rg_clock_now() after which is given up, INT64_MAX: never; Ctrl-C, where it is
 * listened to (sys-interrupt.h), makes it earlier. `peer` is a pidfd of the process at the other side,
 * -1: the socket tells that it is gone, which it does not where a process that it has forked holds the
 * other end as well. Both sides must know how many bytes follow; a message of which a part was sent or
 * read leaves a pair that is of no use any more.
 */

enum { RG_MESSAGE_FDS_MAX = 16 };

/* Ends that exec closes, with numbers above 2; -1 with errno set on failure. */
int rg_message_pair(int ends[2]);

/* Sends all bytes, the descriptors with the first of them: 0, or -1 with errno set (EPIPE: the other
   side is gone, EAGAIN: too late). No signal comes of it. */
int rg_message_send(int socket, int peer, const void *bytes, size_t size, const int *fds, int count,
                    int64_t until);

typedef enum {
  RG_MESSAGE_ERROR = -1, /* errno says why; EAGAIN: too late */
  RG_MESSAGE_END = 0,    /* the other side is gone */
  RG_MESSAGE_OK = 1
} rg_message_status;

/* Receives exactly `size` bytes. Descriptors that come with them are the caller's, at most
   RG_MESSAGE_FDS_MAX, closed by exec; `fds` NULL: none are expected, and what comes is closed. */
rg_message_status rg_message_receive(int socket, int peer, void *bytes, size_t size, int *fds, int *count,
                                     int64_t until);

#endif
