"""A world's tables in each engine, typed; and how a definition names them there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from tests.semantic_oracle.cases.base import Definition, Spelled, SpelledDay, Table, World

ENGINES = ("duckdb", "sqlite", "postgres")
_TYPES: Mapping[str, Mapping[str, str]] = {
    "duckdb": {},
    "postgres": {"DOUBLE": "DOUBLE PRECISION"},
    "sqlite": {"DATE": "TEXT", "TIMESTAMP": "TEXT", "BOOLEAN": "INTEGER", "VARCHAR": "TEXT", "DOUBLE": "REAL"},
}


def quoted(name: str) -> str:
    """Return an identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def statements(engine: str, name: str, table: Table, schema: str | None = None) -> list[str]:
    """Return the statements that make and fill a table."""
    place = quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}"
    columns = ", ".join(f"{quoted(column)} {_TYPES[engine].get(kind, kind)}" for column, kind in table.columns)
    kinds = [kind for _, kind in table.columns]
    rows = ", ".join("(" + ", ".join(map(stored, [engine] * len(kinds), kinds, row)) + ")" for row in table.rows)
    return [f"CREATE TABLE {place} ({columns})", *([f"INSERT INTO {place} VALUES {rows}"] if rows else [])]


def stored(engine: str, kind: str, value: Any) -> str:
    """Return a value as a column of a type has it: a boolean as a word in a text, a time as seconds in a number."""
    if kind == "VARCHAR" and isinstance(value, bool):
        return "'Y'" if value else "'n'"
    if kind == "BIGINT" and isinstance(value, datetime):
        return str(round(value.replace(tzinfo=UTC).timestamp()))
    return literal(engine, value)


def literal(engine: str, value: Any) -> str:
    """Return a value as SQL; SQLite has 0 and 1 for booleans, ISO texts for times."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value)) if engine == "sqlite" else str(value).upper()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if engine == "sqlite" and isinstance(value, Spelled | SpelledDay):
        return f"'{value.text}'"
    text = (
        value.isoformat(" ") if isinstance(value, datetime) else value.isoformat() if isinstance(value, date) else value
    )
    return "'" + text.replace("'", "''") + "'"


def make_file(engine: str, path: Path, world: World) -> None:
    """Create a DuckDB or SQLite database of a world's tables."""
    script = [each for name, table in world.tables.items() for each in statements(engine, name, table)]
    if engine == "duckdb":
        with duckdb.connect(str(path)) as database:
            for each in script:
                database.execute(each)
        return
    connection = sqlite3.connect(path)
    connection.executescript(";\n".join(["BEGIN", *script, "COMMIT"]))
    connection.close()


def make_schema(world: World, schema: str) -> list[str]:
    """Return the statements that make a Postgres schema of a world's tables."""
    return [f"CREATE SCHEMA {quoted(schema)}"] + [
        each for name, table in world.tables.items() for each in statements("postgres", name, table, schema)
    ]


def write_sources(folder: Path, world: World, schema: str | None) -> None:
    """Write each source as a file (JSON is YAML), its tables named as they are in the schema."""
    folder.mkdir(parents=True)
    places = {name: quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}" for name in world.tables}
    for number, each in enumerate(world.sources):
        data = placed(each, places)
        (folder / f"source{number:02}.yaml").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def placed(source: Definition, places: Mapping[str, str]) -> Definition:
    """Return a source with the engine's names of its tables."""
    if "sql" in source:
        sql = source["sql"]
        for name, place in places.items():
            sql = sql.replace("{" + name + "}", place)
        return source | {"sql": sql}
    return source | {"table": places[source["table"]]}
