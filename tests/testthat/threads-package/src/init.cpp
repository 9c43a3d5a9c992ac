#include "part.h"

#include <regatta/regatta.hpp>

#include <R_ext/Rdynload.h>

namespace {

struct Inner {
  const Part* part;
  std::atomic<int> count;
};

void count(void* data, int) { static_cast<Inner*>(data)->count.fetch_add(1); }
void loop_inside(void* data, int) { static_cast<Inner*>(data)->part->loop(20, count, data); }
void tasks_inside(void* data, int) { static_cast<Inner*>(data)->part->tasks(20, count, data); }
void fail_inside(void* data, int) { static_cast<Inner*>(data)->part->fail(failed_with_error); }

}  // namespace

extern "C" const Part* regatta_test_part();

extern "C" SEXP meet(SEXP other) {
  return regatta::entry([=] {
    SEXP values = PROTECT(Rf_allocVector(INTSXP, 8));
    int* const value = INTEGER(values);
    const char* const name = CHAR(STRING_ELT(other, 0));
    const Part* const own = regatta_test_part();
    auto get = reinterpret_cast<const Part* (*)()>(R_GetCCallable(name, "regatta_test_part"));
    Inner inner = {get(), {0}};
    value[0] = own->loop(50, loop_inside, &inner);
    value[1] = own->tasks(50, loop_inside, &inner);
    value[2] = own->loop(50, tasks_inside, &inner);
    value[3] = own->tasks(50, tasks_inside, &inner);
    value[4] = inner.count;
    value[5] = own->loop(50, fail_inside, &inner);
    value[6] = own->cancelled(1000000, 0, loop_inside, &inner);
    value[7] = own->process() == inner.part->process();
    UNPROTECT(1);
    return values;
  });
}

extern "C" SEXP work(SEXP function) {
  return regatta::entry([=]() -> SEXP {
    const std::string memory(100, 'x');
    const SEXP value = regatta::callR([=] {
      SEXP call = PROTECT(Rf_lang1(function));
      SEXP result = Rf_eval(call, R_GlobalEnv);
      UNPROTECT(1);
      return result;
    });
    std::atomic<int> sum(0);
    regatta::parallelFor(0, 1000, [&](int i) { sum += i % 2; });
    if (sum != 500) regatta::stop("the loop is not complete");
    return value;
  });
}

extern "C" SEXP compiler() {
#ifdef __clang__
  return Rf_mkString("clang");
#else
  return Rf_mkString("gcc");
#endif
}

static const R_CallMethodDef entries[] = {
    {"C_compiler", reinterpret_cast<DL_FUNC>(&compiler), 0},
    {"C_meet", reinterpret_cast<DL_FUNC>(&meet), 1},
    {"C_work", reinterpret_cast<DL_FUNC>(&work), 1},
    {nullptr, nullptr, 0}};

extern "C" __attribute__((visibility("default"))) void R_init_NAME(DllInfo* dll) {
  R_registerRoutines(dll, nullptr, entries, nullptr, nullptr);
  R_useDynamicSymbols(dll, FALSE);
  R_RegisterCCallable("NAME", "regatta_test_part", reinterpret_cast<DL_FUNC>(&regatta_test_part));
}
