/* How workers and parent sleep and wake each other: take_news() in src/fork-poll.c,
   rg_fork_pool_wake() in src/fork-pool.c; next_claimed(), commit() and ring_doorbell() in
   src/fork-worker.c.

   Assumed: atomic operations take place in one order for all (they are sequentially consistent),
   claiming and pushing are single steps (the lock; claim-journal.pml looks inside), a pipe keeps
   bytes, and nobody dies. Left out on purpose: the time limit of the parent's poll(), which would
   cover up a wake-up that was lost, and the pidfds and streams that wake it too.

   Shown: every element that was handed out arrives (no state in which all sleep, and no endless
   dance), in every order of steps of the parent and two workers, with elements that come late and
   a ring that is full after two values. */

#define WORKERS 2
#define ELEMENTS 3
#define RING 2

byte queued, taken, submitted;
bool rung, parent_asleep;
byte doorbell;            /* bytes in the pipe to the parent, as far as 1 */
bool waiting[WORKERS];
byte wake[WORKERS];       /* likewise, to a worker */
bool running[WORKERS];    /* current >= 0 */
byte unread[WORKERS];     /* values in the ring */

inline ring_doorbell(was) {
  rung = true;
  atomic { was = parent_asleep; parent_asleep = false }  /* exchange */
  if
  :: was -> doorbell = 1
  :: else
  fi
}

inline wake_workers(w, seen, room, work) {
  seen = queued;
  w = 0;
  do
  :: w == WORKERS -> break
  :: w < WORKERS ->
    if
    :: waiting[w] ->
      room = running[w];
      room = room && unread[w] < RING / 2 + RING % 2;
      work = !running[w];
      work = work && seen > 0;
      if
      :: room || work -> waiting[w] = false; wake[w] = 1
      :: else
      fi
    :: else
    fi;
    w++
  od
}

active proctype parent() {
  byte w, seen; bool room, work;
  do
  :: submitted < ELEMENTS ->
    atomic { queued++; submitted++ }
    wake_workers(w, seen, room, work)
  :: taken < submitted ->
    wake_workers(w, seen, room, work);
    parent_asleep = true;
    if
    :: !rung -> atomic { doorbell > 0 -> doorbell = 0 }  /* poll() without end */
    :: rung
    fi;
    parent_asleep = false;
    rung = false;
    w = 0;
    do
    :: w == WORKERS -> break
    :: w < WORKERS -> atomic { taken = taken + unread[w]; unread[w] = 0 }; w++
    od;
    wake_workers(w, seen, room, work)
  :: taken == ELEMENTS -> break
  od
}

active [WORKERS] proctype worker() {
  byte me = _pid - 1; bool was, got;
  assert(me < WORKERS);
next:
  atomic { got = queued > 0; if :: got -> queued-- :: else fi }
  if
  :: got -> goto evaluate
  :: else
  fi;
  waiting[me] = true;
  ring_doorbell(was);
  if
  :: queued > 0 -> waiting[me] = false
  :: else ->
end_idle:
    atomic { wake[me] > 0 -> wake[me] = 0 }
    waiting[me] = false
  fi;
  goto next;
evaluate:
  running[me] = true;
  do
  :: atomic { unread[me] < RING -> unread[me]++ } break
  :: unread[me] == RING ->
    waiting[me] = true;
    ring_doorbell(was);
    if
    :: atomic { unread[me] < RING -> unread[me]++ } waiting[me] = false; break
    :: else -> atomic { wake[me] > 0 -> wake[me] = 0 } waiting[me] = false
    fi
  od;
  running[me] = false;
  if
  :: ring_doorbell(was)
  :: true  /* the parent is told of values from time to time only */
  fi;
  goto next
}

ltl arrives { <> (taken == ELEMENTS) }
