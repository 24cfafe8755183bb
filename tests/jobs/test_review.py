"""Listing and deciding in a project that was scanned for real: a SQLite database that declares nothing."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import Command, yaml
from ktx_cli.core.errors import BusyError, ConfigError, NotReadyError, StorageError, UsageError
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.review import (
    DecideRequest,
    DecisionReport,
    TypedDecision,
    decide,
    list_relationships,
    relationship_names,
)
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import hold_run_lock
from ktx_cli.project.state import read_state
from ktx_cli.scan.review import Decision, JoinStatus
from ktx_cli.scan.stages import Depth
from ktx_cli.semantic import Definition, DefinitionKind, Status, Statuses, Used
from tests.jobs.conftest import Built

Change = Callable[..., None]

SHARD = "semantic-layer/shop/_schema/main.yaml"
ORDERS, CUSTOMERS = "semantic-layer/shop/orders.yaml", "semantic-layer/shop/customers.yaml"
CUSTOMER, LINE, WHO = (
    "orders.customer_id->customers.id", "order_lines.order_id->orders.id", "shipments.who->customers.id",
)  # fmt: skip
PARCEL = "shipments.(order_id,line_no)->order_lines.(order_id,line_no)"


def fill(path: Path) -> None:
    """Write five tables without a key; `shipments` refers to lines by two columns, and `who` says nothing."""
    path.unlink()
    chance = random.Random(3)
    database = sqlite3.connect(path)
    database.executescript(
        """
        CREATE TABLE customers (id INTEGER, name TEXT);
        CREATE TABLE orders (id INTEGER, customer_id INTEGER, placed_on DATE);
        CREATE TABLE order_lines (order_id INTEGER, line_no INTEGER, amount REAL);
        CREATE TABLE shipments (id INTEGER, order_id INTEGER, line_no INTEGER, who INTEGER);
        """
    )
    lines = [(order, line, chance.random()) for order in range(1000, 1300) for line in (1, 2, 3)]
    parcels = [(n, *line[:2], chance.randint(1, 90)) for n, line in enumerate(chance.sample(lines, 250))]
    orders = [(n, chance.randint(1, 100), f"2024-01-{n % 28 + 1:02}") for n in range(1000, 1300)]
    database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"n{n}") for n in range(1, 101)])
    database.executemany("INSERT INTO orders VALUES (?, ?, ?)", orders)
    database.executemany("INSERT INTO order_lines VALUES (?, ?, ?)", lines)
    database.executemany("INSERT INTO shipments VALUES (?, ?, ?, ?)", parcels)
    database.commit()
    database.close()


def scanned(project: Path) -> None:
    """Scan once; thresholds far from what its joins score, whatever the ranker learns."""
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "scan: {relationships: {acceptThreshold: 0.9, reviewThreshold: 0}}\n")
    fill(project / "shop.sqlite")
    assert scan(project) is not None


@pytest.fixture
def project(shop_project: Path, built: Built) -> Path:
    """The project, scanned once."""
    return built(shop_project, scanned)


def scan(project: Path) -> str | None:
    """Scan and return the commit; None when nothing changed."""
    request = IngestRequest(project, os.environ, command=Command("scan"), databases_only=True, depth=Depth.PROFILE)
    report, _ = ingest(request)
    assert report.error() is None
    return report.commit


def said(project: Path, accept: tuple[str, ...] = (), reject: tuple[str, ...] = (), **more: Any) -> DecisionReport:
    choices = [TypedDecision(each, Decision.ACCEPT) for each in accept] + [
        TypedDecision(each, Decision.REJECT) for each in reject
    ]
    return decide(DecideRequest(project, choices, **more))[0]


def join_status_counts(project: Path) -> dict[str, str]:
    relationships = list_relationships(Layout(project), statuses=frozenset(JoinStatus)).relationships
    return {each.name: each.status.value for each in relationships}


def git(project: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=U", "-c", "user.email=u@example.com", *words],
        cwd=project, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def manual_joins(project: Path) -> set[tuple[str, str]]:
    tables = yaml.load((project / SHARD).read_bytes(), where=SHARD)["tables"]
    return {
        (source, join["on"])
        for source, entry in tables.items()
        for join in entry.get("joins", ())
        if join["source"] == "manual"
    }


def snapshot(project: Path) -> dict[str, bytes]:
    return {str(p.relative_to(project)): p.read_bytes() for p in sorted(project.rglob("*")) if p.is_file()}


def test_a_scan_finds_what_is_listed(project: Path) -> None:
    before = snapshot(project)
    found = join_status_counts(project)
    assert {found[CUSTOMER], found[LINE]} == {"accepted"}
    assert {found[PARCEL], found[WHO]} == {"review"}
    shown = list_relationships(Layout(project))
    assert {each.name for each in shown.relationships} == {
        name for name, status in found.items() if status != "rejected"
    }
    assert (shown.warnings, shown.declared) == ([], 0)
    assert snapshot(project) == before, "listing writes nothing"


def test_listing_runs_no_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert join_status_counts(project)[CUSTOMER] == "accepted"


@pytest.mark.parametrize("table", ["shipments", "order_lines", "customers"])
def test_of_one_table(project: Path, table: str) -> None:
    relationships = list_relationships(Layout(project), statuses=frozenset(JoinStatus), table=table).relationships
    everything = list_relationships(Layout(project), statuses=frozenset(JoinStatus)).relationships
    assert relationships == [
        each for each in everything if table in (each.relationship.child.name, each.relationship.parent.name)
    ]
    assert 0 < len(relationships) < len(everything)
    with pytest.raises(UsageError) as raised:
        list_relationships(Layout(project), table=f"{table}x")
    assert raised.value.hint == f"ktx scan relationships --table {table}"


def test_one_commit_of_exactly_the_changed_files(project: Path) -> None:
    (project / "mine.txt").write_text("mine")
    git(project, "add", "mine.txt")
    report = said(project, (PARCEL,), (CUSTOMER,))
    assert report.status == "done"
    assert set(report.committed) == {SHARD, ORDERS, CUSTOMERS}
    assert git(project, "show", "--name-only", "--format=%s", "HEAD").split("\n\n")[0] == (
        "ktx scan relationships: accept 1, reject 1"
    )
    assert set(git(project, "show", "--name-only", "--format=", "HEAD").split()) == set(report.committed)
    assert git(project, "status", "--porcelain", "mine.txt", "semantic-layer", "raw-sources") == "A  mine.txt\n"
    runs = read_state(Layout(project), lambda d: d.execute("SELECT command, status, commit_id FROM runs").fetchall())
    assert runs is not None and runs[-1] == ("ktx scan relationships", "done", report.commit)


def test_what_holds_already_is_no_commit(project: Path) -> None:
    said(project, (PARCEL,), (CUSTOMER,))
    tip = git(project, "rev-parse", "HEAD")
    report = said(project, (PARCEL,), (CUSTOMER,))
    assert (report.status, report.commit, report.error()) == ("unchanged", None, None)
    assert {each.result for each in report.decided} == {"unchanged"}
    assert git(project, "rev-parse", "HEAD") == tip


def test_a_scan_after_a_review_changes_nothing(project: Path) -> None:
    said(project, (PARCEL, WHO), (CUSTOMER,))
    tip = git(project, "rev-parse", "HEAD")
    assert scan(project) is None
    assert scan(project) is None
    assert git(project, "rev-parse", "HEAD") == tip


def test_decisions_survive_scans_whose_evidence_says_otherwise(project: Path, change: Change) -> None:
    said(project, (PARCEL, WHO, LINE), (CUSTOMER,))
    kept = {PARCEL: "manual", WHO: "manual", LINE: "manual", CUSTOMER: "disabled"}
    joins, overlays = manual_joins(project), [(project / path).read_bytes() for path in (ORDERS, CUSTOMERS)]
    assert len(joins) == 6

    def after(*statements: str) -> dict[str, str]:
        change(project, *statements)
        assert scan(project) is not None, "the evidence changed"
        assert manual_joins(project) == joins
        assert [(project / path).read_bytes() for path in (ORDERS, CUSTOMERS)] == overlays
        return join_status_counts(project)

    spoilt = after("UPDATE order_lines SET order_id = order_id + 900000", "UPDATE shipments SET line_no = line_no + 50")
    assert all(kept[name] == found for name, found in spoilt.items() if name in kept)
    assert CUSTOMER in spoilt
    worse = after("UPDATE orders SET customer_id = customer_id * 7919", "UPDATE shipments SET who = -who")
    assert all(kept[name] == found for name, found in worse.items() if name in kept)
    fill(project / "shop.sqlite")
    healed = after("INSERT INTO customers VALUES (101, 'n101')")
    assert {name: healed[name] for name in kept} == kept
    assert scan(project) is None


def test_an_undone_decision_is_the_scans_again(project: Path) -> None:
    before = {path: text for path, text in snapshot(project).items() if path.startswith("semantic-layer")}
    said(project, (PARCEL, CUSTOMER))
    said(project, reject=(PARCEL, CUSTOMER))
    assert manual_joins(project) == set()
    assert (project / SHARD).read_bytes() == before[SHARD]
    assert scan(project) is None
    said(project, (CUSTOMER,))
    assert not (project / ORDERS).exists()
    assert join_status_counts(project)[CUSTOMER] == "manual"


def test_an_edited_file_is_left_alone_with_all_of_its_decision(project: Path) -> None:
    said(project, reject=(LINE,))
    edited = (project / SHARD).read_bytes() + b"# mine\n"
    (project / SHARD).write_bytes(edited)
    report = said(project, (PARCEL, LINE), (CUSTOMER,))
    assert {each.reviewed.name: each.result for each in report.decided} == {
        PARCEL: "held",
        LINE: "held",
        CUSTOMER: "done",
    }
    assert set(report.committed) == {ORDERS, CUSTOMERS}
    assert report.held == ((SHARD, "modified"),)
    assert (project / SHARD).read_bytes() == edited
    error = report.error()
    assert error is not None and error.exit_code == 7
    assert git(project, "show", "--format=%s", "--no-patch").strip() == "ktx scan relationships: reject 1"
    assert join_status_counts(project)[LINE] == "disabled", "its overlays are as they were"


@pytest.mark.parametrize("path", [ORDERS, "semantic-layer/shop/mine.yaml"])
def test_an_overlay_not_in_git_yet_is_left_alone(project: Path, path: str) -> None:
    (project / path).write_text("name: orders\n")
    tip = git(project, "rev-parse", "HEAD")
    report = said(project, reject=(CUSTOMER,))
    assert (report.commit, report.held, report.decided[0].result) == (None, ((path, "untracked"),), "held")
    assert not (project / CUSTOMERS).exists()
    assert git(project, "rev-parse", "HEAD") == tip
    assert said(project, accept=(CUSTOMER,)).status == "done", "no overlay is needed for that"


def test_comments_that_go_are_named(project: Path) -> None:
    (project / SHARD).write_bytes((project / SHARD).read_bytes() + b"# mine\n")
    git(project, "commit", "-aqm", "a thought")
    _, warnings = decide(DecideRequest(project, [TypedDecision(PARCEL, Decision.ACCEPT)]))
    assert [warning.code for warning in warnings] == ["removed_comments"]


def test_files_that_git_ignores_are_written_and_named(project: Path) -> None:
    (project / ".gitignore").write_text("semantic-layer/shop/*.yaml\n")
    report, warnings = decide(DecideRequest(project, [TypedDecision(CUSTOMER, Decision.REJECT)]))
    assert (report.status, report.commit, set(report.ignored)) == ("done", None, {ORDERS, CUSTOMERS})
    assert [warning.code for warning in warnings] == ["ignored_paths"]
    assert join_status_counts(project)[CUSTOMER] == "disabled"
    assert decide(DecideRequest(project, [TypedDecision(CUSTOMER, Decision.ACCEPT)]))[0].status == "done"
    assert (project / ORDERS).read_text() == "name: orders\n", "git has no history of it, so it is not removed"
    assert join_status_counts(project)[CUSTOMER] == "manual"


def test_another_run_holds_the_run_lock(project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")
    with hold_run_lock(Layout(project), run_id="other", command="ktx ingest"), pytest.raises(BusyError):
        said(project, (PARCEL,))
    assert git(project, "rev-parse", "HEAD") == before
    assert said(project, (PARCEL,)).status == "done"


@pytest.mark.parametrize(
    ("accept", "reject", "message", "hint"),
    [
        (("orders.custmer_id",), (), "no relationship", f"ktx scan relationships shop --accept '{CUSTOMER}'"),
        (
            (),
            ("orders.customer_id-",),
            "there is no relationship",
            f"ktx scan relationships shop --reject '{CUSTOMER}'",
        ),
        (("nothing like it",), (), "there is no relationship", "ktx scan relationships shop --status all"),
        ((CUSTOMER,), ("orders.customer_id",), "both accepted and rejected", "pass it only once"),
    ],
)
def test_a_wrong_word_changes_nothing(project: Path, accept: Any, reject: Any, message: str, hint: str) -> None:
    tip = git(project, "rev-parse", "HEAD")
    with pytest.raises(UsageError, match=message) as raised:
        said(project, accept, reject)
    assert raised.value.hint == hint
    assert git(project, "rev-parse", "HEAD") == tip
    runs = read_state(Layout(project), lambda d: d.execute("SELECT status FROM runs ORDER BY started").fetchall())
    assert runs is not None and runs[-1] == ("failed",)


def test_a_name_in_two_connections(project: Path) -> None:
    config = project / "ktx.yaml"
    copy = "connections:\n  copy:\n    driver: sqlite\n    path: shop.sqlite\n"
    config.write_text(config.read_text().replace("connections:\n", copy))
    scan(project)
    with pytest.raises(UsageError, match="is in several connections: copy, shop") as raised:
        said(project, (PARCEL,))
    assert raised.value.hint == f"ktx scan relationships copy --accept '{PARCEL}'"
    assert said(project, (PARCEL,), connections=("shop",)).committed == (SHARD,)
    assert relationship_names(project, ["copy", "shop", "gone"]).count(PARCEL) == 1


def test_a_file_that_leaves_no_place_changes_nothing(project: Path) -> None:
    (project / ORDERS).write_text("name: orders\nsql: select 1\n")
    git(project, "add", ORDERS)
    git(project, "commit", "-qm", "our own orders")
    with pytest.raises(ConfigError, match="standalone source"):
        said(project, (PARCEL,), (CUSTOMER,))
    assert join_status_counts(project)[PARCEL] == "review"


def test_before_any_scan(shop_project: Path) -> None:
    with pytest.raises(NotReadyError) as raised:
        list_relationships(Layout(shop_project))
    assert (raised.value.exit_code, raised.value.hint) == (3, "ktx scan")
    with pytest.raises(NotReadyError) as raised:
        said(shop_project, (CUSTOMER,))
    assert raised.value.hint == "ktx scan"
    assert not (shop_project / ".ktx").exists()


def test_after_a_scan_of_the_structure_alone(shop_project: Path) -> None:
    ingest(IngestRequest(shop_project, os.environ, depth=Depth.STRUCTURAL))
    for words in ((), ("shop",)):
        with pytest.raises(NotReadyError) as raised:
            list_relationships(Layout(shop_project), words)
        assert raised.value.hint == " ".join(("ktx scan", *words, "--depth profile"))


def change(project: Path, statement: str) -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ("ALTER TABLE customers RENAME TO people", "ALTER TABLE people RENAME TO customers"),
        ("ALTER TABLE shipments RENAME COLUMN who TO x", "ALTER TABLE shipments RENAME COLUMN x TO who"),
    ],
    ids=["a table", "a column"],
)
def test_an_accepted_join_comes_back_with_what_was_missing(project: Path, away: str, back: str) -> None:
    said(project, (WHO,))
    written = manual_joins(project)
    assert len(written) == 2
    change(project, away)
    assert scan(project) is not None
    assert (join_status_counts(project)[WHO], manual_joins(project)) == ("review", set())
    assert scan(project) is None, "nothing is left to do"
    change(project, back)
    assert scan(project) is not None
    assert (join_status_counts(project)[WHO], manual_joins(project)) == ("manual", written)
    assert scan(project) is None


def test_a_join_that_an_overlay_makes_is_written_nowhere_else(project: Path) -> None:
    overlay = project / "semantic-layer/shop/shipments.yaml"
    overlay.write_text("name: shipments\njoins:\n  - {to: customers, on: who = customers.id}\n")
    git(project, "add", "semantic-layer")
    git(project, "commit", "-m", "overlay")
    change(project, "ALTER TABLE shipments RENAME COLUMN who TO x")
    scan(project)
    assert join_status_counts(project)[WHO] == "review"
    change(project, "ALTER TABLE shipments RENAME COLUMN x TO who")
    scan(project)
    assert (join_status_counts(project)[WHO], manual_joins(project)) == ("manual", set())


def test_nothing_to_do_where_the_join_the_other_way_round_stands(project: Path) -> None:
    path = project / "raw-sources/shop/live-database/relationships.json"
    line = next(line for line in path.read_text().splitlines() if '"orders"' in line and '"customers"' in line)
    turned = (
        '  {"from": ["customers"], "columns": ["id"], "to": ["orders"], "to_columns": ["customer_id"], '
        '"status": "rejected", "score": 0.5, "reason": "", "relationship": "many_to_one", "sources": []},'
    )
    path.write_text(path.read_text().replace(line, f"{turned}\n{line}"))
    git(project, "commit", "-am", "turned")
    mirror = "customers.id->orders.customer_id"
    report, warnings = decide(DecideRequest(project, [TypedDecision(mirror, Decision.REJECT)]))
    assert (report.status, report.commit) == ("unchanged", None)
    assert [(each.code, each.hint) for each in warnings] == [
        ("opposite_stands", f"ktx scan relationships shop --reject '{CUSTOMER}'")
    ]
    assert (join_status_counts(project)[CUSTOMER], join_status_counts(project)[mirror]) == ("accepted", "rejected")


@pytest.mark.parametrize("path", [SHARD, "raw-sources/shop/live-database/relationships.json"])
def test_what_a_scan_wrote_is_not_read_from_elsewhere(project: Path, path: str) -> None:
    (project / path).rename(project.parent / "elsewhere")
    (project / path).symlink_to(project.parent / "elsewhere")
    with pytest.raises(StorageError, match="points outside the project"):
        list_relationships(Layout(project))


def test_an_overlay_is_not_read_from_elsewhere(project: Path) -> None:
    overlay = project.parent / "overlay.yaml"
    overlay.write_text("name: orders\n")
    (project / ORDERS).symlink_to(overlay)
    (warning,) = list_relationships(Layout(project)).warnings
    assert warning.details["path"] == ORDERS
    assert "points outside the project" in warning.message


@pytest.mark.parametrize("is_known", [True, False])
def test_a_review_is_the_acceptance_of_the_person_whom_git_names(
    is_known: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (name for role in ("AUTHOR", "COMMITTER") for name in (f"GIT_{role}_NAME", f"GIT_{role}_EMAIL")):
        monkeypatch.delenv(name, raising=False)
    if is_known:
        monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lee")
        monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.com")
    with (project / "ktx.yaml").open("a") as config:
        config.write("storage: {git: {author: 'ktx <ktx@example.com>'}}\n")
    report = said(project, accept=(WHO,))
    message = git(project, "log", "-1", "--format=%an%n%B")
    assert (f"Ktx-Run: {report.run_id}" in message, "Ktx-Decided-By: Ada Lee <ada@example.com>" in message) == (
        True,
        is_known,
    )
    assert message.splitlines()[0] == ("Ada Lee" if is_known else "ktx")
    join = Used(Definition(DefinitionKind.JOIN, "shipments", "customers"), SHARD)
    found = Statuses(Layout(project), "shop", "sqlite").of(join)
    if is_known:
        assert (found.status, found.why.split(" (")[0][:16]) == (Status.ACCEPTED, "Ada Lee committe")
    else:
        assert (found.status, found.why.split(" (")[0]) == (Status.PROPOSED, f"ktx run {report.run_id} wrote it")
