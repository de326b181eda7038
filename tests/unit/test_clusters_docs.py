# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource of docs/clusters, as the schema of its operator reads it; no Kubernetes runs here.

tests/guest/test_slurm.py executes the job script on a Slurm.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs/clusters"
OPERATOR = importlib.util.find_spec("dask_kubernetes")
assert OPERATOR and OPERATOR.origin
CRDS = Path(OPERATOR.origin).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
"""What the operator installs in a cluster, which then refuses resources that are not like that."""


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
    # RFC 1123.
    assert re.fullmatch("[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", resource["metadata"]["name"])


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
