"""Warnings about filter values that no row has: what they say, to whom, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.jobs.semantic import warnings
from ktx_cli.jobs.semantic.question import Question, ask_layer
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.profile.store import save_values
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.guarded import QueryServices
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import Connector, QueryResult, Scope, TableRef
from ktx_cli.warehouses.registry import open_connection
from tests.jobs.semantic.conftest import Shop

COUNTRIES = "UPDATE customers SET country = CASE id WHEN 1 THEN 'Germany' ELSE 'Österreich' END"


class Recorder:
    """Opens the database, keeps its statements, and fails those that `fails` names an error for."""

    def __init__(self, fails: Callable[[str], SourceError | None] = lambda sql: None) -> None:
        self.statements: list[str] = []
        self.fails = fails

    def __call__(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        inner, scope = open_connection(config, connection, project_dir=project_dir, environ=environ)
        plain = inner.query

        def query(sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
            self.statements.append(sql)
            error = self.fails(sql)
            if error is not None:
                raise error
            return plain(sql, parameters, max_rows=max_rows)

        inner.query = query  # type: ignore[method-assign]
        return inner, scope

    @property
    def checks(self) -> list[str]:
        """The statements that look for values."""
        return [each for each in self.statements if '"checks"' in each]


def warned(shop: Shop, *filters: str, opener: Recorder | None = None, **more: Any) -> list[str]:
    suggest, attributes = more.pop("suggest", True), more.pop("attributes", {})
    query = {"measures": ["orders.revenue"], "filters": list(filters), **more}
    told = ask_layer(
        shop.layout,
        shop.config,
        Question(query, caller=Caller.of(attributes)),
        environ={},
        services=QueryServices(opener=opener or open_connection),
        suggest=suggest,
    )
    return [each.message for each in told.warnings]


def list_values(shop: Shop, column: str, *values: str, complete: bool = True) -> None:
    """Store a value list as a scan does."""
    listed = ColumnValues(TableRef(None, "customers"), column, tuple((each, 1) for each in values), complete)
    with open_for_writing(shop.layout) as database:
        save_values(database, "shop", [], Dictionary((listed,)), privacy="local")


@pytest.mark.table(
    ("condition", "said"),
    [
        ("customers.country = 'Germany'", None),
        ("customers.country = 'germany'", "no row matches `customers.country = 'germany'`; did you mean 'Germany'?"),
        ("customers.country = 'Germny'", "no row matches `customers.country = 'Germny'`; did you mean 'Germany'?"),
        (
            "customers.country = ' Germany '",
            "no row matches `customers.country = ' Germany '`; did you mean 'Germany'?",
        ),
        (
            "customers.country in ('Germany', 'Osterreich')",
            "no row matches `customers.country = 'Osterreich'`; did you mean 'Österreich'?",
        ),
        (
            "customers.country <> 'germany'",
            "no row matches `customers.country = 'germany'`, so the condition excludes nothing; did "
            "you mean 'Germany'?",
        ),
        (
            "customers.country not in ('germany')",
            "no row matches `customers.country = 'germany'`, so the condition excludes nothing; did "
            "you mean 'Germany'?",
        ),
        (
            "customers.country = 'Peru'",
            "no row matches `customers.country = 'Peru'`; known values: 'Germany' and 'Österreich'",
        ),
        (
            "customers.country like 'Peru%'",
            "no row matches `customers.country LIKE 'Peru%'`; known values: 'Germany' and ",
        ),
        ("orders.amount = 11", "no row matches `orders.amount = 11`; the nearest values are 10.0 and 20.0"),
        ("orders.amount = 21", "no row matches `orders.amount = 21`; the nearest value is 20.0"),
        (
            "orders.ordered_at = '2024-02-06'",
            "no row matches `orders.ordered_at = '2024-02-06'`; the nearest values are 2024-02-05 and 2024-02-07",
        ),
        ("orders.id = 77", "no row matches `orders.id = 77`"),  # a number that only identifies has no neighbours
    ],
)
def test_a_value_no_row_has_is_a_warning_with_the_nearest(condition: str, said: str | None, shop: Shop) -> None:
    shop.run(COUNTRIES)
    found = warned(shop, condition)
    assert len(found) == (said is not None)
    if said is not None:
        assert found[0] == said or (said.endswith(" ") and found[0].startswith(said))


def test_a_value_list_of_the_scan_gives_the_nearest_without_reading_the_column(shop: Shop) -> None:
    list_values(shop, "country", "NO", "SE", "Denmark")
    recorder = Recorder()
    found = warned(shop, "customers.country = 'denmark'", opener=recorder)
    assert found == ["no row matches `customers.country = 'denmark'`; did you mean 'Denmark'?"]
    assert len(recorder.checks) == 1 and "DISTINCT" not in recorder.checks[0]


def test_a_value_that_came_after_the_scan_is_none_to_warn_of(shop: Shop) -> None:
    list_values(shop, "country", "SE")
    assert warned(shop, "customers.country in ('NO', 'SE')") == []


@pytest.mark.table(
    ("filters", "checks"),
    [
        ((), 0),
        (("customers.country = 'NO'",), 0),  # the answer has rows, so the value exists
        (("customers.country in ('NO', 'SE')",), 0),  # both are listed
        (("orders.amount > 7",), 0),
        (("customers.country <> 'Peru'", "orders.amount in (10, 11)", "orders.id <> 9"), 1),
    ],
)
def test_a_question_costs_one_statement_at_most(filters: tuple[str, ...], checks: int, shop: Shop) -> None:
    list_values(shop, "country", "NO", "SE")
    recorder = Recorder()
    warned(shop, *filters, opener=recorder)
    assert len(recorder.checks) == checks


def test_nothing_is_looked_for_unless_asked_to(shop: Shop) -> None:
    recorder = Recorder()
    assert warned(shop, "customers.country = 'Peru'", opener=recorder, suggest=None) == []
    assert recorder.checks == []


def test_the_number_of_literals_that_are_looked_for_is_bounded(shop: Shop) -> None:
    values = ", ".join(f"'x{number}'" for number in range(2 * warnings.MOST_CHECKED))
    assert len(warned(shop, f"customers.country in ({values})")) == warnings.MOST_CHECKED


@pytest.mark.parametrize(
    ("column", "policy", "said"),
    [
        ("visibility: internal", "", "no row matches `customers.country = 'germany'`"),
        (
            "visibility: public",
            'policies: [{name: own, filter: "country <> {{ user.closed }}"}]\n',
            "no row that you can see matches `customers.country = 'germany'`; known values: 'Österreich'",
        ),
    ],
)
def test_nothing_is_told_that_the_caller_may_not_see(
    column: str, policy: str, said: str, shop: Shop, edited: Callable[[str, str], None]
) -> None:
    """Also not by the value list of the scan, which knows no policies."""
    shop.run(COUNTRIES)
    list_values(shop, "country", "Germany", "Österreich")
    edited("{name: country, type: string}", f"{{name: country, type: string, {column}}}")
    edited("name: customers\ntable", f"name: customers\n{policy}table")
    condition = "customers.country = 'germany'"
    assert warned(shop, condition, attributes={"closed": "Germany"}) == [said]


def test_a_value_behind_a_policy_is_as_one_that_does_not_exist(shop: Shop) -> None:
    shop.run(COUNTRIES)
    list_values(shop, "country", "Germany", "Österreich")
    shop.write(
        "customers.yaml",
        "name: customers\ntable: customers\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n"
        "  - {name: country, type: string}\npolicies: [{name: own, filter: \"country <> 'Germany'\"}]\n",
    )
    there, nowhere = (warned(shop, f"customers.country = '{each}'") for each in ("Germany", "Gormony"))
    assert there == [nowhere[0].replace("Gormony", "Germany")]


@pytest.mark.parametrize("suggest", [True, False])
def test_no_other_value_is_named_where_values_are_kept_nowhere(suggest: bool, shop: Shop) -> None:
    shop.run(COUNTRIES)
    if suggest:
        shop.configure("scan: {privacy: strict}\n")
    assert warned(shop, "customers.country = 'germany'", suggest=suggest) == [
        "no row matches `customers.country = 'germany'`"
    ]


def test_personal_data_is_not_volunteered(shop: Shop) -> None:
    shop.run("UPDATE customers SET country = 'ada.lovelace' || id || '@example.com'")
    assert warned(shop, "customers.country = 'ada.lovelace@example.com'") == [
        "no row matches `customers.country = 'ada.lovelace@example.com'`"
    ]


@pytest.mark.table(
    ("code", "why"), [("timeout", "the check took longer than 2 seconds"), ("query", "the database rejected the check")]
)
def test_a_check_that_fails_says_so_and_no_more(code: str, why: str, shop: Shop) -> None:
    error = SourceError("row (7, secret) is bad", code=code)
    recorder = Recorder(lambda sql: error if '"checks"' in sql else None)
    assert warned(shop, "customers.country = 'Peru'", opener=recorder) == [
        f"could not check whether any row matches `customers.country = 'Peru'`: {why}"
    ]


def test_a_question_that_took_long_gets_no_second_look(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "SECONDS", -1.0)
    recorder = Recorder()
    (said,) = warned(shop, "customers.country = 'Peru'", opener=recorder)
    assert said.startswith("could not check") and recorder.checks == []


def test_the_last_days_of_data_that_ends_earlier(shop: Shop) -> None:
    last: dict[str, Any] = {"time_range": {"last": "90 days", "field": "orders.ordered_at"}}
    assert warned(shop, **last) == ["no row of `orders` is in the last 90 days; the most recent is from 2024-02-07"]
    assert warned(shop, **last, suggest=False) == ["no row of `orders` is in the last 90 days"]
    shop.run("INSERT INTO orders VALUES (4, 1, date('now'), 5)")
    recorder = Recorder()
    assert warned(shop, **last, opener=recorder) == [] and recorder.checks == []
