#ifndef REGATTA_CORE_SHARED_HPP
#define REGATTA_CORE_SHARED_HPP

#include <atomic>
#include <string>
#include <vector>

#include "config.hpp"

#if defined(__ELF__)
#include <dlfcn.h>
#include <link.h>
#endif

REGATTA_NAMESPACE_BEGIN
namespace detail {

// What all libraries of a process have to have in common is found by name: each library exports a
// function that gives its own, and all use that of the library that was loaded first. The linker
// would make one of them all (GCC's unique symbols), but not where a package is built by clang,
// with -fno-gnu-unique, or with a visibility that the headers do not see.

using SharedGetter = void* (*)();

#if defined(__ELF__)
REGATTA_COLD inline int note_library(dl_phdr_info* info, std::size_t, void* names) {
  static_cast<std::vector<std::string>*>(names)->push_back(info->dlpi_name ? info->dlpi_name : "");
  return 0;
}

// The library stays loaded then, whoever lets it go.
REGATTA_COLD inline SharedGetter look_up(const std::string& library, const char* symbol) {
  const char* const name = library.empty() ? nullptr : library.c_str();
  void* const handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* const found = dlsym(handle, symbol);
  if (found && name) dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  dlclose(handle);
  return reinterpret_cast<SharedGetter>(found);
}
#endif

// A library that exports nothing, or a system without such a list, has its own.
REGATTA_COLD inline SharedGetter find_shared(const char* symbol, SharedGetter own) {
#if defined(__ELF__)
  std::vector<std::string> names;
  dl_iterate_phdr(&note_library, &names);
  for (const std::string& name : names) {
    if (SharedGetter found = look_up(name, symbol)) return found;
  }
#endif
  static_cast<void>(symbol);
  return own;
}

// What the function `own`, of this name, gives; looked for once by each library. acquire and release:
// two that look at the same time store the same address of code.
template <SharedGetter own>
void* shared_by(const char* symbol) {
  static std::atomic<SharedGetter> known(nullptr);
  SharedGetter getter = known.load(std::memory_order_acquire);
  if (!getter) {
    getter = find_shared(symbol, own);
    known.store(getter, std::memory_order_release);
  }
  return getter();
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
