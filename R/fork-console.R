# Called from C when anything in a worker asks the console for a line. A prompt of the browser ends the
# element: at the end of the input R would show the next step, and the next. R's browser takes errors to
# itself, which then prompts again; what is signalled here is none until it has reached the evaluator.
no_console <- function() {
  if (is_at_browser()) {
    cnd <- simpleError(
      paste(
        "the debugger, which debug(), debugonce() or browser() has called, cannot be used in a worker, which has no",
        "terminal: see par_replay(), or undebug() the function"
      ),
      sys.call(-1L)
    )
    signalCondition(structure(class = c("regatta_no_console", "condition"), list(
      message = conditionMessage(cnd), call = conditionCall(cnd), error = cnd
    )))
  }
}

is_at_browser <- function() {
  tryCatch(
    {
      browserText()
      TRUE
    },
    error = function(e) FALSE
  )
}
