#ifndef REGATTA_CORE_FORK_HPP
#define REGATTA_CORE_FORK_HPP

#include <sys/mman.h>
#include <unistd.h>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Knows whether this process is the one that made the object: a forked child has the memory, but
// none of the threads. The kernel zeroes the page in a child, so that asking is one load; where
// it cannot, the process number is compared, which is a system call.
class ForkMark {
 public:
  ForkMark() : word_(nullptr), pid_(getpid()) {
    const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (!zero_in_children(page, size)) {
      munmap(page, size);
      return;
    }
    word_ = static_cast<volatile int*>(page);
    *word_ = 1;
  }
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  bool in_child() const { return word_ ? *word_ == 0 : pid_ != getpid(); }

 private:
  static bool zero_in_children(void* page, std::size_t size) {
#if defined(MADV_WIPEONFORK)
    return madvise(page, size, MADV_WIPEONFORK) == 0;
#elif defined(VM_INHERIT_ZERO)
    return minherit(page, size, VM_INHERIT_ZERO) == 0;
#else
    (void)page;
    (void)size;
    return false;
#endif
  }

  volatile int* word_;
  pid_t pid_;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
