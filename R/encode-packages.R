# Packages that what is sent needs on a worker that does not inherit the session, the libraries that the session has
# them from, and their versions.
#
# R writes a namespace down as its name. A reader that cannot load it is given the workspace in its place, without an
# error, and one that finds another version is given that. So workers load what is needed first, from where the session
# has it, and compare.

# What is loaded here and not in every R process: list(spaces, paths, name, library, version, astray, stamp, under).
# `library` is "" for what was not loaded from one, as by pkgload::load_all(); `astray`: another process would find it
# elsewhere, or not at all; `stamp`: what package_stamps() gave when it was first seen here; `under`: an environment of
# what packages_under() has found. The very same as long as nothing has changed.
loaded_packages <- function() {
  names <- loadedNamespaces()
  names <- names[!names %in% c(default_packages(), "regatta")]
  spaces <- lapply(names, .getNamespace)
  paths <- .libPaths()
  if (!identical(the$loaded$spaces, spaces) || !identical(the$loaded$paths, paths)) {
    library <- vapply(spaces, space_library, "")
    version <- vapply(spaces, function(space) as.character(space[[".__NAMESPACE__."]]$spec[["version"]]), "")
    # Those of R itself are as the R of a worker.
    version[library == .Library & version == as.character(getRversion())] <- NA
    the$loaded <- list(
      spaces = spaces, paths = paths, name = names, library = library, version = version,
      astray = nzchar(library) & library != vapply(names, library_for, "", paths),
      stamp = stamps_seen(names, spaces, the$loaded, package_stamps(names, library)),
      under = new.env(parent = emptyenv())
    )
  }
  the$loaded
}

# When what is installed there was installed, NA if nothing is.
package_stamps <- function(names, library) as.numeric(file.mtime(file.path(library, names, "Meta", "package.rds")))

# `now`, but what was noted in `before` for namespaces that are still the very same.
stamps_seen <- function(names, spaces, before, now) {
  at <- match(names, before$name)
  for (k in which(!is.na(at))) {
    if (identical(spaces[[k]], before$spaces[[at[[k]]]])) now[[k]] <- before$stamp[[at[[k]]]]
  }
  now
}

# Whether these packages of loaded_packages() were installed anew since they were first seen here.
are_renewed <- function(loaded, at) {
  (package_stamps(loaded$name[at], loaded$library[at]) != loaded$stamp[at]) %in% TRUE
}

space_library <- function(space) {
  path <- space[[".__NAMESPACE__."]]$path
  if (is.character(path) && file.exists(file.path(path, "Meta", "package.rds"))) dirname(path) else ""
}

# The first library that has it, "" if none.
library_for <- function(package, paths) {
  c(paths[file.exists(file.path(paths, package, "DESCRIPTION"))], "")[[1L]]
}

# Positions in loaded_packages() of what `package` of it imports, and what is under that, in an order in which all can be
# loaded; none if a process that takes the package from its library would find them where the session has them. R looks
# for imports in the library of the package first, whatever is before it in .libPaths().
packages_under <- function(package, loaded) {
  known <- loaded$under[[package]]
  if (is.null(known)) {
    known <- match(imports_under(package, loaded$name), loaded$name)
    paths <- c(loaded$library[match(package, loaded$name)], loaded$paths)
    found <- vapply(loaded$name[known], library_for, "", paths)
    if (!any(nzchar(loaded$library[known]) & loaded$library[known] != found)) known <- integer()
    assign(package, known, envir = loaded$under)
  }
  known
}

# Those among `names`, each after what it imports itself.
imports_under <- function(package, names) {
  met <- character()
  visit <- function(package) {
    for (under in intersect(names(getNamespaceImports(package)), names)) {
      if (!under %in% met) {
        visit(under)
        met <<- c(met, under)
      }
    }
  }
  visit(package)
  met
}

# What packages_ready() is to see to, NULL: nothing. `attached`: packages that the search path is to have; `named`: those
# of which names are looked up; `classed`: of whose classes there may be objects. `need` of each: it "must" be there, is
# to be loaded if it can ("try"), or is what code may "use". `fronts`: to be attached before anything is read. `under`:
# what is to be loaded before others, which would take it from elsewhere.
packages_needed <- function(streams, attached, named, classed) {
  loaded <- loaded_packages()
  spaces <- .Call(ffi_encode_spaces, streams)
  envs <- startsWith(spaces, "package:")
  fronts <- sub("package:", "", spaces[envs], fixed = TRUE)
  mentioned <- loaded$name[.Call(ffi_encode_names, streams, loaded$name, TRUE)]
  must <- c(spaces[!envs], fronts, attached)
  name <- setdiff(c(must, classed, named, mentioned), c(default_packages(), "regatta"))
  fronts <- setdiff(fronts, default_packages())
  if (length(name) + length(fronts) == 0L) {
    return(NULL)
  }
  need <- ifelse(name %in% must, "must", ifelse(name %in% classed, "try", "use"))
  at <- match(name, loaded$name)
  astray <- loaded$astray[at] %in% TRUE
  taken <- loaded$name[at[!is.na(at) & nzchar(loaded$library[at]) & is_loaded_first(need, astray)]]
  under <- unique(unlist(lapply(taken, packages_under, loaded)))
  list(
    name = name, need = need, library = loaded$library[at], version = loaded$version[at], astray = astray,
    renewed = are_renewed(loaded, at), fronts = fronts, paths = loaded$paths,
    under = list(name = loaded$name[under], library = loaded$library[under])
  )
}

# What code may name is loaded when it does, if it is found then.
is_loaded_first <- function(need, astray) need != "use" | astray

# In a worker, before it reads what needs them. Returns what the session is to be told, a list of list(name, library,
# version, renewed, found, is_same, elsewhere): `found` is the version here, NA if there is none, `elsewhere` the library
# that other code of that version was loaded from here, "" if it was not.
packages_ready <- function(needed) {
  each <- lapply(seq_along(needed$name), function(k) {
    lapply(needed[c("name", "need", "library", "version", "astray", "renewed")], `[[`, k)
  })
  for (k in seq_along(needed$under$name)) {
    package_load(list(name = needed$under$name[[k]], library = needed$under$library[[k]], need = "try"), needed$paths)
  }
  for (package in each) {
    if (is_loaded_first(package$need, package$astray)) package_load(package, needed$paths)
  }
  for (package in needed$fronts) {
    if (!paste0("package:", package) %in% search()) suppressPackageStartupMessages(attachNamespace(package))
  }
  unlist(lapply(each, package_note, loaded_packages()), recursive = FALSE)
}

package_note <- function(package, loaded) {
  found <- package_version_here(package)
  at <- match(package$name, loaded$name)
  elsewhere <- if (is_other_code(package$name, package$library, loaded$library[at])) loaded$library[[at]] else ""
  if (package_differs(package, found, are_renewed(loaded, at)) || nzchar(elsewhere)) {
    is_same <- !is.na(found) && is_version(found, package$version)
    list(c(package[c("name", "library", "version", "renewed")], found = found, is_same = is_same, elsewhere = elsewhere))
  }
}

# Whether this process sees both libraries, and the package has other code in the one than in the other.
is_other_code <- function(package, library, other) {
  if (!isTRUE(nzchar(library) & nzchar(other) & library != other) || !dir.exists(file.path(library, package))) {
    return(FALSE)
  }
  both <- c(library, other)
  key <- paste(c(package, both, package_stamps(package, both)), collapse = "\n")
  if (is.null(the$other_code[[key]])) {
    code <- lapply(both, function(library) {
      files <- list.files(file.path(library, package, c("R", "libs")), full.names = TRUE)
      unname(c(basename(files), tools::md5sum(files)))
    })
    the$other_code[[key]] <- !identical(code[[1L]], code[[2L]])
  }
  the$other_code[[key]]
}

# A node of this machine may have other libraries than the session.
package_load <- function(package, paths) {
  if (isNamespaceLoaded(package$name)) {
    return(invisible())
  }
  own <- if (isTRUE(nzchar(package$library))) package$library
  tryCatch(
    load_silently(package$name, c(own, paths, .libPaths())),
    error = function(e) if (package$need == "must") stop(package_missing(package, conditionMessage(e)), call. = FALSE)
  )
}

# From the first of these libraries that has it.
load_silently <- function(package, libraries) {
  suppressWarnings(suppressMessages(loadNamespace(package, lib.loc = unique(libraries))))
}

package_missing <- function(package, reason) {
  whence <- if (is.na(package$library)) {
    "the session does not have it loaded any more"
  } else if (nzchar(package$library)) {
    paste("the session has it from the library", package$library)
  } else {
    "the session has it from its source, as by pkgload::load_all()"
  }
  sprintf(paste(
    "%s. What was sent needs package %s; %s. Install it in a library of this worker, or in one of .libPaths() of the",
    "session when the cluster is made"
  ), sub("[.]$", "", reason), package$name, whence)
}

# NA: it is not here.
package_version_here <- function(package) {
  if (isNamespaceLoaded(package$name)) {
    as.character(.getNamespace(package$name)[[".__NAMESPACE__."]]$spec[["version"]])
  } else {
    library <- library_for(package$name, .libPaths())
    if (nzchar(library)) installed_version(package$name, library) else NA_character_
  }
}

# To read it takes as long as a small map.
installed_version <- function(package, library) {
  at <- file.path(library, package, "DESCRIPTION")
  key <- paste(at, as.numeric(file.mtime(at)))
  if (is.null(the$versions[[key]])) the$versions[[key]] <- as.character(utils::packageVersion(package, library))
  the$versions[[key]]
}

# Code that uses a package which is not here fails by itself. Of two that have loaded the same version one may have done
# so before it was `renewed`.
package_differs <- function(package, found, renewed) {
  if (is.na(found)) package$need == "try" else !is.na(package$library) && (
    !nzchar(package$library) || !is_version(found, package$version) || package$renewed != renewed
  )
}

# 7.3-58 is 7.3.58. NA: any.
is_version <- function(found, wanted) is.na(wanted) || found == wanted || package_version(found) == wanted

# Called from C when the first value is sent.
tell_packages <- function() {
  .Call(ffi_evaluator_note, structure(
    list(message = "", call = NULL, notes = evaluator$notes), class = c("regatta_packages", "condition")
  ))
  evaluator$notes <- NULL
}
