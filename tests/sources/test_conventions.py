"""Proposals for `ktx.yaml`: what is stated and not set is shown with its place, and nothing is set."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.documents import FISCAL_YEAR_START, TIMEZONE, WEEK_START, Convention, RawFile, Snapshot
from ktx_cli.project import KtxConfig, Workspace
from ktx_cli.project.layout import EmptyTree
from ktx_cli.semantic import Model
from ktx_cli.semantic.model import CalendarSettings
from ktx_cli.sources.conventions import (
    StatedConvention,
    convention_warnings,
    open_conventions,
    record_conventions,
    recorded_conventions,
    stated_variables,
)

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
            "handbook states a fiscal year start that `ktx.yaml` does not set (`semantic.fiscal_year_start`): "
            '2 in year.md ("The fiscal year begins on 1 February.")',
            "to use it, run ktx config set semantic.fiscal_year_start 2",
        ),
        (
            "handbook states a time zone that `ktx.yaml` does not set (`semantic.timezone`): "
            'Europe/Berlin in time.md ("All times are Europe/Berlin.")',
            "to use it, run ktx config set semantic.timezone Europe/Berlin",
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


SUNDAY = StatedConvention("week.md", Convention(WEEK_START, "sunday", "Weeks begin on Sunday."))


def test_the_record_is_what_the_last_complete_snapshot_states() -> None:
    workspace = Workspace(EmptyTree())
    whole, part = Snapshot({}), Snapshot({"year.md": RawFile("year.md", "0", 0, bytes)}, complete=False)
    record_conventions(workspace, "docs", "files", whole, [FEBRUARY, BERLIN])
    assert recorded_conventions(workspace, ["docs", "other"]) == {"docs": [FEBRUARY, BERLIN]}
    record_conventions(workspace, "docs", "files", part, [SUNDAY])
    assert recorded_conventions(workspace, ["docs"]) == {"docs": [BERLIN, SUNDAY]}, "year.md no longer states it"
    assert recorded_conventions(workspace, ["other"]) == {}
    record_conventions(workspace, "docs", "files", whole, [])
    assert list(workspace.paths("")) == []


def test_a_secret_is_kept_in_no_record() -> None:
    workspace = Workspace(EmptyTree())
    words = "All times are Europe/Berlin, token sk-live-9fK2mQ8xR4tV7wZ1aB3c"
    stated = [StatedConvention("a.md", Convention(TIMEZONE, "Europe/Berlin", words))]
    record_conventions(workspace, "docs", "files", Snapshot({}), stated)
    assert b"sk-live" not in (workspace.read("raw-sources/docs/files/conventions.json") or b"sk-live")


@pytest.mark.table(
    ("semantic", "found"),
    [
        ({}, [("semantic.timezone", False), ("semantic.week_start", False)]),
        ({"timezone": "UTC"}, [("semantic.timezone", True), ("semantic.week_start", False)]),
        ({"timezone": "Europe/Berlin", "week_start": "monday"}, [("semantic.week_start", True)]),
        ({"timezone": "Europe/Berlin", "week_start": "sunday"}, []),
    ],
)
def test_what_is_open_about_the_settings(semantic: dict[str, Any], found: list[tuple[str, bool]]) -> None:
    config = KtxConfig.model_validate({"semantic": semantic})
    opened = open_conventions(config, {"docs": [BERLIN, JANUARY], "wiki": [SUNDAY]})
    assert [(each.setting, each.is_set) for each in opened] == found


def test_sources_that_contradict_each_other_are_both_named_even_where_one_is_followed() -> None:
    (found,) = open_conventions(KtxConfig(), {"docs": [JANUARY], "wiki": [FEBRUARY]})
    assert "contradict each other" in found.message
    assert "1 is stated in docs: old.md" in found.message and "2 is stated in wiki: year.md" in found.message


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
        ({"dbt_date:week_start_day": "Sunday"}, [(WEEK_START, "sunday")]),
        ({"week_start": "Wednesday"}, []),
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
