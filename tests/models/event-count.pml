/* How threads of the C++ pool sleep and are woken: EventCount in
   inst/include/regatta/core/event-count.hpp, Pool::push() and Pool::park().

   Assumed: the operations on the state, and the stores and loads of the work around them, take place
   in one order for all (they are seq_cst); the condition variable wakes no one without cause. Left
   out on purpose: limits of time, which would cover up a wake-up that was lost.

   Shown: with two sleepers and three tasks from one pusher, who looks for sleepers after each, every
   task is begun, by whoever; nobody sleeps uncounted; and there are no more grants than sleepers. */

#define SLEEPERS 2
#define TASKS 3

byte work, begun;
byte number, sleepers;  /* both in one word: read and written together */
byte waiting, grants;
byte inside, signals;   /* of the condition variable: who wait in it, and how many of these it wakes */
bool locked;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

active proctype pusher() {
  byte pushed, woken; bool any;
  do
  :: pushed < TASKS ->
    work++;
    pushed++;
    any = sleepers > 0;
    if
    :: any ->
      lock();
      woken = (waiting > 0 -> 1 : 0);
      waiting = waiting - woken;
      grants = grants + woken;
      atomic { number++; sleepers = waiting }
      signals = signals + woken;
      unlock()
    :: else
    fi
  :: else -> break
  od
}

active [SLEEPERS] proctype sleeper() {
  byte ticket; bool got;
  do
  :: atomic { got = work > 0; if :: got -> work--; begun++ :: else fi }
    if
    :: got
    :: else ->
      atomic { sleepers++; ticket = number }
      if
      :: work > 0 ->
        atomic { if :: number == ticket -> sleepers-- :: else fi }
      :: else ->
        lock();
        if
        :: number != ticket -> unlock()
        :: else ->
          waiting++;
          do
          :: grants > 0 && number != ticket -> break
          :: else ->
            atomic { unlock(); inside++ }
end_asleep:
            atomic { signals > 0 -> signals--; inside-- }
            lock()
          od;
          grants--;
          unlock()
        fi
      fi
    fi;
    assert(grants <= SLEEPERS && waiting <= SLEEPERS && sleepers <= SLEEPERS);
    assert(locked || sleepers >= waiting)
  od
}

ltl arrives { <> (begun == TASKS) }
