from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ktx_cli.privacy.columns import ValueKind
from ktx_cli.scan.descriptions.facts import Join, KnownTexts, content_hash, gather_facts, known_texts
from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
from ktx_cli.warehouses.port import ForeignKey, Index, Table, TableRef, UniqueKey
from ktx_cli.warehouses.sampling import SampleMethod

ALBUM = TableRef(None, "album")


def hash_of(table: Table, *others: Table, version: str = "1", **options: Any) -> str:
    facts = gather_facts([table, *others], **{"profiles": {}, **options})
    return content_hash(next(each for each in facts if each.ref == table.ref), version)


def changed(table: Table, **column: Any) -> Table:
    first, *rest = table.columns
    return dataclasses.replace(table, columns=(dataclasses.replace(first, **column), *rest))


CHANGES = {
    "name": lambda t: changed(t, name="other"),
    "type": lambda t: changed(t, native_type="bigint"),
    "nullable": lambda t: changed(t, nullable=False),
    "column comment": lambda t: changed(t, comment="The number on the sleeve."),
    "default": lambda t: changed(t, default="0"),
    "comment": lambda t: dataclasses.replace(t, comment="Records."),
    "key": lambda t: dataclasses.replace(t, primary_key=()),
    "unique": lambda t: dataclasses.replace(t, unique_keys=(UniqueKey(("title",)),)),
    "foreign key": lambda t: dataclasses.replace(t, foreign_keys=()),
    "view": lambda t: dataclasses.replace(t, view_sql="SELECT 1"),
    "order": lambda t: dataclasses.replace(t, columns=t.columns[::-1]),
}

HARMLESS = {
    "estimate": lambda t: dataclasses.replace(t, row_estimate=12_345),
    "index": lambda t: dataclasses.replace(t, indexes=(Index(("title",)),)),
    "constraint's name": lambda t: dataclasses.replace(
        t, foreign_keys=tuple(dataclasses.replace(key, name="fk_7") for key in t.foreign_keys)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_hash_follows_structure_and_comments(table: Any, change: Any) -> None:
    album = table("album", "album_id int, title text, artist_id int", key="album_id", artist_id="artist.artist_id")
    assert hash_of(change(album)) != hash_of(album)


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS.keys())
def test_the_hash_does_not_follow_what_changes_by_itself(table: Any, change: Any) -> None:
    album = table("album", "album_id int, title text, artist_id int", key="album_id", artist_id="artist.artist_id")
    assert hash_of(change(album)) == hash_of(album)


def test_the_hash_follows_neighbours_and_version_but_no_rows_and_no_texts_of_people(table: Any) -> None:
    album, artist = table("album", "album_id int, artist_id int", key="album_id"), table("artist", "id int", key="id")
    plain = hash_of(album, artist)
    column = ColumnProfile("album_id", ValueKind.INTEGER, 9, distinct=9, minimum=1, maximum=9, top=((1, 1),))
    profile = TableProfile(ALBUM, SampleMethod.ALL, 9, 9, True, (column,))
    assert hash_of(album, artist, profiles={ALBUM: profile}) == plain
    assert hash_of(album, artist, texts={ALBUM: KnownTexts({"user": "Mine."})}) == plain
    assert hash_of(album, artist, version="2") != plain
    join = Join(ALBUM, ("artist_id",), artist.ref, ("id",))
    assert hash_of(album, artist, accepted=[join]) != plain
    assert hash_of(artist, album, accepted=[join]) != hash_of(artist, album)


def test_namesakes_in_two_schemas_have_different_hashes(table: Any) -> None:
    assert hash_of(table("a", "id int", schema="x")) != hash_of(table("a", "id int", schema="y"))


def test_joins_are_told_to_both_tables_once(table: Any) -> None:
    album = table("album", "album_id int, artist_id int", key="album_id", artist_id="artist.id")
    artist = table("artist", "id int", key="id")
    lost = dataclasses.replace(artist, foreign_keys=(ForeignKey(("id",), TableRef(None, "elsewhere"), ("id",)),))
    join = Join(ALBUM, ("artist_id",), artist.ref, ("id",))
    found = gather_facts([lost, album], profiles={}, accepted=[join])
    assert [(each.ref.name, each.joins_out, each.joins_in) for each in found] == [
        ("album", (join,), ()),
        ("artist", (), (join,)),
    ]
    assert found[0].neighbours == (artist.ref,)


def test_the_texts_of_people_and_other_tools_are_known_ours_are_not() -> None:
    entry = {
        "description": "On the source.",
        "descriptions": {
            "db": "Comment.",
            "ai": "Model.",
            "ktx": "Rules.",
            "user": "Mine.",
            "dbt": "From dbt.",
            "x": " ",
        },
        "columns": [
            {"name": "a", "descriptions": {"user": "Column."}},
            {"name": "b", "descriptions": {"ai": "Model."}},
            {"name": "c"},
            "no column",
        ],
    }
    assert known_texts(entry) == KnownTexts(
        {"description": "On the source.", "user": "Mine.", "dbt": "From dbt."}, {"a": {"user": "Column."}}
    )
    assert known_texts({"columns": None, "descriptions": "text"}) == KnownTexts()
