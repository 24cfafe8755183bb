"""Checks on the data: every way it can differ from what the files say, with its counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, SourceError, UsageError
from ktx_cli.jobs.semantic.validate import Validation, validate_layers
from ktx_cli.semantic import DataCheck

Edit = Callable[[str, str], None]


def validated(shop: Any, *names: str, **options: Any) -> Validation:
    return validate_layers(shop.layout, shop.config, names, environ={}, **options)


def check(found: Validation, kind: str, source: str = "orders") -> DataCheck:
    (only,) = [each for _, each in found.checks if (each.kind, each.source) == (kind, source)]
    return only


def codes(found: Validation) -> list[str]:
    return sorted(each.code for _, each in found.problems if each.severity != "info")


def test_a_layer_that_is_as_it_says(shop: Any) -> None:
    found = validated(shop)
    assert codes(found) == []
    assert [(c.kind, c.source, c.status) for _, c in found.checks] == [
        ("table", "customers", "passed"),
        ("table", "orders", "passed"),
        ("grain", "customers", "passed"),
        ("grain", "orders", "passed"),
        ("cardinality", "orders", "passed"),
        ("dangling", "orders", "passed"),
    ]
    assert check(found, "dangling").counts == {"rows": 3, "null_keys": 0, "dangling": 0}
    assert found.error(strict=True) is None


@pytest.mark.parametrize(
    ("change", "code", "kind", "counts"),
    [
        ("INSERT INTO orders VALUES (1, 2, NULL, 1), (1, 2, NULL, 1)", "grain_not_unique", "grain", (1, 3)),
        ("INSERT INTO orders VALUES (NULL, 2, NULL, 1), (NULL, 2, NULL, 1)", "grain_not_unique", "grain", (1, 2)),
        ("INSERT INTO orders VALUES (4, 9, NULL, 1), (5, NULL, NULL, 1)", "dangling", "dangling", (5, 1, 1)),
    ],
)
def test_rows_that_are_not_as_it_says(shop: Any, change: str, code: str, kind: str, counts: tuple[int, ...]) -> None:
    shop.run(change)
    found = validated(shop)
    assert codes(found) == [code]
    failed = check(found, kind)
    assert (failed.status, tuple(failed.counts.values())) == ("failed", counts)
    assert failed.problems[0].path.endswith("orders.yaml")


def test_a_side_declared_unique_that_is_not(shop: Any) -> None:
    shop.run("INSERT INTO customers VALUES (2, 'DK'), (NULL, 'X'), (NULL, 'Y')")
    found = validated(shop)
    failed = check(found, "cardinality")
    assert failed.counts == {"customers.repeated_values": 1, "customers.their_rows": 2}
    assert "but in `customers`, 1 value occurs more than once, in 2 rows of id" in failed.problems[0].message
    assert codes(found) == ["cardinality", "grain_not_unique"]
    assert check(found, "dangling").counts == {"rows": 3, "null_keys": 0, "dangling": 0}


@pytest.mark.parametrize(
    ("relationship", "failed"),
    [
        ("one_to_one", {"orders.repeated_values": 1, "orders.their_rows": 2}),
        ("one_to_many", {"orders.repeated_values": 1}),
    ],
)
def test_the_own_side_is_looked_at_where_it_is_declared_unique(
    shop: Any, edited: Edit, relationship: str, failed: dict[str, int]
) -> None:
    edited("many_to_one", relationship)
    found = check(validated(shop), "cardinality")
    assert found.status == "failed"
    assert failed.items() <= found.counts.items()


def test_of_one_to_many_the_dangling_rows_are_the_other_sides(shop: Any, edited: Edit) -> None:
    edited("joins:\n  - {to: customers, on: orders.customer_id = customers.id, relationship: many_to_one}\n", "")
    shop.write(
        "customers.yaml",
        "name: customers\ntable: customers\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
        "joins: [{to: orders, on: customers.id = orders.customer_id, relationship: one_to_many}]\n",
    )
    shop.run("INSERT INTO orders VALUES (4, 9, NULL, 1)")
    found = check(validated(shop), "dangling", "customers")
    assert found.counts == {"rows": 4, "null_keys": 0, "dangling": 1}
    assert "1 of 4 rows of `orders` (25%) have a key that does not exist in `customers`" in found.problems[0].message


def test_the_constants_of_a_join_choose_the_rows_it_is_about(shop: Any, edited: Edit) -> None:
    shop.run("ALTER TABLE orders ADD COLUMN kind TEXT; INSERT INTO orders VALUES (4, 77, NULL, 1, 'other')")
    edited("customers.id, rel", "customers.id AND kind = 'customer', rel")
    edited("- {name: amount", "- {name: kind, type: string}\n  - {name: amount")
    shop.run("UPDATE orders SET kind = 'customer' WHERE kind IS NULL")
    assert check(validated(shop), "dangling").counts == {"rows": 3, "null_keys": 0, "dangling": 0}


def test_a_computed_key_is_computed(shop: Any, edited: Edit) -> None:
    edited("orders.customer_id = customers.id", "orders.buyer = customers.id")
    edited("- {name: amount", "- {name: buyer, type: number, expr: customer_id + 1}\n  - {name: amount")
    assert check(validated(shop), "dangling").counts == {"rows": 3, "null_keys": 0, "dangling": 1}


def test_a_column_that_is_gone_is_named_with_the_nearest(shop: Any) -> None:
    shop.run("ALTER TABLE orders RENAME COLUMN customer_id TO custommer_id")
    found = validated(shop)
    (problem,) = check(found, "table").problems
    assert (problem.code, problem.hint) == ("missing_column", "did you mean `custommer_id`?")
    assert problem.line == 6
    assert check(found, "grain").status == "skipped"
    assert check(found, "cardinality").reason == "the table or some columns of orders do not exist"


def test_a_table_that_is_gone(shop: Any) -> None:
    shop.run("DROP TABLE customers")
    found = validated(shop)
    assert codes(found) == ["not_readable"]
    assert "no such table" in check(found, "table", "customers").problems[0].message
    assert check(found, "dangling").status == "skipped"
    assert check(found, "grain").status == "passed"


@pytest.mark.parametrize(
    ("sql", "found_codes", "status"),
    [
        ("SELECT id, amount FROM orders", [], "passed"),
        ("SELECT id, amounts FROM orders", ["not_projected", "not_readable"], "failed"),
        ("SELECT id, load_extension('x') AS amount FROM orders", ["refused"], "failed"),
        ("SELECT id, amount FROM orders WHERE amount > {{ param.least }}", [], "passed"),
        ("SELECT id, amount FROM orders WHERE amount > {{ param.most }}", [], "skipped"),
    ],
)
def test_sql_sources_are_run_through_the_filter(shop: Any, sql: str, found_codes: list[str], status: str) -> None:
    shop.write(
        "big.yaml",
        f'name: big\nsql: "{sql}"\ngrain: [id]\ncolumns: [{{name: id, type: number}}, {{name: amount, type: number}}]\n'
        "parameters: [{name: least, type: number, default: 3}, {name: most, type: number}]\n",
    )
    found = validated(shop, "big")
    assert codes(found) == found_codes
    assert check(found, "table", "big").status == status


def test_policies_hide_no_rows_from_the_checks(shop: Any) -> None:
    shop.write("customers.yaml", shop.folder.joinpath("semantic-layer/shop/customers.yaml").read_text()
               + 'policies: [{name: own, filter: "country = {{ user.country }}"}]\n')  # fmt: skip
    shop.run("INSERT INTO customers VALUES (1, 'XX')")
    assert check(validated(shop), "grain", "customers").counts == {"repeated_values": 1, "their_rows": 2}


def test_only_the_named_sources_are_checked(shop: Any) -> None:
    shop.run("INSERT INTO customers VALUES (1, 'NO')")
    assert {each.source for _, each in validated(shop, "orders").checks} == {"orders"}
    assert codes(validated(shop, "orders")) == ["cardinality"]
    with pytest.raises(KtxError) as caught:
        validated(shop, "ordres")
    assert (caught.value.code, caught.value.hint) == ("unknown_name", "did you mean `orders`?")


def test_without_data_no_database_is_opened(shop: Any) -> None:
    (shop.folder / "shop.sqlite").unlink()
    found = validated(shop, data=False)
    assert (found.checks, found.unread) == ([], {})


def test_a_database_that_cannot_be_opened_is_what_the_command_ends_with(shop: Any, edited: Edit) -> None:
    (shop.folder / "shop.sqlite").unlink()
    found = validated(shop)
    assert isinstance(found.error(strict=False), SourceError)
    edited("sum(amount)", "sum(amuont)")
    error = validated(shop).error(strict=False)
    assert error is not None
    assert error.code == "semantic_problems"


def test_a_used_up_budget_is_said(shop: Any) -> None:
    found = validated(shop, seconds=0)
    assert {each.status for _, each in found.checks} == {"skipped"}
    (warning,) = found.warnings()
    assert (warning.code, warning.message) == (
        "budget",
        "6 data checks were skipped: the time for data checks is used up",
    )


def test_warnings_count_where_it_is_strict(shop: Any) -> None:
    shop.run("INSERT INTO orders VALUES (4, 9, NULL, 1)")
    found = validated(shop)
    assert found.error(strict=False) is None
    error = found.error(strict=True)
    assert error is not None
    assert error.message == "the semantic layer has 1 warning"


def test_a_connection_that_is_not_configured_is_read_but_not_opened(shop: Any) -> None:
    shop.write("old.yaml", "name: old\ntable: old\ngrain: [id]\ncolumns: [{name: id, type: number}]\n", "former")
    found = validated(shop)
    assert ("former", "old") in found.sources
    assert {connection for connection, _ in found.checks} == {"shop"}


def test_a_connection_without_files(shop: Any) -> None:
    shop.configure("  other:\n    driver: sqlite\n    path: other.sqlite\n")
    with pytest.raises(UsageError, match="has no semantic layer"):
        validated(shop, connection="other")
