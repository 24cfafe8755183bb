"""The tests that `ktx decide` writes: each passes after the answer, and fails when somebody reverts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Build, done
from tests.subscription_project import AMOUNT_ID, DATE_ID, FISCAL_ID, OVERLAY, POINT, git, make_undecided

Run = Callable[..., Any]


def _scanned(folder: Path) -> None:
    make_undecided(folder)
    done("scan", "--depth", "structural")


@pytest.fixture
def scanned(work: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """A project with a point of each form of answer, scanned."""
    return copies(_scanned, work)


Edit = tuple[str, str, str]
"""A file, a text in it and what somebody writes instead."""

ANSWERS: list[tuple[str, str, Edit]] = [
    (POINT, "exclude", (OVERLAY, ", segments: [internal_accounts_do_not_count]", "")),
    (POINT, "count", (OVERLAY, "expr: sum(mrr)", "filter: accounts.is_internal IS NOT TRUE, expr: sum(mrr)")),
    (AMOUNT_ID, "net", (OVERLAY, "expr: sum(net)", "expr: sum(mrr)")),
    (DATE_ID, "paid_at", (OVERLAY, "time: paid_at", "time: started_at")),
    (FISCAL_ID, "6", ("ktx.yaml", "fiscal_year_start: 6", "fiscal_year_start: 1")),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("point", "reading", "edit"), ANSWERS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_test_fails_when_somebody_reverts_the_answer(
    ktx: Run, scanned: Path, point: str, reading: str, edit: Edit
) -> None:
    tree = git(scanned, "rev-parse", "HEAD^{tree}")
    answer = ktx("decide", point, "--as", reading, "--json")
    assert answer.code == 0, answer
    (decided,) = answer.data["report"]["decided"]
    assert any(each.startswith(f"subscriptions.decision {point}") for each in decided["tests"]), decided
    assert answer.envelope["warnings"] == []
    tested = ktx("sl", "test", "--json")
    assert (tested.data["failed"], tested.data["passed"]) == (0, len(decided["tests"])), tested.data
    path, before, after = edit
    text = (scanned / path).read_text()
    first, wanted, rest = text.partition(before)
    assert wanted, text
    (scanned / path).write_text(first + after + rest)
    assert ktx("sl", "test", "--json").data["failed"] == 1
    (scanned / path).write_text(text)
    assert ktx("decide", point, "--undo").code == 0
    assert git(scanned, "rev-parse", "HEAD^{tree}") == tree


def test_the_fiscal_year_has_an_effect_and_the_answer_sets_it(ktx: Run, scanned: Path) -> None:
    by_fiscal_year = ("sl", "query", "-m", "subscriptions.revenue", "-d", "metric_time:fiscal_year", "--json")
    (data,) = ktx("decide", FISCAL_ID, "--json").data["points"]
    (effect,) = [each for each in data["effects"] if each["measure"] == "subscriptions.revenue"]
    assert (effect["values"], effect["period"]) == ({"1": "450.00", "6": "400.00"}, "fiscal year to 2025-06")
    notes = ktx(*by_fiscal_year).data["receipt"]["notes"]
    wanted = "open: In which month does the fiscal year begin? subscriptions.revenue fiscal year to 2025-06: 450 or 400"
    assert [each for each in notes if each.startswith(wanted)], notes
    plain = ktx("sl", "query", "-m", "subscriptions.revenue", "--json").data["receipt"]["notes"]
    assert not any("fiscal" in each for each in plain), "months do not depend on it"
    assert ktx("decide", FISCAL_ID, "--as", "6", "--because", "Board of 2019").code == 0
    assert "fiscal_year_start: 6" in (scanned / "ktx.yaml").read_text()
    answer = ktx(*by_fiscal_year).data
    assert [row[0][:10] for row in answer["rows"]] == ["2024-06-01", "2025-06-01"]
    assert not any("fiscal" in each for each in answer["receipt"]["notes"])
    (scanned / "ktx.yaml").write_text((scanned / "ktx.yaml").read_text().replace("start: 6", "start: 1"))
    notes = ktx(*by_fiscal_year).data["receipt"]["notes"]
    assert any(
        each.startswith("not as decided: ") and ": It begins in June (by Ada Lee on " in each for each in notes
    ), notes
