// Loads shared objects that were compiled in different ways and lets each call each other: loops
// and tasks inside loops and tasks, exceptions, cancellation, interrupts.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../testthat/threads-package/src/part.h"

namespace {

long passed = 0;
long failures = 0;
std::string doing;

void check(bool holds, const char* what) {
  if (holds) {
    ++passed;
  } else {
    ++failures;
    std::printf("FAILED %s: %s\n", doing.c_str(), what);
  }
}

struct Loaded {
  std::string name;
  const Part* part;
};

// The inner part's work, as the outer part's body sees it.
struct Inner {
  const Part* part;
  End how;
  std::atomic<int> count;
  std::atomic<int> busy;
  std::atomic<int> most;
};

Inner* of(void* data) { return static_cast<Inner*>(data); }

void count(void* data, int) { of(data)->count.fetch_add(1); }

void hold_core(void* data, int) {
  Inner* const inner = of(data);
  const int now = inner->busy.fetch_add(1) + 1;
  int most = inner->most.load();
  while (now > most && !inner->most.compare_exchange_weak(most, now)) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(300));
  inner->busy.fetch_sub(1);
}

void loop_inside(void* data, int) { of(data)->part->loop(20, count, data); }
void tasks_inside(void* data, int) { of(data)->part->tasks(20, count, data); }
void cores_inside(void* data, int) { of(data)->part->loop(16, hold_core, data); }
void fail_inside(void* data, int) { of(data)->part->fail(of(data)->how); }
void loop_fails_inside(void* data, int) { of(data)->part->open_loop(8, fail_inside, data); }

std::atomic<bool> wants_interrupt(false);
bool take_interrupt() { return wants_interrupt.exchange(false); }

void ask_for_interrupt(void* data, int i) {
  if (i == 0 && of(data)->count.fetch_add(1) == 0) wants_interrupt = true;
  std::this_thread::sleep_for(std::chrono::microseconds(500));
}
void interrupted_inside(void* data, int) {
  of(data)->part->open_loop(100000, ask_for_interrupt, data);
}

void try_pair(const Loaded& outer, const Loaded& inner, int threads) {
  doing = outer.name + " calls " + inner.name;
  Inner state = {inner.part, complete, {0}, {0}, {0}};
  const auto fresh = [&] { state.count = state.busy = state.most = 0; };

  check(outer.part->loop(50, loop_inside, &state) == complete, "a loop in a loop ends");
  check(state.count == 1000, "a loop in a loop is complete");
  fresh();
  check(outer.part->loop(20, tasks_inside, &state) == complete, "tasks in a loop end");
  check(state.count == 400, "tasks in a loop are complete");
  fresh();
  check(outer.part->tasks(20, loop_inside, &state) == complete, "a loop in tasks ends");
  check(state.count == 400, "a loop in tasks is complete");
  fresh();
  check(outer.part->tasks(20, tasks_inside, &state) == complete, "tasks in tasks end");
  check(state.count == 400, "tasks in tasks are complete");
  fresh();
  check(outer.part->cancelled(1000000, 0, loop_inside, &state), "a loop is cancelled");
  for (End how : {failed, failed_with_error, other_end}) {
    state.how = how;
    check(outer.part->loop(50, fail_inside, &state) == how, "an exception comes out of a loop");
    check(outer.part->tasks(50, fail_inside, &state) == how, "an exception comes out of tasks");
    check(outer.part->loop(50, loop_fails_inside, &state) == how, "one comes out of two loops");
  }
  fresh();
  check(outer.part->loop(4, interrupted_inside, &state) == interrupted, "an interrupt is one outside");
  fresh();
  check(outer.part->loop(8, cores_inside, &state) == complete, "a loop that holds cores ends");
  check(state.most >= 1 && state.most <= threads, "no more threads than cores are at work");
}

// Tasks of two parts at the same time: what one's have thrown, and that they were cancelled, is nothing
// to the other.
void try_beside(const Loaded& one, const Loaded& other) {
  doing = one.name + " beside " + other.name;
  Inner state = {one.part, failed, {0}, {0}, {0}};
  one.part->push(20, fail_inside, &state);
  check(other.part->tasks(100, count, &state) == complete, "failures leave another's tasks alone");
  check(state.count == 100, "tasks beside those that fail are complete");
  check(one.part->wait() == failed, "the failure is where it belongs");
  state.count = 0;
  one.part->push(20, hold_core, &state);
  other.part->push(100, count, &state);
  one.part->cancel();
  check(other.part->wait() == complete, "a cancellation leaves another's tasks alone");
  check(state.count == 100, "tasks beside those that are cancelled are complete");
  check(one.part->wait() == complete, "tasks that were cancelled are waited for");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = 4;
  setenv("REGATTA_THREADS", "4", 1);
  std::vector<Loaded> loaded;
  for (int i = 1; i < argc; ++i) {
    void* const handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    void* const found = handle ? dlsym(handle, "regatta_test_part") : nullptr;
    if (!found) {
      std::printf("FAILED to load %s: %s\n", argv[i], dlerror());
      return 1;
    }
    const Part* const part = reinterpret_cast<const Part* (*)()>(found)();
    const char* const slash = std::strrchr(argv[i], '/');
    loaded.push_back(Loaded{slash ? slash + 1 : argv[i], part});
    part->set_interrupted(take_interrupt);
  }
  for (const Loaded& one : loaded) {
    for (const Loaded& other : loaded) {
      doing = one.name + " beside " + other.name;
      const bool same = std::strcmp(one.part->abi, other.part->abi) == 0;
      check((one.part->process() == other.part->process()) == same, "they share as their ABI says");
      try_pair(one, other, threads);
      if (one.part != other.part) try_beside(one, other);
    }
  }
  std::printf("%ld checks of %zu builds, %ld failed\n", passed + failures, loaded.size(), failures);
  return failures == 0 ? 0 : 1;
}
