"""The shop of the workbook in DuckDB, and models of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.interchange.tableau.shop_workbook import MANIFEST, SHOP

Load = Callable[..., Model]
Answers = Callable[..., list[tuple[Any, ...]]]
Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tableau") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SHOP)
    return path


@pytest.fixture
def connector(shop_file: Path) -> Iterator[Connector]:
    opened = connect(ConnectionSpec("shop", "duckdb", {"path": str(shop_file)}))
    yield opened
    opened.close()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that loads files as the connection `shop`, with the manifest where asked for."""
    made = 0

    def load_files(files: Mapping[str, str], *, manifest: bool = True) -> Model:
        nonlocal made
        made += 1
        root = tmp_path / str(made)
        texts = {**files, **({"_schema/main.yaml": MANIFEST} if manifest else {})}
        for name, text in texts.items():
            path = root / "semantic-layer" / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return load_model(Layout(root), "shop", "duckdb")

    return load_files


@pytest.fixture
def manifest(load: Load) -> Model:
    return load({})


@pytest.fixture
def answers(connector: Connector) -> Answers:
    """Return a function that asks a question and gives its rows, numbers as floats."""
    return lambda model, **query: plain_rows(ask(model, query, connector).rows)


@pytest.fixture
def rows(shop_file: Path) -> Iterator[Rows]:
    """Return a function that runs SQL on the shop and gives its rows, numbers as floats."""
    with duckdb.connect(str(shop_file), read_only=True) as connection:
        yield lambda sql: plain_rows(connection.execute(sql).fetchall())


def plain_rows(found: Any) -> list[tuple[Any, ...]]:
    """Return rows in a fixed order, with numbers as floats and times as days."""
    return sorted((tuple(map(_plain, row)) for row in found), key=repr)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    return value.isoformat()[:10] if hasattr(value, "isoformat") else round(float(value), 9)
