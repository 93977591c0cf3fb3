# Tessera: the few verbs of daily work. `make` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(shell $(p) -c \
  'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
BIN := .venv/bin
# Installs packages into the environment; .ci/run names uv here.
INSTALL_PACKAGES ?= $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
# More test processes than cores: many tests wait, for a clock or for a process that they started. Tests of
# whole programs wait most.
JOBS ?= $(shell expr $$(nproc) \* 2)
PROGRAM_JOBS ?= $(shell expr $$(nproc) \* 3)
PYTEST := $(BIN)/python -m pytest
# $(call RUN_PART,PART,PROCESSES,OPTIONS): what fails beside others runs once more, alone.
RUN_PART = $(PYTEST) -n $(2) --dist worksteal --part $(1)$(3) || $(PYTEST) --failed-alone --part $(1)
# Where a recipe's line has $(MAKE), `make -n` runs the whole line.
AGAIN := $(MAKE)
E2E := --with-e2e --maxfail 5 tests/e2e
# Hundreds of processes import the same modules: one of them compiles each, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=
# The day, for tests of which another part runs each day: one number for all processes of a run.
ifndef TESSERA_ROTATION
export TESSERA_ROTATION := $(shell expr $$(date +%s) / 86400)
endif

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: venv ## kind cluster, images, chart and samples; then a verified CUDA program in a pod
	@deploy/kind/up
	@deploy/install
	@deploy/kind/shell $(BIN)/python deploy/demo.py

# The tests that only compute run in idle time beside the others, which leave a fifth of two cores idle, and a
# third where they need the cluster (tests/support/watches/parts.py). A test of processes that fails beside
# others runs once more, at normal priority, and is named (tests/support/watches/failed_alone.py).
# With ROOM, the tests of one folder of the product and no cluster (tests/support/watches/rooms.py).
ifdef ROOM
test: test-quick
else
test: test-preflight venv references ## everything: unit, golden, ABI and conformance tests, then the same product on kind (ROOM=console: the tests of one folder, without kind)
	@tests/beside \
	  computing 'tests/in_idle_group $(call RUN_PART,computing,$(shell nproc), --fuzz-seconds 60 --timeout 1800)' \
	  waiting '$(AGAIN) test-waiting'
endif

# Objects that an earlier user of the cluster left would fail the installation after 20 minutes. A cluster
# that does not run is examined when its nodes have started.
test-preflight:
	@PYTHONPATH=tests deploy/kind/shell $(or $(PYTHON),python3) -m support.cluster.foreign_objects $(if $(remove),--remove)

# The tests of the chart need the cluster's helm. An idle cluster takes a seventh of two cores, so it starts
# after the tests of processes, beside the unit tests that wait.
test-waiting: venv
	@deploy/kind/programs --tools
	$(call RUN_PART,processes,$(PROGRAM_JOBS))
	@tests/beside units '$(call RUN_PART,units,$(JOBS))' cluster '$(AGAIN) test-cluster'

# The images are built while the nodes start, or before if no image of nodes has them yet (ADR 207).
test-nodes: venv
	@deploy/kind/programs
	@tests/beside images 'deploy/images/build --only' nodes deploy/kind/up
	@$(AGAIN) test-preflight
	@deploy/install

# A lane (tests/lane) runs its tests, and those that failed once more with the cluster to itself (ADR 223).
# Tests of GPUs: those of claims change only the last node, beside those that need only the first. Pools on
# the control plane's node: layouts, other boards, and at last the tests of what executes kernels once more,
# on the interpreter. Not targets, whose $(MAKE) would run all of this in `make -n`.
TEST_POOLS = status=0; \
  tests/lane control_plane || status=$$?; \
  TESSERA_E2E_BACKEND=Interpreter tests/lane backend || status=$$?; \
  exit $$status
TEST_GPUS = status=0; \
  tests/lane early || status=$$?; \
  tests/beside claims "tests/lane claims" first-node "tests/lane first_node" || status=$$?; \
  tests/lane "both_nodes and not last" || status=$$?; \
  exit $$status

# RDMA's tests run beside those of GPUs and of other pools; helm uninstall at the very end.
# tests/support/cluster/lanes.py assigns the files to lanes.
test-lanes: venv
	@locks=$$(mktemp -d); trap 'rm -rf "$$locks"' EXIT; \
	  TESSERA_E2E_LOCKS=$$locks deploy/kind/shell tests/beside \
	  rdma 'tests/lane rdma' pools '$(TEST_POOLS)' gpus '$(TEST_GPUS)'
	deploy/kind/shell $(PYTEST) $(E2E) -m last

test-cluster: ## the end-to-end tests alone
	@$(MAKE) test-nodes
	@$(MAKE) test-lanes

hooks: ## have git check the form of commit messages (hooks/commit-msg)
	git config core.hooksPath hooks

soak: venv ## what `make test` leaves out for its length: more restarts, more storms; on its cluster
	@deploy/kind/up
	@deploy/install
	deploy/kind/shell $(PYTEST) $(E2E) -m soak --timeout 3600
	TESSERA_LARGE_SEARCHES=1 $(PYTEST) --timeout 7200 tests/unit/vgpu_sim/clients/test_native_ring.py \
	  tests/unit/vgpu_sim/worker_process/test_worker_orders.py

# Expanded when a recipe runs, so that the name of the room is checked before.
ROOM_TESTS = $(if $(ROOM), $(shell PYTHONPATH=tests $(or $(PYTHON),python3) -m support.watches.rooms $(ROOM)))
test-quick: test-room venv ## the tests that need no cluster, on all cores; 12 s of `make test`'s 60 for the fuzzer (ROOM=console: those of one folder)
	$(PYTEST) -n $(JOBS) --dist worksteal --fuzz-seconds 12$(ROOM_TESTS) || $(PYTEST) --failed-alone$(ROOM_TESTS)

test-room:
	@PYTHONPATH=tests $(or $(PYTHON),python3) -m support.watches.rooms $(ROOM) >/dev/null

test-cgroup2: venv ## limits of slices on a kernel with cgroup v2, in a virtual machine (needs qemu-system-x86 and apt; slow without KVM)
	@PYTHONPATH=tests $(BIN)/python -m support.tools.machine $(BIN)/python -m pytest -v -p no:cacheprovider \
	  tests/integration/gpud/test_gpud_cgroup2.py

test-cost: venv ## what the last run of all tests took: CPU seconds per room, beside their budgets
	@PYTHONPATH=tests $(BIN)/python -m support.watches.cost_of_tests

# Measurements of real boards (82 MB), and others' device plugins and NVML programs, built from Go
# modules: without them the tests of accuracy and of agreement are skipped, and say so.
references: venv
	@$(BIN)/python -c 'import aiconfigurator_core, pyarrow, scipy' 2>/dev/null || \
	  $(INSTALL_PACKAGES) --group references || \
	  echo 'no measurements of real boards: the accuracy of the performance model is not tested' >&2
	@PYTHONPATH=tests $(BIN)/python -m support.programs.go_programs

conformance: references ## check device plugins and DRA drivers, ours and others'; writes docs/conformance.md
	@PYTHONPATH=tests:operator $(BIN)/python -m support.tools.conformance_subjects

mutate: venv ## would the tests notice? a sample of small defects (N=95 SEED=1 ROOM=jit ARGS=--narrow or --record)
	$(BIN)/python tests/mutation -n $(or $(N),95) --seed $(or $(SEED),1) $(addprefix --room=,$(ROOM)) $(ARGS)

fuzz: venv ## random kernels, three ways, until stopped (seed=1 n=1000 minutes=10 jobs=2 meet=1 calls=1 kernel=FILE); or ir=1, text=all, proofs=1, memory=1, graph=1, hostile=1, kills=1 (torch=PYTHON), descriptors=1, tensors=1, words=1
	@PYTHONPATH=tests $(if $(memory)$(graph)$(hostile),$(BIN)/tessera run --board h100-80gb --slice 1g.10gb -- )$(BIN)/python \
	  $(if $(memory),-m support.fuzzers.memory_shadow,) $(if $(graph),-m support.fuzzers.graph_replay,) \
	  $(if $(hostile),-m support.fuzzers.hostile_calls,) $(if $(kills),-m support.fuzzers.random_kills,) \
	  $(if $(descriptors),-m support.fuzzers.hostile_descriptors,) $(if $(tensors),-m support.fuzzers.random_tensors,) $(if $(words),-m support.fuzzers.hostile_words,) \
	  $(if $(memory)$(graph)$(hostile)$(kills)$(descriptors)$(tensors)$(words),,$(if $(text),-m support.fuzzers.hostile_text,$(if $(proofs),-m support.tools.prove_addresses, \
    -m support.fuzzers.$(if $(ir),random_ir,fuzzing)))) \
	  $(foreach name,$(if $(hostile)$(kills),seed n minutes torch,$(if $(memory)$(graph)$(descriptors)$(tensors)$(words),seed n,$(if $(text),text n minutes jobs kernel folder,$(if $(proofs),n minutes folder, \
	    seed n minutes jobs plans $(if $(ir),,meet calls) shrink kernel folder)))),$(name)=$($(name)))

lint: venv ## ruff, mypy --strict and the layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd tests && ../$(BIN)/lint-imports

bench: venv ## speed against native code and BLAS, on this machine (only="latency cluster": sections)
	$(BIN)/python -m benchmarks $(addprefix --only=,$(only))

bench-exec: venv ## kernels against PoCL, OpenMP C and libraries (only=NAME: contests or tags; rounds=15)
	@$(BIN)/python -c 'import pyopencl' 2>/dev/null || \
	  $(INSTALL_PACKAGES) --group bench
	$(BIN)/python -m benchmarks.exec $(addprefix --only=,$(only)) $(addprefix --rounds=,$(rounds))

bench-rdma: venv ## RDMA beside memcpy and UDP: bandwidth, latency, connections, policies, what hcad costs
	$(BIN)/python -m benchmarks.rdma.whole

bench-rdma-policy: venv ## compile 10,000 pods and 1,000 policies, one edit, a verdict; the operator's loop with 200 nodes
	$(BIN)/python -m benchmarks.rdma.policies
	$(BIN)/python -m benchmarks.rdma.operator_loop

bench-rdma-cluster: venv ## on the demo's cluster: an edit of a policy until every node enforces it
	@deploy/kind/shell $(BIN)/python -m benchmarks.rdma.cluster

clients: venv ## clients' own test suites on a simulated GPU, resumed (client=NAME; sample=100 seed=7; checkout=DIR; fresh=1; record=1)
	$(BIN)/python -m benchmarks.clients $(addprefix --client=,$(client)) $(addprefix --sample=,$(sample)) \
	  $(addprefix --seed=,$(seed)) $(addprefix --checkout=,$(checkout)) $(addprefix --only=,$(only)) \
	  $(if $(fresh),,--resume) $(if $(record),--record)

torch: venv ## PyTorch on a simulated GPU against the CPU, resumed (fresh=1; record=1; dtype=float16; samples=0; only=used; train=1; models=1; rules=1; python=PYTHON)
	$(BIN)/python -m benchmarks.torch $(if $(fresh),--fresh) $(if $(record),--record) $(addprefix --dtype=,$(dtype)) \
	  $(addprefix --samples=,$(samples)) $(addprefix --only=,$(only)) $(if $(train),--train) $(if $(models),--models) \
	  $(if $(rules),--rules) $(if $(python),--python=$(python))

scale: venv ## a fleet on a bare API server: rollouts, the operator's cost, leader killed (nodes=20,100; pods=500; plot=1)
	@[ -x "$${TESSERA_CACHE:-$$HOME/.cache/tessera-cluster}/node-bin/kube-scheduler" ] || deploy/kind/build-programs nodes
	$(BIN)/python -m benchmarks.scale $(addprefix --nodes=,$(nodes)) $(addprefix --pods=,$(pods)) \
	  $(addprefix --within=,$(within)) $(if $(plot),--plot)

dist: venv ## wheel and source distribution, in dist
	@rm -rf dist
	$(BIN)/python -m hatchling build -d dist

packages: dist ## install them in bare root file systems, and compute there (root; SUITES="bookworm ubuntu-like")
	deploy/packages/check dist $(SUITES)

release: venv ## build all packages of VERSION= from a clean checkout, and print how to publish them
	@[ -n "$(VERSION)" ] || { echo 'error: make release VERSION=MAJOR.MINOR.PATCH' >&2; exit 2; }
	@deploy/kind/shell deploy/release/build $(VERSION)

docs: venv ## the pages as a site with search, in out/site; fails if a link leads nowhere
	@$(BIN)/python -c 'import mkdocs' 2>/dev/null || \
	  $(INSTALL_PACKAGES) --group docs
	$(BIN)/python docs/site.py out/site

shell: ## a shell with kind, kubectl and helm on PATH, talking to the demo's cluster
	@deploy/kind/shell

clean: ## delete the cluster, our images and .venv (CACHE=1: also everything that was built for them)
	@CACHE_TOO=$(CACHE) deploy/kind/down
	@rm -rf .venv dist vgpu_sim/native/lib vgpu_sim/native/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .fuzz
	@find . -name __pycache__ -prune -exec rm -rf {} +

venv: .venv/.installed

# The C parts are compiled by the build hook, so their sources are what the installation depends on,
# and what the hook generates C from.
.venv/.installed: pyproject.toml constraints.txt hatch_build.py $(wildcard rdma/*.py hca/contract/*.py) \
    $(shell find vgpu_sim/hal vgpu_sim/native vgpu_sim/clients vgpu_sim/worker/runtime hca/engine hca/clients -type f \
      -not -path '*/native/lib/*' -not -path '*/native/generated/*' -not -path '*/__pycache__/*')
	@[ -n "$(PYTHON)" ] || { echo 'error: Python 3.11 or newer is needed (PYTHON=...)' >&2; exit 1; }
	@echo "Creating .venv ($(PYTHON))"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@# setuptools: gpustat is published as sources only, and the one that venv brings cannot make a wheel
	@$(INSTALL_PACKAGES) pip hatchling editables setuptools setuptools-scm
	@# The build hook compiles the same libraries, but pip prints nothing of it.
	@echo "Compiling native libraries into vgpu_sim/native/lib"
	@$(BIN)/python -m vgpu_sim.native.build
	@echo "Installing Tessera and the packages that its tests need"
	@$(INSTALL_PACKAGES) --no-build-isolation -e '.[operator,plugin,console]' --group dev
	@touch $@
	@echo "The environment is ready: $(BIN)/python"

.PHONY: test-room test-preflight dist packages release docs help hooks demo test test-waiting test-nodes test-lanes test-cluster soak test-quick test-cgroup2 conformance mutate fuzz lint bench bench-exec bench-rdma bench-rdma-policy bench-rdma-cluster clients torch scale shell clean venv references
