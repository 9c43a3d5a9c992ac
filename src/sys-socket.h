#ifndef RG_SYS_SOCKET_H
#define RG_SYS_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Sockets of TCP (IPv4 and IPv6) and of one machine ("Unix"). Every one that is made here is closed
   by exec, never blocks, and raises no SIGPIPE: who wants to wait waits by rg_socket_poll(), so that
   a readiness that was none, as after a wrong checksum, holds nobody up. All functions return -1
   with errno set on failure unless they say otherwise. */

typedef struct {
  struct sockaddr_storage storage;
  socklen_t size;
} rg_address;

enum { RG_ADDRESS_MAX = 16, RG_ADDRESS_TEXT = 128 };

/* The addresses of a host, in the order in which the system would try them: how many, or the negative
   of RG_RESOLVE_BASE plus getaddrinfo()'s code. `passive`: to listen at. May wait for a name server. */
enum { RG_RESOLVE_BASE = 100000 };
int rg_socket_resolve(const char *host, int port, int passive, rg_address *list, int most);
const char *rg_socket_resolve_message(int code);

/* The address of a Unix socket. */
int rg_socket_path(const char *path, rg_address *address);

/* "127.0.0.1:80", "[::1]:80" or "unix:/path"; `text` has RG_ADDRESS_TEXT bytes. */
void rg_socket_format(const rg_address *address, char *text);
int rg_socket_port(const rg_address *address);
int rg_socket_own_address(int fd, rg_address *address);
int rg_socket_peer_address(int fd, rg_address *address);

int rg_socket_listen(const rg_address *address, int backlog);

/* EAGAIN: nobody is there (any more). A connection that was reset while it waited is passed over. */
int rg_socket_accept(int fd);

/* Begins to connect: the descriptor can be written to once that has ended, well or not. */
int rg_socket_connect(const rg_address *address);
/* 0: connected, else the error of the connection. */
int rg_socket_error(int fd);

/*
 * How a lost peer is noticed by the system: within about `seconds`, also if it answers nothing.
 * Keepalive sees the end of an idle connection only, the time limit for unacknowledged data only that
 * of one with data under way: both are needed. Other systems than Linux have but the first.
 */
int rg_socket_watch_peer(int fd, double seconds);

/* Sends small messages at once. 0 also for sockets that always do. */
int rg_socket_send_at_once(int fd);

/* The user at the other end of a Unix socket; where the system does not say it is an error. */
int rg_socket_peer_user(int fd, uid_t *user, pid_t *pid);

/* What can be done now with sockets: `ready[i]` becomes 1 if `fds[i]` can be read (written to), also
   if that would give an error. Waits for up to `ms` milliseconds, -1 without end; a signal ends the
   wait with EINTR. The number of those that are ready. */
int rg_socket_poll(const int *fds, int count, int write, int ms, int *ready);

/* As recv() and send() do, with the flags of the above: at most `size` bytes, -1 with EAGAIN if none
   can be moved now. */
ssize_t rg_socket_recv(int fd, void *bytes, size_t size);
ssize_t rg_socket_send(int fd, const void *bytes, size_t size);

#endif
