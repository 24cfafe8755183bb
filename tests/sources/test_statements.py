"""What documents and dbt models state of decision points, and with which words and places."""

from __future__ import annotations

import pytest

from ktx_cli.scan import FoundPoint, decisions_path, points_bytes, read_record
from ktx_cli.semantic import Alternative, DecisionKind, Statement
from ktx_cli.sources.dbt.source import DbtSource
from ktx_cli.sources.documents.source import DocumentsSource
from ktx_cli.warehouses import TableRef
from tests.sources.projecting import SHARD, SHOP, Project

COUNT = Alternative("count", "They count")


def point(kind: DecisionKind, table: str, *columns: str, **changes: str) -> FoundPoint:
    other = Alternative("other", "Another reading", **changes)
    return FoundPoint(TableRef("shop", table), kind, columns, "How?", (COUNT, other))


INTERNAL = point(DecisionKind.INTERNAL, "customers", "is_internal", filter="NOT is_internal")
DELETED = point(DecisionKind.DELETED, "customers", "deleted_at", filter="deleted_at IS NULL")
MERGED = point(DecisionKind.MERGED, "customers", "merged_into", filter="merged_into IS NULL")
STAFF = point(DecisionKind.STAFF, "customers", "email", filter="email NOT LIKE '%@acme.io'")
STATUS = point(DecisionKind.STATUS, "orders", "status", filter="status <> 'cancelled'")
PURCHASES = point(DecisionKind.STATUS, "purchase_orders", "status", filter="status <> 'cancelled'")
GROUP = point(DecisionKind.ENTITY, "customers", "parent_id", expr="count(distinct parent_id)")
AMOUNT = point(DecisionKind.AMOUNT, "orders", "amount", "tax", expr="sum(amount + tax)")
UNIT = point(DecisionKind.UNIT, "orders", "amount", expr="sum(amount) / 100")
CURRENCY = point(DecisionKind.CURRENCY, "orders", "currency", "amount", expr="sum(amount * rate)")
DATE = point(DecisionKind.DATE, "orders", "ordered_at", "shipped_at", time="shipped_at")
FISCAL = point(DecisionKind.FISCAL_START, "budgets", "fiscal_year")
RATING = point(DecisionKind.NULLS, "orders", "rating", expr="avg(coalesce(rating, 0))")
REPEATED = point(DecisionKind.DUPLICATES, "customers", "email", expr="count(distinct email)")
ALL = (
    INTERNAL,
    DELETED,
    MERGED,
    STAFF,
    STATUS,
    PURCHASES,
    GROUP,
    AMOUNT,
    UNIT,
    CURRENCY,
    DATE,
    FISCAL,
    RATING,
    REPEATED,
)


def project(*points: FoundPoint) -> Project:
    made = Project({SHARD: SHOP})
    made.files[decisions_path("shop")] = points_bytes(points)
    return made


def stated(made: Project) -> dict[DecisionKind, tuple[Statement, ...]]:
    return {each.kind: each.statements for each in read_record(made.files, "shop") if each.statements}


def of_text(text: str, *points: FoundPoint) -> dict[DecisionKind, tuple[Statement, ...]]:
    made = project(*points)
    made.run(DocumentsSource(), {"figures.md": text})
    return stated(made)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Internal customers do not count.", DecisionKind.INTERNAL),
        ("We exclude test accounts from every figure.", DecisionKind.INTERNAL),
        ("Archived clients are still included.", DecisionKind.DELETED),
        ("Customers that were merged into another one are ignored.", DecisionKind.MERGED),
        ("Never count people of our own domain as customers.", DecisionKind.STAFF),
        ("Cancelled orders are left out.", DecisionKind.STATUS),
        ("A group of customers counts as one customer.", DecisionKind.ENTITY),
        ("Revenue of orders is without VAT.", DecisionKind.AMOUNT),
        ("Order amounts are stored in cents.", DecisionKind.UNIT),
        ("Orders in other currencies are converted at the monthly rate.", DecisionKind.CURRENCY),
        ("An order belongs to the month in which it was shipped.", DecisionKind.DATE),
        ("Our fiscal year starts in April.", DecisionKind.FISCAL_START),
        ("Orders without a rating are not part of the average.", DecisionKind.NULLS),
        ("A customer that registers twice counts once.", DecisionKind.DUPLICATES),
        ("Internal customers get a discount of ten percent on orders.", None),
        ("Customers of every size are welcome.", None),
        ("Orders are shipped within two days.", None),
        ("Cancelled orders are refunded within a week.", None),
        ("The support team merges tickets every day.", None),
        ("Test your backups before you count on them.", None),
    ],
)
def test_sentences_state_the_points_that_they_are_about(sentence: str, kind: DecisionKind | None) -> None:
    found = of_text(f"# Figures\n\nHow we report.\n\n{sentence}\n", *ALL)
    expected = Statement(sentence, "analytics/figures.md", 5)
    assert found == ({} if kind is None else {kind: (expected,)})


def test_a_sentence_over_several_lines_is_found_at_its_first_one() -> None:
    found = of_text("Some words first. Internal\ncustomers do\nnot count. The end.\n", INTERNAL)
    (statement,) = found[DecisionKind.INTERNAL]
    assert (statement.text, statement.line) == ("Internal customers do not count.", 1)


@pytest.mark.parametrize(
    "text",
    [
        "---\nstatus: superseded\n---\n\nInternal customers do not count.\n",
        "# Draft: figures\n\nStatus: draft\n\nInternal customers do not count.\n",
        "Internal customers do not count, ask jane.doe@acme-corp.io for the list.\n",
        "```\nInternal customers do not count.\n```\n",
    ],
)
def test_superseded_documents_code_and_personal_data_state_nothing(text: str) -> None:
    assert of_text(text, INTERNAL) == {}


def test_orders_are_not_purchase_orders() -> None:
    made = project(STATUS, PURCHASES)
    made.run(DocumentsSource(), {"a.md": "Cancelled orders do not count.\n"})
    assert [each.table.name for each in read_record(made.files, "shop") if each.statements] == ["orders"]


def test_a_source_replaces_what_it_stated_and_keeps_what_others_state() -> None:
    made = project(INTERNAL)
    made.run(DocumentsSource(), {"a.md": "Internal customers do not count.\n"})
    before = dict(made.files)
    made.run(DocumentsSource(), {"a.md": "Internal customers do not count.\n"})
    assert dict(made.files) == before
    (found,) = read_record(made.files, "shop")
    other = Statement("Ours do not count.", "notion/page.md")
    made.files[decisions_path("shop")] = points_bytes(
        [FoundPoint(*found.key, found.question, found.alternatives, statements=(*found.statements, other))]
    )
    made.run(DocumentsSource(), {"a.md": "Nothing is stated.\n"})
    assert stated(made) == {DecisionKind.INTERNAL: (other,)}


SETTINGS = "name: acme\nmodels: {+materialized: table}\n"
SOURCES = "sources: [{name: shop, tables: [{name: orders}, {name: customers}]}]\n"
STAGING = "select id, status, amount, tax, ordered_at from {{ source('shop', 'orders') }}\n"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select id from {{ ref('stg_orders') }}\nwhere status <> 'cancelled'\n", DecisionKind.STATUS),
        ("select id, amount + tax as total from {{ ref('stg_orders') }}\n", DecisionKind.AMOUNT),
        ("select id, amount from {{ ref('stg_orders') }}\n", None),
        ("select id from {{ source('shop', 'customers') }} where status <> 'cancelled'\n", None),
    ],
)
def test_models_state_what_their_sql_does_with_the_columns_of_a_table(sql: str, expected: DecisionKind | None) -> None:
    made = project(STATUS, AMOUNT)
    files = {
        "dbt_project.yml": SETTINGS,
        "models/sources.yml": SOURCES,
        "models/stg_orders.sql": STAGING,
        "models/facts.sql": sql,
    }
    made.run(DbtSource(), files)
    found = stated(made)
    assert set(found) == ({expected} if expected else set())
    for (statement,) in found.values():
        assert statement.path == "analytics/models/facts.sql" and statement.text.startswith("facts: ")


def test_a_broken_record_is_left_alone() -> None:
    made = project(INTERNAL)
    made.files[decisions_path("shop")] = b"{"
    made.run(DocumentsSource(), {"a.md": "Internal customers do not count.\n"})
    assert made.files[decisions_path("shop")] == b"{"
