"""One setup makes one commit, on the branch it is asked for, and names what it wrote outside of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from tests.cli.conftest import SQLITE

Run = Callable[..., Any]
Git = Callable[..., str]


def subjects(git: Git, folder: Path, ref: str = "HEAD") -> list[str]:
    return git(folder, "log", "--format=%s", ref).splitlines()


def test_settings_and_context_are_one_commit_that_says_what_was_set_up(ktx: Run, shop: Path, git: Git) -> None:
    answer = ktx("setup", *SQLITE, "--build", "structure", "--agents", "claude-code", "--json")
    assert answer.code == 0
    assert subjects(git, shop.parent) == ["Set up ktx: connection warehouse"]
    body = git(shop.parent, "log", "-1", "--format=%b")
    assert "connection warehouse: sqlite" in body and "3 added" in body and "Ktx-Run: " in body
    names = git(shop.parent, "show", "--name-only", "--format=").splitlines()
    assert "ktx.yaml" in names and any(name.startswith("semantic-layer/warehouse/_schema/") for name in names)
    assert git(shop.parent, "rev-parse", "HEAD").strip() == answer.data["commit"]
    written = {Path(path).relative_to(shop.parent).as_posix() for path in answer.data["uncommitted"]}
    assert ".mcp.json" in written and any(path.startswith(".claude/") for path in written)
    untracked = git(shop.parent, "status", "--porcelain", "-uall", "--", ":!shop.sqlite").splitlines()
    assert {line.removeprefix("?? ") for line in untracked} == written


def test_a_later_setup_is_a_commit_of_its_own(ktx: Run, project: Path, git: Git) -> None:
    assert ktx("setup", *SQLITE, "--database-connection-id", "second", "--no-input").code == 0
    assert subjects(git, project) == ["Change the setup of ktx: connection second", "Set up ktx: connection warehouse"]
    assert ktx("setup", *SQLITE).code == 0
    assert len(subjects(git, project)) == 2, "nothing changed"


def test_the_commit_of_somebody_else_in_between_stays(ktx: Run, project: Path, git: Git) -> None:
    from ktx_cli.project import Repository

    (project / "notes.md").write_text("mine\n")
    git(project, "add", "notes.md")
    first = git(project, "rev-parse", "HEAD").strip()
    git(project, "commit", "-qm", "mine")
    repository = Repository.discover(project)
    assert repository is not None
    base = repository.head().commit
    result = repository.commit({"wiki/global/a.md": b"# A\n"}, message="ktx: later", base=base, amends=first)
    assert git(project, "rev-parse", "HEAD", "HEAD^").split() == [result.commit, base]


def test_setup_on_a_branch_changes_nothing_here(ktx: Run, shop: Path, git: Git) -> None:
    git(shop.parent, "init", "-q", "-b", "main")
    git(shop.parent, "commit", "-q", "--allow-empty", "-m", "first")
    answer = ktx("setup", *SQLITE, "--build", "structure", "--branch", "ktx/setup", "--json")
    assert (answer.code, answer.data["branch"]) == (0, "ktx/setup")
    assert subjects(git, shop.parent, "ktx/setup") == ["Set up ktx: connection warehouse", "first"]
    assert subjects(git, shop.parent) == ["first"] and not (shop.parent / "ktx.yaml").exists()
    assert git(shop.parent, "status", "--porcelain").splitlines() == ["?? shop.sqlite"]
    more = ktx("setup", *SQLITE, "--database-connection-id", "second", "--branch", "ktx/setup", "--json")
    assert more.code == 0 and more.data["next"] == f"git -C {shop.parent} switch ktx/setup"
    shown = git(shop.parent, "show", "ktx/setup:ktx.yaml")
    assert "warehouse:" in shown and "second:" in shown
    git(shop.parent, "switch", "-q", "ktx/setup")
    assert ktx("scan", "warehouse", "--depth", "structural", "--json").data["status"] == "unchanged"


def test_without_a_commit_everything_is_in_the_working_files(ktx: Run, shop: Path, git: Git) -> None:
    git(shop.parent, "init", "-q", "-b", "main")
    git(shop.parent, "commit", "-q", "--allow-empty", "-m", "first")
    answer = ktx("setup", *SQLITE, "--build", "structure", "--no-commit", "--json")
    assert (answer.code, answer.data["commit"]) == (0, None)
    assert not [each for each in answer.envelope["warnings"] if each["code"] == "config_not_committed"]
    assert subjects(git, shop.parent) == ["first"] and (shop.parent / "ktx.yaml").exists()
    assert list((shop.parent / "semantic-layer/warehouse/_schema").rglob("*.yaml"))
    assert git(shop.parent, "diff", "--cached", "--name-only") == ""


def test_a_branch_needs_its_answers_as_flags(ktx: Run, shop: Path) -> None:
    both = ktx("setup", *SQLITE, "--branch", "x", "--no-commit")
    assert both.code == 2 and "cannot be used together" in both.err


def test_a_database_with_the_marts_of_a_dbt_project_gets_a_hint_to_read_those_alone(ktx: Run, work: Path) -> None:
    with duckdb.connect(str(work / "shop.duckdb")) as database:
        database.execute("CREATE SCHEMA main_marts; CREATE TABLE main_marts.orders (id int); CREATE TABLE raw (id int)")
    (work / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {marts: {+schema: marts}}}\n")
    words = ("--no-input", "--database", "duckdb", "--database-path", "shop.duckdb", "--build", "structure", "--json")
    (warning,) = [each for each in ktx("setup", *words).envelope["warnings"] if each["code"] == "marts_found"]
    assert "`warehouse` reads 2 schemas; the dbt project has its marts in main_marts" in warning["message"]
    assert ktx(*shlex.split(warning["hint"])[1:]).code == 0
    assert "main_marts.*" in (work / "ktx.yaml").read_text()
    assert ktx("ingest", "--json").data["connections"][0]["tables"] == 1
    assert "marts_found" not in ktx("setup", *words).out
