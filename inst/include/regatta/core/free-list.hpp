#ifndef REGATTA_CORE_FREE_LIST_HPP
#define REGATTA_CORE_FREE_LIST_HPP

#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <new>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// A block of memory while no task is in it.
struct FreeBlock {
  FreeBlock* next;
};

// Blocks for tasks. One thread pushes a task and another one destroys it: the system's allocator
// has to hand each block back under a lock, so that they go round here instead. As many as one run
// of pushes needs are kept until the pool ends.
class TaskFreeList {
 public:
  // Holds a task whose function and arguments take some 90 bytes; larger ones are allocated singly.
  static constexpr std::size_t size = 128;

  ~TaskFreeList() {
    free_all(ready_);
    free_all(returned_.load(std::memory_order_acquire));
  }

  // Who finds another thread taking does not wait for it.
  void* take() {
    FreeBlock* block = nullptr;
    if (taking_.try_lock()) {
      // acquire: pairs with give(). All are taken at once, so that no block comes back in between.
      if (!ready_ && returned_.load(std::memory_order_relaxed)) {
        kept_.store(0, std::memory_order_relaxed);
        ready_ = returned_.exchange(nullptr, std::memory_order_acquire);
      }
      block = ready_;
      if (block) ready_ = block->next;
      taking_.unlock();
    }
    return block ? block : allocate();
  }

  // The blocks from `first` to `last`. release: what was in them is done with. relaxed on their
  // count: whether a few more or less are kept is of no importance.
  void give(FreeBlock* first, FreeBlock* last, unsigned count) {
    if (kept_.load(std::memory_order_relaxed) > most_kept) {
      last->next = nullptr;
      free_all(first);
      return;
    }
    kept_.fetch_add(count, std::memory_order_relaxed);
    last->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(last->next, first, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

 private:
  // 2 MB and what malloc() adds, of those returned; as many may be ready.
  static constexpr unsigned most_kept = 1 << 14;

  static void* allocate() {
    void* const block = malloc(size);
    if (!block) throw std::bad_alloc();
    return block;
  }

  static void free_all(FreeBlock* block) {
    while (block) {
      FreeBlock* const next = block->next;
      free(block);
      block = next;
    }
  }

  SpinLock taking_;
  FreeBlock* ready_ = nullptr;  // of the thread that is taking
  std::atomic<FreeBlock*> returned_{nullptr};
  std::atomic<unsigned> kept_{0};  // of those returned
};

// Blocks on their way back, which go in bundles.
class Magazine {
 public:
  void add(void* memory, TaskFreeList& to) {
    FreeBlock* const block = new (memory) FreeBlock{first_};
    if (!first_) last_ = block;
    first_ = block;
    if (++count_ == 32) send(to);
  }

  void send(TaskFreeList& to) {
    if (!first_) return;
    to.give(first_, last_, count_);
    first_ = last_ = nullptr;
    count_ = 0;
  }

 private:
  FreeBlock* first_ = nullptr;
  FreeBlock* last_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
