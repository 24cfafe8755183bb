"""`ktx decide`: what is open, answers with their definitions, page and tests, and taking them back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import isoformat, now
from ktx_cli.scan import FoundPoint
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import TableRef
from tests.cli.conftest import Build
from tests.subscription_project import OVERLAY, POINT, git, make

Run = Callable[..., Any]


def _company(folder: Path) -> None:
    make(folder)


@pytest.fixture
def project(work: Path, copies: Callable[[Build, Path], Path]) -> Path:
    return copies(_company, work)


def _scanned(folder: Path) -> None:
    from tests.cli.conftest import done

    make(folder)
    done("scan", "--depth", "structural")


@pytest.fixture
def scanned(work: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """The project after a scan, which has computed the effects."""
    return copies(_scanned, work)


def _revenue(ktx: Run) -> tuple[Any, dict[str, Any]]:
    answer = ktx("sl", "query", "-m", "subscriptions.revenue", "--json")
    assert answer.code == 0, answer
    return answer.data["rows"][0][0], answer.data["receipt"]


def test_a_scan_computes_effects_and_commits_relative_figures_alone(ktx: Run, scanned: Path) -> None:
    assert ktx("decide").out == (
        "point\teffect\tquestion\n"
        "accounts.internal.is_internal\tsubscriptions.revenue 2025-06: 400 or 300\tDo internal accounts count?\n"
    )
    committed = git(scanned, "show", "HEAD:raw-sources/wh/live-database/decisions.json")
    assert '"spreads": {"accounts.account_count": 0.25, "subscriptions.revenue": 0.25}' in committed
    assert "400" not in committed
    before = git(scanned, "rev-parse", "HEAD")
    assert ktx("scan", "--depth", "structural").code == 0
    assert git(scanned, "rev-parse", "HEAD") == before


def test_a_clone_shows_relative_figures(ktx: Run, scanned: Path) -> None:
    (scanned / ".ktx" / "state.sqlite").unlink()
    assert (
        "subscriptions.revenue differs by 25%" in ktx("decide").out
        or "account_count differs by 25%" in ktx("decide").out
    )
    _, receipt = _revenue(ktx)
    assert (receipt["open"][0]["spread"], receipt["open"][0]["values"]) == (0.25, None)
    assert "subscriptions.revenue differs by 25%" in receipt["notes"][-1]


def test_a_point_is_shown_with_evidence_values_and_what_an_answer_changes(ktx: Run, scanned: Path) -> None:
    shown = ktx("decide", POINT)
    assert "evidence: `is_internal` is true in 1 of 4 rows." in shown.out
    assert "subscriptions.revenue\t2025-06\t400\t300\t25%" in shown.out
    assert "exclude\tInternal accounts do not count\t2 measures in 4 files" in shown.out
    assert shown.err == f"next: ktx decide {POINT} --as exclude\n"
    (data,) = ktx("decide", POINT, "--json").data["points"]
    assert data["effects"][0]["values"] == {"count": "400.00", "exclude": "300.00"}
    assert git(scanned, "status", "--porcelain") == ""


def test_numbers_page_test_and_receipt_follow_an_answer(ktx: Run, scanned: Path) -> None:
    value, receipt = _revenue(ktx)
    assert value == "500.00"
    assert [each["id"] for each in receipt["open"]] == [POINT]
    assert receipt["open"][0]["values"] == {"count": 400, "exclude": 300}
    assert receipt["notes"][-1] == (
        f"open: Do internal accounts count? subscriptions.revenue 2025-06: 400 or 300; decide with `ktx decide {POINT}`"
    )
    answer = ktx("decide", POINT, "--as", "exclude", "--because", "They pay nothing", "--json")
    assert answer.code == 0, answer
    (decided,) = answer.data["report"]["decided"]
    today = isoformat(now())[:10]
    assert (decided["decided_by"], decided["decided_on"], decided["reason"]) == ("Ada Lee", today, "They pay nothing")
    assert decided["measures"] == ["subscriptions.revenue", "accounts.account_count"]
    value, receipt = _revenue(ktx)
    assert (value, receipt["open"], receipt["notes"]) == ("400.00", [], [])
    assert ktx("decide").out == "open decisions: none\n"
    page = ktx("wiki", "read", decided["page"], "--json").data
    assert page["sl_refs"] == ["wh/subscriptions.revenue", "wh/accounts.account_count"]
    assert "Reason: They pay nothing" in page["content"]
    assert ktx("sl", "test", "--json").data["passed"] == 2
    assert ktx("sl", "validate", "--no-data", "--json").data["counts"]["error"] == 0
    assert ktx("wiki", "lint").code == 0
    assert git(scanned, "log", "-1", "--format=%an %s") == "Ada Lee ktx decide: Internal accounts do not count\n"
    assert git(scanned, "status", "--porcelain") == ""
    overlay = (scanned / OVERLAY).read_text()
    assert "name: subscriptions   # ours" in overlay and "# money" in overlay and "}   # keep" in overlay


def test_a_test_fails_and_a_note_says_so_when_somebody_takes_the_condition_out(ktx: Run, scanned: Path) -> None:
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    path = scanned / OVERLAY
    path.write_text(path.read_text().replace(", segments: [internal_accounts_do_not_count]", ""))
    assert ktx("sl", "test", "--json").data["failed"] == 1
    value, receipt = _revenue(ktx)
    assert value == "500.00"
    assert "does not follow the decision" in receipt["notes"][-1]
    assert ": Internal accounts do not count (by Ada Lee on " in receipt["notes"][-1]


def test_taking_an_answer_back_restores_every_file(ktx: Run, scanned: Path) -> None:
    before = git(scanned, "rev-parse", "HEAD^{tree}")
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert ktx("decide", POINT, "--undo").code == 0
    assert git(scanned, "rev-parse", "HEAD^{tree}") == before
    assert _revenue(ktx)[0] == "500.00"
    again = ktx("decide", POINT, "--undo")
    assert (again.code, again.err.splitlines()[0]) == (2, f"error: `{POINT}` is undecided")


def test_another_answer_replaces_the_first(ktx: Run, scanned: Path) -> None:
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert ktx("decide", POINT, "--as", "Internal accounts count", "--by", "Grace").code == 0
    assert _revenue(ktx)[0] == "500.00"
    (point,) = ktx("decide", "--all", "--json").data["points"]
    assert (point["state"], point["answer"]["alternative"], point["answer"]["decided_by"]) == (
        "decided",
        "count",
        "Grace",
    )
    assert (scanned / "decisions.yaml").read_text().count("point:") == 1


def test_files_with_edits_are_left_alone_and_nothing_is_decided(ktx: Run, scanned: Path) -> None:
    path = scanned / OVERLAY
    path.write_text(path.read_text() + "# mine\n")
    head = git(scanned, "rev-parse", "HEAD")
    answer = ktx("decide", POINT, "--as", "exclude", "--json")
    assert answer.code == 7
    assert answer.envelope["error"]["details"]["held"] == [{"path": OVERLAY, "reason": "modified"}]
    assert git(scanned, "rev-parse", "HEAD") == head
    assert git(scanned, "status", "--porcelain") == f" M {OVERLAY}\n"


def test_without_a_commit_the_files_change_and_edits_stay(ktx: Run, scanned: Path) -> None:
    path = scanned / OVERLAY
    path.write_text(path.read_text() + "# mine\n")
    head = git(scanned, "rev-parse", "HEAD")
    answer = ktx("decide", POINT, "--as", "exclude", "--no-commit", "--json")
    assert (answer.code, answer.data["report"]["commit"]) == (0, None)
    assert git(scanned, "rev-parse", "HEAD") == head
    assert "# mine" in path.read_text() and "internal_accounts_do_not_count" in path.read_text()
    assert _revenue(ktx)[0] == "400.00"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "there is no decision point `nothing`"),
        ((POINT, "--as", "maybe"), f"`{POINT}` has no reading `maybe`; available: count, exclude"),
        ((POINT, "--as", "count", "--undo"), "--as and --undo cannot be used together"),
        (("--as", "count"), "--as and --undo require a POINT"),
        ((POINT, "--because", "x"), "--because requires a decision"),
        ((POINT, "--as", "count", "--because", "password: hunter2hunter2"), "the decision contains"),
    ],
)
def test_wrong_usage(ktx: Run, project: Path, words: tuple[str, ...], message: str) -> None:
    answer = ktx("decide", *words)
    assert answer.code == 2
    assert message in answer.err
    assert git(project, "status", "--porcelain") == ""


def test_a_wrong_reading_is_reported_before_a_missing_author(ktx: Run, project: Path) -> None:
    git(project, "config", "--unset", "user.name")
    wrong = ktx("decide", POINT, "--as", "nonsense", "--json")
    assert wrong.envelope["error"]["message"] == f"`{POINT}` has no reading `nonsense`; available: count, exclude"
    unsigned = ktx("decide", POINT, "--as", "count", "--json")
    assert unsigned.envelope["error"]["message"] == "the decision needs a name, and git has no author name"
    undone = ktx("decide", POINT, "--undo", "--json")
    assert undone.envelope["error"]["message"] == f"`{POINT}` is undecided"


def test_a_session_on_a_terminal_makes_one_commit(ktx: Run, scanned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from ktx_cli.cli.settings import Settings

    monkeypatch.setattr(Settings, "interactive", property(lambda self: True))
    monkeypatch.setattr("sys.stdin", io.StringIO("9\n2\nThey pay nothing\n"))
    started = time.monotonic()
    answer = ktx("decide", input="9\n2\nThey pay nothing\n")
    assert time.monotonic() - started < 120
    assert answer.code == 0, answer
    assert "1 of 1: Do internal accounts count? (accounts.internal.is_internal)" in answer.err
    assert "type a number from 1 to 2, s or q and press Enter" in answer.err
    assert "  2) Internal accounts do not count [subscriptions.revenue 2025-06: 300" in answer.err
    assert git(scanned, "log", "-1", "--format=%s") == "ktx decide: Internal accounts do not count\n"
    stored = ktx("decide", "--all", "--json").data["points"][0]["answer"]
    assert stored["reason"] == "They pay nothing"


def test_a_project_without_points(ktx: Run, project: Path) -> None:
    (project / "raw-sources/wh/live-database/decisions.json").unlink()
    assert ktx("decide").out == "open decisions: none\n"
    assert json.loads(ktx("decide", "--json").out)["data"] == {"points": [], "open": 0, "report": None}


def test_a_file_of_decisions_that_cannot_be_read_is_an_error_with_its_name(ktx: Run, project: Path) -> None:
    (project / "decisions.yaml").write_text("decisions:\n- {point: x}\n")
    answer = ktx("decide")
    assert answer.code == 2
    assert "decisions.yaml: the entry `x` is not a decision" in answer.err


STATEMENTS = [
    ("SELECT sum(mrr) FROM subscriptions", True),
    ("SELECT count(*) FROM main.accounts", True),
    ("SELECT sum(mrr) FROM subscriptions s JOIN accounts a ON a.id = s.account_id WHERE NOT a.is_internal", False),
    ("SELECT count(CASE WHEN NOT is_internal THEN id END) FROM accounts", False),
    ("SELECT is_internal, count(*) FROM accounts GROUP BY is_internal", False),
    ("SELECT count(*), max(is_internal) FROM accounts", True),
    ("SELECT 1 AS one", False),
]


@pytest.mark.parametrize(("statement", "is_touched"), STATEMENTS)
def test_statements_get_a_note_by_what_they_read(ktx: Run, scanned: Path, statement: str, is_touched: bool) -> None:
    data = ktx("sql", statement, "--json").data
    assert [each["id"] for each in data["open"]] == ([POINT] if is_touched else [])
    assert any("open: Do internal accounts count?" in each for each in data["notes"]) is is_touched
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    data = ktx("sql", statement, "--json").data
    assert data["open"] == []
    decided = "in SQL, rows of accounts count where `is_internal IS NOT TRUE`"
    assert any(decided in each for each in data["notes"]) is is_touched


ENTITY = FoundPoint(
    TableRef("main", "accounts"), DecisionKind.ENTITY, ("created_at", "id"), "Which accounts are counted?",
    (Alternative("entity", "Each"), Alternative("parent", "Each day once", expr="count(distinct created_at)")),
)  # fmt: skip
CURRENCY = FoundPoint(
    TableRef("main", "subscriptions"), DecisionKind.CURRENCY, ("account_id", "mrr"), "Are currencies added up?",
    (
        Alternative("added_up", "All are added up", expr="sum(mrr)"),
        Alternative("one", "Only EUR counts", expr="sum(case when account_id = 1 then mrr end)"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("aggregate", "statement", "is_open"),
    [
        ("count(distinct accounts.id)", "SELECT count(DISTINCT id) FROM accounts", True),
        ("count(distinct accounts.created_at)", "SELECT count(DISTINCT created_at) FROM accounts", False),
        ("sum(subscriptions.mrr)", "SELECT sum(mrr) FROM subscriptions", True),
        (
            "sum(case when subscriptions.account_id = 1 then subscriptions.mrr end)",
            "SELECT sum(mrr) FROM subscriptions WHERE account_id = 1",
            False,
        ),
    ],
)
def test_a_key_and_an_amount_of_all_currencies_say_no_reading(
    ktx: Run, work: Path, aggregate: str, statement: str, is_open: bool
) -> None:
    make(work, ENTITY, CURRENCY)
    query = ktx("sl", "query", "-m", aggregate, "--json").data
    assert bool(query["receipt"]["open"]) is is_open
    assert bool(ktx("sql", statement, "--json").data["open"]) is is_open


@pytest.mark.parametrize(("statement", "is_touched"), STATEMENTS)
def test_the_policy_refuses_statements(ktx: Run, scanned: Path, statement: str, is_touched: bool) -> None:
    _refuse(scanned)
    answer = ktx("sql", statement, "--json")
    if is_touched:
        assert (answer.code, answer.envelope["error"]["code"]) == (1, "open_decision")
    else:
        assert answer.code == 0, answer


def test_the_policy_refuses_questions_until_they_are_decided_or_name_a_reading(ktx: Run, scanned: Path) -> None:
    _refuse(scanned)
    answer = ktx("sl", "query", "-m", "subscriptions.revenue", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (1, "open_decision")
    assert f"ktx decide {POINT}" in answer.envelope["error"]["hint"]
    assert [each["id"] for each in answer.envelope["error"]["details"]["open"]] == [POINT]
    named = ktx("sl", "query", "-m", "subscriptions.revenue", "--filter", "NOT accounts.is_internal", "--json")
    assert named.data["rows"] == [["400.00"]]
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert _revenue(ktx)[0] == "400.00"


def _refuse(project: Path) -> None:
    with (project / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {open_decisions: refuse}\n")


def test_sources_and_hits_of_searches_carry_a_line_without_values(ktx: Run, scanned: Path) -> None:
    line = f"subscriptions.revenue differs by 25%; decide with `ktx decide {POINT}`"
    assert line in ktx("sl", "read", "subscriptions", "--json").data["open"][0]
    hits = ktx("search", "revenue", "--kind", "measure", "--json").data["hits"]
    assert [line in each for hit in hits if hit["id"] == "subscriptions.revenue" for each in hit["open"]] == [True]
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert ktx("sl", "read", "subscriptions", "--json").data["open"] == []


def test_the_report_of_a_scan_says_how_many_decisions_are_open(ktx: Run, scanned: Path) -> None:
    answer = ktx("scan", "--depth", "structural")
    assert (
        "open decisions: 1, the largest: subscriptions.revenue 2025-06: 400 or 300 (Do internal accounts count?)"
        in answer.out
    )
    assert answer.err.endswith("next: ktx decide\n")
    (found,) = ktx("scan", "--depth", "structural", "--json").data["open_decisions"]
    assert (found["id"], found["spread"]) == (POINT, 0.25)
    assert ktx("decide", POINT, "--as", "exclude").code == 0
    assert "open decisions" not in ktx("scan", "--depth", "structural").out
