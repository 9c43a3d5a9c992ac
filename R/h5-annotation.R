# What a file tells of each row or column of a matrix, beside the matrix: columns of Loom's row and column
# attributes, of AnnData's `obs` and `var`, of the features of 10x Genomics.

h5_annotation <- function(m, margin) {
  h5_needed()
  check_h5_object(m)
  if (!is_number(margin) || !margin %in% 1:2) {
    abort_argument("margin", margin, "1 (of rows) or 2 (of columns)")
  }
  fields <- h5_fields(m)
  # An error if it is not there any more: no further group need exist.
  h5_call("ffi_h5_check", h5_source(m))
  side <- if (fields$transposed) 3 - margin else margin
  size <- dim(m)[[margin]]
  groups <- h5_annotation_groups(m, side)
  columns <- do.call(c, lapply(groups, h5_annotation_columns, path = fields$path, size = size))
  names <- dimnames(m)[[margin]]
  table <- structure(columns, class = "data.frame", row.names = .set_row_names(size))
  if (!is.null(names)) attr(table, "row.names") <- make.unique(names)
  table
}

# The group, or datasets, for rows (1) or columns (2) of the matrix as it is in the file.
h5_annotation_groups <- function(m, side) {
  fields <- h5_fields(m)
  name <- sub("^/+", "", fields$name)
  exists <- function(group) !is.null(h5_listed(fields$path, group))
  if (identical(fields$format, "10x")) {
    features <- if (exists(paste0(name, "/features"))) "features" else c("genes", "gene_names")
    return(paste0(name, "/", if (side == 1) features else "barcodes"))
  }
  anndata <- h5_anndata_tables(name)[[side]]
  loom <- c("col_attrs", "row_attrs")[[side]]
  if (exists(anndata)) anndata else loom
}

# Those that have one value for each row or column.
h5_annotation_columns <- function(group, path, size) {
  known <- h5_listed(path, group)
  members <- known$name[known$kind == "dataset"]
  # A dataset by itself, as 10x Genomics has the barcodes.
  if (identical(members, group)) {
    fields <- h5_record_fields(known, group)
    if (length(fields) > 0L) return(h5_annotation_records(path, group, fields, size))
    value <- h5_values(path, group)
    return(if (length(value) == size) stats::setNames(list(value), sub("^.*/", "", group)) else list())
  }
  read <- function(column) {
    place <- paste0(group, "/", column)
    value <- h5_annotation_values(path, place)
    levels <- h5_annotation_levels(path, group, column)
    if (length(value) != size) return(NULL)
    if (is.null(levels) || !is.numeric(value)) value else h5_decode(value, levels)
  }
  coded <- sub("/codes$", "", grep("^[^/]+/codes$", members, value = TRUE))
  columns <- lapply(stats::setNames(nm = grep("/", members, value = TRUE, invert = TRUE)), read)
  factors <- lapply(stats::setNames(nm = coded), function(column) {
    levels <- h5_values(path, paste0(group, "/", column, "/categories"))
    code <- h5_values(path, paste0(group, "/", column, "/codes"))
    if (length(code) == size && is.numeric(code) && !is.null(levels)) h5_decode(code, levels)
  })
  columns <- c(columns, factors)
  columns[!vapply(columns, is.null, NA)]
}

# Strings or numbers; NULL of anything else.
h5_annotation_values <- function(path, name, field = "") {
  value <- h5_ask("ffi_h5_values", path, name, "", field)
  if (!inherits(value, "h5_failure")) value
}

# The fields of a compound dataset, as AnnData before version 0.7 has `obs` and `var`. Categories of a field stand under
# its name among what has no structure, for the cells and genes alike: they are its own if they suffice for its codes.
h5_annotation_records <- function(path, table, fields, size) {
  others <- if (startsWith(table, "raw")) "raw.cat" else "uns"
  columns <- lapply(stats::setNames(nm = fields), function(field) {
    value <- h5_annotation_values(path, table, field)
    if (length(value) != size) return(NULL)
    if (!is.integer(value)) return(value)
    levels <- h5_annotation_values(path, sprintf("%s/%s_categories", others, field))
    if (is.null(levels) || any(value >= length(levels))) value else h5_decode(value, levels)
  })
  columns[!vapply(columns, is.null, NA)]
}

# Codes count from 0, and one below is a missing value.
h5_decode <- function(code, levels) {
  factor(levels[replace(code, code < 0, NA) + 1L], unique(levels))
}

# Of AnnData before version 0.7.
h5_annotation_levels <- function(path, group, column) {
  h5_values(path, paste0(group, "/__categories/", column))
}
