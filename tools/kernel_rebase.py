# SPDX-License-Identifier: GPL-3.0-or-later
"""Try kernel/series on another kernel source: `tools/dev tools/kernel_rebase.py 7.3`.

`--export TREE` writes kernel/patches from the commits of a tree that was mended.
kernel/README.md explains both.

Of a kernel source git gets what the kernel build unpacks of it, so the tree can be built too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual import kernel, series
from openbach_run.engine.virtual.debian import Apt
from openbach_run.engine.virtual.lock import fetch_current
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory

KERNEL_DIR = REPOSITORY / "kernel"
TREES = cache_directory() / "kernel-rebase"
SUITES = (*kernel.SUITES, "experimental")
PACKAGE = re.compile(r"linux-source-(\d+)\.(\d+)$")
SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_COMMITTER_NAME": "openbach-run developers",
    "GIT_COMMITTER_EMAIL": "developers@openbach-run.example",
    "GIT_AUTHOR_NAME": "openbach-run developers",
    "GIT_AUTHOR_EMAIL": "developers@openbach-run.example",
    "LC_ALL": "C",
}
"""For git: nobody's own settings, so that everybody exports the same files."""
ABBREVIATED = "--abbrev=12"
PRISTINE = "pristine"
"""The tag of the source without patches."""
APPLIES, WITH_OFFSET, MERGES, UPSTREAM = (
    "applies",
    "applies with offset",
    "applies by a merge",
    "already upstream",
)
MEND = """
{tree} has the source (tag {pristine}) with the series up to the first patch that does not apply.
In that directory: mend the files, `git add` them, `git am --continue`; until all are applied.
Then here: tools/dev tools/kernel_rebase.py --export {tree}"""


@dataclass(frozen=True)
class Source:
    """A kernel source of the mirror."""

    name: str
    suite: str
    version: str
    apt: Apt

    def unpack(self, place: Path) -> Path:
        """Download the package and unpack it below `place`; returns the directory of the source."""
        archives = self.apt.directory / "archives"
        package = self.apt.package(self.name)
        fetch_current([package], archives, _tell_nothing, f"downloading {self.name}")
        archive = archives / package.file_name
        source = kernel._unpack(archive, self.name, place, _tell_nothing)
        archive.unlink()
        return source


def _tell_nothing(text: str, part: float) -> None:
    """Take no notice of a progress."""


def wanted_source(wanted: str, work: Path) -> Source:
    """Return the source that `wanted` names, or the newest of the mirror.

    A name is 7.3, linux-source-7.3, or either with /SUITE.
    """
    version, _, suite = wanted.removeprefix("linux-source-").partition("/")
    found: list[tuple[tuple[int, int], Source]] = []
    for one in (suite,) if suite else SUITES:
        apt = Apt(work / f"apt-{one}", (one,), {})
        apt.prepare()
        names = apt._apt(
            "listing kernel sources", "pkgnames", "linux-source-", program="apt-cache"
        ).split()
        for name in names:
            number = PACKAGE.match(name)
            candidate = apt.candidate(name) if number else None
            if number and candidate and version in ("", number[0].removeprefix("linux-source-")):
                found.append(((int(number[1]), int(number[2])), Source(name, one, candidate, apt)))
    if not found:
        raise SetupError(
            f"no suite of {', '.join((suite,) if suite else SUITES)} has"
            f" linux-source-{version or '*'}"
        )
    newest = max(number for number, _ in found)
    # Of one version the suite that is named first: what our users get.
    return next(source for number, source in found if number == newest)


def git(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run git in a tree; whether it succeeded is for the caller to see."""
    command = ["git", "-C", str(tree), *words]
    return subprocess.run(
        command, check=False, env={**os.environ, **SETTINGS}, text=True, capture_output=True
    )


def must(tree: Path, *words: str) -> str:
    """Run git in a tree. Raises SetupError with what it printed, if it fails."""
    done = git(tree, *words)
    if done.returncode:
        raise SetupError(f"git {' '.join(words)} in {tree}:\n{done.stdout}{done.stderr}")
    return done.stdout


def repository_of(source: Source, tree: Path) -> None:
    """Make `tree` a repository whose only commit is the source."""
    shutil.rmtree(tree, ignore_errors=True)
    unpacked = source.unpack(tree.with_name(f"{tree.name}.unpacked"))
    unpacked.rename(tree)
    shutil.rmtree(tree.with_name(f"{tree.name}.unpacked"))
    must(tree, "init", "-q")
    must(tree, "add", "-f", "-A", ".")
    must(tree, "commit", "-q", "-m", f"{source.name} {source.version}")
    must(tree, "tag", PRISTINE)


def with_older_files(tree: Path, work: Path) -> None:
    """Give the repository the files that the series was made from: a merge needs them."""
    ours = wanted_source(kernel.SOURCES[0], work)
    older = work / "ours"
    repository_of(ours, older)
    must(older, "am", "-q", *(str(patch) for patch in series.patches(KERNEL_DIR)))
    must(tree, "fetch", "-q", "--no-tags", str(older), "HEAD")
    shutil.rmtree(older)


def fate(tree: Path, patch: Path) -> str:
    """Apply a patch as a commit if that can be; return what became of it."""
    checked = git(tree, "apply", "--check", "--verbose", str(patch))
    if checked.returncode and not git(tree, "apply", "--check", "--reverse", str(patch)).returncode:
        return UPSTREAM
    applied = git(tree, "am", "-3", str(patch))
    if not applied.returncode:
        said = applied.stdout + applied.stderr
        if "already applied" in said:
            return UPSTREAM
        if checked.returncode:
            return MERGES
        return WITH_OFFSET if "offset" in checked.stderr else APPLIES
    files = must(tree, "diff", "--name-only", "--diff-filter=U").split()
    # Without the older file there is no merge: git names what it could not patch.
    files += re.findall(r"^error: patch failed: (\S+):\d+$", checked.stderr, re.MULTILINE)
    files += re.findall(r"^error: (\S+): No such file or directory$", checked.stderr, re.MULTILINE)
    git(tree, "am", "--abort")
    return f"conflict in {', '.join(dict.fromkeys(files)) or 'what git does not name'}"


def try_series(tree: Path) -> bool:
    """Print for each patch what becomes of it; leave the tree where one can mend it.

    Whether all apply.
    """
    fates = {}
    for patch in series.patches(KERNEL_DIR):
        name = str(patch.relative_to(KERNEL_DIR / "patches"))
        fates[patch] = fate(tree, patch)
        print(f"{name:45} {fates[patch]}", flush=True)
    failed = [patch for patch, words in fates.items() if words.startswith("conflict")]
    if failed:
        # Once more, to where the first one fails: git am waits there.
        must(tree, "reset", "-q", "--hard", PRISTINE)
        git(tree, "am", "-3", *(str(patch) for patch, words in fates.items() if words != UPSTREAM))
        print(MEND.format(tree=tree, pristine=PRISTINE))
    if upstream := [patch.name for patch, words in fates.items() if words == UPSTREAM]:
        print(f"\nto take out of kernel/{series.FILE}: {', '.join(upstream)}")
    return not failed


def export(tree: Path) -> None:
    """Write the commits of a tree to kernel/patches, each to the patch whose subject it has."""
    by_subject = {subject_of(patch): patch for patch in series.patches(KERNEL_DIR)}
    for commit in must(tree, "rev-list", "--reverse", f"{PRISTINE}..HEAD").split():
        subject = must(tree, "log", "-1", "--format=%s", commit).strip()
        patch = by_subject.pop(subject, None)
        if patch is None:
            raise SetupError(
                f'no patch of kernel/{series.FILE} has the subject "{subject}": save it below'
                f" kernel/patches (git format-patch -1 {commit[:12]}), name it in"
                f" kernel/{series.FILE}, and export again"
            )
        patch.write_text(mail(tree, commit), encoding="utf-8")
    for subject, patch in by_subject.items():
        print(f'not in {tree}, and left as it is: {patch.name} ("{subject}")')


def subject_of(patch: Path) -> str:
    """The subject of a mail, which may go on in lines that begin with a space."""
    found = re.search(
        r"^Subject: (?:\[PATCH\] )?(.*(?:\n .*)*)", patch.read_text(encoding="utf-8"), re.MULTILINE
    )
    return re.sub(r"\n ", " ", found[1]) if found else ""


def mail(tree: Path, commit: str) -> str:
    """A commit in git's mail form, the same text wherever it is made."""
    options = (
        "--zero-commit",
        "--no-signature",
        "--no-numbered",
        ABBREVIATED,
        "--stat=72",
        "--diff-algorithm=myers",
    )
    return must(tree, "format-patch", "--stdout", "-1", *options, commit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the series, or export it; 1 if a patch does not apply."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "version", nargs="?", default="", help="7.3, linux-source-7.3, 7.3/experimental; the newest"
    )
    parser.add_argument(
        "--export", type=Path, metavar="TREE", help="write kernel/patches from this tree's commits"
    )
    asked = parser.parse_args(arguments)
    if asked.export:
        export(asked.export)
        return 0
    TREES.mkdir(parents=True, exist_ok=True)
    source = wanted_source(asked.version, TREES)
    print(f"kernel/{series.FILE} on {source.name} {source.version} ({source.suite})", flush=True)
    tree = TREES / source.name
    repository_of(source, tree)
    with_older_files(tree, TREES)
    return 0 if try_series(tree) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.exit(f"kernel-rebase: {error}")
