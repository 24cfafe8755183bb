"""The units of Metabase: by collection, only for what changed, with what the cards stand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.fetch import render
from ktx_cli.sources.metabase.fetch import Card
from ktx_cli.sources.metabase.queries import Reason, Sql, UnresolvedError
from ktx_cli.sources.metabase.source import CARDS_PER_UNIT, units
from tests.sources.metabase.scripted import card, entry, native

UNKNOWN = UnresolvedError(Reason.CYCLE, "1 -> 1")
ENTRY = entry("http://metabase.example.com", defaultTagNames=["bi", "metabase"])


@pytest.fixture
def snapshot(tmp_path: Path) -> Any:
    raw = RawStore(tmp_path)

    def make(*cards: tuple[dict[str, Any], Sql | UnresolvedError]) -> Snapshot:
        documents: dict[str, Any] = {
            "collections/5.json": {"id": 5, "name": "Sales\nof \x1b[1mall"},
            "databases/1.json": {"id": 1},
            "usage.json": {},
        }
        for each, sql in cards:
            documents[f"cards/{each['id']}.json"] = Card.read(each).document("http://m", "warehouse", sql)
        return Snapshot({path: raw.put(path, render(documents[path])) for path in sorted(documents)})

    return make


def test_a_unit_has_the_cards_of_a_collection_that_changed(snapshot: Any) -> None:
    cards = [
        (card(1, native("a {{#3}}")), Sql("a (b (c))")),
        (card(2, native("x")), Sql("x")),
        (card(3, native("b {{#4}}"), collection_id=None), Sql("b (c)")),
        (card(4, native("c"), collection_id=None), Sql("c")),
    ]
    (unit,) = units(ENTRY, snapshot(*cards), Changes(added=("cards/1.json",), modified=("databases/1.json",)))
    assert (unit.key, unit.files, unit.peers) == ("collection-5", ("cards/1.json",), ("cards/2.json",))
    assert unit.label == "Sales of [1mall"
    assert unit.dependencies == (
        "collections/5.json", "databases/1.json", "usage.json", "cards/3.json", "cards/4.json",
    )  # fmt: skip
    assert unit.semantic
    assert unit.notes == "Their tables are in: warehouse.\nGive pages these tags: bi, metabase."


def test_the_top_comes_first_and_control_files_make_no_work(snapshot: Any) -> None:
    made = snapshot((card(1, native("a")), Sql("a")), (card(2, native("b"), collection_id=None), Sql("b")))
    control = Changes(modified=("collections/5.json", "databases/1.json", "usage.json"), deleted=("cards/9.json",))
    assert units(ENTRY, made, control) == ()
    found = units(ENTRY, made, Changes(added=("cards/1.json", "cards/2.json")))
    assert [unit.key for unit in found] == ["collection-root", "collection-5"]


def test_cards_without_sql_are_for_pages_alone(snapshot: Any) -> None:
    made = snapshot((card(1, native("{{#1}}")), UNKNOWN), (card(2, native("b")), Sql("b")))
    (alone,) = units(ENTRY, made, Changes(added=("cards/1.json",)))
    assert (alone.semantic, alone.why_not) == (False, "the SQL of 1 card is unknown")
    (both,) = units(ENTRY, made, Changes(added=("cards/1.json", "cards/2.json")))
    assert both.semantic
    assert "do not guess it: 1 (1 -> 1)" in both.notes


def test_a_large_collection_is_cut_so_that_new_cards_do_not_move_the_others(snapshot: Any) -> None:
    count = CARDS_PER_UNIT + 3
    cards = [(card(n, native("a")), Sql("a")) for n in range(1, count + 1)]
    paths = tuple(f"cards/{n}.json" for n in range(1, count + 1))
    first, second = units(ENTRY, snapshot(*cards), Changes(added=paths))
    assert (first.key, len(first.files), second.key, len(second.files)) == (
        "collection-5",
        25,
        "collection-5-part-2",
        3,
    )
    (last,) = units(ENTRY, snapshot(*cards), Changes(modified=paths[-1:]))
    assert (last.key, last.files, len(last.peers)) == ("collection-5-part-2", paths[-1:], count - 1)


def test_cards_in_a_circle_are_dependencies_once(snapshot: Any) -> None:
    made = snapshot((card(1, native("{{#2}}")), UNKNOWN), (card(2, native("{{#1}} {{#7}}")), UNKNOWN))
    (unit,) = units(ENTRY, made, Changes(added=("cards/1.json",)))
    assert unit.dependencies[-1:] == ("cards/2.json",)
