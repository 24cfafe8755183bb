"""Two working trees of one project share a state in Postgres: runs, the run lock, usage and stored results."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project import Layout, hold_run_lock, open_for_writing, read_state
from ktx_cli.project.migrations import MIGRATIONS
from ktx_cli.project.shared_state import SharedStateConnection
from ktx_cli.runs import start_run
from tests.cli.conftest import Share
from tests.cli.setup_terminal import KTX
from tests.docs.blocks import ROOT, blocks_of
from tests.worlds.lock_pauses import lock_pauses

Run = Callable[..., Any]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def trees(share: Share) -> tuple[Path, Path]:
    """Two clones of a project, at the same commit."""
    return share()


def test_the_second_run_names_the_first_and_waits_if_told_to(ktx: Run, trees: tuple[Path, Path]) -> None:
    one, two = trees
    with hold_run_lock(Layout(one), run_id="20260101-000000-abcdef", command="ktx ingest"):
        busy = ktx("ingest", "--project-dir", str(two), "--json")
        assert busy.code == 6
        error = busy.envelope["error"]
        assert socket.gethostname() in error["message"] and "run 20260101-000000-abcdef" in error["message"]
        assert error["details"]["run_id"] == "20260101-000000-abcdef"
        assert "running" in ktx("doctor", "--only", "lock", "--project-dir", str(two)).out
    entered, release = threading.Event(), threading.Event()

    def hold() -> None:
        with hold_run_lock(Layout(one), run_id="20260101-000000-abcdef", command="ktx ingest"):
            entered.set()
            release.wait(30)

    holding = threading.Thread(target=hold)
    holding.start()
    entered.wait(30)
    threading.Timer(0.5, release.set).start()
    done = ktx("ingest", "--wait", "--project-dir", str(two), "--json")
    holding.join(30)
    assert done.code == 0, done.out


def test_who_waits_asks_a_shared_database_less_and_less_often(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_run_lock(Layout(trees[0]), run_id="first", command="ktx ingest"):
        pauses = lock_pauses(Layout(trees[1]), monkeypatch)
    assert pauses[0] == 0.2 and pauses[:-1] == sorted(pauses[:-1]) and max(pauses) == 2.0
    assert len(pauses) < 25, "not 150 times in half a minute, on each of many hosts"


def test_a_run_of_one_tree_is_in_the_list_of_the_other(ktx: Run, trees: tuple[Path, Path]) -> None:
    one, two = trees
    first = ktx("ingest", "--project-dir", str(one), "--json")
    assert first.code == 0, first.out
    run = first.data["run_id"]
    listed = ktx("runs", "list", "--project-dir", str(two), "--json")
    assert [each["run_id"] for each in listed.data["runs"]] == [run]
    shown = ktx("runs", "show", run, "--project-dir", str(two), "--json")
    assert shown.code == 0 and shown.data["report"]["run_id"] == run, shown.out
    assert ktx("status", "--project-dir", str(two)).code == 0
    again = ktx("ingest", "--project-dir", str(two), "--json")
    assert again.code == 0 and again.data["commit"] is None
    assert not (two / ".ktx" / "state.sqlite-wal").exists()


def test_a_run_on_another_host(trees: tuple[Path, Path]) -> None:
    """A host is another one if its name differs, which a namespace of its own shows."""
    one, two = trees
    command = ["unshare", "--uts", "--map-root-user", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no namespace for a host name")
    with hold_run_lock(Layout(one), run_id="20260101-000000-abcdef", command="ktx ingest"):
        found = subprocess.run([*command, KTX, "ingest"], cwd=two, capture_output=True, text=True, check=False)
    assert found.returncode == 6
    assert f"on {socket.gethostname()}" in " ".join(found.stderr.split())
    after = subprocess.run([*command, KTX, "ingest"], cwd=two, capture_output=True, text=True, check=False)
    assert after.returncode == 0, after.stderr


@pytest.mark.parametrize("url", ["postgresql://me:no-secret@127.0.0.1:9/none", "other password"])
def test_an_unreachable_state_is_an_unreachable_database(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    for name in ("OUTAGE_SECONDS", "READING_SECONDS"):
        monkeypatch.setattr(f"ktx_cli.project.shared_state.{name}", 0.1)
    real = os.environ["KTX_STATE_URL"]
    monkeypatch.setenv("KTX_STATE_URL", real.replace(":postgres@", ":no-secret@") if " " in url else url)
    for words in (("ingest",), ("scan",), ("usage",)):
        found = ktx(*words, "--project-dir", str(trees[1]), "--json")
        error = found.envelope["error"]
        assert (found.code, error["code"]) == (4, "connection"), found.out
        assert error["hint"].endswith("--only shared") and "no-secret" not in found.out + found.err
    listed = ktx("runs", "list", "--project-dir", str(trees[1]), "--json")  # the reports of this clone
    assert (listed.code, [each["code"] for each in listed.envelope["warnings"]]) == (0, ["state_unreadable"])
    shown = ktx("runs", "show", "latest", "--project-dir", str(trees[1]), "--json")
    assert (shown.code, shown.envelope["error"]["code"]) == (4, "connection"), "it does not say that there is no run"
    status = ktx("status", "--project-dir", str(trees[1]), "--json")
    assert status.code == 3 and "no-secret" not in status.out + status.err
    reason = status.data["checks"][[each["check"] for each in status.data["checks"]].index("shared")]["message"]
    assert json.dumps({"data": status.data, "warnings": status.envelope["warnings"]}).count(json.dumps(reason)) == 1
    assert status.out.count("connection failed") == 2, "in the check, and in the error that names it"
    doctor = ktx("doctor", "--project-dir", str(trees[1]))
    assert doctor.out.count("connection failed") == 1 and doctor.out.count("see the check `shared`") >= 2, doctor.out
    assert [each["level"] for each in status.data["checks"] if each["check"] == "shared"] == ["fail"]
    for words in (("status",), ("connection", "list")):
        shown = ktx(*words, "--project-dir", str(trees[1])).out
        assert "unknown" in shown and "never" not in shown and "state: ok: no problems found\n" not in shown, shown
    monkeypatch.setenv("KTX_STATE_URL", real)
    assert ktx("ingest", "--project-dir", str(trees[1]), "--json").code == 0
    assert "unknown" not in ktx("status", "--project-dir", str(trees[1])).out


def test_a_missing_variable_is_a_matter_of_setup_for_all_checks(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KTX_STATE_URL")
    found = ktx("doctor", "--only", "lock", "--only", "shared", "--project-dir", str(trees[1]), "--json")
    assert found.code == 3 and {each["concern"] for each in found.data["findings"]} == {"setup"}, found.out


def test_readers_say_that_a_state_is_of_an_older_version(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state was last written by an older ktx, until the first run after the update of this one."""
    one, two = trees
    with monkeypatch.context() as patch:
        patch.setattr("ktx_cli.project.shared_state.MIGRATIONS", MIGRATIONS[:-1])
        with open_for_writing(Layout(one)) as state:
            start_run(state, "20260101T000000-abcdef", "ktx ingest")
    place = ("--project-dir", str(two))
    for words in (("runs", "list"), ("usage",), ("connection", "list"), ("status",)):
        found = ktx(*words, *place, "--json")
        (warning,) = found.envelope["warnings"]
        assert found.code == 0 and "is of an older version of ktx" in warning["message"], words
        assert warning["hint"].startswith("ktx ingest")
    assert {each["last_scan"] for each in ktx("status", *place, "--json").data["connections"]} == {None}
    assert "unknown" in ktx("status", *place).out and "never" not in ktx("status", *place).out
    shown = ktx("runs", "show", "latest", *place, "--json").envelope["error"]
    assert "is of an older version of ktx" in shown["message"] and shown["hint"].startswith("ktx ingest")
    checks = ktx("doctor", "--only", "lock", "--only", "profiles", *place, "--json").data["findings"]
    assert [(each["level"], "older version" in each["message"]) for each in checks] == [("skip", True)] * 2
    assert ktx("ingest", *place).code == 0
    listed = ktx("runs", "list", *place, "--json")
    assert not listed.envelope["warnings"] and "20260101T000000-abcdef" in listed.out


def test_after_a_return_to_files_status_says_what_is_missing(ktx: Run, trees: tuple[Path, Path]) -> None:
    clone = trees[1]
    place = ("--project-dir", str(clone))
    assert ktx("ingest", *place).code == 0
    assert ktx("config", "set", "storage.state", "sqlite", *place).code == 0
    assert ktx("index", *place).code == 0
    status = ktx("status", *place)
    assert (
        "index: up to date, " in status.out and "without values and passages of warehouse: `ktx ingest`" in status.out
    )
    (profiles,) = [each for each in ktx("status", *place, "--json").data["checks"] if each["check"] == "profiles"]
    assert profiles["level"] == "skip" and "profiles and value lists are missing" in profiles["message"], profiles
    assert ktx("doctor", "--only", "profiles", "--strict", *place).code == 0, "a clone in CI has no scans either"
    assert ktx("ingest", *place).code == 0
    after = ktx("status", *place)
    assert "are missing" not in after.out and "without values" not in after.out


def nightly_script() -> str:
    page = "docs/guides/shared.md"
    (block,) = [
        each for each in blocks_of((ROOT / page).read_text(), page) if each.title == "/srv/analytics/nightly.sh"
    ]
    return block.text


@pytest.mark.parametrize("pushed", ["nothing", "before", "meanwhile"])
def test_the_nightly_job_of_the_guide(
    trees: tuple[Path, Path], git: Callable[..., str], tmp_path: Path, pushed: str
) -> None:
    """An analyst pushes from another clone, before the job or while it runs; the job pushes and publishes."""
    job, analyst = trees
    remote, script, words = tmp_path / "remote.git", tmp_path / "nightly.sh", tmp_path / "bin" / "ktx"
    git(tmp_path, "clone", "-q", "--bare", str(job), str(remote))
    for clone in trees:
        git(clone, "remote", "add" if clone == job else "set-url", "origin", str(remote))
    git(job, "fetch", "-q", "origin")
    git(job, "branch", "-q", "--set-upstream-to=origin/main", "main")
    git(job, "update-index", "--assume-unchanged", "shop.sqlite")
    with contextlib.closing(sqlite3.connect(job / "shop.sqlite")) as shop:
        shop.execute("CREATE TABLE refunds (id INTEGER PRIMARY KEY, amount REAL)")
    page = analyst / "wiki" / "global" / "refunds.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\ntitle: Refunds\nsummary: What a refund is.\n---\n\nMoney given back.\n")
    git(analyst, "add", "wiki")
    git(analyst, "commit", "-qm", "explain refunds")
    if pushed == "before":
        git(analyst, "push", "-q", "origin", "main")
    words.parent.mkdir()
    push = f'[ "$1" != ingest ] || git -C {analyst} push -q origin main' if pushed == "meanwhile" else ":"
    words.write_text(f'#!/bin/sh\n{push}\nexec {KTX} "$@"\n')
    words.chmod(0o755)
    script.write_text(nightly_script())
    path = f"{words.parent}{os.pathsep}{os.environ['PATH']}"
    identity = {
        f"GIT_{role}_{each}": "job@example.com" for role in ("AUTHOR", "COMMITTER") for each in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["sh", str(script)],
        env={**os.environ, **identity, "PATH": path, "KTX_CLONE": str(job)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert git(remote, "rev-parse", "main") == git(job, "rev-parse", "HEAD")
    files = git(remote, "ls-tree", "-r", "--name-only", "main")
    assert ("wiki/global/refunds.md" in files) == (pushed != "nothing") and "refunds" in git(remote, "show", "main")
    published = read_state(Layout(job), lambda state: state.execute("SELECT commit_id FROM published").fetchone())
    assert published == (git(job, "rev-parse", "HEAD").strip(),)


def test_reports_of_other_hosts_are_read_together(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = trees
    for _ in range(2):
        assert ktx("ingest", "--project-dir", str(one)).code == 0
    asked: list[str] = []
    real = SharedStateConnection.execute

    def execute(self: SharedStateConnection, sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return real(self, sql, *rest)

    monkeypatch.setattr(SharedStateConnection, "execute", execute)
    listed = ktx("runs", "list", "--project-dir", str(two), "--json")
    assert len(listed.data["runs"]) == 2 and all(each["seconds"] for each in listed.data["runs"])
    assert sum("run_reports" in sql for sql in asked) == 1, asked


@pytest.mark.parametrize("words", [("ingest",), ("mcp", "publish")])
def test_a_command_that_waits_for_the_database_says_so(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for name, seconds in (("OUTAGE_SECONDS", 1.0), ("READING_SECONDS", 0.1), ("REPORT_SECONDS", 0.1)):
        monkeypatch.setattr(f"ktx_cli.project.shared_state.{name}", seconds)
    assert ktx("ingest", "--project-dir", str(trees[1])).code == 0
    monkeypatch.setenv("KTX_STATE_URL", f"postgresql://me:no-secret@127.0.0.1:9/{words[-1]}")
    found = ktx(*words, "--project-dir", str(trees[1]), "--plain")
    assert found.code == 4 and found.err.count("does not respond; waiting for it") == 1, found.err
    assert "no-secret" not in found.out + found.err
