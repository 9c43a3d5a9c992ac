#include <cstdint>
#include <memory>
#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"
#include "host.hpp"

// What follows cheap units in the plan of a thread may be dear. These tests make units dear by
// letting them sleep, and count who ran what.

namespace {

void sleep_ms(double ms) {
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<long>(1000.0 * ms)));
}

// As many as a thread that trusts in them runs between two looks at the clock, and some.
const int cheap = 1057;

// Runs units of which the dear ones end in pairs: each waits for another one to be run beside it. On
// two threads that takes a loop whose threads never wait for work while one of them has some.
bool ends_in_pairs(const std::vector<bool>& dear) {
  std::atomic<int> arrived(0);
  std::atomic<bool> alone(false);
  regatta::parallelFor(std::size_t(0), dear.size(), [&](std::size_t i) {
    if (!dear[i] || alone) return;
    const int partner = (arrived.fetch_add(1) / 2 + 1) * 2;
    if (!check::wait_until([&] { return arrived.load() >= partner || alone; })) alone = true;
  }, 2);
  return !alone;
}

}  // namespace

TEST(a_range_gives_each_unit_once) {
  regatta::detail::StealableRange range;
  using regatta::detail::Range;
  range.set(Range{10, 20});
  CHECK(range.free() == 10 && range.left(10) == 10);
  CHECK(range.take(10, 4, 5) == 14);
  CHECK(range.claim(11) && range.claim(12));
  // Behind the limit, the rear half of all that has not begun.
  Range stolen = range.steal(false);
  CHECK(stolen.first == 16 && stolen.last == 20);
  CHECK(range.free() == 2 && !range.is_dear(5) && range.is_dear(6));
  // A look up takes nothing away.
  range.look_up();
  CHECK(!range.claim(13));
  CHECK(range.take(12, 100, 7) == 16);
  CHECK(range.free() == 0 && range.steal(false).size() == 0);
  CHECK(range.claim(13));
  stolen = range.steal(true);
  if (regatta::detail::can_fence_all()) {
    CHECK(stolen.first == 14 && stolen.last == 16);
  } else {
    CHECK(stolen.size() == 0);
  }
  CHECK(!range.claim(14));
  CHECK(range.take(13, 1, 8) == 14);
  CHECK(range.claim(14) && !range.claim(15));
}

TEST(a_running_chunk_is_stolen_from_without_losing_a_unit) {
  using namespace regatta::detail;
  const Unit units = 40000;
  std::unique_ptr<std::atomic<int>[]> runs(new std::atomic<int>[units]);
  for (Unit i = 0; i < units; ++i) runs[i].store(0);
  StealableRange range;
  std::atomic<bool> over(false);
  std::atomic<int> thefts(0);
  std::vector<std::thread> thieves;
  for (int thief = 0; thief < 2; ++thief) {
    thieves.emplace_back([&] {
      while (!over.load()) {
        const Range stolen = range.steal(true);
        for (Unit i = stolen.first; i < stolen.last; ++i) ++runs[i];
        thefts += stolen.size() > 0;
      }
    });
  }
  // As often as it takes for the system to let thieves run beside the owner.
  int rounds = 0;
  const bool stolen_from = check::wait_until([&] {
    ++rounds;
    // Refilled part by part, or the first thefts would leave nothing to the others.
    for (Unit part = 0; part < units; part += 2000) {
      range.set(Range{part, part + 2000});
      Unit at = part;
      while (range.left(at) > 0) {
        range.take(at, 300, 0);
        Unit next = at;
        while (range.claim(++next)) {
          ++runs[next - 1];
          // In the middle of a chunk, on a machine that is busy.
          if (next % 700 == 0) std::this_thread::yield();
        }
        at = next - 1;
      }
    }
    return thefts.load() > 20;
  }, 60.0);
  over = true;
  for (std::thread& thief : thieves) thief.join();
  CHECK(stolen_from);
  long wrong = 0;
  for (Unit i = 0; i < units; ++i) wrong += runs[i].load() != rounds;
  CHECK(wrong == 0);
}

TEST(units_behind_a_long_one_are_run_by_others) {
  if (!regatta::detail::can_fence_all()) return check::skip("membarrier() is not to be had");
  // The first dear unit ends when all behind it are done, though its thread had planned to run
  // them itself.
  const int dear = 1000;
  std::atomic<bool> first(true);
  std::atomic<int> done(0);
  regatta::parallelFor(0, cheap + dear, [&](int i) {
    if (i < cheap) return;
    if (first.exchange(false)) {
      CHECK(check::wait_until([&] { return done.load() == dear - 1; }, 5.0));
    } else {
      ++done;
    }
  }, 2);
  CHECK(done.load() == dear - 1);
}

TEST(loops_stay_balanced_whatever_comes_first) {
  if (!regatta::detail::can_fence_all()) return check::skip("membarrier() is not to be had");
  // Cheap, then dear; the other way round; in turns.
  std::vector<bool> dear(cheap, false);
  dear.resize(cheap + 200, true);
  CHECK(ends_in_pairs(dear));
  dear.assign(200, true);
  dear.resize(10000, false);
  CHECK(ends_in_pairs(dear));
  dear.assign(8000, false);
  for (std::size_t i = 0; i < dear.size(); ++i) dear[i] = i % 2000 < 50;
  CHECK(ends_in_pairs(dear));
  // Two neighbours anywhere.
  for (std::size_t place : {0U, 1U, 33U, 500U, 1100U, 2500U, 4998U}) {
    dear.assign(5000, false);
    dear[place] = dear[place + 1] = true;
    CHECK(ends_in_pairs(dear));
  }
  // Here and there.
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t state = seed;
    int count = 0;
    for (std::size_t i = 0; i < dear.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      dear[i] = state >> 24 == 0;
      count += dear[i];
    }
    if (count % 2 == 1) dear.push_back(true);
    CHECK(ends_in_pairs(dear));
  }
}

TEST(a_cancelled_loop_begins_no_further_unit) {
  for (std::size_t threads : {1U, 2U, 4U}) {
    regatta::Cancellation token;
    std::atomic<int> late(0);
    std::atomic<bool> requested(false);
    regatta::parallelFor(0, cheap + 4000, [&](int i) {
      if (i < cheap) return;
      late += requested.load();
      sleep_ms(1.0);
      if (i == cheap) {
        token.request();
        requested = true;
      }
    }, token, threads);
    // Others may have been between their look and their unit.
    CHECK(late.load() < static_cast<int>(threads));
  }
}

TEST(a_failed_loop_begins_no_further_unit) {
  for (std::size_t threads : {1U, 2U, 4U}) {
    std::atomic<int> late(0);
    CHECK(check::thrown([&] {
      regatta::parallelFor(0, 1000000, [&](int i) {
        if (i == 100000) throw std::runtime_error("at 100000");
        if (!regatta::shouldStop()) return;
        ++late;
        sleep_ms(1.0);
      }, threads);
    }) == "at 100000");
    // Who throws may be held up between recording the exception and telling the others.
    CHECK(late.load() <= 200);
  }
}

TEST(set_error_lets_no_further_unit_begin) {
  int later = 0;
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 100000, [&](int i) {
      if (i == 50000) regatta::setError("at 50000");
      later += i > 50000;
    }, 1);
  }) == "at 50000");
  CHECK(later == 0);
}

TEST(the_main_thread_hears_of_an_interrupt_within_one_dear_unit) {
  for (std::size_t threads : {1U, 2U}) {
    fake_host::interrupt = false;
    std::atomic<int> begun(0), late(0);
    bool interrupted = false;
    // Long enough before, for what makes it look up to be there.
    const int warm = 3000000;
    try {
      regatta::parallelFor(0, warm + 200, [&](int i) {
        if (i < warm) {
          regatta::detail::pause_cpu();
          return;
        }
        // Others may begin many while the system holds the main thread up.
        if (regatta::onMainThread()) late += fake_host::interrupt.load();
        if (++begun == 2) fake_host::interrupt = true;
        sleep_ms(100.0);
      }, threads);
    } catch (const regatta::UserInterruptException&) {
      interrupted = true;
    }
    CHECK(interrupted);
    CHECK(late.load() <= 1);
  }
}

TEST(a_loop_begun_after_an_interrupt_inside_a_body_does_not_run) {
  fake_host::interrupt = false;
  std::atomic<int> outer(0), inner(0);
  bool caught = false;
  try {
    regatta::parallelFor(0, 4, [&](int) {
      ++outer;
      fake_host::interrupt = true;
      check::wait_until([] { return regatta::isInterrupted(); });
      regatta::parallelFor(0, 1000, [&](int) { ++inner; });
    }, 1);
  } catch (const regatta::UserInterruptException&) {
    caught = true;
  }
  CHECK(caught);
  CHECK(outer.load() == 1 && inner.load() == 0);
  fake_host::interrupt = false;
}
