# Draws the picture of the README: what a parallel map is made of.
#   Rscript tools/README-picture.R [FILE.png]

blue <- "#0b6e99"
orange <- "#c4501b"

box <- function(x0, y0, x1, y1, title, lines = character(), border = blue, fill = "white", lty = 1) {
  graphics::rect(x0, y0, x1, y1, border = border, col = fill, lwd = 2, lty = lty)
  graphics::text((x0 + x1) / 2, y1 - 4, title, font = 2, cex = 1)
  for (i in seq_along(lines)) {
    graphics::text((x0 + x1) / 2, y1 - 5 - 5 * i, lines[[i]], cex = 0.85, col = "grey25")
  }
}

arrow <- function(x0, y0, x1, y1, label = "", col = "grey30", dy = 2.2, lty = 1) {
  graphics::arrows(x0, y0, x1, y1, length = 0.1, lwd = 2, col = col, lty = lty)
  graphics::text((x0 + x1) / 2, (y0 + y1) / 2 + dy, label, cex = 0.8, col = col)
}

draw <- function() {
  graphics::par(mar = c(0, 0, 0, 0), family = "sans")
  graphics::plot.new()
  graphics::plot.window(xlim = c(0, 160), ylim = c(0, 78), xaxs = "i", yaxs = "i")

  box(2, 16, 40, 66, "your R session", c("par_lapply(X, f)", "", "values in order,", "output and warnings live,",
    "errors with their calls", "and variables"), fill = "#eef6fa")
  box(60, 4, 98, 76, "shared memory", border = "grey40", fill = "#f7f7f7")
  box(63, 51, 95, 68, "queue of elements", "a batch goes to who is free")
  box(63, 30, 95, 47, "values", "written once, not copied")
  box(63, 9, 95, 26, "events", "output, conditions, endings")
  box(126, 54, 158, 74, "worker 1", c("a fork: it has all", "that the session has"), fill = "#eef6fa")
  box(126, 30, 158, 50, "worker 2", c("ends in a crash: that", "costs one element"), border = orange, lty = 2)
  box(126, 6, 158, 26, "worker 3", c("in its place:", "the rest goes on"), fill = "#eef6fa")

  arrow(40, 58, 62, 58, "elements")
  arrow(62, 38, 40, 38, "mapped")
  arrow(62, 21, 40, 21, "live")
  for (y in c(64, 16)) {
    arrow(98, y + 4, 125, y + 4, "elements")
    arrow(125, y - 4, 98, y - 4, "value, output")
  }
  arrow(98, 44, 125, 44, "elements")
  arrow(125, 36, 98, 36, "which, and why", col = orange, lty = 2)
}

if (sys.nframe() == 0L) {
  path <- c(commandArgs(TRUE), "man/figures/README-idea.png")[[1L]]
  grDevices::png(path, width = 1000, height = 490, type = "cairo", res = 96)
  draw()
  invisible(grDevices::dev.off())
}
