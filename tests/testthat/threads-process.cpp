// Where a library has found the state of the process.
#include <cstdio>
#include <regatta/regatta.hpp>

extern "C" __attribute__((visibility("default"))) SEXP process_at() {
  char text[32];
  std::snprintf(text, sizeof text, "%p", static_cast<void*>(&regatta::detail::process()));
  return Rf_mkString(text);
}
