"""The parsed files of the manifest: from the store for exactly the bytes it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core import yaml
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.manifest import parse_shard
from ktx_cli.semantic.store.layer import ParsedCopies, has_store, load_manifest
from ktx_cli.semantic.store.writer import write_store

SHARD = """
version: 2
tables:
  orders:
    table: main.orders
    columns:
    - {name: id, type: number}
    usage: {narrative: "read a lot", 1: odd}
  lines: {table: main.lines, columns: []}
"""
ODD_KEY = SHARD
PLAIN = SHARD.replace(", 1: odd", "")
WHERE = "semantic-layer/shop/_schema/main.yaml"


def project(folder: Path, text: str) -> Layout:
    path = folder / WHERE
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return Layout(folder)


def no_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.semantic.store.layer.parse_shard", lambda *_: pytest.fail("a shard was parsed"))


def test_a_stored_shard_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = project(tmp_path, PLAIN)
    assert not has_store(layout, "shop")
    assert write_store(layout, "shop", "duckdb", ("shop",))
    assert has_store(layout, "shop")
    no_parsing(monkeypatch)
    shard = ParsedCopies(layout, "shop").parse(PLAIN.encode(), WHERE)
    assert shard == parse_shard(PLAIN.encode(), WHERE)
    assert list(shard.document) == ["version", "tables"]
    assert list(load_manifest(layout, "shop").tables) == ["orders", "lines"]


def test_other_bytes_are_parsed(tmp_path: Path) -> None:
    layout = project(tmp_path, PLAIN)
    assert write_store(layout, "shop", "duckdb", ("shop",))
    other = PLAIN.replace("read a lot", "read seldom")
    assert ParsedCopies(layout, "shop").parse(other.encode(), WHERE).document == yaml.load(other, where="")


def test_a_document_that_json_would_change_is_parsed_each_time(tmp_path: Path) -> None:
    layout = project(tmp_path, ODD_KEY)
    assert write_store(layout, "shop", "duckdb", ("shop",))
    document = ParsedCopies(layout, "shop").parse(ODD_KEY.encode(), WHERE).document
    assert document["tables"]["orders"]["usage"][1] == "odd"


def test_a_file_of_people_is_no_shard_even_with_the_same_bytes(tmp_path: Path) -> None:
    layout = project(tmp_path, PLAIN)
    own = tmp_path / "semantic-layer/shop/orders.yaml"
    own.write_text("name: orders\ngrain: [id]\n", encoding="utf-8")
    assert write_store(layout, "shop", "duckdb", ("shop",))
    assert ParsedCopies(layout, "shop").parse(own.read_bytes(), WHERE).document == {"name": "orders", "grain": ["id"]}
