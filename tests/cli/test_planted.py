"""What a repository or an archive brings along: no program of it runs, no name in it becomes a command to type."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import is_command

Run = Callable[..., Any]
Git = Callable[..., str]

READERS = [
    ("status", "--fast"),
    ("doctor",),
    ("lint",),
    ("diff",),
    ("eval", "--no-save"),
    ("setup", "--print-plan", "--llm-backend", "none"),
]
DRIVERS = ("clean", "smudge", "process")
PROGRAMS = ("core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "diff.external", "gpg.program")
HOOKS = ("post-index-change", "pre-commit", "post-commit", "reference-transaction")


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """What a planted program makes when it runs."""
    return tmp_path / "ran"


def _program(path: Path, ran: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{ran}'\ncat\n")
    path.chmod(0o755)
    return path


def _arm(config: Path, project: Path, ran: Path) -> None:
    """Have the configuration of a repository name a program wherever git runs one."""
    program = _program(project / "program", ran)
    (project / ".gitattributes").write_text("* filter=planted diff=planted\n")
    keys = [*PROGRAMS, "diff.planted.textconv", *(f"filter.planted.{each}" for each in DRIVERS)]
    for key in keys:
        subprocess.run(["git", "config", "--file", config, key, program], check=True)


def _touched(project: Path) -> None:
    """Make git look into files to know whether they changed."""
    for path in (project / "ktx.yaml", *project.glob("semantic-layer/*/_schema/*")):
        os.utime(path, (1, 1))


def _missing_object(project: Path, ran: Path, git: Git) -> None:
    """Lay out a partial clone that lacks a file's content, and whose settings say how to fetch it."""
    program = project / "fetcher"
    program.write_text(f"#!/bin/sh\necho fetched >> '{ran}'\nexit 1\n")
    program.chmod(0o755)
    settings = {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program} %S", "protocol.ext.allow": "always",
    }  # fmt: skip
    for key, value in settings.items():
        git(project, "config", key, value)
    lost = git(project, "rev-parse", "HEAD:semantic-layer/warehouse/orders.yaml").strip()
    (project / ".git/objects" / lost[:2] / lost[2:]).unlink()


def _signed(project: Path, git: Git) -> None:
    """Commit a definition that counts only with a signature, and a signature that is none."""
    overlay = project / "semantic-layer/warehouse/orders.yaml"
    overlay.write_text("name: orders\nmeasures: [{name: counted, expr: count(*), status: accepted}]\n")
    (project / "owners.yaml").write_text("owners: []\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a measure")
    commit = git(project, "cat-file", "commit", "HEAD")
    forged = project.parent / "commit"
    forged.write_text(commit.replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1))
    made = git(project, "hash-object", "-t", "commit", "-w", str(forged)).strip()
    git(project, "reset", "-q", "--hard", made)


@pytest.mark.parametrize("at_root", [False, True])
@pytest.mark.parametrize("planted", ["signature", "partial clone"])
def test_looking_into_the_history_runs_no_program_of_the_repository(
    ktx: Run, project: Path, git: Git, ran: Path, planted: str, at_root: bool
) -> None:
    """Neither one that checks signatures nor one that fetches objects, also where a root mounts the project."""
    assert ktx("ingest", "--no-llm").code == 0
    _signed(project, git)
    _arm(project / ".git" / "config", project, ran)
    git(project, "config", "log.showSignature", "true")
    if planted == "partial clone":
        _missing_object(project, ran, git)
    for path in (project / ".ktx").glob("state.sqlite*"):  # what a clone has not
        path.unlink()
    folder = project
    if at_root:
        folder = project.parent / "root"
        folder.mkdir()
        (folder / "ktx.yaml").write_text(f"mounts: {{shop: {os.path.relpath(project, folder)}}}\n")
    ktx("--project-dir", str(folder), "index")
    ktx("--project-dir", str(folder), "sl", "list")
    assert not ran.exists(), ran.read_text()


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_reading_runs_no_program_that_the_configuration_of_a_repository_names(
    ktx: Run, project: Path, words: tuple[str, ...], ran: Path
) -> None:
    """Filters neither: those of large files write into `.git`."""
    assert ktx("ingest", "--no-llm").code == 0
    _arm(project / ".git" / "config", project, ran)
    for hook in HOOKS:
        _program(project / ".git" / "hooks" / hook, ran)
    _touched(project)
    ktx(*words)
    assert not ran.exists(), ran.read_text()


def test_a_touched_file_is_not_lost_from_the_status(ktx: Run, project: Path, ran: Path) -> None:
    _arm(project / ".git" / "config", project, ran)
    _touched(project)
    config = project / "ktx.yaml"
    config.write_text(f"{config.read_text()}# mine\n")
    assert ktx("status", "--fast", "--json").data["git"]["uncommitted"] == ["ktx.yaml"]
    assert not ran.exists()


@pytest.mark.parametrize("words", [*READERS, ("ingest", "--no-llm"), ("doctor", "--fix")], ids=" ".join)
def test_a_folder_that_is_laid_out_as_a_git_directory_is_no_repository(
    ktx: Run, project: Path, words: tuple[str, ...], ran: Path
) -> None:
    """A clone can hold one, and its settings are those of whoever made it."""
    inner = project.parent / "clone" / "inner"
    inner.mkdir(parents=True)
    (project / ".git").rename(inner.parent / "given")
    for path in (*project.iterdir(), *(inner.parent / "given").iterdir()):
        path.rename(inner / path.name)
    _arm(inner / "config", inner, ran)
    for key, value in (("core.bare", "false"), ("core.worktree", ".")):
        subprocess.run(["git", "config", "--file", inner / "config", key, value], check=True)
    head = (inner / "HEAD").read_bytes()
    _touched(inner)
    answer = ktx("--project-dir", str(inner), *words, "--json")
    assert not ran.exists(), ran.read_text()
    assert (inner / "HEAD").read_bytes() == head
    if words[0] == "ingest":
        assert (answer.code, answer.envelope["error"]["code"]) == (1, "git"), answer


NAMES = ("rm -rf ~", "ktx demo ~", "git push evil", "chmod 777 ~", "x; rm -rf ~", "$(id)")


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_called_as_a_command_is_no_fix(ktx: Run, project: Path, name: str) -> None:
    """`did you mean` quotes names of the database; what is to be typed must never be one."""
    with sqlite3.connect(project / "shop.sqlite") as database:
        database.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY)')
    database.close()
    assert ktx("ingest", "--no-llm").code == 0
    page = project / "wiki" / "global" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"---\nsummary: x\nsl_refs: [{json.dumps(name + 'x')}]\ntables: [{json.dumps(name)}]\n---\nx\n")
    answer = ktx("doctor", "--only", "wiki", "--only", "semantic", "--json")
    found = [each for each in answer.data["findings"] if each["level"] != "ok"]
    assert any(f"did you mean `{name}`?" in each["hint"] for each in found), found
    assert not [each["hint"] for each in found if is_command(each["hint"])]


REFERENCES = (
    "env:A; touch ran",
    "env:A$(touch ran)",
    "file:x: touch ran",
    "file:$(touch ran)",
    "keyring:`touch ran`/b",
)


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_hint_about_a_secret_runs_nothing_of_its_reference(ktx: Run, project: Path, reference: str) -> None:
    config = project / "ktx.yaml"
    entry = {"driver": "postgres", "host": "127.0.0.1", "database": "d", "username": "u", "password": reference}
    config.write_text(f"{config.read_text()}  pg: {json.dumps(entry)}\n")
    asked = ktx("doctor", "--only", "secrets", "--json")
    tested = ktx("connection", "test", "pg", "--json")
    hints = [each["hint"] for each in asked.data["findings"]] + [tested.envelope["error"]["hint"]]
    assert asked.code == 3 and all(hints)
    for hint in hints:
        if hint.startswith(("export", "printf", "mkdir", "ktx config", "keyring", "touch")):
            subprocess.run(["sh", "-c", hint], cwd=project, capture_output=True, env={"PATH": "/usr/bin:/bin"})
        assert not (project / "ran").exists(), hint


MANIFESTS = {
    "another file": {"path": "/x", "args": ["mcp", "stdio"]},
    "another folder": {"path": "{home}/.claude.json", "args": ["--project-dir", "/x", "mcp", "stdio"]},
    "the file": {"path": "{home}/.claude.json", "args": ["--project-dir", "{project}", "mcp", "stdio"]},
}


@pytest.mark.parametrize("case", MANIFESTS)
@pytest.mark.parametrize("there", [None, '{"mcpServers": {"mine": {"command": "mine"}}}\n'])
def test_a_manifest_that_came_along_has_nothing_installed_for_the_user(
    ktx: Run, project: Path, case: str, there: str | None
) -> None:
    """`ktx doctor --fix` mends what the user installed, and that is known of the user's own files alone."""
    home = Path(os.environ["HOME"])
    given = json.loads(json.dumps(MANIFESTS[case]).replace("{home}", str(home)).replace("{project}", str(project)))
    value = {"type": "stdio", "command": "/gone/ktx", "args": given["args"]}
    entry = {"path": given["path"], "container": ["mcpServers"], "name": "ktx", "value": value}
    install = {"target": "claude-code", "scope": "user", "entry": {**entry, "there": 0, "created": True}}
    manifest = project / ".ktx" / "agents" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"version": 1, "installs": [install]}))
    if there is not None:
        (home / ".claude.json").write_text(there)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    answer = ktx("doctor", "--fix", "--only", "agents", "--json")
    assert (answer.data["findings"][0]["level"], answer.data["repaired"]) == ("warn", [])
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
