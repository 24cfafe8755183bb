"""The parts of a table's name."""

from __future__ import annotations

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.semantic.load.joins import table_parts


@pytest.mark.table(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        (" shop.orders ", ("shop", "orders")),
        ("dwh.shop.orders", ("dwh", "shop", "orders")),
        ('shop."a.b"', ("shop", "a.b")),
        ('"sh""op".orders', ('sh"op', "orders")),
        ("my-project.shop.orders", ("my-project", "shop", "orders")),
        ("`my-project`.shop.orders", ("my-project", "shop", "orders")),
        ("`my-project.shop.orders`", ("my-project", "shop", "orders")),
        ("shop.`a.b`", ("shop", "a.b")),
        ("[dbo].[order lines]", ("dbo", "order lines")),
        ("dbo.[a]]b]", ("dbo", "a]b")),
    ],
)
def test_parts(text: str, parts: tuple[str, ...]) -> None:
    assert table_parts(text) == parts


@pytest.mark.table("text", ["", ".", "a.", ".a", "a..b", '"a', "`a", "[a", "`a`b", "a.`b`.", "`a..b`", '""'])
def test_no_name(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a table name"):
        table_parts(text)
