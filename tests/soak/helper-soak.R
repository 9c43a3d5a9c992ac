helpers <- c("wait", "detritus", "fault", "fault-interrupt", "fault-fire")
for (name in helpers) {
  source(file.path("..", "testthat", paste0("helper-", name, ".R")), local = TRUE)
}
