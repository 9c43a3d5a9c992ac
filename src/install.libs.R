# R installs the libraries by itself unless there is this file. Beside them goes the program of h5-try/.
folder <- file.path(R_PACKAGE_DIR, paste0("libs", R_ARCH))
dir.create(folder, recursive = TRUE, showWarnings = FALSE)
files <- c(Sys.glob(paste0("*", SHLIB_EXT)), Filter(file.exists, c("regatta-h5-try", "symbols.rds")))
stopifnot(file.copy(files, folder, overwrite = TRUE))
