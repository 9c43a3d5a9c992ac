#include <regatta/regatta.hpp>

extern "C" SEXP cores() {
  return regatta::entry([] { return Rf_ScalarInteger(static_cast<int>(regatta::detectCores())); });
}

// CPUs of the tightest quota, 0 without one, on the machine that the folder stands for.
extern "C" SEXP quota(SEXP root) {
  return regatta::entry([=] {
    return Rf_ScalarReal(regatta::detail::cpu_quota(CHAR(STRING_ELT(root, 0))));
  });
}
