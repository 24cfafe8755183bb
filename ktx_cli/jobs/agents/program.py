"""Which program clients start: the `ktx` that is running, as it is found again later."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ktx_cli.core.errors import NotReadyError

NAME = "ktx"


def installed_program(environ: Mapping[str, str]) -> Path:
    """Return the absolute path of this `ktx`: as PATH has it where that is the same file, else where it is installed.

    Links stay links: an upgrade changes what they lead to. Raises `NotReadyError` where it is not installed.
    """
    beside = _executable(Path(sys.executable).with_name(NAME))
    found = found_program(environ)
    if found is not None and (beside is None or found.samefile(beside)):
        return found
    if beside is None:
        raise NotReadyError(
            f"there is no `{NAME}` beside {sys.executable} or on PATH, so clients could not start it",
            hint="install ktx: pip install ktx-cli",
        )
    return beside


def found_program(environ: Mapping[str, str], name: str = NAME) -> Path | None:
    """Return where PATH has a program, None where it has none."""
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    return Path(os.path.abspath(found)) if found else None  # noqa: PTH100 - resolve() would follow links


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None
