#ifndef RG_FORK_CONSOLE_H
#define RG_FORK_CONSOLE_H

/* In a worker, forked or not: R's console has no input from now on. */
void rg_fork_console_close(void);

/* In a forked one: it is not interactive, and R knows that it is a child. */
void rg_fork_console_mark(void);

#endif
