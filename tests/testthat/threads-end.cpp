#include <regatta/regatta.hpp>

#include "threads-endless.hpp"

// Threads and tasks that are at work when R quits, and a number that says which build this is.

namespace {

std::atomic<long> begun(0);

}  // namespace

extern "C" SEXP begin_tasks(SEXP kind) {
  return regatta::entry([&] {
    for (int i = 0; i < 2; ++i) {
      if (INTEGER(kind)[0] & 1) endless::push_tasks(begun);
      if (INTEGER(kind)[0] & 2) endless::detach_loops(begun);
    }
    while (begun.load() < 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return R_NilValue;
  });
}

extern "C" SEXP which_build() {
  static const volatile char build[] = "this is build 1";  // changed in a copy of the library
  return Rf_ScalarInteger(build[sizeof build - 2] - '0');
}
