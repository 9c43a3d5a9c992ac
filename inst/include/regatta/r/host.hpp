#ifndef REGATTA_R_HOST_HPP
#define REGATTA_R_HOST_HPP

#include <dlfcn.h>
#include <signal.h>

#include <climits>

#include "../core/cores.hpp"
#include "api.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Every call into R below goes through R_ToplevelExec(): R leaves by longjmp when the user
// interrupts, and must not leave the frames of C++ that way.
inline void check_r(void*) { R_CheckUserInterrupt(); }

inline bool r_interrupted() { return R_ToplevelExec(check_r, nullptr) == FALSE; }

// R's handler notes the signal and acts on it when the call has returned.
inline void r_interrupt_again() { raise(SIGINT); }

struct RText {
  int stream;
  const char* text;
  std::size_t size;
};

// R formats into a buffer of its own, of 8192 characters where it cannot allocate.
inline void print_r(void* data) {
  const RText& piece = *static_cast<const RText*>(data);
  for (std::size_t at = 0; at < piece.size;) {
    const std::size_t part = std::min<std::size_t>(piece.size - at, 4096);
    const int length = static_cast<int>(part);
    if (piece.stream == 2) {
      REprintf("%.*s", length, piece.text + at);
    } else {
      Rprintf("%.*s", length, piece.text + at);
    }
    at += part;
  }
}

inline bool r_print(int stream, const char* text, std::size_t size) {
  RText piece = {stream, text, size};
  return R_ToplevelExec(print_r, &piece) != FALSE;
}

inline void read_r_threads(void* data) {
  SEXP value = Rf_GetOption1(Rf_install("mc.cores"));
  if (Rf_length(value) != 1 || (TYPEOF(value) != INTSXP && TYPEOF(value) != REALSXP)) return;
  const double cores = Rf_asReal(value);
  // 0 asks for no process besides this one.
  if (cores >= 0.0 && cores <= INT_MAX) {
    *static_cast<unsigned*>(data) = cores < 1.0 ? 1U : static_cast<unsigned>(cores);
  }
}

// The option mc.cores; where it is not set, the variable MC_CORES counts, as for parallel.
inline unsigned r_threads() {
  unsigned threads = 0;
  R_ToplevelExec(read_r_threads, &threads);
  return threads > 0 ? threads : env_count("MC_CORES");
}

// Code of this library may be reached from then on: by threads of the pool, and by the host's functions
// that another library calls. So it stays in memory when R unloads it.
inline void keep_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&check_r), &info) == 0 || !info.dli_fname) return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// A library is loaded on R's own thread, which so becomes the main thread.
struct HostInstaller {
  HostInstaller() {
    keep_library();
    set_host(Host{r_interrupted, r_interrupt_again, r_print, r_threads});
  }
};

namespace {
const HostInstaller host_installer;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
