# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of a bundle's packages (software bill of materials), as SPDX 2.3 (JSON).

Each package has its version, the hash of the file that it came in, and its licence or the place of
that. A Debian package also has the source package that it was built from, with its hash.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openbach_run.catalog import DESCRIBED, Catalog, description
from openbach_run.engine.virtual.debian import run
from openbach_run.engine.virtual.image import COPYRIGHT, IMAGE_FILE
from openbach_run.engine.virtual.kernel import KERNEL_FILE
from openbach_run.version import NAME, version

ALWAYS = "2026-01-01T00:00:00Z"
"""The document's date: the same content makes the same document."""
LINKED = {"libc6-dev": "jail, satpep, start", "libzstd-dev": "start"}
"""Debian packages of the machine that makes the bundle, and the programs into which they are
linked."""
REGISTRIES = {"crate": ("cargo", ""), "go": ("golang", "v"), "wheel": ("pypi", "")}
"""Key of a recipe → the registry's name in a package URL, and what precedes the version there."""
UNKNOWN = "NOASSERTION"
LICENSE = re.compile(r"[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*")


@dataclass(frozen=True)
class Part:
    """A package of the bundle."""

    name: str
    version: str
    url: str
    """Its package URL (purl)."""
    sha256: str = ""
    license: str = ""
    comment: str = ""
    file: str = ""
    """The name of the file that has the hash, where the URL does not say it."""
    source: str = ""
    """Name and version of the source package that it was built from."""

    @property
    def identity(self) -> str:
        """Return the package's identifier in the document."""
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", self.url.removeprefix("pkg:"))

    def described(self) -> dict[str, Any]:
        """Return the package's entry in the document."""
        return {
            "SPDXID": self.identity,
            "name": self.name,
            "versionInfo": self.version,
            "downloadLocation": UNKNOWN,
            "filesAnalyzed": False,
            "licenseConcluded": UNKNOWN,
            # SPDX takes expressions of its own identifiers only; other texts would make the
            # document invalid.
            "licenseDeclared": self.license if LICENSE.fullmatch(self.license) else UNKNOWN,
            "copyrightText": UNKNOWN,
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": self.url,
                }
            ],
            **({"packageFileName": self.file} if self.file else {}),
            **(
                {"checksums": [{"algorithm": "SHA256", "checksumValue": self.sha256}]}
                if self.sha256
                else {}
            ),
            **({"comment": self.comment} if self.comment else {}),
        }


Sources = Callable[[Sequence[str]], Mapping[str, Mapping[str, str]]]
"""Called with `name version` of source packages; returns the files of each, with their SHA-256."""


def sbom(
    entries: Sequence[Path], python: Iterable[Mapping[str, str]], sources: Sources
) -> dict[str, Any]:
    """Return the document of a bundle with these entries of the cache and these Python packages.

    Raises SetupError.
    """
    release = version()
    whole = Part(NAME, release, f"pkg:generic/{NAME}@{quote(release)}", license="GPL-3.0-or-later")
    images = [entry for entry in entries if (entry / IMAGE_FILE).exists()]
    parts = [
        *chain(*map(_debian, images)),
        *(_kernel(entry) for entry in entries if (entry / KERNEL_FILE).exists()),
        *_of_registries({entry.name.rpartition("-")[0] for entry in entries}),
        *_linked(),
        *(_python(package) for package in python),
    ]
    # Licences ask for the sources of what is passed on; several packages are built from one.
    built_from = sorted({part.source for part in parts if part.source})
    files = sources(built_from)
    origins = {source: _source(source, files[source]) for source in built_from}
    related = [("SPDXRef-DOCUMENT", "DESCRIBES", whole.identity)]
    related += [(whole.identity, "CONTAINS", part.identity) for part in parts]
    related += [
        (part.identity, "GENERATED_FROM", origins[part.source].identity)
        for part in parts
        if part.source
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{NAME} {release} bundle",
        "documentNamespace": (
            f"urn:openbach-run:bundle:{'+'.join(sorted(entry.name for entry in entries))}"
        ),
        "creationInfo": {"created": ALWAYS, "creators": [f"Tool: {NAME}-{release}"]},
        "packages": [part.described() for part in (whole, *parts, *origins.values())],
        "relationships": [
            {"spdxElementId": first, "relationshipType": kind, "relatedSpdxElement": other}
            for first, kind, other in related
        ],
    }


def _debian(image: Path) -> Iterable[Part]:
    """Yield the Debian packages of a guest tree."""
    for identity, origin in json.loads((image / IMAGE_FILE).read_text())["origins"].items():
        name, version, architecture = identity.split("_")
        has_file = (image / COPYRIGHT / name).exists()
        comment = (
            f"licences: licenses/debian/{name}"
            if has_file
            else "licences: with the package it depends on"
        )
        url = _debian_url(name, version, architecture)
        yield Part(name, version, url, origin["sha256"], comment=comment, source=origin["source"])


def _kernel(entry: Path) -> Part:
    """Return the kernel's source package."""
    described = json.loads((entry / KERNEL_FILE).read_text())
    name, version, _ = described["identity"].split(" ")
    comment = (
        "the source package itself; configuration, patches and files of ours are in"
        " repository/kernel"
    )
    return Part(
        name,
        version,
        _debian_url(name, version, "all"),
        described.get("source_sha256", ""),
        "GPL-2.0-only",
        comment,
    )


def _of_registries(programs: set[str]) -> Iterable[Part]:
    """Yield the packages of registries from which programs of VPNs were built."""
    listed: set[Path] = set()
    folders = chain(*(Catalog().all(kind).values() for kind in DESCRIBED))
    for folder in folders:
        for program, recipe in description(folder).get("programs", {}).items():
            source = (folder / recipe.get("source", "")).resolve()
            is_pinned = "source" in recipe and "build" not in recipe
            if is_pinned and program in programs and source not in listed:
                listed.add(source)
                of = _crates_of if (source / "Cargo.lock").exists() else _modules_of
                yield from of(program, source)
            for kind, (registry, prefix) in REGISTRIES.items():
                if kind in recipe and program in programs:
                    name, version = recipe[kind], recipe["version"]
                    url = f"pkg:{registry}/{name}@{prefix}{version}"
                    comment = f"{program} is built from it, and from what that pins"
                    yield Part(name, version, url, recipe["sha256"], comment=comment)


REQUIRED = re.compile(r"(?m)^\s+(?P<name>\S+) v(?P<version>\S+)")
"""A module that a go.mod requires."""


def _modules_of(program: str, source: Path) -> Iterable[Part]:
    """Yield the Go modules that are linked into a program of this checkout."""
    for module in REQUIRED.finditer((source / "go.mod").read_text()):
        name, version = module["name"], module["version"]
        comment = f"linked into {program}; its hash is in the program's go.sum"
        yield Part(name, version, f"pkg:golang/{name}@v{version}", comment=comment)


def _crates_of(program: str, source: Path) -> Iterable[Part]:
    """Yield the crates that are linked into a program of this checkout."""
    locked = tomllib.loads((source / "Cargo.lock").read_text())["package"]
    for crate in locked:
        if "checksum" in crate:  # the program itself has none
            name, version = crate["name"], crate["version"]
            comment = f"linked into {program}"
            url = f"pkg:cargo/{name}@{version}"
            yield Part(name, version, url, crate["checksum"], comment=comment)


def _linked() -> Iterable[Part]:
    """Yield the Debian packages that are linked into our programs."""
    for package, programs in LINKED.items():
        form = "${Version} ${Architecture} ${source:Package} ${source:Version}"
        shown = run(
            ["dpkg-query", "--show", f"--showformat={form}", package], f"looking for {package}"
        )
        version, architecture, *source = shown.split(" ")
        url = _debian_url(package, version, architecture)
        yield Part(
            package, version, url, comment=f"linked into {programs}", source=" ".join(source)
        )


def _source(identity: str, files: Mapping[str, str]) -> Part:
    """Return a source package.

    Its hash is that of its .dsc file, which has the hashes of the other files.
    """
    name, version = identity.split(" ")
    described = next((file for file in files if file.endswith(".dsc")), "")
    others = [f"{file} (SHA-256 {sha256})" for file, sha256 in files.items() if file != described]
    comment = (
        f"with {', '.join(others)}"
        if described
        else "Debian's lists had no such source package any more"
    )
    return Part(
        name,
        version,
        _debian_url(name, version, "source"),
        files.get(described, ""),
        "",
        comment,
        described,
    )


def _debian_url(name: str, version: str, architecture: str) -> str:
    return f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={architecture}"


def _python(package: Mapping[str, str]) -> Part:
    """Return a Python package."""
    url = f"pkg:pypi/{re.sub('[-_.]+', '-', package['name']).lower()}@{package['version']}"
    return Part(
        package["name"],
        package["version"],
        url,
        package["sha256"],
        package["license"],
        comment=f"file: {package['file']}",
    )
