"""What every generated fixture promises, whatever its kind and seed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.relationship_fixtures.generate import ALL_KINDS, generate, generate_corpus
from benchmarks.relationship_fixtures.knobs import KINDS
from benchmarks.relationship_fixtures.rewriting import open_read_only, shapes
from benchmarks.relationship_fixtures.truth import Reference, Truth, read_truth
from benchmarks.relationship_fixtures.writing import quoted
from ktx_cli.core.errors import UsageError

FULL = bool(os.environ.get("KTX_TEST_FULL"))
CASES = [(kind, 1) for kind in KINDS] + [("general", seed) for seed in ((2, 3, 4) if FULL else ())]
MOST_ORPHANS = 0.16
NO_REFERENCE = (0, -1, "")


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("fixture")
    return folder, generate(folder, *request.param).truth


@pytest.fixture
def database(made: tuple[Path, Truth]) -> Iterator[sqlite3.Connection]:
    with closing(open_read_only(made[0])) as connection:
        yield connection


def listed(columns: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, columns))


def rows_of(database: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    return database.execute(f"SELECT {listed(columns)} FROM {quoted(table)}").fetchall()


def test_the_answer_is_read_as_it_was_made(made: tuple[Path, Truth]) -> None:
    folder, truth = made
    read = read_truth(folder)
    assert (set(read.primary_keys), set(read.links)) == (set(truth.primary_keys), set(truth.links))
    assert (read.unconfirmable, read.optional) == (truth.unconfirmable, truth.optional)
    assert truth.unconfirmable <= set(truth.links) and not truth.optional & set(truth.links)


def test_primary_keys_are_unique_and_complete(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    tables = [key.table for key in made[1].primary_keys]
    assert len(tables) == len(set(tables))
    for key in made[1].primary_keys:
        rows = rows_of(database, key.table, key.columns)
        assert len(set(rows)) == len(rows) and not any(None in row for row in rows), key


def test_key_columns_are_in_the_order_of_the_table(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    order = {table.name: table.column_names for table in shapes(database)}
    for key in made[1].primary_keys:
        assert list(key.columns) == sorted(key.columns, key=order[key.table].index)


def test_links_name_columns_that_exist(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    for link in (*made[1].links, *made[1].optional):
        assert len(link.child_columns) == len(link.parent_columns)
        rows_of(database, link.child, link.child_columns)
        rows_of(database, link.parent, link.parent_columns)


def test_links_lead_to_unique_columns(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    for link in made[1].links:
        rows = rows_of(database, link.parent, link.parent_columns)
        assert len(set(rows)) == len(rows), link


def test_rows_confirm_the_links(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    truth = made[1]
    shared = [(link.child, link.child_columns) for link in truth.links]
    for link in truth.links:
        polymorphic = shared.count((link.child, link.child_columns)) > 1
        if link not in truth.unconfirmable and not polymorphic:
            assert _orphan_share(database, link) <= MOST_ORPHANS, link


def _orphan_share(database: sqlite3.Connection, link: Reference) -> float:
    parents = set(rows_of(database, link.parent, link.parent_columns))
    rows = [row for row in rows_of(database, link.child, link.child_columns) if None not in row]
    rows = [row for row in rows if len(row) > 1 or row[0] not in NO_REFERENCE or row in parents]
    return sum(row not in parents for row in rows) / max(1, len(rows))


def test_only_silent_links_have_no_rows(made: tuple[Path, Truth], database: sqlite3.Connection) -> None:
    for link in set(made[1].links) - made[1].unconfirmable:
        assert any(None not in row for row in rows_of(database, link.child, link.child_columns)), link


@pytest.mark.parametrize("kind", ["general", "composite", "polymorphic", *(["scale"] if FULL else [])])
def test_the_same_seed_gives_the_same_bytes_and_rows(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate(tmp_path / name, kind, 7)
    answers = [(tmp_path / name / "expected-links.yaml").read_bytes() for name in ("one", "two")]
    assert answers[0] == answers[1]
    assert _dump(tmp_path / "one") == _dump(tmp_path / "two")


def test_another_seed_gives_another_database(tmp_path: Path) -> None:
    one, two = (generate(tmp_path / str(seed), "general", seed).truth for seed in (1, 2))
    assert one != two


def _dump(folder: Path) -> list[str]:
    with closing(open_read_only(folder)) as connection:
        return list(connection.iterdump())


def test_scale_has_the_promised_size(tmp_path: Path) -> None:
    truth = generate(tmp_path, "scale", 1).truth
    with closing(open_read_only(tmp_path)) as connection:
        tables = shapes(connection)
        counts = {connection.execute(f"SELECT count(*) FROM {quoted(t.name)}").fetchone()[0] for t in tables}
    assert (len(tables), {len(table.columns) for table in tables}, counts) == (400, {50}, {3})
    assert (len(truth.links), len(truth.primary_keys)) == (1_900, 400)


def test_composite_and_polymorphic_kinds_are_what_they_are_called(tmp_path: Path) -> None:
    kinds = ("composite", "polymorphic")
    truths = {kind: [generate(tmp_path / kind / str(s), kind, s).truth for s in range(3)] for kind in kinds}
    assert any(len(link.child_columns) > 1 for truth in truths["composite"] for link in truth.links)
    shared = [(t, link.child, link.child_columns) for t in truths["polymorphic"] for link in t.links]
    assert len(shared) > len(set(shared))


def test_surrogates_everywhere_count_from_one(tmp_path: Path) -> None:
    truth = generate(tmp_path, "surrogate_everywhere", 1).truth
    referred = {(link.parent, link.parent_columns) for link in truth.links if len(link.parent_columns) == 1}
    referred -= {(link.child, link.child_columns) for link in truth.links}
    with closing(open_read_only(tmp_path)) as connection:
        found = {key: sorted(rows_of(connection, *key)) for key in referred}
    assert len(found) > 2
    for rows in found.values():
        assert rows == [(number,) for number in range(1, len(rows) + 1)]


@pytest.mark.slow
def test_a_corpus_mixes_kinds_and_is_found_again_by_its_folders(tmp_path: Path) -> None:
    corpus = generate_corpus(tmp_path, 12, 3)
    assert len({fixture.folder for fixture in corpus}) == 12
    assert len({fixture.kind for fixture in corpus}) > 2
    assert all(read_truth(fixture.folder).primary_keys for fixture in corpus)


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no fixtures of kind `odd`") as raised:
        generate(tmp_path, "odd", 1)
    assert raised.value.hint is not None and all(kind in raised.value.hint for kind in ALL_KINDS)
