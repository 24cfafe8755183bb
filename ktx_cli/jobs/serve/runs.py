"""Processes that a server starts, monitors and stops: `ktx ingest` runs, and the process for captures."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, KtxError, NotSupportedError, exit_code_for, monotonic, new_run_id
from ktx_cli.jobs.serve.state import error_from
from ktx_cli.llm import NO_BACKEND, no_backend
from ktx_cli.project import (
    Layout,
    connection_of,
    load_config,
    prepare_private_folder,
    process_start,
    read_bytes,
    translated,
    write_atomic,
)
from ktx_cli.runs import RUNNING, find_run, first_line, read_lines, read_report

if TYPE_CHECKING:
    from ktx_cli.jobs.capture.records import CaptureRequest, MemoryRecord


STARTING_SECONDS: Final = 90.0
"""How long a start waits, in seconds, until the run's model is checked and the run holds the run lock."""

ENDING_SECONDS: Final = 20.0
"""How long a cancelled run has to end, in seconds, before the call returns."""

_KEPT: Final = 50
"""Number of runs whose output is kept."""

_POLL_SECONDS: Final = 0.05
_LONGEST_RESULT: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class IngestWish:
    """A run that a client requests. `connections`: none means all."""

    connections: Sequence[str] = ()
    no_llm: bool = False
    max_usd: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class IngestState:
    """The current state of a run. `status`: `running`, `killed`, or that of its report.

    `steps`: the completed ones, newest last. `units`: status -> number of work units.
    """

    run_id: str
    status: str
    commit: str | None = None
    seconds: float | None = None
    steps: tuple[str, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    error: Mapping[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status != RUNNING


Progress = Callable[[float, str], None]


def start_ingest(
    layout: Layout, environ: Mapping[str, str], wish: IngestWish, *, report: Progress = lambda progress, message: None
) -> IngestState:
    """Start a run, and return it once its model has been checked and it holds the run lock, or when it has ended.

    Raises the error of a run that could not begin: `auth`, `no_backend`, `busy`, `config` and others.
    """
    config = load_config(layout.config).config
    for connection in wish.connections:
        connection_of(config, connection)
    run_id = new_run_id()
    child = _spawn(layout, environ, run_id, wish)
    until = monotonic() + STARTING_SECONDS
    report(0.1, "checking the model")
    while monotonic() < until:
        if child.poll() is not None:
            return _ended_early(layout, run_id, child.returncode)
        if first_line(layout.run_events(run_id), lambda each: each.get("event") == "run_started") is not None:
            break
        time.sleep(_POLL_SECONDS)
    return IngestState(run_id, RUNNING)


def ingest_state(layout: Layout, run_id: str) -> IngestState:
    """Return the current state of a run; raises `UsageError` for an unknown one."""
    record, _ = find_run(layout, run_id)
    child = _CHILDREN.get(record.run_id)
    if child is not None and child.poll() is not None:
        del _CHILDREN[record.run_id]
    record, _ = find_run(layout, record.run_id)
    report = read_report(layout, record.run_id) or {}
    units, steps = _so_far(layout, record.run_id)
    sources = tuple(
        {key: each.get(key) for key in ("connection", "kind", "status", "result")}
        for each in (*(report.get("connections") or ()), *(report.get("sources") or ()))
    )
    error = _error_of(layout, record.run_id) or report.get("failure")
    facts = (record.run_id, record.status, record.commit, record.seconds)
    return IngestState(*facts, tuple(steps), record.units or units, sources, error)


def cancel_ingest(layout: Layout, run_id: str, *, now: bool = False) -> IngestState:
    """Interrupt a run that a server started; `now`: without waiting for work in progress.

    Raises `NotSupportedError` for a run that was started elsewhere, `UsageError` for an unknown run.
    """
    state = ingest_state(layout, run_id)
    if state.is_over:
        return state
    pid = _process(layout, state.run_id)
    if pid is None:
        hint = Hint("interrupt it where it runs; to see the run: {}", Command("runs", "show", state.run_id))
        raise NotSupportedError(f"a server of this project did not start the run {state.run_id}", hint=hint)
    for _ in range(2 if now else 1):
        os.kill(pid, signal.SIGINT)
        time.sleep(_POLL_SECONDS)
    until = monotonic() + ENDING_SECONDS
    while monotonic() < until and not (state := ingest_state(layout, state.run_id)).is_over:
        time.sleep(_POLL_SECONDS)
    return state


def _started(
    layout: Layout, environ: Mapping[str, str], words: Sequence[str], **streams: Any
) -> subprocess.Popen[bytes]:
    """Start a process that terminal signals do not reach. `-P`: modules in the project folder
    are not imported.
    """
    command = [sys.executable, "-P", "-m", "ktx_cli", "--project-dir", str(layout.root), *words]
    return subprocess.Popen(command, env=dict(environ), cwd=layout.root, start_new_session=True, **streams)


def _spawn(layout: Layout, environ: Mapping[str, str], run_id: str, wish: IngestWish) -> subprocess.Popen[bytes]:
    folder = _folder(layout, run_id)
    with (folder / "result.json").open("wb") as result, (folder / "stderr.log").open("wb") as errors:
        words = _words(run_id, wish)
        child = _started(layout, environ, words, stdin=subprocess.DEVNULL, stdout=result, stderr=errors)
    facts = {"pid": child.pid, "process_start": process_start(child.pid)}
    write_atomic(folder / "process.json", json.dumps(facts).encode(), mode=0o600)
    _CHILDREN[run_id] = child
    return child


def _folder(layout: Layout, run_id: str) -> Path:
    """Create the folder for a run, and remove the folders of old runs."""
    prepare_private_folder(layout)
    folder = layout.launched(run_id)
    with translated(folder):
        layout.launched().mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
    others = sorted(each for each in layout.launched().iterdir() if each.is_dir() and each != folder)
    for old in others[: max(0, len(others) + 1 - _KEPT)]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


_CHILDREN: Final[dict[str, subprocess.Popen[bytes]]] = {}
"""Runs that this process started, so that it notices when they end."""


def _words(run_id: str, wish: IngestWish) -> list[str]:
    words = ["ingest", "--json", "--no-input", "--progress", "none", "--run-id", run_id]
    words += ["--no-llm"] if wish.no_llm else []
    for option, bound in (("--max-usd", wish.max_usd), ("--max-tokens", wish.max_tokens)):
        words += [option, str(bound)] if bound is not None else []
    return [*words, "--", *wish.connections]


def _ended_early(layout: Layout, run_id: str, code: int) -> IngestState:
    """Return the state of a run that ended before it was seen running; raises the error that kept it from starting."""
    _CHILDREN.pop(run_id, None)
    if read_report(layout, run_id) is not None:
        return ingest_state(layout, run_id)
    error = _error_of(layout, run_id)
    if error is None:
        raise KtxError(f"the run ended with exit code {code} before it began", code="internal")
    raise error_from(error)


def _error_of(layout: Layout, run_id: str) -> Mapping[str, Any] | None:
    """Return the error in a run's JSON output, or None if it printed none."""
    path = layout.launched(run_id) / "result.json"
    try:
        text = read_bytes(path) if path.stat().st_size <= _LONGEST_RESULT else None
        envelope = json.loads(text or "{}")
    except (OSError, ValueError):
        return None
    found = envelope.get("error") if isinstance(envelope, dict) else None
    return found if isinstance(found, dict) else None


def _process(layout: Layout, run_id: str) -> int | None:
    """Return the process of a run that a server started, if it is alive."""
    text = read_bytes(layout.launched(run_id) / "process.json")
    try:
        facts = json.loads(text or b"{}")
    except ValueError:
        return None
    pid = facts.get("pid")
    lives = isinstance(pid, int) and process_start(pid) is not None and process_start(pid) == facts["process_start"]
    return pid if lives else None


def _so_far(layout: Layout, run_id: str) -> tuple[Mapping[str, int], list[str]]:
    """Return a run's units by outcome, and its steps, according to its events."""
    units: Counter[str] = Counter()
    steps: list[str] = []
    for each in read_lines(layout.run_events(run_id)):
        event = each.get("event")
        if event == "work_unit_finished":
            units[str(each.get("status"))] += 1
        elif event == "step_finished":
            where = f" {each['connection']}" if each.get("connection") else ""
            steps.append(f"{each.get('step')}{where}: {each.get('summary')}")
    return units, steps[-20:]


AGAIN_SECONDS: Final = 5.0
"""Minimum number of seconds between two process starts by a reader."""

log = logging.getLogger(__name__)

_WORDS: Final = ("memory", "work", "--no-input", "--progress", "none")


@dataclass(slots=True)
class Memories:
    """The captures for one project in a server; thread-safe. Close it at the end."""

    layout: Layout
    environ: Mapping[str, str]
    _worker: subprocess.Popen[bytes] | None = None
    _started: float | None = None
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def remember(self, request: CaptureRequest) -> MemoryRecord:
        """Put a text into the queue, make sure that a process is working on the queue, and return its record at once.

        Raises `LlmError` (`no_backend`) or `ConfigError` if no model can process it, `UsageError` for a text that
        cannot be captured; no part of it is stored then.
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
        """Return the current state of a capture; raises `UsageError` for an unknown one.

        `go_on`: make sure that a process works on a waiting one: the previous process may have been another server's.
        """
        from ktx_cli.jobs.capture.queue import status_of
        from ktx_cli.jobs.capture.records import Status

        record = status_of(self.layout, run_id)
        if go_on and record.status is Status.QUEUED:
            self._work(patient=True)
        return record

    def resume(self) -> None:
        """Continue with waiting captures; returns at once."""
        if self.layout.memory.is_dir():
            threading.Thread(target=self._go_on, name="ktx-memory-resume", daemon=True).start()

    def close(self) -> None:
        """Let the process continue alone to the end of the queue; no other is started."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None and self._worker.stdin is not None:
                _let_go(self._worker)

    def _go_on(self) -> None:
        from ktx_cli.jobs.capture.queue import waiting

        try:
            if waiting(self.layout):
                self._work()
        except KtxError as error:  # nobody waits for the result; they stay queued
            log.warning("captures that wait: %s", error.message)

    def _work(self, *, patient: bool = False) -> None:
        """Start the process, unless it is alive: it checks the queue once more at its end, and so does its monitor."""
        with self._lock:
            due = self._started is None or monotonic() - self._started > AGAIN_SECONDS
            if self._is_closed or self._worker is not None or (patient and not due):
                return
            self._started = monotonic()
            self._worker = _spawned(self.layout, self.environ)
            threading.Thread(target=self._watch, args=(self._worker,), name="ktx-memory", daemon=True).start()

    def _watch(self, worker: subprocess.Popen[bytes]) -> None:
        """Record the end of the process, and continue with captures queued while it ended."""
        code = worker.wait()
        with self._lock:
            self._worker = None
            _close(worker)
        if code == 0:
            self._go_on()
        elif code != exit_code_for("busy"):
            log.warning("the process of captures ended with exit code %d; see %s", code, self.layout.memory_log)


def _spawned(layout: Layout, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    prepare_private_folder(layout)
    path = layout.memory_log
    with translated(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "ab") as log:
            return _started(layout, environ, _WORDS, stdin=subprocess.PIPE, stdout=log, stderr=log)


def _let_go(worker: subprocess.Popen[bytes]) -> None:
    """Notify the process that this one ends on purpose; see `ktx_cli.jobs.capture.queue`."""
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
