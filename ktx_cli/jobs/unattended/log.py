"""The log of commands that run unattended: their events and how they ended, as JSON Lines in files of bounded size."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Final

from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.errors import ResultWarning, UsageError
from ktx_cli.core.events import Event, StepProgress
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.runs.lines import masked
from ktx_cli.jobs.serving.rotating import RotatingLines
from ktx_cli.project.files import storage_error

_LONGEST: Final = 100_000
"""Bytes of a first line that are looked at."""

_BEGINS: Final = b'{"at": "'
"""What every line begins with; a full disk, or a kill, leaves half of one."""


class CommandLog:
    """Appends events to a file; how far a step is, which is said many times a second, is left out.

    That it cannot write any more is a warning, for the command goes on.
    """

    def __init__(self, path: Path) -> None:
        """Open the log, so that a path that cannot be one is known before anything is done.

        Raises `UsageError` for a file that is there and is something else, `StorageError`.
        """
        _require_log(path)
        self.warnings: list[ResultWarning] = []
        self._path = path
        self._lines = RotatingLines(path)
        self._lock = threading.Lock()
        try:
            self._lines.write(b"")
            if not _ends_in_a_line(path):
                self._lines.write(b"\n")
        except OSError as error:
            raise storage_error(path, error) from error

    def emit(self, event: Event) -> None:
        """Append an event with its time, secrets masked; does not raise."""
        if isinstance(event, StepProgress) or self.warnings:
            return
        line = json.dumps({"at": isoformat(now()), **masked(event.to_json())})
        with self._lock:
            try:
                self._lines.write(line.encode() + b"\n")
            except OSError as error:
                told = storage_error(self._path, error)
                message = f"the log ends before the command did: {told.message}"
                self.warnings.append(ResultWarning("log_incomplete", message, hint=told.hint))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._lines.close()


def _require_log(path: Path) -> None:
    """Raise `UsageError` where the file is there and was not written as a log: nothing of anybody's is appended to."""
    try:
        if not path.exists() or (path.is_file() and _is_log(path)):
            return
    except OSError as error:
        raise storage_error(path, error, "read") from error
    another = shell_words("--log-file", path.with_name(f"{path.name}.jsonl"))
    raise UsageError(f"{path} is there and is no log of ktx", hint=f"choose another file: {another}")


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
    """Whether what comes next begins a line of its own."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
