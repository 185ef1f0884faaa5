.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin

# What mypy looks at; the lab's drivers run in the environments of Nova and Cinder.
TYPED := __main__.py versions.py config cloud components addons commands docs lab bench tests
SHELL_FILES = $(shell git ls-files '*.sh' .ci/run)

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

.venv/.installed: requirements-dev.txt
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
# Where the environment forbids it, Python compiles the same thousands of files at every start.
	$(BIN)/python -m compileall -q -j 0 .venv/lib
	touch $@

.PHONY: venv
venv: .venv/.installed ## Install what development needs into .venv.

.PHONY: lint
lint: venv ## Check style, types and layers: ruff, mypy, import-linter, shellcheck, shfmt.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/shellcheck $(SHELL_FILES)
	$(BIN)/shfmt -i 2 -ci -d $(SHELL_FILES)

.PHONY: test
test: lint ## Lint, and run the tests that need no cloud; ends with what was skipped, and why.
	$(BIN)/pytest -q -n auto --dist worksteal

.PHONY: smoke
smoke: venv ## Check the cluster of KUBECONFIG; ends with what could not be checked.
	$(BIN)/pytest -v tests/smoke

# The suite is named like its target.
TESTS_OF_OTHERS = $(BIN)/python -m tests.conformance $@ $(if $(PROCS),--procs $(PROCS)) \
  $(if $(ONLY),--only $(ONLY)) $(if $(NOTE),--note "$(NOTE)")

.PHONY: conformance
conformance: venv ## Run every conformance test on the cluster of KUBECONFIG; writes docs/conformance.md.
	$(TESTS_OF_OTHERS)

.PHONY: certified-conformance
certified-conformance: venv ## Run every conformance test in one run, one at a time, as for a certificate; takes hours.
	$(TESTS_OF_OTHERS)

.PHONY: network-policies
network-policies: venv ## Run Kubernetes' tests of network policies on that cluster; writes docs/network-policies.md.
	$(TESTS_OF_OTHERS)

.PHONY: volumes
volumes: venv ## Run Kubernetes' tests of CSI drivers on that cluster; writes docs/volumes.md.
	$(TESTS_OF_OTHERS)

.PHONY: gateway-api
gateway-api: venv ## Run Gateway API's conformance tests on that cluster; writes docs/gateway-api.md.
	$(TESTS_OF_OTHERS)

.PHONY: cis
cis: venv ## Run kube-bench, KUBE_BENCH=folder, on every node of the selected stack; fails on findings that docs/cis.md does not explain.
	$(BIN)/python -m tests.cis "$(KUBE_BENCH)"

.PHONY: generate
generate: venv ## Write Pulumi.yaml, docs/configuration.md and the example with every key from the models.
	$(BIN)/python -m docs.generate

# One lock for every Python and system; hashes make pip refuse what was not locked.
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url

.PHONY: requirements
requirements: venv ## Lock the newest Python packages in requirements.txt and requirements-dev.txt.
	$(LOCK) -o requirements.txt requirements.in
	$(LOCK) -o requirements-dev.txt requirements-dev.in

LAB = $(BIN)/python -m lab

.PHONY: lab-up
lab-up: venv ## Start a real OpenStack on this machine and a cluster on it (root); ends with its nodes.
	$(LAB) up

.PHONY: lab-down
lab-down: venv ## Take the lab down; only its cache stays (root).
	$(LAB) down

.PHONY: lab-status
lab-status: venv ## Show which parts of the lab are up, and why the others are not.
	$(LAB) status

# What every test on the lab needs; each step takes no time when it is done already.
.PHONY: lab-cloud
lab-cloud: venv ## Start the lab without a cluster: tool chain, cloud and node image (root).
	$(LAB) toolchain
	$(LAB) cloud up
	$(LAB) image

# Each makes a cluster of its own, and destroys it. On more than 2 cores, WORKERS=2 has two at a time,
# each in a project of its own.
WORKERS = 0
SMALLEST = small_cluster test_bad_input.py
CLUSTERS = test_ha_cluster.py test_killed.py test_options.py test_upgrade.py test_waves.py \
  test_update.py test_mirror.py test_backup.py one_control_plane test_certificates.py \
  test_admin_cluster.py test_failed_creation.py
ROTATIONS = test_ha_rotation.py test_rotation.py
# These talk to servers, so they run where the servers are.
INSIDE = tests/lab/test_engine.py tests/lab/test_servers.py tests/lab/test_identity.py
# These run outside of the lab, as its users do.
OUTSIDE = test_expose.py test_fleet.py test_charts.py test_new_project.py

# The lab is taken down by the last of its own tests.
.PHONY: lab-ci
lab-ci: lab-cloud ## Test what CI does on the lab: the smallest cluster, servers, the lab itself (root).
	$(BIN)/pytest -v $(addprefix tests/lab/,$(SMALLEST))
	$(LAB) run -- $(BIN)/pytest -v --durations=5 $(INSIDE)
	$(BIN)/pytest -v $(addprefix tests/lab/,$(OUTSIDE))
	LAB_MAY_GO_DOWN=1 $(BIN)/pytest -v tests/lab/test_cloud_parts.py tests/lab/test_cloud.py

.PHONY: lab-clusters
lab-clusters: lab-cloud ## Test creation, operation and faults of all other clusters (root).
	$(BIN)/pytest -v -n $(WORKERS) --dist loadgroup --durations=0 --durations-min=60 $(addprefix tests/lab/,$(CLUSTERS))

.PHONY: lab-test
lab-test: lab-clusters ## Test on the lab what every change must pass: lab-clusters, then lab-ci (root).
	$(MAKE) lab-ci

.PHONY: lab-rotations
lab-rotations: lab-cloud ## Replace all keys and certificates of running clusters, with twenty kills; SEED=... (root).
	$(BIN)/pytest -v -s --durations=0 --durations-min=60 $(addprefix tests/lab/,$(ROTATIONS))

.PHONY: lab-kills
lab-kills: lab-cloud ## Kill fifty updates of a cluster at random times; SEED=... repeats those of a run (root).
	$(BIN)/pytest -v -s tests/lab/test_many_kills.py

.PHONY: lab-changes
lab-changes: lab-cloud ## Change two things at once in random pairs, ROUNDS=8 SEED=... (root).
	$(BIN)/pytest -v -s tests/lab/test_two_changes.py

.PHONY: lab-soak
lab-soak: lab-cloud ## Two hours of random faults, MINUTES=120 SEED=...; writes docs/soak.md (root).
	$(BIN)/pytest -v -s tests/lab/test_soak.py

.PHONY: lab-many
lab-many: lab-cloud ## Create, roll, scale down and destroy a cluster with many workers; prints figures (root).
	$(BIN)/pytest -v -s tests/lab/test_many_workers.py

.PHONY: lab-conformance
lab-conformance: lab-cloud ## Run every conformance test on a cluster of the lab; writes docs/conformance.md (root).
	$(BIN)/pytest -v -s tests/lab/test_conformance.py

.PHONY: lab-network-policies
lab-network-policies: lab-cloud ## Run Kubernetes' tests of network policies on a cluster of the lab; writes docs/network-policies.md (root).
	SUITE=network-policies $(BIN)/pytest -v -s tests/lab/test_conformance.py

.PHONY: lab-volumes
lab-volumes: lab-cloud ## Run Kubernetes' tests of CSI drivers on a cluster of the lab; writes docs/volumes.md (root).
	SUITE=volumes $(BIN)/pytest -v -s tests/lab/test_conformance.py

.PHONY: lab-gateway-api
lab-gateway-api: lab-cloud ## Run Gateway API's own tests on a cluster with Traefik; writes docs/gateway-api.md (root).
	$(BIN)/pytest -v -s tests/lab/test_gateway_api.py

.PHONY: lab-operator
lab-operator: lab-cloud ## Let an operator create, scale, repair, upgrade and destroy clusters; prints figures (root).
	$(BIN)/pytest -v -s tests/lab/test_operator.py

.PHONY: bench-lab
bench-lab: venv ## Print the lab's figures: start, servers, memory, a cluster, disk (root).
	$(BIN)/python -m bench.lab

.PHONY: bench-cold
bench-cold: venv ## Time the very first start, with no cache: half an hour (root, no lab running).
	$(BIN)/python -m bench.cold

.PHONY: bench
bench: lab-cloud ## Time pulumi up against bare kubeadm, small updates, and large previews (root).
# A missed target of one does not keep the other from running.
	$(BIN)/python -m bench.up; up=$$?; $(BIN)/python -m bench.preview && exit $$up

.PHONY: bench-scale
bench-scale: lab-cloud ## Time pulumi up with 2, 100, 250 and 500 workers, which are hollow nodes (root).
	$(BIN)/python -m bench.scale

.PHONY: race
race: lab-cloud ## Race bare kubeadm, and kubespray from KUBESPRAY=folder, RUNS=3; writes docs/race.md (root).
	$(BIN)/python -m bench.race $(if $(KUBESPRAY),--kubespray $(KUBESPRAY)) $(if $(RUNS),--runs $(RUNS))
