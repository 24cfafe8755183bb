"""Captures that agents hand to a server: put into the queue at once, worked through by one process beside it.

The process is tied to the server by a pipe: killed, the server takes it along and what is under way is `interrupted`;
ended in order, the server lets it go on to the end of the queue.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktx_cli.core import KtxError, exit_code_for, monotonic
from ktx_cli.llm import NO_BACKEND, no_backend
from ktx_cli.project import Layout, load_config, prepare_private_folder, translated

if TYPE_CHECKING:
    from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord


AGAIN_SECONDS: Final = 5.0
"""How long after a process began somebody who only looks does not start another."""

log = logging.getLogger(__name__)

_WORDS: Final = ("memory", "work", "--no-input", "--progress", "none")


@dataclass(slots=True)
class Memories:
    """The captures of one project in a server; may be used by many threads. Close it in the end."""

    layout: Layout
    environ: Mapping[str, str]
    _worker: subprocess.Popen[bytes] | None = None
    _started: float | None = None
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def remember(self, request: CaptureRequest) -> MemoryRecord:
        """Put a text into the queue, see that somebody works on it, and return its record at once.

        Raises `LlmError` (`no_backend`) or `ConfigError` where no model could do it, `UsageError` for a text that
        cannot be captured; nothing of it is stored then.
        """
        from ktx_cli.jobs.capture.queue import enqueue
        from ktx_cli.llm import distinct_models

        config = load_config(self.layout.config).config
        if config.llm.provider.backend == NO_BACKEND:
            raise no_backend()
        distinct_models(config)
        record = enqueue(self.layout, request)
        self._work()
        return record

    def state(self, run_id: str, *, go_on: bool) -> MemoryRecord:
        """Return a capture as it is now; `UsageError` for one that is not known.

        `go_on`: see that somebody works on one that waits: the process at it may have been another server's.
        """
        from ktx_cli.jobs.capture.queue import status_of
        from ktx_cli.jobs.capture.records import Status

        record = status_of(self.layout, run_id)
        if go_on and record.status is Status.QUEUED:
            self._work(patient=True)
        return record

    def resume(self) -> None:
        """Go on with what waits from before; returns at once."""
        if self.layout.memory.is_dir():
            threading.Thread(target=self._go_on, name="ktx-memory-resume", daemon=True).start()

    def close(self) -> None:
        """Let the process go on alone to the end of the queue; none is started any more."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None and self._worker.stdin is not None:
                _let_go(self._worker)

    def _go_on(self) -> None:
        from ktx_cli.jobs.capture.queue import waiting

        try:
            if waiting(self.layout):
                self._work()
        except KtxError as error:  # nobody waits for an answer; they stay queued
            log.warning("captures that wait: %s", error.message)

    def _work(self, *, patient: bool = False) -> None:
        """Start the process, unless it lives: it looks once more when it is done, and so does who watches it."""
        with self._lock:
            due = self._started is None or monotonic() - self._started > AGAIN_SECONDS
            if self._is_closed or self._worker is not None or (patient and not due):
                return
            self._started = monotonic()
            self._worker = _spawned(self.layout, self.environ)
            threading.Thread(target=self._watch, args=(self._worker,), name="ktx-memory", daemon=True).start()

    def _watch(self, worker: subprocess.Popen[bytes]) -> None:
        """Take note of its end, and go on with what was put there while it ended."""
        code = worker.wait()
        with self._lock:
            self._worker = None
            _close(worker)
        if code == 0:
            self._go_on()
        elif code != exit_code_for("busy"):
            log.warning("the process of captures ended with exit code %d; see %s", code, self.layout.memory_log)


def _spawned(layout: Layout, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process, out of reach of signals of the terminal. `-P`: the folder must not lend it modules."""
    prepare_private_folder(layout)
    path = layout.memory_log
    with translated(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "ktx_cli", "--project-dir", str(layout.root), *_WORDS],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(environ),
                cwd=layout.root,
                start_new_session=True,
            )


def _let_go(worker: subprocess.Popen[bytes]) -> None:
    """Tell the process that this one ends on purpose; see `ktx_cli.jobs.capture.queue`."""
    from ktx_cli.jobs.capture.queue import GO

    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended
        worker.stdin.write(GO)
        worker.stdin.flush()
    _close(worker)


def _close(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.close()
