// Interrupts all kinds of loops and waits at random moments, by a real SIGINT, and checks that each
// either is complete or says that it was interrupted:  stress ROUNDS [SEED]

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <regatta/core.hpp>
#include <vector>

namespace {

volatile sig_atomic_t pending = 0;

void note_interrupt(int) { pending = 1; }

bool interrupted() {
  const bool now = pending != 0;
  if (now) pending = 0;
  return now;
}

void post_again() { raise(SIGINT); }

bool swallow(int, const char*, std::size_t) { return true; }

void busy(int turns) {
  for (int i = 0; i < turns; ++i) regatta::detail::pause_cpu();
}

struct Case {
  const char* name;
  long wanted;
  std::function<long()> run;
};

// A body that looks is interrupted at any moment, one that does not when the main thread polls.
long run_loop(int size, int turns, bool looks, std::size_t batches) {
  std::atomic<long> count(0);
  regatta::parallelFor(0, size, [&](int i) {
    busy(turns);
    if (looks) regatta::checkUserInterrupt(i % 8 == 0);
    ++count;
  }, 4, batches);
  return count.load();
}

long run_nested() {
  std::atomic<long> count(0);
  regatta::parallelFor(0, 30, [&](int) {
    regatta::parallelFor(0, 30, [&](int) {
      busy(20);
      regatta::checkUserInterrupt();
      ++count;
    });
  });
  return count.load();
}

long run_pool(bool join) {
  std::atomic<long> count(0);
  regatta::ThreadPool pool(3);
  for (int i = 0; i < 300; ++i) {
    pool.push([&] {
      busy(50);
      regatta::checkUserInterrupt();
      if (count.load() % 50 == 0) regatta::Rcout << "task" << std::endl;
      ++count;
    });
  }
  if (join) {
    pool.join();
  } else {
    pool.wait();
  }
  return count.load();
}

long run_push() {
  std::atomic<long> count(0);
  for (int i = 0; i < 300; ++i) {
    regatta::push([&] {
      busy(50);
      regatta::checkUserInterrupt();
      ++count;
    });
  }
  regatta::wait();
  return count.load();
}

long run_threads() {
  std::atomic<long> count(0);
  std::vector<regatta::Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        busy(50);
        regatta::checkUserInterrupt();
        ++count;
      }
    });
  }
  for (regatta::Thread& thread : threads) thread.join();
  return count.load();
}

long run_reduce() {
  return regatta::parallelReduce(0, 2000, 0L, [](int i) -> long {
    busy(10);
    regatta::checkUserInterrupt(i % 8 == 0);
    return i < 2000;
  });
}

long run_failing() {
  std::atomic<long> count(0);
  try {
    regatta::parallelFor(0, 300, [&](int i) {
      busy(30);
      ++count;
      if (i == 250) regatta::stop("on purpose");
    });
  } catch (const regatta::Error&) {
    return 1;
  }
  return 0;
}

const Case cases[] = {
    {"loop", 3000, [] { return run_loop(3000, 20, true, 0); }},
    {"long loop", 30000, [] { return run_loop(30000, 40, false, 0); }},
    {"tiny bodies", 300000, [] { return run_loop(300000, 0, false, 0); }},
    {"batches", 3000, [] { return run_loop(3000, 20, true, 37); }},
    {"nested", 900, run_nested},
    {"pool wait", 300, [] { return run_pool(false); }},
    {"pool join", 300, [] { return run_pool(true); }},
    {"push", 300, run_push},
    {"threads", 300, run_threads},
    {"reduce", 2000, run_reduce},
    {"failing", 1, run_failing},
};

// Sends an interrupt to the process after each number of microseconds it is given.
class User {
 public:
  User() : delay_(-1), ended_(false), thread_([this] { act(); }) {}
  ~User() {
    ended_ = true;
    thread_.join();
  }
  void interrupt_in(int us) { delay_ = us; }
  void rest() {
    while (delay_.load() >= 0) std::this_thread::yield();
  }

 private:
  void act() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (!ended_.load()) {
      const int us = delay_.load();
      if (us < 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      kill(getpid(), SIGINT);
      delay_ = -1;
    }
  }

  std::atomic<int> delay_;
  std::atomic<bool> ended_;
  std::thread thread_;
};

// 1 if it was interrupted, 0 if it was complete, -1 if neither.
int run_case(const Case& one) {
  try {
    const long count = one.run();
    if (count == one.wanted) return 0;
    std::fprintf(stderr, "%s: %ld instead of %ld, and no interrupt\n", one.name, count, one.wanted);
    return -1;
  } catch (const regatta::UserInterruptException&) {
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  const std::size_t threads = argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 4;
  alarm(1200);
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, nullptr);
  regatta::set_host(regatta::Host{interrupted, post_again, swallow, nullptr});
  regatta::set_default_threads(threads);

  std::mt19937 random(seed);
  long ended[2] = {0, 0};
  int wrong = 0;
  User user;
  for (int round = 0; round < rounds; ++round) {
    for (const Case& one : cases) {
      user.interrupt_in(static_cast<int>(random() % 3000));
      const int how = run_case(one);
      if (how >= 0) ++ended[how];
      wrong += how < 0;
      user.rest();
      // An interrupt that came too late for the work must not hit the next.
      pending = 0;
      if (run_loop(200, 0, false, 0) != 200) ++wrong;
    }
  }
  std::printf("stress: %d rounds, %ld complete, %ld interrupted, %d wrong\n", rounds, ended[0],
              ended[1], wrong);
  return wrong == 0 && ended[1] > 0 ? 0 : 1;
}
