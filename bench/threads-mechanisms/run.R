# Claim: each mechanism and constant of the pool is there for something. In a copy of the headers one of
# them is taken away or set to what does without it; the copy and the headers as they are run by turns
# in one process. "without" is what the mechanism saves, in multiples. Processor time is told beside the
# wall clock: on a machine with other work it is the one to look at for tasks, and the quickest sample
# for the rest.
#   Rscript bench/threads-mechanisms/run.R [--short] [--only=REGEX]
source("bench/bench.R")

folder <- file.path("bench", "threads-mechanisms")
include <- file.path("inst", "include")
tasks <- c("tasks, 100", "tasks, 1,000", "tasks, 100,000")
loops <- c("empty loop, 10,000", "empty loop, 1,000,000")
small_loops <- c("empty loop, 10,000", "10 falling units, 40 us")
# What the cells show, the file of core/ it is in, and what stands there: in its place what does without.
without <- function(cells, file, ...) list(cells = cells, file = file, changes = c(...))
mechanisms <- list(
  "memory of tasks that goes round" = without(tasks, "free-list.hpp",
    "if (taking_.try_lock()) {" = "if (false) {",
    "if (!first_) last_ = block;" = "if (true) return free(block);"),
  "tasks fetched in batches of 32" = without(tasks, "task.hpp", "places = 32;" = "places = 1;"),
  "a moment for more tasks to come" = without(tasks[-1L], "pool-tasks.hpp", "pause_cpu(100);" = ""),
  "loops over within 0.7 us left to their callers" = without("empty loop, 100", "slot.hpp",
    "ripe_us = 0.7;" = "ripe_us = 0.0;"),
  "loops just left not joined again at once" = without(loops, "pool-loops.hpp",
    "if (me.left.is(&rundown, *word) && process_.us_since(me.left.when) < spin_us) continue;" = ""),
  "a search of 60 us before a worker sleeps" = without(small_loops, "slot.hpp",
    "spin_us = 60.0;" = "spin_us = 0.0;"),
  "a worker called at once by a loop that was worth it before" = without(
    "10 falling units, 400 us, threads asleep", "pool-loops.hpp",
    "if (is_enough(units - 1, usual)) {" = "if (false) {"),
  "a sleeper that looks for loops" = without("empty loop, 1,000, threads asleep", "slot.hpp",
    "search_until_us = 1e6;" = "search_until_us = 0.0;"),
  "nothing stolen that takes less than 0.3 us" = without(small_loops, "loop.hpp",
    "> 0.3 * loop_.process.ticks_per_us" = "> 0.0 * loop_.process.ticks_per_us"),
  "chunks of 2 us" = without(loops, "loop.hpp", "chunk_us = 2.0;" = "chunk_us = 0.1;"),
  "stealing from a chunk that turns out dear" = without("1,057 units of nothing, then 60 of 1 ms",
    "loop.hpp", "dear_us = 10.0 * chunk_us;" = "dear_us = 1e9 * chunk_us;"),
  "a barrier on all threads for that" = without("units of nothing, one of 30 ms, 60 of 1 ms", "range.hpp",
    "const bool fences = dear && can_fence_all();" = "const bool fences = false;")
)
only <- sub("^--only=", "", grep("^--only=", commandArgs(TRUE), value = TRUE))
if (length(only) > 0L) mechanisms <- mechanisms[grepl(only, names(mechanisms))]

dir <- tempfile("threads-mechanisms-")
dir.create(dir)
compiler <- scan(text = system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CXX17"),
  stdout = TRUE), what = "", quiet = TRUE)

edit <- function(path, from, to) {
  lines <- readLines(path)
  at <- grep(from, lines, fixed = TRUE)
  if (length(at) != 1L) stop("`", from, "` is not on one line of ", path)
  lines[[at]] <- sub(from, to, lines[[at]], fixed = TRUE)
  writeLines(lines, path)
}

# The cells as a library, with the headers as they are or without the mechanism.
build <- function(number, mechanism = NULL) {
  copy <- file.path(dir, paste0("variant", number))
  dir.create(copy)
  file.copy(include, copy, recursive = TRUE)
  core <- file.path(copy, "include", "regatta", "core")
  edit(file.path(core, "config.hpp"), "REGATTA_VERSION_MINOR 1", paste0("REGATTA_VERSION_MINOR ", 100L + number))
  for (from in names(mechanism$changes)) {
    edit(file.path(core, mechanism$file), from, mechanism$changes[[from]])
  }
  library <- file.path(dir, paste0("variant", number, .Platform$dynlib.ext))
  status <- system2(compiler[[1L]], c(compiler[-1L], "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread",
    paste0("-I", file.path(copy, "include")), file.path(folder, "cells.cpp"), "-o", library))
  if (status != 0L) stop("variant ", number, " does not compile")
  dll <- dyn.load(library)
  .C(dll$bench_threads, 2L)
  dll
}

asleep <- function(cell) grepl("asleep", cell)
slow <- function(cell) grepl("ms$|100,000", cell)
sample_cell <- function(dll, cell) {
  times <- if (slow(cell)) 2L else if (asleep(cell)) 10L else 50L
  unlist(.C(dll$bench_cell, cell, times, if (asleep(cell)) 0.003 else 0, wall = 0, processor = 0)[4:5])
}

rounds <- if (bench_short) 9L else 41L
as_is <- build(0L)
rows <- NULL
for (i in seq_along(mechanisms)) {
  variants <- list("with" = as_is, "without" = build(i, mechanisms[[i]]))
  for (cell in mechanisms[[i]]$cells) {
    samples <- array(NA_real_, c(rounds, 2L, 2L), list(NULL, names(variants), c("wall", "processor")))
    for (dll in variants) sample_cell(dll, cell)
    for (round in seq_len(rounds)) {
      turns <- if (round %% 2L == 0L) 1:2 else 2:1
      for (turn in turns) samples[round, turn, ] <- sample_cell(variants[[turn]], cell)
    }
    for (what in c("processor", "wall")) {
      rows <- rbind(rows, bench_print(bench_summary(
        sprintf("%s: %s, %s time", names(mechanisms)[[i]], cell, what), samples[, , what], "with")))
    }
  }
}
least <- tapply(rows$min_s, list(rows$cell, rows$peer), min)
cat("\nthe quickest samples, without in multiples of with:\n")
cat(sprintf("%5.2f  %s\n", least[, "without"] / least[, "with"], rownames(least)), sep = "")
bench_write("threads-mechanisms", rows)
unlink(dir, recursive = TRUE)
