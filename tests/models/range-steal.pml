/* How a thread takes units from one that is in a long chunk: StealableRange in
   inst/include/regatta/core/range.hpp, claim(), take() and steal(true).

   Assumed: a core keeps its stores back for some time, in their order, and its loads overtake them
   (as on x86; no weaker order is looked at); the lock makes its owner's stores seen; membarrier()
   makes the owner's stores seen that it has made before. The body of a unit is one step.

   Shown: one owner with four units, planned as one chunk, and one thief who comes at any time, twice
   if it likes: every unit is begun once. */

#define UNITS 4

byte begun[UNITS];
byte bound, limit, last = UNITS;
byte next, kept_next; bool keeps;  /* next_ as others see it, and as the owner's core has it */
bool locked, owner_done, thief_done;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }
inline see() { d_step { if :: keeps -> next = kept_next; keeps = false :: else fi } }

active proctype owner() {
  byte at, to; bool goes_on;
  do
  :: atomic { at >= last -> break }
  :: else ->
    lock();
    see();
    to = last;
    next = at;
    limit = to;
    bound = to;
    unlock();
    do
    :: at >= to -> break
    :: else ->
      atomic { kept_next = at + 1; keeps = true }
      goes_on = at + 1 <= bound;
      if
      :: goes_on -> begun[at]++; at++
      :: else -> break
      fi
    od
  od;
  owner_done = true
}

active proctype buffer() {
end_empty:
  do
  :: atomic { keeps -> next = kept_next; keeps = false }
  od
}

active proctype thief() {
  byte first, end, from, round;
  for (round : 1 .. 2) {
    if
    :: true ->
      lock();
      bound = 0;
      see();
      limit = (next < limit -> next : limit);
      from = (next < limit -> next : limit);
      end = last;
      first = from + (end - from) / 2;
      first = (first < limit -> limit : first);
      if
      :: first < end -> last = first
      :: else -> first = end
      fi;
      unlock();
      do
      :: first < end -> begun[first]++; first++
      :: else -> break
      od
    :: true
    fi
  };
  thief_done = true
}

active proctype check() {
  byte i;
  owner_done && thief_done;
  for (i : 0 .. UNITS - 1) { assert(begun[i] == 1) }
}
