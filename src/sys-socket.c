#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4(), struct ucred */
#endif
#include "sys-socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys-fd.h"

#ifdef MSG_NOSIGNAL
enum { SEND_FLAGS = MSG_NOSIGNAL };
#else
enum { SEND_FLAGS = 0 };
#endif

int rg_socket_resolve(const char *host, int port, int passive, rg_address *list, int most) {
  char service[16];
  struct addrinfo hints, *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  snprintf(service, sizeof service, "%d", port);
  int code = getaddrinfo(host, service, &hints, &found);
  if (code != 0) return -(RG_RESOLVE_BASE + abs(code));
  int count = 0;
  for (const struct addrinfo *a = found; a && count < most; a = a->ai_next) {
    if (a->ai_addrlen > sizeof list[count].storage) continue;
    memcpy(&list[count].storage, a->ai_addr, a->ai_addrlen);
    list[count++].size = a->ai_addrlen;
  }
  freeaddrinfo(found);
  return count;
}

const char *rg_socket_resolve_message(int code) {
  int positive = -code - RG_RESOLVE_BASE;
  return gai_strerror(EAI_NONAME < 0 ? -positive : positive);
}

int rg_socket_path(const char *path, rg_address *address) {
  struct sockaddr_un *name = (struct sockaddr_un *)&address->storage;
  memset(address, 0, sizeof *address);
  if (strlen(path) >= sizeof name->sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  name->sun_family = AF_UNIX;
  strcpy(name->sun_path, path);
  address->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
  return 0;
}

int rg_socket_port(const rg_address *address) {
  if (address->storage.ss_family == AF_INET) {
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
  }
  if (address->storage.ss_family == AF_INET6) {
    return ntohs(((const struct sockaddr_in6 *)&address->storage)->sin6_port);
  }
  return 0;
}

void rg_socket_format(const rg_address *address, char *text) {
  char host[INET6_ADDRSTRLEN + 32];
  int family = address->storage.ss_family;
  if (family == AF_UNIX) {
    const struct sockaddr_un *name = (const struct sockaddr_un *)&address->storage;
    int has_name = address->size > offsetof(struct sockaddr_un, sun_path) && name->sun_path[0];
    snprintf(text, RG_ADDRESS_TEXT, "unix:%.100s", has_name ? name->sun_path : "");
  } else if (getnameinfo((const struct sockaddr *)&address->storage, address->size, host, sizeof host,
                         NULL, 0, NI_NUMERICHOST) != 0) {
    snprintf(text, RG_ADDRESS_TEXT, "unknown");
  } else {
    const char *form = family == AF_INET6 ? "[%s]:%d" : "%s:%d";
    snprintf(text, RG_ADDRESS_TEXT, form, host, rg_socket_port(address));
  }
}

int rg_socket_own_address(int fd, rg_address *address) {
  memset(address, 0, sizeof *address);
  address->size = sizeof address->storage;
  return getsockname(fd, (struct sockaddr *)&address->storage, &address->size);
}

int rg_socket_peer_address(int fd, rg_address *address) {
  memset(address, 0, sizeof *address);
  address->size = sizeof address->storage;
  return getpeername(fd, (struct sockaddr *)&address->storage, &address->size);
}

static int close_after_failure(int fd) {
  int saved = errno;
  close(fd);
  errno = saved;
  return -1;
}

static int prepare(int fd) {
  int lifted = rg_fd_lift(fd);
  if (lifted < 0) return -1;
  int flags = fcntl(lifted, F_GETFL);
  if (flags < 0 || fcntl(lifted, F_SETFL, flags | O_NONBLOCK) < 0 ||
      fcntl(lifted, F_SETFD, FD_CLOEXEC) < 0) {
    return close_after_failure(lifted);
  }
#ifdef SO_NOSIGPIPE
  const int yes = 1;
  setsockopt(lifted, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  return lifted;
}

static int new_socket(const rg_address *address) {
#ifdef SOCK_CLOEXEC
  int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
  int fd = socket(address->storage.ss_family, SOCK_STREAM, 0);
#endif
  return fd < 0 ? -1 : prepare(fd);
}

int rg_socket_listen(const rg_address *address, int backlog) {
  const int yes = 1;
  int fd = new_socket(address);
  if (fd < 0) return -1;
  if (address->storage.ss_family != AF_UNIX) {
    /* a port that was listened at a moment ago is free; one that is listened at is not */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  }
#ifdef IPV6_V6ONLY
  if (address->storage.ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  }
#endif
  if (bind(fd, (const struct sockaddr *)&address->storage, address->size) < 0 ||
      listen(fd, backlog) < 0) {
    return close_after_failure(fd);
  }
  return fd;
}

int rg_socket_accept(int fd) {
  for (;;) {
#ifdef SOCK_CLOEXEC
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
    int peer = accept(fd, NULL, NULL);
#endif
    if (peer >= 0) return prepare(peer);
    /* accept(2): errors that the new connection had already are told here */
    int passing = errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
                  errno == EHOSTUNREACH || errno == ENETUNREACH;
    if (!passing) return -1;
  }
}

int rg_socket_connect(const rg_address *address) {
  int fd = new_socket(address);
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&address->storage, address->size) == 0) return fd;
  /* a Unix socket whose backlog is full says EAGAIN, and is not being connected */
  return errno == EINPROGRESS || errno == EINTR ? fd : close_after_failure(fd);
}

int rg_socket_error(int fd) {
  int code = 0;
  socklen_t size = sizeof code;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 ? errno : code;
}

static int is_tcp(int fd) {
  rg_address own;
  if (rg_socket_own_address(fd, &own) < 0) return 0;
  return own.storage.ss_family == AF_INET || own.storage.ss_family == AF_INET6;
}

int rg_socket_watch_peer(int fd, double seconds) {
  if (!is_tcp(fd)) return 0;
  const int yes = 1;
  /* three probes: the first after a third of the time */
  int third = seconds / 3 < 1 ? 1 : seconds / 3 > 10000 ? 10000 : (int)(seconds / 3);
  int probes = 2;
  if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes) < 0) return -1;
#ifdef TCP_KEEPIDLE
  if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &third, sizeof third) < 0) return -1;
#endif
#ifdef TCP_KEEPINTVL
  if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &third, sizeof third) < 0) return -1;
#endif
#ifdef TCP_KEEPCNT
  if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes) < 0) return -1;
#endif
#ifdef TCP_USER_TIMEOUT
  unsigned ms = seconds > 4e6 ? 4000000000u : (unsigned)(seconds * 1000);
  if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms) < 0) return -1;
#endif
  return 0;
}

int rg_socket_send_at_once(int fd) {
  const int yes = 1;
  return is_tcp(fd) ? setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) : 0;
}

int rg_socket_peer_user(int fd, uid_t *user, pid_t *pid) {
#if defined(SO_PEERCRED) && defined(__linux__)
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return -1;
  *user = peer.uid;
  *pid = peer.pid;
  return 0;
#elif defined(__APPLE__)
  gid_t group;
  *pid = -1;
  return getpeereid(fd, user, &group);
#else
  (void)fd, (void)user, (void)pid;
  errno = ENOSYS;
  return -1;
#endif
}

int rg_socket_poll(const int *fds, int count, int write, int ms, int *ready) {
  struct pollfd few[64];
  struct pollfd *list = count <= 64 ? few : malloc((size_t)count * sizeof *list);
  if (!list) return -1;
  for (int i = 0; i < count; i++) {
    list[i] = (struct pollfd){.fd = fds[i], .events = write ? POLLOUT : POLLIN};
  }
  int found = poll(list, (nfds_t)count, ms);
  int saved = errno;
  for (int i = 0; i < count; i++) ready[i] = found > 0 && list[i].revents != 0;
  if (list != few) free(list);
  errno = saved;
  return found;
}

ssize_t rg_socket_recv(int fd, void *bytes, size_t size) {
  ssize_t n;
  do {
    n = recv(fd, bytes, size, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EWOULDBLOCK) errno = EAGAIN;
  return n;
}

ssize_t rg_socket_send(int fd, const void *bytes, size_t size) {
  ssize_t n;
  do {
    n = send(fd, bytes, size, MSG_DONTWAIT | SEND_FLAGS);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EWOULDBLOCK) errno = EAGAIN;
  return n;
}
