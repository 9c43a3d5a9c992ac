#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"
#include "host.hpp"

namespace check {

std::atomic<long> passed(0);
double slowness = 1.0;

namespace {

std::atomic<long> failed(0);
std::mutex mutex;

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

}  // namespace

Test::Test(const char* with_name, void (*with_run)()) : name(with_name), run(with_run) {
  tests().push_back(*this);
}

namespace {

std::vector<Program>& programs() {
  static std::vector<Program> all;
  return all;
}

}  // namespace

Program::Program(const char* with_name, int (*with_run)()) : name(with_name), run(with_run) {
  programs().push_back(*this);
}

// An alarm outlives exec().
int run_program(const char* name, double seconds) {
  std::fflush(stdout);
  const unsigned limit = static_cast<unsigned>(seconds * slowness);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(limit);
    execl("/proc/self/exe", "tests", "--program", name, static_cast<char*>(nullptr));
    _exit(126);
  }
  return status_of(pid);
}

int status_of(int pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void fail(const char* file, int line, const std::string& what) {
  failed.fetch_add(1);
  std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, what.c_str());
}

}  // namespace check

namespace fake_host {

std::atomic<bool> interrupt(false);
std::atomic<int> polls(0);
std::atomic<int> wrong_thread(0);
std::atomic<int> posted_again(0);

namespace {

std::string text;
std::thread::id main_thread;

void note_thread() {
  if (std::this_thread::get_id() != main_thread) wrong_thread.fetch_add(1);
}

bool interrupted() {
  note_thread();
  polls.fetch_add(1);
  return interrupt.exchange(false);
}

void interrupt_again() {
  posted_again.fetch_add(1);
  interrupt.store(true);
}

bool print(int, const char* piece, std::size_t size) {
  note_thread();
  text.append(piece, size);
  return true;
}

}  // namespace

void install() {
  main_thread = std::this_thread::get_id();
  regatta::set_host(regatta::Host{interrupted, interrupt_again, print, nullptr});
}

std::string printed() {
  std::string now;
  now.swap(text);
  return now;
}

}  // namespace fake_host

// ./tests [FILTER]: runs the tests whose name contains FILTER.
// ./tests --program NAME: is that program.
int main(int argc, char** argv) {
  if (const char* factor = std::getenv("REGATTA_SLOWNESS")) check::slowness = std::atof(factor);
  if (argc == 3 && std::strcmp(argv[1], "--program") == 0) {
    for (const check::Program& program : check::programs()) {
      if (std::strcmp(program.name, argv[2]) == 0) return program.run();
    }
    return 125;
  }
  // A test that hangs must not hang the machine it runs on.
  alarm(static_cast<unsigned>(300 * check::slowness));
  fake_host::install();
  regatta::set_default_threads(4);
  int count = 0;
  for (const check::Test& test : check::tests()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    const long before = check::failed.load();
    try {
      test.run();
    } catch (const std::exception& error) {
      check::fail(test.name, 0, std::string("threw ") + error.what());
    }
    ++count;
    std::printf("%s %s\n", check::failed.load() == before ? "ok    " : "FAILED", test.name);
    std::fflush(stdout);
  }
  if (fake_host::wrong_thread.load() != 0) {
    check::fail("host", 0, "the host was called on another thread than the main thread");
  }
  std::printf("%d tests, %ld checks passed, %ld failed\n", count, check::passed.load(),
              check::failed.load());
  return check::failed.load() == 0 && count > 0 ? 0 : 1;
}
