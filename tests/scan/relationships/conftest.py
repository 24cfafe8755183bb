"""Facts of tables that are given as lists of values, and the search in small databases."""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.relationship_fixtures.discovering import discover_database
from ktx_cli.project.config.blocks import Relationships, Scan
from ktx_cli.scan.profile.profiler import count_sample
from ktx_cli.scan.relationships.columns import DatabaseFacts, gather
from ktx_cli.scan.relationships.hints import ViewJoins
from ktx_cli.scan.relationships.record import Discovery, Relationship, Status
from ktx_cli.warehouses.port import (
    Column,
    ConnectionSpec,
    Connector,
    Scope,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
)
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sampling import Sample, SampleMethod

Columns = Mapping[str, Sequence[Any]]
Gathered = Callable[..., DatabaseFacts]

_TYPES = {
    int: ("INTEGER", SemanticType.NUMBER),
    str: ("TEXT", SemanticType.STRING),
    datetime.date: ("DATE", SemanticType.TIME),
    float: ("REAL", SemanticType.NUMBER),
}


@pytest.fixture(scope="session")
def gathered() -> Gathered:
    """Return a function: table -> column -> values, to facts; see `_gathered`."""
    return _gathered


def _gathered(
    tables: Mapping[str, Columns],
    *,
    keys: Mapping[str, tuple[str, ...]] | None = None,
    uniques: Mapping[str, Sequence[tuple[str, ...]]] | None = None,
    rows: Mapping[str, int] | None = None,
    views: Sequence[str] = (),
) -> DatabaseFacts:
    """Return the facts. `keys`, `uniques`: what is declared; `rows`: those of a table that is larger than its sample.

    A column without any value is of the type of its name: `INTEGER` where it ends in `id`, else `TEXT`.
    """
    made, sampled = [], []
    for name, columns in tables.items():
        table = Table(
            TableRef(None, name),
            TableKind.VIEW if name in views else TableKind.TABLE,
            tuple(_column(column, values) for column, values in columns.items()),
            primary_key=(keys or {}).get(name, ()),
            unique_keys=tuple(UniqueKey(each) for each in (uniques or {}).get(name, ())),
        )
        made.append(table)
        sampled.append(count_sample(table, _sample(columns, (rows or {}).get(name))))
    return gather("sqlite", made, sampled)


def _column(name: str, values: Sequence[Any]) -> Column:
    kinds = {type(value) for value in values if value is not None} or {int if name.lower().endswith("id") else str}
    native, kind = _TYPES[kinds.pop()]
    return Column(name, native, kind)


def _sample(columns: Columns, larger: int | None) -> Sample:
    rows = len(next(iter(columns.values())))
    return Sample(
        columns=tuple(columns),
        values=tuple(list(values) for values in columns.values()),
        rows=rows,
        method=SampleMethod.ALL if larger is None else SampleMethod.BLOCKS,
        row_count=rows if larger is None else larger,
        exact_count=True,
    )


@dataclass(frozen=True)
class Answer:
    """What a search found; relationships are named `child(a, b) -> parent(c, d)`, with a condition if they have one."""

    found: Discovery

    def with_status(self, status: Status) -> set[str]:
        return {self.name_of(each) for each in self.found.relationships if each.status is status}

    @property
    def accepted(self) -> set[str]:
        return self.with_status(Status.ACCEPTED)

    def inferred(self, name: str) -> Relationship:
        return next(each for each in self.found.relationships if self.name_of(each) == name)

    @staticmethod
    def name_of(found: Relationship) -> str:
        child, key = ", ".join(found.child_columns), ", ".join(found.parent_columns)
        text = f"{found.child}({child}) -> {found.parent}({key})"
        return f"{text} if {found.condition[0]} = {found.condition[1]}" if found.condition else text


@dataclass(frozen=True)
class Shop:
    """Makes small databases and searches them."""

    folder: Path

    def open(self, statements: Sequence[str], driver: str = "sqlite") -> Connector:
        path = self.folder / f"shop.{driver}"
        path.unlink(missing_ok=True)
        if driver == "sqlite":
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.executescript(";".join(["BEGIN", *statements, "COMMIT"]))
        else:
            with duckdb.connect(str(path)) as other:
                other.execute(";".join(statements))
        return self.again(driver)

    def again(self, driver: str = "sqlite") -> Connector:
        """Connect to the database that was made last."""
        return connect(ConnectionSpec("shop", driver, {"path": str(self.folder / f"shop.{driver}")}))

    @staticmethod
    def answer(found: Discovery) -> Answer:
        return Answer(found)

    def search(self, statements: Sequence[str], driver: str = "sqlite", **settings: Any) -> Answer:
        """Make a database and search it; `settings` by their names in `ktx.yaml`."""
        with self.open(statements, driver) as connector:
            scan = Scan(relationships=Relationships.model_validate(settings))
            views = [ViewJoins(connector.dialect)]
            return Answer(discover_database(connector, connector.introspect(Scope()), scan, views))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
