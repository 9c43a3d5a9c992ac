#include <regatta/core.hpp>
#include <thread>

#include "check.hpp"

namespace {

const auto never = [] { return false; };

}  // namespace

// A notification is for those who slept when it was given. One who comes later, and is awake before
// they are, leaves it to them.
TEST(a_late_sleeper_uses_up_no_notification) {
  regatta::detail::EventCount sleepers;
  std::atomic<int> begun(0), woken(0);
  std::atomic<bool> over(false);
  const int rounds = 200;
  std::thread sleeper([&] {
    for (int i = 0; i < rounds && !over; ++i) {
      ++begun;
      if (sleepers.wait_unless(never, 20e6 * check::slowness)) ++woken;
    }
  });
  int taken = 0;
  for (int i = 0; i < rounds; ++i) {
    CHECK(check::wait_until([&] { return begun.load() == i + 1 && sleepers.any(); }));
    // Time to be asleep, which it only is about to be so far.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    sleepers.notify(1);
    taken += sleepers.wait_unless(never, 100.0);
    CHECK(check::wait_until([&] { return woken.load() == i + 1; }, 5.0));
    if (woken.load() != i + 1) break;
  }
  over = true;
  sleepers.notify_all();
  sleeper.join();
  CHECK(taken == 0);
  CHECK(woken.load() == rounds);
}

TEST(a_sleeper_that_nobody_wakes_is_counted_no_more) {
  regatta::detail::EventCount sleepers;
  CHECK(!sleepers.any());
  CHECK(!sleepers.wait_unless(never, 100.0));
  CHECK(!sleepers.any());
  // The second look: what came while it prepared keeps it awake.
  CHECK(!sleepers.wait_unless([&] { return sleepers.any(); }, -1.0));
  CHECK(!sleepers.any());
  // So does a notification that came between its look and its sleep, though it finds nobody asleep.
  CHECK(sleepers.wait_unless([&] {
    sleepers.notify(1);
    return false;
  }, 20e6 * check::slowness));
  CHECK(!sleepers.any());
}
