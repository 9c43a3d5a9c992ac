/* How workers join and leave a loop that lies on its caller's stack: Rundown in
   inst/include/regatta/core/loop.hpp, Pool::run_together(), wait_for_workers() and leave().

   Assumed: operations on the word, and the prepared sleep of the caller, take place in one order; the
   number of the loop does not come round (it has 32 bits) while a worker is between its look and its
   join. The event count is one bell here; event-count.pml looks inside.

   Shown: with two workers and two loops at the same rundown, one after the other, nobody touches a loop
   that is over, none that it has not joined, and the caller goes on when the last has left. */

#define WORKERS 2
#define LOOPS 2

byte number, inside; bool open;  /* the word: read and written together */
byte alive;                      /* the number of the loop that lies on the stack, 0 for none */
bool asleep, bell;
byte returned;

active proctype caller() {
  byte left; byte round;
  for (round : 1 .. LOOPS) {
    alive = round;
    atomic { number = round; inside = 0; open = true }
    atomic { left = inside; open = false }
    do
    :: inside == 0 -> break
    :: else ->
      asleep = true;
      if
      :: inside == 0
      :: else -> atomic { bell -> bell = false }
      fi;
      asleep = false
    od;
    alive = 0;
    returned++
  }
}

active [WORKERS] proctype worker() {
  byte seen, seen_inside, before; bool seen_open, joined, closed;
  do
  :: returned == LOOPS -> break
  :: else ->
    atomic { seen = number; seen_inside = inside; seen_open = open }
    if
    :: seen_open && seen_inside < WORKERS ->
      atomic {
        joined = (number == seen && inside == seen_inside && open == seen_open);
        if
        :: joined -> inside++
        :: else
        fi
      }
      if
      :: joined ->
        assert(alive == seen);
        assert(alive == seen);
        atomic { before = inside; inside--; closed = !open }
        if
        :: before == 1 && closed -> atomic { if :: asleep -> bell = true :: else fi }
        :: else
        fi
      :: else
      fi
    :: else
    fi
  od
}

ltl arrives { <> (returned == LOOPS) }
