"""Kills `ktx ingest` with SIGKILL while scripted agents work, and looks at what the next run has to do again.

A moment is a request at the scripted server and a time after it arrived: also before the first one, and in the merge
and the commit behind the last. Requests have names: phase, what it is about, step of its loop.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ktx_cli.testing.model_script import ModelRequest, Reply, Script
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.forks import Started, Starter
from tests.worlds.kills import TOO_LATE, broken_files, commits, judge, tip, unlike

INGEST: Final = ("ingest", "--json")
_LAST: Final = 0.3
"""Share of the kills that aim behind the last request: merge, gates, commit and index."""


class Name(NamedTuple):
    """What a request asks: the phase of the run (they follow each other), what it is about, the step of its loop."""

    phase: int
    about: str
    step: int


NameOf = Callable[[ModelRequest], Name | None]
"""Names a request; None: one that is no work, such as asking whether the model answers."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is swept. `at_once`: most requests in flight; `whole`: an interrupted loop begins again."""

    template: Path
    server: ModelServer
    script: Script
    name_of: NameOf
    start: Starter
    environ: Mapping[str, str]
    at_once: int
    whole: bool = False


@dataclass(slots=True)
class Sweep:
    """Where the kills fell, and what was wrong afterwards (nothing, it should say).

    `asked`: requests of an undisturbed run; `again`: of both runs together, how many more than that, for each kill.
    """

    asked: int = 0
    fell: Counter[str] = field(default_factory=Counter)
    phases: Counter[int] = field(default_factory=Counter)
    again: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Watch:
    """Plays a script and keeps the names of the requests with the time they arrived."""

    def __init__(self, case: Case, awaited: int | None = None) -> None:
        self.case = case
        self.names: list[Name] = []
        self.times: list[float] = []
        self.reached = threading.Event()
        self._awaited = awaited
        self._lock = threading.Lock()
        if awaited == 0:
            self.reached.set()

    def __call__(self, request: ModelRequest) -> Reply:
        name = self.case.name_of(request)
        if name is not None:
            with self._lock:
                self.names.append(name)
                self.times.append(time.monotonic())
                if len(self.names) == self._awaited:
                    self.reached.set()
        return self.case.script(request)


def sweep(case: Case, scratch: Path, *, kills: int, seed: int) -> Sweep:
    """Kill that many runs, each on a fresh copy of the project, process and group in turn; let the next one finish."""
    undisturbed = scratch / "undisturbed"
    gaps, names = _undisturbed(case, undisturbed)
    found = Sweep(asked=len(names))
    for number, (request, seconds) in enumerate(moments(gaps, kills, random.Random(seed))):
        project = scratch / f"kill-{number}"
        shutil.copytree(case.template, project, symlinks=True)
        before = tip(project, case.environ)
        first = Watch(case, request)
        ended = _kill_one(case, project, first, seconds, group=number % 2 == 1)
        found.fell[judge(project, moved=tip(project, case.environ) != before) if ended else TOO_LATE] += 1
        found.phases[first.names[-1].phase if first.names else -1] += 1
        problems = [f"after the kill: {each}" for each in broken_files(project, case.environ)]
        second = Watch(case)
        problems += _next(case, project, second, undisturbed)
        problems += _paid(case, first.names, second.names, names)
        found.again.append(len(first.names) + len(second.names) - len(names))
        found.violations += [f"kill {number} ({seconds:.3f} s after request {request}): {each}" for each in problems]
        shutil.rmtree(project)
    return found


def _undisturbed(case: Case, project: Path) -> tuple[list[float], list[Name]]:
    """Return the seconds from the start to the first request, between requests and to the end; and their names."""
    shutil.copytree(case.template, project, symlinks=True)
    watch = Watch(case)
    started = time.monotonic()
    code = _run(case, project, watch).wait()
    if code:
        raise RuntimeError(f"an undisturbed ktx ingest ended with {code}: {_said(project).read_text()}")
    marks = [started, *watch.times, time.monotonic()]
    return [after - before for before, after in itertools.pairwise(marks)], watch.names


def moments(gaps: Sequence[float], kills: int, dice: random.Random) -> Iterator[tuple[int, float]]:
    """Yield the number of a request (0: the start) and the seconds after it, spread over the whole run."""
    last = len(gaps) - 1
    for number in range(kills):
        aimed_late = (number * 7 % 10) < _LAST * 10  # evenly among the others
        request = last if aimed_late else dice.randrange(last)
        yield request, dice.uniform(0, gaps[request])


def _said(project: Path) -> Path:
    return project.with_suffix(".said")


def _run(case: Case, project: Path, watch: Watch) -> Started:
    case.server.play(watch)
    return case.start(INGEST, folder=project, environ=case.environ, said=_said(project))


def _kill_one(case: Case, project: Path, watch: Watch, seconds: float, *, group: bool) -> bool:
    """Run, kill `seconds` after the request the watch waits for, and say whether that ended it."""
    started = _run(case, project, watch)

    def kill() -> None:
        watch.reached.wait(120)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            if gone.is_set():
                return
            (os.killpg if group else os.kill)(started.pid, signal.SIGKILL)

    gone = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    code = started.wait()
    gone.set()
    watch.reached.set()
    killer.join()
    return code == -signal.SIGKILL


def _next(case: Case, project: Path, watch: Watch, undisturbed: Path) -> Iterator[str]:
    """Run again and yield what is not as in a project nobody disturbed."""
    code = _run(case, project, watch).wait()
    if code:
        yield f"the next run ended with {code}: {_said(project).read_text()}"
        return
    yield from unlike(project, undisturbed, case.environ)
    if commits(project, case.environ) != commits(undisturbed, case.environ):
        yield f"there are the commits {commits(project, case.environ)}"


def _paid(case: Case, first: Sequence[Name], second: Sequence[Name], wanted: Sequence[Name]) -> Iterator[str]:
    """Yield what was asked that had an answer already, and what an undisturbed run does not ask."""
    unknown = {*first, *second} - set(wanted)
    if unknown:
        yield f"requests nobody else makes: {sorted(unknown)}"
    again = [name for name in second if name in first]
    for name in again:
        if was_stored(name, first, whole=case.whole):
            yield f"{name} was asked again, though it was answered and stored"
    about = {(name.phase, name.about) for name in again} if case.whole else set(again)
    if len(about) > case.at_once:
        yield f"{len(about)} were asked again, more than were in flight: {sorted(again)}"


def was_stored(name: Name, first: Iterable[Name], *, whole: bool) -> bool:
    """Whether an answer must have been stored: the same loop went on behind it, or the run did."""
    later = (each for each in first if each.phase > name.phase or (not whole and each[:2] == name[:2]))
    return any(each > name for each in later)
