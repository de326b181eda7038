# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that people write: whatever is wrong with it is said with its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from openbach_run.errors import InputError


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises InputError."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: YAML nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # a date that there is not, say
        raise InputError(f"{path}: {error}") from error
