# Every target does its own set-up: `make demo` and `make test` need nothing but R and a compiler.
# What is built goes to .build/, R packages that the system lacks to .lib/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-current-r peers quick install check docs site bench bench-table check-deep sanitize gctorture valgrind models fuzz mutate soak pauses clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

demo: ## the main job on real data: about a minute on two cores
	@tools/setup.sh demo
	@tools/with-lib.sh tools/install.sh
	@mkdir -p .build && tools/with-lib.sh Rscript --vanilla demo/flights.R .build
	@tools/with-lib.sh Rscript --vanilla demo/cells.R .build

test: ## R CMD check, all tests, floors, entry points, leaks, C++ headers, example packages
	@tools/setup.sh test
	@tools/with-lib.sh tools/test.sh

test-current-r: ## the test files on the newest R that Debian has, in a userland of its own (root)
	@tools/current-r.sh

quick: ## the test files for what was changed, and those that take least: under two minutes
	@tools/setup.sh test
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh Rscript --vanilla tools/quick.R

peers: ## the test suites of bettermc, foreach, parallel and others against this package
	@tools/setup.sh peers
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh tools/peers.sh

check: ## R CMD check alone, without the suite
	@tools/setup.sh test
	@tools/with-lib.sh tools/check-package.sh --no-tests

install: ## install into the library folder of this tree
	@tools/setup.sh run
	@tools/with-lib.sh tools/install.sh

docs: ## the help pages as HTML, the table of floors in docs/ARCHITECTURE.md
	@tools/setup.sh run
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh Rscript --vanilla tools/docs.R

site: ## the manual, vignettes and documents as a site in .build/site, looked at in a browser; no network
	@tools/setup.sh site
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh tools/site.sh

bench: ## every benchmark beside its peers, then the table of the README
	@tools/setup.sh bench
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh tools/bench.sh

bench-table: ## the table of the README from the results that are there
	@tools/with-lib.sh Rscript --vanilla bench/README-table.R

check-deep: ## --as-cran, without what is suggested, clang, protection, sanitizers, gctorture, valgrind
	@tools/setup.sh test
	@tools/setup.sh deep
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh tools/check-deep.sh

sanitize: ## address and undefined-behaviour sanitizers on the C code
	@tools/setup.sh test
	@tools/with-lib.sh tools/sanitize.sh

gctorture: ## a garbage collection at every allocation
	@tools/setup.sh test
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh Rscript --vanilla tools/gctorture.R

valgrind: ## memory errors of the C code as valgrind sees them
	@tools/setup.sh valgrind
	@tools/with-lib.sh tools/install.sh
	@tools/with-lib.sh tools/valgrind.sh

models: ## every order of steps of the mechanisms between processes, and C within bounds, by model checkers
	@tools/setup.sh models
	@$(MAKE) -s -C tests/models models
	@if command -v $${CBMC:-cbmc} >/dev/null; then $(MAKE) -s -C tests/models bounded; else tools/current-r.sh --bounded; fi

fuzz: ## look for inputs that the code for HDF5 does not survive: SECONDS=600 TARGET=chunk, file or session
	@tools/setup.sh test
	@if [ "$(TARGET)" = session ]; then tools/with-lib.sh tools/install.sh; fi
	@tools/with-lib.sh $(MAKE) -s -C tests/fuzz fuzz

mutate: ## break the code on purpose, one fault at a time: do the tests notice?
	@tools/setup.sh test
	@tools/with-lib.sh tools/mutate.sh

soak: ## repeat the suite and the leak check until it breaks or ROUNDS (10) are over
	@tools/setup.sh test
	@tools/with-lib.sh tools/soak.sh

pauses: ## test files while all that they start stands still for seconds, again and again (root): FILES="a b"
	@tools/setup.sh test
	@tools/with-lib.sh tools/install.sh
	@REGATTA_TEST_LIMIT=1200 tools/with-lib.sh tools/pauses.sh Rscript --vanilla tools/run-files.R .build/pauses $(FILES)

clean: ## remove what was built; .lib/ stays
	rm -rf .build
	rm -f src/*.o src/*.so src/Makevars
	@for part in c cpp fuzz models; do $(MAKE) -s -C tests/$$part clean; done
