#ifndef REGATTA_CORE_SLOT_HPP
#define REGATTA_CORE_SLOT_HPP

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "group.hpp"
#include "loop.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// How long a worker goes on looking for work before it sleeps: about as long as waking it takes,
// so that loops that follow each other closely find it awake.
constexpr double spin_us = 60.0;
// A loop that is over sooner than this is left to its caller.
constexpr double ripe_us = 0.7;
// Work that is worth waking a worker for, which takes some 50 us.
constexpr double wake_us = 60.0;
// How often one of the sleeping workers looks for a loop whose first unit takes long, and how
// long nothing may happen until it stops doing so.
constexpr double search_us = 2000.0;
constexpr double search_until_us = 1e6;

// Where a worker has seen a certain loop.
struct SeenLoop {
  bool is(const Rundown* at, std::uint64_t word) const {
    return rundown == at && number == Rundown::number(word);
  }
  const Rundown* rundown;
  std::uint32_t number;
  Ticks when;
};

// What one thread has in a pool: where it opens its loops, and the tasks it has fetched. Those of the
// pool's own threads are theirs, others are lent to threads that are in a loop or wait for tasks.
// Levels, ring and what is atomic are read by others, the rest is the thread's own.
struct Slot {
  Level levels[max_levels];
  int depth = 0;  // loops that are open
  SpinLock lent;
  RunQueue run_queue;
  Padding apart;

  // Tasks done that their group has not been told of; it is there as long as there are any.
  Group* done_group = nullptr;
  std::uint64_t done = 0;
  Magazine magazine;      // of these
  bool emptied = false;   // the queue, when it last fetched tasks
  bool called = false;    // by a caller who knows that there is enough work
  bool searching = false;  // counts among those that look for loops
  SeenLoop candidate = {nullptr, 0, 0};
  SeenLoop left = {nullptr, 0, 0};
  Ticks last_work = 0;
  std::uint64_t loops_seen = 0;
};

// Signals are for the threads of the host: its handlers expect to run there. Faults are left
// alone, since they come to the thread that made them.
class SignalsBlocked : NoCopy {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
