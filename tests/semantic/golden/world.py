"""A small shop: its tables with rows that are not clean, its sources, and its model in every dialect."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import CalendarSettings, Model

SCHEMA = "shop"
CALENDAR = CalendarSettings(week_start="monday", fiscal_year_start=4)
NOW = datetime(2024, 4, 2, 9, 30)
ATTRIBUTES = {"team": "north", "grade": 2}

_WORDS = ("new", "paid", "sent", "void", None)
_START = datetime(2023, 11, 20, 8, 15)


def _orders() -> list[tuple[Any, ...]]:
    rows = []
    for n in range(1, 49):
        placed = _START + timedelta(days=3 * n, hours=5 * n % 24, minutes=7 * n % 60)
        customer = None if n % 16 == 0 else 99 if n % 21 == 0 else 1 + n * 5 % 11
        shipped = None if n % 5 == 0 else placed.date() + timedelta(days=n % 4)
        amount = Decimal(1000 + 137 * n % 4001) / 100
        discount = None if n % 3 == 0 else n % 7 / 4
        billed, sent = 1 + n % 4, None if n % 10 == 0 else 1 + n * 3 % 5
        rows.append((n, customer, placed, shipped, _WORDS[n % 5], amount, discount, n % 6 == 0, billed, sent))
    return rows


TABLES: Mapping[str, tuple[Mapping[str, str], list[tuple[Any, ...]]]] = {
    "regions": (
        {"id": "INTEGER", "name": "VARCHAR(40)", "team": "VARCHAR(40)"},
        [
            (1, "North", "north"),
            (2, "South", "south"),
            (3, None, "north"),
            (4, "Wéstern \"o'", "east"),
            (5, "Void", None),
        ],
    ),
    "customers": (
        {
            "id": "INTEGER",
            "name": "VARCHAR(40)",
            "region_id": "INTEGER",
            "tier": "VARCHAR(10)",
            "balance": "DECIMAL(18,2)",
            "since": "DATE",
            "phone": "VARCHAR(20)",
        },
        [
            (
                n,
                f"c{n:02}",
                None if n == 7 else 9 if n == 8 else 1 + n % 4,
                ("gold", "basic", None)[n % 3],
                Decimal(n * 1050) / 100,
                date(2022, 1 + n % 12, n),
                f"+49 {n}",
            )
            for n in range(1, 13)
        ],
    ),
    "orders": (
        {
            "id": "INTEGER",
            "customer_id": "INTEGER",
            "placed_at": "TIMESTAMP",
            "shipped_on": "DATE",
            "status": "VARCHAR(10)",
            "amount": "DECIMAL(18,2)",
            "discount": "DOUBLE",
            "gift": "BOOLEAN",
            "billed_to": "INTEGER",
            "sent_to": "INTEGER",
        },
        _orders(),
    ),
    "lines": (
        {"order_id": "INTEGER", "line": "INTEGER", "product_id": "INTEGER", "quantity": "INTEGER"},
        [(1 + n % 44, 1 + n // 44, 1 + n * 7 % 9, 1 + n % 5) for n in range(110)],
    ),
    "products": (
        {"id": "INTEGER", "name": "VARCHAR(40)", "price": "DECIMAL(18,2)"},
        [(n, f"p{n}" if n % 4 else None, Decimal(n * 333) / 100) for n in range(1, 9)],
    ),
    "tickets": (
        {"id": "INTEGER", "customer_id": "INTEGER", "opened_on": "DATE", "grade": "INTEGER"},
        [
            (n, None if n % 9 == 0 else 1 + n * 3 % 13, date(2023, 12, 1) + timedelta(days=4 * n), n % 4)
            for n in range(1, 28)
        ],
    ),
    "stock": (
        {"product_id": "INTEGER", "day": "DATE", "pieces": "INTEGER"},
        [
            (1 + n % 8, date(2024, 1, 1) + timedelta(days=5 * (n // 8)), None if n % 13 == 0 else 10 + 3 * n % 17)
            for n in range(96)
            if n % 11
        ],
    ),
}
"""Table -> (column -> type, rows)."""


def _columns(**types: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name, kind in types.items()]


def _to(target: str, on: str, **more: str) -> dict[str, str]:
    return {"to": target, "on": on, "relationship": "many_to_one", **more}


SOURCES: list[dict[str, Any]] = [
    {
        "name": "regions",
        "grain": ["id"],
        "columns": [
            *_columns(id="number", name="string"),
            {"name": "team", "type": "string", "visibility": "internal"},
        ],
    },
    {
        "name": "customers",
        "grain": ["id"],
        "columns": [
            *_columns(id="number", name="string", region_id="number", tier="string", balance="number"),
            {"name": "since", "type": "time", "natural_granularity": "day"},
            {"name": "phone", "type": "string", "visibility": "hidden"},
            {"name": "label", "type": "string", "expr": "COALESCE(tier, 'none')"},
        ],
        "joins": [_to("regions", "region_id = regions.id")],
        "measures": [
            {"name": "customers", "expr": "count(*)"},
            {"name": "balance_total", "expr": "sum(balance)"},
            {"name": "with_phone", "expr": "count(phone)"},
        ],
    },
    {
        "name": "orders",
        "grain": ["id"],
        "default_time_dimension": "placed_at",
        "columns": [
            *_columns(id="number", customer_id="number", placed_at="time"),
            {"name": "shipped_on", "type": "time", "natural_granularity": "day"},
            *_columns(status="string", amount="number", discount="number", gift="boolean"),
            *_columns(billed_to="number", sent_to="number"),
            {"name": "big", "type": "boolean", "expr": "amount > 30"},
        ],
        "joins": [
            _to("customers", "customer_id = customers.id"),
            _to("regions", "billed_to = regions.id", alias="billed"),
            _to("regions", "sent_to = regions.id", alias="sent"),
        ],
        "segments": [{"name": "done", "expr": "status IN ('paid', 'sent')"}],
        "measures": [
            {"name": "orders", "expr": "count(*)"},
            {"name": "revenue", "expr": "sum(amount)"},
            {"name": "paid_revenue", "expr": "sum(amount)", "segments": ["done"]},
            {"name": "gifts", "expr": "count(*)", "filter": "gift = TRUE"},
            {"name": "buyers", "expr": "count(distinct customer_id)"},
            {"name": "buyer_days", "expr": "count(distinct customer_id, shipped_on)"},
            {"name": "typical", "expr": "median(amount)"},
            {"name": "mean_discount", "expr": "avg(discount)"},
            {"name": "mean_customer", "expr": "avg(customer_id)"},
            {"name": "per_order", "expr": "revenue / orders"},
            {"name": "paid_share", "expr": "100 * paid_revenue / revenue"},
            {"name": "share", "expr": "revenue", "percent_of": "total"},
            {"name": "share_of_status", "expr": "revenue", "percent_of": ["status"]},
            {"name": "revenue_so_far", "expr": "revenue", "cumulative": {}},
            {"name": "revenue_28", "expr": "revenue", "cumulative": {"window": "28 days"}},
            {"name": "revenue_fytd", "expr": "revenue", "cumulative": {"to_date": "fiscal_year"}},
            {"name": "revenue_before", "expr": "revenue", "offset": "1 month"},
            {"name": "mean_of_customers", "expr": "avg(revenue)", "per": ["customer_id"]},
        ],
    },
    {
        "name": "lines",
        "grain": ["order_id", "line"],
        "columns": _columns(order_id="number", line="number", product_id="number", quantity="number"),
        "joins": [_to("orders", "order_id = orders.id"), _to("products", "product_id = products.id")],
        "measures": [
            {"name": "pieces", "expr": "sum(quantity)"},
            {"name": "value", "expr": "sum(quantity * products.price)"},
        ],
    },
    {
        "name": "products",
        "grain": ["id"],
        "columns": _columns(id="number", name="string", price="number"),
        "measures": [{"name": "products", "expr": "count(*)"}],
    },
    {
        "name": "tickets",
        "grain": ["id"],
        "columns": [
            *_columns(id="number", customer_id="number"),
            {"name": "opened_on", "type": "time", "natural_granularity": "day"},
            *_columns(grade="number"),
        ],
        "policies": [{"name": "graded", "filter": "grade <= {{ user.grade }}"}],
        "joins": [_to("customers", "customer_id = customers.id")],
        "measures": [{"name": "tickets", "expr": "count(*)"}],
    },
    {
        "name": "stock",
        "grain": ["product_id", "day"],
        "columns": [
            *_columns(product_id="number"),
            {"name": "day", "type": "time", "natural_granularity": "day"},
            *_columns(pieces="number"),
        ],
        "joins": [_to("products", "product_id = products.id")],
        "measures": [
            {"name": "on_hand", "expr": "sum(pieces)", "semi_additive": {"over": "day", "take": "last"}},
            {"name": "usual", "expr": "sum(pieces)", "semi_additive": {"over": "day", "take": "average"}},
        ],
    },
    {
        "name": "spenders",
        "sql": "WITH big AS (SELECT customer_id, SUM(amount) AS spent FROM orders WHERE amount >= {{ param.least }} "
        "GROUP BY customer_id) SELECT customer_id, spent FROM big WHERE NOT customer_id IS NULL",
        "grain": ["customer_id"],
        "parameters": [{"name": "least", "type": "number", "default": 15}],
        "columns": _columns(customer_id="number", spent="number"),
        "joins": [_to("customers", "customer_id = customers.id")],
        "measures": [{"name": "spenders", "expr": "count(*)"}, {"name": "spent", "expr": "sum(spent)"}],
    },
]


def physical(name: str, dialect: str) -> str:
    """Return a table's name as definitions write it: SQLite has no schemas."""
    return name if dialect == "sqlite" else f"{SCHEMA}.{name}"


def write_sources(folder: Path, dialect: str) -> None:
    """Write each source as a file of its own; JSON is YAML."""
    folder.mkdir(parents=True)
    for source in SOURCES:
        if "sql" in source:
            data = source | {"sql": _in_dialect(source["sql"], dialect)}
        else:
            data = source | {"table": physical(source["name"], dialect)}
        (folder / f"{source['name']}.yaml").write_text(json.dumps(data), encoding="utf-8")


def _in_dialect(sql: str, dialect: str) -> str:
    """Return the SQL of a source with its names in quotes, since those of the tables are in small letters."""
    tree = sqlglot.parse_one(sql.replace("{{ param.least }}", "least_"), dialect="duckdb")
    for table in tree.find_all(exp.Table):
        if table.name == "orders" and dialect != "sqlite":
            table.set("db", exp.to_identifier(SCHEMA))
    return tree.sql(dialect, identify=True).replace(_quoted("least_", dialect), "{{ param.least }}")


def _quoted(name: str, dialect: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect)


@functools.cache
def shop_model(dialect: str = "duckdb") -> Model:
    """Return the model of the shop in a dialect."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_sources(root / "semantic-layer" / SCHEMA, dialect)
        model = load_model(Layout(root), SCHEMA, dialect, CALENDAR)
    assert not [problem for problem in model.problems if problem.severity == "error"], model.problems
    return model
