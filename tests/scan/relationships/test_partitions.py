"""Columns whose values two keys share out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ktx_cli.scan.relationships.columns import DatabaseFacts
from ktx_cli.scan.relationships.composites import find_partitions
from ktx_cli.scan.relationships.evidence import ChildEvidence
from ktx_cli.scan.relationships.keys import find_unique_columns
from tests.scan.relationships.conftest import Shop

Gathered = Callable[..., DatabaseFacts]
PEOPLE = [f"P{number}" for number in range(8)]
FIRMS = [f"F{number}" for number in range(8)]
HALVES = [*PEOPLE[:3], *FIRMS[:3]]


def found(gathered: Gathered, column: str, values: Sequence[Any], tables: dict[str, list[Any]]) -> list[str]:
    notes = {column: [*values, values[0]], "body": ["x"] * (len(values) + 1)}
    facts = gathered({**{name: {"id": keys} for name, keys in tables.items()}, "note": notes})
    uniques = find_unique_columns(facts.tables, lambda table, columns: True)
    return [f"{each.key} {each.check.missing}" for each in find_partitions(facts.columns, uniques.keys, ())]


@pytest.mark.table(
    ("column", "values", "tables", "expected"),
    [
        ("subject_id", HALVES, {"person": PEOPLE, "firm": FIRMS}, ["person.id 3", "firm.id 4"]),
        ("subject_id", [1, 2, 3, 41, 42, 43], {"a": [*range(1, 9)], "b": [*range(40, 50)]}, ["a.id 3", "b.id 4"]),
        ("subject_id", [1, 2, 41, 42], {"a": [*range(1, 9)], "b": [*range(40, 50)]}, ["a.id 2", "b.id 3"]),
        ("subject_id", [1, 2, 41], {"a": [*range(1, 9)], "b": [*range(40, 50)]}, []),
        ("legacy_id", [1, 2, 3, 41, 42, 43], {"a": [*range(1, 9)], "b": [*range(40, 50)]}, []),
        ("subject", HALVES, {"person": PEOPLE, "firm": FIRMS}, []),
        ("subject_id", [*HALVES, "?"], {"person": PEOPLE, "firm": FIRMS}, []),
        ("subject_id", HALVES, {"person": PEOPLE, "firm": [*FIRMS, "P0"]}, []),
        ("subject_id", HALVES, {"person": PEOPLE, "firm": FIRMS, "branch": FIRMS}, []),
        ("subject_id", HALVES, {"person": PEOPLE, "firm": FIRMS, "party": HALVES}, []),
        ("subject_id", [*PEOPLE, "F0"], {"person": PEOPLE, "firm": FIRMS}, []),
    ],
)
def test_two_keys_share_out_the_values(
    gathered: Gathered, column: str, values: Sequence[Any], tables: dict[str, list[Any]], expected: list[str]
) -> None:
    assert found(gathered, column, values, tables) == expected


def test_both_references_are_accepted(shop: Shop) -> None:
    rows = ", ".join(f"({number}, '{value}', 'x')" for number, value in enumerate([*HALVES, *HALVES[:4]]))
    answer = shop.search(
        [
            "CREATE TABLE person (id TEXT, name TEXT)",
            f"INSERT INTO person VALUES {', '.join(f'({value!r}, 1)' for value in PEOPLE)}",
            "CREATE TABLE firm (id TEXT, name TEXT)",
            f"INSERT INTO firm VALUES {', '.join(f'({value!r}, 1)' for value in FIRMS)}",
            "CREATE TABLE note (id INTEGER, subject_id TEXT, body TEXT)",
            f"INSERT INTO note VALUES {rows}",
        ]
    )
    assert sorted(name for name in answer.accepted if name.startswith("note(subject_id)")) == [
        "note(subject_id) -> firm(id)",
        "note(subject_id) -> person(id)",
    ]
    (evidence,) = (each for each in answer.found.evidence or () if each.columns == ("subject_id",))
    part = next(each for each in evidence.candidates if each.parent.name == "person" and each.shared_with)
    again = ChildEvidence.from_json(evidence.child, evidence.columns, evidence.to_json())
    assert part.shared_with == ("firm", "id") and part in again.candidates
    reason = "60% of rows have a match in `person.id`, and those of all others are in `firm.id`."
    assert answer.inferred("note(subject_id) -> person(id)").reason == reason
