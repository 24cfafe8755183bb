"""The golden questions for a caller who sees a mask in every column that has no key: the same rows on every engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import Mask, Model
from ktx_cli.semantic.query import MOST_ROWS
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from tests.semantic.golden.engines import comparable, opened
from tests.semantic.golden.questions import QUESTIONS
from tests.semantic.golden.test_golden import dialects_of
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model
from tests.semantic.test_mask_property import MASKED

CALLER = Caller.of(ATTRIBUTES)
TIMES = {"orders.placed_at", "orders.shipped_on", "customers.since", "tickets.opened_on"}
"""Masked times leave most questions without rows, so that a model masks them or everything else."""


@functools.cache
def _masked(engine: str, *, times: bool) -> Model:
    model = shop_model(engine)
    sources = dict(model.sources)
    for name, (value, *_) in MASKED.items():
        if (name in TIMES) is not times:
            continue
        source, column = name.split(".")
        masked = replace(sources[source].columns[column], mask=Mask((("role", ("support",)),), value))
        sources[source] = replace(sources[source], columns={**sources[source].columns, column: masked})
    return replace(model, sources=sources)


def _rows(engine: str, connector: Any, asked: Sequence[bool]) -> dict[tuple[str, bool], Any]:
    found: dict[tuple[str, bool], Any] = {}
    for times in asked:
        for name, question in QUESTIONS.items():
            try:
                answer = ask(_masked(engine, times=times), question, connector, caller=CALLER, now=NOW)
                found[name, times] = comparable(answer.rows)
            except KtxError as error:
                found[name, times] = error.code
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "engine",
    [
        "sqlite",
        "clickhouse",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def test_every_engine_shows_the_same_masks(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    servers = {"postgres": "postgres_server", "mysql": "mariadb_server"}
    server = request.getfixturevalue(servers[engine]) if engine in servers else None
    (tmp_path / "duckdb").mkdir()
    asked = (False, True)
    with opened("duckdb", tmp_path / "duckdb") as connector:
        wanted = _rows("duckdb", connector, asked)
    assert not [name for name, rows in wanted.items() if isinstance(rows, str)]
    with opened(engine, tmp_path, server) as connector:
        found = _rows(engine, connector, asked)
    assert {name: (rows, wanted[name]) for name, rows in found.items() if rows != wanted[name]} == {}


@pytest.mark.table("name", QUESTIONS)
def test_the_statement_is_let_through_in_every_dialect(name: str) -> None:
    for dialect in dialects_of(name):
        sql = compile_query(_masked(dialect, times=False), QUESTIONS[name], caller=CALLER, now=NOW).sql
        assert "__masked" in sql or "stock" in sql or "tickets" in sql, dialect
        check(sql, dialect, max_rows=MOST_ROWS, server=EITHER)
    assert set(dialects_of(name)) <= set(DIALECTS)
