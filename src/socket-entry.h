#ifndef RG_SOCKET_ENTRY_H
#define RG_SOCKET_ENTRY_H

#include <Rinternals.h>

SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP backlog, SEXP path, SEXP seconds);
SEXP ffi_socket_accept(SEXP server, SEXP seconds, SEXP blocking);
SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP path, SEXP seconds, SEXP blocking);
SEXP ffi_socket_select(SEXP sockets, SEXP write, SEXP seconds);
SEXP ffi_socket_timeout(SEXP socket, SEXP seconds);
SEXP ffi_socket_read(SEXP socket, SEXP size);
SEXP ffi_socket_write(SEXP socket, SEXP bytes);
SEXP ffi_socket_send(SEXP socket, SEXP bytes);
SEXP ffi_socket_receive(SEXP socket, SEXP most);
SEXP ffi_socket_about(SEXP socket);
SEXP ffi_socket_close(SEXP socket);

/* The descriptor of a socket; an error if it has been closed. The second takes it away: the socket is
   closed, the descriptor is the caller's. */
int rg_socket_entry_fd(SEXP socket);
int rg_socket_entry_take(SEXP socket);

#endif
