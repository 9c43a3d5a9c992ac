# Claim: statistics of a matrix in an HDF5 file take at most 1.15 times what inflating its chunks takes, for
# both margins, with one thread and with two, and are several times as fast as what Bioconductor does. What is
# compared with inflating is processor time, which other load does not change.
# The files are made once, in the folder that REGATTA_BENCH_FILES names or in a temporary one.
source("bench/bench.R")
source("bench/hdf5-common/files.R")
source("bench/hdf5-common/peers.R")
source("bench/hdf5-common/limit.R")

rounds <- as.integer(Sys.getenv("REGATTA_BENCH_ROUNDS", if (bench_short) "5" else "3"))

folder <- hdf5_post_files()

there <- length(bench_peer("DelayedMatrixStats", hdf5_bioconductor, NULL)) > 0L
parallel_there <- there && length(bench_peer("MulticoreParam(2)", "BiocParallel", NULL)) > 0L

# `peer`: the function of DelayedMatrixStats that gives the same.
statistics <- list(
  "column sums" = list(margin = 2, stats = "sum", peer = "colSums2"),
  "row sums" = list(margin = 1, stats = "sum", peer = "rowSums2"),
  "column means" = list(margin = 2, stats = "mean", peer = "colMeans2"),
  "row means" = list(margin = 1, stats = "mean", peer = "rowMeans2"),
  "column variances" = list(margin = 2, stats = "var", peer = "colVars"),
  "row variances" = list(margin = 1, stats = "var", peer = "rowVars"),
  "sums of both" = list(margin = 1:2, stats = "sum"),
  "sums and variances of both" = list(margin = 1:2, stats = c("sum", "var")),
  "five statistics of both" = list(margin = 1:2, stats = c("sum", "var", "min", "max", "nnz")),
  # Selecting takes longer than inflating, and is not what the claim is of.
  "column medians" = list(margin = 2, stats = "median", peer = "colMedians"),
  "row medians" = list(margin = 1, stats = "median", peer = "rowMedians")
)
if (!bench_short) statistics <- statistics[!grepl("medians", names(statistics))]
aimed <- function(cell) !grepl("medians", cell)
ours <- function(m, what, threads) {
  force(threads)
  function() regatta::h5_stats(m, what$margin, what$stats, threads = threads)
}

# The ways of the post and their relatives, for sums of columns; its first call is that of all statistics.
others <- function(path) {
  peers <- list()
  if (nzchar(hdf5_python)) {
    peers <- list("h5py, 1 process" = hdf5_h5py(path, 1L), "h5py, 2 processes" = hdf5_h5py(path, 2L))
  }
  ways <- c(if (there) c("lapply by 100", "lapply by 1000", "mclapply by 1000"),
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

# Rows of the table for these peers, elapsed and processor time.
measured <- function(cell, peers) {
  rm(list = ls(spent), envir = spent)
  samples <- bench_measure(with_processor_time(peers), rounds, warm = 0L)
  list(bench_summary(cell, samples), bench_summary(paste0(cell, ", processor time"), processor_time(peers, rounds)))
}

# A call of each that reads, before it is measured: what another finds is what the first one does, or its sum is.
check_values <- function(peers, what) {
  right <- peers[[1L]]()
  for (name in grep("^inflating|^regatta", names(peers), value = TRUE, invert = TRUE)) {
    value <- peers[[name]]()
    same <- if (length(value) == 1L) sum(right) == value else all.equal(unname(value), right[[what$stats]])
    if (!isTRUE(same)) stop(name, " has other values than regatta")
  }
}

rows <- NULL
for (file in c("post.h5", "genes.h5")) {
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
    if (there && !is.null(what$peer)) peers[["DelayedMatrixStats, serial"]] <- hdf5_delayed_all(path, what$peer)
    if (name == "column sums") peers <- c(peers, others(path))
    check_values(peers, what)
    both <- measured(cell, peers)
    if (name == "column sums" && there) {
      more <- one_by_one(path)
      more$cell <- cell
      more$times_yardstick <- more$median_s / both[[1L]]$median_s[[1L]]
      both[[1L]] <- rbind(both[[1L]], more)
    }
    rows <- rbind(rows, bench_print(both[[1L]]), bench_print(both[[2L]]))
  }
  # The same from the disk. A virtual machine's disk may itself be in the memory of its host.
  if (nzchar(hdf5_python)) {
    peers <- list("regatta, 2 threads" = ours(m, statistics[["column sums"]], 2L),
      "h5py, 2 processes" = hdf5_h5py(path, 2L))
    if (there) peers[["DelayedMatrixStats, serial"]] <- hdf5_delayed_all(path, "colSums2")
    cold <- bench_measure(peers, rounds, warm = 0L, timer = function(peer) {
      hdf5_forget(path)
      bench_elapsed(peer)
    })
    cell <- paste0("column sums, ", label, ", not in the cache of the system")
    rows <- rbind(rows, bench_print(bench_summary(cell, cold)))
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
