from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.relationship_fixtures.generate import generate
from benchmarks.relationship_fixtures.rewriting import open_read_only, shapes
from benchmarks.relationship_fixtures.truth import Reference, Truth, read_truth
from benchmarks.relationship_fixtures.variants import scramble, with_keys, wrong_keys
from benchmarks.relationship_fixtures.writing import quoted
from ktx_cli.warehouses.port import ConnectionSpec, DatabaseSchema, Scope
from ktx_cli.warehouses.registry import connect

SEED = 4


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("fixture")
    return folder, generate(folder, "composite", SEED).truth


def schema_of(folder: Path) -> DatabaseSchema:
    with connect(ConnectionSpec("f", "sqlite", {"path": str(folder / "data.sqlite")})) as connector:
        return connector.introspect(Scope())


def rows(folder: Path) -> list[list[tuple[object, ...]]]:
    """Return every table's rows, whatever the names are."""
    with closing(open_read_only(folder)) as connection:
        names = [table.name for table in shapes(connection)]
        return [sorted(connection.execute(f"SELECT * FROM {quoted(n)}").fetchall(), key=repr) for n in names]


def declared_links(schema: DatabaseSchema) -> set[Reference]:
    return {
        Reference(table.ref.name, key.columns, key.target.name, key.target_columns)
        for table in schema.tables
        for key in table.foreign_keys
    }


@pytest.mark.parametrize("way", ["independent", "tokens"])
def test_scrambled_names_keep_rows_and_answer(fixture: tuple[Path, Truth], tmp_path: Path, way: str) -> None:
    folder, truth = fixture
    scrambled = scramble(folder, tmp_path, 1, way)
    assert rows(tmp_path) == rows(folder)
    read = read_truth(tmp_path)
    assert (set(read.links), set(read.primary_keys)) == (set(scrambled.links), set(scrambled.primary_keys))
    assert len(scrambled.links) == len(truth.links) and len(scrambled.primary_keys) == len(truth.primary_keys)
    old = {name for table in schema_of(folder).tables for name in (table.ref.name, *(c.name for c in table.columns))}
    new = {name for table in schema_of(tmp_path).tables for name in (table.ref.name, *(c.name for c in table.columns))}
    assert not {name for name in new if len(name) > 3} & old


def test_independent_names_tell_nothing(fixture: tuple[Path, Truth], tmp_path: Path) -> None:
    scramble(fixture[0], tmp_path, 1, "independent")
    columns = {column.name for table in schema_of(tmp_path).tables for column in table.columns}
    assert all(re.fullmatch(r"c\d+|attr_\d+|[a-z]\d*", name) for name in columns)


def test_tokens_are_exchanged_alike_everywhere(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data.sqlite")) as connection:
        connection.execute("CREATE TABLE customer (customer_id, name)")
        connection.execute("CREATE TABLE customerOrder (OrderID, customerID)")
    (tmp_path / "expected-links.yaml").write_text("expectedPks: []\nexpectedLinks: []\n", encoding="utf-8")
    scramble(tmp_path, tmp_path / "out", 1, "tokens")
    tables = {table.ref.name: [c.name for c in table.columns] for table in schema_of(tmp_path / "out").tables}
    (customer, own), (order, other) = sorted(tables.items(), key=lambda item: len(item[0].split("_")))
    assert other[1] == own[0] and own[0].startswith(customer) and order.startswith(customer)


def test_links_with_few_values_are_marked(fixture: tuple[Path, Truth], tmp_path: Path) -> None:
    scrambled = scramble(fixture[0], tmp_path, 1)
    with closing(open_read_only(tmp_path)) as connection:
        for link in set(scrambled.links) - scrambled.unconfirmable:
            columns = ", ".join(map(quoted, link.child_columns))
            found = connection.execute(f"SELECT DISTINCT {columns} FROM {quoted(link.child)}").fetchall()
            assert len([row for row in found if None not in row]) >= 3


@pytest.mark.parametrize(("pks", "fks"), [(True, False), (False, True), (True, True), (False, False)])
def test_true_keys_are_declared(fixture: tuple[Path, Truth], tmp_path: Path, pks: bool, fks: bool) -> None:
    truth = with_keys(fixture[0], tmp_path, pks=pks, fks=fks)
    schema = schema_of(tmp_path)
    keys = {(table.ref.name, table.primary_key) for table in schema.tables if table.primary_key}
    assert keys == (set(truth.primary_keys) if pks else set())
    assert declared_links(schema) == (set(truth.links) if fks else set())
    assert rows(tmp_path) == rows(fixture[0])


def test_wrong_keys_are_declared_and_wrong(fixture: tuple[Path, Truth], tmp_path: Path) -> None:
    truth = wrong_keys(fixture[0], tmp_path, 1)
    schema = schema_of(tmp_path)
    keys = {(table.ref.name, table.primary_key) for table in schema.tables if table.primary_key}
    assert len(keys) > len(schema.tables) / 2 and not keys & set(truth.primary_keys)
    links = declared_links(schema)
    assert len(links) > len(truth.links) / 2 and not links & set(truth.links)
    assert rows(tmp_path) == rows(fixture[0])
    assert set(truth.links) == set(fixture[1].links)
