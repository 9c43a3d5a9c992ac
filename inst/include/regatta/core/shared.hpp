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
struct LoadedLibrary {
  std::string name;  // empty: the program
  const void* headers;
};

REGATTA_COLD inline int note_library(dl_phdr_info* info, std::size_t, void* libraries) {
  static_cast<std::vector<LoadedLibrary>*>(libraries)
      ->push_back(LoadedLibrary{info->dlpi_name ? info->dlpi_name : "", info->dlpi_phdr});
  return 0;
}

REGATTA_COLD inline bool in_same_library(const void* one, const void* other) {
  Dl_info a, b;
  return dladdr(one, &a) != 0 && dladdr(other, &b) != 0 && a.dli_fbase == b.dli_fbase;
}

// What the library has itself: the program also sees what was loaded later for all, and a library what it depends
// on. It stays loaded then, whoever lets it go.
REGATTA_COLD inline SharedGetter look_up(const LoadedLibrary& library, const char* symbol) {
  const char* const name = library.name.empty() ? nullptr : library.name.c_str();
  void* const handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* found = dlsym(handle, symbol);
  if (found && !in_same_library(found, library.headers)) found = nullptr;
  if (found && name) dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  dlclose(handle);
  return reinterpret_cast<SharedGetter>(found);
}
#endif

// A library that exports nothing, or a system without such a list, has its own.
REGATTA_COLD inline SharedGetter find_shared(const char* symbol, SharedGetter own) {
#if defined(__ELF__)
  std::vector<LoadedLibrary> libraries;
  dl_iterate_phdr(&note_library, &libraries);
  for (const LoadedLibrary& one : libraries) {
    if (SharedGetter found = look_up(one, symbol)) return found;
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
