#include "sys-cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int join(char *out, const char *a, const char *b, const char *c) {
  int n = snprintf(out, RG_CGROUP_PATH, "%s%s%s", a, b, c);
  return n >= 0 && n < RG_CGROUP_PATH ? 0 : -1;
}

int rg_cgroup_lines_open(rg_cgroup_lines *lines, const char *root, const char *path) {
  char full[RG_CGROUP_PATH];
  lines->begin = lines->end = 0;
  lines->fd = join(full, root, path, "") < 0 ? -1 : open(full, O_RDONLY | O_CLOEXEC);
  return lines->fd < 0 ? -1 : 0;
}

/* More bytes behind those not yet handed out: the number read, 0 at the end of the file. */
static ssize_t fill(rg_cgroup_lines *lines) {
  memmove(lines->text, lines->text + lines->begin, lines->end - lines->begin);
  lines->end -= lines->begin;
  lines->begin = 0;
  ssize_t n;
  do {
    n = read(lines->fd, lines->text + lines->end, sizeof lines->text - 1 - lines->end);
  } while (n < 0 && errno == EINTR);
  if (n > 0) lines->end += (size_t)n;
  return n;
}

char *rg_cgroup_lines_next(rg_cgroup_lines *lines) {
  int skipping = 0;
  for (;;) {
    char *from = lines->text + lines->begin;
    char *newline = memchr(from, '\n', lines->end - lines->begin);
    if (newline) {
      *newline = '\0';
      lines->begin = (size_t)(newline - lines->text) + 1;
      if (!skipping) return from;
      skipping = 0;
      continue;
    }
    if (lines->end - lines->begin == sizeof lines->text - 1) {
      lines->begin = lines->end = 0;
      skipping = 1;
    }
    if (fill(lines) <= 0) {
      /* The last line may lack its newline. */
      if (lines->end == 0 || skipping) return NULL;
      lines->text[lines->end] = '\0';
      lines->begin = lines->end = 0;
      return lines->text;
    }
  }
}

void rg_cgroup_lines_close(rg_cgroup_lines *lines) {
  if (lines->fd >= 0) close(lines->fd);
  lines->fd = -1;
}

/* Is `word` one of the comma-separated words of `list`? */
static int has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) return 1;
  }
  return 0;
}

/* Where one version's hierarchy is mounted and which group of it the process is in. */
typedef struct {
  int version;
  char group[RG_CGROUP_PATH]; /* as in proc/self/cgroup; "" if the version is not in use */
  char point[RG_CGROUP_PATH];
  char rest[RG_CGROUP_PATH]; /* what the group's path is below the mount point */
  size_t rank;               /* of the best mount seen, SIZE_MAX if there is none */
} hierarchy;

enum { VERSIONS = 2 };

/* Fills in the groups: a line of proc/self/cgroup is "number:controllers:path", that of
   version 2 "0::path". */
static int find_groups(const char *root, const char *controller, hierarchy *both) {
  rg_cgroup_lines lines;
  if (rg_cgroup_lines_open(&lines, root, "/proc/self/cgroup") < 0) return -1;
  for (char *line; (line = rg_cgroup_lines_next(&lines)) != NULL;) {
    char *list = strchr(line, ':');
    char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    list++;
    int unified = strncmp(line, "0:", 2) == 0 && *list == '\0';
    if (!unified && !has_word(list, controller)) continue;
    if (join(both[unified].group, group, "", "") < 0) both[unified].group[0] = '\0';
  }
  rg_cgroup_lines_close(&lines);
  return 0;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from; to++) {
    if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] && from[3]) {
      *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
      from += 4;
    } else {
      *to = *from++;
    }
  }
  *to = '\0';
}

/* What `group` is below `top`: "" if they are one, NULL if it is not below it. */
static const char *below(const char *group, const char *top) {
  size_t length = strlen(top);
  if (length == 1 && top[0] == '/') length = 0;
  if (strncmp(group, top, length) != 0) return NULL;
  const char *rest = group + length;
  if (*rest != '\0' && *rest != '/') return NULL;
  return strcmp(rest, "/") == 0 ? "" : rest;
}

typedef struct {
  int version;
  const char *top; /* the group that the mount shows at its top */
  const char *point;
} mount_line;

/* Takes "id parent device root point options ... - type source options" apart, cutting
   `line` up: 0 if it mounts version 2 or the version 1 hierarchy of `controller`. */
static int parse_mount(char *line, const char *controller, mount_line *mount) {
  char *tail = strstr(line, " - cgroup");
  if (!tail) return -1;
  *tail = '\0';
  char *state = NULL, *field[5] = {NULL};
  int n = 0;
  for (char *word = strtok_r(line, " ", &state); word && n < 5; n++) {
    field[n] = word;
    word = strtok_r(NULL, " ", &state);
  }
  char *type = strtok_r(tail + 3, " ", &state);
  strtok_r(NULL, " ", &state);
  char *options = strtok_r(NULL, " ", &state);
  if (n < 5 || !type) return -1;
  mount->version = strcmp(type, "cgroup2") == 0 ? 2 : 1;
  if (mount->version == 1 && (!options || !has_word(options, controller))) return -1;
  unescape(field[3]);
  unescape(field[4]);
  mount->top = field[3];
  mount->point = field[4];
  return 0;
}

/* A container may see several mounts of a hierarchy; the one with the shortest top shows
   most of the group's ancestors. If none has the group below it (a namespace made
   elsewhere), the top itself is the best that can be seen. */
static void consider_mount(const char *root, const mount_line *mount, hierarchy *one) {
  const char *inside = below(one->group, mount->top);
  size_t rank = inside ? strlen(mount->top) : SIZE_MAX - 1;
  if (one->group[0] == '\0' || rank >= one->rank) return;
  if (join(one->point, root, mount->point, "") < 0) return;
  if (join(one->rest, inside ? inside : "", "", "") < 0) return;
  one->rank = rank;
}

static int find_mounts(const char *root, const char *controller, hierarchy *both) {
  rg_cgroup_lines lines;
  if (rg_cgroup_lines_open(&lines, root, "/proc/self/mountinfo") < 0) return -1;
  for (char *line; (line = rg_cgroup_lines_next(&lines)) != NULL;) {
    mount_line mount;
    if (parse_mount(line, controller, &mount) == 0) {
      consider_mount(root, &mount, &both[mount.version - 1]);
    }
  }
  rg_cgroup_lines_close(&lines);
  return 0;
}

static int walk_up(hierarchy *one, rg_cgroup_visitor visit, void *data) {
  char folder[RG_CGROUP_PATH];
  for (int visited = 0;;) {
    if (join(folder, one->point, one->rest, "") < 0) return visited;
    visited++;
    char *last = strrchr(one->rest, '/');
    if (visit(folder, one->version, data) || !last) return visited;
    *last = '\0';
  }
}

int rg_cgroup_walk(const char *root, const char *controller, rg_cgroup_visitor visit,
                   void *data) {
  hierarchy both[VERSIONS];
  for (int i = 0; i < VERSIONS; i++) {
    both[i].version = i + 1;
    both[i].group[0] = '\0';
    both[i].rank = SIZE_MAX;
  }
  if (find_groups(root, controller, both) < 0 || find_mounts(root, controller, both) < 0) {
    return 0;
  }
  int visited = 0;
  for (int i = 0; i < VERSIONS; i++) {
    if (both[i].rank != SIZE_MAX) visited += walk_up(&both[i], visit, data);
  }
  return visited;
}

int rg_cgroup_read(const char *folder, const char *file, int64_t *value, int n) {
  char path[RG_CGROUP_PATH], text[256];
  if (join(path, folder, "/", file) < 0) return 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  int count = 0;
  for (char *at = text; count < n; count++) {
    at += strspn(at, " \n");
    char *end = at + 3;
    if (strncmp(at, "max", 3) == 0) {
      value[count] = INT64_MAX;
    } else {
      value[count] = strtoll(at, &end, 10);
      if (end == at) break;
    }
    at = end;
  }
  return count;
}

/* The number in `line` if it begins with `key`, or -1. */
static int64_t number_after(const char *line, const char *key) {
  size_t length = strlen(key);
  if (strncmp(line, key, length) != 0 || !line[length] || !strchr(" \t:", line[length])) return -1;
  const char *number = line + length + strspn(line + length, " \t:");
  char *end;
  long long value = strtoll(number, &end, 10);
  return end == number || value < 0 ? -1 : value;
}

int rg_cgroup_read_keys(const char *folder, const char *file, const char *const *key,
                        int64_t *value, int n) {
  char path[RG_CGROUP_PATH];
  rg_cgroup_lines lines;
  for (int i = 0; i < n; i++) value[i] = -1;
  if (join(path, "/", file, "") < 0 || rg_cgroup_lines_open(&lines, folder, path) < 0) return 0;
  int found = 0;
  for (char *line; found < n && (line = rg_cgroup_lines_next(&lines)) != NULL;) {
    for (int i = 0; i < n; i++) {
      int64_t read = value[i] < 0 ? number_after(line, key[i]) : -1;
      if (read < 0) continue;
      value[i] = read;
      found++;
    }
  }
  rg_cgroup_lines_close(&lines);
  return found;
}

int64_t rg_cgroup_read_key(const char *folder, const char *file, const char *key) {
  int64_t value;
  rg_cgroup_read_keys(folder, file, &key, &value, 1);
  return value;
}
