# make run: everything for this machine.   make test, lint, bench: for those who work on it.
.DEFAULT_GOAL := run
.PHONY: run minutes evidence env dev browser validator xla test test-xla test-wheel slurm-up slurm-down test-slurm test-parallelcluster lint bench why report paper clean

unexport PYTHONDONTWRITEBYTECODE # each job is a process of its own: without bytecode it would compile us again

VENV := .venv
BIN := $(VENV)/bin
XLA := .venv-xla
PYTHON := $(shell for v in python3.13 python3.12 python3.11 python3; do \
	$$v -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$v && break; done)

run: minutes env ## the whole pipeline: results/local, what is deployed, and how long that took
	@start=$$(date +%s); \
	$(BIN)/snakemake --profile local all; code=$$?; \
	$(BIN)/python -m workflow_scripts.phases --results results/local --since $$start; \
	echo "make run: $$(( $$(date +%s) - start )) s"; exit $$code

minutes:
	@test -e $(VENV)/.ready-local || echo "Set-up comes first: 1 to 5 minutes, once."
	@echo "The run: about 19 minutes on two idle cores, more on busy ones; it shows the minutes left."

evidence: env ## what else is claimed: a wire (two-tier), 2 and 8 microbatches, a wider model, 2 ranks; one page with the default run
	@start=$$(date +%s); \
	$(BIN)/snakemake --profile local all --config deployment=two-tier && \
	$(BIN)/snakemake --profile local all --config preset=evidence && \
	$(BIN)/snakemake --profile local all --config deployment=local-2 problems=tp_mlp models=nano && \
	$(BIN)/overlayccl report results/local results/two-tier results/local-evidence results/local-2 --output results/report.html && \
	$(BIN)/python -m benchmarks from_developer; code=$$?; \
	echo "make evidence: $$(( $$(date +%s) - start )) s"; exit $$code

env: $(VENV)/.ready-local ## what running needs
dev: $(VENV)/.ready-dev ## what tests and linters need on top

$(VENV)/.ready-local: envs/install.py envs/local.txt pyproject.toml
$(VENV)/.ready-dev: envs/install.py envs/dev.txt envs/local.txt pyproject.toml
$(VENV)/.ready-%:
	@test -n "$(PYTHON)" || { echo "OverlayCCL needs Python 3.11, 3.12 or 3.13 on the PATH"; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) -V) from envs/$*.txt"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python envs/install.py $*
	@touch $@

xla: $(XLA)/.ready ## the real torch_xla, in an environment of its own: it needs an older torch

$(XLA)/.ready: envs/install.py envs/xla.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "OverlayCCL needs Python 3.11, 3.12 or 3.13 on the PATH"; exit 1; }
	@echo "Setting up $(XLA) with $$($(PYTHON) -V) from envs/xla.txt"
	@test -x $(XLA)/bin/python || $(PYTHON) -m venv $(XLA)
	@$(XLA)/bin/python envs/install.py xla
	@touch $@

browser: ## a Chromium to look at the report with, from Debian's packages where there is none
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	echo "Installing Chromium, in which the report is tested"; \
	$$(test "$$(id -u)" = 0 || echo sudo -n) apt-get update -qq && \
	$$(test "$$(id -u)" = 0 || echo sudo -n) apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	echo "No Chromium and no way to install one: the tests of the report in a browser are skipped"

VALIDATOR := .env-rocrate
validator: $(VALIDATOR)/.ready ## the public validator of RO-Crates, in an environment of its own
$(VALIDATOR)/.ready: envs/rocrate.txt
	@test -x $(VALIDATOR)/bin/python || $(PYTHON) -m venv $(VALIDATOR)
	@$(VALIDATOR)/bin/pip install -q -r envs/rocrate.txt
	@touch $@

# A shell's background job ignores Ctrl-C unless it is told not to; then both halves take down what they set up.
test: dev browser validator ## the whole suite: with ranks; beside them, niced and shown after them, without ranks on two workers
	@log=$$(mktemp); nice env --default-signal=INT $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	-m "not ranks" -q >$$log 2>&1 & \
	others=$$!; trap "kill $$others 2>/dev/null; rm -f $$log" EXIT; trap : INT; \
	$(BIN)/python -m pytest -n 0 -m ranks -q -o cache_dir=.pytest_cache/ranks; ranks=$$?; \
	wait $$others; code=$$?; cat $$log; exit $$((ranks | code))

slurm-up: ## a real Slurm on this machine, seven nodes of 32 slots: for tests; from Debian's packages, as root
	tests/slurm/cluster.sh up

slurm-down: ## end it
	tests/slurm/cluster.sh down

test-slurm: dev slurm-up ## the pipeline through Slurm: jobs, nodes, one that is killed and one that is drained
	OVERLAYCCL_SLURM=1 $(BIN)/python -m pytest -n 0 -m slurm -q tests/slurm; code=$$?; \
	tests/slurm/cluster.sh down; exit $$code

test-xla: xla ## emitted modules lowered by the real torch_xla, on CPU; `make test` skips these
	PJRT_DEVICE=CPU $(XLA)/bin/python -m pytest -n 2 --dist worksteal tests/backends/torchxla/real -q

test-wheel: dev ## the wheel alone in a new environment: a project of one's own, its strategy, its deployment, its archive
	OVERLAYCCL_WHEEL=1 $(BIN)/python -m pytest -n 0 -q tests/packaging

test-parallelcluster: ## docs/parallelcluster.yaml against the schema of aws-parallelcluster, in an environment of its own
	@test -x .env-parallelcluster/bin/pytest || { $(PYTHON) -m venv .env-parallelcluster && \
	.env-parallelcluster/bin/pip install -q -r envs/parallelcluster.txt; }
	.env-parallelcluster/bin/python -m pytest --noconftest -o filterwarnings=default -q tests/docs/test_parallelcluster.py

lint: dev ## formatters and checkers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules

bench: dev ## speed of tracing, proof, price, exchanges by counts, and of a process group in between
	$(BIN)/python -m benchmarks

why: env ## what a run would do again, and because of what; OPTIONS="--profile trn1 --config preset=smoke"
	@$(BIN)/python -m workflow_scripts.why $(OPTIONS)

report: env ## one page of figures of the last run; TREES="results/a results/b": of several
	$(BIN)/overlayccl report $(TREES)

ARCHIVE := results/local.tar.zst
paper: dev browser ## the figures of README.md and docs/figures.md, of archives, which are verified first: ARCHIVES="local.tar.zst two-tier.tar.zst" RUNS="results/..." (for ranges)
	$(BIN)/python -m docs.paper $(ARCHIVES) --runs $(RUNS)

clean: ## results and caches; the environment stays
	rm -rf results .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis
