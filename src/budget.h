#ifndef RG_BUDGET_H
#define RG_BUDGET_H

#include <stdint.h>

/*
 * A number of cores that processes of one user on this machine use together, whatever sessions they belong to. Each
 * core is a token, one byte of a file that exists for nothing else: whoever has the lock of the byte has the core. It is
 * a lock of a process, which no fork inherits and which the kernel takes back from a process that ends, however it does.
 * So nobody keeps books, and nothing is left that could be wrong.
 *
 * A byte more says who waits: a shared lock of each process that wants a token and is not of low priority. Those of low
 * priority take tokens only while nobody has one, and a holder that has had its turn gives its token to who waits.
 * Nobody is woken: who waits looks again, after 1 ms and then after up to RG_BUDGET_LOOK_MS. A process that was stopped
 * keeps the token that it has; one that was stopped while it waits keeps those of low priority waiting for seconds at
 * most.
 *
 * One budget for a process; its state is in budget.c. Locks of a process are lost when any descriptor of the file is
 * closed: nothing else opens it.
 */

enum { RG_BUDGET_MAX = 4096, RG_BUDGET_LOOK_MS = 10, RG_BUDGET_PATH_MAX = 4096 };

/* The file, whose folder the environment variable REGATTA_BUDGET may say. */
void rg_budget_path(char path[RG_BUDGET_PATH_MAX]);

/* Whether a process that takes part could open the file: 0, or an errno, as rg_budget_join(). */
int rg_budget_check(void);

/* This process takes part, with so many tokens: a process that has said fewer uses the first of them. 0, or an errno;
   EPERM: the file is somebody else's, or others may open it. */
int rg_budget_join(int cores, int low);
void rg_budget_leave(void);

/* Whether this process, and not one that it is a copy of, has a token or needs none. */
int rg_budget_has(void);

/* Whether the file is still open in a process that takes part: other code may have closed it, and with it the token is
   lost. */
int rg_budget_is_whole(void);

/* Takes a token if one is to be had now: 1 if there is one afterwards, 0 if not, -1 with errno if the system has no
   locks. The caller that is told 0 waits: it sleeps for as long as rg_budget_pause() says, and tries again or gives. */
int rg_budget_try(void);
int rg_budget_pause(void); /* milliseconds */

/* More tokens for a process that has one, up to `most` in all, as many as are free while nobody waits. Returns how many
   it has then. They are given back when it leaves. */
int rg_budget_more(int most);

/* Gives the token back, or does not want one any more. */
void rg_budget_give(void);

/* Whether it has been held for a turn, and somebody waits for one. `now`: monotonic ns */
int rg_budget_is_due(int64_t now);

/* After a token was given: how long to sleep before the next try, so that those who wait are first, in milliseconds. */
int rg_budget_politeness(void);

#endif
