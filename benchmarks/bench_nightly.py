"""Nightly scans of an estate: the first one, one with nothing changed, and one with 1 % of the tables changed.

An estate is one database of N tables in schemas of 100, with 20 columns and 40 rows a table: a key, references to three
other tables, times, texts and numbers. Printed for each size: the seconds of CPU and the elapsed seconds of `ktx scan
--depth structural` and `--depth profile`, each in a process of its own, the SELECTs that the database received (not
counted in DuckDB, which runs in that process), the CPU as a share of the first scan of the same depth, and its growth
from size to size. CPU is that of ktx alone, without the server's; elapsed seconds also have the server's work, on the
same machine. A DuckDB file has evidence for all its tables together: a change of one table makes a scan read all. Exit
1 when the second night with changes on Postgres takes more than 60 s of CPU, or sends more than 20 SELECTs for each
changed table and 60 others; also when Postgres was asked for and is not installed.

    python benchmarks/bench_nightly.py [--sizes 500 5000] [--engines postgres duckdb] [--share 0.01]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.testing.servers import PostgresServer, ServerMissingError
from tests.worlds.kills import installed_ktx

KTX = str(installed_ktx())
SIZES = (500, 5_000)
SCHEMA, ROWS, AT_ONCE = 100, 40, 250
"""The tables of a schema, the rows of a table, and the statements sent together when an estate is built."""

_SELECT = re.compile(r"/\* ktx \*/\s*(?:SELECT|WITH)\b")

NOUNS = (
    *("order", "invoice", "payment", "shipment", "contract", "ticket", "campaign", "session", "employee", "asset"),
    *("claim", "quote", "return", "budget", "forecast", "delivery", "supplier", "customer", "product", "store"),
)
QUALIFIERS = (
    *("line", "header", "history", "snapshot", "event", "summary", "detail", "adjustment", "allocation", "status"),
    *("daily", "monthly", "archive", "audit", "target", "plan", "balance", "movement", "group", "type"),
)
NUMBERS = ("amount", "quantity", "price", "discount", "weight", "score")
TEXTS = ("state", "channel", "category", "reason", "unit", "method")


def table_name(number: int) -> str:
    """Return the name of a table."""
    noun, rest = NOUNS[number % len(NOUNS)], number // len(NOUNS)
    qualifier, again = QUALIFIERS[rest % len(QUALIFIERS)], rest // len(QUALIFIERS)
    return f"{noun}_{qualifier}" + (f"_{again + 1}" if again else "")


def schema_of(number: int) -> str:
    """Return the schema of a table."""
    return f"area_{number // SCHEMA:03}"


def path_of(number: int) -> str:
    """Return a table's name in statements."""
    return f'{schema_of(number)}."{table_name(number)}"'


def creation(number: int, tables: int) -> str:
    """Return the statement that creates a table with its rows."""
    dice = random.Random(f"table {number}")
    first = number // SCHEMA * SCHEMA
    near = dice.sample(range(first, min(first + SCHEMA, tables)), 2)
    targets = [each for each in dict.fromkeys((*near, dice.randrange(tables))) if each != number]
    start = 1 + 1000 * number  # Keys of one estate come from one sequence, as in an operational database.
    columns = [f"{start} + i AS id"]
    columns += [
        f"1 + {1000 * each} + (i * {dice.randrange(1, 9)}) % {ROWS} AS {table_name(each)}_id" for each in targets
    ]
    columns += [f"DATE '2024-01-01' + CAST(i * {dice.randrange(1, 9)} AS int) AS created_on"]
    columns += [f"(i * {dice.randrange(3, 99)}) % 997 / 4.0 AS {each}" for each in NUMBERS]
    columns += [f"'{each} ' || (i % {dice.randrange(2, 9)}) AS {each}" for each in TEXTS]
    columns += [f"(i * {dice.randrange(3, 99)}) % {dice.randrange(50, 900)} AS measure_{at}" for at in range(3)]
    return f"CREATE TABLE {path_of(number)} AS SELECT {', '.join(columns)} FROM generate_series(0, {ROWS - 1}) AS s(i)"


def creations(tables: int) -> Iterator[str]:
    """Yield the statements that build an estate."""
    yield from (f"CREATE SCHEMA {schema_of(number)}" for number in range(0, tables, SCHEMA))
    yield from (creation(number, tables) for number in range(tables))


def edits(tables: int, share: float, night: int) -> list[str]:
    """Return the statements that change a share of the tables, others each night."""
    chosen = random.Random(f"night {night}").sample(range(tables), max(1, round(tables * share)))
    return [f"UPDATE {path_of(number)} SET amount = amount + {night} WHERE quantity < 100" for number in chosen]


@dataclass
class Database:
    """A database of an estate: its entry in `ktx.yaml`, how to change it, and the statements that it has received."""

    entry: str
    change: Callable[[Sequence[str]], None]
    statements: Callable[[], int] | None = None


def selects(log: str) -> int:
    """Return how many SELECTs of ktx are in the log of a Postgres server."""
    return len(_SELECT.findall(log))


def on_postgres(server: PostgresServer, tables: int) -> Database:
    """Return an estate on a Postgres server."""
    import psycopg

    url = server.create_database(f"estate_{tables}")

    def change(statements: Sequence[str]) -> None:
        with psycopg.connect(url, autocommit=True) as session:
            for start in range(0, len(statements), AT_ONCE):
                session.execute(";".join(statements[start : start + AT_ONCE]).encode())

    change([*creations(tables), "ANALYZE"])
    return Database(f"{{driver: postgres, url: '{url}'}}", change, lambda: selects(server.log))


def on_duckdb(folder: Path, tables: int) -> Database:
    """Return an estate in a DuckDB file."""
    import duckdb

    path = folder / f"estate_{tables}.duckdb"

    def change(statements: Sequence[str]) -> None:
        with duckdb.connect(str(path)) as database:
            for statement in statements:
                database.execute(statement)

    change(list(creations(tables)))
    return Database(f"{{driver: duckdb, path: '{path}'}}", change)


def project_of(database: Database, folder: Path) -> Path:
    """Return a new project on a database."""
    folder.mkdir(parents=True)
    config = f"llm: {{provider: {{backend: none}}}}\nconnections:\n  wh: {database.entry}\n"
    (folder / "ktx.yaml").write_text(config + "scan: {budget: {seconds: 3600}}\n")
    (folder / ".gitignore").write_text(".ktx/\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "an estate")):
        named = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
        subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)
    return folder


@dataclass
class Night:
    """What a scan took: seconds of CPU and in all, and SELECTs, None if they are not counted."""

    cpu: float
    wall: float
    statements: int | None


def scan(project: Path, database: Database, depth: str) -> Night:
    """Run `ktx scan` as a process of its own."""
    environ = {**os.environ, "HOME": str(project.parent), "XDG_CONFIG_HOME": str(project.parent / "config")}
    environ |= {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    counted = database.statements
    before, started = 0 if counted is None else counted(), time.perf_counter()
    words = [KTX, "--project-dir", str(project), "scan", "--depth", depth, "--json"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ktx scan failed ({process.returncode}): {said.decode()[-2000:]}")
    wall = time.perf_counter() - started
    return Night(usage.ru_utime + usage.ru_stime, wall, None if counted is None else counted() - before)


NIGHTS = ("structure, first", "structure, again", "first", "nothing changed", "changed", "changed again")


def measure(name: str, database: Database, tables: int, share: float, folder: Path) -> dict[str, Night]:
    """Print and return what the scans of an estate take."""
    project = project_of(database, folder / f"{name}_{tables}")
    found: dict[str, Night] = {}
    for number, night in enumerate(NIGHTS):
        if night.startswith("changed"):
            database.change(edits(tables, share, number))
        found[night] = scan(project, database, "structural" if night.startswith("structure") else "profile")
        took, first = found[night], found["structure, first" if night.startswith("structure") else "first"]
        sent = "not counted" if took.statements is None else f"{took.statements:,} SELECTs"
        print(
            f"{name:<9}{tables:>6,} tables  {night:<17}{took.cpu:>8.1f} s CPU of ktx,{took.wall:>8.1f} s elapsed,"
            f"{sent:>15}, {took.cpu / first.cpu:>6.1%} of the CPU of the first",
            flush=True,
        )
    return found


def grown(name: str, measured: dict[int, dict[str, Night]]) -> None:
    """Print how the seconds of CPU grow from size to size."""
    sizes = sorted(measured)
    for small, large in pairwise(sizes):
        for night in NIGHTS:
            ratio = measured[large][night].cpu / measured[small][night].cpu
            print(f"{name:<9}{night:<17} {large / small:g} times the tables take {ratio:.1f} times the CPU")


def main() -> None:
    """Measure, and exit 1 if a night is slower than promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engines", nargs="+", default=("postgres", "duckdb"), choices=("postgres", "duckdb"))
    parser.add_argument("--share", type=float, default=0.01)
    asked = parser.parse_args()
    failed = []
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {asked.share:.1%} of the tables changed each night")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for engine in asked.engines:
            measured: dict[int, dict[str, Night]] = {}
            server = PostgresServer()
            if engine == "postgres":
                try:
                    stack.enter_context(server)
                except ServerMissingError as error:
                    failed.append(f"Postgres was left out: {error}")
                    continue
            for tables in asked.sizes:
                database = on_postgres(server, tables) if engine == "postgres" else on_duckdb(folder, tables)
                measured[tables] = measure(engine, database, tables, asked.share, folder)
                changed, most = measured[tables]["changed again"], 60 + 20 * max(1, round(tables * asked.share))
                if engine == "postgres" and (changed.cpu > 60 or (changed.statements or 0) > most):
                    failed.append(f"{tables:,} tables take more than 60 s of CPU or {most:,} SELECTs")
            grown(engine, measured)
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
