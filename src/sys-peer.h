#ifndef RG_SYS_PEER_H
#define RG_SYS_PEER_H

/*
 * Who is at the other end of a connection. An address does not tell: what a tunnel brings to this
 * machine, as ssh and containers do, comes from this machine as well. The kernel does: it lists both
 * ends of a connection within one machine, and /proc says which process has the other one.
 */

/* Whether every TCP connection of this process of which either end has this port, and at least one
   there is, ends in a process on this machine whose program is called `program` and into which this
   process may look. 0 also where the system does not say. */
int rg_peer_is_near(int port, const char *program);

#endif
