"""Open decisions in `ktx status`, `ktx doctor` and `ktx lint`; and points that name hidden data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Build, done
from tests.subscription_project import OVERLAY, POINT, make

Run = Callable[..., Any]
EFFECT = "subscriptions.revenue differs by 25%"


def _scanned(folder: Path) -> None:
    make(folder)
    done("scan", "--depth", "structural")


@pytest.fixture
def scanned(work: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """A project with one open decision, scanned."""
    return copies(_scanned, work)


def _check_of(data: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in data.get("checks", data.get("findings")) if each["check"] == "decisions"]
    return dict(found)


def _refuse(project: Path) -> None:
    with (project / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {open_decisions: refuse}\n")


def test_status_names_the_largest_open_decision_and_the_command(ktx: Run, scanned: Path) -> None:
    shown = ktx("status")
    assert f"decisions: warn: 1 open decision, the largest: {POINT}, {EFFECT}" in shown.out
    assert shown.err.endswith("next: ktx decide\n")
    assert "400" not in shown.out
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    data = ktx("status", "--json").data
    assert (_check_of(data)["level"], _check_of(data)["message"]) == ("ok", "no decisions are open")
    assert data["next"] != "ktx decide"


def test_doctor_warns_and_fails_only_where_open_decisions_are_refused(ktx: Run, scanned: Path) -> None:
    answer = ktx("doctor", "--only", "decisions", "--json")
    assert (answer.code, _check_of(answer.data)["level"], _check_of(answer.data)["hint"]) == (0, "warn", "ktx decide")
    assert ktx("doctor", "--only", "decisions", "--strict").code == 1
    _refuse(scanned)
    answer = ktx("doctor", "--only", "decisions", "--json")
    assert (answer.code, _check_of(answer.data)["level"]) == (1, "fail")
    assert _check_of(answer.data)["message"].endswith("; answers that depend on them are refused")
    assert ktx("decide", POINT, "--as", "count").code == 0
    assert ktx("doctor", "--only", "decisions").code == 0


def test_a_project_without_points_is_well_and_a_broken_file_is_a_warning(ktx: Run, scanned: Path) -> None:
    (scanned / "decisions.yaml").write_text("decisions: 7\n")
    found = _check_of(ktx("doctor", "--only", "decisions", "--json").data)
    assert found["level"] == "warn" and "decisions.yaml: the value of `decisions` is not a list" in found["message"]
    (scanned / "decisions.yaml").unlink()
    (scanned / "raw-sources/wh/live-database/decisions.json").unlink()
    found = _check_of(ktx("doctor", "--only", "decisions", "--json").data)
    assert (found["level"], found["message"]) == ("ok", "no scan has found decision points")


def test_lint_names_measures_of_people_until_the_point_is_decided(ktx: Run, scanned: Path) -> None:
    shown = ktx("lint", "--select", "KTX346")
    assert shown.code == 0, "a note fails no build"
    (line,) = [each for each in shown.out.splitlines() if "KTX346" in each]
    assert f"{OVERLAY}:5" in line
    text = "`subscriptions.revenue` depends on 1 open decision: Do internal accounts count? It differs by 25%."
    assert text in line
    assert "accounts.account_count" not in shown.out, "a proposed measure is nobody's definition yet"
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert "KTX346" not in ktx("lint", "--select", "KTX346").out
