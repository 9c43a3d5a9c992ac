library(testthat)
library(threadstats)

test_check("threadstats")
