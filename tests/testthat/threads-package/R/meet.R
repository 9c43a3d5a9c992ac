# What comes of this package's loops and tasks with those of package `other` inside.
meet <- function(other) {
  loadNamespace(other)
  as.list(.Call(C_meet, other))
}

# What this package was built by.
compiler <- function() .Call(C_compiler)

# A loop in the middle of R: `fun` is called before it, and what it raises passes.
work <- function(fun) .Call(C_work, fun)
