# Claim: a map of 1e6 elements needs at most 200 bytes for each beside its values, at its peak, and the record
# of the run keeps less than 100 bytes for each. Bytes, not seconds, are in the table.
source("bench/bench.R")
source("bench/fork-common/peers.R")
source("bench/shm-common/memory.R")

n <- if (bench_short) 1e5 else 1e6
control <- regatta::par_control(workers = 2L, progress = FALSE)
empty <- function(i) NULL
map <- function() regatta::par_lapply(seq_len(n), empty, .control = control)
invisible(regatta::par_lapply(1:4, empty, .control = control))

# The session's own peak, that of its resident set, is forgotten before. What workers have copied of the
# session's heap is not a cost of elements: they are counted by the control block, which all have mapped.
forget_peak <- function() writeLines("5", "/proc/self/clear_refs")
peak <- function() bytes_of("/proc/self/status", "VmHWM")
gc(FALSE)
forget_peak()
before <- bytes_of("/proc/self/status", "VmRSS")
values <- map()
most <- peak() - before - as.numeric(object.size(values))
parts <- unclass(regatta::par_last())
record <- sum(vapply(parts[c("elements", "tries", "errors", "names")], function(part) {
  as.numeric(object.size(part))
}, 0))
rows <- data.frame(
  cell = sprintf(c("bytes for each of %s elements at the peak", "bytes for each of %s in the record"), bench_count(n)),
  peer = "regatta", version = bench_version("regatta"), median_s = c(most, record) / n,
  min_s = NA_real_, max_s = NA_real_, samples = 1L, times_yardstick = 1
)
print(rows[c("cell", "median_s")], row.names = FALSE)
bench_aim("bytes for each element at the peak", rows$median_s[[1L]], 200)
bench_aim("bytes for each element in the record", rows$median_s[[2L]], 100)
bench_write("element-memory", rows)
