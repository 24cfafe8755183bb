"""`ktx scan relationships`."""

from __future__ import annotations

import os
import random
import re
import select
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.commands.scan import Status
from ktx_cli.scan.review import JoinStatus
from tests.cli.conftest import done, set_up_per_schema
from tests.worlds.forks import shared

Run = Callable[..., Any]
Git = Callable[..., str]

COMMAND = ("scan", "relationships")
CUSTOMER, PARCEL = (
    "orders.customer_id->customers.id", "shipments.(order_id,line_no)->order_lines.(order_id,line_no)",
)  # fmt: skip
SHARD = "semantic-layer/warehouse/_schema/main.yaml"
THRESHOLDS = "scan:\n  relationships:\n    acceptThreshold: 0.9\n    reviewThreshold: 0\n"


def build_unscanned(folder: Path) -> None:
    """Build a project over four tables without a key; thresholds far from what their joins score."""
    chance = random.Random(3)
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(
        """
        CREATE TABLE customers (id INTEGER, name TEXT);
        CREATE TABLE orders (id INTEGER, customer_id INTEGER);
        CREATE TABLE order_lines (order_id INTEGER, line_no INTEGER, amount REAL);
        CREATE TABLE shipments (id INTEGER, order_id INTEGER, line_no INTEGER);
        """
    )
    lines = [(order, line, chance.random()) for order in range(1000, 1300) for line in (1, 2, 3)]
    database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"n{n}") for n in range(1, 101)])
    database.executemany("INSERT INTO orders VALUES (?, ?)", [(n, chance.randint(1, 100)) for n in range(1000, 1300)])
    database.executemany("INSERT INTO order_lines VALUES (?, ?, ?)", lines)
    database.executemany(
        "INSERT INTO shipments VALUES (?, ?, ?)", [(n, *line[:2]) for n, line in enumerate(chance.sample(lines, 250))]
    )
    database.commit()
    database.close()
    set_up_per_schema()
    (folder / "ktx.yaml").write_text((folder / "ktx.yaml").read_text() + THRESHOLDS)


def build_scanned(folder: Path) -> None:
    build_unscanned(folder)
    done("scan", "--depth", "profile")


@pytest.fixture
def unscanned(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build_unscanned, work)


@pytest.fixture
def scanned(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build_scanned, work)


def statuses(ktx: Run) -> dict[str, str]:
    rows = ktx(*COMMAND, "--status", "all", "--json").data["relationships"]
    return {row["edge"]: row["status"] for row in rows}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_lists_what_was_found_and_changes_nothing(ktx: Run, scanned: Path) -> None:
    before = files(scanned)
    answer = ktx(*COMMAND)
    assert answer.code == 0
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert lines[0] == ["join", "status", "score", "relationship", "reason"]
    found = {line[0]: line for line in lines[1:]}
    assert (found[CUSTOMER][1], found[CUSTOMER][3]) == ("accepted", "many_to_one")
    assert found[PARCEL][1] == "review"
    assert answer.err == "next: ktx scan relationships --review\n"
    assert files(scanned) == before


def test_the_envelope(ktx: Run, scanned: Path) -> None:
    answer = ktx(*COMMAND, "warehouse", "--table", "customers", "--json")
    assert (answer.envelope["schema"], answer.data["decided"]) == ("ktx/scan-relationships/v1", None)
    (row,) = (each for each in answer.data["relationships"] if each["edge"] == CUSTOMER)
    assert all("customers" in (each["from"]["table"], each["to"]["table"]) for each in answer.data["relationships"])
    assert row.pop("score") > 0.9
    assert row.pop("reason") and row.pop("sources")
    assert row == {
        "connection": "warehouse", "edge": CUSTOMER, "status": "accepted", "found": "accepted", "gone": False,
        "relationship": "many_to_one", "from": {"table": "orders", "columns": ["customer_id"]},
        "to": {"table": "customers", "columns": ["id"]}, "when": None,
    }  # fmt: skip


def test_every_standing_can_be_asked_for() -> None:
    assert {each.value for each in Status} == {each.value for each in JoinStatus} | {"all"}


def test_of_one_status(ktx: Run, scanned: Path) -> None:
    assert ktx(*COMMAND, "--reject", CUSTOMER).code == 0
    (disabled,) = ktx(*COMMAND, "--status", "disabled", "--json").data["relationships"]
    assert disabled["edge"] == CUSTOMER
    both = ktx(*COMMAND, "--status", "disabled", "--status", "review", "--json").data["relationships"]
    assert {row["status"] for row in both} == {"disabled", "review"}


def test_accept_and_reject_are_one_commit(ktx: Run, scanned: Path, git: Git) -> None:
    answer = ktx(*COMMAND, "--accept", PARCEL, "--reject", "orders.customer_id", "--json")
    assert answer.code == 0, answer
    decided = answer.data["decided"]
    assert [(each["edge"], each["decision"], each["result"]) for each in decided["decisions"]] == [
        (PARCEL, "accept", "done"), (CUSTOMER, "reject", "done"),
    ]  # fmt: skip
    assert git(scanned, "rev-parse", "HEAD").strip() == decided["commit"]
    assert git(scanned, "log", "-1", "--format=%s").strip() == "ktx scan relationships: accept 1, reject 1"
    found = statuses(ktx)
    assert (found[PARCEL], found[CUSTOMER]) == ("manual", "disabled")
    tip = git(scanned, "rev-parse", "HEAD")
    assert ktx("scan", "--depth", "profile").code == 0
    assert (git(scanned, "rev-parse", "HEAD"), statuses(ktx)) == (tip, found)


def test_an_edited_file_is_exit_7_with_the_command_that_helps(ktx: Run, scanned: Path) -> None:
    shard = scanned / SHARD
    shard.write_bytes(shard.read_bytes() + b"# mine\n")
    answer = ktx(*COMMAND, "--accept", PARCEL, "--json")
    assert answer.code == 7
    assert answer.data["decided"]["held"] == [{"path": SHARD, "reason": "modified"}]
    assert answer.envelope["error"]["hint"].startswith(f"commit your changes to {SHARD}")
    assert "result\n" in ktx(*COMMAND, "--accept", PARCEL).out


def test_accept_all_above_needs_a_confirmation(ktx: Run, scanned: Path, git: Git) -> None:
    tip = git(scanned, "rev-parse", "HEAD")
    answer = ktx(*COMMAND, "--accept-all-above", "0.5", "--table", "order_lines", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "add --yes")
    assert PARCEL in answer.envelope["error"]["message"]
    answer = ktx(*COMMAND, "--accept-all-above", "0.5", "--table", "order_lines")
    assert answer.code == 2 and answer.err.startswith(f"  {PARCEL} (")
    assert git(scanned, "rev-parse", "HEAD") == tip
    answer = ktx(*COMMAND, "--accept-all-above", "0.5", "--table", "order_lines", "--yes", "--json")
    assert [each["edge"] for each in answer.data["decided"]["decisions"]] == [PARCEL]
    again = ktx(*COMMAND, "--accept-all-above", "0.5", "--table", "order_lines")
    assert (again.code, again.out) == (0, "decided: nothing\ncommit: none\n")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--review",), "--review requires a terminal", "--accept EDGE"),
        (
            ("--review", "--accept", CUSTOMER),
            "--review cannot be used together with --accept",
            "ktx scan relationships --review",
        ),
        (("--status", "review", "--accept", CUSTOMER), "--status only applies to lists", "omit --status"),
        (
            ("--accept", "orders.customer"),
            "there is no relationship",
            f"ktx scan relationships warehouse --accept '{CUSTOMER}'",
        ),
        (("--table", "order"), "no relationship involves a table `order`", "--table orders"),
        (("--status", "open"), "`open` is not one of accepted", "--status"),
        (("--accept-all-above", "-1"), "is not a number", "--accept-all-above"),
        (("--accept-all-above", "7"), "a score from 0 to 1, not 7", "ktx scan relationships --accept-all-above 0.8"),
        (("nowhere",), "nowhere", "connections: warehouse"),
    ],
)
def test_wrong_words_are_exit_2(ktx: Run, scanned: Path, words: tuple[str, ...], message: str, hint: str) -> None:
    answer = ktx(*COMMAND, *words)
    error, said = answer.err.splitlines()[:2]
    assert (answer.code, answer.out) == (2, "")
    assert error.startswith("error: ") and message in error
    assert said.startswith("hint: ") and hint in said


def test_json_never_asks(ktx: Run, scanned: Path) -> None:
    answer = ktx(*COMMAND, "--review", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize("words", [(), ("--accept", CUSTOMER), ("--accept-all-above", "0.5", "--yes")])
def test_before_the_first_scan_it_is_exit_3(ktx: Run, unscanned: Path, words: tuple[str, ...]) -> None:
    answer = ktx(*COMMAND, *words, "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (3, "ktx scan")


def at_a_terminal(folder: Path, typed: str, *words: str, answered: str | None = None) -> tuple[int, str, str]:
    """Run the program with a terminal as stdin and stderr; return its exit code, stdout, and what the terminal got.

    `answered`: typed ahead; `typed` comes when the next question stands there, and may be Ctrl-C.
    """
    ours, theirs = os.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "CI"} | {"NO_COLOR": "1"}
    ahead = f"{typed}\x04" if answered is None else answered  # the end, should more be asked than there are answers
    os.write(ours, ahead.encode())
    arguments, out = (*COMMAND, *words, "--progress", "none"), folder.parent / "out"
    program = shared().at_terminal(arguments, folder=folder, environ=environ, terminal=os.ttyname(theirs), out=out)
    os.close(theirs)
    shown = b""
    is_asked = False
    try:
        while True:
            # A Ctrl-C in the instant before Python begins to read is lost, as it is for a person: typed again.
            if select.select([ours], [], [], 2.0 if is_asked else None)[0]:
                chunk = os.read(ours, 4096)
                if not chunk:
                    break
                shown += chunk
            elif program.poll() is None:
                os.write(ours, typed.encode())
            if answered is not None and shown.count(b"[q]uit: ") > answered.count("\n"):
                os.write(ours, typed.encode())
                answered, is_asked = None, True
    except OSError:  # Linux: nobody has the other end any more
        pass
    code = program.wait()
    os.close(ours)
    return code, out.read_text("utf-8"), shown.decode().replace("\r\n", "\n")


LINE = "order_lines.order_id->orders.id"
EVERY = ("--review", "--table", "order_lines", "--status", "all")


def answers(ktx: Run, chosen: dict[str, str]) -> str:
    """Return what to type in a review of `EVERY`: the chosen answers, `s` for the rest."""
    asked = [row["edge"] for row in ktx(*COMMAND, *EVERY[1:], "--json").data["relationships"]]
    return "".join(f"{chosen.get(edge, 's')}\n" for edge in asked)


def test_review_asks_about_one_after_the_other(ktx: Run, scanned: Path, git: Git) -> None:
    typed = answers(ktx, {LINE: "what\na", PARCEL: "reject"})
    code, out, shown = at_a_terminal(scanned, typed, *EVERY)
    assert code == 0, shown
    assert f": {LINE} (warehouse)\n  accepted, score " in shown
    assert "from names, values\n  Column name matches" in shown
    assert shown.count("[a]ccept  [r]eject  [s]kip  [q]uit: ") == typed.count("\n")
    assert "accept\tdone" in out and "type a, r, s or q and press Enter" in shown
    found = statuses(ktx)
    assert (found[LINE], found[PARCEL]) == ("manual", "disabled")
    assert git(scanned, "log", "-1", "--format=%s").strip() == "ktx scan relationships: accept 1, reject 1"


@pytest.mark.parametrize("typed", ["s\nq\n", "q\n", None])
def test_review_that_says_nothing_changes_nothing(ktx: Run, scanned: Path, git: Git, typed: str | None) -> None:
    tip = git(scanned, "rev-parse", "HEAD")
    code, out, _ = at_a_terminal(scanned, answers(ktx, {}) if typed is None else typed, *EVERY)
    assert (code, out) == (0, "decided: nothing\ncommit: none\n")
    assert git(scanned, "rev-parse", "HEAD") == tip


def test_what_was_said_before_quitting_counts(ktx: Run, scanned: Path) -> None:
    first = ktx(*COMMAND, *EVERY[1:], "--json").data["relationships"][0]["edge"]
    code, _, _ = at_a_terminal(scanned, "r\nq\n", *EVERY)
    assert (code, statuses(ktx)[first]) == (0, "disabled")


@pytest.mark.parametrize("typed", ["\x03", "\x04"], ids=["ctrl-c", "the end of the input"])
def test_an_interrupted_review_keeps_what_was_said(ktx: Run, scanned: Path, git: Git, typed: str) -> None:
    tip = git(scanned, "rev-parse", "HEAD")
    code, out, shown = at_a_terminal(scanned, typed, *EVERY, answered="")
    assert (code, out, git(scanned, "rev-parse", "HEAD")) == (130, "", tip)
    assert re.search(
        r"error: the review was interrupted: nothing was changed\nhint: (/\S+/)?ktx scan relationships --review", shown
    )
    first = ktx(*COMMAND, *EVERY[1:], "--json").data["relationships"][0]["edge"]
    code, out, shown = at_a_terminal(scanned, typed, *EVERY, answered="r\n")
    assert (code, statuses(ktx)[first]) == (130, "disabled")
    assert "error: the review was interrupted: 1 decision kept" in shown and "reject\tdone" in out


def test_an_empty_list_says_what_is_declared_and_how_to_see_it(ktx: Run, shop: Path) -> None:
    assert ktx("setup", "--no-input", "--database", "sqlite", "--database-path", "shop.sqlite").code == 0
    assert ktx("scan").code == 0
    answer = ktx(*COMMAND)
    assert (answer.out, answer.err) == (
        "relationships: none inferred; 2 declared foreign keys\n", "next: ktx scan relationships --status declared\n",
    )  # fmt: skip
    rows = ktx(*COMMAND, "--status", "declared", "--json").data
    assert {row["edge"]: row["status"] for row in rows["relationships"]} == {
        '"Order Lines".order_id->orders.id': "declared", "orders.customer_id->customers.id": "declared",
    }  # fmt: skip
    assert rows["declared"] == 2


def test_scan_status_and_list_count_alike(ktx: Run, scanned: Path) -> None:
    assert ktx(*COMMAND, "--accept", PARCEL, "--reject", CUSTOMER).code == 0
    listed = Counter(statuses(ktx).values())
    (report,) = ktx("scan", "--json").data["connections"]
    (status,) = ktx("status", "--json").data["connections"]
    assert report["relationships"] == status["relationships"]
    assert {name: count for name, count in report["relationships"].items() if count} == listed
    assert listed["manual"] == listed["disabled"] == 1


def test_a_scan_shows_the_joins_it_found_once_and_how_to_review(ktx: Run, unscanned: Path) -> None:
    answer = ktx("scan")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    start = rows.index(["inferred join", "score", "reason"])
    found = {row[0]: row[2] for row in rows[start + 1 :] if len(row) == 3}
    assert found.keys() == {name for name, status in statuses(ktx).items() if status == "accepted"}
    assert all(found.values()) and CUSTOMER in found
    assert answer.err.splitlines()[-1] == "next: ktx scan relationships --review"
    lines = [*answer.out.splitlines(), *(line.partition(" (")[0] for line in answer.err.splitlines())]
    assert len(lines) == len(set(lines)), "no line stands there twice"
    assert "inferred join\tscore" not in ktx("scan").out, "nothing changed"


def test_a_scan_of_many_joins_shows_the_surest_and_how_to_see_the_others(
    ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktx_cli.cli.reports.MOST_JOINS", 1)
    database = sqlite3.connect(work / "shop.sqlite")
    database.executescript("CREATE TABLE customers (id INTEGER); CREATE TABLE a_region (region_id INTEGER)")
    database.executemany("INSERT INTO customers VALUES (?)", [(n,) for n in range(1, 101)])
    for name in ("orders", "visits", "calls"):
        database.execute(f"CREATE TABLE {name} (customer_id INTEGER)")
        database.executemany(f"INSERT INTO {name} VALUES (?)", [(n % 90 + 1,) for n in range(300)])
    database.commit()
    database.close()
    assert ktx("setup", "--no-input", "--database", "sqlite", "--database-path", "shop.sqlite").code == 0
    rows = [line.split("\t") for line in ktx("scan").out.splitlines()]
    assert ["... and 2 more", "", "ktx scan relationships warehouse"] in rows
    assert sum("->" in row[0] for row in rows) == 1


def test_a_join_that_is_gone_is_named_and_stays_listed(ktx: Run, scanned: Path) -> None:
    assert ktx(*COMMAND, "--accept", PARCEL).code == 0
    database = sqlite3.connect(scanned / "shop.sqlite")
    database.executescript("DROP TABLE customers; ALTER TABLE shipments DROP COLUMN line_no")
    database.close()
    answer = ktx("scan")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    why = {CUSTOMER: "table customers no longer exists", PARCEL: "column shipments.line_no no longer exists"}
    for edge, reason in why.items():
        assert [edge, reason] in rows
    assert "removed since the last scan\nhint: ktx scan relationships warehouse --status all\n" in answer.err
    found = {row["edge"]: row for row in ktx(*COMMAND, "--status", "all", "--json").data["relationships"]}
    assert {edge: (found[edge]["status"], found[edge]["reason"]) for edge in why} == {
        CUSTOMER: ("rejected", why[CUSTOMER]), PARCEL: ("review", why[PARCEL]),
    }  # fmt: skip
    again = ktx("scan", "--json")
    assert again.data["status"] == "unchanged" and again.data["connections"][0]["gone"] == []
    refused = ktx(*COMMAND, "--accept", PARCEL)
    assert refused.code == 2 and why[PARCEL] in refused.err and f"--reject '{PARCEL}'" in refused.err
    assert ktx(*COMMAND, "--reject", PARCEL).code == 0
    assert statuses(ktx)[PARCEL] == "disabled"


def test_a_confirmation_on_a_terminal_names_what_it_is_about(ktx: Run, scanned: Path) -> None:
    words = ("--accept-all-above", "0.5", "--table", "order_lines")
    code, _, shown = at_a_terminal(scanned, "n\n", *words)
    assert code == 130 and f"  {PARCEL} (" in shown
    assert statuses(ktx)[PARCEL] == "review"
    assert at_a_terminal(scanned, "y\n", *words)[0] == 0
    assert statuses(ktx)[PARCEL] == "manual"


@pytest.mark.parametrize(("typed", "found"), [("orders.", [CUSTOMER]), ("shipments.(", [PARCEL]), ("nothing", [])])
def test_completes_names(
    installed: Run, scanned: Path, monkeypatch: pytest.MonkeyPatch, typed: str, found: list[str]
) -> None:
    monkeypatch.setenv("_KTX_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"ktx scan relationships --accept {typed}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    before = files(scanned)
    answer = installed()
    assert (answer.out.split(), answer.err) == (found, "")
    assert files(scanned) == before


def test_completes_nothing_without_a_readable_project(
    installed: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_KTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "ktx scan relationships --accept o")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert (installed().out.strip(), installed().err) == ("", "")
    (work / "ktx.yaml").write_text("connections: {warehouse: {driver: sqlite, path: shop.sqlite}}\n")
    raw = work / "raw-sources" / "warehouse" / "live-database"
    raw.mkdir(parents=True)
    (raw / "relationships.json").write_text("{")
    assert (installed().out.strip(), installed().err) == ("", "")
