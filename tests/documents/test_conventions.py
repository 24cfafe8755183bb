"""Conventions of a project that documents state: found in plain sentences, and nowhere else."""

from __future__ import annotations

import pytest

from ktx_cli.documents import FISCAL_YEAR_START, TIMEZONE, WEEK_START, stated_conventions


@pytest.mark.table(
    ("text", "found"),
    [
        ("All times are **Europe/Berlin**.", [(TIMEZONE, "Europe/Berlin")]),
        ("Intro. Days are cut in `America/New_York`, see below.", [(TIMEZONE, "America/New_York")]),
        ("Zeitzone: Europe/Vienna", [(TIMEZONE, "Europe/Vienna")]),
        ("Our fiscal year begins on 1 February: January is old.", [(FISCAL_YEAR_START, "2")]),
        ("The financial year starts in July.", [(FISCAL_YEAR_START, "7")]),
        ("The fiscal year runs from April 1 to March 31.", [(FISCAL_YEAR_START, "4")]),
        ("Das Geschäftsjahr beginnt am 1. Oktober.", [(FISCAL_YEAR_START, "10")]),
        ("All times are Europe/Berlin.\n\nReports use Europe/London.",
         [(TIMEZONE, "Europe/Berlin"), (TIMEZONE, "Europe/London")]),
        ("Timestamps are stored in Europe/Berlin.", []),
        ("Times are in the customer's time zone, such as Europe/Berlin.", []),
        ("Days are not cut in Europe/Berlin.", []),
        ("Times are Europe/Berlin or Europe/Paris.", []),
        ("Our weeks start on Sundays.", [(WEEK_START, "sunday")]),
        ("Die Woche beginnt am Montag.", [(WEEK_START, "monday")]),
        ("Weeks do not begin on Sunday.", []),
        ("The week of Sunday begins late.", []),
        ("All times are UTC.", []),
        ("The dates of Ops/Sales are below. Visit Europe/Berlin.", []),
        ("```\nAll times are Europe/Berlin\n```", []),
        ("The fiscal year begins on 15 February.", []),
        ("A calendar year begins in January.", []),
    ],
)  # fmt: skip
def test_what_a_text_states(text: str, found: list[tuple[str, str]]) -> None:
    assert [(each.setting, each.value) for each in stated_conventions(text)] == found
