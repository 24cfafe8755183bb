"""Generates the company for a seed as a DuckDB file, and describes what each table and column is."""

from __future__ import annotations

import csv
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.jobs.proof.company.tables import TABLES

if TYPE_CHECKING:
    import duckdb

START: Final = datetime(2023, 1, 1)
DAYS: Final = 900


class Role(StrEnum):
    """The meaning of a table's rows."""

    FACT = "fact"
    """Things that happened, which people count and sum."""
    ENTITY = "entity"
    """Things and people with attributes."""
    LOOKUP = "lookup"
    """Lists that other tables refer to."""
    STATES = "states"
    """The state of something at a time: snapshots, versions, plans, prices, and records of changes."""
    BRIDGE = "bridge"
    """Pairs of keys."""
    COPY = "copy"
    """Staged or old rows of another table."""


class Kind(StrEnum):
    """The meaning of a column's values. Only amounts, quantities and durations of facts may be added up."""

    KEY = "key"
    REF = "ref"
    AMOUNT = "amount"
    MIXED = "mixed"
    """Amounts in the currency of their row."""
    QUANTITY = "quantity"
    DURATION = "duration"
    WAIT = "wait"
    """Times between two events, which are averaged."""
    SHARE = "share"
    PERCENT = "percent"
    RATE = "rate"
    PRICE = "price"
    BALANCE = "balance"
    RUNNING = "running"
    """Counters that only grow."""
    STATE = "state"
    """Limits, targets, estimates and attributes that apply to a period."""
    ORDINAL = "ordinal"
    """Positions, versions, priorities, and parts of dates."""
    CODE = "code"
    """Digits that identify or locate: postal codes, phone and document numbers."""
    PLACE = "place"
    MEASURE = "measure"
    """Measurements of a thing: weights, temperatures, ages, distances on a screen."""
    SCORE = "score"
    FLAG = "flag"
    STATUS = "status"
    """One of few values that nothing declares."""
    ENUM = "enum"
    CHECK = "check"
    CURRENCY = "currency"
    TIME = "time"
    DATE = "date"
    PERIOD_START = "period_start"
    PERIOD_END = "period_end"
    NAME = "name"
    EMAIL = "email"
    JSON = "json"


ADDITIVE: Final = frozenset({Kind.AMOUNT, Kind.QUANTITY, Kind.DURATION})
_TYPES: Final = {
    **dict.fromkeys((Kind.AMOUNT, Kind.MIXED, Kind.PRICE, Kind.BALANCE), "DECIMAL(14,2)"),
    **dict.fromkeys((Kind.SHARE, Kind.PERCENT, Kind.RATE, Kind.PLACE), "DOUBLE"),
    **dict.fromkeys((Kind.TIME,), "TIMESTAMP"),
    **dict.fromkeys((Kind.DATE, Kind.PERIOD_START, Kind.PERIOD_END), "DATE"),
    **dict.fromkeys((Kind.NAME, Kind.EMAIL, Kind.STATUS, Kind.CHECK, Kind.CURRENCY), "VARCHAR"),
    Kind.FLAG: "BOOLEAN",
    Kind.JSON: "JSON",
}
_WORDS: Final = (
    *("north", "amber", "field", "stone", "river", "light", "copper", "cedar"),
    *("bright", "harbor", "summit", "willow", "iron", "maple", "delta"),
)
_TEST_ROWS: Final = 0.02
_DOUBLED: Final = 0.02
_EMPTY: Final = {Kind.AMOUNT: 0.03, Kind.SCORE: 0.3, Kind.MEASURE: 0.1, Kind.FLAG: 0.02, Kind.STATUS: 0.02}


@dataclass(frozen=True, slots=True)
class CompanyColumn:
    """A column. `arguments`: what its kind needs to draw values. `concept`: the name that the plan uses for it,
    whatever the seed calls it. `derived`: SQL that computes it from the other columns, once the rows are loaded.
    """

    name: str
    kind: Kind
    arguments: tuple[str, ...]
    concept: str = ""
    derived: str = ""

    @property
    def weights(self) -> dict[str, int]:
        """Value -> how often it occurs, for a column with few values."""
        return {value: int(count) for value, _, count in (each.partition("=") for each in self.arguments)}

    @property
    def in_cents(self) -> bool:
        """Whether the column contains whole cents."""
        return self.kind is Kind.AMOUNT and "cents" in self.name


@dataclass(frozen=True, slots=True)
class CompanyTable:
    """A table. `concept`: the name that references use, whatever the seed calls it. `has_copies`: some rows are
    there twice, so that no key is declared.
    """

    schema: str
    name: str
    concept: str
    role: Role
    rows: int
    columns: tuple[CompanyColumn, ...]
    has_copies: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def names(self) -> SimpleNamespace:
        """Concept -> name of each column."""
        return SimpleNamespace(**{each.concept: each.name for each in self.columns})

    @property
    def key(self) -> CompanyColumn | None:
        """Its key column."""
        return next((each for each in self.columns if each.kind is Kind.KEY), None)

    def column(self, name: str) -> CompanyColumn:
        """Return the column with a name."""
        return next(each for each in self.columns if each.name.casefold() == name.casefold())

    @property
    def additive(self) -> frozenset[str]:
        """The columns that people sum."""
        if self.role is not Role.FACT:
            return frozenset()
        return frozenset(each.name for each in self.columns if each.kind in ADDITIVE)


@dataclass(frozen=True)
class MadeUpCompany:
    """The warehouse for a seed's company. `is_clean`: no row is doubled, empty or a test by chance."""

    seed: int
    tables: tuple[CompanyTable, ...]
    is_clean: bool = False

    def of(self, concept: str) -> CompanyTable:
        """Return the table for a concept."""
        return next(each for each in self.tables if each.concept == concept)

    def table(self, schema: str | None, name: str) -> CompanyTable:
        """Return the table with a name."""
        return next(each for each in self.tables if (each.schema, each.name) == (schema, name))

    def accepted_values(self) -> dict[str, dict[str, list[str]]]:
        """Return `schema.table` -> column -> the values that a dbt project would accept in it."""
        found: dict[str, dict[str, list[str]]] = {}
        for table in self.tables:
            listed = {each.name: list(each.weights) for each in table.columns if each.kind is Kind.STATUS}
            if listed and table.role is Role.FACT:
                found[f"{table.schema}.{table.name}"] = listed
        return found


def plan_company(
    seed: int, scale: float = 1, text: str = TABLES, *, is_clean: bool = False, schemas: Mapping[str, str] | None = None
) -> MadeUpCompany:
    """Return the tables of the company for a seed, without rows.

    `scale`: makes large tables smaller or larger. `schemas`: the schema of each table that the text names.
    """
    chance = random.Random(f"{seed}:names")
    blocks = [block.strip().splitlines() for block in text.split("\n\n") if block.strip()]
    picks = {concept_of(lines[0]): chance.randrange(6) for lines in blocks}
    tables = (_table(lines, picks, chance, scale) for lines in blocks)
    if is_clean:
        tables = (replace(table, has_copies=False) for table in tables)
    if schemas is not None:
        tables = (replace(table, schema=schemas[table.schema]) for table in tables)
    return MadeUpCompany(seed, tuple(tables), is_clean)


def concept_of(heading: str) -> str:
    """Return the concept of a table from the heading of its block."""
    return heading.split()[1].split("|")[0].partition(".")[2]


def _table(lines: list[str], picks: dict[str, int], chance: random.Random, scale: float) -> CompanyTable:
    _, names, role, rows = lines[0].split()
    concept = concept_of(lines[0])
    chosen = names.split("|")
    schema, _, name = chosen[picks[concept] % len(chosen)].partition(".")
    columns = []
    for line in lines[1:]:
        drawn, _, derived = line.partition(" = ")
        spelled, kind, *arguments = drawn.split()
        options = spelled.split("|")
        pick = chance.randrange(len(options))
        if kind == Kind.REF:
            pick = picks[arguments[0]] % len(options)
        elif kind == Kind.KEY and chance.random() < 0.7:
            pick = picks[concept] % len(options)
        columns.append(CompanyColumn(options[pick], Kind(kind), tuple(arguments), options[0], derived))
    count = max(min(int(rows), 120), int(int(rows) * scale * chance.uniform(0.8, 1.2)))
    has_copies = role == Role.FACT and chance.random() < 0.15
    return CompanyTable(schema, name, concept, Role(role), count, tuple(columns), has_copies)


def build_company(seed: int, path: Path, scale: float = 1) -> MadeUpCompany:
    """Write the warehouse for a seed to a new DuckDB file. The same seed gives the same rows on every machine."""
    import duckdb

    company = plan_company(seed, scale)
    with duckdb.connect(path) as database:
        load_company(company, database)
    return company


_CSV: Final = "FORMAT csv, HEADER false, AUTO_DETECT false, DELIM ',', QUOTE '\"', ESCAPE '\"', NULLSTR ''"


def load_company(company: MadeUpCompany, database: duckdb.DuckDBPyConnection) -> None:
    """Create a company's tables in an empty database, with their rows and derived data."""
    counts = {each.concept: each.rows for each in company.tables}
    with tempfile.TemporaryDirectory() as folder:
        for schema in sorted({each.schema for each in company.tables}):
            database.execute(f"CREATE SCHEMA {schema}")
        chance = random.Random(f"{company.seed}:keys")
        for table in company.tables:
            file = Path(folder) / f"{table}.csv"
            with file.open("w", newline="") as handle:
                csv.writer(handle).writerows(_rows(company, table, counts))
            declares_key = chance.random() < 0.6 and not table.has_copies
            columns = ", ".join(_declared(each, declares_key) for each in table.columns)
            database.execute(f'CREATE TABLE {table.schema}."{table.name}" ({columns})')
            database.execute(f"COPY {table.schema}.\"{table.name}\" FROM '{file}' ({_CSV})")
    for table in company.tables:
        for column in table.columns:
            if column.derived:
                value = resolve(column.derived, company, table, salt=column.concept)
                database.execute(f"UPDATE {table} SET {column.name} = {value}")


def resolve(sql: str, company: MadeUpCompany, table: CompanyTable, *, prefix: str = "", salt: str = "") -> str:
    """Return SQL from the plan with the names for the seed.

    `{concept}` is a column of the table, with `prefix` in front; `{inner.concept}` is a column without it, in a
    subquery; `{table}` the table, `{own}` its alias, `{all[concept]}` another one; `{roll}` a number from 0 to 999 that
    is drawn for each row by `salt`.
    """
    names = {each.concept: prefix + each.name for each in table.columns}
    others = _Tables(company)
    own = prefix.rstrip(".") or table.name
    roll = _roll(company.seed, table, salt)
    return sql.format(**names, inner=table.names, own=own, table=table, all=others, roll=roll)


class _Tables:
    """A company's tables by concept, for texts that name them."""

    def __init__(self, company: MadeUpCompany) -> None:
        self._company = company

    def __getitem__(self, concept: str) -> CompanyTable:
        return self._company.of(concept)


def _roll(seed: int, table: CompanyTable, salt: str) -> str:
    """Return SQL for a number from 0 to 999 that depends on a row's key."""
    if table.key is None:
        return "0"
    chance = random.Random(f"{seed}:{table.concept}:{salt}")
    factor, offset, other = (chance.randrange(10**4, 10**5) * 2 + 1 for _ in range(3))
    mixed = f"(({table.key.name} * {factor} + {offset}) % 65537)"
    return f"(({mixed} * {mixed} + {table.key.name} * {other}) % 1000003 % 1000)"


def _declared(column: CompanyColumn, declares_key: bool) -> str:
    values = ", ".join(f"'{value}'" for value in column.weights) if column.kind in (Kind.ENUM, Kind.CHECK) else ""
    if column.kind is Kind.ENUM:
        return f'"{column.name}" ENUM({values})'
    kind = "BIGINT" if column.in_cents else _TYPES.get(column.kind)
    if kind is None:
        is_fraction = column.kind is not Kind.REF and any("." in each for each in column.arguments)
        kind = "DOUBLE" if is_fraction else "BIGINT"
    end = " PRIMARY KEY" if column.kind is Kind.KEY and declares_key else ""
    return f'"{column.name}" {kind}{end}' + (f' CHECK ("{column.name}" IN ({values}))' if values else "")


def _rows(company: MadeUpCompany, table: CompanyTable, counts: dict[str, int]) -> Iterator[list[Any]]:
    chance = random.Random(f"{company.seed}:{table.concept}")
    drawers = [_drawer(column, table, counts, chance, company.is_clean) for column in table.columns]
    pairs: set[tuple[Any, ...]] = set()
    for number in range(1, table.rows + 1):
        row = [draw(number) for draw in drawers]
        if table.role is Role.BRIDGE:
            if tuple(row) in pairs:
                continue
            pairs.add(tuple(row))
        yield row
        if table.has_copies and chance.random() < _DOUBLED:
            yield row


Drawer = Callable[[int], Any]


def _drawer(
    column: CompanyColumn, table: CompanyTable, counts: dict[str, int], chance: random.Random, is_clean: bool
) -> Drawer:
    """Return a function from a row number to a value of the column."""
    if column.derived:
        return lambda number: None
    draw = _values(column, table, counts, chance, is_clean)
    empty = float(column.arguments[1]) if column.kind is Kind.REF and len(column.arguments) > 1 else 0
    empty = empty or (_EMPTY.get(column.kind, 0) if not is_clean and chance.random() < 0.4 else 0)
    return draw if not empty else lambda number: None if chance.random() < empty else draw(number)


def _values(
    column: CompanyColumn, table: CompanyTable, counts: dict[str, int], chance: random.Random, is_clean: bool
) -> Drawer:
    kind, arguments = column.kind, column.arguments
    match kind:
        case Kind.KEY:
            return lambda number: number
        case Kind.REF:
            most = counts[arguments[0]]
            return lambda number: 1 + int(most * chance.random() ** 1.6)
        case Kind.STATUS | Kind.ENUM | Kind.CHECK | Kind.CURRENCY:
            values, weights = list(column.weights), list(column.weights.values())
            return lambda number: chance.choices(values, weights)[0]
        case Kind.FLAG:
            share = float(arguments[0])
            return lambda number: chance.random() < share
        case Kind.SHARE:
            return lambda number: round(chance.betavariate(2, 5), 4)
        case Kind.PERCENT:
            return lambda number: float(chance.choice((0, 5, 10, 15, 20, 25, 30, 50, 75, 100)))
        case Kind.TIME | Kind.DATE | Kind.PERIOD_START | Kind.PERIOD_END:
            return lambda number: _time(kind, number, table.rows, chance)
        case Kind.NAME:
            tests = 0 if is_clean else _TEST_ROWS
            return lambda number: f"{'test ' * (chance.random() < tests)}{_words(number, chance)}"
        case Kind.EMAIL:
            return lambda number: f"{_WORDS[number % len(_WORDS)]}{number}@example.com"
        case Kind.JSON:
            return lambda number: json.dumps({"color": chance.choice(_WORDS), "size": chance.randint(1, 9)})
        case Kind.RUNNING:
            low, high = (float(each) for each in arguments)
            return lambda number: round(low + (high - low) * number / table.rows)
    low, high = (float(each) for each in arguments)
    if column.in_cents or (kind not in _TYPES and not any("." in each for each in arguments)):
        return lambda number: chance.randint(int(low), int(high))
    if low > 0 and kind in (Kind.AMOUNT, Kind.PRICE):
        return lambda number: round(low * (high / low) ** chance.random(), 2)
    return lambda number: round(chance.uniform(low, high), 2)


def _words(number: int, chance: random.Random) -> str:
    return f"{chance.choice(_WORDS)} {_WORDS[number % len(_WORDS)]} {number}"


def _time(kind: Kind, number: int, rows: int, chance: random.Random) -> str | None:
    moment = START + timedelta(days=DAYS * number / (rows + 1), seconds=chance.randrange(86_400))
    if kind is Kind.PERIOD_END:
        return None if chance.random() < 0.2 else (moment + timedelta(days=chance.randint(1, 300))).date().isoformat()
    return moment.isoformat(" ") if kind is Kind.TIME else moment.date().isoformat()
