# Rscript watch.R PID FOLDER: looks at the memory of PID and its children until FOLDER/stop is
# there, then writes the most it has seen, in bytes, to FOLDER/peak.
source("bench/shm-common/memory.R")

words <- commandArgs(TRUE)
pid <- as.integer(words[[1]])
at <- function(name) file.path(words[[2]], name)

# A fork amid the readings would count pages twice: such a sample is dropped. The parent is read
# first, so that a child that ends meanwhile counts too little rather than twice.
sample_memory <- function() {
  children <- child_processes(pid)
  total <- process_memory(c(pid, children))
  if (identical(children, child_processes(pid))) total else 0
}

peak <- sample_memory()
invisible(file.create(at("ready")))
while (!file.exists(at("stop")) && dir.exists(file.path("/proc", pid))) {
  peak <- max(peak, sample_memory())
  Sys.sleep(0.05)
}
writeLines(format(peak, scientific = FALSE), at("part"))
# Renamed, so that nobody reads half of it.
invisible(file.rename(at("part"), at("peak")))
