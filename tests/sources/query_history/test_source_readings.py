"""What is kept of statements between runs: the same raw files without a parser, and nothing that anybody looked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import EmptyTree
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.query_history import statements
from ktx_cli.sources.query_history.source import QueryHistorySource, contents_of
from ktx_cli.warehouses.postgres import PostgresConnection

SQL = """\
-- user: ada executions: 40
SELECT r.label, sum(o.total) FROM orders o JOIN regions r ON r.region_id = o.region_id
  WHERE o.status = 'secret-status' AND o.total > 471147114711 GROUP BY 1;
-- user: bob executions: 9
/* {"app": "dbt", "node": "secret-node"} */ SELECT name FROM customers WHERE country = 'secret-land';
-- executions: 12
SELECT FROM WHERE (secret_broken;
-- executions: 7
SELECT a.kind FROM elsewhere.things AS a WHERE a.day = '2026-01-01';
"""
Context = Callable[..., FetchContext]


def entry(**settings: Any) -> PostgresConnection:
    context = {"queryHistory": {"enabled": True, "file": "q.sql", **settings}}
    return PostgresConnection.model_validate({"driver": "postgres", "url": "env:PG", "context": context})


def fetched(context: FetchContext, model: Model, sql: str = SQL, **settings: Any) -> tuple[dict[str, bytes], list[str]]:
    """Return the raw files, and the words of the warnings."""
    (context.layout.root / "q.sql").write_text(sql, "utf-8")
    snapshot = QueryHistorySource(model).fetch(entry(**settings), context)
    return contents_of(snapshot), [warning.message for warning in snapshot.warnings]


def kept(context: FetchContext) -> Path:
    (place,) = (context.layout.cache / "query-history").iterdir()
    return place


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts a parser was asked for."""
    texts: list[str] = []
    real = statements._parsed

    def note(text: str, dialect: str) -> Any:
        texts.append(text)
        return real(text, dialect)

    monkeypatch.setattr(statements, "_parsed", note)
    return texts


@pytest.mark.parametrize("scope", [{}, {"enabledSchemas": ["*"]}, {"enabledTables": ["orders"]}])
def test_a_history_that_did_not_change_is_not_parsed_again_and_stages_the_same(
    fetch_context: Context, model: Model, parsed: list[str], scope: dict[str, Any]
) -> None:
    context = fetch_context(connection="shop")
    first = fetched(context, model, **scope)
    assert len(parsed) == 4
    parsed.clear()
    before = kept(context).stat()
    assert fetched(context, model, **scope) == first
    assert parsed == []
    assert kept(context).stat().st_ino == before.st_ino, "nothing new, nothing written"


def test_one_new_statement_is_parsed_alone_and_what_is_gone_is_forgotten(
    fetch_context: Context, model: Model, parsed: list[str]
) -> None:
    context = fetch_context(connection="shop")
    fetched(context, model)
    parsed.clear()
    new = "-- executions: 8\nSELECT count(*) FROM orders;\n"
    fetched(context, model, SQL + new)
    assert [text.splitlines()[-1] for text in parsed] == ["SELECT count(*) FROM orders"]
    fetched(context, model, new)
    assert len(json.loads(kept(context).read_text())["texts"]) == 1


@pytest.mark.parametrize(
    "other", [{"redactionPatterns": ["label"]}, {"model": load_tree(EmptyTree(), "shop", "postgres")}]
)
def test_another_basis_reads_everything_again(
    fetch_context: Context, model: Model, parsed: list[str], other: dict[str, Any]
) -> None:
    context = fetch_context(connection="shop")
    fetched(context, model)
    parsed.clear()
    found, _ = fetched(context, other.pop("model", model), **other)
    assert len(parsed) == 4
    fresh, _ = fetched(fetch_context(connection="other"), model, **other)
    assert not other or {path: text.replace(b'"other"', b'"shop"') for path, text in fresh.items()} == found


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"basis": 1}', '{"basis": "BASIS", "key": "zz"}'])
def test_what_is_damaged_is_made_anew(fetch_context: Context, model: Model, damage: str) -> None:
    context = fetch_context(connection="shop")
    first = fetched(context, model)
    basis = json.loads(kept(context).read_text())["basis"]
    kept(context).write_text(damage.replace("BASIS", basis))
    assert fetched(context, model) == first
    assert json.loads(kept(context).read_text())["basis"] == basis


def test_nothing_anybody_looked_for_is_kept_and_nobody_else_may_read_it(fetch_context: Context, model: Model) -> None:
    context = fetch_context(connection="shop")
    fetched(context, model, enabledSchemas=["*"], redactionPatterns=["elsewhere"])
    text = kept(context).read_text()
    assert "total" in text, "structure is kept"
    for secret in ("secret", "471147114711", "2026-01-01", "elsewhere"):
        assert secret not in text
    assert kept(context).stat().st_mode & 0o077 == 0


def test_a_dry_run_reads_what_is_kept_and_leaves_it(
    fetch_context: Context, model: Model, parsed: list[str], tmp_path: Path
) -> None:
    context = fetch_context(connection="shop")
    first = fetched(context, model)
    before = kept(context).read_bytes()
    parsed.clear()
    dry = fetch_context(connection="shop", cache=tmp_path / "scratch")
    assert fetched(dry, model) == first
    assert parsed == []
    fetched(dry, model, SQL.replace("40", "41") + "-- executions: 8\nSELECT 2 FROM orders;\n")
    assert kept(context).read_bytes() == before
