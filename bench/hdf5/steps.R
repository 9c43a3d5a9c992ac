# The table at the end of vignettes/hdf5.Rmd, from bench/results/hdf5.csv: the steps of the post.
#   Rscript bench/hdf5/steps.R
rows <- utils::read.csv("bench/results/hdf5.csv")
elapsed <- rows[rows$cell == "column sums, the post's file", ]
processor <- rows[rows$cell == "column sums, the post's file, processor time", ]
steps <- c(
  "DelayedMatrixStats, serial" = "the post's first call, all columns at once",
  "DelayedMatrixStats, lapply by 1, from 10 columns" = "the loop over single columns, from ten of them",
  "DelayedMatrixStats, lapply by 100" = "the loop by 100 columns", "DelayedMatrixStats, lapply by 1000" = "the loop by 1000 columns",
  "DelayedMatrixStats, mclapply by 1000" = "`mclapply()` by 1000 columns, two processes",
  "DelayedMatrixStats, MulticoreParam(2)" = "the first call with `MulticoreParam(2)`",
  "h5py, 1 process" = "the same in Python, h5py, one process", "h5py, 2 processes" = "h5py, two processes",
  "regatta, 1 thread" = "`h5_col_sums()`, one thread", "regatta, 2 threads" = "`h5_col_sums()`, two threads",
  "inflating alone, 2 threads" = "inflating the chunks, and nothing else, two threads"
)
number <- function(x, digits) {
  if (x < 10^digits) sprintf("%.*g", digits, x) else format(signif(x, digits), big.mark = ",")
}
ours <- elapsed$median_s[elapsed$peer == "regatta, 2 threads"]
cat("| step | seconds | processor time | times as long as `h5_col_sums()` by two threads |\n|---|---|---|---|\n")
for (peer in intersect(names(steps), elapsed$peer)) {
  seconds <- elapsed$median_s[elapsed$peer == peer]
  spent <- processor$median_s[processor$peer == peer]
  cat(sprintf("| %s | %s | %s | %s |\n", steps[[peer]], number(seconds, 3L),
    if (length(spent) == 1L) paste(number(spent, 3L), "s") else "", number(seconds / ours, 2L)))
}
