#include <iomanip>
#include <map>
#include <regatta/core.hpp>
#include <sstream>
#include <vector>

#include "check.hpp"
#include "host.hpp"

TEST(the_main_thread_prints_at_once) {
  fake_host::printed();
  regatta::Rcout << "a" << 1;
  CHECK(fake_host::printed() == "a1");
  regatta::Rcout << std::endl;
  CHECK(fake_host::printed() == "\n");
  regatta::Rcerr << "e\n";
  CHECK(fake_host::printed() == "e\n");
  regatta::Rcout << std::fixed << std::setprecision(2) << 1.0 << std::flush;
  CHECK(fake_host::printed() == "1.00");
  regatta::Rcout << std::defaultfloat << 1.5 << "\n";
  CHECK(fake_host::printed() == "1.5\n");
}

TEST(other_threads_print_by_the_main_thread) {
  fake_host::printed();
  std::thread other([] { regatta::Rcout << "from another thread" << std::endl; });
  other.join();
  CHECK(fake_host::printed() == "");
  regatta::Rcout << "";
  CHECK(fake_host::printed() == "from another thread\n");
  regatta::Thread thread([] { regatta::Rcout << "no newline"; });
  thread.join();
  CHECK(fake_host::printed() == "no newline");
}

TEST(who_waits_for_tasks_that_have_ended_prints_what_they_have_left) {
  fake_host::printed();
  const auto print = [] { regatta::Rcout << "by a task\n"; };
  regatta::ThreadPool pool(1);
  pool.pushReturn(print).get();
  pool.wait();
  CHECK(fake_host::printed() == "by a task\n");
  regatta::TaskGroup group(pool);
  group.pushReturn(print).get();
  group.wait();
  CHECK(fake_host::printed() == "by a task\n");
}

TEST(loops_print_before_they_return) {
  fake_host::printed();
  regatta::parallelFor(0, 100, [](int i) { regatta::Rcout << "line " << i << "\n"; });
  const std::string text = fake_host::printed();
  std::istringstream lines(text);
  std::map<std::string, int> seen;
  for (std::string line; std::getline(lines, line);) ++seen[line];
  CHECK(seen.size() == 100);
  CHECK(seen["line 99"] == 1);
}

TEST(lines_of_64_threads_stay_whole) {
  fake_host::printed();
  std::vector<regatta::Thread> threads;
  const int per_thread = 50;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < per_thread; ++i) {
        regatta::Rcout << "thread " << t << " says " << i << " and " << std::string(40, 'x') << '\n';
      }
    });
  }
  // The main thread's lines are made of pieces too.
  for (int i = 0; i < per_thread; ++i) {
    regatta::Rcout << "thread " << 64 << " says " << i << " and " << std::string(40, 'x') << '\n';
  }
  for (regatta::Thread& thread : threads) thread.join();
  std::istringstream lines(fake_host::printed());
  std::vector<int> next(65, 0);
  int wrong = 0;
  for (std::string line; std::getline(lines, line);) {
    int t = -1, i = -1;
    const std::string end = " and " + std::string(40, 'x');
    if (std::sscanf(line.c_str(), "thread %d says %d", &t, &i) != 2 || t < 0 || t > 64 ||
        line.size() < end.size() || line.substr(line.size() - end.size()) != end ||
        next[static_cast<std::size_t>(t)]++ != i) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
  for (int count : next) CHECK(count == per_thread);
}

TEST(progress_ends_at_a_hundred) {
  fake_host::printed();
  regatta::ProgressCounter counter(10, 1, "Counting: ");
  for (int i = 0; i < 10; ++i) counter++;
  const std::string text = fake_host::printed();
  CHECK(text.find("Counting: 100% (done)") != std::string::npos);
  CHECK(text[text.size() - 1] == '\n');

  regatta::ProgressBar bar(1000, 0);
  regatta::parallelFor(0, 1000, [&](int) { ++bar; });
  const std::string bars = fake_host::printed();
  CHECK(bars.find("100% (done)") != std::string::npos);
  CHECK(bars.find("========>") != std::string::npos);
  CHECK(++bar == 1001);
  CHECK(fake_host::printed() == "");
}

TEST(remaining_time_is_readable) {
  CHECK(regatta::detail::format_seconds(0.2) == "0s");
  CHECK(regatta::detail::format_seconds(61.0) == "1min 1s");
  CHECK(regatta::detail::format_seconds(2.0 * 86400 + 3661) == "2d 1h 1min 1s");
}
