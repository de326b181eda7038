# SPDX-License-Identifier: GPL-3.0-or-later
# `make check` sets up what is missing and runs every check and test, in the parts that .ci/run names; `make smoke` takes a minute.

DEV := OPENBACH_RUN_EXTRA=dev ./openbach-run
SHELL_FILES := openbach-run .ci/run bench/bare.sh pep/system/routes vpn-configs/lib.sh kernel/build/cc kernel/tests/init.sh \
	kernel/upstream/tests/boot.sh $(wildcard kernel/upstream/tests/[!b]*) \
	$(wildcard vpn-configs/*/keygen vpn-configs/*/up vpn-configs/*/down)
PARALLEL := --numprocesses $(shell nproc) --dist loadfile
JOBS := $(wildcard jobs/*/files)
# Where programs below find jobs, and what tests share. pytest and mypy have the same places in pyproject.toml.
EMPTY :=
WITH_JOBS := env PYTHONPATH=src:src/openbach_run/guest/agent_library:tests:pep/tests:$(subst $(EMPTY) $(EMPTY),:,$(JOBS))

.PHONY: check lint smoke test unit guest pages pep peers vpns chaos fuzz house words readme reports golden other-cpu bump-debian add-debian modules kernel-tests openbach openbach-jobs scenarios vpn-lists control-lists man lock wheel site results-site clean
.PHONY: kernel-rebase kernel-export soak
.PHONY: bench bench-return-link bench-budget bench-paired bench-scale bench-cluster bench-serve bench-pep bench-peers bench-clock bench-native

check:
	.ci/run

lint:
	$(DEV) ruff check .
	$(DEV) ruff format --check .
	$(DEV) mypy src jobs tests/unit tests/guest tests/helpers tests/*.py topologies docs/man docs/site kernel/tests/*.py
	$(DEV) mypy pep
	$(DEV) mypy tests/pages
	$(DEV) mypy tests/openbach
	$(DEV) mypy tests/peers
	$(DEV) mypy bench
	$(DEV) shellcheck --external-sources --source-path SCRIPTDIR $(SHELL_FILES)

SMOKE := campaign ci cli conformance director docs entries expand house inventory job_arguments jobs lint measures record \
	results run_files scenarios tables tracked values words
smoke: # in half a minute, without kernel and guest: style, and the tests of what every run goes through
	$(DEV) ruff check .
	$(DEV) ruff format --check .
	$(DEV) python -m pytest $(PARALLEL) $(SMOKE:%=tests/unit/test_%.py)

test: unit guest pages pep peers

unit:
	$(DEV) python -m pytest $(PARALLEL) tests/unit --cov=openbach_run --cov-report=
	@echo "lines that the unit tests run, in percent: $$($(DEV) coverage report --format=total)"

guest:
	$(DEV) python -m pytest $(PARALLEL) tests/guest

pages:
	$(DEV) python -m pytest tests/pages

pep:
	$(DEV) python -m pytest pep/tests

peers: # beside ns-3, which CI installs; skipped where it is not there
	$(DEV) python -m pytest tests/peers

chaos:
	$(DEV) python tests/chaos.py

SECONDS := 3600
fuzz: # mutated inputs for every parser, so long: make fuzz SECONDS=60
	$(DEV) $(WITH_JOBS) python tests/fuzz.py --seconds $(SECONDS)

house: # the repository and the code in figures: files, rooms, words, the way of a scenario
	$(DEV) $(WITH_JOBS) python tests/house.py

words: # how the pages for users read: sentences, private words
	$(DEV) python tests/words.py

vpns: # builds the programs that no Debian package has: some 30 minutes, once
	BUILT_VPNS=1 $(DEV) python -m pytest tests/guest/test_vpns.py tests/guest/test_vpn_failures.py tests/guest/test_vpn_coordinator.py \
		tests/guest/test_quic_tunnels.py
	BUILT_VPNS=1 $(DEV) python -m pytest tests/guest/test_determinism.py -k another_cpu

modules: # for Debian's 6.1, 6.12 and current kernel, in a guest; downloads their headers and compilers once
	$(DEV) python -m pytest tests/guest/test_module.py

bump-debian: # today's Debian packages in debian.lock, then golden cells and the table of geo_loss; says what moved
	$(DEV) python tests/bump_debian.py

add-debian: # only the packages that debian.lock lacks; the others keep their versions
	$(DEV) python tests/bump_debian.py --add

kernel-tests: # the kernel's own tests, with our patches and without: two kernels are built; two hours of two cores, 6 GB
	$(DEV) python kernel/tests/run.py $(TESTS)

openbach: # a real OpenBACH from a checkout, in namespaces, and this project on it: an hour of two cores, root; make openbach OPENBACH=CHECKOUT
	$(DEV) python tests/openbach/run.py $(OPENBACH)

openbach-jobs: # OpenBACH's own jobs in a guest, and the table of docs/openbach.md: make openbach-jobs OPENBACH=DIR EXTRA=DIR
	$(DEV) python tests/upstream_jobs.py $(abspath $(OPENBACH) $(EXTRA)) $(NAMES)
	OPENBACH=$(abspath $(OPENBACH)) EXTRA=$(abspath $(EXTRA)) $(DEV) python -m pytest tests/guest/test_openbach_jobs.py

readme: # README's table and figure, and tables of docs/, from the results in reports/
	$(DEV) python tests/readme.py

reports: # every campaign of reports/ anew, or some: make reports ONLY="etosat full"; says first how long it takes
	$(DEV) python tests/remake.py $(ONLY)

golden: # the packets have changed, and the commit says why
	UPDATE_GOLDEN=1 $(DEV) python -m pytest tests/guest/test_golden.py

CPU := SandyBridge
other-cpu: # the golden cells on an emulated CPU, below another kernel of the host: make other-cpu CPU=Haswell CELLS=geo_loss
	$(DEV) python tests/other_cpu.py --cpu $(CPU) --only "$(CELLS)"

kernel-rebase: # tries kernel/series on another source of Debian's: make kernel-rebase VERSION=7.3
	$(DEV) python tests/kernel_rebase.py $(VERSION)

kernel-export: # kernel/patches from the commits of a tree that was mended: make kernel-export TREE=DIRECTORY
	$(DEV) python tests/kernel_rebase.py --export $(TREE)

bench:
	$(DEV) python bench/bench.py

bench-budget: # where the CPU time of a run goes
	$(DEV) python bench/budget.py geo vpn=none cc=cubic

bench-paired: # this checkout against another commit, in turn: make bench-paired BASE=4bfc390
	$(DEV) python bench/paired.py $(BASE)

bench-return-link: # a return link that has to be asked for: by number of terminals, and against geo
	$(DEV) python bench/return_link.py

bench-scale:
	$(DEV) python bench/scale.py

bench-cluster:
	$(DEV) python bench/cluster.py

bench-serve:
	$(DEV) python bench/serve.py

bench-clock: # the virtual clock against the real one: half an hour of an idle machine
	$(DEV) python bench/clock.py

bench-native: # VPNs on this machine's own kernel: half an hour of an idle machine
	$(DEV) python bench/native.py

soak: # the proxy, with random connects, resets, half-closes and stalls: make soak SECONDS=60
	$(DEV) $(WITH_JOBS) python pep/tests/soak.py $(SECONDS)

bench-pep:
	$(DEV) $(WITH_JOBS) python pep/bench.py

bench-peers: # the same transfers here and in ns-3 (Debian's libns3-dev): times, theory, speed
	$(DEV) python tests/peers/beside_ns3.py

scenarios: # those that people open as JSON, anew; `openbach-run expand` and `package` make any other
	./openbach-run expand -o scenarios $(patsubst %.json,%.yml,$(wildcard scenarios/*.json))
	$(DEV) python topologies/build.py

vpn-lists:
	$(DEV) $(WITH_JOBS) python jobs/vpn/vpn_lists.py

control-lists:
	$(DEV) python jobs/transport_profile/control_lists.py

man: # the manual pages, from each command's --help
	$(DEV) python docs/man/manual.py

lock: # the Python packages of a bundle, from the ranges of pyproject.toml: every version, and the hashes of its files
	$(DEV) uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
		--no-annotate --custom-compile-command "make lock" --quiet --output-file requirements.lock
	sed -zi 's/ \\\n */ /g' requirements.lock

wheel: man # for `pipx install dist/openbach_run-….whl`
	rm -rf build dist
	$(DEV) pip wheel --quiet --no-deps --wheel-dir dist .
	rm -rf build src/openbach_run.egg-info

site: # the documentation, with a search that needs no network: site/index.html; a dead link fails
	rm -rf build/pages site
	mkdir -p build/pages
	git ls-files -z '*.md' '*.svg' 'docs/*.png' 'docs/clusters/*' 'docs/ci/*' inventory.yml 'docs/site/*.css' 'docs/site/*.js' docs/example.ipynb 'kernel/tests/*.py' 'kernel/tests/*.toml' 'reports/*.html' 'reports/*.pdf' \
		| grep -zv '^tests/\|^reports/templates/\|^\.github/\|/files/' | xargs -0 cp --parents -t build/pages
	$(DEV) mkdocs build --strict
	rm -rf build

REPORTED := $(filter-out full,$(patsubst reports/%/results.parquet,%,$(wildcard reports/*/results.parquet)))
results-site: $(REPORTED:%=reports/%/report.html) # the results of reports/ and its reports as a site: results-site/index.html; first some minutes
	./openbach-run matrix reports/* -o results-site

reports/%/report.html: reports/%/results.parquet
	./openbach-run report $< -o $(@D) --quiet

clean:
	rm -rf results build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
