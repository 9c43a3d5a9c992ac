# Which cells of an experiment are sound? The usual quality table of single cells: counts, genes detected and the
# share of mitochondrial genes for each cell, then groups of cells and what they differ in. The matrix stays in
# its file, in the layout of 10x Genomics; what is read of it in full is 50 genes. The counts are made up, by
# tools/make-cells.py; the first argument after the folder may name a file of one's own.
#
# Rscript demo/cells.R [folder for the table and the picture] [file]

library(regatta)

arguments <- commandArgs(trailingOnly = TRUE)
folder <- c(arguments, if (interactive()) tempdir() else ".")[[1]]
file <- c(arguments[-1], system.file("extdata", "cells-10x.h5", package = "regatta"))[[1]]

say <- function(...) {
  writeLines(c("", strwrap(paste0(...), width = 78, prefix = "# "), ""))
  flush.console()
}

# What is known of each cell, in one pass over the file.

quality_of <- function(m, mitochondrial) {
  cells <- h5_stats(m, 2, c("sum", "nnz"))
  data.frame(
    counts = cells$sum, genes = cells$nnz,
    mitochondrial = 100 * h5_col_sums(m, rows = mitochondrial) / pmax(cells$sum, 1),
    row.names = colnames(m)
  )
}

# Cells that differ from the others by more than three median deviations.

outlying <- function(x, side) {
  apart <- (x - stats::median(x)) / stats::mad(x)
  if (side == "low") apart < -3 else apart > 3
}

sound_cells <- function(quality) {
  !(outlying(log(quality$counts + 1), "low") | outlying(log(quality$counts + 1), "high") |
    outlying(quality$mitochondrial, "high"))
}

# Groups by the genes that vary most, beyond what counting alone would make them.

group_cells <- function(m, sound, quality, groups, most = 50) {
  genes <- h5_stats(m, 1, c("mean", "var"), columns = sound)
  excess <- ifelse(genes$mean > 0.05, genes$var / genes$mean, 0)
  chosen <- sort(utils::head(order(-excess), most))
  values <- as.matrix(m[chosen, sound])
  values <- log1p(t(values) / quality$counts[sound] * stats::median(quality$counts))
  places <- stats::prcomp(values)$x[, 1:2]
  set.seed(1)
  found <- stats::kmeans(places, groups, nstart = 20)$cluster
  largest <- match(found, order(-tabulate(found)))
  list(places = places, group = factor(LETTERS[largest]))
}

# The genes that stand out most in each group.

markers_of <- function(m, sound, group, names, each = 4) {
  means <- h5_row_means(m, columns = sound, groups = group)
  rows <- lapply(colnames(means), function(one) {
    others <- rowMeans(means[, colnames(means) != one, drop = FALSE])
    best <- utils::head(order(-(means[, one] + 0.1) / (others + 0.1)), each)
    data.frame(group = one, gene = names[best], mean = means[best, one], others = others[best], row.names = NULL)
  })
  do.call(rbind, rows)
}

draw <- function(quality, sound, found, path) {
  colours <- c("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
  png(path, width = 1400, height = 640, res = 120)
  on.exit(dev.off())
  par(mfrow = c(1, 2), mar = c(4.2, 4.2, 2.4, 1), mgp = c(2.5, 0.7, 0), las = 1)
  plot(quality$counts, quality$mitochondrial, log = "x", pch = 19, cex = 0.5,
    col = ifelse(sound, "grey55", "#d55e00"), xlab = "counts of the cell", ylab = "% mitochondrial",
    main = "Cells that are left out")
  legend("topright", c("sound", "left out"), col = c("grey55", "#d55e00"), pch = 19, bty = "n")
  plot(found$places, pch = 19, cex = 0.5, col = colours[found$group], xlab = "component 1", ylab = "component 2",
    main = "Groups of sound cells")
  sizes <- table(found$group)
  legend("bottomright", sprintf("%s, %d cells", names(sizes), sizes), col = colours, pch = 19, bty = "n")
}

if (!isTRUE(h5_available()[[1]])) {
  say("The second part of the demo reads a file of single cells, and is left out: regatta was built without libhdf5.",
    " With libhdf5-dev installed, install regatta again and run demo/cells.R.")
} else {
  m <- h5_sparse(file)
  names <- h5_annotation(m, 1)$name
  say("A second job: the quality table of single cells, whose matrix stays in an HDF5 file.")
  print(m)

  quality <- quality_of(m, grep("^MT-", names, ignore.case = TRUE))
  sound <- sound_cells(quality)
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  csv <- file.path(folder, "cells-quality.csv")
  write.csv(format(transform(quality, sound = sound), digits = 4), csv, quote = FALSE)
  say("Of each cell: its counts, the genes detected, and the share of mitochondrial genes. ", sum(!sound), " of ",
    length(sound), " cells are left out: too few counts or too many, or dying by what they express. Cells by quarters:")
  print(round(sapply(quality, stats::quantile), 1))
  cat("\nall of them:", csv, "\n")

  found <- group_cells(m, sound, quality, groups = 3)
  say("The 50 genes that vary most put the sound cells into three groups. Means of all genes by group are one more",
    " pass over the file; the genes that stand out most:")
  print(format(markers_of(m, sound, found$group, names), digits = 2), row.names = FALSE)

  png_file <- file.path(folder, "cells-quality.png")
  if (capabilities("png")) {
    draw(quality, sound, found, png_file)
    cat("\nBoth steps drawn:", png_file, "\n")
  }
}
