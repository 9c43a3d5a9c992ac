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
  char *base;
  size_t open, size; /* how much of the region from `base` on may be touched; what was asked for */
  uintptr_t mark;
} header;

/* Freed regions that are used again, as libhdf5 asks for the same sizes with each file, and fresh pages take longer
   than all it does with them. The program has one thread. */
enum { KEPT = 64, KEPT_SIZE = 1 << 20 };
static struct {
  char *base;
  size_t open;
} kept[KEPT];

static uintptr_t mark_of(const void *block) { return ~(uintptr_t)block; }

static int is_guarded(const void *block) {
  return block && ((const header *)block)[-1].mark == mark_of(block);
}

static size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

static char *take_kept(size_t open) {
  for (int i = 0; i < KEPT; i++) {
    if (!kept[i].base || kept[i].open != open) continue;
    char *base = kept[i].base;
    kept[i].base = NULL;
    return base;
  }
  return NULL;
}

static void keep(char *base, size_t open) {
  static int next;
  if (open <= KEPT_SIZE) {
    char *other = kept[next].base;
    const size_t other_open = kept[next].open;
    kept[next].base = base;
    kept[next].open = open;
    next = (next + 1) % KEPT;
    base = other;
    open = other_open;
  }
  if (base) munmap(base, open + closed);
}

/* A new region, whose memory is zero, or NULL. */
static char *map_region(size_t open) {
  char *base = mmap(NULL, open + closed, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  if (mprotect(base, open, PROT_READ | PROT_WRITE) == 0) return base;
  munmap(base, open + closed);
  return NULL;
}

/* NULL: not so. */
static void *guarded(size_t size, int zero) {
  if (size < GUARDED_FROM || size > SIZE_MAX / 4) return NULL;
  const size_t block = round_up(size, ALIGNMENT);
  const size_t open = round_up(block + sizeof(header), (size_t)sysconf(_SC_PAGESIZE));
  char *base = take_kept(open);
  if (base && zero) memset(base, 0, open);
  if (!base && !(base = map_region(open))) return NULL;
  header *at = (header *)(void *)(base + open - block) - 1;
  at->base = base;
  at->open = open;
  at->size = size;
  at->mark = mark_of(at + 1);
  return at + 1;
}

SEEN void *malloc(size_t size) {
  void *block = guarded(size, 0);
  return block ? block : __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size) {
  void *block = size == 0 || count <= SIZE_MAX / size ? guarded(count * size, 1) : NULL;
  return block ? block : __libc_calloc(count, size);
}

SEEN void free(void *block) {
  if (is_guarded(block)) {
    header *at = (header *)block - 1;
    at->mark = 0; /* to free it twice is a crash */
    keep(at->base, at->open);
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
