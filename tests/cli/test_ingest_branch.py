"""`--branch` and `--no-commit`: the result lands where it is asked for, and the next run starts from its own commit."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Git = Callable[..., str]
SHARD = "semantic-layer/warehouse/_schema/main.yaml"
METRICS = "dbt/models/marts/metrics.yml"
OVERLAY = "semantic-layer/warehouse/customer_value.yaml"


def add_table(project: Path, name: str) -> None:
    with sqlite3.connect(project / "shop.sqlite") as database:
        database.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY)')
    database.close()


def status(git: Git, project: Path) -> str:
    return git(project, "status", "--porcelain", "--", ":!shop.sqlite")


@pytest.mark.parametrize("command", ["ingest", "scan"])
def test_the_commit_lands_on_the_branch_and_runs_on_either_start_from_their_own_commit(
    ktx: Run, ingested: Path, git: Git, command: str
) -> None:
    main = git(ingested, "rev-parse", "main").strip()
    (ingested / SHARD).write_text((ingested / SHARD).read_text() + "# mine\n")
    dirty = status(git, ingested)
    add_table(ingested, "extra")
    done = ktx(command, "--branch", "ktx/update", "--json")
    assert (done.code, done.data["status"], done.data["held"]) == (0, "done", []), "an edit of another branch"
    assert (done.data["branch"], done.data["named_branch"]) == ("refs/heads/ktx/update", "ktx/update")
    assert git(ingested, "rev-parse", "ktx/update", "ktx/update^").split() == [done.data["commit"], main]
    assert "extra" in git(ingested, "show", f"ktx/update:{SHARD}")
    assert git(ingested, "rev-parse", "main").strip() == main and status(git, ingested) == dirty
    shown = ktx("runs", "show", "latest").out
    assert "branch: ktx/update" in shown and done.data["commit"] in shown
    again = ktx(command, "--branch", "ktx/update", "--json")
    assert (again.code, again.data["status"], again.data["commit"]) == (0, "unchanged", None)
    git(ingested, "checkout", "-q", "--", SHARD)
    here = ktx(command, "--json")
    assert (here.code, here.data["status"]) == (0, "done"), "what the branch has is not on main yet"
    assert git(ingested, "rev-parse", "main", "main^").split() == [here.data["commit"], main]
    assert git(ingested, "diff", "--name-only", "main", "ktx/update", "--", "semantic-layer", "wiki") == ""
    assert ktx(command, "--json").data["status"] == "unchanged"


def test_a_branch_that_main_has_merged_begins_again_at_main(ktx: Run, ingested: Path, git: Git) -> None:
    add_table(ingested, "extra")
    assert ktx("ingest", "--branch", "ktx/update").code == 0
    git(ingested, "merge", "-q", "--ff-only", "ktx/update")
    (ingested / "notes.md").write_text("x\n")
    git(ingested, "add", "notes.md")
    git(ingested, "commit", "-qm", "notes")
    assert ktx("ingest", "--branch", "ktx/update", "--json").data["status"] == "unchanged"
    add_table(ingested, "more")
    done = ktx("ingest", "--branch", "ktx/update", "--json").data
    assert git(ingested, "rev-parse", "ktx/update^").strip() == git(ingested, "rev-parse", "main").strip()
    assert done["files"]["written"] and git(ingested, "log", "--format=%s", "-1", "ktx/update").startswith("ktx ingest")


def test_a_detached_checkout_as_in_ci_commits_to_a_branch(ktx: Run, ingested: Path, git: Git) -> None:
    git(ingested, "checkout", "-q", "--detach")
    add_table(ingested, "extra")
    assert ktx("ingest").code == 1
    answer = ktx("ingest", "--branch", "ktx/update")
    assert answer.code == 0 and "branch: ktx/update" in answer.out.replace("branch:     ", "branch: ")
    assert status(git, ingested) == "" and "extra" in git(ingested, "show", f"ktx/update:{SHARD}")


def test_a_metric_of_dbt_that_is_on_a_branch_is_projected_on_main_as_well(
    ktx: Run, work: Path, demo_project: Path, git: Git
) -> None:
    """Only a file of the source changed: its last projection is on the branch, and not on main."""
    project = Path(shutil.copytree(demo_project, work / "demo"))
    text = (project / METRICS).read_text()
    assert "Share of all accounts that is active." in text
    (project / METRICS).write_text(text.replace("Share of all accounts that is active.", "Part of all accounts."))
    git(project, "commit", "-qam", "dbt: reword")
    place = ("--project-dir", "demo", "--json")
    assert ktx("ingest", "dbt", "--branch", "ktx/update", *place).data["status"] == "done"
    assert "Part of all accounts." in git(project, "show", f"ktx/update:{OVERLAY}")
    assert "Part of all accounts." not in (project / OVERLAY).read_text()
    assert ktx("ingest", "dbt", *place).data["status"] == "done"
    assert "Part of all accounts." in (project / OVERLAY).read_text()


def test_without_a_commit_the_files_are_written_and_the_next_run_commits_them(
    ktx: Run, ingested: Path, git: Git
) -> None:
    head, index = git(ingested, "rev-parse", "HEAD"), git(ingested, "ls-files", "-s")
    add_table(ingested, "extra")
    done = ktx("ingest", "--no-commit", "--json")
    assert (done.code, done.data["status"], done.data["commit"], done.data["committed"]) == (0, "done", None, [])
    changed = sorted(line[3:] for line in status(git, ingested).splitlines())
    assert changed == sorted(done.data["uncommitted"]) == sorted(done.data["files"]["written"])
    assert (git(ingested, "rev-parse", "HEAD"), git(ingested, "ls-files", "-s")) == (head, index)
    assert ktx("sl", "read", "extra").code == 0, "what is in the working files counts"
    assert f"written: {len(changed)} files, not committed" in ktx("runs", "show", "latest").out
    again = ktx("ingest", "--no-commit", "--json").data
    assert (again["held"], again["uncommitted"]) == ([], done.data["uncommitted"])
    landed = ktx("ingest", "--json").data
    assert sorted(landed["committed"]) == changed and landed["held"] == []
    assert status(git, ingested) == ""


def test_without_a_commit_files_with_edits_are_skipped(ktx: Run, ingested: Path, git: Git) -> None:
    mine = (ingested / SHARD).read_text() + "# mine\n"
    (ingested / SHARD).write_text(mine)
    add_table(ingested, "extra")
    answer = ktx("ingest", "--no-commit", "--json")
    assert answer.code == 7 and (ingested / SHARD).read_text() == mine
    assert [each["path"] for each in answer.data["held"]] == [SHARD]
    assert "ktx ingest --no-commit" in answer.envelope["error"]["hint"]


def test_quiet_runs_print_nothing(ktx: Run, ingested: Path) -> None:
    for number, words in enumerate((("--branch", "ktx/update"), ("--no-commit",))):
        add_table(ingested, f"extra_{number}")
        answer = ktx("ingest", "-q", *words)
        assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_a_dry_run_starts_from_the_branch_and_writes_nothing(ktx: Run, ingested: Path, git: Git) -> None:
    add_table(ingested, "extra")
    assert ktx("ingest", "--branch", "ktx/update").code == 0
    refs = git(ingested, "for-each-ref")
    assert ktx("ingest", "--branch", "ktx/update", "--dry-run", "--json").data["status"] == "unchanged"
    assert ktx("ingest", "--branch", "other", "--dry-run", "--json").data["status"] == "planned"
    assert git(ingested, "for-each-ref") == refs and status(git, ingested) == ""


WRONG = {
    "both": ("--branch", "x", "--no-commit"),
    "a bad name": ("--branch", "a..b"),
    "a folder of a branch": ("--branch", "main/x"),
    "a text": ("--branch", "x", "--text", "Orders count when they are paid."),
    "a text without a commit": ("--no-commit", "--text", "Orders count when they are paid."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_before_anything_is_read(ktx: Run, ingested: Path, git: Git, name: str) -> None:
    refs = git(ingested, "for-each-ref")
    answer = ktx("ingest", *WRONG[name])
    assert answer.code == 2 and answer.err.startswith("error: ") and "hint: " in answer.err
    assert git(ingested, "for-each-ref") == refs


def test_a_branch_of_another_working_tree_is_refused(ktx: Run, ingested: Path, git: Git) -> None:
    git(ingested, "worktree", "add", "-q", "../second", "-b", "second")
    answer = ktx("ingest", "--branch", "second")
    assert answer.code == 2 and "is checked out in" in answer.err and "without --branch" in answer.err
