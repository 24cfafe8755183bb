"""The queue of captures: servers add captures to it without waiting, and one process at a time works through it."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Final

from ktx_cli.core import BusyError, Command, KtxError, ResultWarning, UsageError, internal_error, isoformat, now
from ktx_cli.jobs.capture.capture import Captured, CaptureOptions, capture
from ktx_cli.jobs.capture.records import UNFINISHED, CaptureRequest, MemoryRecord, Status, all_records, find, save
from ktx_cli.project import Layout, Repository, load_config, prepare_private_folder, storage_error

_FOREVER: Final = float("inf")


def enqueue(layout: Layout, request: CaptureRequest) -> MemoryRecord:
    """Put a text into the queue and return its record at once; a process must `drain` the queue.

    Raises `UsageError` for a text that cannot be captured: no part of it is stored then.
    """
    request.check(load_config(layout.config).config)
    return save(layout, MemoryRecord.of(request))


def status_of(layout: Layout, run_id: str) -> MemoryRecord:
    """Return the current state of a capture: see `Status`. Raises `UsageError` for an unknown id."""
    return find(layout, run_id)


def listed(
    layout: Layout, *, status: Status | None = None, limit: int | None = None
) -> tuple[list[MemoryRecord], list[ResultWarning]]:
    """Return the current state of captures, newest first, and a warning for each record that cannot be read."""
    records, warnings = all_records(layout)
    return [each for each in records if status is None or each.status is status][:limit], warnings


def again(layout: Layout, text: str) -> MemoryRecord:
    """Return an unfinished capture to retry; raises `UsageError` for one that needs no retry."""
    record = find(layout, text)
    if record.status not in UNFINISHED and record.status is not Status.QUEUED:
        message = f"capture {record.run_id} is `{record.status.value}`, so there is nothing to retry"
        raise UsageError(message, hint=Command("memory", "show", record.run_id))
    return record


def waiting(layout: Layout) -> list[MemoryRecord]:
    """Return the waiting captures, oldest first.

    Those with a committed file came with the repository: nobody here requested them, so nobody works on them.
    """
    queued = listed(layout, status=Status.QUEUED)[0][::-1]
    repository = Repository.discover(layout.root) if queued else None
    if repository is None:
        return queued
    brought = {layout.root / path for path in repository.committed(layout.memory.relative_to(layout.root).as_posix())}
    return [each for each in queued if layout.memory_record(each.run_id) not in brought]


def drain(options: CaptureOptions) -> Iterator[Captured]:
    """Work through the queue until nothing waits; each capture waits for other runs as long as it takes.

    Raises `BusyError` if another process is working on it, `KeyboardInterrupt` when asked to stop: the capture in
    progress is then `interrupted`, the rest stays in the queue.
    """
    layout = Layout(options.project_dir)
    while True:
        with _alone(layout):
            while queued := waiting(layout):
                yield _captured(layout, queued[0], replace(options, wait_seconds=_FOREVER))
        if not waiting(layout):  # whoever added one meanwhile found the lock taken
            return


def _captured(layout: Layout, record: MemoryRecord, options: CaptureOptions) -> Captured:
    """Return the outcome of a capture; one that could not begin has failed, so that the next gets its turn."""
    try:
        return capture(record, options)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others have their turn
        known = error if isinstance(error, KtxError) else internal_error(error)
        now_known = find(layout, record.run_id)
        if now_known.status in (Status.QUEUED, Status.INTERRUPTED):
            ended = {"status": Status.FAILED, "reason": known.message, "error": known.to_json()}
            now_known = save(layout, replace(now_known, finished=isoformat(now()), **ended))  # type: ignore[arg-type]
        return Captured(now_known, known)


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Become the only process that works through the queue; writes the pid for people to see."""
    prepare_private_folder(layout)
    layout.memory.mkdir(mode=0o700, exist_ok=True)
    path = layout.memory_lock
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
            message = f"process {pid or 'unknown'} is already working through the queue"
            raise BusyError(message, hint=Command("memory", "list"), details={"pid": pid or None}) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


GO: Final = b"g"
"""The bytes sent before the pipe is closed on purpose: the process continues alone."""


class Tether:
    """Watches a pipe during a block; if it closes without a `g`, the main thread is interrupted.

    `was_cut`: whether that happened.
    """

    def __init__(self, descriptor: int) -> None:
        self.was_cut = False
        self._descriptor = descriptor
        self._is_over = False
        self._lock = threading.Lock()

    def __enter__(self) -> Tether:
        threading.Thread(target=self._watch, name="ktx-tether", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching the pipe."""
        with self._lock:
            self._is_over = True

    def _watch(self) -> None:
        try:
            byte = os.read(self._descriptor, 1)
            while byte and byte != GO:
                byte = os.read(self._descriptor, 1)
        except OSError:  # it was closed in this process: nobody is at the other end
            byte = b""
        if byte == GO:
            return
        with self._lock:
            if not self._is_over:
                self.was_cut = True
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
