"""The committed record: bytes that diff well, damage that is named, texts that stay until they are replaced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core.errors import KtxError
from ktx_cli.scan.descriptions.facts import (
    Described,
    Source,
    read_descriptions,
    record_bytes,
    updated_record,
    with_descriptions,
)
from ktx_cli.warehouses.port import Table, TableRef

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made(
    name: str = "album", digest: str = "h1", source: Source = "ai", text: str | None = "T.", **columns: str
) -> Described:
    return Described(TableRef(None, name), digest, source, text, columns)


def test_the_file_has_a_line_for_each_table_and_column() -> None:
    found = record_bytes([made("b", b="B.", a="Größe."), Described(TableRef("x", "a"), "h2", "rules", None, {})])
    assert found.decode() == (
        '{\n "format": 1,\n "tables": [\n'
        '  {"table": "b", "hash": "h1", "source": "ai", "text": "T.", "columns": {\n'
        '   "a": "Größe.",\n   "b": "B."\n  }},\n'
        '  {"schema": "x", "table": "a", "hash": "h2", "source": "rules"}\n ]\n}\n'
    )


TEXT = st.text(max_size=20)
RECORDS = st.lists(
    st.builds(
        Described,
        ref=st.builds(TableRef, st.none() | TEXT, TEXT),
        hash=TEXT,
        source=st.sampled_from(["ai", "rules"]),
        text=st.none() | TEXT,
        columns=st.dictionaries(TEXT, TEXT, max_size=3),
    ),
    max_size=4,
    unique_by=lambda each: each.ref,
)


@UNHURRIED
@given(RECORDS)
def test_what_is_written_is_read(record: list[Described]) -> None:
    content = record_bytes(record)
    assert read_descriptions(content, "r") == {each.ref: each for each in record}
    assert record_bytes(read_descriptions(content, "r").values()) == content


@pytest.mark.table(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 1, "tables": 7}',
        b'{"format": 1, "tables": [{"table": "a"}]}',
        b'{"format": 1, "tables": [{"table": "a", "hash": "h", "source": "nobody"}]}',
        b'{"format": 1, "tables": [{"table": "a", "hash": "h", "source": "ai", "text": 7}]}',
        b'{"format": 1, "tables": [{"table": 7, "hash": "h", "source": "ai"}]}',
        b'{"format": 1, "tables": [{"table": "a", "hash": "h", "source": "ai", "columns": ["a"]}]}',
        b'{"format": 1, "tables": [%(table)s, %(table)s]}' % {b"table": b'{"table": "a", "hash": "h", "source": "ai"}'},
        record_bytes([made()])[:-9],
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_named(content: bytes) -> None:
    with pytest.raises(KtxError) as caught:
        read_descriptions(content, "raw-sources/w/live-database/descriptions.json")
    assert "raw-sources/w/live-database/descriptions.json is damaged" in caught.value.message
    assert (caught.value.hint or "").startswith("git checkout -- raw-sources/w/live-database/descriptions.json")


def test_a_newer_format_is_not_called_damaged() -> None:
    with pytest.raises(KtxError, match="has format 2, but this ktx reads format 1"):
        read_descriptions(b'{"format": 2, "tables": []}', "r")


UPDATES = {
    "new": (None, made(a="A."), made(a="A.")),
    "nothing new": (made(a="A."), None, made(a="A.")),
    "replaced": (made(a="A."), made(digest="h2", text="U.", a="B."), made(digest="h2", text="U.", a="B.")),
    "a text without a successor stays": (
        made(a="A.", b="B."),
        made(digest="h2", text=None, b="C."),
        made(digest="h2", text="T.", a="A.", b="C."),
    ),
    "the same structure, told again": (made(a="A."), made(text="U."), made(text="U.")),
    "a column that is gone": (made(gone="G."), None, made()),
    "rules do not replace the model": (made(a="A."), made(source="rules", digest="h2", text="R."), made(a="A.")),
    "the model replaces rules": (
        made(source="rules", a="R."),
        made(digest="h2", text="U."),
        made(digest="h2", text="U."),
    ),
    "rules replace rules whole": (
        made(source="rules", a="R."),
        made(source="rules", digest="h2", text=None),
        made(source="rules", digest="h2", text=None),
    ),
}


@pytest.mark.parametrize(("old", "new", "kept"), UPDATES.values(), ids=UPDATES.keys())
def test_an_old_text_stays_until_there_is_another(
    table: Any, old: Described | None, new: Described | None, kept: Described
) -> None:
    album: Table = table("album", "a int, b int")
    before = {} if old is None else {album.ref: old}
    assert updated_record(before, [] if new is None else [new], [album]) == {album.ref: kept}


def test_a_table_that_is_gone_leaves_the_record(table: Any) -> None:
    old = {each.ref: each for each in (made("gone"), made("album"))}
    assert list(updated_record(old, [made("elsewhere")], [table("album", "a int")])) == [TableRef(None, "album")]


@pytest.mark.table(("source", "key"), [("ai", "ai"), ("rules", "ktx")])
def test_texts_stand_under_the_key_of_their_source(source: Source, key: str) -> None:
    entry = {
        "table": "album",
        "columns": [{"name": "a", "type": "number", "descriptions": {"db": "C."}}, {"name": "b", "type": "string"}],
        "joins": [],
    }
    found = with_descriptions(entry, made(source=source, a="A.", b="B."))
    assert list(found) == ["table", "descriptions", "columns", "joins"]
    assert found["descriptions"] == {key: "T."}
    assert found["columns"] == [
        {"name": "a", "type": "number", "descriptions": {"db": "C.", key: "A."}},
        {"name": "b", "type": "string", "descriptions": {key: "B."}},
    ]


def test_without_a_text_an_entry_stays_as_it_is() -> None:
    entry = {"table": "album", "descriptions": {"db": "C."}, "columns": [{"name": "a", "type": "number"}]}
    assert with_descriptions(entry, None) == entry
    assert with_descriptions(entry, made(text=None)) == entry
    assert with_descriptions(entry, made(text="U."))["descriptions"] == {"db": "C.", "ai": "U."}
