# Writes what was measured, from the csv files of bench/results/: the whole tables into bench/README.md,
# one row for each claim of bench/claims.csv into README.md, both between two marks, and the drawing of
# those rows. bench/sections.csv names the results in order, a title for each and, where not all cells
# belong in a document, a regular expression on their names. bench/sentences.csv says which numbers of the list
# of claims in bench/README.md are measured: `words` of the line for `results`, whose last number is that of `ours`,
# by that of `theirs` if there is one, `times` a factor for its unit.
#   Rscript bench/README-table.R           writes the tables and the drawing
#   Rscript bench/README-table.R --check   fails if a table or a number is not what the results say, or the drawing
#                                          shows other values

begin_mark <- "<!-- bench: begin -->"
end_mark <- "<!-- bench: end -->"

format_seconds <- function(seconds) {
  steps <- findInterval(seconds, c(1e-6, 1e-3, 1)) + 1L
  unit <- c("ns", "\u00b5s", "ms", "s")[steps]
  scaled <- seconds * c(1e9, 1e6, 1e3, 1)[steps]
  paste(formatC(signif(scaled, 3L), digits = 3L, format = "g"), unit)
}

# A cell that begins or ends so has counts, bytes or gigabytes in place of seconds.
format_measure <- function(values, cell) {
  if (startsWith(cell, "elements")) {
    return(format_each(values))
  }
  if (endsWith(cell, " in GB")) {
    return(paste(format_each(signif(values, 3L)), "GB"))
  }
  if (startsWith(cell, "bytes")) paste(round(values), "bytes") else format_seconds(values)
}

# How often its time is that of regatta; two digits are what repeated runs agree on.
format_times <- function(times) {
  digits <- ifelse(times < 10, 2L, 3L)
  mapply(function(x, d) format(signif(x, d), scientific = FALSE, big.mark = ","), times, digits)
}

format_each <- function(values) vapply(values, format, "")

is_ours <- function(peer) grepl("^regatta", peer)

# One row of the table: the cell, our times, the others beside them in order of speed.
table_row <- function(rows) {
  ours <- rows[is_ours(rows$peer), ]
  others <- rows[!is_ours(rows$peer), ]
  others <- others[order(others$median_s), ]
  labels <- sub("^regatta[^A-Za-z0-9]*", "", ours$peer)
  labels <- ifelse(nzchar(labels), paste0(" (", labels, ")"), "")
  own <- paste0(format_measure(ours$median_s, rows$cell[[1L]]), labels)
  base <- min(ours$median_s)
  is_count <- startsWith(rows$cell[[1L]], "elements")
  times <- if (is_count) paste(format_each(others$median_s), "of them") else format_times(others$median_s / base)
  theirs <- sprintf("%s: %s", others$peer, times)
  join <- function(x) paste(x, collapse = "; ")
  sprintf("| %s | %s | %s |", rows$cell[[1]], join(own), join(theirs))
}

table_of <- function(results) {
  cells <- split(results, factor(results$cell, unique(results$cell)))
  measured <- Filter(function(rows) any(is_ours(rows$peer)), cells)
  c(
    "| measured | regatta | others, in multiples of that |", "|---|---|---|",
    vapply(measured, table_row, "", USE.NAMES = FALSE)
  )
}

# The versions that the peers of all results had.
versions_line <- function(results) {
  known <- unique(results[nzchar(results$version) & !is.na(results$version), c("peer", "version")])
  known <- known[!is_ours(known$peer), ]
  package <- sub("[^A-Za-z0-9.].*$", "", known$peer)
  package[package %in% c("lapply", "sequential")] <- "base"
  keep <- !duplicated(package)
  paste0("Versions: ", toString(sort(paste(package[keep], known$version[keep]))), ".")
}

read_results <- function(root) {
  sections <- utils::read.csv(file.path(root, "bench", "sections.csv"), colClasses = "character")
  files <- list.files(file.path(root, "bench", "results"), "\\.csv$")
  names <- sub("\\.csv$", "", files[!grepl("-short\\.csv$", files)])
  unlisted <- setdiff(names, sections$results)
  more <- data.frame(results = unlisted, title = unlisted, cells = rep("", length(unlisted)))
  sections <- rbind(sections, more)
  sections <- sections[sections$results %in% names, ]
  sections$data <- lapply(seq_len(nrow(sections)), function(i) {
    path <- file.path(root, "bench", "results", paste0(sections$results[[i]], ".csv"))
    data <- utils::read.csv(path, colClasses = c(version = "character"))
    if (nzchar(sections$cells[[i]])) data <- data[grepl(sections$cells[[i]], data$cell), ]
    data
  })
  sections
}

render <- function(sections) {
  parts <- lapply(seq_len(nrow(sections)), function(i) {
    c("", paste0("**", sections$title[[i]], "** (`bench/", sections$results[[i]], "`)"), "",
      table_of(sections$data[[i]]))
  })
  columns <- c("cell", "peer", "version", "median_s")
  all <- do.call(rbind, lapply(sections$data, `[`, columns))
  c(begin_mark, unlist(parts), "", versions_line(all), end_mark)
}

# The file with `table` between its marks.
with_table <- function(path, table) {
  lines <- readLines(path, encoding = "UTF-8")
  from <- which(lines == begin_mark)
  to <- which(lines == end_mark)
  if (length(from) != 1L || length(to) != 1L || from > to) {
    stop(path, " needs the lines \"", begin_mark, "\" and \"", end_mark, "\", once each", call. = FALSE)
  }
  c(lines[seq_len(from - 1L)], table, lines[-seq_len(to)])
}

# The last number of `words`, as it is written: one measured may differ by half a unit of its last digit.
is_rounded <- function(words, value) {
  said <- utils::tail(regmatches(words, gregexpr("[0-9]+([.][0-9]+)?", words))[[1L]], 1L)
  half <- 0.5 * 10^-nchar(sub("^[^.]*[.]?", "", said))
  abs(as.numeric(said) - value) <= half * (1 + 1e-9)
}

# What of the numbers in the list of claims is not what was measured, as sentences.
wrong_sentences <- function(root) {
  told <- utils::read.csv(file.path(root, "bench", "sentences.csv"), colClasses = "character")
  lines <- readLines(file.path(root, "bench", "README.md"), encoding = "UTF-8")
  found <- lapply(seq_len(nrow(told)), function(i) {
    row <- told[i, ]
    line <- grep(sprintf("| `%s` |", row$results), lines, fixed = TRUE, value = TRUE)
    if (length(line) != 1L || !grepl(row$words, line, fixed = TRUE)) {
      return(sprintf("the line of %s does not say \"%s\"", row$results, row$words))
    }
    data <- utils::read.csv(file.path(root, "bench", "results", paste0(row$results, ".csv")))
    measured <- function(peer) {
      value <- data$median_s[data$cell == row$cell & data$peer == peer]
      if (length(value) == 1L) value else NaN
    }
    value <- measured(row$ours) / (if (nzchar(row$theirs)) measured(row$theirs) else 1) * as.numeric(row$times)
    if (is.nan(value)) return(sprintf("%s has no %s of %s, %s", row$results, row$cell, row$ours, row$theirs))
    if (!is_rounded(row$words, value)) {
      return(sprintf("the line of %s says \"%s\", measured are %s", row$results, row$words, format(value, digits = 4L)))
    }
  })
  unlist(found)
}

# What the drawing shows, and which file that is: the same drawing has other bytes where there are other fonts.
drawn_of <- function(claims, path) {
  c(unname(tools::md5sum(path)), vapply(claims, function(claim) {
    paste(c(claim$what, paste(names(claim$times), signif(claim$times, 4L))), collapse = "; ")
  }, ""))
}

# The claims that have been measured: a list of what, the seconds of regatta, and those of the peers
# named, fastest first. A peer that was not installed when it was measured is missing.
read_claims <- function(root, sections) {
  claims <- utils::read.csv(file.path(root, "bench", "claims.csv"), colClasses = "character")
  found <- lapply(seq_len(nrow(claims)), function(i) {
    claim <- claims[i, ]
    at <- match(claim$results, sections$results)
    if (is.na(at)) return(NULL)
    rows <- sections$data[[at]]
    rows <- rows[rows$cell == claim$cell, ]
    ours <- rows$median_s[rows$peer == claim$ours]
    if (length(ours) != 1L) {
      stop("bench/claims.csv: no time of ", claim$ours, " for ", claim$cell, call. = FALSE)
    }
    theirs <- rows[rows$peer %in% strsplit(claim$peers, ";", fixed = TRUE)[[1L]], ]
    theirs <- theirs[order(theirs$median_s), ]
    list(what = claim$what, results = claim$results, ours = ours,
      times = stats::setNames(theirs$median_s / ours, theirs$peer))
  })
  Filter(Negate(is.null), found)
}

claims_table <- function(claims) {
  row <- function(claim) {
    sprintf("| %s | %s | %s |", claim$what, trimws(format_seconds(claim$ours)),
      paste(names(claim$times), format_times(claim$times), collapse = "; "))
  }
  c(begin_mark, "| | regatta | the others, in multiples of that |", "|---|---|---|",
    vapply(claims, row, ""), end_mark)
}

# One line for each claim, a point for each peer, on a logarithmic scale: regatta is at 1.
draw_claims <- function(claims, path) {
  row_height <- 46
  grDevices::png(path, width = 1000, height = row_height * length(claims) + 90, type = "cairo", res = 96)
  on.exit(grDevices::dev.off())
  graphics::par(mar = c(3.2, 20.5, 1.6, 2), mgp = c(2, 0.5, 0), family = "sans")
  n <- length(claims)
  ticks <- c(0.25, 0.5, 1, 4, 16, 64, 256)
  all <- unlist(lapply(claims, `[[`, "times"))
  low <- min(0.35, all * 0.6) # room for a name
  graphics::plot.new()
  graphics::plot.window(xlim = range(low, all * 1.3), ylim = c(0.5, n + 0.5), log = "x", yaxs = "i")
  graphics::abline(v = ticks, col = "grey90")
  graphics::abline(v = 1, col = "#0b6e99", lwd = 3)
  graphics::axis(1, ticks, ticks, tick = FALSE, cex.axis = 0.9)
  graphics::mtext("others: times as long as regatta (logarithmic)", 1, line = 2, cex = 0.9)
  graphics::mtext("regatta", 3, at = 1, line = 0.1, cex = 0.9, font = 2, col = "#0b6e99")
  for (i in seq_len(n)) {
    y <- n + 1 - i
    times <- claims[[i]]$times
    graphics::segments(1, y, max(times), y, col = "grey70")
    graphics::points(times, rep(y, length(times)), pch = 19, cex = 1.1,
      col = ifelse(times < 1, "#0b6e99", "#c4501b"))
    what <- paste(strwrap(claims[[i]]$what, 53), collapse = "\n")
    graphics::text(low * 0.8, y, what, adj = c(1, 0.5), cex = 0.88, xpd = NA)
    label_peers(times, y)
  }
  invisible(path)
}

# The packages' names, above and below the line by turns; of those that are too near to each other on
# one side the slower goes without.
label_peers <- function(times, y) {
  labels <- sub("::.*$", "", sub(", .*$", "", names(times)))
  labels <- sub("^(base|sequential).*$", "base R", labels)
  taken <- c(-Inf, -Inf)
  for (k in seq_along(times)) {
    half <- graphics::strwidth(labels[[k]], cex = 0.7) / 2
    centre <- log10(times[[k]])
    free <- which(centre - half > taken)
    if (length(free) == 0L || labels[[k]] %in% labels[seq_len(k - 1L)]) next
    side <- free[[1L]]
    above <- y + c(0.28, -0.28)[[side]]
    # What is drawn before would go through the words.
    graphics::rect(10^(centre - half), above - 0.13, 10^(centre + half), above + 0.13, col = "white", border = NA)
    graphics::text(times[[k]], above, labels[[k]], cex = 0.7, col = "grey25")
    taken[[side]] <- centre + half + 0.02
  }
}

main <- function(check = FALSE, root = ".") {
  sections <- read_results(root)
  if (nrow(sections) == 0L) {
    stop("bench/results/ holds no results: run `make bench` first", call. = FALSE)
  }
  claims <- read_claims(root, sections)
  tables <- list(render(sections), claims_table(claims))
  files <- file.path(root, c("bench/README.md", "README.md"))
  new <- Map(with_table, files, tables)
  picture <- file.path(root, "man", "figures", "README-measured.png")
  drawn <- file.path(root, "bench", "drawn.txt")
  wrong <- wrong_sentences(root)
  if (check) {
    is_old <- !mapply(function(path, lines) identical(lines, readLines(path, encoding = "UTF-8")), files, new)
    is_old <- c(is_old, !identical(drawn_of(claims, picture), readLines(drawn, encoding = "UTF-8")))
    wrong <- c(sprintf("%s is not what bench/results says: run `make bench-table`", c(files, picture)[is_old]), wrong)
  } else {
    for (i in seq_along(files)) writeLines(new[[i]], files[[i]], useBytes = TRUE)
    draw_claims(claims, picture)
    writeLines(drawn_of(claims, picture), drawn, useBytes = TRUE)
  }
  writeLines(sprintf("bench: %s", wrong))
  cat(sprintf("bench/README.md: %d tables, README.md: %d rows and their drawing\n", nrow(sections), length(claims)))
  length(wrong) == 0L
}

if (sys.nframe() == 0L && !main("--check" %in% commandArgs(TRUE))) quit(status = 1L)
