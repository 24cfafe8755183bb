"""Measures the semantic layer against its oracle: python -m benchmarks.semantic_oracle [--engine NAME] [--topic NAME]

Every case is asked of each engine through ktx's read-only connector and compared with rows worked out by hand or by a
brute-force evaluator in plain Python. Prints, by topic: cases, right answers, wrong numbers, needless refusals, and
refusals with their reason. `--engine` and `--topic` may be repeated; the default is everything. Exit code 1 where a
number is wrong or a refusal is needless.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ktx_cli.testing.servers import PostgresServer
from tests.semantic_oracle.adapter import Adapter
from tests.semantic_oracle.judging import NEEDLESS, REFUSED, RIGHT, WRONG, Verdict, judged, topics
from tests.semantic_oracle.tables import ENGINES

KINDS = (RIGHT, REFUSED, NEEDLESS, WRONG)


def main(arguments: list[str] | None = None) -> int:
    """Run the cases and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the semantic layer with its oracle.")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="an engine (default: all)")
    parser.add_argument("--topic", action="append", choices=sorted(topics()), help="a topic (default: all)")
    parser.add_argument("--quiet", action="store_true", help="tables alone, without what is wrong")
    options = parser.parse_args(arguments)
    failed = False
    for engine in options.engine or ENGINES:
        found = run(engine, options.topic or sorted(topics()))
        print(as_text(engine, found, quiet=options.quiet))
        failed |= any(each.kind in (NEEDLESS, WRONG) for verdicts in found.values() for each in verdicts)
    return int(failed)


def run(engine: str, names: list[str]) -> dict[str, list[Verdict]]:
    """Return the verdicts of some topics on an engine."""
    with adapter(engine) as asks:
        return {name: [judged(case, asks) for case in topics()[name]] for name in names}


@contextmanager
def adapter(engine: str) -> Iterator[Adapter]:
    """Open an engine with a folder of its own, for Postgres a server too."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = PostgresServer() if engine == "postgres" else None
        if server is not None:
            stack.enter_context(server)
        yield stack.enter_context(Adapter(engine, folder, server))


def as_text(engine: str, found: dict[str, list[Verdict]], *, quiet: bool) -> str:
    """Return the table of an engine, what is wrong, and the refusals with their reasons."""
    lines = [f"{engine:12} {'cases':>6}" + "".join(f"{kind:>18}" for kind in KINDS)]
    lines += [_line(name, verdicts) for name, verdicts in found.items()]
    everything = [each for verdicts in found.values() for each in verdicts]
    lines += [_line("all", everything), ""]
    lines += [f"refused {each.case.id}: {each.text}" for each in everything if each.kind == REFUSED and not quiet]
    lines += [f"\n{each.kind}: {each.text}" for each in everything if each.kind in (NEEDLESS, WRONG) and not quiet]
    return "\n".join(lines)


def _line(name: str, verdicts: list[Verdict]) -> str:
    counts = Counter(each.kind for each in verdicts)
    return f"{name:12} {len(verdicts):>6}" + "".join(f"{counts[kind]:>18}" for kind in KINDS)


if __name__ == "__main__":
    sys.exit(main())
