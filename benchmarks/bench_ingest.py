"""Throughput of `ktx ingest`: 64 units of 6 steps on a model of 200 ms, runs with nothing to do, many files, histories.

Prints for each figure what was measured, its limit, their ratio and how it grows; exit 1 where one is over its limit.
Name cases to run those alone: `agents`, `claude`, `again`, `files`, `history`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ingest_bare import bare_sessions
from benchmarks.ingest_model import STEPS, serving
from benchmarks.ingest_project import Project, Run
from ktx_cli.context.documents.reading import SUFFIXES
from ktx_cli.context.sources.folder import read_folder
from ktx_cli.context.sources.manifest import FileState, Manifest, compare, parse_manifest, render_manifest
from ktx_cli.context.sources.model import Snapshot

LATENCY, AT_ONCE, UNITS = 0.2, 8, 64
TRIAGE, WHOLE = 1, 1
"""Questions about each document before its unit, and of the loop over the whole run: both wait for the model too."""

UNCHANGED = 2_000
STATEMENTS = 2_000

HISTORY = """\
    context: {queryHistory: {enabled: true, file: history.sql}}
"""


class Table:
    """The figures, printed as they come."""

    def __init__(self) -> None:
        self.over: list[str] = []
        print(f"{'figure':<58}{'measured':>11}{'limit':>10}{'ratio':>8}  growth")

    def row(self, figure: str, measured: float, limit: float | None = None, *, unit: str = "s", growth: str = "") -> None:
        """Print one figure; one over its limit is remembered."""
        bound = "" if limit is None else f"{limit:.4g} {unit}"
        ratio = "" if limit is None else f"{measured / limit:.2f}"
        print(f"{figure:<58}{f'{measured:.4g} {unit}':>11}{bound:>10}{ratio:>8}  {growth}", flush=True)
        if limit is not None and measured > limit:
            self.over.append(figure)


def ideal(units: int) -> float:
    """Return the seconds in which the model alone would be through, had nothing else to be done."""
    return (units * (STEPS + TRIAGE) / AT_ONCE + WHOLE) * LATENCY


def agents(table: Table, folder: Path) -> None:
    """Units on the API: time over the ideal, what a step costs, units of several connections, one changed file."""
    with serving(LATENCY) as model:
        for units in (UNITS // 4, UNITS):
            project = Project(folder / f"agents{units}", model, "anthropic", at_once=AT_ONCE)
            project.configure("docs")
            project.write("docs", [f"topic-{number:03}" for number in range(units)])
            idle = Project(folder / f"idle{units}", model, "anthropic", at_once=AT_ONCE)
            begun = idle.run().cpu
            run = project.run()
            said = f"ideal {ideal(units):.1f} s, {run.wall / ideal(units):.2f} x"
            limit = 1.2 * ideal(units) if units == UNITS else None
            table.row(f"anthropic: {units} units of {STEPS} steps", run.wall, limit, growth=said)
            per_step = 1000 * (run.cpu - begun) / (units * STEPS)
            table.row(f"  CPU of a step, model and start left out ({units} units)", per_step, unit="ms")
            table.row(f"  git processes ({units} units)", run.gits, 60, unit="")
            table.row("  CPU of the scripted model", run.asked.cpu if run.asked else 0)
            _expect(run, units, units * (STEPS + TRIAGE) + WHOLE)
        _changed(table, project)
        two = Project(folder / "two", model, "anthropic", at_once=AT_ONCE)
        two.configure("docs", "more")
        for place, source in enumerate(("docs", "more")):
            half = range(place * UNITS // 2, (place + 1) * UNITS // 2)
            two.write(source, [f"topic-{number:03}" for number in half])
        run = two.run()
        table.row(f"anthropic: {UNITS} units of two connections", run.wall, 1.2 * ideal(UNITS))
        _expect(run, UNITS, UNITS * (STEPS + TRIAGE) + WHOLE)
        assert run.asked is not None and run.asked.most == AT_ONCE, "both connections at once, and no more than allowed"


def _changed(table: Table, project: Project) -> None:
    """One file of the throughput case changes: its unit alone runs."""
    path = next(project.folder.glob("docs/*/topic-003.md"))
    path.write_text(path.read_text() + "More.\n")
    run = project.run()
    table.row("one changed file", run.wall, 3.0, growth=f"{run.cpu:.2f} CPU s")
    table.row("  requests", run.asked.requests if run.asked else 0, 10, unit="")
    _expect(run, 1, STEPS + TRIAGE + WHOLE)


def claude(table: Table, folder: Path) -> None:
    """Units on the real binary, beside as many bare sessions."""
    names = [f"topic-{number:03}" for number in range(UNITS)]
    with serving(LATENCY) as model:
        project = Project(folder / "claude", model, "claude-code", at_once=AT_ONCE)
        project.configure("docs")
        project.write("docs", names)
        run = project.run()
        bare, cpu = bare_sessions(model, names, AT_ONCE, folder)
        cores = os.cpu_count() or 1
        said = f"cores allow {cpu / cores:.1f} s, ideal {UNITS * STEPS * LATENCY / AT_ONCE:.1f} s"
        table.row(f"bare: {UNITS} single-use sessions", bare, growth=said)
        sessions = UNITS * (1 + TRIAGE) + WHOLE
        table.row(f"claude-code: {UNITS} units", run.wall, bare, growth=f"{run.cpu:.0f} CPU s, {sessions} sessions")


def again(table: Table, folder: Path) -> None:
    """A second run with nothing changed: here, in a fresh clone, and without the state database."""
    with serving(0.0) as model:
        last = 0.0
        for count in (UNCHANGED // 4, UNCHANGED):
            project = Project(folder / f"again{count}", model, "anthropic", at_once=AT_ONCE)
            project.configure("docs")
            project.write("docs", [f"topic-{number:03}" for number in range(UNITS)])
            project.write("small", [f"small-{number:04}" for number in range(count - UNITS)], "Nothing.\n")
            project.configure("docs", "small")
            project.run()
            limit = 1.0 if count == UNCHANGED else None
            run = project.run()
            growth = f"{run.wall / last:.2f} x for {4} x" if last else ""
            table.row(f"nothing changed, {count:,} files", run.wall, limit, growth=f"{run.cpu:.2f} CPU s {growth}")
            last = run.wall
            _expect_nothing(run)
        clone = project.clone(folder / "clone")
        run = clone.run()
        table.row(f"the same in a fresh clone, {UNCHANGED:,} files", run.wall, 1.0, growth=f"{run.cpu:.2f} CPU s")
        _expect_nothing(run)
        clone.forget_state()
        run = clone.run()
        table.row("the same with `.ktx` deleted", run.wall, 1.0, growth=f"{run.cpu:.2f} CPU s")
        _expect_nothing(run)


def files(table: Table, folder: Path) -> None:
    """Snapshot and comparison of many files, and whole runs without a model over them."""
    last = 0.0
    for count in (1_000, 10_000, 50_000):
        project = Project(folder / f"files{count}", None)
        project.write("docs", [f"page-{number:05}" for number in range(count)], "Orders count when they are paid.\n" * 30)
        seconds = _seconds(lambda: _compared(project.folder / "docs"))
        growth = f"{seconds / last:.1f} x" if last else ""
        limit = 5.0 if count == 10_000 else None
        table.row(f"snapshot and diff of {count:,} files", seconds, limit, growth=growth)
        last = seconds
        if count == 10_000:
            project.configure("docs")
            table.row(f"`ktx ingest` of {count:,} files, no model", project.run().wall, 10.0)
            table.row("  again", project.run().wall, 5.0)


def _compared(root: Path) -> None:
    """Read a folder as it is, and compare it with what was committed of it, both from nothing."""
    found = read_folder(root, SUFFIXES)
    kept = render_manifest(Manifest({path: FileState(file.sha256) for path, file in found.files.items()}))
    changes = compare(parse_manifest(kept, "manifest.yaml"), Snapshot(found.files), model=True)
    assert len(changes.unchanged) == len(found.files)


def history(table: Table, folder: Path) -> None:
    """A query history, first and again with nothing changed."""
    for count in (STATEMENTS // 4, STATEMENTS):
        project = Project(folder / f"history{count}", None)
        project.configure(shop=HISTORY)
        columns = ("name", "country", "customer_id", "amount", "paid")
        statements = (
            "-- user: ann executions: 20\n"
            f"SELECT c.{columns[n % 2]}, sum(o.amount) + {n} AS total_{n} FROM orders o JOIN customers c"
            f" ON c.id = o.customer_id WHERE o.{columns[2 + n % 3]} > {n} GROUP BY 1;\n"
            for n in range(count)
        )
        (project.folder / "history.sql").write_text("".join(statements))
        first = project.run()
        second = project.run()
        assert second.commit is None, "nothing changed"
        limit = 1.5 if count == STATEMENTS else None
        table.row(f"query history of {count:,} statements, first", first.wall)
        table.row("  again, nothing changed", second.wall, limit, growth=f"{second.cpu:.2f} CPU s")


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _expect(run: Run, units: int, requests: int) -> None:
    assert run.asked is not None and run.commit is not None, "the run made a commit"
    assert (run.asked.units, run.asked.requests) == (units, requests), f"{run.asked}: not {units} units"


def _expect_nothing(run: Run) -> None:
    assert run.asked is not None and run.asked.requests == 0, f"nothing had changed, and the model was asked {run.asked}"
    assert run.commit is None, "nothing had changed, and there is a commit"


CASES = {"agents": agents, "claude": claude, "again": again, "files": files, "history": history}


def main() -> int:
    """Run the cases that were named, or all."""
    table = Table()
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory(prefix="ktx-bench-") as folder:
            CASES[name](table, Path(folder))
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if table.over:
        print(f"over the limit: {'; '.join(each.strip() for each in table.over)}")
    return int(bool(table.over))


if __name__ == "__main__":
    sys.exit(main())
