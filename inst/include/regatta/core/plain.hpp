#ifndef REGATTA_CORE_PLAIN_HPP
#define REGATTA_CORE_PLAIN_HPP

#include <cstdio>

#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// For programs without a host: prints to the streams of C, which a package of R must not name.
inline bool print_plain(int stream, const char* text, std::size_t size) {
  std::FILE* file = stream == 2 ? stderr : stdout;
  std::fwrite(text, 1, size, file);
  std::fflush(file);
  return true;
}

// Static objects are made on the main thread, where a host may have come first.
struct PlainInstaller {
  PlainInstaller() {
    if (!process().host().print) set_host(Host{nullptr, nullptr, print_plain, nullptr});
  }
};

namespace {
const PlainInstaller plain_installer;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
