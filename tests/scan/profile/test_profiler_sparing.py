"""A connector that keeps away from the rows of some tables."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.scan.profile.profiler import PROBLEMS, SparingConnector, Unsampled
from ktx_cli.warehouses.port import QueryResult, Scope, TableRef


class Source:
    """A connector that answers everything."""

    dialect = "mysql"
    closed = False

    def test(self, scope: Scope) -> str:
        return "tested"

    def introspect(self, scope: Scope) -> str:
        return "read"

    def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
        return QueryResult((sql,), ((max_rows, *parameters),))

    def close(self) -> None:
        self.closed = True


def test_only_statements_that_name_a_spared_table_are_refused() -> None:
    source: Any = Source()
    with SparingConnector(source, [TableRef("s", "v"), TableRef("s", "a`b")]) as sparing:
        for name in ("`s`.`v`", "`s`.`a``b`"):
            with pytest.raises(SourceError) as caught:
                sparing.query(f"SELECT count(*) FROM (SELECT 1 FROM {name}) AS x")
            assert (caught.value.message, caught.value.code) == (PROBLEMS[Unsampled.NOT_READ], "query")
            assert caught.value.hint == "ktx config set scan.views always"
        assert sparing.query("SELECT 1 FROM `s`.`vv`", (2,), max_rows=3).rows == ((3, 2),)
        assert [sparing.dialect, sparing.test(Scope()), sparing.introspect(Scope())] == ["mysql", "tested", "read"]
    assert not source.closed
