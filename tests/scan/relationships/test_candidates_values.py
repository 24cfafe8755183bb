"""Keys that may hold a column's values, found without comparing each with each."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.candidates import MOST_SHARED, NEAREST, NEAREST_OF_FEW, ValueIndex
from ktx_cli.scan.relationships.columns import DatabaseFacts

Gathered = Callable[..., DatabaseFacts]


def found(facts: DatabaseFacts, child: str, *, key: str = "id") -> list[str]:
    keys = [column for column in facts.columns if column.name == key]
    index = ValueIndex(keys)
    (column,) = (each for each in facts.columns if each.name == child)
    return [parent.table.table.ref.name for parent in index.parents(column)]


def test_integers_are_looked_for_in_ranges(gathered: Gathered) -> None:
    facts = gathered(
        {
            "small": {"id": list(range(1, 50))},
            "exact": {"id": list(range(1, 101))},
            "wide": {"id": list(range(1, 1001))},
            "high": {"id": list(range(200, 300))},
            "texts": {"id": [f"k{n}" for n in range(100)]},
            "empty": {"id": []},
            "child": {"x": [3, 50, 100, 7]},
        }
    )
    assert found(facts, "x") == ["exact", "wide"]


def test_only_the_nearest_ranges_are_named(gathered: Gathered) -> None:
    parents = {f"t{size}": {"id": list(range(1, size))} for size in range(20, 40)}
    assert found(gathered(parents | {"child": {"x": [1, 5, 7, 12]}}), "x") == [f"t{20 + n}" for n in range(NEAREST)]
    assert len(found(gathered(parents | {"child": {"x": [1, 5]}}), "x")) == NEAREST_OF_FEW


def test_texts_are_looked_up(gathered: Gathered) -> None:
    facts = gathered(
        {
            "codes": {"id": [f"k{n}" for n in range(40)]},
            "others": {"id": [f"o{n}" for n in range(40)]},
            "half": {"id": [f"k{n}" for n in range(0, 40, 2)]},
            "child": {"x": [f"k{n}" for n in range(30)]},
        }
    )
    assert found(facts, "x")[0] == "codes"
    assert "others" not in found(facts, "x")


def test_a_text_key_that_is_larger_than_its_sample_needs_one_hit(gathered: Gathered) -> None:
    tables = {"codes": {"id": ["k0", "z1", "z2"]}, "child": {"x": [f"k{n}" for n in range(8)]}}
    assert found(gathered(tables), "x") == []
    assert found(gathered(tables, rows={"codes": 50_000}), "x") == ["codes"]


def test_values_that_stand_everywhere_tell_nothing(gathered: Gathered) -> None:
    tables = {f"t{n}": {"id": ["a", "b", f"c{n}"]} for n in range(MOST_SHARED + 1)}
    assert found(gathered(tables | {"child": {"x": ["a", "b", "a"]}}), "x") == []


def test_nothing_is_its_own_parent(gathered: Gathered) -> None:
    facts = gathered({"one": {"id": [1, 2, 3, 4], "x": [2, 3, 4, 4]}, "two": {"id": [1, 2, 3, 4, 5]}})
    assert found(facts, "x") == ["one", "two"]
    keys = [column for column in facts.columns if column.name == "id"]
    assert [str(key) for key in ValueIndex(keys).parents(keys[0])] == ["two.id"]


@given(
    keys=st.lists(st.lists(st.integers(-20, 20), min_size=1, max_size=6, unique=True), min_size=1, max_size=6),
    values=st.lists(st.integers(-20, 20), min_size=1, max_size=6),
)
def test_every_key_that_holds_all_integers_is_named(
    gathered: Gathered, keys: list[list[int]], values: list[int]
) -> None:
    facts = gathered({f"t{n}": {"id": each} for n, each in enumerate(keys)} | {"child": {"x": values}})
    named = set(found(facts, "x"))
    few = len(set(values)) <= 3
    holding = {f"t{n}" for n, each in enumerate(keys) if set(values) <= set(each)}
    assert holding <= named or (few and len(named) == NEAREST_OF_FEW)


def test_a_few_orphans_do_not_hide_a_key(gathered: Gathered) -> None:
    tables = {"parent": {"id": list(range(1, 101))}, "child": {"x": [*range(1, 60), 999_999]}}
    assert found(gathered(tables), "x") == ["parent"]
    tables["child"] = {"x": [*range(1, 60), *range(200, 230)]}
    assert found(gathered(tables), "x") == []


def test_keys_for_all_columns_of_a_name(gathered: Gathered) -> None:
    facts = gathered(
        {
            "small": {"id": list(range(1, 50))},
            "large": {"id": list(range(1, 101))},
            "one": {"x": [3, 7]},
            "two": {"x": [90, 4]},
        }
    )
    keys = [column for column in facts.columns if column.name == "id"]
    namesakes = [column for column in facts.columns if column.name == "x"]
    assert [key.table.table.ref.name for key in ValueIndex(keys).shared(namesakes)] == ["large"]
