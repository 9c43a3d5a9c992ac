# Names of rows and columns, where a format stores them beside the matrix. In R's order: rows run
# along the last dimension of the file.

h5_stored_names <- function(path, name, dim) {
  name <- sub("^/+", "", name)
  found <- h5_names_of_hdf5array(path, name)
  if (is.null(found)) found <- h5_names_of_anndata(path, name)
  if (is.null(found)) found <- h5_names_of_loom(path, name)
  # What does not fit belongs to something else.
  found <- lapply(1:2, function(k) if (length(found[[k]]) == dim[[k]]) h5_name_strings(found[[k]]))
  if (all(lengths(found) == 0L)) NULL else found
}

# Numbers as they are written: not 1e+05.
h5_name_strings <- function(x) {
  if (is.numeric(x) && all(is.finite(x) & x == trunc(x))) sprintf("%.0f", x) else as.character(x)
}

# Of HDF5Array: a group beside the dataset, whose members are called by the number of the dimension.
h5_names_of_hdf5array <- function(path, name) {
  group <- paste0(sub("[^/]*$", "", name), ".", sub("^.*/", "", name), "_dimnames")
  found <- lapply(1:2, function(k) h5_values(path, paste0(group, "/", k)))
  if (all(lengths(found) == 0L)) NULL else found
}

# Of AnnData: lines of the file are cells. The attribute _index names the column with the names. Before version 0.7 the
# tables were compound datasets, whose first field has them, and `raw.X` stood beside `X`.
h5_names_of_anndata <- function(path, name) {
  if (!grepl("^(X$|layers/|raw[/.]X$)", name)) {
    return(NULL)
  }
  found <- lapply(h5_anndata_tables(name), h5_anndata_index, path = path)
  if (all(lengths(found) == 0L)) NULL else found
}

# Of the rows and of the columns of the matrix.
h5_anndata_tables <- function(name) {
  raw <- regmatches(name, regexpr("^raw[/.]", name))
  c(if (length(raw) > 0L) paste0(raw, "var") else "var", "obs")
}

h5_anndata_index <- function(group, path) {
  index <- h5_values(path, group, "_index")
  columns <- c(if (is.character(index)) index, "_index", "index")
  for (column in unique(columns)) {
    found <- h5_values(path, paste0(group, "/", column))
    if (!is.null(found)) {
      return(found)
    }
  }
  fields <- h5_record_fields(h5_listed(path, group), group)
  field <- c(intersect(c("_index", "index"), fields), fields)
  if (length(field) > 0L) h5_annotation_values(path, group, field[[1L]])
}

# Of Loom: lines of the file are genes.
h5_names_of_loom <- function(path, name) {
  if (!grepl("^(matrix$|layers/)", name)) {
    return(NULL)
  }
  first <- function(group, columns) {
    for (column in columns) {
      found <- h5_values(path, paste0(group, "/", column))
      if (!is.null(found)) {
        return(found)
      }
    }
    NULL
  }
  found <- list(
    first("col_attrs", c("CellID", "obs_names", "cell_names")),
    first("row_attrs", c("Gene", "var_names", "gene_names", "Accession"))
  )
  if (all(lengths(found) == 0L)) NULL else found
}
