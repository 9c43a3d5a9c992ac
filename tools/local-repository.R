# Rscript --vanilla tools/local-repository.R FOLDER: a repository that lists what is installed here, and in
# FOLDER/repositories the list for R that names no other (R_REPOSITORIES). R CMD check --as-cran asks repositories which
# of the undeclared names in tests are packages. Tests make packages of their own; whether a name is one of these, or one
# that DESCRIPTION forgot, is told here without a network.
dir.create(file.path(commandArgs(TRUE), "src", "contrib"), recursive = TRUE, showWarnings = FALSE)
folder <- normalizePath(commandArgs(TRUE))
there <- utils::installed.packages()[, c("Package", "Version")]
write.dcf(there[!duplicated(there[, "Package"]), ], file.path(folder, "src", "contrib", "PACKAGES"))
table <- utils::read.delim(file.path(R.home("etc"), "repositories"), comment.char = "#", check.names = FALSE)
table$URL <- paste0("file://", folder)
utils::write.table(table, file.path(folder, "repositories"), sep = "\t", quote = FALSE)
