skip_unless_compiles_with <- function(packages) {
  for (package in c(packages, "regatta")) skip_if_not_installed(package)
}

# Compiles one of the files beside the tests and returns its functions in an environment.
compiled_by_rcpp <- function(file) {
  env <- new.env()
  Rcpp::sourceCpp(test_path(file), env = env, cacheDir = tempfile("listings"))
  env
}

compiled_by_cpp11 <- function(file) {
  env <- new.env()
  cpp11::cpp_source(test_path(file), env = env, quiet = TRUE)
  env
}
