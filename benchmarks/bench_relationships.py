"""From an open connection to scored relationships: how long, and how it grows with the number of columns.

Prints, for 1,000, 5,000 and 20,000 columns (tables of 50, every fourth a dimension): seconds of profiling and of the
search, relationships accepted of those that are there, microseconds a column, and the wall time of `ktx scan` on the
same file; then seconds and peak memory of a process that profiles and searches 50,000 columns (2,000 tables of 25).
The search is compared with the naive way, which joins every column with every key in the database,
measured on the smallest and extrapolated by its number of joins. Exit 1 when 20,000 columns take 4 s, the time a
column grows more than twofold from 1,000 to 20,000, or 50,000 columns take 15 s or 600 MB.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.relationship_fixtures.scale import write_scale
from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.ranker import load_ranker
from ktx_cli.warehouses.dialect import quote
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, Table
from ktx_cli.warehouses.registry import connect
from tests.worlds.kills import installed_ktx

SIZES = (20, 100, 400)
COLUMNS = 50
LARGE, LARGE_COLUMNS = 2000, 25
MOST_SECONDS, MOST_MEGABYTES = 15.0, 600


@dataclass(frozen=True)
class Measured:
    """Seconds of each part for a number of tables; `naive`: of joining every column with every key."""

    tables: int
    profile: float
    search: float
    accepted: int
    links: int
    command: float
    naive: float

    @property
    def total(self) -> float:
        return self.profile + self.search


def measure(folder: Path, count: int) -> Measured:
    truth = write_scale(folder, 7, count)
    with connect(ConnectionSpec("w", "sqlite", {"path": str(folder / "data.sqlite")})) as connector:
        tables = connector.introspect(Scope()).tables
        started = time.perf_counter()
        profiled = profile_tables(connector, tables, Budget())
        between = time.perf_counter()
        found = discover(connector, tables, profiled.tables, Relationships())
        ended = time.perf_counter()
        naive = _naive(connector, tables, [(key.table, key.columns[0]) for key in truth.primary_keys])
    wanted = set(map(tuple, truth.links))
    right = {(e.child.name, e.child_columns, e.parent.name, e.parent_columns) for e in found.accepted()} & wanted
    return Measured(count, between - started, ended - between, len(right), len(wanted), _command(folder), naive)


def _naive(connector: Connector, tables: tuple[Table, ...], keys: list[tuple[str, str]]) -> float:
    """Return the seconds of one join for every column and key, from two hundred of them."""
    columns = [(table.ref.name, column.name) for table in tables for column in table.columns]
    tried = [(child, key) for key in keys[:10] for child in columns[:: max(1, len(columns) // 20)][:20]]
    started = time.perf_counter()
    for (table, column), (parent, key) in tried:
        own, other = quote(column, "sqlite"), quote(key, "sqlite")
        connector.query(
            f"SELECT count(*) FROM {quote(table, 'sqlite')} AS c LEFT JOIN {quote(parent, 'sqlite')} AS p "
            f"ON p.{other} = c.{own} WHERE p.{other} IS NULL"
        )
    return (time.perf_counter() - started) / len(tried) * len(columns) * len(keys)


def _command(folder: Path) -> float:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}

    def ktx(*args: str) -> None:
        subprocess.run([installed_ktx(), *args], cwd=folder, env=environ, check=True, capture_output=True)

    ktx("setup", "--database", "sqlite", "--database-path", "data.sqlite")
    started = time.perf_counter()
    ktx("scan")
    return time.perf_counter() - started


def measure_large(folder: Path) -> tuple[float, int]:
    """Return the seconds and the peak memory in megabytes of a process that profiles and searches a large database."""
    write_scale(folder, 7, LARGE, LARGE_COLUMNS)
    run = [sys.executable, __file__, ALONE, str(folder / "data.sqlite")]
    seconds, kilobytes = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(kilobytes) // 1024


ALONE = "--alone"


def alone(path: str) -> int:
    """Profile and search one database, and print the seconds and the peak memory in kilobytes."""
    with connect(ConnectionSpec("w", "sqlite", {"path": path})) as connector:
        tables = connector.introspect(Scope()).tables
        started = time.perf_counter()
        profiled = profile_tables(connector, tables, Budget())
        discover(connector, tables, profiled.tables, Relationships())
        print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return 0


def main() -> int:
    if sys.argv[1:2] == [ALONE]:
        return alone(sys.argv[2])
    load_ranker()
    rows = []
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(Path(folder), count))
    print("columns  profile   search    total  a column  accepted    `ktx scan`  naive joins  times faster")
    for row in rows:
        columns = row.tables * COLUMNS
        parts = f"{row.profile:6.2f}s  {row.search:6.2f}s  {row.total:6.2f}s  {row.total / columns * 1e6:5.0f} us"
        accepted = f"{row.accepted:4}/{row.links:<4}"
        times = row.naive / row.total
        print(f"{columns:7,}  {parts}  {accepted}  {row.command:9.2f}s  {row.naive:10.1f}s  {times:10.0f}")
    growth = (rows[-1].total / rows[-1].tables) / (rows[0].total / rows[0].tables)
    print(f"time a column, 20,000 against 1,000 columns: {growth:.2f} times")
    with tempfile.TemporaryDirectory() as folder:
        seconds, megabytes = measure_large(Path(folder))
    ratio = seconds / (LARGE * LARGE_COLUMNS) / (rows[-1].total / (SIZES[-1] * COLUMNS))
    print(f"50,000 columns: {seconds:.2f}s, {megabytes} MB; time a column, against 20,000: {ratio:.2f} times")
    too_large = seconds >= MOST_SECONDS or megabytes >= MOST_MEGABYTES
    return int(rows[-1].total >= 4.0 or growth > 2.0 or too_large)


if __name__ == "__main__":
    sys.exit(main())
