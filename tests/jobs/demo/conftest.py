"""The demo company, built once a session, and questions to its warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from ktx_cli.jobs.demo.company import Company, build_company

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def company(tmp_path_factory: pytest.TempPathFactory) -> Company:
    return build_company(tmp_path_factory.mktemp("demo") / "seven", 7)


@pytest.fixture(scope="session")
def ask(company: Company) -> Iterator[Ask]:
    """A function that runs SQL on the warehouse of seed 7, read-only, and returns the rows."""
    with duckdb.connect(company.warehouse, read_only=True) as connection:
        yield lambda sql: connection.execute(sql).fetchall()
