#ifndef RG_SYS_SPAWN_H
#define RG_SYS_SPAWN_H

#include <sys/types.h>

/* The number under which a program that rg_spawn() starts finds its end of the connection. */
enum { RG_SPAWN_LINE = 3 };

/* Starts a program as a child of this process, in a process group of its own. It inherits `line` as
   descriptor RG_SPAWN_LINE and `output` as stdout and stderr, reads from nowhere, and has no other
   descriptor of this process; signals are as at the start of a program. `arguments` begin with the
   path of the program; both lists end with NULL. The memory of this process, however much it has, is
   not copied. Its pid, or -1 with errno set. */
pid_t rg_spawn(char *const arguments[], char *const environment[], int line, int output);

#endif
