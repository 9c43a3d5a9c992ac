#include "sys-random.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"

uint64_t rg_random_tag(void) {
  uint64_t tag = 0;
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, &tag, sizeof tag) : -1;
  rg_fd_close(&fd);
  /* Without random bytes the tag still tells the memory of one machine apart. */
  return n == (ssize_t)sizeof tag ? tag : (uint64_t)rg_clock_now() << 20 ^ (uint64_t)getpid();
}
