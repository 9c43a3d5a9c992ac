/* Memory of the program that is asked first: behind a block of a page or more lies a region that nobody may touch, so
   that what reads or writes beyond the end crashes here each time, and not by chance, in the session then. libhdf5
   1.10 does not compare an index that a file gives for a global heap, of 16 bits, with the size of its table. Where
   the C library is not GNU's, chance has to do; sanitizers have a memory of their own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

enum { GUARDED_FROM = 4096, ALIGNMENT = 16 };
/* Farther than 65,536 entries of 32 bytes. */
static const size_t closed = 4 << 20;

/* Lies just before a guarded block. There glibc has the size of its own ones, which is never such a number. */
typedef struct {
  void *base;
  size_t mapped, size;
  uintptr_t mark;
} header;

static uintptr_t mark_of(const void *block) { return ~(uintptr_t)block; }

static int is_guarded(const void *block) {
  return block && ((const header *)block)[-1].mark == mark_of(block);
}

static size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

/* NULL: not so. The memory is zero. */
static void *guarded(size_t size) {
  if (size < GUARDED_FROM || size > SIZE_MAX / 4) return NULL;
  const size_t block = round_up(size, ALIGNMENT);
  const size_t open = round_up(block + sizeof(header), (size_t)sysconf(_SC_PAGESIZE));
  char *base = mmap(NULL, open + closed, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  if (mprotect(base, open, PROT_READ | PROT_WRITE) < 0) {
    munmap(base, open + closed);
    return NULL;
  }
  header *at = (header *)(void *)(base + open - block) - 1;
  at->base = base;
  at->mapped = open + closed;
  at->size = size;
  at->mark = mark_of(at + 1);
  return at + 1;
}

SEEN void *malloc(size_t size) {
  void *block = guarded(size);
  return block ? block : __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size) {
  void *block = size == 0 || count <= SIZE_MAX / size ? guarded(count * size) : NULL;
  return block ? block : __libc_calloc(count, size);
}

SEEN void free(void *block) {
  if (is_guarded(block)) {
    const header *at = (const header *)block - 1;
    munmap(at->base, at->mapped);
  } else {
    __libc_free(block);
  }
}

SEEN void *realloc(void *block, size_t size) {
  if (!block) return malloc(size);
  if (!is_guarded(block) && size < GUARDED_FROM) return __libc_realloc(block, size);
  const size_t before = is_guarded(block) ? ((const header *)block)[-1].size : malloc_usable_size(block);
  void *moved = size > 0 ? malloc(size) : NULL;
  if (size > 0 && !moved) return NULL;
  if (moved) memcpy(moved, block, before < size ? before : size);
  free(block);
  return moved;
}
#endif
