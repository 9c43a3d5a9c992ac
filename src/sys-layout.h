#ifndef RG_SYS_LAYOUT_H
#define RG_SYS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Structures that processes share or send each other are laid out the same whatever compiles them, or
 * nothing is compiled: the file that owns one states its size, and offset and size of each member.
 * docs/ARCHITECTURE.md and docs/SHARED-MEMORY.md have them as tables. They hold where pointers have 64 bits,
 * and so numbers of 8 bytes stand at multiples of 8; on other systems nothing is stated, and both sides are
 * of one build there.
 */
#if UINTPTR_MAX == UINT64_MAX
#define RG_LAYOUT_SIZE(type, size) _Static_assert(sizeof(type) == (size), "the size of " #type)
#define RG_LAYOUT(type, member, offset, size)                                             \
  _Static_assert(offsetof(type, member) == (offset), "the offset of " #member " in " #type); \
  _Static_assert(sizeof(((type *)0)->member) == (size), "the size of " #member " in " #type)
#else
#define RG_LAYOUT_SIZE(type, size) _Static_assert(1, "")
#define RG_LAYOUT(type, member, offset, size) _Static_assert(1, "")
#endif

#endif
