"""For a caller who does not see a masked column, no answer depends on its values: no row, total, receipt or error."""

from __future__ import annotations

import functools
import random
import re
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ktx_cli.core.errors import KtxError
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.filter_values import comparisons, plan_check
from ktx_cli.semantic.model import Mask, Model
from ktx_cli.semantic.verification import verify
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.golden import engines
from tests.semantic.golden.world import ATTRIBUTES, NOW, SCHEMA, TABLES, shop_model

MASKED: Mapping[str, tuple[Any, ...]] = {
    "customers.tier": ("***", None), "customers.balance": (0, None), "customers.since": (None,),
    "customers.phone": ("none", None), "orders.status": ("paid", "***", None), "orders.amount": (1, None),
    "orders.discount": (None, 0.5), "orders.gift": (False, True, None), "orders.placed_at": (None,),
    "orders.shipped_on": (None,), "regions.name": ("x", None), "regions.team": (None,), "products.price": (2, None),
    "products.name": ("***",), "tickets.opened_on": (None,), "lines.quantity": (None, 3), "stock.pieces": (0, None),
}  # fmt: skip
"""Each column that is masked, with the values of its masks. None of them is a key."""
KEYS = {
    "customers.id": ("customers.id", "orders.customer_id", "tickets.customer_id"),
    "regions.id": ("regions.id", "customers.region_id", "orders.billed_to", "orders.sent_to"),
    "orders.id": ("orders.id", "lines.order_id"),
    "products.id": ("products.id", "lines.product_id", "stock.product_id"),
}
"""Each key that is masked, with all columns that joins equate with it: their other values match the same rows."""
EVERY = "every column"
CALLERS = (
    Caller.of(ATTRIBUTES),
    Caller.of({**ATTRIBUTES, "role": "guest"}),
    Caller.of({**ATTRIBUTES, "role": "support"}, ATTRIBUTES),
)
INVISIBLE = ("customers.phone", "regions.team")
"""The columns that are hidden or internal, so that no question groups by them."""

_OF_CUSTOMERS = {"customers.tier": "s", "customers.balance": "n", "customers.since": "t", "customers.label": "s"}
_OF_ORDERS = {
    "orders.status": "s", "orders.amount": "n", "orders.discount": "n", "orders.gift": "b", "orders.placed_at": "t",
    "orders.shipped_on": "t", "orders.big": "b",
    "orders.customer_id": "n", "customers.id": "n", "billed.id": "n", "billed.name": "s",
    "customers.regions.name": "s", **_OF_CUSTOMERS,
}  # fmt: skip
_OF_PRODUCTS = {"products.price": "n", "products.name": "s"}
_COLUMNS: dict[str, dict[str, str]] = {
    "orders": _OF_ORDERS,
    "customers": {**_OF_CUSTOMERS, "regions.name": "s", "orders.status": "s"},
    "lines": {
        "lines.quantity": "n",
        "lines.order_id": "n",
        "lines.product_id": "n",
        "orders.id": "n",
        **_OF_PRODUCTS,
        "orders.status": "s",
        "orders.amount": "n",
    },
    "products": _OF_PRODUCTS,
    "tickets": {"tickets.opened_on": "t", "tickets.customer_id": "n", **_OF_CUSTOMERS},
    "stock": {"stock.pieces": "n", "stock.product_id": "n", "products.id": "n", **_OF_PRODUCTS},
}
"""Fact -> the columns that its questions use, with their types."""
_MEASURES = {
    "orders": [
        *("orders.orders", "orders.revenue", "orders.paid_revenue", "orders.gifts", "orders.typical", "orders.share"),
        *("orders.mean_discount", "orders.share_of_status", "orders.revenue_so_far", "orders.revenue_28"),
        *(
            "orders.mean_of_customers",
            "orders.revenue_before",
            "orders.buyer_days",
            "orders.per_order",
            "orders.buyers",
        ),
    ],
    "customers": ["customers.customers", "customers.balance_total", "customers.with_phone"],
    "lines": ["lines.pieces", "lines.value"],
    "products": ["products.products"],
    "tickets": ["tickets.tickets"],
    "stock": ["stock.on_hand", "stock.usual"],
}
_LITERALS = {"s": ["'paid'", "'***'", "'gold'"], "n": ["0", "1", "30"], "b": ["TRUE"], "t": ["DATE '2024-01-01'"]}
_FUNCTIONS = {
    "s": ["min", "max", "count", "count_distinct"],
    "n": ["min", "max", "count", "count_distinct", "sum", "median", "avg"],
    "b": ["count"],
    "t": ["min", "max", "count_distinct"],
}
_OWN = {"orders": "placed_at", "customers": "since", "tickets": "opened_on"}


def _conditions(columns: Mapping[str, str]) -> st.SearchStrategy[str]:
    def about(item: tuple[str, str]) -> st.SearchStrategy[str]:
        name, kind = item
        compared = st.builds(
            "{} {} {}".format, st.just(name), st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from(_LITERALS[kind])
        )
        missing = st.sampled_from([f"{name} IS NULL", f"NOT {name} IS NULL"])
        texts = st.sampled_from([f"{name} LIKE 'p%'", f"{name} IN ('paid', 'gold')", f"length({name}) > 3"])
        numbers = st.sampled_from([f"1 / ({name} - 1) > 0", f"CASE WHEN {name} > 5 THEN 1 ELSE 0 END = 1"])
        return compared | missing | {"s": texts, "n": numbers}.get(kind, missing)

    return st.sampled_from(sorted(columns.items())).flatmap(about)


def _questions_of(fact: str) -> st.SearchStrategy[dict[str, Any]]:
    columns = _COLUMNS[fact]
    own = {name: kind for name, kind in columns.items() if name.startswith(f"{fact}.")}
    custom = [f"{function}({name})" for name, kind in own.items() for function in _FUNCTIONS[kind]]
    measures = st.sampled_from(_MEASURES[fact]) | st.sampled_from(custom)
    times = [name for name, kind in columns.items() if kind == "t"] or [f"{fact}.nothing"]
    grains = st.sampled_from(["day", "month", "year"])
    dimensions = st.sampled_from(sorted(columns)) | st.sampled_from(
        [f"upper({name})" for name, kind in columns.items() if kind == "s"] or sorted(columns)
    )
    if fact in _OWN:
        dimensions |= st.fixed_dictionaries(
            {"field": st.sampled_from([f"{fact}.{_OWN[fact]}", *times]), "granularity": grains}
        )
    ranges = st.fixed_dictionaries(
        {"field": st.sampled_from(times), "start": st.just("2024-01-01"), "end": st.just("2024-03-01")}
    )
    having = st.builds("{} > {}".format, measures, st.sampled_from(["0", "5"]))
    optional: dict[str, st.SearchStrategy[Any]] = {
        "dimensions": st.lists(dimensions, max_size=2, unique_by=str),
        "filters": st.lists(_conditions(columns), max_size=2),
        "having": st.lists(having, max_size=1),
        "totals": st.booleans(),
        "include_empty": st.booleans(),
    }
    if fact in _OWN:
        optional |= {"time_range": ranges, "fill": st.just(True), "comparison": st.just({"offset": "1 month"})}
    if fact == "orders":
        optional["segments"] = st.just(["orders.done"])
    return st.fixed_dictionaries(
        {"measures": st.lists(measures, min_size=1, max_size=2, unique=True)}, optional=optional
    )


_questions = st.sampled_from(sorted(_COLUMNS)).flatmap(_questions_of)


@given(st.sampled_from(["duckdb", "sqlite"]), st.sampled_from([*MASKED, *KEYS, EVERY]), _questions, st.data())
def test_no_answer_depends_on_masked_values(
    engine: str, masked: str, question: dict[str, Any], data: st.DataObject
) -> None:
    names = [*MASKED, *KEYS] if masked == EVERY else [masked]
    values = {name: data.draw(st.sampled_from(MASKED.get(name, (None, 7))), label=name) for name in names}
    caller = data.draw(st.sampled_from(CALLERS))
    first, second = (_answered(engine, shop, question, values, caller) for shop in ("", masked))
    assert first == second
    event(first[0])


def _answered(
    engine: str, shop: str, question: dict[str, Any], values: Mapping[str, Any], caller: Caller
) -> tuple[str, Any]:
    """Return everything that a caller learns from a question."""
    model, connector = _with_masks(engine, values), _shop(engine, shop)
    try:
        answer = ask(model, question, connector, caller=caller, now=NOW)
        assert answer.asked is not None
        asked = answer.asked
        verified = verify(asked.compiled.build, answer.rows, connector, seconds=30).to_json()
        wanted = comparisons(asked)
        found: Any = None
        if wanted:
            check = plan_check(asked, wanted, (), [True] * len(wanted))
            found = sorted(map(repr, connector.query(check.sql, max_rows=1000).rows))
    except KtxError as error:
        message = re.sub(r"\(/\S+\)", "(PATH)", error.message)
        return f"error {error.code}", (message, str(error.hint), dict(error.details))
    receipt = {key: value for key, value in answer.receipt.items() if key != "timing_ms"}
    return "answer", (answer.rows, answer.totals, receipt, {**verified, "milliseconds": 0}, found)


def _with_masks(engine: str, values: Mapping[str, Any]) -> Model:
    sources = dict(shop_model(engine).sources)
    for name, value in values.items():
        source, column = name.split(".")
        masked = replace(sources[source].columns[column], mask=Mask((("role", ("support", "admin")),), value))
        sources[source] = replace(sources[source], columns={**sources[source].columns, column: masked})
    if {"orders.amount", "customers.id"} & set(values):
        del sources["spenders"]  # its SQL reads the masked column, which `check_source` refuses
    return replace(shop_model(engine), sources=sources)


@functools.cache
def _shop(engine: str, masked: str) -> Connector:
    """Return a shop in which the masked column has other values."""
    names = [*MASKED, *KEYS] if masked == EVERY else [masked] if masked else []
    folder = Path(tempfile.mkdtemp(prefix="ktx-masks-"))
    path = folder / f"tables.{engine}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engines, "TABLES", _tables(names))
        if engine == "sqlite":
            with sqlite3.connect(path) as session:
                session.executescript(";\n".join(engines.creating(engine)))
            session.close()
        else:
            with duckdb.connect(str(path)) as opened:
                for statement in (f"CREATE SCHEMA {SCHEMA}", *engines.creating(engine)):
                    opened.execute(statement)
    return connect(ConnectionSpec(SCHEMA, engine, {"path": str(path)}))


def _tables(names: list[str]) -> dict[str, tuple[Mapping[str, str], list[tuple[Any, ...]]]]:
    chosen = random.Random(7)
    keys = {column for name in names for column in KEYS.get(name, ())}
    tables = {}
    for table, (columns, rows) in TABLES.items():
        named = [f"{table}.{column}" for column in columns]
        tables[table] = (
            columns,
            [
                tuple(
                    _other_key(value) if name in keys else _other(value, chosen) if name in names else value
                    for name, value in zip(named, row, strict=True)
                )
                for row in rows
            ],
        )
    return tables


def _other_key(value: int | None) -> int | None:
    """Return the new value of a key: other keys have others, in another order."""
    return None if value is None else 5000 - 7 * value


def _other(value: Any, chosen: random.Random) -> Any:
    if value is None or chosen.random() < 0.2:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return chosen.choice(["gold", "paid", "North", "secret", ""])
    if isinstance(value, datetime | date):
        return value + timedelta(days=chosen.randrange(-400, 400))
    if isinstance(value, Decimal):
        return Decimal(chosen.randrange(9000)) / 100
    return type(value)(chosen.choice([0, 1, 7, 30, 1000]))


def test_the_shops_differ_for_a_caller_who_sees_the_values() -> None:
    """The property would hold of two equal shops as well."""
    sees = Caller.of({**ATTRIBUTES, "role": "support"})
    for engine in ("duckdb", "sqlite"):
        for name in [*MASKED, *KEYS]:
            if name in INVISIBLE:
                continue
            question = {"measures": [_COUNTS[name.split(".")[0]]], "dimensions": [name]}
            of_both = [_answered(engine, shop, question, {name: None}, sees) for shop in ("", name)]
            assert [each[0] for each in of_both] == ["answer", "answer"]
            assert of_both[0] != of_both[1], name


_COUNTS = {
    "customers": "customers.customers", "orders": "orders.orders", "regions": "count(regions)",
    "products": "products.products", "tickets": "tickets.tickets", "lines": "lines.pieces", "stock": "stock.on_hand",
}  # fmt: skip
