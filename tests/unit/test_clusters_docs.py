# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of docs/clusters, as Dask's own deployments and their schemas read them.

No Slurm or Kubernetes runs here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from dask_jobqueue.slurm import SLURMJob

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs/clusters"
OPERATOR = importlib.util.find_spec("dask_kubernetes")
assert OPERATOR and OPERATOR.origin
CRDS = Path(OPERATOR.origin).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
"""What the operator installs in a cluster, which then refuses resources that are not like that."""


def job_script() -> str:
    found = importlib.util.spec_from_file_location("slurm", PLACE / "slurm.py")
    assert found and found.loader
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    job: Any = SLURMJob  # which has no types
    return str(job(scheduler="tcp://10.0.0.1:8786", name="worker-1", **example.JOB).job_script())


def test_slurm_gets_a_script_that_shells_read(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(job_script())
    subprocess.run(["bash", "-n", script], check=True)
    subprocess.run(["shellcheck", script], check=True)


def test_slurm_is_asked_for_a_cpu_and_the_memory_of_a_guest_for_each_worker() -> None:
    directives = dict(re.findall(r"^#SBATCH (--?[a-zA-Z-]+)[ =](.+)$", job_script(), re.MULTILINE))
    workers = int(re.findall(r"--nworkers (\d+)", job_script())[0])
    assert directives["--cpus-per-task"] == str(workers)
    assert int(directives["--mem"].removesuffix("G")) / workers > 1
    assert directives["-t"] and "--nthreads 1 " in job_script()


def test_slurms_worker_starts_from_the_checkout() -> None:
    line = job_script().splitlines()[-1]
    assert "-m distributed.cli.dask_worker tcp://10.0.0.1:8786" in line
    assert re.match(rf"env OPENBACH_RUN_EXTRA=cluster {ROOT}/openbach-run python ", line)
    assert os.access(ROOT / "openbach-run", os.X_OK)


def cluster() -> dict[str, Any]:
    return dict(yaml.safe_load((PLACE / "kubernetes.yml").read_text()))


def schema() -> Any:
    definition = yaml.safe_load((CRDS / "daskcluster.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    return _strict(version["schema"]["openAPIV3Schema"])


def _strict(found: Any) -> Any:
    """An unknown field is an error, as for `kubectl apply --validate=strict`."""
    if isinstance(found, list):
        return [_strict(one) for one in found]
    if not isinstance(found, dict):
        return found
    strict = {name: _strict(one) for name, one in found.items()}
    if "properties" in found and isinstance(found["properties"], dict) and not found.get(KEEPS):
        strict.setdefault("additionalProperties", False)
    return strict


KEEPS = "x-kubernetes-preserve-unknown-fields"


def check(resource: dict[str, Any]) -> None:
    checked = {
        name: value
        for name, value in schema()["properties"].items()
        if name not in ("status", "metadata")
    }
    jsonschema.validate(resource["spec"], checked["spec"])
    assert re.fullmatch(
        "[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", resource["metadata"]["name"]
    )  # RFC 1123


def test_kubernetes_takes_the_cluster() -> None:
    resource = cluster()
    assert (resource["apiVersion"], resource["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    check(resource)
    name = resource["metadata"]["name"]
    assert resource["spec"]["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == name


@pytest.mark.parametrize(
    ("old", "new"), [("containerPort", "containersPort"), ('"8786"', "8786"), ("image:", "images:")]
)
def test_what_kubernetes_would_refuse_is_found(old: str, new: str) -> None:
    wrong = yaml.safe_load((PLACE / "kubernetes.yml").read_text().replace(old, new))
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)


def test_the_pages_name_the_files() -> None:
    page = (ROOT / "docs/clusters.md").read_text()
    assert all(f"clusters/{file.name}" in page for file in PLACE.iterdir() if file.is_file())
    assert json.dumps(cluster()).count("IMAGE") == 2
