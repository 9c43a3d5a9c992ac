#ifndef RG_SYS_CGROUP_H
#define RG_SYS_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* The control groups of this process, versions 1 and 2 and both at once ("hybrid").
   Nothing here allocates, so all of it may be called after fork() in a child of a
   threaded process. `root` stands before every path: "" is the machine, anything else a
   folder that holds proc/self/cgroup, proc/self/mountinfo and the mounts they name. */

enum { RG_CGROUP_PATH = 4096 };

/* Lines of a file, through a buffer of its owner. A line that does not fit is skipped. */
typedef struct {
  int fd;
  size_t begin, end;
  char text[8192];
} rg_cgroup_lines;

int rg_cgroup_lines_open(rg_cgroup_lines *lines, const char *root, const char *path);
/* The next line without its newline, valid until the next call; NULL at the end. */
char *rg_cgroup_lines_next(rg_cgroup_lines *lines);
void rg_cgroup_lines_close(rg_cgroup_lines *lines);

/* Called with the folder of each group, from the process's own up to the top of what is
   mounted. Not 0 ends the walk of this version. */
typedef int (*rg_cgroup_visitor)(const char *folder, int version, void *data);

/* Walks the version 1 hierarchy of `controller` ("cpu", "memory", "pids"), then the
   version 2 hierarchy. Returns the number of folders visited: 0 without control groups. */
int rg_cgroup_walk(const char *root, const char *controller, rg_cgroup_visitor visit,
                   void *data);

/* The first words of `folder`/`file` as whole numbers, "max" being INT64_MAX: how many
   of the `n` values were read, 0 if there is no such file. */
int rg_cgroup_read(const char *folder, const char *file, int64_t *value, int n);

/* The numbers after keys at the start of lines ("oom_kill 3", "VmHWM:  12 kB"), -1 for
   a key that is not there; returns how many are. `folder` and `file` are joined by "/". */
int rg_cgroup_read_keys(const char *folder, const char *file, const char *const *key,
                        int64_t *value, int n);
int64_t rg_cgroup_read_key(const char *folder, const char *file, const char *key);

#endif
