"""Kills `ktx ingest` with SIGKILL at seeded moments and looks at what is left.

A moment lies before the commit (while databases are read), during it (from the event that begins it), or after it. The
process and its whole process group are killed in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ktx_cli.core import yaml
from ktx_cli.project import discover_layout, has_leftovers
from tests.worlds.forks import Started, Starter, start_installed

BEFORE, DURING, AFTER, TOO_LATE = "before", "during", "after", "finished"

CYCLE = (BEFORE, DURING, DURING, AFTER, DURING)
"""The phases the kills aim at in turn; an odd number, as process and group are killed in turn too."""

LEFTOVERS = ("*.lock", "*.ktx-tmp", "ktx-*.*", "journal.json")
"""Names of the files that must not outlive the run after a killed one."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from the start of an undisturbed run to the beginning of its commit, its end, and the exit."""

    commit: float
    committed: float
    exit: float


@dataclass(slots=True)
class SweepResult:
    """How many kills fell where, and what was wrong afterwards (nothing, it should say).

    `locked`: how many left `index.lock`, so that the user's own git waits for the next run.
    """

    fell: Counter[str] = field(default_factory=Counter)
    how: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    locked: int = 0


def installed_ktx() -> str:
    """Return the path of the `ktx` beside this interpreter."""
    return str(Path(sys.executable).with_name("ktx"))


def sweep(
    template: Path,
    scratch: Path,
    *,
    kills: int,
    seed: int,
    environ: Mapping[str, str],
    start: Starter = start_installed,
    progress: Callable[[str], None] = lambda line: None,
) -> SweepResult:
    """Kill `kills` runs of `ktx ingest`, each on a fresh copy of the project `template`.

    After each kill: every YAML file parses, `git fsck` is clean, the next `ktx ingest` needs no help, ends with 0,
    leaves a clean status and no lock, and its tree equals that of a run nobody disturbed.
    """
    undisturbed = scratch / "undisturbed"
    timing = _undisturbed(template, undisturbed, environ, start)
    result = SweepResult()
    for number, (phase, moment) in enumerate(_moments(kills, seed, timing)):
        project = scratch / f"kill-{number}"
        shutil.copytree(template, project, symlinks=True)
        group = number % 2 == 1
        fell = _kill_one(project, phase, moment, environ, start, group=group)
        result.fell[fell] += 1
        result.locked += (project / ".git" / "index.lock").exists()
        result.how["group" if group else "process"] += 1
        problems = [*broken_files(project, environ), *_next_run(project, undisturbed, environ, start)]
        result.violations += [f"kill {number} ({fell}, {'group' if group else 'process'}): {p}" for p in problems]
        progress(f"{number + 1}/{kills} {fell}{' VIOLATION' if problems else ''}")
        shutil.rmtree(project)
    return result


def broken_files(project: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is not valid in a project: YAML files that do not parse, what `git fsck` says."""
    for path in sorted(project.rglob("*.yaml")):
        if ".git" in path.relative_to(project).parts:
            continue
        try:
            yaml.load(path.read_bytes(), where=str(path))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the file is the finding
            yield f"{path}: {error}"
    done = _git(project, environ, "fsck", "--strict", "--no-dangling")
    if done.returncode:
        yield f"git fsck: {done.stdout}{done.stderr}"


def _undisturbed(template: Path, project: Path, environ: Mapping[str, str], start: Starter) -> Timing:
    shutil.copytree(template, project, symlinks=True)
    started = time.monotonic()
    with _started(project, environ, start) as (process, events):
        marks = {name: at - started for name, at in _marks(events)}
        code = process.wait()
    ended = time.monotonic() - started
    if code:
        raise RuntimeError(f"an undisturbed ktx ingest ended with {code}")
    return Timing(marks["step_started"], marks["step_finished"], ended)


def _moments(kills: int, seed: int, timing: Timing) -> Iterator[tuple[str, float]]:
    """Yield phase and seconds from the start, from the commit's beginning, or from its end.

    Most aim at the commit, the shortest of the three: where it ends is known only roughly, so some come too late.
    """
    dice = random.Random(seed)
    spans = {
        BEFORE: timing.commit * 0.6,  # how long it takes to get there differs most
        DURING: timing.committed - timing.commit,
        AFTER: (timing.exit - timing.committed) * 1.1,
    }
    for number in range(kills):
        phase = CYCLE[number % len(CYCLE)]
        yield phase, dice.uniform(0, spans[phase])


@contextlib.contextmanager
def _started(project: Path, environ: Mapping[str, str], start: Starter) -> Iterator[tuple[Started, IO[bytes]]]:
    """Yield a run and what it tells, as it tells it."""
    pipe = project.with_suffix(".events")
    os.mkfifo(pipe)
    ends: queue.SimpleQueue[IO[bytes]] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: ends.put(pipe.open("rb")), daemon=True)  # it opens when the run does
    reader.start()
    process = start(("ingest", "--progress", "jsonl"), folder=project, environ=environ, said=pipe)
    reader.join()
    with ends.get() as events:
        yield process, events
    pipe.unlink()


def _marks(events: IO[bytes]) -> Iterator[tuple[str, float]]:
    """Yield the commit step's events with the time they arrived."""
    for line in events:
        if line.startswith(b"{"):
            event = json.loads(line)
            if event.get("step") == "commit":
                yield event["event"], time.monotonic()


def _kill_one(
    project: Path, phase: str, moment: float, environ: Mapping[str, str], start: Starter, *, group: bool
) -> str:
    """Run, kill at the moment, and return where the kill fell, judged by what is left."""
    before = tip(project, environ)
    wanted = {DURING: "step_started", AFTER: "step_finished"}.get(phase)
    with _started(project, environ, start) as (process, events):
        if wanted is not None:
            for event, _ in _marks(events):
                if event == wanted:
                    break
        time.sleep(moment)
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        code = process.wait()
    if code != -signal.SIGKILL:
        return TOO_LATE
    return judge(project, moved=tip(project, environ) != before)


def judge(project: Path, *, moved: bool) -> str:
    """Return where a kill fell, from what it left alone: a journal or temporary files of the index mean during.

    Without them the commit had ended (`moved`: the branch is elsewhere now), or not begun to touch anything.
    """
    found = discover_layout(project)
    if found is None:
        raise RuntimeError(f"{project} is not in a repository")
    layout = found[1]
    if layout.pending.exists() or has_leftovers(layout):
        return DURING
    return AFTER if moved else BEFORE


def _next_run(project: Path, undisturbed: Path, environ: Mapping[str, str], start: Starter) -> Iterator[str]:
    said = project.with_suffix(".said")
    code = start(("ingest", "--json"), folder=project, environ=environ, said=said).wait()
    if code:
        yield f"the next run ended with {code}: {said.read_text('utf-8')}"
        return
    yield from unlike(project, undisturbed, environ)


def unlike(project: Path, undisturbed: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is not as in a project nobody disturbed: its tree, its status, files left behind, broken ones."""
    yield from broken_files(project, environ)
    if _tree(project, environ) != _tree(undisturbed, environ):
        yield "the next run ended in another tree"
    status = _git(project, environ, "status", "--porcelain").stdout
    if status:
        yield f"git status is not clean: {status}"
    left = [str(path) for name in LEFTOVERS for path in sorted(project.rglob(name))]
    if left:
        yield f"left behind: {left}"


def commits(project: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the subjects of all commits, the last first."""
    return _git(project, environ, "log", "--all", "--format=%s").stdout.splitlines()


def tip(project: Path, environ: Mapping[str, str]) -> str:
    """Return the commit of the branch, empty where there is none."""
    return _git(project, environ, "rev-parse", "--verify", "-q", "HEAD").stdout.strip()


def _tree(project: Path, environ: Mapping[str, str]) -> str:
    return _git(project, environ, "rev-parse", "HEAD^{tree}").stdout.strip()


def _git(project: Path, environ: Mapping[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *args], cwd=project, env=dict(environ), capture_output=True, text=True, check=False)
