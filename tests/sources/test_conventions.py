"""Proposals for `ktx.yaml`: what is stated and not set is shown with its place, and nothing is set."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.documents import FISCAL_YEAR_START, TIMEZONE, Convention
from ktx_cli.semantic import Model
from ktx_cli.semantic.model import CalendarSettings
from ktx_cli.sources.conventions import StatedConvention, convention_warnings, stated_variables

BERLIN = StatedConvention("time.md", Convention(TIMEZONE, "Europe/Berlin", "All times are Europe/Berlin."))
LONDON = StatedConvention("uk.md", Convention(TIMEZONE, "Europe/London", "Days are Europe/London."))
FEBRUARY = StatedConvention("year.md", Convention(FISCAL_YEAR_START, "2", "The fiscal year begins on 1 February."))
JANUARY = StatedConvention("old.md", Convention(FISCAL_YEAR_START, "1", "The fiscal year begins in January."))


def proposals(*stated: StatedConvention, **calendar: Any) -> list[tuple[str, str]]:
    model = Model("shop", "duckdb", {}, calendar=CalendarSettings(**calendar))
    found = convention_warnings("handbook", stated, {"shop": model})
    assert convention_warnings("handbook", stated, {}) == (), "without a database there are no periods"
    return [(each.message, str(each.hint)) for each in found]


def test_a_statement_is_a_proposal_with_its_place_and_its_command() -> None:
    assert proposals(FEBRUARY, BERLIN) == [
        (
            "handbook states a fiscal year start that ktx.yaml does not set (`semantic.fiscal_year_start`): "
            '2 in year.md ("The fiscal year begins on 1 February.")',
            "to use it: ktx config set semantic.fiscal_year_start 2",
        ),
        (
            "handbook states a time zone that ktx.yaml does not set (`semantic.timezone`): "
            'Europe/Berlin in time.md ("All times are Europe/Berlin.")',
            "to use it: ktx config set semantic.timezone Europe/Berlin",
        ),
    ]


def test_contradicting_statements_are_both_shown() -> None:
    ((message, hint),) = proposals(BERLIN, LONDON)
    assert "contradict each other" in message and "time.md" in message and "uk.md" in message
    assert "semantic.timezone Europe/Berlin or " in hint and hint.endswith("semantic.timezone Europe/London")
    ((message, _),) = proposals(JANUARY, FEBRUARY)
    assert "old.md" in message and "year.md" in message


def test_what_is_decided_or_the_default_is_not_proposed() -> None:
    assert proposals(BERLIN, timezone="UTC") == []
    assert proposals(FEBRUARY, fiscal_year_start=7) == []
    assert proposals(JANUARY) == []


def test_a_secret_in_a_statement_is_not_shown() -> None:
    words = "All times are Europe/Berlin, token sk-live-9fK2mQ8xR4tV7wZ1aB3c"
    ((message, _),) = proposals(StatedConvention("a.md", Convention(TIMEZONE, "Europe/Berlin", words)))
    assert "sk-live" not in message and "not shown" in message


@pytest.mark.table(
    ("variables", "found"),
    [
        ({"timezone": "Europe/Berlin"}, [(TIMEZONE, "Europe/Berlin")]),
        ({"dbt_date:time_zone": "America/Chicago"}, [(TIMEZONE, "America/Chicago")]),
        ({"shop": {"fiscal_year_start_month": 2}}, [(FISCAL_YEAR_START, "2")]),
        ({"first_month_of_fiscal_year": "July"}, [(FISCAL_YEAR_START, "7")]),
        ({"timezone": "Mars/Base"}, []),
        ({"timezone": "UTC"}, []),
        ({"fiscal_year_start_month": 13}, []),
        ({"start_date": "2024-01-01", "source_timezone_column": "tz"}, []),
        ({"timezone": None, "x": [1]}, []),
    ],
)
def test_variables_of_dbt(variables: dict[str, Any], found: list[tuple[str, str]]) -> None:
    stated = stated_variables(variables, "dbt_project.yml")
    assert [(each.convention.setting, each.convention.value) for each in stated] == found
