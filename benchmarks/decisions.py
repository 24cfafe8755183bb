"""Measures the decision points that a scan finds: python benchmarks/decisions.py [--seeds 1 2 3] [--show] [--ingest]

Makes the company of each seed (`ktx_cli/jobs/proof/company`), scans it without a model, and compares the points with
the conventions that the generator switched on. Prints for each kind, and for what settles them, how many were found
and missed, and how many points are about no convention. `--show` lists the missed and the false ones. `--ingest` runs
a whole `ktx ingest` without a model too, and prints the states that documents and dbt models bring. Exit 1 when fewer
than 90 % of the conventions that nothing settles are found, or a company has more than two false points.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.proof.company.company import Company, write_company
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy
from ktx_cli.project import WorkingTree
from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan import read_decisions, read_record, source_of_tables
from ktx_cli.scan.decisions.proposals import propose_decisions
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.measures.proposals import propose_measures
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.semantic import DecisionKind, load_tree
from ktx_cli.warehouses import Scope, dialect_named
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect

_ALIKE = (
    {DecisionKind.INTERNAL, DecisionKind.STAFF},
    {DecisionKind.MERGED, DecisionKind.DUPLICATES},
    {DecisionKind.DELETED, DecisionKind.STATUS},
)
"""Kinds that a reader takes for one another: a row whose state is `removed` is deleted, or has that status."""


@dataclass(frozen=True)
class Judged:
    """The points of a company against its conventions."""

    seed: int
    found: tuple[Convention, ...]
    missed: tuple[Convention, ...]
    false: tuple[FoundPoint, ...]
    statements: int


def points_of(path: Path) -> tuple[tuple[FoundPoint, ...], int]:
    """Return the points that a scan of a DuckDB file finds without a model, and the statements that it took."""
    with connect(ConnectionSpec("w", "duckdb", {"path": str(path)})) as connector:
        tables = connector.introspect(Scope()).tables
        profiled = profile_tables(connector, tables, Budget())
        found = discover(connector, tables, profiled.tables, Relationships())
        known = RelationshipRecord(found.keys, found.relationships)
        profiles = [each.profile for each in profiled.tables]
        measures = propose_measures(tables, known, profiles, dialect_named(connector.dialect))
        points, counter = propose_decisions(tables, known, profiles, measures, connector)
        return points, counter.statements


def is_about(point: FoundPoint, convention: Convention) -> bool:
    """Whether a point asks what a convention answers."""
    if f"{point.table.schema}.{point.table.name}" != convention.table:
        return False
    alike = point.kind is convention.kind or {point.kind, convention.kind} in _ALIKE
    return alike and (not convention.columns or bool(set(convention.columns) & set(point.columns)))


def judge(company: Company, points: tuple[FoundPoint, ...], statements: int = 0) -> Judged:
    """Compare the points of a company with the conventions that it has."""
    wanted = company.switched_on
    found = tuple(each for each in wanted if any(is_about(point, each) for point in points))
    missed = tuple(each for each in wanted if each not in found)
    false = tuple(point for point in points if not any(is_about(point, each) for each in wanted))
    return Judged(company.seed, found, missed, false, statements)


def run(seed: int, folder: Path) -> Judged:
    """Judge what a scan finds in the company of a seed."""
    company = write_company(folder / str(seed), seed)
    return judge(company, *points_of(company.warehouse))


def states_of(seed: int, folder: Path) -> Counter[tuple[SettledBy, str]]:
    """Ingest the company of a seed without a model, and count the states of its conventions by what settles them."""
    company = write_company(folder / f"{seed}-ingest", seed)
    subprocess.run(["git", "init", "-q", company.folder], check=True)
    ingest(IngestRequest(company.folder, os.environ, no_llm=True))
    tree = WorkingTree(company.folder)
    states: Counter[tuple[SettledBy, str]] = Counter()
    for connection in sorted(path.name for path in (company.folder / "semantic-layer").iterdir()):
        found = read_record(tree, connection)
        model = load_tree(tree, connection, "duckdb")
        names = source_of_tables(model)
        by_id = {each.id: each.state.value for each in read_decisions(tree, model).points}
        for convention in company.switched_on if found else ():
            point = next((each for each in found if is_about(each, convention)), None)
            name = None if point is None else names.get(point.table)
            states[
                convention.settled_by, "missed" if point is None or name is None else by_id[point.point_id(name)]
            ] += 1
    return states


def table_lines(judged: list[Judged]) -> Iterator[str]:
    """Yield the table of all companies."""
    found = Counter((each.kind, each.settled_by) for result in judged for each in result.found)
    missed = Counter((each.kind, each.settled_by) for result in judged for each in result.missed)
    false = Counter(each.kind for result in judged for each in result.false)
    yield f"{'kind':14}" + "".join(f"{each.value:>14}" for each in SettledBy) + f"{'false':>8}"
    for kind in DecisionKind:
        shares = (_share(found[kind, each], missed[kind, each]) for each in SettledBy)
        yield f"{kind.value:14}" + "".join(f"{each:>14}" for each in shares) + f"{false[kind]:>8}"
    totals = (
        _share(sum(found[kind, by] for kind in DecisionKind), sum(missed[kind, by] for kind in DecisionKind))
        for by in SettledBy
    )
    yield f"{'all':14}" + "".join(f"{each:>14}" for each in totals) + f"{sum(false.values()):>8}"


def _share(found: int, missed: int) -> str:
    return f"{found} of {found + missed}" if found + missed else "-"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the decision points that a scan finds.")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(1, 31)), help="the companies (default: 30)")
    parser.add_argument("--show", action="store_true", help="list the missed and the false ones")
    parser.add_argument("--ingest", action="store_true", help="ingest whole projects too, and print the states")
    options = parser.parse_args(arguments)
    states: Counter[tuple[SettledBy, str]] = Counter()
    with tempfile.TemporaryDirectory() as made:
        judged = [run(seed, Path(made)) for seed in options.seeds]
        for seed in options.seeds if options.ingest else ():
            states += states_of(seed, Path(made))
    if options.show:
        for result in judged:
            for each in result.missed:
                print(f"seed {result.seed}: missed {each.id} ({each.settled_by}): {each.table} {each.columns}")
            for point in result.false:
                print(f"seed {result.seed}: false {point.point_id(str(point.table))}: {point.evidence[0]}")
    print(*table_lines(judged), sep="\n")
    for by in SettledBy if states else ():
        listed_states = (f"{state} {count}" for (each, state), count in sorted(states.items()) if each is by)
        print(f"settled by {by.value}: {', '.join(listed_states)}")
    unsettled = (SettledBy.DATA, SettledBy.NOTHING)
    listed = sum(each.settled_by in unsettled for result in judged for each in result.found)
    left = sum(each.settled_by in unsettled for result in judged for each in result.missed)
    most = max(len(result.false) for result in judged)
    print(f"unsettled ones that are listed: {listed / max(1, listed + left):.1%}; most false ones of a company: {most}")
    return 0 if listed >= 0.9 * (listed + left) and most <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
