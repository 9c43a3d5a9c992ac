#ifndef RG_SYS_RANDOM_H
#define RG_SYS_RANDOM_H

#include <stdint.h>

/* A number that nobody can guess, to tell memory of one process from that of another. */
uint64_t rg_random_tag(void);

#endif
