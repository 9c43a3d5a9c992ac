# Ways of changing a vector, in place and not, and ways of sending one on: for tests that what arrives
# is what the sender sees, whatever the vector stands on.

shm_kinds <- c("character", "distinct", "double", "integer", "logical", "complex", "raw")

# n elements of a kind, enough not to be copied with the message of a worker; every number differs from those
# that shm_other() gives.
shm_example <- function(kind, n = 20000L) {
  i <- seq_len(n)
  switch(kind,
    character = rep_len(c("a", NA, "\u00e9", "", sprintf("s%d", seq_len(n %/% 3L))), n),
    distinct = sprintf("s%d", i),
    double = i / 3, integer = rev(i), logical = i %% 3L == 0L,
    complex = complex(real = i, imaginary = -i), raw = as.raw(i %% 200L)
  )
}

shm_other <- function(kind) {
  switch(kind,
    character = , distinct = "changed", double = -1.5, integer = -7L, logical = NA, complex = 9 - 9i,
    raw = as.raw(255L)
  )
}

# C code that writes to its argument, as packages do that work by reference: with `by` "read" through a pointer for
# reading, as Rcpp >= 1.1.1 does.
shm_poke <- function(by = "write", env = parent.frame()) {
  pointers <- if (by == "read") {
    sprintf("#define %s(x) ((%s *)DATAPTR_RO(x))", c("LOGICAL", "INTEGER", "REAL", "COMPLEX", "RAW"),
      c("int", "int", "double", "Rcomplex", "Rbyte"))
  }
  library <- fault_compile(c("#include <Rinternals.h>", pointers, "
    SEXP poke(SEXP x, SEXP at, SEXP value) {
      R_xlen_t i = (R_xlen_t)Rf_asReal(at) - 1;
      switch (TYPEOF(x)) {
      case LGLSXP: LOGICAL(x)[i] = LOGICAL(value)[0]; break;
      case INTSXP: INTEGER(x)[i] = INTEGER(value)[0]; break;
      case REALSXP: REAL(x)[i] = REAL(value)[0]; break;
      case CPLXSXP: COMPLEX(x)[i] = COMPLEX(value)[0]; break;
      case RAWSXP: RAW(x)[i] = RAW(value)[0]; break;
      case STRSXP: SET_STRING_ELT(x, i, STRING_ELT(value, 0)); break;
      }
      return x;
    }"), "poke", env = env)
  dll <- dyn.load(library)
  withr::defer(dyn.unload(library), envir = env, priority = "first")
  symbol <- getNativeSymbolInfo("poke", dll)
  function(x, at, value) .Call(symbol, x, at, value)
}

# Each changes element `at` of x to `value`, or an attribute, and returns what the caller sees.
shm_changes <- function(poke, poke_read) {
  c(
    list(
      `[<-` = function(x, at, value) {
        x[at] <- value
        x
      },
      `[[<-` = function(x, at, value) {
        x[[at]] <- value
        x
      },
      replace = function(x, at, value) replace(x, at, value),
      `names<-` = function(x, at, value) {
        names(x) <- seq_along(x)
        x
      },
      `attr<-` = function(x, at, value) {
        attr(x, "note") <- value
        x
      },
      `in C` = poke,
      `in C, by a pointer for reading` = poke_read,
      `in C, twice` = function(x, at, value) poke(poke(x, at, value), 1L, value),
      `with names, then in C` = function(x, at, value) {
        names(x) <- seq_along(x)
        poke(x, at, value)
      },
      read = function(x, at, value) {
        identical(x, rev(x))
        if (!is.raw(x)) order(x)
        match(value, x)
        x
      }
    ),
    if (requireNamespace("data.table", quietly = TRUE)) {
      list(
        `:=` = function(x, at, value) {
          table <- data.table::setDT(list(v = x))
          data.table::set(table, as.integer(at), "v", value)
          table$v
        },
        setattr = function(x, at, value) data.table::setattr(x, "note", value)
      )
    }
  )
}

# Each returns what is in the list x as somebody else gets it: to fork takes more time than all the rest.
shm_routes <- function(cluster = NULL, workers = 1L) {
  control <- two_workers(workers = workers, shm_min = 0)
  routes <- list(
    serialize = function(x) lapply(x, function(one) unserialize(serialize(one, NULL))),
    handle = function(x) lapply(x, function(one) unserialize(with_shm_handles(serialize(one, NULL)))),
    share = function(x) lapply(x, shm_share, min = 0),
    map = function(x) par_lapply(seq_along(x), function(i) x[[i]], .control = control),
    map_element = function(x) par_lapply(x, identity, .control = control),
    call = function(x) lapply(lapply(x, function(one) par_call(one, .control = control)), par_value),
    call_list = function(x) par_value(par_call(x, .control = control)),
    twice = function(x) {
      lapply(par_lapply(seq_along(x), function(i) list(x[[i]], x[[i]]), .control = control), `[[`, 2L)
    },
    nested = function(x) {
      par_lapply(1L, function(i) {
        par_lapply(seq_along(x), function(j) x[[j]], .control = control)
      }, .control = control)[[1L]]
    }
  )
  if (!is.null(cluster)) {
    routes$node <- function(x) lapply(x, function(one) parallel::clusterCall(cluster, identity, one)[[1L]])
    routes$node_map <- function(x) {
      par_lapply(seq_along(x), function(i) x[[i]], .on = cluster, .control = two_workers(workers = NULL, shm_min = 0))
    }
  }
  routes
}
