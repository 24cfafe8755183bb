"""TPC-H in a DuckDB file, opened as a user's connection is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.tpch.data import make_database


@pytest.fixture(scope="package")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    folder = tmp_path_factory.mktemp("tpch")
    make_database(folder / "tpch.duckdb", folder)
    connector = connect(ConnectionSpec("tpch", "duckdb", {"path": str(folder / "tpch.duckdb")}))
    try:
        yield connector
    finally:
        connector.close()
