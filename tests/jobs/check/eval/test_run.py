"""A run of evals: how cases end, what is remembered, what is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.core.events import Event, StepProgress
from ktx_cli.jobs.check.eval import run
from ktx_cli.jobs.check.eval.results import CaseAnswer, EvalReport
from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.warehouses import pool

Change = Callable[..., None]

SOURCE = """\
name: orders
table: orders
grain: [id]
columns: [{name: id, type: number}, {name: region, type: string}]
measures: [{name: order_count, expr: count(*)}]
policies: [{name: own, filter: "region = {{ user.region }}"}]
"""


@pytest.fixture
def project(shop_project: Path, change: Change) -> Path:
    """The shop with three orders and a semantic layer."""
    change(shop_project, "ALTER TABLE orders ADD region TEXT", "INSERT INTO orders VALUES (1, 'N'), (2, 'N'), (3, 'S')")
    folder = shop_project / "semantic-layer" / "shop"
    folder.mkdir(parents=True)
    (folder / "orders.yaml").write_text(SOURCE)
    return shop_project


def write(project: Path, text: str, name: str = "shop") -> Path:
    path = project / "evals" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def request_of(project: Path, *names: str, **options: Any) -> EvalRequest:
    layout = Layout(project)
    return EvalRequest(layout, load_config(layout.config).config, {}, names, **options)


def evaluated(project: Path, *names: str, **options: Any) -> EvalReport:
    return run_evals(request_of(project, *names, **options))


def statuses(report: EvalReport) -> dict[str, str]:
    return {each.case.asked.id: each.status for each in report.results}


COUNT = "cases: [{{id: count, sql: SELECT count(*) AS n FROM orders, expect: {{value: {}}}}}]\n"


def test_the_layer_and_the_database_are_asked_as_their_commands_ask(project: Path) -> None:
    write(
        project,
        """
        cases:
        - {id: layer, query: {measures: [orders.order_count]}, attributes: {region: N}, expect: {value: 2}}
        - {id: sql, sql: SELECT id FROM orders ORDER BY id DESC, expect: [{id: 3}, {id: 2}, {id: 1}]}
        - {id: unordered, sql: SELECT id FROM orders, expect: [{id: 3}, {id: 2}, {id: 1}]}
        - {id: top, query: {dimensions: [orders.id], limit: 1, order_by: [orders.id]}, attributes: {region: N}}
        - {id: writes, sql: DELETE FROM orders, expect: {rows: 0}}
        - {id: policy, query: {measures: [orders.order_count]}, expect: {value: 2}}
        - {id: nothing, query: {measures: [orders.revenue]}, expect: {value: 2}}
        - {id: no-such, connection: shopp, sql: SELECT 1, expect: {value: 1}}
        """,
    )
    report = evaluated(project)
    expected = ["pass", "pass", "pass", "new", "error", "error", "error", "error"]
    assert list(statuses(report).values()) == expected
    codes = [each.error.code for each in report.results if each.error is not None]
    assert codes == ["read_only", "policy", "unknown_name", "usage"]
    top = report.results[3].answer
    assert top is not None and (top.rows, top.ordered) == (((1,),), True)
    error = report.error()
    assert error is not None and (error.exit_code, error.code) == (1, "evals_failed")
    assert error.message == "4 of 8 evals did not pass: 4 could not be run"
    assert error.hint == "ktx eval shop/writes shop/policy shop/nothing shop/no-such --verbose"


def test_what_passed_once_regresses_and_what_never_did_fails(project: Path, change: Change) -> None:
    write(project, COUNT.format(3))
    assert statuses(evaluated(project)) == {"count": "pass"}
    change(project, "DELETE FROM orders WHERE id = 3")
    for _ in range(2):
        report = evaluated(project)
        assert statuses(report) == {"count": "regress"}
        assert report.results[0].before is not None and report.results[0].before.passed is not None
    change(project, "INSERT INTO orders VALUES (3, 'S')")
    assert statuses(evaluated(project)) == {"count": "pass"}
    write(project, COUNT.format(4))
    assert statuses(evaluated(project)) == {"count": "fail"}
    write(project, COUNT.format(3))
    assert statuses(evaluated(project)) == {"count": "pass"}


def test_an_error_in_between_does_not_make_a_regression_a_failure(project: Path, change: Change) -> None:
    write(project, COUNT.format(3))
    evaluated(project)
    change(project, "ALTER TABLE orders RENAME TO gone")
    assert statuses(evaluated(project)) == {"count": "error"}
    change(project, "CREATE TABLE orders (id INTEGER)")
    assert statuses(evaluated(project)) == {"count": "regress"}


def test_a_run_that_is_not_to_be_kept_writes_nothing(project: Path, change: Change) -> None:
    write(project, COUNT.format(3))
    report = evaluated(project, save=False)
    assert (statuses(report), report.saved) == ({"count": "pass"}, False)
    assert not (project / ".ktx").exists()


def test_history_that_cannot_be_kept_is_a_warning(project: Path) -> None:
    write(project, COUNT.format(3))
    (project / ".ktx").write_text("in the way")
    warnings: list[ResultWarning] = []
    report = evaluated(project, warn=warnings.append)
    assert (statuses(report), report.saved) == ({"count": "pass"}, False)
    assert [each.code for each in warnings][-1:] == ["eval_history"]


def test_cases_that_are_in_no_file_any_more_are_forgotten(project: Path, change: Change) -> None:
    path = write(project, COUNT.format(3))
    evaluated(project)
    path.rename(path.with_name("other.yaml"))
    evaluated(project)
    path.with_name("other.yaml").rename(path)
    change(project, "DELETE FROM orders")
    assert statuses(evaluated(project)) == {"count": "fail"}


def test_accepted_answers_are_what_is_expected_and_the_rest_of_the_file_stays(project: Path) -> None:
    text = """\
# golden
cases:
  - id: rows  # by region
    sql: SELECT region, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1
  - {id: value, sql: SELECT count(*) FROM orders}
  - id: none
    sql: SELECT id FROM orders WHERE id > 9

  - id: twice
    sql: SELECT 1 AS a, 2 AS a
  - {id: wrong, sql: SELECT 1 AS a, expect: {value: 2}}
"""
    path = write(project, text)
    report = evaluated(project, "rows", "value", "none", "twice", accept=True)
    assert [each.accepted for each in report.results] == [True] * 4
    assert report.error() is None
    kept = [line for line in path.read_text().splitlines() if line in text.splitlines()]
    assert kept == [line for line in text.splitlines() if "id: value" not in line]
    assert "expect: {value: 2}" in path.read_text(), "what does not fit is not accepted"
    again = evaluated(project)
    assert statuses(again) == {"rows": "pass", "value": "pass", "none": "pass", "twice": "pass", "wrong": "fail"}


def test_more_rows_than_anybody_reviews_are_not_accepted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_ACCEPTED", 2)
    path = write(project, "cases: [{id: all, sql: SELECT id FROM orders}]\n")
    warnings: list[ResultWarning] = []
    report = evaluated(project, accept=True, warn=warnings.append)
    assert not report.results[0].accepted and "expect" not in path.read_text()
    assert [each.hint for each in warnings] == ["add filters, or write `expect: {rows: 3}` in evals/shop.yaml:1"]


def test_nothing_is_written_through_a_folder_that_is_a_link(project: Path) -> None:
    """It could have come with the repository, and lead anywhere."""
    path = write(project, "cases: [{id: a, sql: SELECT 1 AS x}]\n")
    results = evaluated(project).results
    path.parent.rename(project / "elsewhere")
    path.parent.symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="is a symbolic link") as caught:
        run.accept(Layout(project), results, lambda warning: None)
    assert caught.value.hint == f"rm {path.parent} && mkdir {path.parent}"
    assert "expect" not in path.read_text()


def test_a_file_that_was_edited_meanwhile_or_is_a_link_is_left_alone(project: Path) -> None:
    path = write(project, "cases: [{id: a, sql: SELECT 1 AS x}]\n")
    results = evaluated(project).results
    path.write_text("cases: [{id: b, sql: SELECT 2 AS x}, {id: a, sql: SELECT 1 AS x}]\n")
    with pytest.raises(ConfigError, match="changed while the evals ran"):
        run.accept(Layout(project), results, lambda warning: None)
    assert "expect" not in path.read_text()
    elsewhere = path.rename(project / "elsewhere.yaml")
    path.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        evaluated(project, accept=True)
    assert "expect" not in elsewhere.read_text()


def test_answers_become_the_shortest_expectation() -> None:
    assert run.expectation_of(CaseAnswer(("n",), ((None,),))) == {"value": None}
    assert run.expectation_of(CaseAnswer(("n", "m"), ((1, 2),))) == [{"n": 1, "m": 2}]
    assert run.expectation_of(CaseAnswer(("n",), ())) == {"rows": 0}
    assert run.expectation_of(CaseAnswer(("n", "n"), ((1, 2),))) == {"columns": ["n", "n"], "rows": [[1, 2]]}


def test_a_database_out_of_reach_is_tried_once_and_ends_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "ktx.yaml").write_text("connections: {shop: {driver: postgres, url: 'postgresql://u@127.0.0.1:1/d'}}\n")
    write(project, "cases: [{id: a, sql: SELECT 1}, {id: b, sql: SELECT 2}]\n")
    opened: list[str] = []
    really = pool.open_connection

    def counted(*args: Any, **options: Any) -> Any:
        opened.append(args[1])
        return really(*args, **options)

    monkeypatch.setattr(pool, "open_connection", counted)
    error = evaluated(project, save=False).error()
    assert error is not None and (error.code, error.exit_code) == ("connection", 4)
    assert opened == ["shop"]


def test_an_answer_that_is_not_whole_is_not_compared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_ROWS", 2)
    write(project, "cases: [{id: all, sql: SELECT id FROM orders, expect: {rows: 2}}]\n")
    (result,) = evaluated(project).results
    assert result.error is not None and result.error.message == "the answer of `shop/all` has more than 2 rows"


def test_progress_is_told_and_no_case_is_a_warning(project: Path) -> None:
    events: list[Event] = []
    warnings: list[ResultWarning] = []
    assert run_evals(replace(request_of(project), warn=warnings.append)).error() is None
    assert [each.code for each in warnings] == ["no_evals"]
    write(project, COUNT.format(3))
    evaluated(project, emit=events.append)
    assert events == [StepProgress("evals", 1, 1)]


def test_which_database_is_meant_must_be_said_where_there_are_two(project: Path) -> None:
    with (project / "ktx.yaml").open("a") as stream:
        stream.write("  other: {driver: sqlite, path: shop.sqlite}\n")
    write(project, COUNT.format(3))
    (result,) = evaluated(project).results
    assert result.error is not None and result.error.hint == "set `connection: ID` in evals/shop.yaml"


COMPARED = """
cases:
- id: same
  query: {measures: [orders.order_count], dimensions: [orders.region]}
  sql: SELECT region, count(*) AS order_count FROM orders WHERE region = 'N' GROUP BY 1
  attributes: {region: N}
- id: other
  query: {measures: ["count(orders) as n"]}
  sql: SELECT count(*) AS n FROM orders
  attributes: {region: N}
- {id: close, query: {measures: [orders.order_count]}, sql: SELECT 3, attributes: {region: N}, tolerance: 1}
- {id: expected, query: {measures: [orders.order_count]}, sql: SELECT 2, attributes: {region: N}, expect: {value: 2}}
- id: not-expected
  query: {measures: [orders.order_count]}
  sql: SELECT 2
  attributes: {region: N}
  expect: {value: 3}
- {id: writes, query: {measures: [orders.order_count]}, sql: DELETE FROM orders, attributes: {region: N}}
- {id: refused, query: {measures: [orders.order_count]}, sql: SELECT 1}
"""


def test_a_query_and_sql_are_both_run_and_compared(project: Path) -> None:
    path = write(project, COMPARED)
    report = evaluated(project, accept=True)
    assert statuses(report) == {
        "same": "pass", "other": "fail", "close": "pass", "expected": "pass", "not-expected": "fail",
        "writes": "error", "refused": "error",
    }  # fmt: skip
    assert path.read_text() == COMPARED, "nothing of them is new"
    other = next(each for each in report.results if each.case.asked.id == "other")
    assert other.difference is not None and other.compared is not None
    assert (other.difference.missing, other.difference.unexpected) == (((3,),), ((2,),))
    assert other.compared.receipt["facts"][0]["fact"] == "orders"
    shown = other.to_json()
    assert shown["kind"] == "compare"
    assert "count(*)" in shown["compared"]["sql"].lower() and "region" in shown["compared"]["query_sql"]
    assert shown["compared"]["answer"]["rows"] == [[3]]


def test_a_comparison_that_passed_once_regresses(project: Path, change: Change) -> None:
    write(project, "cases: [{id: a, query: {measures: [orders.order_count]}, sql: SELECT 2, attributes: {region: N}}]")
    assert statuses(evaluated(project)) == {"a": "pass"}
    change(project, "INSERT INTO orders VALUES (4, 'N')")
    assert statuses(evaluated(project)) == {"a": "regress"}
