"""Tables to describe, a store in memory, and a scripted model that answers about the tables it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.testing.model_script import ModelRequest, Reply, gives
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config
from ktx_cli.warehouses.port import Column, ForeignKey, SemanticType, Table, TableKind, TableRef, UniqueKey

TYPES = {
    "int": SemanticType.NUMBER,
    "decimal": SemanticType.NUMBER,
    "text": SemanticType.STRING,
    "date": SemanticType.TIME,
    "time": SemanticType.TIME,
    "datetime": SemanticType.TIME,
    "timestamptz": SemanticType.TIME,
    "interval_of_ours": SemanticType.TIME,
    "bool": SemanticType.BOOLEAN,
}

MakeTable = Callable[..., Table]


def make_table(
    name: str,
    columns: str,
    *,
    key: str = "",
    unique: Sequence[str] = (),
    comment: str | None = None,
    comments: Mapping[str, str] | None = None,
    kind: TableKind = TableKind.TABLE,
    schema: str | None = None,
    **references: str,
) -> Table:
    """`make_table("invoice", "id int, customer_id int", key="id", customer_id="customer.id")`."""
    pairs = [column.split() for column in columns.split(", ")] if columns else []
    keys = []
    for own, target in references.items():
        parent, theirs = target.split(".")
        keys.append(ForeignKey(tuple(own.split("__")), TableRef(schema, parent), tuple(theirs.split("__"))))
    return Table(
        ref=TableRef(schema, name),
        kind=kind,
        columns=tuple(
            Column(column, native, TYPES[native], comment=(comments or {}).get(column)) for column, native in pairs
        ),
        comment=comment,
        primary_key=tuple(key.split()),
        foreign_keys=tuple(keys),
        unique_keys=tuple(UniqueKey(tuple(each.split())) for each in unique),
    )


@pytest.fixture
def table() -> MakeTable:
    return make_table


@pytest.fixture
def shop() -> list[Table]:
    """A part of a music shop: a lookup table, a junction, a table that refers to itself."""
    return [
        make_table("artist", "artist_id int, name text", key="artist_id"),
        make_table("album", "album_id int, title text, artist_id int", key="album_id", artist_id="artist.artist_id"),
        make_table("playlist", "playlist_id int, name text", key="playlist_id"),
        make_table("track", "track_id int, name text, album_id int", key="track_id", album_id="album.album_id"),
        make_table(
            "playlist_track",
            "playlist_id int, track_id int",
            key="playlist_id track_id",
            playlist_id="playlist.playlist_id",
            track_id="track.track_id",
        ),
        make_table("employee", "employee_id int, reports_to int", key="employee_id", reports_to="employee.employee_id"),
    ]


@dataclass
class MemoryStore:
    """A store in memory; `written` keeps the order of what was put."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    written: list[tuple[str, str]] = field(default_factory=list)

    def get(self, kind: str, key: str) -> Any | None:
        return self.values.get((kind, key))

    def put(self, kind: str, key: str, value: Any) -> None:
        self.values[kind, key] = json.loads(json.dumps(value))
        self.written.append((kind, key))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def asked(request: ModelRequest) -> list[dict[str, Any]]:
    """The tables a request shows."""
    text = request.body["messages"][0]["content"][0]["text"]
    assert text.startswith("<tables>\n")
    assert text.endswith("\n</tables>\n")
    assert text.count("<") == text.count(">") == 2
    rest, decoder, found = text[len("<tables>\n") : -len("</tables>\n")], json.JSONDecoder(), []
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].lstrip("\n")
    return found


Change = Callable[[dict[str, Any]], dict[str, Any] | None]


class Describer:
    """A script: a text for everything it is asked, as `change` makes it of a table's answer; `failing` fails calls."""

    def __init__(self, change: Change = lambda table: table, failing: Mapping[str, Reply] | None = None) -> None:
        self.change = change
        self.failing = failing or {}
        self.calls: list[list[dict[str, Any]]] = []

    def __call__(self, request: ModelRequest) -> Reply:
        tables = asked(request)
        self.calls.append(tables)
        for table in tables:
            if table["table"] in self.failing:
                return self.failing[table["table"]]
        answers = [self.change(self.text(table)) for table in tables]
        return gives({"tables": [answer for answer in answers if answer is not None]})

    def text(self, table: dict[str, Any]) -> dict[str, Any]:
        name = table["table"]
        return {
            "table": name,
            "description": f"Rows about {name} things." if table["describe_table"] else None,
            "columns": [
                {"column": column["column"], "description": f"Says {column['column']} of {name}."}
                for column in table["columns"]
            ],
        }

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Every table and column that was asked for, in order."""
        return [
            (table["table"], column["column"]) for call in self.calls for table in call for column in table["columns"]
        ]


@pytest.fixture
def describer() -> type[Describer]:
    return Describer


@pytest.fixture
def runtime(model_server: ModelServer, tmp_path: Path) -> Iterator[RoutedRuntime]:
    """The real client of the API, on the scripted server."""
    yield create_runtime(subject_config("anthropic", model_server.url), tmp_path, {}, usage_sink=lambda fact: None)
