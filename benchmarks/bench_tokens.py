"""Tokens and list price of one `ktx ingest`: 25 documents, 12 dbt models and a query history, by a careful model.

Prints by kind of work: loops, requests, and the tokens the Messages API would bill (fresh, written to the cache, read
from it, output), with their price, one model for all roles. `--json` prints the same as JSON. Tokens are estimated at
3.6 characters each (see `token_bill.py`), the same on every version of ktx, so that two versions can be compared.

Figures, all requests on one model: before skills and index had cache marks of their own, 104 requests; 16,755 tokens
fresh, 102,877 written, 474,035 read, 9,361 of output; 0.475 USD. With them: 87 requests; 16,755, 60,920, 368,770,
8,178; 0.304 USD. With the SQL of dbt models in their units, and one call for the texts about all tables of a history:
58 requests; 18,915, 67,597, 296,007, 8,521; 0.322 USD.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.token_world import CarefulModel, Tally, as_json, build, ingest_all
from ktx_cli.testing.model_server import ModelServer

HEADINGS = ("work", "loops", "requests", "fresh", "cache write", "cache read", "output", "USD")
ROW = "{:<12}{:>7}{:>10}{:>10}{:>13}{:>12}{:>9}{:>9}"


def main() -> None:
    """Run the ingest and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    model = CarefulModel()
    with ModelServer(model) as server, tempfile.TemporaryDirectory() as folder:
        model.url = server.url
        project = build(Path(folder) / "company", model)
        ingest_all(project)
        run = project.run()
    total = Tally()
    for each in model.tallies.values():
        total.loops += each.loops
        total.requests += each.requests
        total.usage += each.usage
        total.dollars += each.dollars
    if arguments.json:
        rows = {kind: as_json(each) for kind, each in sorted(model.tallies.items())}
        print(json.dumps({"work": rows, "total": as_json(total), "status": run.report.get("status")}, indent=2))
        return
    print(ROW.format(*HEADINGS))
    for kind, each in (*sorted(model.tallies.items()), ("total", total)):
        usage = each.usage
        figures = (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens)
        print(ROW.format(kind, each.loops, each.requests, *(f"{one:,}" for one in figures), f"{each.dollars:.3f}"))


if __name__ == "__main__":
    main()
