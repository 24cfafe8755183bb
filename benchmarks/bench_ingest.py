"""Throughput of `ktx ingest`: 64 units of 6 steps on a model of 200 ms, runs with nothing to do, many files, histories.

Prints for each figure what was measured, its limit, their ratio and how it grows; exit 1 where one is over its limit.
Name cases to run those alone: `agents`, `claude`, `again`, `files`, `history`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.ingest_bare import bare_sessions
from benchmarks.ingest_model import STEPS, serving
from benchmarks.ingest_project import LONG, Project, Run
from ktx_cli.documents.raw import Snapshot
from ktx_cli.documents.reader import SUFFIXES
from ktx_cli.sources.deliveries import Delivery, FileState, compare, parse_delivery, render_delivery
from ktx_cli.sources.documents.source import read_folder

LATENCY, AT_ONCE, UNITS = 0.2, 8, 64
PROBE, RECONCILE = 1, 1
"""Questions before the first unit and after the last, which are waited for too."""

NOISE = 1.05
"""How far apart two runs of the same may be."""

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

    def row(
        self, figure: str, measured: float, limit: float | None = None, *, unit: str = "s", growth: str = ""
    ) -> None:
        """Print one figure; one over its limit is remembered."""
        bound = "" if limit is None else f"{limit:.4g} {unit}"
        ratio = "" if limit is None else f"{measured / limit:.2f}"
        print(f"{figure:<58}{f'{measured:.4g} {unit}':>11}{bound:>10}{ratio:>8}  {growth}", flush=True)
        if limit is not None and measured > limit:
            self.over.append(figure)


def ideal(units: int, questions: int = STEPS) -> float:
    """Return the seconds in which the model alone would be through, had nothing else to be done."""
    return (units * questions / AT_ONCE + PROBE + RECONCILE) * LATENCY


def agents(table: Table, folder: Path) -> None:
    """Units on the API: time over the ideal, what a step costs, units of several connections, one changed file."""
    with serving(LATENCY) as model:
        for units in (UNITS // 2, UNITS):
            project = Project(folder / f"agents{units}", model, "anthropic", at_once=AT_ONCE)
            begun = project.run().cpu
            project.configure("dbt")
            project.write_models("dbt", _topics(units))
            run = project.run()
            said = f"ideal {ideal(units):.1f} s, {run.wall / ideal(units):.2f} x"
            limit = 1.2 * ideal(units) if units == UNITS else None
            table.row(f"anthropic: {units} units of {STEPS} steps", run.wall, limit, growth=said)
            per_step = 1000 * (run.cpu - begun) / (units * STEPS)
            table.row(f"  CPU of a step, all but the start ({units} units)", per_step, unit="ms")
            table.row(f"  git processes ({units} units)", run.gits, 60, unit="")
            table.row("  CPU of the scripted model", run.asked.cpu if run.asked else 0)
            _expect(run, units)
        _changed(table, project)
        _connections(table, Project(folder / "two", model, "anthropic", at_once=AT_ONCE))
        _documents(table, Project(folder / "documents", model, "anthropic", at_once=AT_ONCE))


def _changed(table: Table, project: Project) -> None:
    """One file of the throughput case changes: its unit alone runs."""
    path = project.folder / "dbt/models/topic-003.md"
    path.write_text(path.read_text() + "More.\n")
    run = project.run()
    table.row("one changed file", run.wall, 3.0, growth=f"{run.cpu:.2f} CPU s")
    table.row("  requests", run.asked.requests if run.asked else 0, 10, unit="")
    assert run.asked is not None and run.asked.units == 1, f"{run.asked}: not one unit"


def _connections(table: Table, project: Project) -> None:
    """The same units over several connections: as many at once, and no more."""
    sources = [f"dbt{place}" for place in range(2)]
    project.configure(*sources)
    for place, source in enumerate(sources):
        project.write_models(source, _topics(UNITS)[place :: len(sources)])
    run = project.run()
    table.row(f"anthropic: {UNITS} units of two connections", run.wall, 1.2 * ideal(UNITS))
    _expect(run, UNITS)
    assert run.asked is not None and run.asked.most == AT_ONCE, f"{run.asked}: not {AT_ONCE} at once"


def _documents(table: Table, project: Project) -> None:
    """Documents are sorted by the model before their units begin."""
    project.configure("docs")
    project.write("docs", _topics(UNITS))
    run = project.run()
    best = ideal(UNITS, STEPS + 1)
    table.row(f"anthropic: {UNITS} documents, sorted first", run.wall, 1.2 * best, growth=f"ideal {best:.1f} s")
    _expect(run, UNITS, STEPS + 1)


def claude(table: Table, folder: Path) -> None:
    """Units on the real binary, beside as many bare sessions."""
    with serving(LATENCY) as model:
        runs = []
        for reuse in (False, True):
            project = Project(folder / f"claude{reuse}", model, "claude-code", at_once=AT_ONCE, reuse=reuse)
            project.configure("dbt")
            project.write_models("dbt", _topics(UNITS))
            runs.append(project.run())
            _expect(runs[-1], UNITS)
        single, reused = runs
        bare, cpu = bare_sessions(model, _topics(UNITS), AT_ONCE, folder)
        cores = os.cpu_count() or 1
        said = f"{cpu:.0f} CPU s: {cores} cores allow {cpu / cores:.1f} s, ideal {ideal(UNITS):.1f} s"
        table.row(f"bare: {UNITS} single-use sessions", bare, growth=said)
        said = f"{single.cpu:.0f} CPU s, of them two sessions more"
        table.row(f"claude-code: {UNITS} units", single.wall, NOISE * bare, growth=said)
        said = f"{reused.cpu:.0f} CPU s: {cores} cores allow {reused.cpu / cores:.1f} s"
        table.row("claude-code: the same, processes reused", reused.wall, 2 * ideal(UNITS), growth=said)


def again(table: Table, folder: Path) -> None:
    """A second run with nothing changed: here, in a fresh clone, and without the state database."""
    with serving(0.0) as model:
        last = 0.0
        for count in (UNCHANGED // 4, UNCHANGED):
            project = Project(folder / f"again{count}", model, "anthropic", at_once=AT_ONCE)
            project.configure("docs")
            project.write("docs", _topics(UNITS))
            project.write("small", [f"small-{number:04}" for number in range(count - UNITS)], "Nothing.\n")
            project.configure("docs", "small")
            project.run()
            limit = 1.0 if count == UNCHANGED else None
            run = project.run()
            growth = f"{run.wall / last:.2f} x for 4 x" if last else ""
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
        project.write("docs", [f"page-{number:05}" for number in range(count)], LONG[:1_000])
        seconds = _compared(project.folder / "docs")
        growth = f"{seconds / last:.1f} x" if last else ""
        limit = 5.0 if count == 10_000 else None
        table.row(f"snapshot and diff of {count:,} files", seconds, limit, growth=growth)
        last = seconds
        if count == 10_000:
            project.configure("docs")
            table.row(f"`ktx ingest` of {count:,} files, no model", project.run().wall, 10.0)
            table.row("  again", project.run().wall, 5.0)


def _compared(root: Path) -> float:
    """Read a folder, and compare it with a manifest of it, both from nothing; return the seconds that takes."""
    started = time.perf_counter()
    found = read_folder(root, SUFFIXES)
    kept = render_delivery(Delivery({path: FileState(file.sha256) for path, file in found.files.items()}))
    changes = compare(parse_delivery(kept, "manifest.yaml"), Snapshot(found.files), model=True)
    assert len(changes.unchanged) == len(found.files)
    return time.perf_counter() - started


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


def _topics(count: int) -> list[str]:
    return [f"topic-{number:03}" for number in range(count)]


def _expect(run: Run, units: int, questions: int = STEPS) -> None:
    """Check that each unit was worked through once, whatever is remembered of earlier probes."""
    assert run.asked is not None and run.commit is not None, "the run made a commit"
    least = units * questions + RECONCILE
    asked = run.asked.requests
    assert run.asked.units == units and least <= asked <= least + PROBE, f"{run.asked}: not {units} units"


def _expect_nothing(run: Run) -> None:
    assert run.asked is not None and run.asked.requests == 0, f"nothing had changed, and yet: {run.asked}"
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
