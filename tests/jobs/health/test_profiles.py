"""What the checks say of tables that no look at the rows reached, and of descriptions that nobody writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.core import Command
from ktx_cli.jobs.health.doctor import diagnose
from ktx_cli.jobs.health.model import CheckResult
from ktx_cli.jobs.health.status import project_status
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.scan.profile.profiler import PROBLEMS, Unsampled
from ktx_cli.scan.stages import Depth
from tests.jobs.conftest import Built

Change = Callable[..., None]


def scan(project: Path) -> list[str]:
    _, warnings = ingest(IngestRequest(project, {}, command=Command("scan"), databases_only=True))
    return [warning.code for warning in warnings]


@pytest.fixture
def scanned_project(shop_project: Path, built: Built) -> Path:
    """The small project, scanned."""
    return built(shop_project, scan)


def finding(project: Path, check: str) -> CheckResult:
    (status,) = (each for each in project_status(project, {}).findings if each.check == check)
    (doctor,) = diagnose(project, {}, only=[check])
    assert (status.check, status.level) == (doctor.check, doctor.level)
    assert doctor.message.startswith(status.message), "whose hint may say more than a command"
    return status


def unread(project: Path, table: str, kind: Unsampled, why: str) -> None:
    """Store that the last look did not reach a table."""
    with sqlite3.connect(project / ".ktx" / "state.sqlite") as state:
        state.execute(
            "UPDATE profiles SET profile = json_set(profile, '$.unsampled', ?, '$.problem', ?) WHERE table_name = ?",
            (kind, why, table),
        )
    state.close()


def test_a_scan_that_reached_all_tables_leaves_nothing_to_say(shop_project: Path) -> None:
    assert finding(shop_project, "profiles").level.value == "ok"
    scan(shop_project)
    assert finding(shop_project, "profiles").level.value == "ok"


@pytest.mark.parametrize(
    ("kind", "why", "hint"),
    [
        (Unsampled.OUT_OF_TIME, "time limit", "ktx config set scan.budget.seconds 1800 && ktx scan shop"),
        (Unsampled.OVER_BUDGET, "limit", "ktx config set scan.budget.gigabytes GIGABYTES && ktx scan shop"),
        (Unsampled.ERROR, "no permission", "ktx connection test shop && ktx scan shop"),
    ],
)
def test_tables_that_were_left_out_are_named_with_the_reason(
    scanned_project: Path, kind: Unsampled, why: str, hint: str
) -> None:
    unread(scanned_project, "orders", kind, why)
    found = finding(scanned_project, "profiles")
    assert found.message == f"connection `shop`: the rows of 1 table were not read: orders ({why})"
    assert (found.level.value, found.hint) == ("warn", hint)
    assert project_status(scanned_project, {}).ready, "what there is can be used"


def test_views_that_nobody_wants_read_are_said_and_are_no_warning(scanned_project: Path) -> None:
    unread(scanned_project, "orders", Unsampled.NOT_READ, PROBLEMS[Unsampled.NOT_READ])
    found = finding(scanned_project, "profiles")
    assert found.message == "connection `shop`: 1 view not read because of scan.views: orders"
    assert (found.level.value, found.hint) == ("ok", "ktx config set scan.views always && ktx scan shop")


def test_objects_that_a_scan_could_not_read_are_named(shop_project: Path, change: Change) -> None:
    change(shop_project, "CREATE VIEW broken AS SELECT nope FROM orders")
    scan(shop_project)
    found = finding(shop_project, "profiles")
    assert found.message == "connection `shop`: 1 object could not be read completely: broken"
    assert found.hint == "fix or drop them, or add this to `exclude` of connections.shop in ktx.yaml: broken"
    for report in (shop_project / ".ktx" / "runs").glob("*.json"):
        report.write_text("[]")
    assert finding(shop_project, "profiles").level.value == "ok", "reports are disposable"


def test_descriptions_that_nobody_writes_are_said(shop_project: Path) -> None:
    config = shop_project / "ktx.yaml"
    config.write_text(config.read_text() + "scan: {enrichment: {mode: llm}}\n")
    assert scan(shop_project) == ["not_enriched"]
    found = finding(shop_project, "llm")
    assert (found.level.value, project_status(shop_project, {}).ready) == ("warn", True)
    assert (
        found.message
        == "no descriptions are written: `scan.enrichment.mode` is `llm`, but no LLM backend is configured"
    )
    _, warnings = ingest(IngestRequest(shop_project, {}, depth=Depth.PROFILE))
    assert warnings == [], "that depth asks for no descriptions"


def test_without_that_mode_nothing_is_said_of_descriptions(shop_project: Path) -> None:
    assert (scan(shop_project), finding(shop_project, "llm").level.value) == ([], "ok")
