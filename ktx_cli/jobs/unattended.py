"""Support for unattended commands: a JSON Lines log of limited size, and the `--notify` command for failures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ktx_cli.core import ResultWarning, StepProgress, UsageError, isoformat, monotonic, now, one_line, shell_words
from ktx_cli.project import mask, storage_error
from ktx_cli.runs import RotatingFile, masked

if TYPE_CHECKING:
    from ktx_cli.core import Event

_LONGEST: Final = 100_000
"""Maximum number of bytes to check in the first line."""

_BEGINS: Final = b'{"at": "'
"""The start of every log line. After a full disk or a kill, the last line may be incomplete."""


class CommandLog:
    """Appends events to a file, except for frequent progress events.

    If writing fails, the command continues with a warning.
    """

    def __init__(self, path: Path) -> None:
        """Open the log before the command does anything, so that an invalid path fails early.

        Raises `UsageError` for an existing file that is not a log, and `StorageError`.
        """
        _require_log(path)
        self.warnings: list[ResultWarning] = []
        self._path = path
        self._lines = RotatingFile(path)
        self._lock = threading.Lock()
        try:
            self._lines.append(b"")
            if not _ends_in_a_line(path):
                self._lines.append(b"\n")
        except OSError as error:
            raise storage_error(path, error) from error

    def emit(self, event: Event) -> None:
        """Append an event with a timestamp and masked secrets. Never raises."""
        if isinstance(event, StepProgress) or self.warnings:
            return
        line = json.dumps({"at": isoformat(now()), **masked(event.to_json())})
        with self._lock:
            try:
                self._lines.append(line.encode() + b"\n")
            except OSError as error:
                failure_error = storage_error(self._path, error)
                message = f"the log is incomplete: {failure_error.message}"
                self.warnings.append(ResultWarning("log_incomplete", message, hint=failure_error.hint))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._lines.close()


def _require_log(path: Path) -> None:
    """Raise `UsageError` for an existing file that is not a ktx log, so that ktx never appends to other files."""
    try:
        if not path.exists() or (path.is_file() and _is_log(path)):
            return
    except OSError as error:
        raise storage_error(path, error, "read") from error
    another = shell_words("--log-file", path.with_name(f"{path.name}.jsonl"))
    raise UsageError(f"{path} exists and is not a ktx log", hint=f"choose another file: {another}")


def _is_log(path: Path) -> bool:
    with path.open("rb") as stream:
        line = stream.readline(_LONGEST)
    if not line:
        return True
    try:
        document = json.loads(line)
    except ValueError:
        head = line.rstrip(b"\n")[: len(_BEGINS)]
        return bool(head) and _BEGINS.startswith(head)
    return isinstance(document, dict) and {"at", "event"} <= document.keys()


def _ends_in_a_line(path: Path) -> bool:
    """Whether the file ends with a complete line."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


LIMIT: Final = 30.0
"""Time limit for the command in seconds."""

_HINT: Final = "ktx runs `sh -c COMMAND` with the report on stdin; the command must exit with 0"
_SHOWN: Final = 4_000
_MOST: Final = 10_000_000
"""Maximum command output in bytes."""
_LOOKS: Final = 0.1
"""Seconds between two checks of the output size."""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A failed command. `report` is its envelope; `run_id` and `project_dir` are None if it failed before them."""

    exit_code: int
    code: str
    message: str
    report: Mapping[str, Any]
    run_id: str | None = None
    project_dir: Path | None = None

    def environ(self) -> dict[str, str]:
        """Return the environment variables that describe the failure, with masked secrets."""
        output = {
            "KTX_EXIT_CODE": str(self.exit_code),
            "KTX_ERROR_CODE": self.code,
            "KTX_ERROR": one_line(mask(self.message), 2000),
            "KTX_RUN_ID": self.run_id or "",
            "KTX_PROJECT_DIR": "" if self.project_dir is None else os.fspath(self.project_dir),
        }
        return {
            name: text.replace("\0", "").encode("utf-8", "backslashreplace").decode() for name, text in output.items()
        }


def notify(
    command: str, failure: CommandFailure, environ: Mapping[str, str], *, seconds: float = LIMIT
) -> ResultWarning | None:
    """Run the command for at most `seconds`. Returns a warning if it fails.

    Its output is discarded, except for the last line if it fails.
    """
    try:
        with _file() as given, _file() as output:
            given.write(json.dumps(masked(failure.report), default=str).encode() + b"\n")
            given.seek(0)
            return _ended(_run(command, given, output, {**environ, **failure.environ()}, seconds), output, seconds)
    except OSError as error:
        return _warning(f"could not be run: {error.strerror or error}")


def _file() -> IO[bytes]:
    """Return an unnamed file, in memory if possible, so that notifying works even if the disk is full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("ktx-notify"), "w+b")
    return tempfile.TemporaryFile()


def _run(command: str, given: IO[bytes], output: IO[bytes], environ: Mapping[str, str], seconds: float) -> int | None:
    """Return the exit code, or None if the command exceeded a limit and was killed with its child processes."""
    process = subprocess.Popen(
        ["sh", "-c", command], stdin=given, stdout=output, stderr=output, env=environ, start_new_session=True
    )
    ends = monotonic() + seconds
    try:
        while (left := ends - monotonic()) > 0 and os.fstat(output.fileno()).st_size <= _MOST:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, _LOOKS))
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ended(code: int | None, output: IO[bytes], seconds: float) -> ResultWarning | None:
    if code == 0:
        return None
    if code is None and os.fstat(output.fileno()).st_size > _MOST:
        return _warning(f"printed more than {_MOST // 1_000_000} MB and was killed")
    if code is None:
        return _warning(f"took longer than {seconds:g} s and was killed")
    output.seek(max(0, output.seek(0, os.SEEK_END) - _SHOWN))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    last = f": {one_line(mask(lines[-1]))}" if lines else ""
    return _warning(f"exited with {code}{last}")


def _warning(message: str) -> ResultWarning:
    return ResultWarning("not_notified", f"the --notify command {message}", hint=_HINT)
