#include <functional>
#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"

TEST(thread_runs_and_joins) {
  int value = 0;
  regatta::Thread thread([](int& out, int in) { out = in; }, std::ref(value), 5);
  CHECK(thread.joinable());
  CHECK(thread.get_id() != std::this_thread::get_id());
  thread.join();
  CHECK(!thread.joinable());
  CHECK(value == 5);
  CHECK(regatta::Thread::hardware_concurrency() == std::thread::hardware_concurrency());
}

TEST(thread_throws_at_join) {
  regatta::Thread thread([] { throw std::runtime_error("in the thread"); });
  CHECK(check::thrown([&] { thread.join(); }) == "in the thread");
  CHECK(check::thrown([&] { thread.join(); }) != "");
}

TEST(threads_move_and_swap) {
  std::atomic<int> count(0);
  std::vector<regatta::Thread> threads;
  for (int i = 0; i < 10; ++i) threads.emplace_back([&] { ++count; });
  regatta::Thread empty;
  CHECK(!empty.joinable());
  empty.swap(threads[0]);
  CHECK(empty.joinable() && !threads[0].joinable());
  threads[0] = std::move(empty);
  for (regatta::Thread& thread : threads) thread.join();
  CHECK(count.load() == 10);
}

// As a lambda does whose copy needs memory.
struct AtHomeOnly {
  std::thread::id home = std::this_thread::get_id();
  int* called;
  explicit AtHomeOnly(int* to) : called(to) {}
  AtHomeOnly(const AtHomeOnly& other) : home(other.home), called(other.called) {
    if (std::this_thread::get_id() != home) throw std::bad_alloc();
  }
  void operator()() const { ++*called; }
};

TEST(thread_copies_its_function_where_it_is_made) {
  int called = 0;
  regatta::Thread thread{AtHomeOnly(&called)};
  thread.join();
  CHECK(called == 1);
}

TEST(thread_passes_arguments_as_std_thread_does) {
  std::unique_ptr<int> owned(new int(7));
  int value = 0;
  regatta::Thread thread([&value](std::unique_ptr<int> in) { value = *in; }, std::move(owned));
  thread.join();
  CHECK(value == 7);
  struct Object {
    int value = 0;
    void set(int in) { value = in; }
  } object;
  regatta::Thread member(&Object::set, &object, 8);
  member.join();
  CHECK(object.value == 8);
}

TEST(a_destroyed_thread_is_waited_for) {
  std::atomic<bool> done(false);
  {
    regatta::Thread thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done = true;
    });
  }
  CHECK(done.load());
}

TEST(a_detached_thread_goes_on) {
  std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
  regatta::Thread thread([done] { *done = true; });
  thread.detach();
  CHECK(!thread.joinable());
  CHECK(check::wait_until([&] { return done->load(); }));
}

TEST(threads_may_run_loops) {
  std::atomic<int> count(0);
  std::vector<regatta::Thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] { regatta::parallelFor(0, 1000, [&](int) { ++count; }); });
  }
  for (regatta::Thread& thread : threads) thread.join();
  CHECK(count.load() == 6000);
}
