# Draws bench/results/hdf5-scaling.csv, or that of a short run, beside itself: seconds by the number of workers, by the
# shape of chunks.
#   Rscript bench/hdf5-scaling/draw.R
local({
  short <- "--short" %in% commandArgs(TRUE)
  file <- sprintf("bench/results/hdf5-scaling%s.csv", if (short) "-short" else "")
  rows <- utils::read.csv(file)
  colours <- c("#0072b2", "#d55e00", "#009e73")
  draw_lines <- function(part, at, labels, title, below) {
    peers <- unique(part$peer)
    times <- sapply(peers, function(peer) part$median_s[part$peer == peer])
    graphics::matplot(at, times, type = "b", pch = 19, lty = 1, lwd = 2, col = colours, log = "y", xaxt = "n",
      xlab = below, ylab = "", main = title, ylim = range(times) * c(0.7, 1.9))
    graphics::mtext("seconds", 2, 2.6, las = 0)
    graphics::axis(1, at, labels)
    graphics::legend("topright", peers, col = colours, pch = 19, lwd = 2, bty = "n", cex = 0.9)
  }
  grDevices::png(sub("csv$", "png", file), width = 1500, height = 520, type = "cairo", res = 110)
  on.exit(grDevices::dev.off())
  graphics::par(mfrow = c(1, 3), mar = c(4.2, 4.2, 2.6, 1), mgp = c(2.6, 0.7, 0), las = 1, family = "sans")
  workers <- rows[grepl("at a time$", rows$cell), ]
  numbers <- unique(sub("^.*, (\\d+) at a time$", "\\1", workers$cell))
  draw_lines(workers, seq_along(numbers), numbers, "Column sums of the post's file", "threads or processes")
  for (margin in c("column", "row")) {
    part <- rows[startsWith(rows$cell, paste0(margin, " sums, chunks")), ]
    shapes <- unique(sub("^.*chunks of ", "", part$cell))
    title <- sprintf("%s sums of 6,000 x 5,000", if (margin == "column") "Column" else "Row")
    draw_lines(part, seq_along(shapes), shapes, title, "rows x columns of a chunk")
  }
})
