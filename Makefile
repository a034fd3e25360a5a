# `make demo` shows the main job on the virtual node, `make live` on real services, `make test` runs all tests.
# Each does its own set-up (Debian packages, uv, Python environment, C++ build) on a fresh Debian 12 machine.
SHELL := /bin/bash
export PATH := $(PATH):$(CURDIR)/.tools/bin
export UV_PYTHON_DOWNLOADS := never
RUN := uv run --frozen --no-sync
# Set-up and builds belong to who runs make; only the trials themselves run as root.
RUN_AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo) .venv/bin/
AGENT := actuator/build/release/osml-agent

.PHONY: demo live live-lab dispatch-testbed check test test-training test-slow fuzz bench results reproduce lint tidy format agent pictures docs release
.PHONY: clean coverage test-cpp test-python

demo: agent ## The main job on a simulated 36-CPU node: unmanaged against managed, under 4 minutes, no root
	$(RUN) osml run demo $(ARGS)

live: setup-live agent ## The main job on this machine: real redis, nginx, memcached, stress-ng (asks for root)
	$(RUN_AS_ROOT)osml run live $(ARGS)

live-lab: setup-live-lab agent ## Set up the lab of real services: programs, search index, net, speech (asks for root; minutes, once)
	@cmake --build actuator/build/release --target osml-search -- --quiet
	$(RUN_AS_ROOT)osml lab live prepare $(ARGS)

dispatch-testbed: setup-dispatch agent ## Figure 11 on this machine: HAProxy, two web servers, a burner (asks for root; 15 minutes, ARGS=--quick 2)
	$(RUN_AS_ROOT)osml lab dispatch testbed $(ARGS)

check: setup-test ## Quick check: format, lint, types, import arrows, unit tests (under 90 seconds on two cores)
	@$(RUN) python scripts/check.py

# Many Python tests wait for processes, so the build of the C++ tests runs beside them. A browser needs quiet: it is last.
test: export HYPOTHESIS_PROFILE := ci
test: setup-test check agent ## The gate: check, C++ tests under sanitizers, all Python tests but the slow ones
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-cpp test-python

test-cpp:
	cmake --preset ci -S actuator >/dev/null && nice -n 5 cmake --build actuator/build/ci -- --quiet
	cd actuator && ctest --preset ci -j 2

test-python:
	$(RUN) pytest -n 2 --dist loadfile -m "not slow and not unit and not browser" $(ARGS)
	$(RUN) pytest -m "browser and not slow" $(ARGS)

coverage: setup-test agent ## Share of the Python lines that the tests run, in out/coverage
	$(RUN) pytest -n 2 --dist loadfile -m "not slow" --cov --cov-report=term:skip-covered --cov-report=html:out/coverage

test-training: setup-training ## Type check and tests of what needs torch, MLflow and Ray (installs 6 GB)
	$(RUN) basedpyright --project training
	$(RUN) pytest tests/training tests/policy_osml $(ARGS)

test-slow: setup-test agent ## The slow tests
	$(RUN) pytest -m slow --timeout=1800 $(ARGS)

FUZZ_S ?= 60
fuzz: setup-fuzz ## What the agent reads from outside under libFuzzer, FUZZ_S=60 seconds each; findings in actuator/build/fuzz
	@cmake -S actuator/fuzz -B actuator/build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ >/dev/null
	@cmake --build actuator/build/fuzz -- --quiet
	@for target in decision telemetry schemata prometheus prometheus_protobuf pods otlp; do \
	  mkdir -p actuator/build/fuzz/work/$$target; \
	  actuator/build/fuzz/fuzz-$$target -max_total_time=$(FUZZ_S) -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 \
	    -artifact_prefix=actuator/build/fuzz/$$target- actuator/build/fuzz/work/$$target actuator/fuzz/corpus/$$target \
	    || exit 1; done

bench: setup-run ## Speed figures in out/bench/*.json: medians, on one core (ARGS=NAME for one file)
	taskset -c 0 $(RUN) python -m osml.lab.benchmarks $(ARGS)

results: setup-run agent ## The figures of README and docs into docs/results/*.json, and from there into the pages
	$(RUN) python -m osml.lab.results $(ARGS)

reproduce: setup-training agent ## Catalog, data sets, models and figures anew; stops and goes on (ARGS="--scale 0.01 --plan")
	$(RUN) python -m osml_training.reproduce $(ARGS)

lint: setup-test ## What check does, without the unit tests
	@$(RUN) python scripts/check.py --no-tests

# All files are looked at, whatever one of them has. Counts of what system headers have are left out: only findings show.
tidy: setup-test ## clang-tidy over the agent (minutes); it cannot read the compiler's precompiled headers
	cmake -S actuator -B actuator/build/tidy -G Ninja -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
	@cmake --build actuator/build/tidy --target osml-wire osml-otlp-generated -- --quiet
	@git ls-files -z 'actuator/src/*.cpp' 'actuator/loadgen/*.cpp' 'actuator/latency/*.cpp' 'actuator/stackdist/*.cpp' ':!actuator/*/tests/*' | xargs -0 -n 1 -P 2 bash -c '\
	  found=$$(clang-tidy --quiet -p actuator/build/tidy "$$0" 2>&1); status=$$?; \
	  sed -E "/^$$|^[0-9]+ (warning|error).* (generated\.|treated as errors?)$$/d" <<<"$$found"; exit $$status'

format: setup-test ## Format everything in place
	$(RUN) ruff check --fix . && $(RUN) ruff format .
	git ls-files -z 'actuator/*.h' 'actuator/*.cpp' | xargs -0 clang-format -i

agent: setup-run
	@[ -e actuator/build/release/osml-agent ] || echo "4/4 compiling the agent, about two minutes" >&2
	@cmake --preset release -S actuator >/dev/null && cmake --build actuator/build/release --target osml-agent osml-loadgen osml-latency osml-stackdist osml-stackdist-plugin -- --quiet

release: setup-release ## Build all parts of a release, check each in a clean root; out/release (ARGS="--rehearse", ARGS=--tag)
	@$(RUN) python -m scripts.release $(ARGS)

pictures: setup-run ## The pictures of the documentation, in docs/pictures/ (two minutes)
	$(RUN) python docs/pictures/make_pictures.py

docs: setup-docs ## The documentation site in site/
	$(RUN) mkdocs build --strict

.PHONY: setup-run setup-live setup-live-lab setup-dispatch setup-test setup-training setup-fuzz setup-docs setup-release
setup-run setup-live setup-live-lab setup-dispatch setup-test setup-training setup-fuzz setup-docs setup-release: setup-%:
	@scripts/setup $*

clean: ## What set-up and builds made; out/ has your measurements and models, and stays
	rm -rf actuator/build build site .venv .tools
