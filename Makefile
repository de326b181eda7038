# SPDX-License-Identifier: GPL-3.0-or-later
# `make check` sets up what is missing and runs every check and test; the other targets are parts of it, and the bench.

DEV := OPENBACH_RUN_EXTRA=dev ./openbach-run
SHELL_FILES := openbach-run .ci/run bench/bare.sh pep/system/routes $(wildcard vpn-configs/*/keygen vpn-configs/*/up vpn-configs/*/down)
JOBS := $(wildcard jobs/*/files tests/guest/jobs/*/files)

.PHONY: check lint test unit guest pep chaos bench bench-serve bench-pep scenarios clean

check: lint test

lint:
	$(DEV) ruff check .
	$(DEV) mypy src tests/unit tests/guest/*.py tests/chaos.py scenarios/build.py
	$(DEV) mypy topologies/build.py
	MYPYPATH=pep/tests:src/openbach_run/guest:jobs/pep/files $(DEV) mypy pep
	MYPYPATH=src:tests/unit:tests/pages $(DEV) mypy tests/pages
	for job in $(JOBS); do MYPYPATH=src/openbach_run/guest:$$job $(DEV) mypy --namespace-packages --explicit-package-bases $$job/*.py || exit 1; done
	$(DEV) shellcheck $(SHELL_FILES)

test:
	$(DEV) python -m pytest tests
	$(DEV) python -m pytest pep/tests

unit:
	$(DEV) python -m pytest tests/unit

pep:
	$(DEV) python -m pytest pep/tests

guest:
	$(DEV) python -m pytest tests/guest

chaos:
	$(DEV) python tests/chaos.py

bench:
	$(DEV) python bench/bench.py

bench-serve:
	$(DEV) python bench/serve.py

bench-pep:
	$(DEV) python pep/bench.py

scenarios:
	$(DEV) python scenarios/build.py
	$(DEV) python topologies/build.py

clean:
	rm -rf results .pytest_cache .mypy_cache .ruff_cache .hypothesis
