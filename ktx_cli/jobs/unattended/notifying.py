"""Runs the command that tells somebody of a failure: through `sh`, with the report on stdin and the facts around it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import one_line
from ktx_cli.jobs.runs.lines import masked
from ktx_cli.project.secrets import mask

LIMIT: Final = 30.0
"""Seconds the command may take."""

_HINT: Final = "it is run as `sh -c COMMAND`, with the report on its stdin: it has to end with 0"
_SHOWN: Final = 4_000
_MOST: Final = 10_000_000
"""Bytes it may print: nobody reads them, and they have to be somewhere."""
_LOOKS: Final = 0.1
"""Seconds between two looks at how much it has printed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a command ended. `report`: its envelope; `run_id`, `project_dir`: None where it did not come so far."""

    exit_code: int
    code: str
    message: str
    report: Mapping[str, Any]
    run_id: str | None = None
    project_dir: Path | None = None

    def environ(self) -> dict[str, str]:
        """Return the variables that say it, no secret in them."""
        said = {
            "KTX_EXIT_CODE": str(self.exit_code),
            "KTX_ERROR_CODE": self.code,
            "KTX_ERROR": one_line(mask(self.message), 2000),
            "KTX_RUN_ID": self.run_id or "",
            "KTX_PROJECT_DIR": "" if self.project_dir is None else os.fspath(self.project_dir),
        }
        return {
            name: text.replace("\0", "").encode("utf-8", "backslashreplace").decode() for name, text in said.items()
        }


def notify(
    command: str, failure: Failure, environ: Mapping[str, str], *, seconds: float = LIMIT
) -> ResultWarning | None:
    """Run the command and wait for its end, for at most `seconds`; return a warning where it failed.

    What it prints goes nowhere, but for the last line of one that failed.
    """
    try:
        with _file() as given, _file() as said:
            given.write(json.dumps(masked(failure.report), default=str).encode() + b"\n")
            given.seek(0)
            return _ended(_run(command, given, said, {**environ, **failure.environ()}, seconds), said, seconds)
    except OSError as error:
        return _warning(f"could not be run: {error.strerror or error}")


def _file() -> IO[bytes]:
    """Return a file without a name, in memory where there is such a thing: a disk that is full has to be told too."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("ktx-notify"), "w+b")
    return tempfile.TemporaryFile()


def _run(command: str, given: IO[bytes], said: IO[bytes], environ: Mapping[str, str], seconds: float) -> int | None:
    """Return the exit code, None where the command was ended with all it had started: it took or printed too much."""
    process = subprocess.Popen(
        ["sh", "-c", command], stdin=given, stdout=said, stderr=said, env=environ, start_new_session=True
    )
    ends = monotonic() + seconds
    try:
        while (left := ends - monotonic()) > 0 and os.fstat(said.fileno()).st_size <= _MOST:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, _LOOKS))
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ended(code: int | None, said: IO[bytes], seconds: float) -> ResultWarning | None:
    if code == 0:
        return None
    if code is None and os.fstat(said.fileno()).st_size > _MOST:
        return _warning(f"printed more than {_MOST // 1_000_000} MB and was ended")
    if code is None:
        return _warning(f"took longer than {seconds:g} s and was ended")
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SHOWN))
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    last = f": {one_line(mask(lines[-1]))}" if lines else ""
    return _warning(f"ended with {code}{last}")


def _warning(message: str) -> ResultWarning:
    return ResultWarning("not_notified", f"the command of --notify {message}", hint=_HINT)
