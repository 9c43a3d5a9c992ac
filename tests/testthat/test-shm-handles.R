detritus <- detritus_snapshot()

# Without loading it: these packages leave options and descriptors behind.
skip_unless_there <- function(package) {
  if (!nzchar(system.file(package = package))) skip(paste(package, "is not installed"))
}

# Bytes that hold more than `data` are no handle.
big <- function() list(v = as.double(1:1e5), s = rep(c("a", NA, "\u00e9"), 4e4))
bytes_of_data <- 1e6
shared_one <- function() shm_share(big(), min = 0)

node_cluster <- function(n = 1L, env = parent.frame()) {
  withr::local_preserve_seed()
  cluster <- parallel::makePSOCKcluster(n)
  withr::defer(parallel::stopCluster(cluster), envir = env)
  parallel::clusterCall(cluster, function(paths) {
    .libPaths(paths)
    loadNamespace("regatta")
    NULL
  }, .libPaths())
  cluster
}

# The regions that a node has, by its own count.
regions_of_node <- function() nrow(regatta::shm_info()$regions)

test_that("whoever serialises gets the data, unless he is known or says so", {
  x <- shared_one()
  expect_gt(length(serialize(x, NULL)), bytes_of_data)
  expect_gt(length(serialize(x, NULL, ascii = TRUE)), bytes_of_data)
  expect_gt(length(serialize(x, NULL, xdr = FALSE, version = 2)), bytes_of_data)
  expect_identical(unserialize(serialize(x, NULL)), big())
  expect_lt(length(with_shm_handles(serialize(x, NULL))), 2000)
  try(with_shm_handles(stop("inside")), silent = TRUE)
  expect_gt(length(serialize(x, NULL)), bytes_of_data)
  # A function that looks like one of those that send.
  sendData.SOCKnode <- function(node, data) serialize(data, node$con)
  expect_gt(length(sendData.SOCKnode(list(con = NULL, host = "localhost"), x)), bytes_of_data)
  environment(sendData.SOCKnode) <- asNamespace("parallel")
  expect_gt(length(sendData.SOCKnode(list(con = NULL, host = "localhost"), x)), bytes_of_data)
})

test_that("the bytes of a vector that was sent as data are those of an ordinary one", {
  for (kind in shm_kinds) {
    plain <- shm_example(kind)
    shared <- shm_share(plain, min = 0)
    expect_identical(serialize(shared, NULL), serialize(shm_copy(shared), NULL))
    expect_identical(serialize(list(shared, shared), NULL), serialize(list(plain, plain), NULL))
  }
})

test_that("what is written to files can be read when the session has gone", {
  withr::local_preserve_seed()
  folder <- withr::local_tempdir()
  wrote <- fault_run(function(folder) {
    x <- shm_share(list(v = as.double(1:1e5), s = rep(c("a", NA, "\u00e9"), 4e4)))
    at <- function(name) file.path(folder, name)
    saveRDS(x, at("rds"))
    con <- file(at("rds-con"), "wb")
    saveRDS(x, con)
    close(con)
    save(x, file = at("save"))
    con <- file(at("serialize"), "wb")
    serialize(x, con)
    close(con)
    writeBin(serialize(x, NULL), at("writeBin"))
    do.call(base::saveRDS, list(x, at("do.call")))
    env <- list2env(list(x = x))
    tools:::makeLazyLoadDB(env, at("lazy"))
    if (requireNamespace("RSQLite", quietly = TRUE)) {
      db <- DBI::dbConnect(RSQLite::SQLite(), at("sqlite"))
      DBI::dbWriteTable(db, "t", data.frame(b = I(list(serialize(x, NULL)))))
      DBI::dbDisconnect(db)
    }
    # Within an element of a map too, in a worker.
    par_lapply(1L, function(i) writeBin(serialize(x, NULL), at("worker")),
      .control = par_control(workers = 1, progress = FALSE))
    TRUE
  }, list(folder))
  expect_true(wrote$value)
  at <- function(name) file.path(folder, name)
  expect_identical(readRDS(at("rds")), big())
  expect_identical(readRDS(at("rds-con")), big())
  expect_identical(readRDS(at("do.call")), big())
  env <- new.env()
  load(at("save"), env)
  expect_identical(env$x, big())
  read <- function(name) unserialize(readBin(at(name), "raw", 1e8))
  for (name in c("serialize", "writeBin", "worker")) expect_identical(read(name), big())
  env <- new.env()
  lazyLoad(at("lazy"), env)
  expect_identical(env$x, big())
  if (file.exists(at("sqlite"))) {
    db <- DBI::dbConnect(RSQLite::SQLite(), at("sqlite"))
    got <- unserialize(DBI::dbReadTable(db, "t")$b[[1L]])
    DBI::dbDisconnect(db)
    expect_identical(got, big())
  }
})

test_that("hashes are those of the content, and follow an array", {
  withr::local_preserve_seed()
  for (kind in shm_kinds) {
    plain <- shm_example(kind)
    expect_identical(rlang::hash(shm_share(plain, min = 0)), rlang::hash(plain))
    if (requireNamespace("digest", quietly = TRUE)) {
      expect_identical(digest::digest(shm_share(plain, min = 0)), digest::digest(plain))
    }
  }
  x <- shm_array(10)
  before <- rlang::hash(x)
  x[3] <- 1
  after <- rlang::hash(x)
  expect_false(identical(before, after))
  x[3] <- 0
  expect_identical(rlang::hash(x), before)
  skip_if_not_installed("memoise")
  total <- memoise::memoise(function(a) sum(a))
  expect_identical(total(x), 0)
  x[1] <- 7
  expect_identical(total(x), 7)
})

test_that("nodes on this machine are sent handles, and send data back", {
  withr::local_preserve_seed()
  cluster <- node_cluster()
  before <- parallel::clusterCall(cluster, regions_of_node)[[1L]]
  x <- shared_one()
  gc() # what nobody uses any more could go back before the second count
  here <- nrow(shm_info()$regions)
  parallel::clusterExport(cluster, "x", environment())
  expect_identical(parallel::clusterCall(cluster, regions_of_node)[[1L]], before + 1L)
  expect_identical(parallel::clusterEvalQ(cluster, x)[[1L]], big())
  # A node that ends, or drops what it returns, leaves nothing that is lost.
  made <- parallel::clusterCall(cluster, function() regatta::shm_share(as.double(1:1e5)))
  expect_identical(made[[1L]], as.double(1:1e5))
  expect_identical(nrow(shm_info()$regions), here)
  # An element that writes a file on a node: data, in a run of ours as well.
  file <- withr::local_tempfile()
  par_lapply(1L, function(i) writeBin(serialize(x, NULL), file), .on = cluster,
    .control = two_workers(workers = NULL, shm_min = 0))
  expect_gt(file.size(file), bytes_of_data)
})

test_that("a node that is reached through something else is sent the data", {
  skip_unless_command("socat")
  withr::local_preserve_seed()
  # A tunnel: for the session the node is on this machine, under its own name.
  ports <- free_ports(2L)
  tunnel <- processx::process$new("socat", c(
    sprintf("TCP-LISTEN:%d,bind=127.0.0.1,fork,reuseaddr", ports[[2L]]), sprintf("TCP:127.0.0.1:%d", ports[[1L]])
  ))
  withr::defer(tunnel$kill())
  server <- serverSocket(ports[[1L]])
  node <- processx::process$new(file.path(R.home("bin"), "Rscript"), c(
    "-e", "parallel:::.workRSOCK()", "MASTER=localhost", paste0("PORT=", ports[[2L]]), "OUT=",
    "SETUPTIMEOUT=60", "TIMEOUT=60", "XDR=FALSE", "SETUPSTRATEGY=sequential"
  ), env = c("current", R_LIBS = paste(.libPaths(), collapse = ":"), TMPDIR = withr::local_tempdir()))
  withr::defer(node$kill())
  con <- socketAccept(server, blocking = TRUE, open = "a+b", timeout = 60)
  close(server)
  withr::defer(close(con))
  cluster <- structure(
    list(structure(list(con = con, host = "localhost", rank = 1L), class = "SOCK0node")),
    class = c("SOCKcluster", "cluster")
  )
  x <- shared_one()
  there <- parallel::clusterCall(cluster, function(v) {
    list(regions = nrow(regatta::shm_info()$regions), sum = sum(v$v))
  }, x)[[1L]]
  expect_identical(there, list(regions = 0L, sum = sum(big()$v)))
})

test_that("a process of callr is sent handles, and sends data back", {
  skip_if_not_installed("callr")
  withr::local_preserve_seed()
  x <- shared_one()
  look <- function(v) list(regatta::is_shm(v), nrow(regatta::shm_info()$regions))
  expect_identical(callr::r(look, list(x), libpath = .libPaths()), list(TRUE, 1L))
  made <- callr::r(function() regatta::shm_share(as.double(1:1e5)), libpath = .libPaths())
  expect_identical(made, as.double(1:1e5))
  worker <- callr::r_session$new(callr::r_session_options(libpath = .libPaths()))
  withr::defer(worker$close())
  expect_identical(worker$run(look, list(x)), list(TRUE, 1L))
})

test_that("a worker of future is sent handles", {
  for (package in c("future", "parallelly")) skip_unless_there(package)
  got <- fault_run(function() {
    getExportedValue("future", "plan")("multisession", workers = 2L)
    x <- shm_share(list(v = as.double(1:1e5), s = rep(c("a", NA), 4e4)))
    call <- getExportedValue("future", "future")({
      list(regatta::is_shm(x), nrow(regatta::shm_info()$regions), sum(x$v))
    })
    got <- getExportedValue("future", "value")(call)
    getExportedValue("future", "plan")("sequential")
    got
  })$value
  expect_identical(got, list(TRUE, 1L, sum(big()$v)))
})

test_that("a daemon of mirai on this machine is sent handles, one that may be elsewhere the data", {
  skip_unless_there("mirai")
  got <- fault_run(function() {
    mirai <- function(name) getExportedValue("mirai", name)
    x <- shm_share(list(v = as.double(1:1e5), s = rep(c("a", NA), 4e4)))
    ask <- function() {
      call <- mirai("mirai")({
        list(regatta::is_shm(x), nrow(regatta::shm_info()$regions), sum(x$v))
      }, x = x, .timeout = 60000)
      mirai("call_mirai")(call)$data
    }
    mirai("daemons")(1L, dispatcher = FALSE)
    direct <- ask()
    mirai("daemons")(0L)
    mirai("daemons")(1L)
    dispatched <- ask()
    mirai("daemons")(0L)
    mirai("daemons")(url = "tcp://127.0.0.1:0", dispatcher = FALSE)
    mirai("launch_local")(1L)
    by_tcp <- ask()
    mirai("daemons")(0L)
    list(direct, dispatched, by_tcp)
  })$value
  here <- list(TRUE, 1L, sum(big()$v))
  expect_identical(got, list(here, here, list(FALSE, 0L, sum(big()$v))))
})

test_that("a scope ends with its expression, and where the session is forked", {
  withr::local_preserve_seed()
  x <- shared_one()
  control <- two_workers(workers = 1L)
  inside <- with_shm_handles({
    by_worker <- par_lapply(1L, function(i) length(serialize(x, NULL)), .control = control)[[1L]]
    c(by_worker, length(serialize(x, NULL)))
  })
  expect_gt(inside[[1L]], bytes_of_data)
  expect_lt(inside[[2L]], 2000)
  in_worker <- par_lapply(1L, function(i) {
    length(with_shm_handles(serialize(x, NULL)))
  }, .control = control)[[1L]]
  expect_lt(in_worker, 2000)
  expect_identical(with_shm_handles(invisible(3)), 3)
})

test_that("nothing is left behind", {
  par_lapply(1L, identity, .control = two_workers(workers = 1L)) # the record of the last run has its objects
  gc()
  expect_no_detritus(detritus)
})
