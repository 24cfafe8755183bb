"""Estates of 500, 5,000 and 50,000 tables: what commands take of CPU and memory, and how that grows.

An estate is a project of 10 connections, with 40 columns a table, descriptions, joins, a source file with measures for
every fifth table, and a manifest shard for every 50, or for each one with `--layout per-table`. Each command runs as a
process of its own: CPU seconds of user and system together, and the most memory it had. Printed for each size: `ktx
index` from nothing, with nothing changed, after an edit of a source file and of a manifest shard; `ktx sl query
--no-execute` of different questions, and right after an edit; `search`, also in one process that asks again and again;
`sl list`, `sl read`, `status`, `lint` of one connection; and how long an MCP server takes from its start to its first
answer. Then the targets, and which are met at the largest size measured. They are those of a machine on which `ktx
--help` takes 0.2 s, so that one is missed decides the exit code with `--strict` alone.

    python benchmarks/bench_estate.py [--sizes 500 5000 50000] [--layout per-table] [--keep FOLDER]
                                      [--only index query ...] [--strict]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.semantic import ManifestLayout
from ktx_cli.warehouses import TableRef
from tests.worlds.kills import installed_ktx

KTX = str(installed_ktx())
SIZES = (500, 5_000)
DOMAINS = (
    *("sales", "finance", "logistics", "people", "marketing"),
    *("support", "product", "risk", "partners", "plants"),
)
SHARD, FACT = 50, 5
"""How many tables are in a shard, and every which table has measures."""
QUERIES, SEARCHES = 12, 200

NOUNS = (
    *("order", "invoice", "payment", "shipment", "contract", "ticket", "campaign", "session", "employee", "asset"),
    *("claim", "quote", "return", "budget", "forecast", "delivery", "supplier", "customer", "product", "store"),
    *("region", "account", "machine", "shift", "survey", "visit", "lead", "policy", "project", "vehicle"),
)
QUALIFIERS = (
    *("line", "header", "history", "snapshot", "event", "summary", "detail", "adjustment", "allocation", "status"),
    *("daily", "monthly", "archive", "audit", "target", "plan", "balance", "movement", "group", "type"),
)
PARTS = (
    *("billing", "shipping", "net", "gross", "planned", "actual", "first", "last", "parent", "legal", "local"),
    *("original", "previous", "confirmed", "requested", "internal", "external", "estimated", "reported", "primary"),
)
TEXTS = (
    *("status", "city", "country", "currency", "channel", "category", "owner", "code", "name", "email", "reason"),
    *("priority", "segment", "language", "unit", "method", "source", "comment", "brand", "colour"),
)
NUMBERS = (
    *("amount", "quantity", "price", "discount", "tax", "weight", "duration", "score", "cost", "margin", "hours"),
    *("balance", "rate", "volume", "distance", "count"),
)


@dataclass(frozen=True)
class Table:
    """One table of an estate, all of it made from its connection and number; `size`: tables of the connection."""

    domain: str
    number: int
    size: int

    @property
    def name(self) -> str:
        """The name of the table and of its source."""
        return _table_name(self.number)

    @property
    def is_fact(self) -> bool:
        """Whether it has measures."""
        return self.number % FACT == FACT - 1

    @property
    def schema(self) -> str:
        """The schema it is in."""
        return f"{self.domain}_{self.number // SHARD:03}"

    def targets(self) -> list[Table]:
        """Return the tables it joins: two of its own schema, one of another."""
        first = self.number // SHARD * SHARD
        dice = random.Random(f"joins {self.domain} {self.number}")
        own = dice.sample(range(first, first + SHARD), 2)
        found = dict.fromkeys((*own, dice.randrange(self.size)))
        tables = (Table(self.domain, number, self.size) for number in found)
        return [each for each in tables if not each.is_fact and each.number != self.number]

    def columns(self) -> list[tuple[str, str, str]]:
        """Return (name, type, description) of the 40 columns."""
        dice = random.Random(f"columns {self.domain} {self.number}")
        found = [("id", "number", ""), *((f"{each.name}_id", "number", "") for each in self.targets())]
        found += [("created_at", "time", f"When the {self.name} was recorded."), ("updated_at", "time", "")]
        pairs = [(part, noun, kind) for part in PARTS for nouns, kind in _KINDS for noun in nouns]
        for part, noun, kind in dice.sample(pairs, 40 - len(found)):
            words = f"The {part} {noun} of the {self.name.replace('_', ' ')}, as {dice.choice(_SYSTEMS)} has it."
            found.append((f"{part}_{noun}", kind, words if dice.random() < 0.5 else ""))
        return found

    def columns_of(self, kind: str) -> list[str]:
        """Return the names of its described columns of a kind."""
        return [name for name, each, _ in self.columns() if each == kind and name[-3:] != "_id" and name != "id"]

    def entry(self) -> str:
        """Return its entry in the manifest."""
        lines = [f"  {self.name}:", f"    table: {self.schema}.{self.name}"]
        described = f"One row per {self.name.replace('_', ' ')} of {self.domain}, schema {self.schema}."
        lines += ["    descriptions:", f"      db: {described}", "    columns:"]
        for name, kind, text in self.columns():
            lines += [f"      - name: {name}", f"        type: {kind}"]
            lines += ["        pk: true", "        nullable: false"] if name == "id" else []
            lines += ["        descriptions:", f"          db: {text}"] if text else []
        targets = self.targets()
        lines += ["    joins:"] if targets else []
        for target in targets:
            lines += [f"      - to: {target.name}", f'        "on": {target.name}_id = {target.name}.id']
            lines += ["        relationship: many_to_one", "        source: inferred"]
        return "\n".join(lines) + "\n"

    def own_file(self) -> str:
        """Return the source file with its measures."""
        first, second = self.columns_of("number")[:2]
        text = self.columns_of("string")[0]
        words = self.name.replace("_", " ")
        return (
            f"name: {self.name}\n"
            f"default_time_dimension: {{dbt: created_at}}\n"
            f"segments:\n  - {{name: open, expr: \"{text} = 'open'\"}}\n"
            f"measures:\n"
            f"  - name: {self.name}_count\n    expr: count(*)\n    description: How many rows of {words}.\n"
            f"  - name: total_{first}\n    expr: sum({first})\n"
            f"    description: All {first.replace('_', ' ')} of {words} in {self.domain}.\n"
            f"    questions: [How much {first.replace('_', ' ')} did {words} have?]\n"
            f"  - name: mean_{second}\n    expr: avg({second})\n"
        )


_KINDS = ((TEXTS, "string"), (NUMBERS, "number"))
_SYSTEMS = ("the ledger", "the shop", "the planning tool", "the old warehouse", "the mobile app", "the contract")


def _table_name(number: int) -> str:
    noun, rest = NOUNS[number % len(NOUNS)], number // len(NOUNS)
    qualifier, again = QUALIFIERS[rest % len(QUALIFIERS)], rest // len(QUALIFIERS)
    return f"{noun}_{qualifier}" + (f"_{again + 1}" if again else "")


def tables_of(domain: str, size: int) -> Iterator[Table]:
    """Yield the tables of a connection one by one."""
    return (Table(domain, number, size) for number in range(size))


def write_estate(folder: Path, tables: int, layout: ManifestLayout = ManifestLayout.PER_SCHEMA) -> None:
    """Write a project with so many tables, and commit it."""
    size = tables // len(DOMAINS)
    connections = "".join(f"  {each}: {{driver: duckdb, path: {each}.duckdb}}\n" for each in DOMAINS)
    folder.mkdir(parents=True)
    (folder / "ktx.yaml").write_text(
        f"llm: {{provider: {{backend: none}}}}\nsemantic: {{layout: {layout}}}\nconnections:\n{connections}"
    )
    (folder / ".gitignore").write_text(".ktx/\n*.duckdb\n")
    for domain in DOMAINS:
        place = folder / "semantic-layer" / domain
        shards: dict[str, list[str]] = {}
        for each in tables_of(domain, size):
            shards.setdefault(layout.path_of(domain, TableRef(each.schema, each.name)), []).append(each.entry())
        for path, entries in shards.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("tables:\n" + "".join(entries))
        for each in tables_of(domain, size):
            if each.is_fact:
                (place / f"{each.name}.yaml").write_text(each.own_file())
    for words in (("init", "-q"), ("add", "-A"), ("-c", "gc.auto=0", "commit", "-q", "-m", "an estate")):
        named = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
        subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def questions(domain: str, size: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield questions with one measure or two and a dimension of a joined table."""
    dice = random.Random(count)
    facts = [each for each in tables_of(domain, size) if each.is_fact and each.targets()]
    for number in range(count):
        fact = dice.choice(facts)
        target = dice.choice(fact.targets())
        numbers = fact.columns_of("number")
        measures = [f"{fact.name}.total_{numbers[0]}", f"{fact.name}.{fact.name}_count"][: 1 + number % 2]
        yield {"measures": measures, "dimensions": [f"{target.name}.{target.columns_of('string')[0]}"]}


def searches(count: int) -> list[str]:
    """Return queries of one to five words, some of them names of tables and columns, one in ten mistyped."""
    dice = random.Random(count)
    words = (*NOUNS, *QUALIFIERS, *PARTS, *TEXTS, *NUMBERS, *DOMAINS)
    found = []
    for number in range(count):
        asked = [dice.choice(words) for _ in range(1 + number % 5)]
        if number % 10 == 0 and len(asked[0]) > 5:
            asked[0] = asked[0][:2] + "q" + asked[0][3:]
        found.append(" ".join(asked))
    return found


@dataclass
class Measured:
    """What a command took: CPU seconds, seconds, and megabytes at most."""

    cpu: float
    wall: float
    megabytes: float


def run(folder: Path, *words: str, codes: Sequence[int] = (0,)) -> Measured:
    """Run a command as a process of its own."""
    started = time.perf_counter()
    environ = {**os.environ, "HOME": str(folder.parent), "XDG_CONFIG_HOME": str(folder.parent / "config")}
    with subprocess.Popen(
        [KTX, "--project-dir", str(folder), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environ,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise SystemExit(f"ktx {' '.join(words)} failed ({process.returncode}): {said.decode()[-2000:]}")
    return Measured(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024)


@dataclass
class Estate:
    """An estate on disk, and what was measured on it."""

    folder: Path
    tables: int
    figures: dict[str, float] = field(default_factory=dict)
    """Target -> what was measured."""

    @property
    def size(self) -> int:
        """How many tables a connection has."""
        return self.tables // len(DOMAINS)

    def show(self, name: str, found: Sequence[Measured]) -> None:
        """Print what a command took."""
        times = sorted(each.cpu for each in found)
        spread = f"p95 {_part(times, 0.95):7.2f} s" if len(times) > 2 else " " * 13
        most = max(each.megabytes for each in found)
        wall = statistics.median(each.wall for each in found)
        print(
            f"{self.tables:>7,}  {name:34} {statistics.median(times):8.2f} s CPU {spread} {wall:8.2f} s wall"
            f" {most:7.0f} MB",
            flush=True,
        )

    def measure(self, name: str, *words: str, times: int = 3, codes: Sequence[int] = (0,)) -> list[Measured]:
        """Run a command some times, print and return what it took."""
        found = [run(self.folder, *words, codes=codes) for _ in range(times)]
        self.show(name, found)
        return found


def _part(times: list[float], part: float) -> float:
    return times[min(len(times) - 1, int(len(times) * part))]


def measure_index(estate: Estate) -> None:
    """Make the stores and the search index, then bring them up to date after edits."""
    shutil.rmtree(estate.folder / ".ktx", ignore_errors=True)
    estate.measure("index from nothing", "index", times=1)
    size = sum(path.stat().st_size for path in (estate.folder / ".ktx").rglob("*") if path.is_file())
    print(f"{estate.tables:>7,}  {'size of .ktx':34} {size / 1e6:8.0f} MB")
    estate.measure("index, nothing changed", "index")
    found = []
    for number in range(3):
        edit_own(estate, number)
        found.append(run(estate.folder, "index"))
    estate.show("index, one source file edited", found)
    estate.figures["one edited file, index"] = statistics.median(each.cpu for each in found)
    edit_shard(estate)
    (shard,) = estate.measure("index, one shard edited", "index", times=1)
    estate.figures["one edited shard, index"] = shard.cpu


def edit_own(estate: Estate, number: int) -> Table:
    """Change a description in a source file; return its table."""
    fact = [each for each in tables_of(DOMAINS[3], estate.size) if each.is_fact][number]
    path = estate.folder / "semantic-layer" / DOMAINS[3] / f"{fact.name}.yaml"
    path.write_text(path.read_text().replace("How many rows", "How very many rows", 1))
    return fact


def edit_shard(estate: Estate) -> None:
    """Change the description of one table in a manifest shard."""
    path = min((estate.folder / "semantic-layer" / DOMAINS[4] / "_schema").rglob("*.yaml"))
    path.write_text(path.read_text().replace("One row per", "Exactly one row per", 1))


def measure_query(estate: Estate) -> None:
    """Compile questions, each in a process of its own."""
    words = ("sl", "query", "--no-execute", "--json", "-c")
    asked = [json.dumps(each) for each in questions(DOMAINS[5], estate.size, QUERIES)]
    found = [run(estate.folder, *words, DOMAINS[5], each) for each in asked]
    estate.show("sl query, compiled", found)
    estate.figures["sl query"] = statistics.median(each.cpu for each in found)
    estate.figures["sl query, p95"] = _part(sorted(each.cpu for each in found), 0.95)
    estate.figures["sl query, memory"] = max(each.megabytes for each in found)
    edited = []
    for number in range(3):
        fact = edit_own(estate, 3 + number)
        question = {"measures": [f"{fact.name}.{fact.name}_count"]}
        edited.append(run(estate.folder, *words, DOMAINS[3], json.dumps(question)))
    estate.show("sl query, a source file edited", edited)
    estate.figures["one edited file, sl query"] = statistics.median(each.cpu for each in edited)
    run(estate.folder, "index")


SEARCHING = """
import json, sys, time
from pathlib import Path
from ktx_cli.agent_tools import open_searcher
from ktx_cli.project import Layout, load_config
layout = Layout(Path(sys.argv[1]))
searcher = open_searcher(layout, load_config(layout.config).config, {})
times = []
for query in json.loads(sys.argv[2]):
    started = time.process_time()
    searcher.search(query)
    times.append(time.process_time() - started)
print(json.dumps(times))
"""


def measure_search(estate: Estate) -> None:
    """Search in processes of their own, in one again and again, and after an edit."""
    asked = searches(SEARCHES)
    alone = [run(estate.folder, "search", each) for each in asked[:8]]
    estate.show("search, a process each", alone)
    program = [sys.executable, "-c", SEARCHING, str(estate.folder), json.dumps(asked)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    first, *times = json.loads(done.stdout)
    times = sorted(1000 * each for each in times)
    cuts = (statistics.median(times), _part(times, 0.95), _part(times, 0.99))
    print(
        f"{estate.tables:>7,}  {'search, one process':34} p50 {cuts[0]:.1f} ms  p95 {cuts[1]:.1f} ms"
        f"  p99 {cuts[2]:.1f} ms CPU; the first {1000 * first:.0f} ms",
        flush=True,
    )
    estate.figures["search, p95"] = cuts[1] / 1000
    edit_own(estate, 6)
    estate.show("search, a source file edited", [run(estate.folder, "search", asked[1])])
    run(estate.folder, "index")


def measure_rest(estate: Estate) -> None:
    """Run the other commands that read."""
    domain = DOMAINS[5]
    estate.measure("sl list of one connection", "sl", "list", "-c", domain)
    estate.measure("sl read", "sl", "read", "-c", domain, _table_name(3))
    status = estate.measure("status", "status", codes=(0, 3))
    estate.figures["status"] = statistics.median(each.cpu for each in status)
    estate.measure("lint of one connection", "lint", "-c", domain, times=1, codes=(0, 1))


def measure_mcp(estate: Estate) -> None:
    """Start a server and ask it its first question, on a database that has the tables asked about."""
    import duckdb

    domain = DOMAINS[6]
    question = next(iter(questions(domain, estate.size, 1)))
    names = {each.partition(".")[0] for part in question.values() for each in part}
    place = estate.folder / f"{domain}.duckdb"
    place.unlink(missing_ok=True)
    with duckdb.connect(str(place)) as database:
        for table in (each for each in tables_of(domain, estate.size) if each.name in names):
            types = {"number": "BIGINT", "string": "VARCHAR", "time": "TIMESTAMP"}
            columns = ", ".join(f'"{name}" {types[kind]}' for name, kind, _ in table.columns())
            database.execute(f"CREATE SCHEMA IF NOT EXISTS {table.schema}")
            database.execute(f"CREATE TABLE {table.schema}.{table.name} ({columns})")
    seconds = [first_answer(estate.folder, {**question, "connection": domain}) for _ in range(3)]
    print(
        f"{estate.tables:>7,}  {'mcp, start to first answer':34} {statistics.median(seconds):8.2f} s wall", flush=True
    )


def first_answer(folder: Path, question: dict[str, Any]) -> float:
    """Return how long a server takes from its start to the answer of its first question."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "sl_query", "arguments": question}},
    ]
    started = time.perf_counter()
    command = [KTX, "--project-dir", str(folder), "mcp", "stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answer = _answer(server.stdout, message["id"])
        seconds = time.perf_counter() - started
        server.stdin.close()
    if answer["result"].get("isError"):
        raise SystemExit(f"the server answers: {answer['result']['content']}")
    return seconds


def _answer(lines: Any, number: int) -> dict[str, Any]:
    for line in lines:
        message: dict[str, Any] = json.loads(line)
        if message.get("id") == number:
            return message
    raise SystemExit("the server ended without an answer")


PARTS_OF_IT: dict[str, Callable[[Estate], None]] = {
    "index": measure_index,
    "query": measure_query,
    "search": measure_search,
    "rest": measure_rest,
    "mcp": measure_mcp,
}
TARGETS = {
    "sl query": (0.5, "s CPU"),
    "sl query, memory": (500, "MB"),
    "one edited file, sl query": (1.0, "s CPU"),
    "one edited file, index": (1.0, "s CPU"),
    "search, p95": (0.15, "s CPU"),
    "status": (0.5, "s CPU"),
}
GROWTH = 2.0
"""How much longer `sl query` may take on the largest estate than on the smallest."""


def judge(estates: list[Estate]) -> list[str]:
    """Print which targets are met by the largest estate; return those that are not."""
    small, large = estates[0], estates[-1]
    rows = [(name, large.figures.get(name), most, unit) for name, (most, unit) in TARGETS.items()]
    if len(estates) > 1 and "sl query" in large.figures:
        growth = large.figures["sl query"] / small.figures["sl query"]
        rows.append((f"sl query, growth from {small.tables:,} to {large.tables:,} tables", growth, GROWTH, "x"))
    missed = []
    for name, found, most, unit in rows:
        if found is not None:
            verdict = "met" if found <= most else "NOT MET"
            print(f"{large.tables:>7,}  {name:52} {found:8.2f} {unit:6} at most {most:6g}: {verdict}")
            missed += [name] if found > most else []
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument(
        "--layout", type=ManifestLayout, choices=list(ManifestLayout), default=ManifestLayout.PER_SCHEMA
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS_OF_IT), default=list(PARTS_OF_IT))
    parser.add_argument("--keep", type=Path, help="where estates are made and kept, to measure them again")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    asked = parser.parse_args()
    estates = []
    with tempfile.TemporaryDirectory() as name:
        for tables in sorted(asked.sizes):
            estate = Estate((asked.keep or Path(name)) / f"estate-{tables}", tables)
            if not estate.folder.exists():
                write_estate(estate.folder, tables, asked.layout)
            estate.measure("--help, for how fast this machine is", "--help", times=5)
            for part in asked.only:
                PARTS_OF_IT[part](estate)
            estates.append(estate)
        missed = judge(estates)
    if missed:
        print(f"not met: {', '.join(missed)}", file=sys.stderr)
    if missed and asked.strict:
        sys.exit(1)


if __name__ == "__main__":
    main()
