"""Columns that refer to several tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan.relationships.columns import DatabaseFacts, NameIndex
from ktx_cli.scan.relationships.composites import PolymorphicBranch, find_branches
from ktx_cli.scan.relationships.discovery import relationship_of_branch
from ktx_cli.scan.relationships.keys import find_unique_columns
from ktx_cli.scan.relationships.record import Status

Gathered = Callable[..., DatabaseFacts]
PHOTOS, ARTICLES = list(range(1, 31)), list(range(500, 560))


def comments(
    kinds: tuple[Any, Any], column: str = "owner_id", discriminator: str = "owner_type"
) -> dict[str, list[Any]]:
    rows = [(kinds[n % 2], PHOTOS[n * 7 % 30] if n % 2 == 0 else ARTICLES[n * 7 % 60]) for n in range(100)]
    return {discriminator: [kind for kind, _ in rows], column: [value for _, value in rows]}


def branches(facts: DatabaseFacts) -> list[PolymorphicBranch]:
    uniques = find_unique_columns(facts.tables, lambda table, columns: True)
    return find_branches(facts.tables, uniques.keys, NameIndex(facts.tables, uniques.keys))


def shown(found: list[PolymorphicBranch]) -> set[str]:
    return {f"{branch.child} -> {branch.key} if {branch.discriminator.name} = {branch.value}" for branch in found}


def tables(child: dict[str, list[Any]]) -> dict[str, dict[str, list[Any]]]:
    return {"photos": {"id": PHOTOS}, "articles": {"id": ARTICLES}, "comments": child}


@pytest.mark.parametrize(
    ("column", "discriminator"),
    [
        ("owner_id", "owner_type"),
        ("object_id", "object_class"),
        ("ref_id", "type"),
        ("id_objeto", "tipo_objeto"),
        ("owner", "owner_kind"),
    ],
)
def test_a_value_names_the_table(gathered: Gathered, column: str, discriminator: str) -> None:
    found = branches(gathered(tables(comments(("Photo", "Article"), column, discriminator))))
    assert shown(found) == {
        f"comments.{column} -> photos.id if {discriminator} = Photo",
        f"comments.{column} -> articles.id if {discriminator} = Article",
    }
    assert all(branch.check.missing == 0 and branch.name_match >= 0.75 for branch in found)


def test_rows_tell_what_a_value_does_not_name(gathered: Gathered) -> None:
    found = branches(gathered(tables(comments((1, 2)))))
    assert {(branch.key.table.table.ref.name, branch.value, branch.name_match) for branch in found} == {
        ("photos", 1, 0.0),
        ("articles", 2, 0.0),
    }
    relationship = relationship_of_branch(found[0], Relationships())
    assert relationship.status is Status.REVIEW  # Codes name no table.
    assert relationship.reason == "Only this table fits the `owner_type`; all values exist in `photos.id`."


def test_the_relationship_of_a_branch(gathered: Gathered) -> None:
    child = comments(("Photo", "Article"))
    child["owner_id"][0] = 4000
    found = branches(gathered(tables(child)))
    relationships = {each.condition: each for each in (relationship_of_branch(each, Relationships()) for each in found)}
    photo = relationships["owner_type", "Photo"]
    assert photo.reason == "`owner_type` names the table; 98% of rows have a match in `photos.id`."
    assert (photo.status, photo.child_columns, photo.parent_columns) == (Status.ACCEPTED, ("owner_id",), ("id",))
    assert (
        relationships["owner_type", "Article"].reason
        == "`owner_type` names the table; all values exist in `articles.id`."
    )


def test_one_table_is_no_split(gathered: Gathered) -> None:
    assert branches(gathered(tables(comments(("Photo", "Photo"))))) == []
    child = comments(("Photo", "Video"))
    child["owner_id"] = [PHOTOS[n % 30] if kind == "Photo" else 9000 + n for n, kind in enumerate(child["owner_type"])]
    assert branches(gathered(tables(child))) == []


def test_a_named_table_has_to_hold_the_values(gathered: Gathered) -> None:
    assert branches(gathered(tables(comments(("Article", "Photo"))))) == []


def test_a_column_that_says_no_kind_splits_nothing(gathered: Gathered) -> None:
    assert branches(gathered(tables(comments(("Photo", "Article"), discriminator="owner_mood")))) == []
    assert branches(gathered(tables(comments(("Photo", "Article"), column="visits", discriminator="owner_type")))) == []


def test_rows_without_a_kind_or_a_value_count_for_nothing(gathered: Gathered) -> None:
    child = comments(("Photo", "Article"))
    child["owner_type"][:4] = [None] * 4
    child["owner_id"][4:8] = [None] * 4
    found = branches(gathered(tables(child)))
    assert sorted(branch.check.rows for branch in found) == [46, 46]


def test_the_only_value_of_a_discriminator_has_to_name_its_table(gathered: Gathered) -> None:
    for kind, count in (("Photo", 1), ("Zebra", 0)):
        child: dict[str, list[Any]] = {"owner_type": [kind] * 40, "owner_id": [PHOTOS[n * 7 % 30] for n in range(40)]}
        assert len(branches(gathered(tables(child)))) == count


def test_a_value_two_tables_hold_is_left_open_and_the_others_stand(gathered: Gathered) -> None:
    child = comments((1, 2))
    rows = zip(
        [*child["owner_type"], *[3] * 40], [*child["owner_id"], *([500 + n % 20 for n in range(40)])], strict=True
    )
    kinds, values = zip(*rows, strict=True)
    more = {**tables({"owner_type": list(kinds), "owner_id": list(values)}), "videos": {"id": list(range(500, 530))}}
    found = branches(gathered(more))
    assert {branch.value for branch in found} == {1, 2}
