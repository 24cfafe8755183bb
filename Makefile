# Everything a developer types. `make demo` and `make test` need Python 3.11+ and make, nothing else.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo codex fakesnow spark test test-sweeps test-slow coverage check requirements parity bench mutate-semantic fmt docs site lock dist clean install

demo: $(STAMP)  ## build a small company and its context in ./ktx-demo, and ask it two questions
	rm -rf ktx-demo
	$(BIN)/ktx demo ktx-demo

codex: .venv/codex/.installed  ## install the Codex binary for the tests that run it (400 MB, needs npm)

.venv/codex/.installed: .ci/codex/package.json .ci/codex/package-lock.json | $(STAMP)
	mkdir -p .venv/codex
	cp .ci/codex/package.json .ci/codex/package-lock.json .venv/codex/
	npm ci --prefix .venv/codex --ignore-scripts --no-audit --no-fund
	touch $@

fakesnow: .venv/fakesnow/.installed  ## install an emulator of Snowflake, in its own environment, for the test that runs it

.venv/fakesnow/.installed: .ci/fakesnow.txt | $(STAMP)
	test -x .venv/fakesnow/bin/python || $(PYTHON) -m venv .venv/fakesnow
	.venv/fakesnow/bin/python -m pip install --disable-pip-version-check -q --no-deps --require-hashes -r .ci/fakesnow.txt
	touch $@

spark: .venv/spark/.installed  ## install a Spark server for the tests that run on it (500 MB, needs Java 17 or newer to run)

# Its package has the name of the client's, so it is not in the environment of ktx.
.venv/spark/.installed: .ci/spark.txt | $(STAMP)
	rm -rf .venv/spark
	$(BIN)/python -m venv .venv/spark
	.venv/spark/bin/python -m pip install --disable-pip-version-check --no-cache-dir -q --no-deps --require-hashes -r .ci/spark.txt
	touch $@

test: $(STAMP)  ## the tests, in parallel
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not house" $(PYTEST_ARGS)

test-sweeps: $(STAMP)  ## what is marked slow (kills, traces, real Claude Code once more, most of long tables), at the counts CI runs
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow $(PYTEST_ARGS)

test-slow: $(STAMP)  ## the long sweeps at full counts
	KTX_TEST_FULL=1 $(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

coverage: $(STAMP)  ## the tests again, with what they cover of each package by lines and branches
	$(BIN)/python -m docs.coverage $(COVERAGE_ARGS)

check: $(STAMP)  ## lint, format, types, order of imports, the house, generated files, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m docs.house
	$(BIN)/python -m docs.generate --check
	$(BIN)/python -m docs.requirements --quiet
	$(BIN)/python -m docs.site
	$(BIN)/python -m pytest -q -m house $$(grep -rl --include="test_*.py" "mark.house" tests)

requirements: $(STAMP)  ## the requirements of the model runtime and the passing test that covers each
	$(BIN)/python -m docs.requirements --run

bench: $(STAMP)  ## the benchmarks; each prints a ratio and how it grows
	for b in benchmarks/bench_*.py; do $(BIN)/python $$b || exit 1; done
	$(BIN)/python benchmarks/crash.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/relationships.py --generated 20 --exclude-unconfirmable
	$(BIN)/python benchmarks/measures.py --draw 0
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/packs.py
	$(BIN)/python -m benchmarks.semantic_oracle --quiet

mutate-semantic: $(STAMP)  ## break one decision of the semantic layer at a time; the oracle's cases must notice
	$(BIN)/python benchmarks/mutate_semantic.py

fmt: $(STAMP)  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## write the generated reference pages, the JSON Schema and the example
	$(BIN)/python -m docs.generate

site: $(STAMP)  ## build the documentation into build/site
	$(BIN)/python -m docs.site

parity: $(STAMP)  ## run the runtime contract on every backend's real client, and write docs/measured/llm-parity.md
	$(BIN)/python -m docs.parity

lock:  ## resolve constraints.txt again (needs uv); sentence-transformers brings torch, gigabytes that no test needs
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 \
	  $$(sed -n '/^\[project.optional-dependencies\]/,/^$$/s/^\([a-z-]*\) = .*/--extra \1/p' pyproject.toml | grep -v sentence-transformers) \
	  --group dev pyproject.toml -o constraints.txt

dist: $(STAMP)  ## build the wheel and the source distribution into dist/; the same commit gives the same bytes
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m hatchling build -d dist

install: $(STAMP)

# constraints.txt is a whole resolution: looking at dependencies again would let a newer release of one disturb it.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q --require-hashes --no-deps -r constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q ktx_cli
	touch $(STAMP)

clean:
	rm -rf .venv ktx-demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
