"""What is proved the same is not asked twice; what is not, every time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ktx_cli.core.clock import Recent
from ktx_cli.warehouses.pool import CachingConnector
from ktx_cli.warehouses.port import QueryResult


class Database:
    """Counts what it is asked; `proof` stands for its data."""

    dialect = "duckdb"

    def __init__(self, proof: str | None) -> None:
        self.proof = proof
        self.asked: list[str] = []

    def evidence(self) -> str | None:
        return self.proof

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.asked.append(sql)
        return QueryResult(("n",), ((len(self.asked),),))


CASES = [
    ("the same data", "a", "a", "SELECT 1", (1, 1)),
    ("other data", "a", "b", "SELECT 1", (1, 2)),
    ("another statement", "a", "a", "SELECT 2", (1, 2)),
    ("no proof", None, None, "SELECT 1", (1, 2)),
]


@pytest.mark.table(("before", "after", "second", "answers"), [each[1:] for each in CASES])
def test_what_is_asked_again(before: str | None, after: str | None, second: str, answers: tuple[int, int]) -> None:
    database, kept = Database(before), Recent[QueryResult](10)
    first = CachingConnector(database, kept).query("SELECT 1").rows[0][0]  # type: ignore[arg-type]
    database.proof = after
    assert (first, CachingConnector(database, kept).query(second).rows[0][0]) == answers  # type: ignore[arg-type]
