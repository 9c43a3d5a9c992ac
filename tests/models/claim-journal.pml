/* The task queue with workers that die anywhere: rg_queue_claim(), rg_queue_next(),
   rg_queue_give_back() and rg_queue_recover() in src/queue.c, with the journal that the next
   holder of the lock carries out.

   Assumed: the lock is robust (whoever comes after a holder that died gets it and is told), and
   stores are seen in their order, which is why `armed` is stored last. Each store is a step, and
   a worker may die before any of them; the parent does not die, since that ends the run.

   Shown: in every order of steps of two workers, with up to two deaths, every element is begun
   once, or is the one that was running at a death, or waits; none is lost, none begun twice. */

#define ELEMENTS 3
#define WORKERS 2
#define PLACES 4 /* a power of two */
#define NONE 9
#define PARENT 2

mtype = { WORKING, ASLEEP, DEAD }

byte order[PLACES];
byte head, tail;       /* order[head .. tail) wait */
byte owner = NONE;     /* of the lock */
bool died_inside;

bool armed;
byte j_worker, j_head, j_size, j_done;

typedef slot { byte claim[2]; byte size; byte done; byte current }
slot slots[WORKERS];
mtype state[WORKERS];
byte deaths;

byte begun[ELEMENTS], lost[ELEMENTS], kept[ELEMENTS];

/* A worker may end before any step; the system gives its lock to the next who asks. */
#define MORTAL                                                        \
  if                                                                  \
  :: atomic { deaths < 2 -> deaths++; state[me] = DEAD;               \
       if :: owner == me -> owner = NONE; died_inside = true :: else fi } \
     goto gone                                                        \
  :: true                                                             \
  fi

inline apply_journal() {
  if
  :: armed ->
    head = j_head;
    slots[j_worker].done = j_done;
    slots[j_worker].size = j_size;
    armed = false
  :: else
  fi
}

inline lock(who) {
  atomic { owner == NONE -> owner = who }
  if
  :: died_inside -> apply_journal(); died_inside = false
  :: else
  fi
}

proctype worker(byte me) {
  byte count, at, element;
next:
  MORTAL;
  if
  :: slots[me].done == slots[me].size -> goto claim
  :: else
  fi;
  element = slots[me].claim[slots[me].done];
  MORTAL;
  slots[me].current = element;
  MORTAL;
  slots[me].done++;
  MORTAL;
  atomic { begun[element]++; slots[me].current = NONE } /* it has run, and its end is told */
  if
  :: goto next
  :: true
  fi;

  /* rg_queue_give_back() */
  MORTAL;
  lock(me);
  count = slots[me].size - slots[me].done;
  at = 0;
  do
  :: at == count -> break
  :: at < count ->
    MORTAL;
    order[(head - count + at) % PLACES] = slots[me].claim[slots[me].done + at];
    at++
  od;
  MORTAL;
  j_worker = me; j_head = head - count;
  MORTAL;
  j_size = slots[me].done; j_done = slots[me].done;
  goto carry_out;

claim: /* rg_queue_claim(), of one or two */
  lock(me);
  if
  :: head == tail -> count = 0
  :: tail - head > 0 -> count = 1
  :: tail - head > 1 -> count = 2
  fi;
  at = 0;
  do
  :: at == count -> break
  :: at < count ->
    MORTAL;
    slots[me].claim[at] = order[(head + at) % PLACES];
    at++
  od;
  MORTAL;
  j_worker = me; j_head = head + count;
  MORTAL;
  j_size = count; j_done = 0;

carry_out:
  MORTAL;
  armed = true;
  MORTAL;
  head = j_head;
  MORTAL;
  slots[me].done = j_done;
  MORTAL;
  slots[me].size = j_size;
  MORTAL;
  armed = false;
  MORTAL;
  owner = NONE;
  if
  :: slots[me].size > 0 || count > 0 -> goto next
  :: else -> state[me] = ASLEEP
  fi;
gone:
  skip
}

/* rg_queue_recover(): what was claimed and not begun is handed out anew, what ran is lost. */
inline bury(w) {
  lock(PARENT);
  at = slots[w].done;
  do
  :: at >= slots[w].size -> break
  :: else ->
    if
    :: slots[w].claim[at] != slots[w].current -> kept[slots[w].claim[at]]++
    :: else
    fi;
    at++
  od;
  if
  :: slots[w].current != NONE -> lost[slots[w].current]++
  :: else
  fi;
  slots[w].done = 0; slots[w].size = 0; slots[w].current = NONE;
  owner = NONE;
  buried[w] = true
}

#define SETTLED(w) (state[w] == ASLEEP || (state[w] == DEAD && buried[w]))

init {
  byte at, e, waits; bool buried[WORKERS];
  d_step {
    slots[0].current = NONE; slots[1].current = NONE;
    state[0] = WORKING; state[1] = WORKING;
    order[1] = 0; order[2] = 1; order[3] = 2; head = 5; tail = 8
  }
  atomic { run worker(0); run worker(1) }
  do
  :: state[0] == DEAD && !buried[0] -> bury(0)
  :: state[1] == DEAD && !buried[1] -> bury(1)
  :: SETTLED(0) && SETTLED(1) -> break
  od;
  lock(PARENT); /* a journal may have been left behind */
  e = 0;
  do
  :: e == ELEMENTS -> break
  :: e < ELEMENTS ->
    waits = 0;
    at = head;
    do
    :: at == tail -> break
    :: at < tail ->
      if
      :: order[at % PLACES] == e -> waits++
      :: else
      fi;
      at++
    od;
    assert(begun[e] + lost[e] + kept[e] + waits == 1);
    e++
  od
}
