"""Tokens and list price of one `ktx ingest`: 25 documents, 12 dbt models and a query history, by a careful model.

Prints by kind of work: loops, requests, and the tokens the Messages API would bill (fresh, written to the cache, read
from it, output), with their price, one model for all roles: without and with the SQL of the dbt models, which earlier
versions did not read, and beside each what the same script took before skills and index had cache marks of their own
and before one call wrote the texts about all tables of a history (`BEFORE`, measured at commit 7d4daffc). At the end,
which of the facts that stand in the SQL alone were in requests of a work unit. `--json` prints the same as JSON.

Tokens are estimated at 3.6 characters each (see `token_bill.py`), the same on every version of ktx, so that two
versions can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.token_world import CarefulModel, Tally, as_json, build, facts_of_sql, ingest_all
from ktx_cli.llm.types import Usage
from ktx_cli.testing.model_server import ModelServer

HEADINGS = ("work", "loops", "requests", "fresh", "cache write", "cache read", "output", "USD")
ROW = "{:<12}{:>7}{:>10}{:>10}{:>13}{:>12}{:>9}{:>9}"

BEFORE: Final[Mapping[str, Tally]] = {
    "curate": Tally(1, 5, Usage(0, 491, 41_812, 11_610), 0.049),
    "dbt": Tally(1, 7, Usage(0, 1_536, 82_752, 19_364), 0.081),
    "documents": Tally(1, 7, Usage(0, 3_767, 80_160, 35_357), 0.144),
    "extraction": Tally(3, 3, Usage(1_794, 274, 0, 0), 0.006),
    "history": Tally(13, 52, Usage(0, 2_573, 256_115, 30_301), 0.133),
    "probe": Tally(1, 1, Usage(6, 9, 0, 0), 0.0),
    "reconcile": Tally(1, 4, Usage(0, 108, 24_543, 9_077), 0.036),
    "triage": Tally(25, 25, Usage(14_955, 603, 0, 0), 0.036),
}
"""What the same script took before."""

NEW: Final = "questions"
"""The work that earlier versions did not do: the questions of sections of documents."""


@dataclass(frozen=True)
class Measured:
    """What an ingest took by kind of work, how it ended, and the facts of the SQL that requests of its units had."""

    tallies: Mapping[str, Tally]
    status: str
    facts_shown: frozenset[str]

    @property
    def total(self) -> Tally:
        """All kinds of work together."""
        return total_of(self.tallies)

    @property
    def same_work(self) -> Tally:
        """The work that earlier versions did too."""
        return total_of({kind: each for kind, each in self.tallies.items() if kind != NEW})


def total_of(tallies: Mapping[str, Tally]) -> Tally:
    """Return tallies added up."""
    total = Tally()
    for each in tallies.values():
        total.loops += each.loops
        total.requests += each.requests
        total.usage += each.usage
        total.dollars += each.dollars
    return total


def measure(*, sql: bool) -> Measured:
    """Run the ingest, with the SQL of the dbt models or without."""
    model = CarefulModel()
    with ModelServer(model) as server, tempfile.TemporaryDirectory() as folder:
        model.url = server.url
        project = build(Path(folder) / "company", model, sql=sql)
        ingest_all(project)
        run = project.run()
    return Measured(model.tallies, run.report.get("status", ""), frozenset(model.facts_shown))


def _print(title: str, tallies: Mapping[str, Tally]) -> None:
    total, before = total_of(tallies), total_of(BEFORE)
    print(f"\n{title}\n{ROW.format(*HEADINGS)}")
    for kind, each in (*sorted(tallies.items()), ("total", total)):
        usage = each.usage
        figures = (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens)
        print(ROW.format(kind, each.loops, each.requests, *(f"{one:,}" for one in figures), f"{each.dollars:.3f}"))
    if tallies is not BEFORE:
        per_loop = (
            f"{kind} {each.requests / each.loops:.0f} (was {BEFORE[kind].requests / BEFORE[kind].loops:.0f})"
            for kind, each in sorted(tallies.items())
            if kind in BEFORE and BEFORE[kind].requests > BEFORE[kind].loops
        )
        print(f"price: {1 - total.dollars / before.dollars:.0%} less; requests of a loop: {', '.join(per_loop)}")


def _as_json(measured: Measured) -> dict[str, Any]:
    rows = {kind: as_json(each) for kind, each in sorted(measured.tallies.items())}
    facts = sorted(measured.facts_shown)
    return {"work": rows, "total": as_json(measured.total), "status": measured.status, "facts_shown": facts}


def main() -> None:
    """Run both ingests and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    plain, full = measure(sql=False), measure(sql=True)
    if arguments.json:
        before = {kind: as_json(each) for kind, each in BEFORE.items()}
        print(json.dumps({"before": before, "without_sql": _as_json(plain), "with_sql": _as_json(full)}, indent=2))
        return
    _print("before", BEFORE)
    _print("now, without the SQL of dbt models", plain.tallies)
    _print("now, with the SQL of dbt models", full.tallies)
    facts = facts_of_sql()
    print(f"\nfacts that stand in SQL alone, in requests of work units: {len(full.facts_shown)} of {len(facts)}")
    for fact in facts:
        print(f"  {'shown  ' if fact in full.facts_shown else 'MISSING'}  {fact}")


if __name__ == "__main__":
    main()
