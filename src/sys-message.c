#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif

int rg_message_pair(int ends[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return -1;
  for (int e = 0; e < 2; e++) {
    if ((ends[e] = rg_fd_lift(ends[e])) < 0 || fcntl(ends[e], F_SETFD, FD_CLOEXEC) < 0) {
      int saved = errno;
      rg_fd_close(&ends[0]);
      rg_fd_close(&ends[1]);
      errno = saved;
      return -1;
    }
#ifdef SO_NOSIGPIPE
    const int yes = 1;
    setsockopt(ends[e], SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  }
  return 0;
}

/* 0 when the socket is ready, or may be; -1 with EAGAIN when it is too late for a message that was begun at
   `since`, with EPIPE when the process of `peer` is gone and the socket is not ready. */
static int wait_for(int socket, int peer, short events, int64_t until, int64_t since) {
  for (;;) {
    int64_t limit = rg_interrupt_limit(until, since);
    int64_t left = limit == INT64_MAX ? INT64_MAX : (limit - rg_clock_now() + 999999) / 1000000;
    if (left <= 0) {
      errno = EAGAIN;
      return -1;
    }
    struct pollfd waits[] = {{peer, POLLIN, 0}, {socket, events, 0}};
    int n = poll(waits, 2, rg_interrupt_slice(left));
    if (n < 0 && errno != EINTR) return -1;
    if (n > 0 && waits[1].revents) return 0;
    if (n > 0) {
      errno = EPIPE;
      return -1;
    }
  }
}

typedef union {
  struct cmsghdr header;
  char room[CMSG_SPACE(RG_MESSAGE_FDS_MAX * sizeof(int))];
} ancillary;

int rg_message_send(int socket, int peer, const void *bytes, size_t size, const int *fds, int count,
                    int64_t until) {
  const char *at = bytes;
  ancillary extra;
  const int64_t since = rg_clock_now();
  while (size > 0) {
    struct iovec part = {(void *)at, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
      memset(&extra, 0, sizeof extra);
      message.msg_control = &extra;
      message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
      struct cmsghdr *control = CMSG_FIRSTHDR(&message);
      control->cmsg_level = SOL_SOCKET;
      control->cmsg_type = SCM_RIGHTS;
      control->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
      memcpy(CMSG_DATA(control), fds, (size_t)count * sizeof(int));
    }
    ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    if (n >= 0) {
      at += n;
      size -= (size_t)n;
      count = 0;
    }
    if (size > 0 && wait_for(socket, peer, POLLOUT, until, since) < 0) return -1;
  }
  return 0;
}

/* Descriptors in a message, whether they were expected or not: none may stay open unknown. */
static void take_fds(struct msghdr *message, int *fds, int *count) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fd = rg_fd_lift(fd);
      if (fd >= 0 && !MSG_CMSG_CLOEXEC) fcntl(fd, F_SETFD, FD_CLOEXEC);
      if (fds && *count < RG_MESSAGE_FDS_MAX) {
        fds[(*count)++] = fd;
      } else {
        rg_fd_close(&fd);
      }
    }
  }
}

rg_message_status rg_message_receive(int socket, int peer, void *bytes, size_t size, int *fds, int *count,
                                     int64_t until) {
  char *at = bytes;
  ancillary extra;
  const int64_t since = rg_clock_now();
  if (fds) *count = 0;
  while (size > 0) {
    struct iovec part = {at, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &extra,
                             .msg_controllen = sizeof extra};
    ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return errno == ECONNRESET ? RG_MESSAGE_END : RG_MESSAGE_ERROR;
    }
    if (n == 0) return RG_MESSAGE_END;
    if (n > 0) {
      take_fds(&message, fds, count);
      at += n;
      size -= (size_t)n;
    }
    if (size > 0 && wait_for(socket, peer, POLLIN, until, since) < 0) {
      return errno == EPIPE ? RG_MESSAGE_END : RG_MESSAGE_ERROR;
    }
  }
  return RG_MESSAGE_OK;
}
