"""Kills a worker or the coordinator of a run with SIGKILL while scripted agents work, and looks at what is left.

Each kill has a copy of the project and a schema of its own. A killed worker is replaced by a new one, a killed
coordinator by a new `ktx ingest`; the tree in the end must be that of a run in one process that nobody disturbed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from ktx_cli.testing.servers import PostgresServer
from tests.worlds.forks import Started
from tests.worlds.ingest_kills import INGEST, Case, Name, Watch, moments, was_stored
from tests.worlds.kills import broken_files, commits, unlike

WORKERS: Final = 2
PARTS: Final = ("worker", "other worker", "coordinator")
UNITS: Final = 2
"""The phase of the requests that workers make."""


@dataclass(frozen=True, slots=True)
class SharedCase:
    """What is swept; the template's `ktx.yaml` is for one process."""

    case: Case
    server: PostgresServer
    heartbeat: float = 0.5


@dataclass(slots=True)
class WorkerSweep:
    """Whom the kills met and where, and what was wrong afterwards; see `Sweep`."""

    asked: int = 0
    fell: Counter[str] = field(default_factory=Counter)
    phases: Counter[int] = field(default_factory=Counter)
    again: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The figures."""
        again = ", ".join(f"{count} times {more}" for more, count in sorted(Counter(self.again).items()))
        return (
            f"{sum(self.fell.values())} kills {dict(sorted(self.fell.items()))}, in phases "
            f"{dict(sorted(self.phases.items()))}; {self.asked} requests where nothing is killed, "
            f"more than that: {again}"
        )


class SharedRun:
    """A copy of the project whose state is in a schema of its own, and what runs there."""

    def __init__(self, shared: SharedCase, folder: Path, schema: str, *, coordinator: bool) -> None:
        self.shared, self.case, self.folder, self.schema = shared, shared.case, folder, schema
        self.environ = {**shared.case.environ, "KTX_STATE_URL": shared.server.url()}
        self.started: list[tuple[Started, Path]] = []
        shutil.copytree(shared.case.template, folder, symlinks=True)
        path = folder / "ktx.yaml"
        settings = f"coordinator: {str(coordinator).lower()}, heartbeat_seconds: {shared.heartbeat}"
        text = path.read_text().replace("ingest:\n", f"ingest:\n  executor: postgres\n  workers: {{{settings}}}\n")
        storage = f"{{url: env:KTX_STATE_URL, schema: {schema}}}"
        path.write_text(f"storage:\n  state: postgres\n  postgres: {storage}\n{text}")

    def start(self, *arguments: str) -> Started:
        """Start ktx."""
        said = self.folder.with_name(f"{self.folder.name}-{len(self.started)}.said")
        process = self.case.start(arguments, folder=self.folder, environ=self.environ, said=said)
        self.started.append((process, said))
        return process

    @property
    def said(self) -> str:
        """What all of its processes said."""
        return "\n".join(f"--- {said.name}\n{said.read_text()}" for _, said in self.started)

    def left(self) -> dict[str, int]:
        """Return the rows that a finished run must not leave, by table."""
        tables = (
            f"{self.schema}.unit_steps",
            f"{self.schema}.unit_outcomes",
            f"{self.schema}_queue.procrastinate_jobs",
        )
        with psycopg.connect(self.shared.server.url()) as session:
            counts = {each: session.execute(f"SELECT count(*) FROM {each}").fetchone() for each in tables}
        return {table: row[0] for table, row in counts.items() if row is not None and row[0]}

    def end(self) -> None:
        """Kill what still runs, and delete the schemas and the folder."""
        for process, _ in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        self.shared.server.execute(
            *(f'DROP SCHEMA IF EXISTS "{each}" CASCADE' for each in (self.schema, f"{self.schema}_queue"))
        )
        shutil.rmtree(self.folder)


def sweep_workers(
    shared: SharedCase, scratch: Path, *, kills: int, seed: int, progress: Callable[[str], Any] = lambda line: None
) -> WorkerSweep:
    """Kill one of three processes that many times, each on a fresh copy; process and process group in turn."""
    dice = random.Random(seed)
    undisturbed = scratch / "undisturbed"
    names = undisturbed_names(shared.case, undisturbed)
    gaps = _gaps(shared, scratch / "timed")
    found = WorkerSweep(asked=len(names))
    for number, (request, seconds) in enumerate(moments(gaps, kills, dice)):
        part = PARTS[number % 3] if request < len(gaps) - 1 else dice.choice(PARTS[1:])
        schema = f"ktx_kill_{os.getpid()}_{number}"
        run = SharedRun(shared, scratch / f"kill-{number}", schema, coordinator=number % 4 == 3)
        try:
            watch = Watch(shared.case, request)
            where = f"{part} {seconds:.3f} s after request {request}"
            problems = [*_disturbed(run, watch, part, seconds, found, group=number % 2 == 1)]
            problems += unlike(run.folder, undisturbed, shared.case.environ)
            if commits(run.folder, shared.case.environ) != commits(undisturbed, shared.case.environ):
                problems.append(f"there are the commits {commits(run.folder, shared.case.environ)}")
            problems += [f"{count} rows are left in {table}" for table, count in run.left().items()]
            problems += _paid(shared.case, watch.names, names)
            found.again.append(len(watch.names) - len(names))
            found.violations += [f"kill {number} ({where}): {each}" for each in problems]
            progress(f"{number + 1}/{kills} {where}: {problems or 'fine'}\n{run.said if problems else ''}")
        finally:
            run.end()
    return found


def undisturbed_names(case: Case, project: Path) -> list[Name]:
    """Return the names of the requests of a run in one process."""
    shutil.copytree(case.template, project, symlinks=True)
    watch = Watch(case)
    case.server.play(watch)
    said = project.with_suffix(".said")
    code = case.start(INGEST, folder=project, environ=case.environ, said=said).wait()
    if code:
        raise RuntimeError(f"an undisturbed ktx ingest ended with {code}: {said.read_text()}")
    return watch.names


def _gaps(shared: SharedCase, folder: Path) -> list[float]:
    """Return the seconds from the start to the first request, between requests and to the end, with workers."""
    run = SharedRun(shared, folder, f"ktx_kill_{os.getpid()}_timed", coordinator=False)
    try:
        watch = Watch(shared.case)
        shared.case.server.play(watch)
        for _ in range(WORKERS):
            run.start("worker")
        started = time.monotonic()
        if run.start(*INGEST).wait():
            raise RuntimeError(f"an undisturbed run with workers failed: {run.said}")
        marks = [started, *watch.times, time.monotonic()]
        return [after - before for before, after in itertools.pairwise(marks)]
    finally:
        run.end()


def _disturbed(
    run: SharedRun, watch: Watch, part: str, seconds: float, found: WorkerSweep, *, group: bool
) -> Iterator[str]:
    """Run, kill a part of it after the request the watch waits for, replace it, and yield what is wrong."""
    run.case.server.play(watch)
    workers = [run.start("worker") for _ in range(WORKERS)]
    coordinator = run.start(*INGEST)
    victim = coordinator if part == "coordinator" else workers[PARTS.index(part)]
    watch.reached.wait(120)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        (os.killpg if group else os.kill)(victim.pid, signal.SIGKILL)
    found.phases[watch.names[-1].phase if watch.names else -1] += 1
    found.fell[part.removeprefix("other ")] += 1
    if part == "coordinator":
        code = coordinator.wait()
        yield from (f"after the kill: {each}" for each in broken_files(run.folder, run.environ))
        if code not in (0, -signal.SIGKILL):
            yield f"the coordinator ended with {code}"
        coordinator = run.start(*INGEST)
    else:
        victim.wait()
        run.start("worker")
    code = coordinator.wait()
    if code:
        yield f"the run ended with {code}"
    if part == "coordinator":
        again = {name for name, times in Counter(watch.names).items() if times > 1 and name.phase == UNITS}
        if again and "coordinator: false" in (run.folder / "ktx.yaml").read_text():
            yield f"the coordinator has no units, but these were asked again: {sorted(again)}"


def _paid(case: Case, asked: Sequence[Name], wanted: Sequence[Name]) -> Iterator[str]:
    """Yield what was asked that had an answer already, and what an undisturbed run does not ask."""
    if set(asked) != set(wanted):
        yield f"requests nobody else makes, or that are missing: {sorted(set(asked) ^ set(wanted))}"
    again = {name for name, times in Counter(asked).items() if times > 1}
    for name in sorted(again):
        last = len(asked) - 1 - list(reversed(asked)).index(name)
        if asked.count(name) > 2 or was_stored(name, asked[:last], whole=case.whole):
            yield f"{name} was asked {asked.count(name)} times, though it was answered and stored"
    if len(again) > case.at_once:
        yield f"{len(again)} were asked again, more than were in flight: {sorted(again)}"
