"""What is held back together, when a file of a table cannot be written."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.scan.committed import LinkedFiles
from ktx_cli.scan.descriptions.facts import Described, read_descriptions, record_bytes
from ktx_cli.scan.snapshot import manifest_hashes
from ktx_cli.warehouses.port import TableRef

FOLDER = "raw"
SHARDS = {"a": "shards/one.yaml", "b": "shards/one.yaml", "c": "shards/two.yaml"}


def raw(name: str) -> str:
    return f"{FOLDER}/tables/{name}.json"


def said(name: str, text: str) -> Described:
    return Described(TableRef(None, name), "hash", "ai", text, {})


OLD = {name: said(name, "old") for name in "ab"}
NEW = {name: said(name, "new") for name in "abc"}
FILES: dict[str, bytes | None] = {
    **{raw(name): b"new" for name in "abc"},
    **dict.fromkeys(SHARDS.values(), b"new"),
    f"{FOLDER}/manifest.yaml": b"new",
    f"{FOLDER}/relationships.json": b"new",
    f"{FOLDER}/descriptions.json": record_bytes(NEW.values()),
}


def ties(old: dict[str, Described], new: dict[str, Described]) -> LinkedFiles:
    return LinkedFiles(
        "wh",
        "sqlite",
        FOLDER,
        {raw(name): shard for name, shard in SHARDS.items()},
        {f"tables/{name}.json": "old" for name in "ab"},
        {f"tables/{name}.json": "new" for name in "abc"},
        {each.ref: each for each in old.values()},
        {each.ref: each for each in new.values()},
    )


@pytest.mark.table(
    ("held", "texts", "hashes"),
    [
        ({SHARDS["a"]}, {"a": "old", "b": "old", "c": "new"}, {"a": "old", "b": "old", "c": "new"}),
        ({raw("b")}, {"a": "old", "b": "old", "c": "new"}, {"a": "old", "b": "old", "c": "new"}),
        ({SHARDS["c"]}, {"a": "new", "b": "new"}, {"a": "new", "b": "new"}),
        ({"somewhere/else"}, {"a": "new", "b": "new", "c": "new"}, {"a": "new", "b": "new", "c": "new"}),
    ],
)
def test_texts_and_hashes_are_those_of_what_is_written(
    held: set[str], texts: dict[str, str], hashes: dict[str, str]
) -> None:
    kept: dict[str, Any] = ties(OLD, NEW).without(FILES, frozenset(held))
    record = read_descriptions(kept[f"{FOLDER}/descriptions.json"], "x")
    assert {ref.name: each.text for ref, each in record.items()} == texts
    listed = manifest_hashes(kept[f"{FOLDER}/manifest.yaml"], "x")
    assert {path[7:-5]: value for path, value in listed.items()} == hashes
    assert (f"{FOLDER}/relationships.json" in kept) is (held == {"somewhere/else"})
    assert not held & set(kept)


@pytest.mark.table("name", ["manifest.yaml", "relationships.json", "descriptions.json"])
def test_a_file_that_tells_for_all_tables_holds_all_back(name: str) -> None:
    assert ties(OLD, NEW).without(FILES, frozenset({f"{FOLDER}/{name}"})) == {}


def test_a_record_that_would_stay_as_it_is_is_not_written() -> None:
    changed = {**OLD, "a": said("a", "new")}
    kept = ties(OLD, changed).without(FILES, frozenset({SHARDS["a"]}))
    assert f"{FOLDER}/descriptions.json" not in kept
