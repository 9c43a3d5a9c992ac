# Of a package that was built without libhdf5: every function for HDF5 says what to install, and all else works.
# tools/check-deep.sh builds one.
library(regatta)
stopifnot(identical(h5_available(), FALSE))
names <- setdiff(grep("^h5_", getNamespaceExports("regatta"), value = TRUE), "h5_available")
for (name in names) {
  error <- tryCatch(get(name)(), error = identity)
  cat(name, ": ", conditionMessage(error), "\n", sep = "")
  stopifnot(inherits(error, "regatta_error_h5"))
  stopifnot(grepl("without libhdf5.*libhdf5-dev and libdeflate-dev", conditionMessage(error)))
}
squares <- par_lapply(1:10, function(i) i^2, .control = par_control(workers = 2L))
stopifnot(length(names) >= 30L, identical(squares, lapply(1:10, function(i) i^2)))
cat(length(names), "functions say what to install\n")
