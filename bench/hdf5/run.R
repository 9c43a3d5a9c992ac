# Claim: statistics of a matrix in an HDF5 file take at most 1.15 times what inflating its chunks takes, for
# both margins, with one thread and with two, and are several times as fast as what Bioconductor does. What is
# compared with inflating is processor time, which other load does not change.
# The files are made once, in the folder that REGATTA_BENCH_FILES names or in a temporary one.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/peers.R")
source("bench/hdf5-common/limit.R")

rounds <- as.integer(Sys.getenv("REGATTA_BENCH_ROUNDS", if (bench_short) "5" else "3"))
# Of what takes ten seconds and more.
rounds_of_peers <- min(rounds, 2L)

folder <- hdf5_post_files()

there <- length(bench_peer("DelayedMatrixStats", hdf5_bioconductor, NULL)) > 0L
parallel_there <- there && length(bench_peer("MulticoreParam(2)", "BiocParallel", NULL)) > 0L

statistics <- list(
  "column sums" = list(margin = 2, stats = "sum"), "row sums" = list(margin = 1, stats = "sum"),
  "sums of both" = list(margin = 1:2, stats = "sum"),
  "sums and variances of both" = list(margin = 1:2, stats = c("sum", "var")),
  "five statistics of both" = list(margin = 1:2, stats = c("sum", "var", "min", "max", "nnz")),
  # Selecting takes longer than inflating, and is not what the claim is of.
  "column medians" = list(margin = 2, stats = "median"), "row medians" = list(margin = 1, stats = "median")
)
if (!bench_short) statistics <- statistics[!grepl("medians", names(statistics))]
aimed <- function(cell) !grepl("medians", cell)
ours <- function(m, what, threads) {
  force(threads)
  function() regatta::h5_stats(m, what$margin, what$stats, threads = threads)
}

# The ways of the post and their relatives, for sums of columns.
others <- function(path) {
  peers <- list()
  if (nzchar(hdf5_python)) {
    peers <- list("h5py, 1 process" = hdf5_h5py(path, 1L), "h5py, 2 processes" = hdf5_h5py(path, 2L))
  }
  ways <- c(if (there) c("serial", "lapply by 100", "lapply by 1000", "mclapply by 1000"),
    if (parallel_there) "MulticoreParam(2)")
  delayed <- lapply(stats::setNames(nm = ways), hdf5_delayed, path = path)
  names(delayed) <- paste0("DelayedMatrixStats, ", ways, recycle0 = TRUE)
  c(peers, delayed)
}

# The loop of the post over single columns, of which this does some: nobody waits for all.
one_by_one <- function(path, columns = 10) {
  hdf5_attach()
  x <- HDF5Array(path, "counts")
  seconds <- bench_elapsed(function() hdf5_loop(x, 1, columns)) * ncol(x) / columns
  peer <- "DelayedMatrixStats, lapply by 1, from 10 columns"
  data.frame(cell = "", peer = peer, version = bench_version(peer), median_s = seconds, min_s = seconds,
    max_s = seconds, samples = 1L, times_yardstick = NA_real_)
}

# Each call of a peer also leaves its processor time, that of children included which somebody has waited for:
# what package parallel forks is not.
spent <- new.env()
with_processor_time <- function(peers) {
  Map(function(name, peer) {
    function() {
      before <- proc.time()
      value <- peer()
      after <- proc.time()
      spent[[name]] <- c(spent[[name]], sum((after - before)[c("user.self", "sys.self", "user.child", "sys.child")]))
      invisible(value)
    }
  }, names(peers), peers)
}
processor_time <- function(peers, rounds) {
  found <- vapply(names(peers), function(peer) spent[[peer]], numeric(rounds))
  dim(found) <- c(rounds, length(peers))
  colnames(found) <- names(peers)
  found[, !grepl("mclapply|Multicore", names(peers)), drop = FALSE]
}

# Rows of the table for these peers, elapsed and processor time; times are those of the first row of `before`, if any.
measured <- function(cell, peers, rounds, before = NULL) {
  rm(list = ls(spent), envir = spent)
  samples <- bench_measure(with_processor_time(peers), rounds, warm = 0L)
  both <- list(bench_summary(cell, samples),
    bench_summary(paste0(cell, ", processor time"), processor_time(peers, rounds)))
  for (k in seq_along(both)) {
    if (!is.null(before)) both[[k]]$times_yardstick <- both[[k]]$median_s / before[[k]]$median_s[[1L]]
  }
  both
}

rows <- NULL
for (file in c("post.h5", "zeros.h5")) {
  path <- file.path(folder, file)
  label <- if (file == "post.h5") "the post's file" else "93% zeros"
  m <- regatta::h5_matrix(path, "counts", dimnames = FALSE)
  if (hdf5_has_limit) hdf5_limit_load(path, "counts")
  for (name in names(statistics)) {
    what <- statistics[[name]]
    cell <- paste0(name, ", ", label)
    peers <- list("regatta, 1 thread" = ours(m, what, 1L), "regatta, 2 threads" = ours(m, what, 2L))
    if (hdf5_has_limit) {
      peers[["inflating alone, 1 thread"]] <- hdf5_limit(1L)
      peers[["inflating alone, 2 threads"]] <- hdf5_limit(2L)
    }
    if (name == "column medians" && there) {
      peers[["DelayedMatrixStats, serial"]] <- hdf5_delayed(path, "medians")
      if (!identical(peers[[1L]]()$median, as.double(peers[["DelayedMatrixStats, serial"]]()))) {
        stop("DelayedMatrixStats has other medians")
      }
    }
    both <- measured(cell, peers, rounds)
    if (name == "column sums") {
      total <- sum(peers[[1L]]()$sum)
      slower <- Map(function(peer, name) {
        function() if (!isTRUE(all.equal(sum(peer()), total))) stop(name, " has other sums")
      }, others(path), names(others(path)))
      if (length(slower) > 0L) both <- Map(rbind, both, measured(cell, slower, rounds_of_peers, both))
      if (there) {
        more <- one_by_one(path)
        more$cell <- cell
        more$times_yardstick <- more$median_s / both[[1L]]$median_s[[1L]]
        both[[1L]] <- rbind(both[[1L]], more)
      }
    }
    rows <- rbind(rows, bench_print(both[[1L]]), bench_print(both[[2L]]))
  }
}
if (hdf5_has_limit) hdf5_limit_free()
bench_write("hdf5", rows)

cat("\n")
for (cell in Filter(aimed, grep("processor time$", unique(rows$cell), value = TRUE))) {
  here <- rows[rows$cell == cell, ]
  for (threads in c("1 thread", "2 threads")) {
    if (hdf5_has_limit) {
      ratio <- bench_ratio(here, paste("regatta,", threads), paste("inflating alone,", threads))
      bench_aim(sprintf("%s, %s, times inflating alone", cell, threads), ratio, 1.15)
    }
  }
}
# Two threads beside what each aim was of.
for (aim in list(
  list("the post's file", "serial", 6), list("the post's file", "mclapply by 1000", 4.5),
  list("the post's file", "MulticoreParam(2)", 2.6), list("93% zeros", "serial", 12)
)) {
  here <- rows[rows$cell == paste0("column sums, ", aim[[1L]]), ]
  peer <- paste0("DelayedMatrixStats, ", aim[[2L]])
  bench_aim(sprintf("column sums, %s, times %s", aim[[1L]], peer), bench_ratio(here, "regatta, 2 threads", peer), 1 / aim[[3L]])
}
