# SPDX-License-Identifier: GPL-3.0-or-later
# `make smoke` takes half a minute; `make check` sets up what is missing and runs what every push needs, `make nightly` the rest:
# the parts of tools/parts.py. Rare things are programs in tools/ (tools/moved.txt).

DEV := OPENBACH_RUN_EXTRA=dev ./openbach-run
SHELL_FILES := openbach-run .ci/run tools/dev tools/lock tools/deb tools/in-root tools/try-empty tools/try-install pep/system/routes vpn-configs/lib.sh kernel/build/cc \
	docs/clusters/slurm.sh tests/guest/slurm/nodes.sh kernel/tests/init.sh kernel/upstream/tests/boot.sh $(wildcard kernel/upstream/tests/[!b]*) \
	$(wildcard vpn-configs/*/keygen vpn-configs/*/up vpn-configs/*/down)
PARALLEL := --numprocesses $(shell nproc) --dist loadfile
# tools/parts.py gives a file for the seconds of each test; MARK=nightly and GUEST=FILES are its nightly parts.
PYTEST :=
MARK := not nightly
GUEST := tests/guest
# Where mypy and programs below find jobs, and what tests share. pytest has tests/helpers/job_paths.py.
JOBS := $(shell echo jobs/*/files | tr ' ' :)
WITH_JOBS := env PYTHONPATH=src:src/openbach_run/guest/agent_library:tests:pep/tests:$(JOBS)

.PHONY: check nightly smoke lint unit guest pages pep peers vpns newest fuzz house budget readme reports golden other-cpu openbach scenarios
.PHONY: bench bench-clock try-install wheel wheel-kernel site results-site clean

check:
	.ci/run

nightly: # all of it, or a part: make nightly PART=wheels; .ci/nightly.stamp then says so, for a commit
	.ci/run --nightly $(PART)

lint:
	$(DEV) ruff check .
	$(DEV) ruff format --check .
	MYPYPATH=tools/bench:pep/tests:tests/openbach:tests/peers:tests/satlink:$(JOBS) $(DEV) mypy --explicit-package-bases \
		src jobs tests pep tools library docs/man docs/site kernel/tests kernel/wheel.py
	$(DEV) shellcheck --external-sources --source-path SCRIPTDIR $(SHELL_FILES)

SMOKE := budget campaign ci cli conformance director docs entries expand house inventory job_arguments jobs lint measures record \
	results run_files scenarios tables tracked values words
smoke: # in half a minute, without kernel and guest: style, and the tests of what every run goes through
	$(DEV) ruff check .
	$(DEV) ruff format --check .
	$(DEV) python -m pytest $(PARALLEL) $(SMOKE:%=tests/unit/test_%.py)

unit:
	$(DEV) python -m pytest $(PARALLEL) $(PYTEST) -m "$(MARK)" tests/unit tests/satlink --cov=openbach_run --cov=satlink --cov-report=
	@echo "lines that the unit tests run, in percent: $$($(DEV) coverage report --format=total)"

guest:
	$(DEV) python -m pytest $(PARALLEL) $(PYTEST) -m "$(MARK)" $(GUEST)

pages:
	$(DEV) python -m pytest $(PARALLEL) $(PYTEST) -m "$(MARK)" tests/pages

pep:
	$(DEV) python -m pytest $(PYTEST) pep/tests

peers: # beside ns-3, which .ci/run installs; skipped where it is not there
	$(DEV) python -m pytest $(PYTEST) tests/peers

newest: # locks today's newest Python packages, and tries them
	tools/lock
	$(MAKE) unit

SECONDS := 3600
fuzz: # mutated inputs for every parser, so long: make fuzz SECONDS=60
	$(DEV) $(WITH_JOBS) python tests/fuzz.py --seconds $(SECONDS)

house: # the repository and the code in figures: files, rooms, words
	$(DEV) $(WITH_JOBS) python tests/house.py

budget: # the size of each place beside what tests/budget.toml allows, which it lowers to today's
	$(DEV) python tests/size_budget.py --lower

vpns: # builds the programs that no Debian package has: some 30 minutes, once
	BUILT_VPNS=1 $(DEV) python -m pytest tests/guest/test_vpns.py tests/guest/test_vpn_failures.py tests/guest/test_vpn_coordinator.py \
		tests/guest/test_quic_tunnels.py
	BUILT_VPNS=1 $(DEV) python -m pytest tests/guest/test_determinism.py -k another_cpu

openbach: # a real OpenBACH from a checkout, in a guest, and this project on it; make openbach OPENBACH=CHECKOUT
	$(DEV) python tests/openbach/run.py $(OPENBACH)

readme: # README's table and figure, and tables of docs/, from the results in reports/
	$(DEV) python tests/readme.py

reports: # every campaign of reports/ anew, or some: make reports ONLY="etosat full"; says first how long it takes
	$(DEV) python tools/remake.py $(ONLY)

golden: # the packets have changed, and the commit says why
	UPDATE_GOLDEN=1 $(DEV) python -m pytest tests/guest/test_golden.py

CPU := SandyBridge
other-cpu: # the golden cells on an emulated CPU, below another kernel of the host: make other-cpu CPU=Haswell CELLS=geo_loss
	$(DEV) python tools/other_cpu.py --cpu $(CPU) --only "$(CELLS)"

bench: # this checkout beside another commit: make bench COMMIT=4bfc390
	$(DEV) python tools/bench/paired.py $(COMMIT)

bench-clock: # virtual time with noise against a real clock: hours of an idle machine
	$(DEV) python tools/bench/clock.py

scenarios: # those that people open as JSON, anew; `openbach-run expand` and `package` make any other
	./openbach-run expand -o scenarios $(patsubst %.json,%.yml,$(wildcard scenarios/*.json))
	$(DEV) python library/topologies/build.py

try-install: # each way to install, in an empty Debian 13; as root, some 10 minutes
	tools/try-install

wheel: # for `pipx install dist/openbach_run-….whl`, with the manual pages, from each command's --help
	$(DEV) python docs/man/manual.py
	rm -rf build dist/openbach_run-*
	$(DEV) pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build src/openbach_run.egg-info

wheel-kernel: # dist/openbach_run_kernel-….whl, the built kernel, and kernel/built.sha256, by which the command knows it
	$(DEV) python kernel/wheel.py

site: # the documentation, with a search that needs no network: site/index.html; a dead link fails
	rm -rf build/pages site
	mkdir -p build/pages
	git ls-files -z '*.md' '*.svg' 'docs/*.png' 'docs/clusters/*' 'docs/ci/*' inventory.yml 'docs/site/*.css' 'docs/site/*.js' docs/example.ipynb 'src/openbach_run/schemas/*.json' 'kernel/tests/*.py' 'kernel/tests/*.toml' 'reports/*.html' 'reports/*.pdf' \
		| grep -zv '^tests/\|^reports/templates/\|^\.github/\|/files/' | xargs -0 cp --parents -t build/pages
	$(DEV) mkdocs build --strict --config-file docs/mkdocs.yml
	rm -rf build

REPORTED := $(filter-out full,$(patsubst reports/%/results.parquet,%,$(wildcard reports/*/results.parquet)))
results-site: $(REPORTED:%=reports/%/report.html) # the results of reports/ and its reports as a site: results-site/index.html; first some minutes
	./openbach-run matrix reports/* -o results-site

reports/%/report.html: reports/%/results.parquet
	./openbach-run report $< -o $(@D) --quiet

clean:
	rm -rf results build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

.DEFAULT: # a target of before says what took its place
	@sed -n 's|^$@: |make $@ is now: |p' tools/moved.txt | grep . >&2 || echo "make: no target $@" >&2
	@exit 2
