"""`ktx sl accept`: what waits, what is shown before the commit, the commit itself, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project import Layout, open_for_writing
from ktx_cli.semantic import record_tests
from tests.cli.conftest import Build
from tests.subscription_project import OVERLAY, git, make

Run = Callable[..., Any]
NAME = "subscriptions.revenue"
ACCOUNTS = "semantic-layer/wh/accounts.yaml"


def _company(folder: Path) -> None:
    from tests.cli.conftest import done

    make(folder)
    rewrite(folder, "sum(mrr)", "sum(mrr) * 12", run="20270101-1")
    done("index")


@pytest.fixture
def project(work: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """A project in which Ada committed a measure, and a run changed it."""
    return copies(_company, work)


def rewrite(project: Path, old: str, new: str, *, run: str | None = None, path: str = OVERLAY) -> None:
    """Change a file and commit it, as a run where one is named."""
    file = project / path
    before = file.read_text() if file.exists() else ""
    assert old in before
    file.write_text(before.replace(old, new, 1))
    git(project, "add", path)
    git(project, "commit", "-q", "-m", "a change" + (f"\n\nKtx-Run: {run}" if run else ""))


def weakest(ktx: Run, *words: str) -> tuple[str, list[str]]:
    """Return the status of an answer, and the definitions that have no higher one."""
    answer = ktx("sl", "query", *words, "--json")
    assert answer.code == 0, answer
    status = answer.data["receipt"]["status"]
    return status["weakest"], [each["definition"] for each in status["because"]]


def report(answer: Any) -> dict[str, Any]:
    assert answer.code == 0, answer
    found: dict[str, Any] = answer.data["report"]
    return found


def refused(answer: Any) -> tuple[int, str, str]:
    error = answer.envelope["error"]
    return answer.code, error["message"], error["hint"]


def test_without_a_name_it_lists_what_waits(ktx: Run, project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")
    shown = ktx("sl", "accept")
    lines = shown.out.splitlines()
    assert lines[0] == "definition\tkind\treason"
    assert [line.split("\t")[:2] for line in lines[1:]] == [["accounts.account_count", "measure"], [NAME, "measure"]]
    assert "ktx run 20270101-1 wrote it" in lines[2]
    assert git(project, "rev-parse", "HEAD") == before


def test_a_measure_is_accepted_in_one_commit_of_the_person(ktx: Run, project: Path) -> None:
    assert weakest(ktx, "-m", NAME) == ("proposed", [NAME])
    (project / "notes.txt").write_text("mine")
    git(project, "add", "notes.txt")
    (project / "ktx.yaml").write_text((project / "ktx.yaml").read_text() + "# mine\n")
    done = report(ktx("sl", "accept", NAME, "--yes", "--json"))
    (item,) = done["definitions"]
    assert (item["before"], item["status"], item["changed"]) == ("proposed", "accepted", True)
    assert item["diff"] == ["- expr: sum(mrr)", "+ expr: sum(mrr) * 12"]
    assert item["accepted_before"] == git(project, "rev-parse", "HEAD~2").strip()
    assert [each["status"] for each in done["after"]] == ["accepted"]
    assert weakest(ktx, "-m", NAME) == ("accepted", [NAME])
    message = git(project, "log", "-1", "--format=%an <%ae>%n%B")
    assert message == (
        "Ada Lee <ada@example.com>\nktx sl accept: accept subscriptions.revenue\n\n"
        "wh: accept measure subscriptions.revenue\n\nKtx-Decided-By: Ada Lee <ada@example.com>\n\n"
    )
    changed = git(project, "diff", "HEAD~1", "HEAD", "--unified=0").splitlines()
    assert [line for line in changed if line[0] in "+-"][2:] == [
        "-  - {name: revenue, expr: sum(mrr) * 12, descriptions: {user: Monthly revenue.}}   # keep",
        "+  - {name: revenue, expr: sum(mrr) * 12, descriptions: {user: Monthly revenue.}, status: accepted}   # keep",
    ]
    assert git(project, "status", "--porcelain") == " M ktx.yaml\nA  notes.txt\n"


def test_what_a_run_changes_later_is_accepted_again(ktx: Run, project: Path) -> None:
    assert ktx("sl", "accept", NAME, "--yes").code == 0
    again = report(ktx("sl", "accept", NAME, "--yes", "--json"))
    assert (again["commit"], again["definitions"][0]["changed"]) == (None, False)
    rewrite(project, "* 12", "* 6", run="20270101-2")
    assert ktx("index").code == 0
    assert weakest(ktx, "-m", NAME)[0] == "proposed"
    done = report(ktx("sl", "accept", NAME, "--yes", "--json"))
    assert done["definitions"][0]["diff"] == ["- expr: sum(mrr) * 12", "+ expr: sum(mrr) * 6"]
    assert weakest(ktx, "-m", NAME)[0] == "accepted"
    assert "status" not in (project / OVERLAY).read_text()  # without the key the file claims the same


def test_a_proposal_of_a_scan_is_copied_into_the_overlay(ktx: Run, project: Path) -> None:
    manifest = (project / "semantic-layer/wh/_schema/main.yaml").read_bytes()
    done = report(ktx("sl", "accept", "accounts.account_count", "--yes", "--json"))
    assert (done["files"], done["definitions"][0]["path"]) == ([ACCOUNTS], ACCOUNTS)
    assert "expr: count(*)" in (project / ACCOUNTS).read_text()
    assert (project / "semantic-layer/wh/_schema/main.yaml").read_bytes() == manifest
    assert weakest(ktx, "-m", "accounts.account_count") == ("accepted", ["accounts.account_count"])


def test_joins_computed_columns_and_statements_are_accepted_too(ktx: Run, project: Path) -> None:
    path = "semantic-layer/wh/paying.yaml"
    (project / path).write_text(
        "name: paying\nsql: SELECT id, mrr FROM subscriptions\ngrain: [id]\n"
        "columns: [{name: id, type: number}, {name: mrr, type: number}, {name: yearly, type: number, expr: mrr * 12}]\n"
        "measures: [{name: total, expr: sum(yearly)}]\n"
        "joins: [{to: accounts, on: id = accounts.id, relationship: many_to_one}]\n"
    )
    rewrite(project, "name: paying", "name: paying", run="20270101-3", path=path)
    assert ktx("index").code == 0
    question = ("-m", "paying.total", "-d", "accounts.is_internal")
    parts = ["paying", "paying -> accounts", "paying.total", "paying.yearly"]
    status, because = weakest(ktx, *question)
    assert (status, sorted(because)) == ("proposed", parts)
    one = report(ktx("sl", "accept", "paying.total", "--dry-run", "--json"))
    assert sorted(each["definition"] for each in one["definitions"][0]["weaker"]) == ["paying", "paying.yearly"]
    assert ktx("sl", "accept", "paying", "--yes").code == 0
    assert weakest(ktx, *question)[0] == "accepted"
    assert ktx("sl", "validate", "--no-data", "--json").data["counts"] == {"error": 0, "warning": 0, "info": 0}
    rewrite(project, "id = accounts.id", "mrr = accounts.id", run="20270101-4", path=path)
    assert ktx("index").code == 0
    assert weakest(ktx, *question) == ("proposed", ["paying -> accounts"])
    assert ktx("sl", "accept", "paying -> accounts", "--yes").code == 0
    assert weakest(ktx, *question)[0] == "accepted"


def test_owners_certify_until_the_next_review(ktx: Run, project: Path) -> None:
    words = ("sl", "accept", NAME, "--certify", "--owner", "ada@example.com", "--review-by", "2999-06-30", "--yes")
    code, message, hint = refused(ktx(*words, "--json"))
    assert (code, message) == (2, "only an owner can certify, and the project has no owners.yaml")
    assert hint == "create owners.yaml with `owners: [ada@example.com]` and commit it"
    (project / "owners.yaml").write_text("")
    rewrite(project, "", "owners: [{email: ada@example.com, sources: [sub*]}]\n", path="owners.yaml")
    assert report(ktx(*words, "--json"))["after"][0]["status"] == "certified"
    assert weakest(ktx, "-m", NAME) == ("certified", [])
    text = (project / OVERLAY).read_text()
    assert "status: certified" in text and "owner: ada@example.com" in text and "2999-06-30" in text
    assert git(project, "log", "-1", "--format=%s") == "ktx sl accept: certify subscriptions.revenue\n"
    code, message, _ = refused(ktx("sl", "accept", "accounts.account_count", "--yes", "--json"))
    assert (code, "is not an owner of `accounts` in owners.yaml" in message) == (2, True)
    rewrite(project, "[{email: ada@example.com, sources: [sub*]}]", "[]", path="owners.yaml")
    assert "only signed commits count" in refused(ktx("sl", "accept", NAME, "--yes", "--json"))[1]


@pytest.mark.table(
    ("words", "message"),
    [
        (("accounts.nothing",), "the semantic layer has no definition `accounts.nothing`"),
        (("subscriptions -> accounts", "--certify"), "`subscriptions -> accounts` cannot be certified: the database"),
        ((NAME, "--review-by", "2999-01-01"), "--review-by requires --certify"),
        ((NAME, "--certify", "--review-by", "soon"), "`soon` is not a date"),
        ((NAME, "--certify", "--review-by", "2020-01-01"), "--review-by 2020-01-01 is not in the future"),
        (("--certify",), "--certify requires the name of a definition"),
    ],
)
def test_what_cannot_be_accepted(words: tuple[str, ...], message: str, ktx: Run, project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")
    code, said, hint = refused(ktx("sl", "accept", *words, "--yes", "--json"))
    assert (code, said[: len(message)], bool(hint)) == (2, message, True)
    assert git(project, "rev-parse", "HEAD") == before


def test_edits_failing_tests_and_unknown_people_are_refused(ktx: Run, project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")
    text = (project / OVERLAY).read_text()
    (project / OVERLAY).write_text(text.replace("* 12", "* 13"))
    assert refused(ktx("sl", "accept", NAME, "--yes", "--json"))[1] == f"{OVERLAY} has uncommitted changes"
    assert (project / OVERLAY).read_text() == text.replace("* 12", "* 13")
    (project / OVERLAY).write_text(text)
    with open_for_writing(Layout(project)) as database:
        record_tests(database, "wh", [("subscriptions", "stays", [NAME], False)], "2027-01-01")
    message = refused(ktx("sl", "accept", NAME, "--yes", "--json"))[1]
    assert message.startswith(f"the test `subscriptions.stays` of `{NAME}` failed")
    with open_for_writing(Layout(project)) as database:
        record_tests(database, "wh", [("subscriptions", "stays", [NAME], True)], "2027-01-02")
    (tested,) = report(ktx("sl", "accept", NAME, "--dry-run", "--json"))["definitions"]
    assert tested["tests"] == [{"name": "subscriptions.stays", "passed": True, "day": "2027-01-02"}]
    git(project, "config", "--unset", "user.email")
    message = refused(ktx("sl", "accept", NAME, "--yes", "--json"))[1]
    assert message.startswith("git has no name and email address for you")
    assert git(project, "rev-parse", "HEAD") == before


def test_nothing_is_written_without_consent(ktx: Run, project: Path) -> None:
    before = git(project, "rev-parse", "HEAD"), (project / OVERLAY).read_bytes()
    code, message, hint = refused(ktx("sl", "accept", NAME, "--json"))
    assert (code, hint) == (2, "add --yes")
    assert message == "confirmation required: Accept 1 definition as Ada Lee <ada@example.com>?"
    shown = ktx("sl", "accept", NAME, "--dry-run").out
    assert "status: proposed -> accepted\nwhy: ktx run 20270101-1 wrote it" in shown
    assert "- expr: sum(mrr)\n+ expr: sum(mrr) * 12\n" in shown and "commit: none" in shown
    assert (git(project, "rev-parse", "HEAD"), (project / OVERLAY).read_bytes()) == before


def test_lists_sources_and_hits_show_statuses(ktx: Run, project: Path) -> None:
    header = ktx("sl", "list").out.splitlines()[0].split("\t")
    assert "status" not in header  # nobody has accepted anything
    assert "1 proposed" in ktx("sl", "list", "--verbose").out
    assert ktx("sl", "list", "--min-status", "accepted", "--json").data["sources"] == []
    assert ktx("sl", "accept", NAME, "--yes").code == 0
    listed = ktx("sl", "list").out.splitlines()
    assert listed[0].split("\t")[6] == "status"
    assert [line.split("\t")[6] for line in listed[1:]] == ["1 proposed", "1 accepted"]
    (source,) = ktx("sl", "list", "--min-status", "accepted", "--json").data["sources"]
    assert (source["name"], source["statuses"]) == ("subscriptions", {"certified": 0, "accepted": 1, "proposed": 0})
    (measure,) = ktx("sl", "read", "subscriptions", "--json").data["measures"]
    assert (measure["status"], measure["status_why"].split(" on ")[0]) == ("accepted", "Ada Lee committed it")
    hits = {hit["id"]: hit["status"] for hit in ktx("sl", "revenue", "--json").data["hits"]}
    assert hits[NAME] == "accepted"
    assert f"measure\t{NAME}\taccepted\t" in ktx("sl", "revenue").out
    rewrite(project, "* 12", "* 6", run="20270101-2")
    assert ktx("index").code == 0
    assert ktx("sl", "read", "subscriptions", "--json").data["measures"][0]["status"] == "proposed"
