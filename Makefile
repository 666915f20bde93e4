# The doors of the project. `make up` and `make test` set up everything they need on a fresh Debian 12 or 13, as root.

MINUTES ?= 10
DATA_DIR ?= /var/lib/pybernetes
PYBERNETES = .venv/bin/pybernetes

.PHONY: help setup setup-dev up down test test-unit test-e2e explore fuzz robustness ha runtimes vm vm-ipvs machines misbehave lint lint-ansible format bench bench-pods bench-node bench-watch bench-dns

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install what is missing on this machine, and .venv/bin/pybernetes
	@scripts/setup

setup-dev: ## the same, with what tests and linters need
	@scripts/setup --dev

up: setup ## start a single-node cluster in DATA_DIR, deploy the demo, print the curl that reached it
	@$(PYBERNETES) up --detach --data-dir $(DATA_DIR)
	@$(PYBERNETES) demo --data-dir $(DATA_DIR)

down: ## stop that cluster; its state stays in DATA_DIR
	@$(PYBERNETES) down --data-dir $(DATA_DIR)

test: setup-dev lint ## every check: linters, unit, contract, integration and end-to-end tests
	@.venv/bin/python -m pytest

test-unit: setup-dev ## the quick tests alone
	@.venv/bin/python -m pytest tests/unit tests/contract

test-e2e: setup-dev ## real containers, real clients (root)
	@.venv/bin/python -m pytest tests/e2e

explore: setup-dev ## property tests with 1,000 examples that no run had before
	@EXAMPLES=new .venv/bin/python -m pytest tests/unit tests/contract

fuzz: setup-dev ## odd requests for MINUTES, by hypothesis and by schemathesis against our OpenAPI
	@test -x .venv-fuzz/bin/schemathesis || (python3 -m venv .venv-fuzz && .venv-fuzz/bin/pip install --quiet --require-virtualenv -r requirements-fuzz.lock)
	@.venv/bin/python -m tests.fuzz.run --minutes $(MINUTES) --schemathesis .venv-fuzz/bin/schemathesis

robustness: setup-dev ## RUNS (10) histories under faults, judged and noted in docs/reliability.md (root)
	@.venv/bin/python -m tests.robustness.run --runs $(or $(RUNS),10)

ha: setup-dev ## kill every process of a highly available control plane in turn for MINUTES (5), and judge (root)
	@.venv/bin/python -m tests.ha.run --minutes $(if $(filter command environment,$(firstword $(origin MINUTES))),$(MINUTES),5)

runtimes: setup-dev ## fetch other containerds (1.7, 2) and run the kubelet's tests on each (root)
	@.venv/bin/python -m tests.runtimes.run

vm: setup-dev ## the kubelet's tests in a small machine with systemd and cgroup v2, both cgroup drivers (root)
	@.venv/bin/python -m tests.vm.run $(VM)

vm-ipvs: setup-dev ## the proxy's tests with IPVS, on Debian's kernel and an emulated processor: ten minutes (root)
	@.venv/bin/python -m tests.vm.emulated $(VM)

machines: setup-dev ## the playbooks on three Debian machines with systemd, over SSH: from nothing to upgraded and off again (root; MACHINES="--control-planes 3 --steps site,smoke")
	@.venv/bin/python -m tests.ansible.run $(MACHINES)

lint: setup-dev ## style, types, import boundaries
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

lint-ansible: ## style of the playbooks, by ansible-lint in an environment of its own (92 MB, a minute)
	@test -x .venv-lint/bin/ansible-lint || (python3 -m venv .venv-lint && .venv-lint/bin/pip install --quiet --require-virtualenv -r requirements-ansible-lint.lock)
	@cd ansible && PATH=$(CURDIR)/.venv-lint/bin:$$PATH ansible-lint --offline --profile production .

format: setup-dev ## mend style
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: setup-dev ## measure what the README claims (PEER=1: upstream beside us)
	@.venv/bin/python bench/run.py $(if $(PEER),--peer)

bench-pods: setup-dev ## pods from create to Ready and from delete to gone, on a quiet machine (PEER=1: upstream's kubelet beside ours; root)
	@.venv/bin/python -m bench.pods $(if $(PEER),--peer)

bench-node: setup-dev ## what PODS (50) idle pods with probes cost the kubelet, and whether they stay Ready for MINUTES (1 unless given; root)
	@.venv/bin/python -m bench.node --pods $(or $(PODS),50) --minutes $(if $(filter command environment,$(firstword $(origin MINUTES))),$(MINUTES),1)

bench-watch: setup-dev ## what one event costs with a hundred watchers, on SQLite and on etcd, on a quiet machine (PEER=1: upstream beside us; root)
	@.venv/bin/python -m bench.watch --etcd $(if $(PEER),--peer)

bench-dns: setup-dev ## what a query costs cluster DNS, with the names of 10,000 Services
	@.venv/bin/python -m bench.dns

misbehave: setup-dev ## what one misbehaving client does to everybody else, measured (MISBEHAVE="--seconds 60")
	@.venv/bin/python -m tests.robustness.misbehave $(MISBEHAVE)
