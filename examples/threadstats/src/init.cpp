#include "entries.h"

#include <R_ext/Rdynload.h>

namespace {

// DL_FUNC is a pointer to a function without arguments; R casts it back with the count given. The
// way through void (*)() tells compilers that the change of type is meant.
template <class Entry>
DL_FUNC as_entry(Entry entry) {
  return reinterpret_cast<DL_FUNC>(reinterpret_cast<void (*)()>(entry));
}

const R_CallMethodDef entries[] = {
    {"ffi_kde", as_entry(&ffi_kde), 5},
    {"ffi_kendall", as_entry(&ffi_kendall), 3},
    {nullptr, nullptr, 0}};

}  // namespace

extern "C" void R_init_threadstats(DllInfo* dll) {
  R_registerRoutines(dll, nullptr, entries, nullptr, nullptr);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
}
