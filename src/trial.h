#ifndef RG_TRIAL_H
#define RG_TRIAL_H

#include <Rinternals.h>

/* A program of ours that does what this process is about to do, since it may crash or never end. It runs until this
   process ends, so that it is started once, and again after it has crashed. It shares no memory with this process. */

/* Sends the bytes `request` to the program, which is started for that by the command `program`, and waits for its
   answer, up to `seconds`: the byte that it is, as an integer. Else list(signal, status, reason): the number of the
   signal that ended it or NA, its status or NA, and the words of the system if it could not be started or NULL; none of
   these if it was ended for being late. */
SEXP ffi_trial(SEXP program, SEXP request, SEXP seconds);

/* Ends the program if there is one. */
SEXP ffi_trial_end(void);

#endif
