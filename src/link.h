#ifndef RG_LINK_H
#define RG_LINK_H

#include <stdint.h>

#include "frame.h"

/*
 * Links: connections between the session and its nodes, after they have proved to each other who they
 * are. One thread of the process reads and writes all of them, whatever R is doing:
 *
 * - A frame is moved as a whole or the link is lost. An interrupt of R, which would leave half of
 *   one, never comes to this thread.
 * - Each end tells the other once in an interval that it lives, unless something
 *   else is on its way. A process that was stopped is silent although its system acknowledges what
 *   it is sent; one that computes for hours is not.
 * - A node whose session is gone ends itself, also in the middle of a computation.
 *
 * The functions below take a lock that the thread never holds for long. In a process that was forked
 * off there is no thread: its links are lost and their descriptors closed, so that they do not keep
 * a connection open.
 */
typedef struct rg_link rg_link;

typedef enum {
  RG_LINK_OPEN,
  RG_LINK_ENDED, /* the peer has closed the connection between two frames */
  RG_LINK_LOST   /* anything else, see `result` and `error` */
} rg_link_state;

enum {
  RG_LINK_VALUE = 2, /* for R */
  RG_LINK_BEAT = 3   /* rg_link_beat */
};

/* What a process tells of itself; numbers have their lowest byte first. */
typedef struct {
  uint8_t cpu_ns[8];
  uint8_t memory[8]; /* bytes that are resident */
} rg_link_beat;

typedef struct {
  double interval; /* seconds between two signs of life */
  double deadline; /* until the system of a node gives up a session whose system does not answer */
  double silence;  /* a node ends itself when the session has been silent for so long */
  uint64_t limit;  /* of the length of a frame */
  int is_node;
} rg_link_settings;

typedef struct {
  rg_link_state state;
  rg_frame_result result;
  int error;
  int64_t silent_ns; /* for how long the thread has listened since anything came */
  uint64_t unsent, received; /* bytes in the queues */
  uint64_t cpu_ns, memory; /* of the last beat */
} rg_link_view;

/* Takes the descriptor. NULL with errno; the descriptor is closed then. */
rg_link *rg_link_open(int fd, const rg_link_settings *settings);

/* Puts a frame into the queue of what is to be sent. `payload` is malloc()ed, and the link's from now
   on. -1: the link is not open. */
int rg_link_send(rg_link *link, uint8_t type, unsigned char *payload, uint64_t length);

/* The oldest frame that has come: 1 and a payload that is the caller's to free(); 0: none. */
int rg_link_take(rg_link *link, unsigned char **payload, uint64_t *length);

void rg_link_look(rg_link *link, rg_link_view *view);

/* Closes it, once what is to be sent has gone or `linger` seconds have passed. The link is gone for
   the caller at once. */
void rg_link_close(rg_link *link, double linger);

/* A descriptor that can be read when something may have changed about some link, and its emptying. */
int rg_link_news(void);
void rg_link_news_seen(void);

/* What a node does when its session is gone, or SIGTERM or SIGHUP has come, after R had a moment to end it by itself:
   removes `folder` (R's temporary one) and ends the process and its children. To be called by R's thread. */
void rg_link_end_with_session(const char *folder);

/* From now on SIGTERM and SIGHUP end the process in good order. */
void rg_link_heed_signals(void);

/* The status with which it ends: of a signal as a shell tells it. */
int rg_link_end_status(void);

#endif
