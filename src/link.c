#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw() */
#endif
#include "link.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-layout.h"
#include "sys-process.h"
#include "sys-socket.h"

RG_LAYOUT_SIZE(rg_link_beat, 16);
RG_LAYOUT(rg_link_beat, cpu_ns, 0, 8);
RG_LAYOUT(rg_link_beat, memory, 8, 8);

typedef struct message {
  struct message *next;
  rg_frame_writer writer; /* of what is to be sent */
  unsigned char *payload;
  uint64_t length;
  uint8_t type;
} message;

typedef struct {
  message *first, **last;
  uint64_t bytes;
} queue;

struct rg_link {
  rg_link *next;
  int fd;
  rg_link_settings settings;
  rg_link_state state;
  rg_frame_result result;
  int error;
  queue in, out;
  rg_frame_reader reader;
  int64_t told;   /* when something has last gone */
  int64_t silent; /* for how long the thread has listened since anything came */
  int64_t linger_until; /* not 0: the caller has closed it */
  rg_link_beat beat;
};

/* All links of the process, under one lock: what the thread does under it is a few system calls that do
   not wait. `wake` wakes the thread, `news` R. */
static struct {
  pthread_mutex_t lock;
  rg_link *first;
  int has_thread, is_watching;
  int wake[2], news[2];
  pthread_t r_thread;
  char folder[4096]; /* not empty: the process ends with its session */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = {-1, -1}, .news = {-1, -1}};

/* What waits to be read by R before the thread reads no more of a link; a longer frame is read to its
   end. What is moved at a time. */
enum { IN_MAX = 1 << 28, MOVED_MAX = 1 << 22 };

/* How long R has to end the process by itself before the thread does. */
static const int64_t grace_ns = 2000000000;

/* The thread looks twice a second and more. A longer pause was one of the whole process, or of the
   machine that it and its peers are on: nobody could be heard in it, so that no more than this of it
   counts as silence. */
static const int64_t listened_max_ns = 1000000000;

static void free_message(message *m) {
  free(m->payload);
  free(m);
}

static void free_queue(queue *q) {
  while (q->first) {
    message *m = q->first;
    q->first = m->next;
    free_message(m);
  }
  q->last = &q->first;
  q->bytes = 0;
}

static int push(queue *q, uint8_t type, unsigned char *payload, uint64_t length) {
  message *m = calloc(1, sizeof *m);
  if (!m) return -1;
  m->type = type;
  m->payload = payload;
  m->length = length;
  rg_frame_begin(&m->writer, type, payload, length);
  *q->last = m;
  q->last = &m->next;
  q->bytes += length;
  return 0;
}

static message *pop(queue *q) {
  message *m = q->first;
  q->first = m->next;
  if (!q->first) q->last = &q->first;
  q->bytes -= m->length;
  return m;
}

static void free_link(rg_link *link) {
  rg_fd_close(&link->fd);
  free_queue(&link->in);
  free_queue(&link->out);
  rg_frame_next(&link->reader);
  free(link);
}

static void tell(int pipe_end) {
  if (pipe_end >= 0) rg_fd_wake(pipe_end);
}

static void lose(rg_link *link, rg_frame_result result, int error) {
  if (link->state != RG_LINK_OPEN) return;
  link->state = result == RG_FRAME_END ? RG_LINK_ENDED : RG_LINK_LOST;
  link->result = result;
  link->error = error;
  rg_fd_close(&link->fd);
  free_queue(&link->out);
  tell(all.news[1]);
}

static void put_beat(rg_link *link) {
  rg_link_beat *beat = calloc(1, sizeof *beat);
  if (!beat) return;
  long pages = 0, resident = 0;
  FILE *statm = fopen("/proc/self/statm", "re");
  if (statm && fscanf(statm, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (statm) fclose(statm);
  rg_frame_put_number(beat->cpu_ns, (uint64_t)rg_clock_cpu());
  rg_frame_put_number(beat->memory, (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE));
  if (push(&link->out, RG_LINK_BEAT, (unsigned char *)beat, sizeof *beat) < 0) free(beat);
}

static void write_some(rg_link *link) {
  while (link->out.first && link->state == RG_LINK_OPEN) {
    message *m = link->out.first;
    uint64_t before = m->writer.sent;
    rg_frame_result result = rg_frame_write(&m->writer, link->fd);
    if (m->writer.sent > before) link->told = rg_clock_now();
    if (result == RG_FRAME_AGAIN) return;
    if (result != RG_FRAME_WHOLE) {
      /* what the peer has sent before it went is still to be read */
      if (errno != EPIPE && errno != ECONNRESET) lose(link, result, errno);
      free_queue(&link->out);
      return;
    }
    free_message(pop(&link->out));
    if (!link->out.first) tell(all.news[1]);
  }
}

static void take_frame(rg_link *link) {
  rg_frame_reader *reader = &link->reader;
  switch (reader->header.type) {
  case RG_LINK_BEAT:
    if (reader->length == sizeof link->beat) memcpy(&link->beat, reader->payload, sizeof link->beat);
    break;
  case RG_LINK_VALUE:
    if (push(&link->in, RG_LINK_VALUE, reader->payload, reader->length) == 0) {
      reader->payload = NULL;
      tell(all.news[1]);
    } else {
      lose(link, RG_FRAME_MEMORY, ENOMEM);
    }
    break;
  default:
    lose(link, RG_FRAME_BAD, 0);
  }
  rg_frame_next(reader);
}

static int may_read(const rg_link *link) {
  return link->state == RG_LINK_OPEN &&
         (link->in.bytes < IN_MAX || rg_frame_is_begun(&link->reader));
}

static void read_some(rg_link *link) {
  uint64_t from = link->reader.moved;
  while (may_read(link) && link->reader.moved - from < MOVED_MAX) {
    uint64_t before = link->reader.moved;
    rg_frame_result result = rg_frame_read(&link->reader, link->fd);
    if (link->reader.moved > before) link->silent = 0;
    if (result == RG_FRAME_AGAIN) return;
    if (result != RG_FRAME_WHOLE) {
      lose(link, result, result == RG_FRAME_ERROR ? errno : 0);
      return;
    }
    take_frame(link);
  }
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status, (void)kind, (void)at;
  remove(path);
  return 0;
}

/* The signal by which the process was asked to end: SIGTERM as a scheduler sends it to a node that is no longer
   wanted, some time before it kills it; SIGHUP when what it was started from has gone. */
static volatile sig_atomic_t told_to_end;
static atomic_int has_session;

/* While there is no session whose thread would see to it, R hears of it as of Ctrl-C. */
static void on_term(int signal_number) {
  int saved = errno;
  told_to_end = signal_number;
  if (atomic_load(&has_session)) {
    tell(all.wake[1]);
  } else {
    kill(getpid(), SIGINT);
  }
  errno = saved;
}

int rg_link_end_status(void) { return told_to_end ? 128 + told_to_end : 1; }

/* R has not ended the process, as it computes, or is stuck. */
static void end_process(void) {
  rg_process_end_children();
  nftw(all.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  rg_process_leave(rg_link_end_status());
}

/* Whether a node still has a session; if not, the process is to end. */
static void mind_session(rg_link *link, int64_t now) {
  static int64_t end_at;
  if (!link->settings.is_node || !all.folder[0] || link->linger_until) return;
  if (link->state == RG_LINK_OPEN && (double)link->silent > link->settings.silence * 1e9) {
    lose(link, RG_FRAME_ERROR, ETIMEDOUT);
  }
  if (link->state == RG_LINK_OPEN && told_to_end) lose(link, RG_FRAME_ERROR, ECANCELED);
  if (link->state == RG_LINK_OPEN) return;
  if (!end_at) {
    end_at = now + grace_ns;
    pthread_kill(all.r_thread, SIGINT); /* R, if it listens, ends the process in good order */
  } else if (now >= end_at) {
    end_process();
  }
}

static void serve(rg_link *link, int64_t now, int64_t listened) {
  if (may_read(link)) link->silent += listened;
  read_some(link);
  int64_t interval = (int64_t)(link->settings.interval * 1e9);
  if (link->state == RG_LINK_OPEN && !link->out.first && now - link->told >= interval) put_beat(link);
  write_some(link);
  mind_session(link, now);
}

static void drop_closed(int64_t now) {
  for (rg_link **at = &all.first; *at;) {
    rg_link *link = *at;
    int is_over = link->state != RG_LINK_OPEN || !link->out.first || now >= link->linger_until;
    if (link->linger_until && is_over) {
      *at = link->next;
      free_link(link);
    } else {
      at = &link->next;
    }
  }
}

/* The places of `list` are the wake pipe and then the links; milliseconds until the next beat. */
static int prepare_poll(struct pollfd **list, int *capacity, int *count) {
  int needed = 1, ms = 500;
  for (const rg_link *link = all.first; link; link = link->next) needed++;
  if (needed > *capacity) {
    struct pollfd *more = realloc(*list, sizeof **list * (size_t)needed * 2);
    if (!more) return 100;
    *list = more;
    *capacity = 2 * needed;
  }
  (*list)[0] = (struct pollfd){.fd = all.wake[0], .events = POLLIN};
  *count = 1;
  for (const rg_link *link = all.first; link; link = link->next) {
    short events = (short)((may_read(link) ? POLLIN : 0) | (link->out.first ? POLLOUT : 0));
    (*list)[(*count)++] = (struct pollfd){.fd = link->fd, .events = events};
    int beat = (int)(link->settings.interval * 500) + 1;
    if (beat < ms) ms = beat;
  }
  return ms;
}

static void *run(void *unused) {
  struct pollfd *list = NULL;
  int capacity = 0, count = 0;
  char bytes[64];
  (void)unused;
  int64_t before = rg_clock_now();
  for (;;) {
    pthread_mutex_lock(&all.lock);
    int64_t now = rg_clock_now();
    int64_t listened = now - before < listened_max_ns ? now - before : listened_max_ns;
    for (rg_link *link = all.first; link; link = link->next) serve(link, now, listened);
    before = now;
    drop_closed(now);
    int ms = prepare_poll(&list, &capacity, &count);
    pthread_mutex_unlock(&all.lock);
    if (poll(list, (nfds_t)count, ms) > 0 && list[0].revents) {
      while (read(all.wake[0], bytes, sizeof bytes) > 0) {
      }
    }
  }
  return NULL;
}

/* The lock is held over a fork, so that the child finds the list whole. */
static void before_fork(void) { pthread_mutex_lock(&all.lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&all.lock); }
static void after_fork_child(void) {
  for (rg_link *link = all.first; link; link = link->next) {
    rg_fd_close(&link->fd);
    if (link->state == RG_LINK_OPEN) link->state = RG_LINK_LOST;
  }
  all.has_thread = 0;
  all.folder[0] = 0;
  for (int i = 0; i < 2; i++) {
    rg_fd_close(&all.wake[i]);
    rg_fd_close(&all.news[i]);
  }
  all.first = NULL; /* who has a link of the parent's keeps it, as one that is lost */
  pthread_mutex_unlock(&all.lock);
}

/* No signal of the process comes to the thread: R's handlers are for R's thread. */
static int start_thread(void) {
  pthread_t thread;
  sigset_t held, before;
  if (all.has_thread) return 0;
  int both = RG_FD_READ_END | RG_FD_WRITE_END;
  if (all.wake[0] < 0 && rg_fd_pipe(all.wake, both) < 0) return -1;
  if (all.news[0] < 0 && rg_fd_pipe(all.news, both) < 0) return -1;
  if (!all.is_watching) {
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    all.is_watching = 1;
  }
  sigfillset(&held);
  pthread_sigmask(SIG_SETMASK, &held, &before);
  int failed = pthread_create(&thread, NULL, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    errno = failed;
    return -1;
  }
  pthread_detach(thread);
  all.r_thread = pthread_self();
  all.has_thread = 1;
  return 0;
}

rg_link *rg_link_open(int fd, const rg_link_settings *settings) {
  rg_link *link = calloc(1, sizeof *link);
  if (!link || start_thread() < 0) {
    int saved = errno;
    close(fd);
    free(link);
    errno = saved;
    return NULL;
  }
  rg_socket_send_at_once(fd);
  /* A session hears for itself that a node is silent, and a pause of its machine is no silence. The system would give
     up a node that takes nothing meanwhile. */
  if (settings->is_node) rg_socket_watch_peer(fd, settings->deadline);
  link->fd = fd;
  link->settings = *settings;
  link->reader.limit = settings->limit;
  link->in.last = &link->in.first;
  link->out.last = &link->out.first;
  pthread_mutex_lock(&all.lock);
  link->next = all.first;
  all.first = link;
  pthread_mutex_unlock(&all.lock);
  tell(all.wake[1]);
  return link;
}

int rg_link_send(rg_link *link, uint8_t type, unsigned char *payload, uint64_t length) {
  pthread_mutex_lock(&all.lock);
  int sent = link->state == RG_LINK_OPEN && push(&link->out, type, payload, length) == 0;
  if (sent) write_some(link); /* most often all of it: the thread is spared */
  int is_left = link->out.first != NULL;
  pthread_mutex_unlock(&all.lock);
  if (!sent) {
    free(payload);
    return -1;
  }
  if (is_left) tell(all.wake[1]);
  return 0;
}

int rg_link_take(rg_link *link, unsigned char **payload, uint64_t *length) {
  pthread_mutex_lock(&all.lock);
  int found = link->in.first != NULL;
  int was_full = link->in.bytes >= IN_MAX;
  if (found) {
    message *m = pop(&link->in);
    *payload = m->payload;
    *length = m->length;
    free(m);
  }
  pthread_mutex_unlock(&all.lock);
  if (was_full) tell(all.wake[1]);
  return found;
}

void rg_link_look(rg_link *link, rg_link_view *view) {
  pthread_mutex_lock(&all.lock);
  view->state = link->state;
  view->result = link->result;
  view->error = link->error;
  view->silent_ns = link->silent;
  view->unsent = link->out.bytes;
  view->received = link->in.bytes;
  view->cpu_ns = rg_frame_number(link->beat.cpu_ns);
  view->memory = rg_frame_number(link->beat.memory);
  pthread_mutex_unlock(&all.lock);
}

void rg_link_close(rg_link *link, double linger) {
  pthread_mutex_lock(&all.lock);
  int is_listed = 0;
  for (const rg_link *l = all.first; l; l = l->next) is_listed |= l == link;
  link->linger_until = rg_clock_now() + (int64_t)(linger * 1e9) + 1;
  pthread_mutex_unlock(&all.lock);
  if (is_listed) {
    tell(all.wake[1]);
  } else {
    free_link(link); /* inherited by a fork */
  }
}

int rg_link_news(void) { return all.news[0]; }

void rg_link_news_seen(void) {
  char bytes[64];
  while (all.news[0] >= 0 && read(all.news[0], bytes, sizeof bytes) > 0) {
  }
}

void rg_link_end_with_session(const char *folder) {
  pthread_mutex_lock(&all.lock);
  all.r_thread = pthread_self();
  snprintf(all.folder, sizeof all.folder, "%s", folder);
  pthread_mutex_unlock(&all.lock);
  atomic_store(&has_session, 1);
  if (told_to_end) tell(all.wake[1]);
}

void rg_link_heed_signals(void) {
  struct sigaction action = {.sa_handler = on_term};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
}
