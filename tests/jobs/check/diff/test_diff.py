"""A database that changed since its scan: what changed, and what in the project refers to it."""

from __future__ import annotations

import shutil

import pytest

from ktx_cli.semantic.guarded import load_layer
from ktx_cli.semantic.store.reader import check_model
from tests.jobs.check.diff.conftest import Shop

TO_CUSTOMERS = "join orders to customers on customer_id = customers.id"
TO_ORDERS = "join customers to orders on id = orders.customer_id"


def test_a_database_as_it_was_scanned_has_no_drift_and_nothing_is_written(shop: Shop) -> None:
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")}
    found = shop.diff()
    assert (found.status, found.basis, found.tables, found.columns, found.changes) == (
        "unchanged",
        "snapshot",
        3,
        10,
        (),
    )
    assert {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")} == before
    assert shop.warnings == []


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        (
            "ALTER TABLE orders RENAME COLUMN amount TO total;",
            {
                "column_added orders.total": set(),
                "column_removed orders.amount": {
                    "source daily",
                    "measure daily.best_day by daily",
                    "column orders.net",
                    "measure orders.net_revenue by orders.net",
                    "measure orders.revenue",
                    "measure orders.mean by orders.revenue",
                    "measure orders.nordic",
                    "page wiki/global/revenue.md by orders.net_revenue",
                    "eval shop/best",
                },
            },
        ),
        (
            "ALTER TABLE orders DROP COLUMN status;",
            {
                "column_removed orders.status": {
                    "segment orders.paid",
                    "page wiki/global/revenue.md by orders.paid",
                    "eval shop/statuses",
                }
            },
        ),
        (
            "ALTER TABLE customers DROP COLUMN country;",
            {"column_removed customers.country": {"measure orders.nordic", "test orders.by country"}},
        ),
        ("ALTER TABLE customers DROP COLUMN nickname;", {"column_removed customers.nickname": set()}),
        ("DROP TABLE unused;", {"table_removed unused": set()}),
        ("CREATE TABLE more (id INTEGER);", {"table_added more": set()}),
        (
            "CREATE TABLE copy (id INTEGER PRIMARY KEY, customer_id INTEGER, placed_on DATE NOT NULL, amount REAL, "
            "status TEXT); DROP TABLE orders; ALTER TABLE copy RENAME TO orders;",
            {"foreign_key_removed orders.customer_id": {TO_CUSTOMERS, TO_ORDERS}},
        ),
        (
            "CREATE TABLE copy (id INTEGER, country TEXT, nickname TEXT); DROP TABLE customers; "
            "ALTER TABLE copy RENAME TO customers;",
            {
                "primary_key_changed customers.id": {TO_CUSTOMERS, TO_ORDERS},
                "column_nullable_changed customers.id": {TO_CUSTOMERS, TO_ORDERS, "test orders.by country"},
                "foreign_key_removed orders.customer_id": {TO_CUSTOMERS, TO_ORDERS},
            },
        ),
        (
            "CREATE TABLE copy (id INTEGER PRIMARY KEY, country INTEGER, nickname TEXT); DROP TABLE customers; "
            "ALTER TABLE copy RENAME TO customers;",
            {"column_type_changed customers.country": {"measure orders.nordic", "test orders.by country"}},
        ),
    ],
)  # fmt: skip
def test_what_refers_to_a_change_is_told(shop: Shop, script: str, wanted: dict[str, set[str]]) -> None:
    assert shop.used(script) == wanted


def test_with_a_table_everything_goes_that_is_about_it(shop: Shop) -> None:
    assert shop.used("DROP TABLE customers;") == {
        "table_removed customers": {
            *(TO_CUSTOMERS, TO_ORDERS, "test orders.by country", "page wiki/global/people.md", "measure orders.nordic")
        },
        "foreign_key_removed orders.customer_id": {TO_CUSTOMERS, TO_ORDERS},
    }


@pytest.mark.parametrize(
    ("script", "breaking"),
    [
        ("ALTER TABLE orders DROP COLUMN amount;", True),
        ("ALTER TABLE customers DROP COLUMN nickname;", False),
        ("DROP TABLE unused;", False),
        ("ALTER TABLE orders ADD COLUMN note TEXT;", False),
        ("CREATE TABLE copy (id INTEGER, note INTEGER); DROP TABLE unused; ALTER TABLE copy RENAME TO unused;", True),
        ("CREATE TABLE copy (id BIGINT, note TEXT); DROP TABLE unused; ALTER TABLE copy RENAME TO unused;", False),
        ("CREATE INDEX by_status ON orders (status);", False),
    ],
)
def test_what_breaks_is_a_reference_or_a_type(shop: Shop, script: str, breaking: bool) -> None:
    shop.execute(script)
    (change,) = shop.diff().changes
    assert change.breaking is breaking


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE orders DROP COLUMN amount;",
        "ALTER TABLE orders DROP COLUMN status; ALTER TABLE customers DROP COLUMN country;",
        "DROP TABLE customers;",
        "ALTER TABLE orders RENAME COLUMN placed_on TO day;",
    ],
)
def test_whatever_the_next_scan_makes_wrong_was_told_before(shop: Shop, script: str) -> None:
    """The same places, whichever way they are found: by asking what refers, and by checking what is left."""
    shop.execute(script)
    told = {
        (use.part.place.path, use.part.place.line)
        for each in shop.diff().changes
        for use in each.uses
        if use.part.place
    }
    shop.scan()
    assert shop.diff().changes == ()
    model = load_layer(shop.layout, shop.config, "shop")
    broken = {(each.path, each.line) for each in (*model.problems, *check_model(model)) if each.severity == "error"}
    assert broken <= told


def test_without_a_snapshot_the_manifest_is_what_it_is_compared_with(shop: Shop) -> None:
    shutil.rmtree(shop.root / "raw-sources")
    shop.execute("ALTER TABLE customers DROP COLUMN country;")
    found = shop.diff()
    assert (found.basis, [f"{each.kind.value} {each.what}" for each in found.changes]) == (
        "manifest",
        ["column_removed customers.country"],
    )
    assert [each.code for each in shop.warnings] == ["no_snapshot"]


def test_files_that_cannot_be_read_cost_only_what_they_would_tell(shop: Shop) -> None:
    shop.write("evals/shop.yaml", "cases: [")
    shop.write("semantic-layer/shop/daily.yaml", "name: daily\nsql: [")
    (uses,) = shop.used("ALTER TABLE orders DROP COLUMN status;").values()
    assert "segment orders.paid" in uses
    assert [each.code for each in shop.warnings] == ["evals_unreadable"]


def test_a_snapshot_is_not_read_from_elsewhere(shop: Shop) -> None:
    manifest = shop.root / "raw-sources/shop/live-database/manifest.yaml"
    manifest.rename(shop.root.parent / "elsewhere")
    manifest.symlink_to(shop.root.parent / "elsewhere")
    assert shop.diff().basis == "manifest"
    assert any("points outside the project" in warning.message for warning in shop.warnings), shop.warnings
