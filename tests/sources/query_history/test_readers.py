"""Histories of files and of warehouses, whose SQL is checked by the parser here and run against scripted rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, KtxError, NotSupportedError, SourceError
from ktx_cli.project.config.blocks import QueryHistory
from ktx_cli.sources.query_history import readers
from ktx_cli.sources.query_history.model import Coverage, HistoryGrantError, HistoryUnavailableError, Observation
from ktx_cli.sources.query_history.readers import HistoryPlace, read_history
from ktx_cli.warehouses.base import require_reading
from ktx_cli.warehouses.cloud import require_query
from ktx_cli.warehouses.port import QueryResult

NOW = datetime(2026, 5, 4, tzinfo=UTC)
ROW_SNOWFLAKE = ("SELECT 1", "ADA", 12, 1, 40, 900.5, 2000, datetime(2026, 5, 1))
ROW_BIGQUERY = ("SELECT 1", "ada@example.com", 12, 1, 900, 2000, datetime(2026, 5, 1, tzinfo=UTC))


class Scripted:
    """A connection that answers with rows or fails, and keeps what it was asked."""

    def __init__(self, dialect: str, answer: Sequence[tuple[Any, ...]] | KtxError, *, cut: bool = False) -> None:
        self.dialect, self.answer, self.cut = dialect, answer, cut
        self.asked: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.asked.append(sql)
        if "CURRENT_ROLE" in sql:
            return QueryResult(("r",), (("READER",),))
        if isinstance(self.answer, KtxError):
            raise self.answer
        return QueryResult((), tuple(self.answer), self.cut)


def place(connector: Any, project: Path = Path(), location: str | None = None) -> HistoryPlace:
    return HistoryPlace("wh", connector.dialect, project, lambda: nullcontext(connector), location)


@pytest.mark.table(
    ("dialect", "row", "wanted"),
    [
        ("snowflake", ROW_SNOWFLAKE, Observation("SELECT 1", 12, "ADA", 1, 40, 900.5, 2000.0,
                                                 datetime(2026, 5, 1, tzinfo=UTC))),
        ("bigquery", ROW_BIGQUERY, Observation("SELECT 1", 12, "ada@example.com", 1, None, 900.0, 2000.0,
                                               datetime(2026, 5, 1, tzinfo=UTC))),
    ],
)  # fmt: skip
def test_a_warehouses_rows_are_observations(dialect: str, row: tuple[Any, ...], wanted: Observation) -> None:
    whole = read_history(place(Scripted(dialect, [row])), QueryHistory(windowDays=30), NOW)
    assert (whole.observations, whole.coverage, whole.warnings) == ((wanted,), Coverage.ALL, ())
    cut = read_history(place(Scripted(dialect, [row], cut=True)), QueryHistory(), NOW)
    assert cut.coverage is Coverage.PART
    assert [each.code for each in cut.warnings] == ["query_history_cut"]


@pytest.mark.table(
    ("dialect", "sql", "parts"),
    [
        ("snowflake", readers.snowflake_statement(30), ("DATEADD(day, -30,", "<> 'ktx'")),
        ("bigquery", readers.bigquery_statement("EU", 30, "wh"), ("`region-eu`.INFORMATION_SCHEMA", "INTERVAL 30 DAY")),
        (
            "bigquery",
            readers.bigquery_statement("europe-west3", 7, "wh"),
            ("`region-europe-west3`.", "label.value = 'ktx'"),
        ),
    ],
)
def test_a_warehouses_statement_reads_and_looks_back(dialect: str, sql: str, parts: tuple[str, ...]) -> None:
    require_reading(sql, frozenset({"SELECT"}), "here")
    require_query(sql, dialect, "here")
    assert [part for part in parts if part not in sql] == []


def test_a_location_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a BigQuery location"):
        readers.bigquery_statement("eu`; DROP TABLE x", 30, "wh")


@pytest.mark.table(
    ("dialect", "message", "hint"),
    [
        ("snowflake", "Object 'SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY' does not exist or not authorized.",
         'run as ACCOUNTADMIN: GRANT DATABASE ROLE SNOWFLAKE.GOVERNANCE_VIEWER TO ROLE "READER"'),
        ("bigquery", "Access Denied: Table region-us: User does not have bigquery.jobs.listAll",
         "gcloud projects add-iam-policy-binding PROJECT --member=user:EMAIL --role=roles/bigquery.resourceViewer"),
    ],
)  # fmt: skip
def test_a_missing_grant_is_named_with_its_remedy(dialect: str, message: str, hint: str) -> None:
    with pytest.raises(HistoryGrantError) as caught:
        read_history(place(Scripted(dialect, SourceError(message, code="query"))), QueryHistory(), NOW)
    assert (caught.value.hint, caught.value.code, caught.value.exit_code) == (hint, "not_ready", 3)
    assert "`wh`" in caught.value.message


@pytest.mark.table("dialect", ["snowflake", "bigquery"])
def test_other_failures_stay_what_they_are(dialect: str) -> None:
    for error in (SourceError("no such host"), SourceError("a syntax error", code="query")):
        with pytest.raises(SourceError) as caught:
            read_history(place(Scripted(dialect, error)), QueryHistory(), NOW)
        assert caught.value is error


def test_a_database_without_a_history_names_the_file() -> None:
    with pytest.raises(NotSupportedError) as caught:
        read_history(place(Scripted("duckdb", [])), QueryHistory(), NOW)
    assert "connections.wh.context.queryHistory.file" in (caught.value.hint or "")


FILE = """\
-- questions of the sales team
-- user: ada executions: 40
SELECT total FROM orders WHERE note = 'a;b' -- a semicolon in a text
;
SELECT 1; -- user: bob,
SELECT 2; -- the one before: nobody said how often
/* user: eve executions: 3 */ SELECT 3
;
-- only a comment
;
"""


def test_a_file_of_sql_is_read(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("\ufeff" + FILE, "utf-8")
    connector = Scripted("postgres", SourceError("not asked"))
    settings = QueryHistory.model_validate({"file": "q.sql", "minExecutions": 7})
    history = read_history(place(connector, tmp_path), settings, NOW)
    assert [(each.executions, each.user) for each in history] == [(40, "ada"), (7, None), (7, "bob"), (7, None)]
    assert (history.origin, history.coverage, connector.asked) == ("q.sql", Coverage.LISTED, [])
    assert "a;b" in history.observations[0].text


def test_a_file_with_an_open_quote_is_read_as_far_as_lines_go() -> None:
    text = "SELECT 1;\nSELECT 'open;\nSELECT 2;\n"
    found = list(readers.parse(text, readers.ends_of(text, "postgres"), 5))
    assert [each.text for each in found] == ["SELECT 1", "SELECT 'open", "SELECT 2"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"file not found gone\.sql"):
        read_history(place(Scripted("postgres", []), tmp_path), QueryHistory(file="gone.sql"), NOW)


def test_every_error_of_a_history_is_one_kind() -> None:
    assert issubclass(HistoryGrantError, HistoryUnavailableError)
