"""Two working trees of one project share a state in Postgres: runs, the run lock, usage and stored results."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project import Layout, hold_run_lock
from tests.cli.conftest import Share
from tests.cli.setup_terminal import KTX

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
    status = ktx("status", "--project-dir", str(trees[1]), "--json")
    assert status.code == 3 and "no-secret" not in status.out + status.err
    assert [each["level"] for each in status.data["checks"] if each["check"] == "shared"] == ["fail"]
    for words in (("status",), ("connection", "list")):
        shown = ktx(*words, "--project-dir", str(trees[1])).out
        assert "unknown" in shown and "never" not in shown and "state: ok: no problems found\n" not in shown, shown
    monkeypatch.setenv("KTX_STATE_URL", real)
    assert ktx("ingest", "--project-dir", str(trees[1]), "--json").code == 0
    assert "unknown" not in ktx("status", "--project-dir", str(trees[1])).out


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
