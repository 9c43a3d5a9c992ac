# The timeline of a run: a lane for each worker, a bar for each element, light where it ran none.

plot.regatta_run <- function(x, ..., labels = NULL, main = NULL, sub = NULL) {
  lanes <- sort(unique(x$workers$worker))
  spans <- run_spans(x)
  phases <- run_phases(x, spans)
  height <- lane_height(length(lanes))
  old <- graphics::par(mar = c(4.2, 4.2, 4.6, 4.2), mgp = c(2.6, 0.7, 0), las = 1)
  on.exit(graphics::par(old))
  end <- max(x$elapsed, spans$end, 1e-6)
  graphics::plot.new()
  graphics::plot.window(c(0, end), c(max(length(lanes), 1L) + 0.5, 0.5), xaxs = "i", yaxs = "i")
  if (length(lanes) == 0L) {
    graphics::text(end / 2, 1, "no worker was started")
  } else {
    spans$lane <- match(spans$worker, lanes)
    draw_lanes(x$workers, lanes, end, height)
    draw_phases(phases, lanes, end, height)
    draw_spans(spans, end, height)
    draw_names(spans, x$names, labels, height)
    draw_ends(x$workers, lanes, height)
    draw_shares(spans, lanes, x$elapsed)
  }
  draw_axes(lanes, end)
  draw_titles(x, main, sub)
  draw_legend(x, spans, phases)
  invisible(x)
}

# Colours that remain distinct to the colour-blind (Okabe and Ito, 2008); "done" has two tints by
# turns so that neighbouring elements can be told apart.
status_colours <- function() {
  c(
    done = "#0072B2", error = "#D55E00", death = "#000000", timeout = "#E69F00",
    cancelled = "#999999", pending = "#CC79A7", "put back" = "#009E73"
  )
}

# Light, and apart from all of those: what a worker did when it ran no element.
phase_colours <- c("start-up" = "#F5EE9E", transfer = "#8FD3BD")
idle_colour <- "#E4E7EA"

done_tint <- "#4A90C4"

lane_height <- function(lanes) {
  if (lanes <= 8L) 0.62 else if (lanes <= 24L) 0.74 else 0.86
}

# A lane begins and ends with its processes: a gap in it is the time from a death to the successor.
draw_lanes <- function(workers, lanes, end, height) {
  y <- match(workers$worker, lanes)
  graphics::rect(
    workers$start, y - height / 2, ifelse(is.na(workers$end), end, workers$end), y + height / 2,
    col = idle_colour, border = NA
  )
}

# Lanes have the colour of idle time already.
draw_phases <- function(phases, lanes, end, height) {
  phases <- phases[phases$kind != "idle", ]
  phases$lane <- match(phases$worker, lanes)
  names(phases)[names(phases) == "kind"] <- "status"
  # What is too narrow to be seen is most of the time of a run of many small elements: joined, it can be.
  rows <- merge_spans(phases, end / device_columns())
  graphics::rect(
    rows$start, rows$lane - height / 2, rows$end, rows$lane + height / 2,
    col = phase_colours[as.character(rows$status)], border = NA
  )
}

draw_spans <- function(spans, end, height) {
  pixel <- end / device_columns()
  spans$tint <- stats::ave(spans$start, spans$lane, FUN = seq_along) %% 2
  plain <- spans$status == "done" & !spans$retried
  bars <- merge_spans(spans[plain, ], pixel)
  graphics::rect(
    bars$start, bars$lane - height / 2, bars$end, bars$lane + height / 2,
    col = ifelse(bars$tint == 0, done_tint, status_colours()[["done"]]), border = NA
  )
  # The rare ones come last and keep a width that can be seen, however short they were.
  rare <- spans[!plain, ]
  for (retried in c(TRUE, FALSE)) {
    rows <- merge_spans(rare[rare$retried == retried, ], pixel)
    draw_rare(rows, retried, end, pixel, height)
  }
}

draw_rare <- function(rows, retried, end, pixel, height) {
  if (nrow(rows) == 0L) {
    return(invisible())
  }
  colour <- status_colours()[as.character(rows$status)]
  right <- pmax(rows$end, rows$start + 3 * pixel)
  left <- rows$start - pmax(right - end, 0)
  right <- pmin(right, end)
  bottom <- rows$lane + height / 2
  top <- rows$lane - height / 2
  if (retried) {
    graphics::rect(left, top, right, bottom, col = "white", border = colour)
    graphics::rect(left, top, right, bottom, col = colour, density = 25, border = colour)
  } else {
    graphics::rect(left, top, right, bottom, col = colour, border = NA)
  }
}

device_columns <- function() {
  width <- graphics::par("pin")[[1L]]
  max(200, round(width * 72 * 1.5))
}

# A hundred thousand bars narrower than a pixel would be a slow and grey picture: neighbours of one
# lane and status become one bar while each of them and the gap before it is below half a pixel.
merge_spans <- function(spans, pixel) {
  n <- nrow(spans)
  if (n < 2L) {
    return(spans)
  }
  here <- seq_len(n)[-1L]
  before <- here - 1L
  narrow <- spans$end - spans$start < pixel / 2
  joined <- narrow[here] & narrow[before] & spans$lane[here] == spans$lane[before] &
    spans$status[here] == spans$status[before] &
    spans$start[here] - spans$end[before] < pixel / 2
  first <- c(TRUE, !joined)
  bars <- spans[first, ]
  latest <- c(which(first)[-1L] - 1L, n)
  bars$end <- spans$end[latest]
  # The tint of one of them says nothing about all.
  if (!is.null(bars$tint)) bars$tint[latest > which(first)] <- 1
  bars
}

# Element names, or indices, in the bars that have room for them, upright where only that fits.
draw_names <- function(spans, names, labels, height) {
  if (isFALSE(labels) || nrow(spans) == 0L) {
    return(invisible())
  }
  widest <- utils::head(spans[order(spans$start - spans$end), ], 1000L)
  text <- if (is.null(names)) as.character(widest$index) else names[widest$index]
  text[is.na(text)] <- ""
  # In inches, as text that stands upright needs its width along the other axis.
  tall <- height / abs(graphics::yinch(1))
  wide <- (widest$end - widest$start) / graphics::xinch(1)
  line <- graphics::par("csi")
  size <- min(0.75, 0.7 * tall / line)
  if (size < 0.3) {
    return(invisible())
  }
  needs <- graphics::strwidth(text, cex = size, units = "inches") + 0.3 * size * line
  flat <- needs < wide
  upright <- !flat & wide > size * line & needs < tall
  dark <- widest$status %in% c("done", "death", "error") & !widest$retried
  middle <- (widest$start + widest$end) / 2
  for (turn in c(0, 90)) {
    fits <- if (turn == 0) flat else upright
    if (any(fits)) {
      graphics::text(
        middle[fits], widest$lane[fits], text[fits],
        cex = size, srt = turn, col = ifelse(dark[fits], "white", "black")
      )
    }
  }
}

lost_workers <- function(workers) {
  workers[!is.na(workers$exit) & workers$exit != "stopped" & !is.na(workers$end), ]
}

# A cross where a worker ended by a signal or of its own.
draw_ends <- function(workers, lanes, height) {
  lost <- lost_workers(workers)
  if (nrow(lost) > 0L) {
    y <- match(lost$worker, lanes)
    graphics::points(lost$end, y, pch = 4, lwd = 2.5, cex = 1.3, xpd = NA)
  }
}

draw_shares <- function(spans, lanes, elapsed) {
  if (elapsed <= 0 || length(lanes) > 40L) {
    return(invisible())
  }
  busy <- tapply(spans$end - spans$start, factor(spans$lane, seq_along(lanes)), sum)
  busy[is.na(busy)] <- 0
  size <- if (length(lanes) <= 20L) 0.85 else 0.6
  graphics::mtext("busy", side = 4, line = 0.4, at = 0.5, padj = -0.6, cex = 0.85)
  graphics::mtext(
    sprintf("%.0f%%", pmin(100 * busy / elapsed, 100)),
    side = 4, line = 0.4, at = seq_along(lanes), cex = size
  )
}

draw_axes <- function(lanes, end) {
  graphics::axis(1)
  # Its own line ends at the last tick.
  bottom <- graphics::par("usr")[[3L]]
  graphics::segments(0, bottom, end, bottom, xpd = NA)
  graphics::title(xlab = "seconds since the start of the run", ylab = "worker")
  if (length(lanes) > 0L) {
    step <- max(1L, ceiling(length(lanes) / 32))
    at <- seq.int(1L, length(lanes), by = step)
    graphics::axis(2, at = at, labels = lanes[at], tick = FALSE, line = -0.6, gap.axis = 0)
  }
}

draw_titles <- function(run, main, sub) {
  if (is.null(main)) {
    main <- sprintf("%s: %s", run$verb, count_of(run$n, "element", "elements"))
  }
  work <- run_work(run)
  if (is.null(sub)) {
    sub <- sprintf("%s, %s", count_of(work$workers, "worker", "workers"), format_time(run$elapsed))
    if (work$busy > 0) {
      sub <- sprintf("%s, busy %.0f%% of the time", sub, min(100 * work$share, 100))
    }
  }
  graphics::mtext(main, side = 3, line = 2.9, adj = 0, font = 2, cex = 1.2)
  graphics::mtext(sub, side = 3, line = 1.7, adj = 0, cex = 0.95)
}

draw_legend <- function(run, spans, phases) {
  ended <- status_counts(run$elements$status)
  ended <- ended[names(ended) != "pending"]
  again <- status_counts(spans$status[spans$retried])
  colour <- unname(status_colours()[c(names(ended), names(again))])
  text <- c(
    paste(names(ended), format_count(ended)),
    if (length(again) > 0L) sprintf("%s, run again %s", names(again), format_count(again))
  )
  hatched <- rep(c(FALSE, TRUE), c(length(ended), length(again)))
  seconds <- tapply(phases$end - phases$start, phases$kind, sum)
  shown <- names(phase_colours)[names(phase_colours) %in% names(seconds)[!is.na(seconds)]]
  lost <- nrow(lost_workers(run$workers))
  cross <- if (lost > 0L) paste("worker ended", format_count(lost))
  draw_keys(
    c(colour, phase_colours[shown], idle_colour, rep(NA, length(cross))), c(text, shown, "idle", cross),
    c(hatched, rep(FALSE, length(shown) + 1L + length(cross)))
  )
}

# In one row above the lanes, smaller where that is too long for it; legend() gives every key the width of the widest. A key
# without a colour is the cross.
draw_keys <- function(colour, text, hatched, size = 0.85) {
  usr <- graphics::par("usr")
  inch_x <- graphics::xinch(1)
  needed <- sum(graphics::strwidth(text, cex = size)) + 2.2 * length(text) * graphics::par("csi") * size * inch_x
  size <- size * max(0.4, min(1, (usr[[2L]] - usr[[1L]]) / needed))
  inch_y <- abs(graphics::yinch(1))
  line <- graphics::par("csi") * size
  y <- usr[[4L]] - 0.75 * line * inch_y
  half <- 0.3 * line * inch_y
  widths <- graphics::strwidth(text, cex = size) + 2.2 * line * inch_x
  left <- usr[[1L]] + c(0, cumsum(widths)[-length(widths)])
  right <- left + 0.7 * line * inch_x
  cross <- is.na(colour)
  graphics::rect(left[!cross], y - half, right[!cross], y + half, xpd = NA, border = colour[!cross],
    col = ifelse(hatched, "white", colour)[!cross]
  )
  if (any(hatched)) {
    graphics::rect(left[hatched], y - half, right[hatched], y + half,
      xpd = NA, border = colour[hatched], col = colour[hatched], density = 25
    )
  }
  if (any(cross)) {
    graphics::points(((left + right) / 2)[cross], y, pch = 4, lwd = 2, cex = size, xpd = NA)
  }
  graphics::text(right + 0.3 * line * inch_x, y, text, adj = c(0, 0.5), cex = size, xpd = NA)
}
