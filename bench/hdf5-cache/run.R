# Claim: with a cache, a second pass over a compressed matrix takes a small part of the time of the first. The first
# takes longer than one without a cache, since it packs what it decodes. The file is that of the post that the
# vignette follows, or a twentieth of it.
source("bench/bench.R")

extent <- if (bench_short) c(6000, 5000) else c(30000, 20000)
folder <- Sys.getenv("REGATTA_BENCH_FILES", tempdir())
rows <- NULL
for (kind in c("1 to 100", "93% zeros")) {
  path <- file.path(folder, sprintf("cache-%s-%s.h5", paste(extent, collapse = "x"), make.names(kind)))
  if (!file.exists(path)) {
    zeros <- kind == "93% zeros"
    invisible(regatta::h5_fill(path, "counts", extent, type = "int32", chunk = c(100, 100), level = 3, shuffle = zeros,
      f = function(rows, columns) {
        n <- length(rows) * length(columns)
        if (zeros) rbinom(n, 1, 0.07) * (1 + rgeom(n, 0.4)) else sample.int(100, n, replace = TRUE)
      }, .control = regatta::par_control(workers = 2, seed = 1)))
  }
  m <- regatta::h5_matrix(path, "counts", dimnames = FALSE)
  budget <- prod(extent) * 4
  filled <- regatta::h5_cache(m, budget)
  sums <- regatta::h5_col_sums(filled, threads = 2L)
  stopifnot(identical(sums, regatta::h5_col_sums(m, threads = 2L)), identical(sums, regatta::h5_col_sums(filled, threads = 2L)))
  info <- regatta::h5_cache_info(filled)
  cat(sprintf("%s: %.0f MB in the file, %.0f MB in the cache, %.2f bits for an element, all chunks kept: %s\n", kind,
    file.size(path) / 1e6, info[["used"]] / 1e6, 8 * info[["used"]] / prod(extent), info[["kept"]] == info[["chunks"]]))
  for (threads in 1:2) {
    peers <- list(
      "regatta, from the cache" = function() regatta::h5_col_sums(filled, threads = threads),
      "regatta, first pass with a cache" = function() {
        fresh <- regatta::h5_cache(m, budget)
        regatta::h5_col_sums(fresh, threads = threads)
        regatta::h5_cache_drop(fresh)
      },
      "regatta, without a cache" = function() regatta::h5_col_sums(m, threads = threads)
    )
    samples <- bench_measure(peers, if (bench_short) 7L else 5L, warm = 1L)
    cell <- sprintf("column sums, %s, %d thread%s", kind, threads, if (threads == 1L) "" else "s")
    here <- bench_print(bench_summary(cell, samples))
    bench_aim(paste0(cell, ": from the cache, times without"),
      bench_ratio(here, "regatta, from the cache", "regatta, without a cache"), 0.7)
    rows <- rbind(rows, here)
  }
  regatta::h5_cache_drop(filled)
}
bench_write("hdf5-cache", rows)
