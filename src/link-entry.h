#ifndef RG_LINK_ENTRY_H
#define RG_LINK_ENTRY_H

#include <Rinternals.h>

SEXP ffi_crypto_available(void);
SEXP ffi_crypto_random(SEXP size);
SEXP ffi_gate_new(SEXP server, SEXP key, SEXP numbers, SEXP seconds);
SEXP ffi_gate_step(SEXP gate, SEXP settings);
SEXP ffi_gate_close(SEXP gate);
SEXP ffi_link_join(SEXP socket, SEXP key, SEXP number, SEXP seconds, SEXP settings);
SEXP ffi_link_wait(SEXP gate, SEXP seconds);
SEXP ffi_link_send(SEXP link, SEXP bytes);
SEXP ffi_link_take(SEXP link);
SEXP ffi_link_look(SEXP link);
SEXP ffi_link_close(SEXP link, SEXP linger);
SEXP ffi_link_end_with_session(SEXP folder);
SEXP ffi_link_heed_signals(void);
SEXP ffi_link_end_status(void);

#endif
