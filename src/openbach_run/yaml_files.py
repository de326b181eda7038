# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of YAML that people write. Each error names the file.

The content is kept in the cache as JSON, by the hash of the file: every command reads the YAML of
all jobs, and YAML takes 25 times as long to read as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.json_files import MOST_NESTED
from openbach_run.paths import cache_directory, make_own

ENOUGH = 8 << 20
"""The most characters that are read of a file, which may have no end; yaml_loaders refuses half as
many."""


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file. Raises InputError."""
    return _read(path, as_texts=False)


def read_texts(path: Path) -> Any:
    """Return the content of a YAML file in which every value is a text. Raises InputError."""
    return _read(path, as_texts=True)


def _read(path: Path, *, as_texts: bool) -> Any:
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(ENOUGH)
        # A broken entry of the cache, or none, is no error: the YAML is read.
        kept = _kept(f"{as_texts} {text}")
        with suppress(OSError, ValueError):
            return json.loads(kept.read_bytes())
        from openbach_run import yaml_loaders  # its import takes longer than all that is kept

        content = yaml_loaders.load(text, as_texts=as_texts)
        _keep(kept, content)
        return content
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: YAML nested too deeply (at most {MOST_NESTED} levels)") from None
    except ValueError as error:  # also a date that there is not, say
        raise InputError(f"{path}: {error}") from error


def _kept(text: str) -> Path:
    """Return the place in the cache for a text's content."""
    return _folder() / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


@cache
def _folder() -> Path:
    """Return the folder in the cache for content read by this version of yaml_loaders.py."""
    how = hashlib.sha256(Path(__file__).with_name("yaml_loaders.py").read_bytes()).hexdigest()[:16]
    return cache_directory() / f"yaml-{how}"


def _keep(place: Path, content: Any) -> None:
    """Keep a content in the cache, if possible.

    A content that JSON does not give back unchanged (a date, say) is not kept. An error on writing
    the cache is ignored.
    """
    with suppress(OSError, TypeError, ValueError):
        import tempfile

        text = json.dumps(content)
        if json.loads(text) != content:
            return
        make_own(place.parent)
        place.parent.with_suffix(".lock").touch()  # used now: the cache forgets what is not
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, place)
