from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.jobs.demo.demo import FROM_DBT, QUESTIONS, answered
from tests.cli.conftest import KTX, Answer
from tests.cli.envelope import check_envelope
from tests.docs.blocks import ROOT, blocks_of
from tests.worlds.forks import Forks

Run = Callable[..., Any]
Shell = Callable[..., str]
KNOWN = ["context", "before", "after"]


def same(value: Any) -> str:
    return str(value)


MOMENTS = ("warehouse.duckdb", "handbook", ".git", "ktx.yaml", "semantic-layer", "raw-sources/handbook")
if not os.environ.get("KTX_TEST_FULL"):
    MOMENTS = MOMENTS[1::3]
"""What is there when a demo is killed, one after the other in the same folder."""


@pytest.mark.slow
def test_a_demo_killed_at_any_moment_is_finished_by_the_next_builds_and_answers(
    ktx: Run, work: Path, demo_project: Path, forks: Forks
) -> None:
    folder, words = work / "company", ("demo", "company", "--seed", "8", "--json")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    for sign in MOMENTS:
        killed_when_there(forks, words, folder / sign)
    if not list(folder.glob(".ktx-demo-*")):  # the last was done before it was killed
        shutil.rmtree(folder)
    done = forks.run(words, folder=work, environ=os.environ)
    assert done.returncode == 0, done.stderr
    answer = Answer(done.returncode, done.stdout, done.stderr)
    check_envelope(answer.out, "demo", 0)
    assert answer.err == "", "DuckDB tells of objects that are left when the process ends"
    assert not list(folder.glob(".ktx-demo-*"))
    data = answer.data
    left = [(each["source"], each["what"]) for each in data["second_half"]["a_model_would_add"]]
    assert ("handbook (files)", "9 documents could be turned into wiki pages") in left and len(left) == 8
    for half in (data, data["second_half"]):
        with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as warehouse:
            rows = warehouse.execute(half["sql"]).fetchall()
        assert [[same(cell) for cell in row] for row in rows] == [
            [same(cell) for cell in row] for row in half["answer"]
        ]
        assert half["receipt"]["verified"]["mismatches"] == []
        assert half["receipt"]["verified"]["rows"] == len(rows) > 1
        assert half["ingest"]["status"] in ("done", "unchanged")  # a kill may come just after its commit
    for question in (QUESTIONS[0], FROM_DBT):
        here, there = (answered(each, question, os.environ).answer.rows for each in (folder, demo_project))
        assert here != there, "another seed, other numbers"
    assert data["ingest"]["connections"][0]["tables"] >= 12
    assert len(data["joins"]) == 3 and all(join["reason"] for join in data["joins"])
    done = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert (folder / ".git").is_dir()
    done = subprocess.run(["git", "rev-list", "--all"], cwd=work, capture_output=True, text=True, check=True)
    assert done.stdout == "", "a demo inside a repository has a repository of its own"
    assert ktx("status", "--project-dir", "company").code == 0
    assert ktx("ingest", "--project-dir", "company", "--json").data["status"] == "unchanged"


def killed_when_there(forks: Forks, words: Sequence[str], sign: Path) -> None:
    """Start a command here, and kill it when there is a file."""
    said = Path.cwd().with_name("said")
    run = forks(words, folder=Path.cwd(), environ=os.environ, said=said)
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        while not sign.exists():
            os.kill(run.pid, 0)
            time.sleep(0.005)
        os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert sign.exists(), said.read_text("utf-8")


def test_the_second_half_gains_what_needs_no_model_and_says_what_one_would_add(
    ktx: Run, work: Path, demo_project: Path, demo_output: str
) -> None:
    """What the demo of all tests printed; the README shows the figures, and tests/docs compares them."""
    shutil.copytree(demo_project, work / "ktx-demo")
    assert "\x1b" not in demo_output
    shows_joins_that_no_key_declares(ktx, demo_output)
    rows = [line.split("\t") for line in demo_output.splitlines()]
    known = {name: (int(before), int(after)) for name, before, after in rows[rows.index(KNOWN) + 1 :][:5]}
    assert all(after > before for before, after in known.values()), known
    assert known["wiki pages"] == (5, 6), "those of the team, and the catalog of the handbook"
    assert "A model can also read 8 more files and folders" in demo_output
    assert "before: there is no measure `customer_value.accounts`" in demo_output
    assert ["segment", "accounts", "active_customers", "active_share"] in rows
    assert "`ktx setup --llm-backend claude-code` and `ktx ingest dbt handbook`" in demo_output
    steps = [line for line in demo_output.splitlines() if line.startswith("next: ")]
    assert len(steps) == 7 and steps[0] == "next: cd ktx-demo"
    place = ("--project-dir", "ktx-demo", "--json")
    by_activity = ktx("sl", "query", "-m", "order_revenue.net_revenue", "-d", "customer_value.is_active", *place)
    assert len(by_activity.data["rows"]) == 2
    hits = ktx("search", "guest", "card", "--kind", "column", *place).data["hits"]
    assert hits[0]["id"] == "payments.customer_id"


def shows_joins_that_no_key_declares(ktx: Run, out: str) -> None:
    shown = {line.split("\t")[0]: line for line in out.splitlines() if "->" in line and "\t" in line}
    assert len(shown) == 3 and all("Column name" in line for line in shown.values())
    listed = ktx("scan", "relationships", "--project-dir", "ktx-demo", "--json").data
    assert shown.keys() <= {row["edge"] for row in listed["relationships"] if row["status"] == "accepted"}
    assert listed["declared"] == 0


def next_lines(text: str) -> list[str]:
    return [line.removeprefix("next: ") for line in text.splitlines() if line.startswith("next: ")]


PROGRAM = Path(sys.executable).with_name("ktx")


@pytest.fixture
def shell(work: Path) -> Iterator[Shell]:
    """What types lines into a shell of a fresh machine: the home is empty, and stays so, and PATH has no ktx."""
    home = work.parent / "empty-home"
    home.mkdir()
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TMPDIR": os.environ.get("TMPDIR", "/tmp")}

    def typed(*lines: str, folder: Path = work) -> str:
        """Run the lines one after the other in one shell, and return what they print to stderr; all exit with 0."""
        text, shell = "\n".join(lines), ["/bin/sh", "-e"]
        done = subprocess.run(shell, input=text, cwd=folder, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "error:" not in done.stderr, (lines, done.stderr)
        return done.stderr

    yield typed
    assert [path.name for path in home.iterdir()] == []


@pytest.mark.slow
def test_on_a_fresh_machine_the_next_lines_of_the_demo_run_as_printed_and_lint_and_doctor_pass(shell: Shell) -> None:
    steps = next_lines(shell(f"{PROGRAM} demo"))
    assert len(steps) == 7 and steps[0] == "cd ktx-demo"
    assert all(step.startswith(f"{PROGRAM} ") for step in steps[1:])
    shell(*steps, f"{PROGRAM} lint", f"{PROGRAM} doctor --strict")


@pytest.mark.slow
def test_on_a_clone_the_first_command_of_the_readme_and_its_next_lines_run_as_printed(shell: Shell, work: Path) -> None:
    clone = cloned(work / "ktx")
    block = blocks_of((clone / "README.md").read_text("utf-8"), "README.md")[0]
    first = block.text.splitlines()[0]
    assert first.partition("#")[0].split() == ["make", "demo"]
    steps = next_lines(shell(first, folder=clone))
    assert len(steps) == 7 and steps[0] == "cd ktx-demo"
    assert all(step.startswith(f"{clone}/.venv/bin/ktx ") for step in steps[1:]), "they work without the activation"
    shell(*steps, folder=clone)
    left = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert {line[3:] for line in left.stdout.splitlines()} <= {"README.md", "Makefile"}, "git ignores what it makes"


def cloned(folder: Path) -> Path:
    """Return a clone of this repository in which ktx is installed: the environment is this one, nothing is downloaded.

    The README and the Makefile are those of the working tree.
    """
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    for name in ("README.md", "Makefile"):
        shutil.copyfile(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(PROGRAM.parent)
    (folder / ".venv/.installed").touch()
    return folder


@pytest.mark.slow
def test_on_a_fresh_machine_the_next_lines_of_setup_and_ingest_run_as_printed(
    shell: Shell, work: Path, demo_project: Path
) -> None:
    shutil.copy(demo_project / "warehouse.duckdb", work)
    words = "--database duckdb --database-path warehouse.duckdb --build structure --agents claude-code"
    for command in (f"{PROGRAM} setup {words}", f"{PROGRAM} ingest", f"{PROGRAM} ingest --dry-run"):
        shell(*next_lines(shell(command)))


def test_demo_never_writes_into_a_folder_that_holds_something(ktx: Run, work: Path) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "file").write_text("x")
    answer = ktx("demo", "mine", "--json")
    assert answer.code == 2
    assert [p.name for p in (work / "mine").iterdir()] == ["file"]


def test_a_join_that_dbt_declares_names_dbt(ktx: Run, work: Path, demo_project: Path) -> None:
    shutil.copytree(demo_project, work, dirs_exist_ok=True, symlinks=True)
    listed = ktx("scan", "relationships", "--json").data["relationships"]
    assert not [each for each in listed if each["status"] == "manual"]
    inferred = {each["edge"]: each["reason"] for each in listed if each["status"] == "accepted"}
    text = "declared in `dbt`; evidence of the scan: Column name matches the key; "
    rep = "orders.sales_rep_id->employees.employee_id"
    for edge in ("order_lines.order_id->orders.order_id", "refunds.order_id->orders.order_id", rep):
        assert inferred[edge].startswith("declared in `dbt`; evidence of the scan: ")
    assert inferred["order_lines.order_id->orders.order_id"].startswith(text)
    connections = ktx("status", "--json").data["connections"]
    (counts,) = [each["relationships"] for each in connections if each["id"] == "warehouse"]
    assert (counts["accepted"], counts["manual"]) == (len(inferred), 0)
    (scanned,) = ktx("scan", "--json").data["connections"]
    assert f" {len(inferred)} inferred joins; " in scanned["result"]
    for manifest in (work / "raw-sources/dbt").rglob("manifest.yaml"):
        manifest.unlink()
    found = ktx("scan", "relationships", "--status", "accepted", "--json").data["relationships"]
    assert all(each["reason"].startswith("Column name") for each in found) and len(found) == len(inferred)


@pytest.mark.slow
def test_a_clone_of_a_demo_says_how_it_gets_the_warehouse(ktx: Run, work: Path, demo_project: Path) -> None:
    clone = work / "clone"
    subprocess.run(["git", "clone", "-q", str(demo_project), str(clone)], check=True)
    scanned = ktx("scan", "--project-dir", str(clone), "--json")
    error = scanned.envelope["error"]
    assert scanned.code == 4 and "warehouse.duckdb does not exist" in error["message"]
    assert "if git ignores the file, copy it into this clone" in error["hint"], error
    (command,) = re.findall("To create it in a clone, run: (.*)", (clone / ".gitignore").read_text())
    path = f"{KTX.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-c", command], cwd=clone, env={**os.environ, "PATH": path}, check=True, capture_output=True)
    scanned = ktx("scan", "--project-dir", str(clone), "--json")
    assert scanned.code == 0 and "nothing changed" in scanned.data["connections"][0]["result"], scanned.out
