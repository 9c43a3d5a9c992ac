detritus <- detritus_snapshot()

# Random sequences of changes and of ways of sending on, of vectors that stand in shared memory,
# against the same done to ordinary ones. REGATTA_LONG takes the number of sequences, for hours of it.

sequences <- function() {
  long <- suppressWarnings(as.integer(Sys.getenv("REGATTA_LONG")))
  if (is.na(long)) 12L else max(200L, long)
}

# Objects of several vectors, at places where they can stand.
random_holder <- function() {
  kinds <- sample(shm_kinds, 3L, replace = TRUE)
  n <- sample(c(3L, 2100L, 17000L), 1L)
  holder <- list(a = shm_example(kinds[[1L]], n), b = list(c = shm_example(kinds[[2L]], n)))
  attr(holder, "d") <- shm_example(kinds[[3L]], n)
  attr(holder, "kinds") <- kinds
  holder
}

part_of <- function(holder, which) {
  switch(which, holder$a, holder$b$c, attr(holder, "d"))
}

with_part <- function(holder, which, value) {
  switch(which, holder$a <- value, holder$b$c <- value, attr(holder, "d") <- value)
  holder
}

change_part <- function(holder, which, change, at, value) {
  with_part(holder, which, change(part_of(holder, which), at, value))
}

# One sequence; what was done, if what R sees then is not what it should be.
random_sequence <- function(steps, changes, routes) {
  story <- character()
  plain <- list(random_holder())
  shared <- list(shm_share(shm_copy(plain[[1L]]), min = 0))
  for (step in seq_len(steps)) {
    i <- sample.int(length(shared), 1L)
    kind <- sample(c("change", "send", "drop", "gc"), 1L, prob = c(0.5, 0.4, 0.05, 0.05))
    if (kind == "change") {
      which <- sample.int(3L, 1L)
      vector <- part_of(plain[[i]], which)
      name <- sample(names(changes), 1L)
      at <- sample.int(length(vector), 1L)
      value <- shm_other(attr(plain[[i]], "kinds")[[which]])
      if (is.raw(vector) && name == "read") next
      shared[[i]] <- change_part(shared[[i]], which, changes[[name]], at, value)
      plain[[i]] <- change_part(plain[[i]], which, changes[[name]], at, value)
      story <- c(story, paste(i, which, name))
    } else if (kind == "send") {
      route <- sample(names(routes), 1L)
      got <- routes[[route]](shared[i])[[1L]]
      j <- if (length(shared) < 4L) length(shared) + 1L else sample.int(4L, 1L)
      # What needs no storing is the object itself, which may change with it then.
      shared[[j]] <- if (route == "share") shm_copy(got) else got
      plain[[j]] <- shm_copy(plain[[i]])
      story <- c(story, paste(i, "->", j, route))
    } else if (kind == "drop" && length(shared) > 1L) {
      shared[[i]] <- NULL
      plain[[i]] <- NULL
      story <- c(story, paste("drop", i))
    } else {
      gc(full = FALSE)
    }
    bad <- which(!mapply(identical, shared, plain))
    if (length(bad) > 0L) {
      return(paste(c("object", bad, "after", story), collapse = "; "))
    }
  }
  character()
}

test_that("no sequence of changes and ways gives another value than that of ordinary vectors", {
  withr::local_preserve_seed()
  cluster <- parallel::makePSOCKcluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths())
  poke <- shm_poke()
  routes <- shm_routes(cluster)
  # Changes in a worker and on a node as well.
  changes <- c(shm_changes(poke, shm_poke("read")), list(
    `in a worker` = function(x, at, value) {
      par_value(par_call(poke(x, at, value), .control = two_workers(workers = 1L, shm_min = 0)))
    },
    `on a node` = function(x, at, value) {
      change <- function(x, at, value) {
        x[at] <- value
        x
      }
      environment(change) <- globalenv()
      parallel::clusterCall(cluster, change, x, at, value)[[1L]]
    }
  ))
  wrong <- character()
  for (seed in seq_len(sequences()) + as.integer(Sys.getenv("REGATTA_SEED", "0"))) {
    set.seed(seed, "Mersenne-Twister", "Inversion", "Rejection")
    story <- random_sequence(25L, changes, routes)
    if (length(story) > 0L) wrong <- c(wrong, paste0("seed ", seed, ": ", story))
  }
  expect_identical(wrong, character())
})

# An array against an ordinary vector that stands for its content; copies against what they were. An
# attribute that is set on an array makes R's duplicate of it, which is an array only until code asks for
# a pointer to write (LOOK in src/shm-view.h): it is sent on and not kept.
random_array_sequence <- function(steps) {
  n <- sample(c(5L, 100L, 30000L), 1L)
  content <- as.double(sample.int(1000L, n, replace = TRUE))
  array <- shm_array(n)
  array[] <- content
  arrays <- list(array)
  copies <- list()
  wanted <- list()
  control <- two_workers(workers = 1L, shm_min = 0)
  live <- list(
    same = identity,
    handle = function(x) unserialize(with_shm_handles(serialize(x, NULL))),
    list = function(x) unserialize(with_shm_handles(serialize(list(list(x)), NULL)))[[1L]][[1L]],
    worker = function(x) par_lapply(1L, function(i) x, .control = control)[[1L]],
    noted = function(x) {
      attr(x, "note") <- "noted"
      unserialize(with_shm_handles(serialize(x, NULL)))
    }
  )
  copy <- list(
    plain = function(x) x[], unclass = function(x) unclass(x) + 0, copy = shm_copy,
    data = function(x) unclass(unserialize(serialize(x, NULL))),
    plain_handle = function(x) unserialize(with_shm_handles(serialize(unclass(x), NULL))),
    plain_worker = function(x) par_lapply(1L, function(i) unclass(x), .control = control)[[1L]],
    noted_handle = function(x) {
      attr(x, "note") <- "noted"
      unserialize(with_shm_handles(serialize(list(function() NULL, unclass(x)), NULL)))[[2L]]
    },
    noted_worker = function(x) {
      attr(x, "note") <- "noted"
      par_lapply(1L, function(i) unclass(x), .control = control)[[1L]]
    },
    noted_call = function(x) {
      attr(x, "note") <- "noted"
      par_value(par_call(list(unclass(x)), .control = two_workers(workers = 1L)))[[1L]]
    },
    stripped = function(x) {
      y <- x
      class(y) <- NULL
      y[1L] <- y[[1L]]
      y
    }
  )
  story <- character()
  for (step in seq_len(steps)) {
    x <- arrays[[sample.int(length(arrays), 1L)]]
    what <- sample(c("write", "worker writes", "live", "copy", "change copy", "gc"), 1L)
    at <- sample.int(n, 1L)
    if (what == "write") {
      x[at] <- step
      content[at] <- step
    } else if (what == "worker writes") {
      par_lapply(1L, function(i) {
        x[at] <- step
        NULL
      }, .control = control)
      content[at] <- step
    } else if (what == "live") {
      how <- sample(names(live), 1L)
      what <- paste(what, how)
      arrays[[sample.int(3L, 1L)]] <- live[[how]](x)
      arrays <- Filter(Negate(is.null), arrays)
    } else if (what == "copy") {
      how <- sample(names(copy), 1L)
      what <- paste(what, how)
      k <- sample.int(3L, 1L)
      copies[[k]] <- copy[[how]](x)
      wanted[[k]] <- content
    } else if (what == "change copy" && length(copies) > 0L) {
      k <- sample.int(length(copies), 1L)
      if (length(copies[[k]]) > 0L) {
        copies[[k]][at] <- -step
        wanted[[k]][at] <- -step
      }
    } else {
      gc(full = FALSE)
    }
    story <- c(story, what)
    good <- all(vapply(arrays, function(v) is_shm_array(v) && identical(as.vector(v), content), NA)) &&
      all(mapply(function(got, want) identical(as.vector(got), want), copies, wanted))
    if (!good) {
      return(paste(story, collapse = "; "))
    }
  }
  character()
}

test_that("no sequence makes an array of a copy or a copy of an array", {
  withr::local_preserve_seed()
  wrong <- character()
  for (seed in seq_len(sequences()) + as.integer(Sys.getenv("REGATTA_SEED", "0"))) {
    set.seed(seed, "Mersenne-Twister", "Inversion", "Rejection")
    story <- random_array_sequence(25L)
    if (length(story) > 0L) wrong <- c(wrong, paste0("seed ", seed, ": ", story))
  }
  expect_identical(wrong, character())
})

test_that("nothing is left behind", {
  par_lapply(1L, identity, .control = two_workers(workers = 1L))
  gc()
  expect_no_detritus(detritus)
})
