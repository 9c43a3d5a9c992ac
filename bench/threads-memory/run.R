# Claim: memory is bounded, however much work there is. 3e6 tasks pushed as fast as can be need at most
# 16 MB at their peak, and a reduction whose accumulator has a sum for each of 1e5 columns at most twenty
# accumulators for each thread. Each peer runs in a process of its own; bytes, not seconds, are in the table.
#   Rscript bench/threads-memory/run.R [--short]
source("bench/bench.R")
source("bench/threads-common/measure.R")
source("bench/threads-common/build.R")

folder <- file.path("bench", "threads-memory")
found <- find_peers(getwd())
# What RcppParallel links to is the system's own where it was built so.
if (is.null(found$tbb$missing)) found$rcppparallel$libs <- paste(found$rcppparallel$libs, found$tbb$libs)
peers <- found[c("regatta", "rcppthread", "rcppparallel")]
for (name in names(peers)) {
  if (!is.null(peers[[name]]$missing)) cat("skipped: ", name, ", needs ", peers[[name]]$missing, "\n", sep = "")
}
peers <- Filter(function(peer) is.null(peer$missing), peers)
tasks <- if (bench_short) 300000L else 3000000L
columns <- if (bench_short) 10000L else 100000L
rounds <- if (bench_short) 1L else 5L
threads <- 2L

build_cells <- function(name) {
  place <- tempfile("threads-memory-")
  dir.create(place)
  file.copy(file.path(folder, "cells.cpp"), place)
  libs <- peers[[name]]$libs
  writeLines(c("CXX_STD = CXX17", sprintf("PKG_CPPFLAGS = %s -DPEER_%s", peers[[name]]$cpp, toupper(name)),
    "PKG_CXXFLAGS = -O2 -pthread", paste("PKG_LIBS = -pthread", if (is.null(libs)) "" else libs)),
    file.path(place, "Makevars"))
  built <- run_shlib(place, "cells.so")
  if (built$status != 0L) stop("the cells of ", name, " do not compile:\n", paste(built$output, collapse = "\n"))
  file.path(place, "cells.so")
}

in_process <- function(library, cell, size) {
  code <- sprintf(paste0("dll <- dyn.load('%s'); r <- .C(dll$bench_memory, '%s', %dL, %dL, peak = 0, kept = 0, ",
    "sum = 0); cat(unlist(r[c('peak', 'kept', 'sum')]))"), library, cell, size, threads)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = TRUE)
  stats::setNames(scan(text = out, quiet = TRUE), c("peak", "kept", "sum"))
}

rows_of <- function(cell, samples, names) {
  centre <- vapply(samples, stats::median, 0)
  data.frame(
    cell = cell, peer = vapply(names, function(name) peers[[name]]$covers, ""),
    version = vapply(names, function(name) peers[[name]]$version, ""), median_s = centre,
    min_s = vapply(samples, min, 0), max_s = vapply(samples, max, 0), samples = rounds,
    times_yardstick = centre / centre[[1L]], row.names = NULL
  )
}

libraries <- vapply(names(peers), build_cells, "")
measure <- function(cell, size, names) {
  got <- lapply(stats::setNames(names, names), function(name) {
    vapply(seq_len(rounds), function(round) in_process(libraries[[name]], cell, size), numeric(3L))
  })
  sums <- vapply(got, function(one) one["sum", 1L], 0)
  if (any(sums != sums[[1L]])) stop("the sums of ", toString(names(sums)[sums != sums[[1L]]]), " are others")
  got
}
part <- function(got, what) lapply(got, function(one) one[what, ])

of_tasks <- measure("tasks", tasks, setdiff(names(peers), "rcppparallel"))
of_columns <- measure("reduction", columns, setdiff(names(peers), "rcppthread"))
count <- function(n) format(n, big.mark = ",", scientific = FALSE)
rows <- rbind(
  rows_of(sprintf("bytes of %s tasks at the peak", count(tasks)), part(of_tasks, "peak"), names(of_tasks)),
  rows_of(sprintf("bytes of %s tasks that are kept", count(tasks)), part(of_tasks, "kept"), names(of_tasks)),
  rows_of(sprintf("bytes of a reduction over %s columns at the peak", count(columns)), part(of_columns, "peak"),
    names(of_columns))
)
print(rows[c("cell", "peer", "median_s", "times_yardstick")], row.names = FALSE)
aim <- function(what, got, limit) {
  cat(sprintf("aim: %s, at most %g: %.3g, %s\n", what, limit, got, if (got <= limit) "met" else "missed"))
}
aim("bytes of the tasks at the peak", rows$median_s[[1L]], 16e6)
aim("accumulators of the reduction at the peak", max(of_columns$regatta["peak", ]) / (8 * columns), 20 * threads)
bench_write("threads-memory", rows)
