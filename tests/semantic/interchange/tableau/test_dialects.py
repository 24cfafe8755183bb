"""Calculated fields in other dialects: the same fields are translated, and the databases at hand give equal numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.interchange.report import Fidelity
from ktx_cli.semantic.interchange.tableau.importer import import_tableau
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from ktx_cli.warehouses import DIALECTS
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.interchange.conftest import errors
from tests.semantic.interchange.tableau.conftest import Rows, plain_rows
from tests.semantic.interchange.tableau.shop_workbook import DIMENSIONS, FIELDS, MANIFEST, MEASURES, SHOP, workbook


def written(folder: Path, dialect: str, manifest: str = MANIFEST) -> tuple[Model, dict[str, Fidelity]]:
    """Return a model of the shop in a dialect with the workbook, and the report of the import."""

    def put(name: str, text: str) -> None:
        path = folder / dialect / "semantic-layer" / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    put("_schema/main.yaml", manifest)
    found = import_tableau({"shop.twb": workbook()}, load_model(Layout(folder / dialect), "shop", dialect))
    for name, text in found.files.items():
        put(name, text)
    return load_model(Layout(folder / dialect), "shop", dialect), {each.what: each for each in found.report}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_dialect_has_the_same_fields(dialect: str, tmp_path: Path) -> None:
    model, report = written(tmp_path, dialect)
    assert errors(model) == []
    for field in FIELDS:
        found = report[f"calculated field `{field.caption}` of `Shop`"]
        assert (found.target is not None) == bool(field.sql), (field.caption, found.why)


@contextmanager
def sqlite_shop(folder: Path, _: Any) -> Iterator[Connector]:
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(SHOP.replace("DATE '", "'"))
    database.close()
    opened = connect(ConnectionSpec("shop", "sqlite", {"path": str(folder / "shop.sqlite")}))
    yield opened
    opened.close()


@contextmanager
def postgres_shop(_: Path, request: pytest.FixtureRequest) -> Iterator[Connector]:
    server = request.getfixturevalue("postgres_server")
    statements = SHOP.replace("DOUBLE", "DOUBLE PRECISION").strip().rstrip(";").split(";\n")
    server.create_database("tableau_shop", "CREATE SCHEMA main", "SET search_path = main", *statements)
    opened = connect(ConnectionSpec("shop", "postgres", {"url": server.url("tableau_shop")}))
    yield opened
    opened.close()


@contextmanager
def mysql_shop(_: Path, request: pytest.FixtureRequest) -> Iterator[Connector]:
    server = request.getfixturevalue("mariadb_server")
    text = SHOP.replace("VARCHAR", "VARCHAR(20)").replace("TIMESTAMP", "DATETIME")
    server.create_database("main", *text.strip().rstrip(";").split(";\n"))
    opened = connect(ConnectionSpec("shop", "mysql", {"url": server.url("main")}))
    yield opened
    opened.close()


Shop = Callable[..., Any]
MISSING = {"sqlite": {"Typical Quantity", "Ninth Decile", "Spread"}, "mysql": {"Typical Quantity", "Ninth Decile"}}
"""Fields with functions that a database does not have."""


@pytest.mark.parametrize(
    ("dialect", "shop", "manifest"),
    [
        pytest.param("sqlite", sqlite_shop, MANIFEST.replace("main.", ""), id="sqlite"),
        pytest.param("postgres", postgres_shop, MANIFEST, id="postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", mysql_shop, MANIFEST, id="mariadb", marks=pytest.mark.mysql),
    ],
)
def test_numbers_are_equal(
    dialect: str, shop: Shop, manifest: str, tmp_path: Path, rows: Rows, request: pytest.FixtureRequest
) -> None:
    model, report = written(tmp_path, dialect, manifest)
    with shop(tmp_path, request) as connector:
        for field in FIELDS:
            target = report[f"calculated field `{field.caption}` of `Shop`"].target
            if target is None or field.sql in ("fixed", "include") or field.caption in MISSING.get(dialect, ()):
                continue
            if field in MEASURES:
                asked: dict[str, Any] = {"measures": [target]}
                expected = rows(f"SELECT {field.sql} FROM {field.over}")
            else:
                assert field in DIMENSIONS
                asked = {"measures": ["orders.order_rows"], "dimensions": [target], "include_empty": False}
                joined = "orders o LEFT JOIN customers c ON c.id = o.customer_id"
                expected = rows(f"SELECT {field.sql}, count(*) FROM {joined} GROUP BY 1")
            found = plain_rows(ask(model, asked, connector).rows)
            assert _alike(found) == _alike(expected), field.caption


def _alike(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with days instead of moments, numbers for booleans, and the digits that every database has."""
    return sorted(
        (tuple(each[:10] if isinstance(each, str) else None if each is None else round(float(each), 3) for each in row)
         for row in rows), key=repr,
    )  # fmt: skip
