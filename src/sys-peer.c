#include "sys-peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-fd.h"

/* A connection, of which `inode` is the socket at this end and `peer` the one at the other. */
typedef struct {
  uint32_t address[2]; /* own, other; as the kernel has them in memory */
  uint16_t port[2];
  unsigned long inode, peer;
  int found;
} connection;

enum { CONNECTIONS_MAX = 1024 };

/* Connections that have been found to be near, by the inode of their socket at this end. The kernel
   numbers sockets one after the other and does not come back to a number soon. */
static unsigned long near_inodes[CONNECTIONS_MAX];
static int near_count;

static int is_noted(unsigned long inode) {
  int i = 0;
  while (i < near_count && near_inodes[i] != inode) i++;
  return i < near_count;
}

static void note(unsigned long inode) {
  if (near_count == CONNECTIONS_MAX) near_count = 0;
  near_inodes[near_count++] = inode;
}

/* 1: an IPv4 connection with the port; 0: something else; -1: a connection of another family. */
static int read_connection(int fd, int port, connection *c) {
  struct sockaddr_storage end[2];
  struct stat status;
  if (fstat(fd, &status) < 0 || !S_ISSOCK(status.st_mode)) return 0;
  for (int e = 0; e < 2; e++) {
    socklen_t size = sizeof end[e];
    int failed = e == 0 ? getsockname(fd, (struct sockaddr *)&end[e], &size)
                        : getpeername(fd, (struct sockaddr *)&end[e], &size);
    if (failed < 0) return 0;
    if (end[e].ss_family == AF_INET6) {
      const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&end[e];
      if (ntohs(six->sin6_port) == port) return -1;
    }
    if (end[e].ss_family != AF_INET) continue;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&end[e];
    c->address[e] = four->sin_addr.s_addr;
    c->port[e] = ntohs(four->sin_port);
  }
  if (end[0].ss_family != AF_INET || (c->port[0] != port && c->port[1] != port)) return 0;
  c->inode = (unsigned long)status.st_ino;
  return 1;
}

/* The connections with the port that are not known to be near; -1 if one cannot be. */
static int list_connections(int port, connection *list, int *total) {
  int count = 0, bad = 0;
  const struct dirent *entry;
  DIR *open_ones = opendir("/proc/self/fd");
  if (!open_ones) return -1;
  while ((entry = readdir(open_ones))) {
    connection c = {{0, 0}, {0, 0}, 0, 0, 0};
    int kind = read_connection(atoi(entry->d_name), port, &c);
    bad |= kind < 0 || (kind > 0 && count == CONNECTIONS_MAX);
    if (kind > 0) ++*total;
    if (kind > 0 && !bad && !is_noted(c.inode)) list[count++] = c;
  }
  closedir(open_ones);
  return bad ? -1 : count;
}

/* Finds the other ends in the kernel's list: the entry whose own end is our other one. */
static int find_peers(connection *list, int count) {
  char line[512];
  int found = 0;
  FILE *table = fopen("/proc/net/tcp", "re");
  if (!table) return 0;
  while (fgets(line, sizeof line, table)) {
    unsigned address[2], port[2];
    unsigned long inode;
    if (sscanf(line, " %*d: %8X:%4X %8X:%4X %*X %*X:%*X %*X:%*X %*X %*u %*d %lu", &address[0], &port[0],
               &address[1], &port[1], &inode) != 5) {
      continue;
    }
    for (int i = 0; i < count; i++) {
      connection *c = &list[i];
      if (c->peer == 0 && address[0] == c->address[1] && port[0] == c->port[1] &&
          address[1] == c->address[0] && port[1] == c->port[0]) {
        c->peer = inode;
        found += inode != 0;
      }
    }
  }
  fclose(table);
  return found;
}

static int runs(const char *pid, const char *program) {
  char path[300], target[512];
  snprintf(path, sizeof path, "/proc/%s/exe", pid);
  ssize_t n = readlink(path, target, sizeof target - 1);
  if (n <= 0) return 0;
  target[n] = 0;
  const char *name = strrchr(target, '/');
  return name && strcmp(name + 1, program) == 0;
}

/* Marks the connections whose other end this process has open; how many. */
static int find_in_process(const char *pid, connection *list, int count) {
  char path[300], target[64];
  int found = 0;
  const struct dirent *entry;
  snprintf(path, sizeof path, "/proc/%s/fd", pid);
  DIR *open_ones = opendir(path);
  if (!open_ones) return 0;
  while ((entry = readdir(open_ones))) {
    unsigned long inode;
    ssize_t n = readlinkat(dirfd(open_ones), entry->d_name, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = 0;
    if (sscanf(target, "socket:[%lu]", &inode) != 1) continue;
    for (int i = 0; i < count; i++) {
      if (list[i].found || list[i].peer != inode) continue;
      list[i].found = 1;
      found++;
    }
  }
  closedir(open_ones);
  return found;
}

static int find_processes(connection *list, int count, const char *program) {
  int found = 0;
  const struct dirent *entry;
  DIR *processes = opendir("/proc");
  if (!processes) return 0;
  while (found < count && (entry = readdir(processes))) {
    int other = atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid();
    if (other && runs(entry->d_name, program)) found += find_in_process(entry->d_name, list, count);
  }
  closedir(processes);
  return found == count;
}

int rg_peer_is_near(int port, const char *program) {
  int total = 0, near = 0;
  connection *list = malloc(CONNECTIONS_MAX * sizeof *list);
  if (!list) return 0;
  int count = list_connections(port, list, &total);
  if (count >= 0 && total > 0) {
    near = count == 0 || (find_peers(list, count) == count && find_processes(list, count, program));
  }
  for (int i = 0; near && i < count; i++) note(list[i].inode);
  free(list);
  return near;
}
