# Package callr: what a process of its own is given may be handles of shared vectors.

callr_hook <- function() {
  sender_register("callr", function(fun) identical(fun, base::saveRDS), "object", sends_callr)
}

# callr hands the arguments of a call over in a file, which its process reads when it starts.
sends_callr <- function(caller, frame) {
  is_function_of(caller, "callr", "save_function_to_temp")
}
