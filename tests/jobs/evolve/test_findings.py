"""Findings of what agents asked: parts of queries that have the form of no query."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.jobs.evolve.findings import references_of


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (
            {"measures": ["orders.revenue", {"expr": "sum(orders.net)", "name": "net"}]},
            ("orders.revenue", "orders.net"),
        ),
        (
            {"filters": ["orders.status = 'a.b'"], "dimensions": [{"field": "shops.city"}]},
            ("shops.city", "orders.status"),
        ),
        ({"measures": "orders.gone", "dimensions": {"orders.a": 1}, "segments": 5}, ()),
        ({"filters": [[["orders.id"]], None, 7, {"expr": ["orders.id"], "field": {}}]}, ()),
    ],
)
def test_references_of_a_query_in_any_form(query: dict[str, Any], names: tuple[str, ...]) -> None:
    assert references_of(query) == names
