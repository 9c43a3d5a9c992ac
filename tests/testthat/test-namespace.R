# What NAMESPACE says is what R goes by outside of the package. Tests are evaluated within it, where functions are found
# that nobody else finds.
detritus <- detritus_snapshot()

unregistered <- function(space, registered) {
  # R has no methods of it before 4.3.
  if (getRversion() < "4.3.0") registered <- c(registered, "%*%.h5_matrix", "%*%.h5_sparse")
  setdiff(regatta:::workspace_methods(ls(space, all.names = TRUE), space), registered)
}

test_that("every function that has the name of a method is registered as one", {
  space <- asNamespace("regatta")
  expect_identical(unregistered(space, getNamespaceInfo(space, "S3methods")[, 3L]), character())
})

test_that("methods that are not registered are found, those of primitives and of closures", {
  space <- new.env(parent = asNamespace("regatta"))
  lost <- c("print.rg_lost", "[.rg_lost", "[[<-.rg_lost", "rep.rg_lost", "Ops.rg_lost", "new_executor.rg_lost")
  for (name in c(lost, "print.rg_there", "no.method", ".hidden")) assign(name, function(...) NULL, envir = space)
  expect_setequal(unregistered(space, "print.rg_there"), lost)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
