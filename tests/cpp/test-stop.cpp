#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"

namespace {

// A body that fails when `begun` bodies of an inner loop run elsewhere.
void fail_when(const std::atomic<bool>& begun) {
  check::wait_until([&] { return begun.load(); });
  throw std::runtime_error("outer");
}

}  // namespace

TEST(an_inner_loop_ends_when_the_outer_one_has_failed) {
  std::atomic<bool> begun(false), completed(false);
  std::atomic<int> inner(0);
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 2, [&](int i) {
      if (i == 1) fail_when(begun);
      regatta::parallelFor(0, 1 << 30, [&](int) {
        begun = true;
        ++inner;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }, 1);
      completed = true;
    }, 2, 2);
  }) == "outer");
  // Nobody goes on with the results of a loop that is not complete.
  CHECK(!completed.load());
  CHECK(inner.load() < 1 << 30);
  CHECK(regatta::suppressedExceptions() == 0);
}

// The frames of a body that has thrown are left with its destructors.
TEST(a_destructor_may_use_a_loop_if_it_keeps_what_that_throws) {
  struct Loops {
    std::atomic<int> &done, &stopped;
    ~Loops() {
      try {
        regatta::parallelFor(0, 1000, [this](int) { ++done; });
      } catch (const regatta::Stopped&) {
        ++stopped;
      }
    }
  };
  std::atomic<int> done(0), stopped(0);
  for (int round = 0; round < 50; ++round) {
    CHECK(check::thrown([&] {
      regatta::parallelFor(0, 1, [&](int) {
        Loops loops{done, stopped};
        throw std::runtime_error("body");
      }, 1);
    }) == "body");
  }
  CHECK(done.load() == 50000);
  CHECK(stopped.load() == 0);
  regatta::Cancellation token;
  regatta::parallelFor(0, 1, [&](int) {
    Loops loops{done, stopped};
    token.request();
  }, token);
  CHECK(done.load() == 50000);
  CHECK(stopped.load() == 1);
}

TEST(an_inner_loop_ends_when_the_outer_one_is_cancelled) {
  regatta::Cancellation token;
  std::atomic<bool> completed(false);
  regatta::parallelFor(0, 2, [&](int) {
    regatta::parallelFor(0, 1 << 30, [&](int) {
      token.request();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    completed = true;
  }, token);
  CHECK(!completed.load());
}

TEST(a_body_can_ask_whether_it_should_stop) {
  CHECK(!regatta::shouldStop());
  std::atomic<bool> begun(false), asked(false);
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 2, [&](int i) {
      if (i == 1) fail_when(begun);
      // A body of a loop inside hears of what happens around it.
      regatta::parallelFor(0, 1, [&](int) {
        begun = true;
        asked = check::wait_until([] { return regatta::shouldStop(); });
      });
    }, 2, 2);
  }) == "outer");
  CHECK(asked.load());
  regatta::Cancellation token;
  bool heard = false;
  regatta::parallelFor(0, 1, [&](int) {
    token.request();
    heard = regatta::shouldStop();
  }, token);
  CHECK(heard);
}
