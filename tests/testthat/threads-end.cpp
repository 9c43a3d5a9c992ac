#include <regatta/regatta.hpp>

// Threads and tasks that are at work when R quits, and a number that says which build this is.

namespace {

std::atomic<long> begun(0);

void push_for_ever() {
  for (int i = 0; i < 2; ++i) {
    regatta::push([] {
      while (!regatta::isInterrupted()) {
        for (int k = 0; k < 10; ++k) regatta::push([] { ++begun; });
        regatta::wait();
      }
    });
  }
}

void loop_for_ever() {
  for (int i = 0; i < 2; ++i) {
    regatta::Thread thread([] {
      for (;;) {
        try {
          regatta::parallelFor(0, 100000, [](int k) {
            if (k == 0) ++begun;
          });
        } catch (const regatta::UserInterruptException&) {
        }
      }
    });
    thread.detach();
  }
}

}  // namespace

extern "C" SEXP begin_tasks(SEXP kind) {
  return regatta::entry([&] {
    if (INTEGER(kind)[0] & 1) push_for_ever();
    if (INTEGER(kind)[0] & 2) loop_for_ever();
    while (begun.load() < 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return R_NilValue;
  });
}

extern "C" SEXP which_build() {
  static const volatile char build[] = "this is build 1";  // changed in a copy of the library
  return Rf_ScalarInteger(build[sizeof build - 2] - '0');
}
