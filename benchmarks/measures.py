"""Measures the measures that a scan proposes: python benchmarks/measures.py [--seeds 1 2 3] [--demo] [--draw 60]

Makes the company of each seed (`ktx_cli/jobs/proof/company`), scans it without a model, and compares the proposed sums
with what the generator knows of each column. Prints the proposed measures of all seeds, those that a reader should
judge (drawn at random by `--draw-seed`), and a table: proposals, sums of columns that may not be added up (keys,
rates, balances and the like), and how many of the columns that people add up have a sum. `--demo` takes the demo
company of `ktx demo` too, whose columns nobody has labelled. Exit 1 when a sum is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.jobs.demo.company import build_company as build_demo
from ktx_cli.jobs.proof.company.warehouse import ADDITIVE, MadeUpCompany, Role, build_company
from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan.measures.proposals import propose_measures
from ktx_cli.scan.measures.record import ProposedMeasure
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.warehouses import Scope, TableRef, dialect_named
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed measure of a table. `world`: the company that it is from."""

    world: str
    table: TableRef
    measure: ProposedMeasure

    @property
    def is_sum(self) -> bool:
        return self.measure.expr.startswith("sum(")

    def __str__(self) -> str:
        shown = (self.world, f"{self.table.schema}.{self.table.name}", self.measure.name, self.measure.expr)
        return "  ".join(f"{text:{width}}" for text, width in zip(shown, (7, 34, 30, 60), strict=True)).rstrip()


@dataclass(frozen=True)
class Judged:
    """What the generator says of the proposals of a company. `wrong`: sums by the kind or role that forbids them."""

    proposals: tuple[Proposal, ...]
    wrong: Mapping[str, tuple[Proposal, ...]]
    found: int
    wanted: int
    missing: tuple[str, ...]


def proposals_of(world: str, path: Path) -> Iterator[Proposal]:
    """Yield what a scan of a DuckDB file proposes, without a model."""
    with connect(ConnectionSpec("w", "duckdb", {"path": str(path)})) as connector:
        tables = connector.introspect(Scope()).tables
        profiled = profile_tables(connector, tables, Budget())
        found = discover(connector, tables, profiled.tables, Relationships())
        known = RelationshipRecord(found.keys, found.relationships)
        profiles = [each.profile for each in profiled.tables]
        for ref, measures in propose_measures(tables, known, profiles, dialect_named(connector.dialect)).items():
            yield from (Proposal(world, ref, measure) for measure in measures)


def judge(company: MadeUpCompany, proposals: tuple[Proposal, ...]) -> Judged:
    """Return which sums are wrong, and which are missing."""
    wrong: dict[str, list[Proposal]] = {}
    summed: set[tuple[str, str, str]] = set()
    for each in proposals:
        table = company.table(each.table.schema, each.table.name)
        if table.role in (Role.STATES, Role.BRIDGE, Role.COPY):
            wrong.setdefault(f"{table.role} table", []).append(each)
        if not each.is_sum:
            continue
        (column,) = (table.column(name) for name in each.measure.columns)
        if column.kind not in ADDITIVE:
            wrong.setdefault(column.kind, []).append(each)
        summed.add((table.schema, table.name, column.name))
    wanted = {(each.schema, each.name, column) for each in company.tables for column in each.additive}
    missing = tuple(".".join(each) for each in sorted(wanted - summed))
    groups = {name: tuple(found) for name, found in wrong.items()}
    return Judged(proposals, groups, len(wanted & summed), len(wanted), missing)


def run(seed: int, folder: Path, scale: float = 1) -> Judged:
    """Return what is proposed for the company of a seed."""
    path = folder / f"company-{seed}.duckdb"
    company = build_company(seed, path, scale)
    return judge(company, tuple(proposals_of(f"seed {seed}", path)))


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the measures that a scan proposes.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3], help="the companies (default: 1 2 3)")
    parser.add_argument("--demo", action="store_true", help="the demo company too")
    parser.add_argument("--draw", type=int, default=60, metavar="N", help="how many proposals to judge (default: 60)")
    parser.add_argument("--draw-seed", type=int, default=1, metavar="N", help="which ones to draw (default: 1)")
    parser.add_argument("--all", action="store_true", help="print all proposals, with their reasons")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        judged = {seed: run(seed, Path(made)) for seed in options.seeds}
        proposals = [each for result in judged.values() for each in result.proposals]
        if options.demo:
            demo = build_demo(Path(made) / "demo", 1)
            proposals += proposals_of("demo", demo.warehouse)
    if options.all:
        for each in proposals:
            print(each, f"         {each.measure.reason}", sep="\n")
        print()
    drawn = random.Random(options.draw_seed).sample(proposals, min(options.draw, len(proposals)))
    print(f"{len(drawn)} of {len(proposals)} proposals, to be judged by a reader:\n")
    for each in drawn:
        print(each, f"         {each.measure.reason}", sep="\n")
    print(f"\n{'company':10}{'proposals':>10}{'sums':>6}{'wrong':>7}{'additive columns with a sum':>30}")
    for seed, result in judged.items():
        sums = sum(each.is_sum for each in result.proposals)
        wrong = sum(map(len, result.wrong.values()))
        share = f"{result.found} of {result.wanted} ({result.found / result.wanted:.0%})"
        print(f"{f'seed {seed}':10}{len(result.proposals):>10}{sums:>6}{wrong:>7}{share:>30}")
    mistakes = Counter(dict.fromkeys(("key", "ref", "rate", "share", "percent", "price", "balance", "running"), 0))
    for result in judged.values():
        mistakes.update({name: len(found) for name, found in result.wrong.items()})
        for name, found in result.wrong.items():
            print(*(f"wrong ({name}): {each}" for each in found), sep="\n")
        print(*(f"no sum: {each}" for each in result.missing), sep="\n")
    print("sums of what may not be added up:", ", ".join(f"{name} {count}" for name, count in mistakes.items()))
    return 1 if any(mistakes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
