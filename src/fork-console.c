#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fork-console.h"

#include <Rinternals.h>
#include <dlfcn.h>

#include "call-r.h"

/* What R has of a console in a worker. The variables are not part of R's API, so they are looked up by
   name at run time; where R no longer shows one the worker does without. */

/* Whatever asks the console for a line: prompts of the browser and the debugger, scan(), a stdin() that
   somebody has kept. The lines there are the session's, and if they are those of a script the worker would
   carry out what the session is to do next. At a browser's prompt the call does not return: see
   no_console() in R/fork-console.R. */
static int read_nothing(const char *prompt, unsigned char *line, int size, int keep) {
  (void)prompt;
  (void)line;
  (void)size;
  (void)keep;
  rg_call_r("no_console", 0);
  return 0; /* the end of the input */
}

void rg_fork_console_close(void) {
  int (**reader)(const char *, unsigned char *, int, int) = dlsym(RTLD_DEFAULT, "ptr_R_ReadConsole");
  if (reader) *reader = read_nothing;
}

/* R marks the children that its own package parallel forks in two variables, which keep
   GUI event loops and prompts out of them. Without them interactive() is TRUE in the workers of an
   interactive session. */
void rg_fork_console_mark(void) {
  Rboolean *forked = dlsym(RTLD_DEFAULT, "R_isForkedChild");
  Rboolean *interactive = dlsym(RTLD_DEFAULT, "R_Interactive");
  if (forked) *forked = TRUE;
  if (interactive) *interactive = FALSE;
}
