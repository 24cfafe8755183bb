from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.manifest import physical_name, quoted, source_names
from ktx_cli.warehouses.port import TableRef


@pytest.mark.table(
    ("ref", "physical"),
    [
        (TableRef(None, "orders"), "orders"),
        (TableRef("shop", "orders"), "shop.orders"),
        (TableRef(None, "Order Details"), '"Order Details"'),
        (TableRef("a.b", 'say "hi"'), '"a.b"."say ""hi"""'),
        (TableRef("public", "größe"), "public.größe"),
        (TableRef("public", "📦"), 'public."📦"'),
        (TableRef("public", "1st"), 'public."1st"'),
    ],
)
def test_physical_name(ref: TableRef, physical: str) -> None:
    assert physical_name(ref) == physical


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_physical_names_can_be_taken_apart_again(parts: list[str]) -> None:
    text = ".".join(quoted(part) for part in parts)
    found: list[str] = []
    rest = text
    while rest:
        if rest.startswith('"'):
            end = 1
            while not (rest[end] == '"' and rest[end : end + 2] != '""'):
                end += 2 if rest[end : end + 2] == '""' else 1
            found.append(rest[1:end].replace('""', '"'))
            rest = rest[end + 2 :]
        else:
            word, _, rest = rest.partition(".")
            found.append(word)
    assert found == parts


def test_namesakes_in_two_schemas_do_not_collide() -> None:
    refs = [TableRef("sales", "orders"), TableRef("public", "orders"), TableRef("hr", "staff")]
    assert source_names(refs, {}) == {
        TableRef("public", "orders"): "orders",
        TableRef("sales", "orders"): "sales_orders",
        TableRef("hr", "staff"): "staff",
    }


def test_namesakes_outside_a_default_schema_are_all_qualified() -> None:
    refs = [TableRef("a", "t"), TableRef("b", "t"), TableRef("b", "a_t")]
    names = source_names(refs, {})
    assert names[TableRef("b", "t")] == "b_t"
    assert len(set(names.values())) == 3


def test_a_table_keeps_its_name_when_a_namesake_appears() -> None:
    refs = [TableRef("public", "orders"), TableRef("sales", "orders")]
    names = source_names(refs, {"sales.orders": "orders"})
    assert names[TableRef("sales", "orders")] == "orders"
    assert names[TableRef("public", "orders")] == "public_orders"


@given(
    st.lists(
        st.builds(TableRef, st.sampled_from([None, "main", "a", "a_b"]), st.sampled_from(["t", "b_t", "a_t", "a_b_t"])),
        unique=True,
    )
)
def test_names_are_unique_and_stable(refs: list[TableRef]) -> None:
    names = source_names(refs, {})
    assert set(names) == set(refs)
    assert len(set(names.values())) == len(refs)
    assert source_names(list(reversed(refs)), {}) == names
    assert source_names(refs, {physical_name(ref): name for ref, name in names.items()}) == names
