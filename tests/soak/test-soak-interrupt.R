detritus <- detritus_snapshot()

test_that("a hundred Ctrl-C at random moments leave nothing", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (group in c(TRUE, FALSE)) {
    expect_identical(interrupt_often("short", 100L, group = group), rep(clean_interrupt, 100L))
  }
})

test_that("a hundred double Ctrl-C leave nothing", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("short", "grandchild")) {
    expect_identical(
      interrupt_often(kind, 50L, twice = TRUE), rep(clean_interrupt, 50L)
    )
  }
})

test_that("Ctrl-C ends elements of every kind, twenty times each", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("long", "grandchild", "stubborn", "catching", "chatty")) {
    expect_identical(interrupt_often(kind, 20L, longest = 0.3), rep(clean_interrupt, 20L))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
