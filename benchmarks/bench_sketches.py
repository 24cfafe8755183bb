"""Joins of tables that are too large to check on all rows: exact joins against sketches, and what a night asks for.

A table of N rows has C references to C tables of different sizes, in each of which a known share of the values has no
row. Printed for each engine: the seconds of C exact joins and of the sketches of the same columns, the share of rows
without a match by both and the bound that the sketches state, and the seconds of an exact check of a key and of an
estimate. Then `ktx scan` on Postgres: the statements of the first night, of one with nothing changed, and of one with
one table changed. Exit 1 if a share is outside its bound by more than chance, or a night without changes sends one.

    python benchmarks/bench_sketches.py [--rows 6000000] [--columns 10] [--engines duckdb postgres]
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_nightly import Database, project_of, scan
from ktx_cli.core.errors import SourceError
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.candidates import check_in_database, is_unique_in_database
from ktx_cli.scan.relationships.columns import gather
from ktx_cli.scan.relationships.sketches import SketchReader
from ktx_cli.testing.servers import PostgresServer, ServerMissingError
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.registry import connect

SIZES = (200, 5_000, 50_000, 100_000, 200_000, 300_000, 500_000, 700_000, 1_000_000, 1_500_000)
ORPHANS = (0.0, 0.002, 0.0, 0.01, 0.02, 0.05, 0.08, 0.12, 0.25, 0.5)
"""The rows of the referenced tables, and the shares of values that have no row in them."""

NAMES = ("region", "branch", "vendor", "device", "parcel", "account", "session", "invoice", "voucher", "tenant")


def creations(rows: int, columns: int) -> Iterator[str]:
    """Yield the statements that build the tables."""
    listed = []
    for name, size, orphans in list(zip(NAMES, SIZES, ORPHANS, strict=True))[:columns]:
        last = round(size / (1 - orphans))
        listed.append(f"1 + (n * 7919) % {last} AS {name}_id")
        made = f"SELECT n AS {name}_id, 'label ' || n AS label FROM generate_series(1, {size}) AS s(n)"
        yield f"CREATE TABLE {name}s AS {made}"
    numbers = f"(SELECT CAST(i AS bigint) AS n FROM generate_series(1, {rows}) AS s(i)) AS numbers"
    yield f"CREATE TABLE movements AS SELECT n AS movement_id, {', '.join(listed)} FROM {numbers}"
    yield "ANALYZE"


def seconds_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds and the result of a function."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def measure(engine: str, options: dict[str, Any], columns: int) -> bool:
    """Print what joins and sketches take, and return whether every share is within its bound."""

    def fail(what: str, error: SourceError) -> None:
        raise SystemExit(f"{what}: {error}")

    with connect(ConnectionSpec("wh", engine, {**options, "query_timeout_ms": 600_000})) as connector:
        tables = connector.introspect(Scope()).tables
        profiled = profile_tables(connector, tables, Budget())
        facts = gather(connector.dialect, tables, profiled.tables)
        by_name = {table.table.ref.name: table for table in facts.tables}
        large = by_name["movements"]
        pairs = [(large.column(f"{name}_id"), by_name[f"{name}s"].column(f"{name}_id")) for name in NAMES[:columns]]
        exact = [
            seconds_of(
                lambda child=child, key=key: check_in_database(
                    connector, large.table, [child.name], key.table.table, [key.name]
                )
            )
            for child, key in pairs
        ]
        reader = SketchReader(connector, 1, lambda: False, fail)
        own, _ = seconds_of(lambda: reader.read([(child, None) for child, _ in pairs]))
        keys, _ = seconds_of(lambda: reader.read([(key, None) for _, key in pairs]))
        joins = sum(seconds for seconds, _ in exact)
        print(
            f"{engine:<9}{len(pairs)} joins of {large.rows:,} rows: exact {joins:.1f} s in {len(pairs)} statements; "
            f"sketches {own + keys:.1f} s in {reader.statements} ({own:.1f} s for the large table)"
        )
        sound = True
        for (child, key), (seconds, check) in zip(pairs, exact, strict=True):
            found = reader.containment(child, key)
            said = None if found is None else found.check(None)
            if said is None:
                print(f"{engine:<9}  {child.name:<12}{key.table.rows:>10,} keys: too few comparable hashes")
                continue
            most = said.violations if said.at_most is None else said.at_most
            sound &= check.violations <= most + 1e-9
            print(
                f"{engine:<9}  {child.name:<12}{key.table.rows:>10,} keys, join {seconds:>5.1f} s, without a match "
                f"{check.violations:>7.2%}, by sketch {said.violations:>7.2%} of {said.compared or 'all':>5} values, "
                f"at most {most:>6.2%}"
            )
        number = large.column("movement_id")
        unique, _ = seconds_of(lambda: is_unique_in_database(connector, large.table, [number.name]))
        estimate, _ = seconds_of(lambda: SketchReader(connector, 1, lambda: False, fail).repeats(number, [number]))
        print(f"{engine:<9}key of the large table: exact {unique:.1f} s, estimate {estimate:.1f} s", flush=True)
    return sound


def nights(server: PostgresServer, url: str, change: Callable[[Sequence[str]], None], folder: Path) -> bool:
    """Print the statements of three nights, and return whether one without changes sent no statement about rows."""
    database = Database(f"{{driver: postgres, url: '{url}'}}", change)
    project = project_of(database, folder / "nights")
    quiet = True
    for night in ("first", "nothing changed", "one table changed"):
        if night.startswith("one"):
            change(["UPDATE movements SET region_id = region_id WHERE movement_id < 100"])
        since = len(server.log)
        took = scan(project, database, "profile")
        lines = [line for line in server.log[since:].splitlines() if "/* ktx */ SELECT" in line]
        about_rows = [line for line in lines if re.search(r'FROM "public"\."', line)]
        kinds = {
            "sketches": sum("hashtextextended(" in line for line in about_rows),
            "joins": sum("LEFT JOIN" in line for line in about_rows),
            "keys": sum("HAVING count(*)" in line for line in about_rows),
        }
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        print(f"ktx scan, {night}: {took.wall:.1f} s, {len(about_rows)} statements about rows ({listed})", flush=True)
        quiet &= night != "nothing changed" or not about_rows
    return quiet


def main() -> None:
    """Measure, and exit 1 if a bound does not hold or a night without changes sends statements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--columns", type=int, default=len(NAMES), choices=range(1, len(NAMES) + 1))
    parser.add_argument("--engines", nargs="+", default=("duckdb", "postgres"), choices=("duckdb", "postgres"))
    asked = parser.parse_args()
    statements = list(creations(asked.rows, asked.columns))
    sound = True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "duckdb" in asked.engines:
            import duckdb

            with duckdb.connect(str(folder / "wh.duckdb")) as session:
                for statement in statements:
                    session.execute(statement)
            sound &= measure("duckdb", {"path": str(folder / "wh.duckdb")}, asked.columns)
        if "postgres" in asked.engines:
            import psycopg

            server = PostgresServer()
            try:
                stack.enter_context(server)
            except ServerMissingError as error:
                raise SystemExit(f"Postgres: left out, {error}") from error
            url = server.create_database("sketches")

            def change(statements: Sequence[str]) -> None:
                with psycopg.connect(url, autocommit=True) as session:
                    for statement in statements:
                        session.execute(statement.encode())

            change(statements)
            sound &= measure("postgres", {"url": url}, asked.columns)
            sound &= nights(server, url, change, folder)
    if not sound:
        sys.exit("a share is outside its bound, or a night without changes sent statements")


if __name__ == "__main__":
    main()
