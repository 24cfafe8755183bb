"""`ktx doctor` beside its matrix: what it mends, how it prints, and its findings where nothing can be checked."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ktx_cli.cli import findings as checking
from ktx_cli.core.diagnostics import AND, Command, Hint, Location
from ktx_cli.jobs.health import doctor
from ktx_cli.jobs.health.doctor import CHECKS
from ktx_cli.jobs.health.model import CheckResult, Concern, Level
from ktx_cli.project.layout import Layout
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.codex_session import codex_offline
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.codex.conftest import needs_codex
from tests.worlds.fake_claude import FakeClaude

Run = Callable[..., Any]
Git = Callable[..., str]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the checks find something."""

    def find(*findings: CheckResult) -> None:
        answers = {each.check.partition(":")[0]: [] for each in findings}
        for each in findings:
            answers[each.check.partition(":")[0]].append(each)
        monkeypatch.setattr(doctor, "examine", lambda *args, **given: doctor.Diagnosis(answers, project_dir=args[0]))

    return find


def test_every_check_is_listed_and_may_be_asked_for_alone(ktx: Run, project: Path) -> None:
    listed = ktx("doctor", "--list", "--json").data["checks"]
    assert [each["id"] for each in listed] == [check.id for check in CHECKS]
    assert all(each["title"] for each in listed)
    for each in listed:
        answer = ktx("doctor", "--only", each["id"], "--json")
        assert {finding["id"] for finding in answer.data["findings"]} == {each["id"]}


def test_the_list_needs_no_project(ktx: Run, work: Path) -> None:
    assert ktx("doctor", "--list").out.startswith("check\tdescription\n")


@pytest.mark.parametrize(
    ("findings", "plain", "strict"),
    [
        ([], 0, 0),
        ([CheckResult("a", Level.OK, "x"), CheckResult("b", Level.SKIP, "x")], 0, 0),
        ([CheckResult("a", Level.WARN, "x", "ktx a")], 0, 1),
        ([CheckResult("a", Level.FAIL, "x", "ktx a", Concern.SETUP)], 3, 3),
        ([CheckResult("a", Level.FAIL, "x", "ktx a", Concern.AUTH)], 3, 3),
        ([CheckResult("a", Level.FAIL, "x", "ktx a", Concern.AUTH), CheckResult("b", Level.WARN, "x")], 3, 1),
        ([CheckResult("a", Level.FAIL, "x", "ktx a", Concern.AUTH), CheckResult("b", Level.FAIL, "x")], 1, 1),
    ],
)
def test_exit_codes(
    ktx: Run, project: Path, found: Callable[..., None], findings: list[CheckResult], plain: int, strict: int
) -> None:
    found(*findings)
    assert (ktx("doctor").code, ktx("doctor", "--strict").code) == (plain, strict)


LONG = "a role that could write, though not in the sessions of ktx, which are read-only whatever the role may do"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_breaks_messages_and_no_fix(
    ktx: Run, project: Path, found: Callable[..., None], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    words = ("config set connections.warehouse.username ktx_reader", "connection test warehouse", "ingest")
    fix = Hint.steps(*(Command(*each.split()) for each in words), between=AND)
    found(CheckResult("git", Level.OK, "git 2.39.5"), CheckResult("connection:warehouse", Level.WARN, LONG, fix))
    monkeypatch.setattr(checking, "terminal_width", lambda: columns)
    monkeypatch.setattr("ktx_cli.cli.settings.Settings.pretty", property(lambda self: True))
    lines = ktx("doctor").out.splitlines()
    assert lines[0].split() == ["ok", "git", "git", "2.39.5"]
    assert f"      fix: {fix}" in lines
    told = [line for line in lines if "fix: " not in line]
    assert max(map(len, told)) <= columns
    assert " ".join(" ".join(told[1:-1]).split()) == f"warn connection:warehouse {LONG}"
    assert len({len(line) - len(line.lstrip()) for line in told[2:-1]}) == 1, "they begin below one another"
    assert lines[-1] == "1 ok, 1 warn"


def test_a_dumb_pipe_gets_a_line_a_finding(ktx: Run, project: Path, found: Callable[..., None]) -> None:
    found(CheckResult("git", Level.OK, "git 2.39.5"), CheckResult("lock", Level.WARN, f"{LONG}\n{LONG}", "ktx index"))
    assert ktx("doctor").out.splitlines() == [
        "ok    git   git 2.39.5",
        f"warn  lock  {LONG} {LONG}",
        "      fix: ktx index",
        "1 ok, 1 warn",
    ]


def test_junit_has_a_test_case_for_each_finding(ktx: Run, project: Path, found: Callable[..., None]) -> None:
    found(
        CheckResult("git", Level.OK, "git 2.39.5"),
        CheckResult("wiki", Level.WARN, "a <b> & \x00 c", "edit it"),
        CheckResult("wiki", Level.WARN, "d"),
        CheckResult("probe:x", Level.SKIP, "nothing"),
        CheckResult("lock", Level.FAIL, "gone", "ktx index"),
    )

    def outcomes() -> dict[str | None, list[tuple[str, str | None]]]:
        cases = ElementTree.parse(project / "report.xml").iter("testcase")
        return {case.get("name"): [(each.tag, each.get("message")) for each in case] for case in cases}

    assert ktx("doctor", "--junit", "report.xml").code == 1
    first = outcomes()
    assert first == {
        "git": [],
        "wiki": [("skipped", "warn: a <b> & c")],
        "wiki #2": [("skipped", "warn: d")],
        "probe:x": [("skipped", "skip: nothing")],
        "lock": [("failure", "fail: gone")],
    }
    assert ktx("doctor", "--strict", "--junit", "report.xml").code == 1
    assert [kind for kind, found in outcomes().items() if found[:1] and found[0][0] == "failure"] == [
        *("wiki", "wiki #2", "lock")
    ]
    assert ktx("doctor", "--junit", ".ktx", "--json").envelope["error"]["code"] == "storage"


def test_a_result_about_a_line_of_a_file_begins_with_it(ktx: Run, project: Path, found: Callable[..., None]) -> None:
    found(
        CheckResult("config", Level.WARN, "a password", location=Location("ktx.yaml", 7)),
        CheckResult("wiki", Level.WARN, "wiki/a.md:3: broken", location=Location("wiki/a.md", 3)),
        CheckResult("decisions", Level.WARN, "1 open", location=Location("decisions.yaml")),
    )
    assert ktx("doctor").out.splitlines()[:3] == [
        "warn  config     ktx.yaml:7: a password",
        "warn  wiki       wiki/a.md:3: broken",
        "warn  decisions  1 open",
    ]


def test_annotations_are_escaped_and_name_files_from_the_top_of_the_repository(
    ktx: Run, work: Path, project: Path, git: Git, found: Callable[..., None]
) -> None:
    found(
        CheckResult("git", Level.OK, "::error::no"),
        CheckResult(
            "wiki", Level.WARN, "100% of: it\n::error::x", "edit a%b", location=Location("wiki/global/a.md", 3)
        ),
        CheckResult("lock", Level.FAIL, "gone"),
    )
    answer = ktx("doctor", "--github")
    assert answer.out.splitlines() == [
        "ok    git   ::error::no",
        "1 ok, 1 warn, 1 fail",
        "::warning file=wiki/global/a.md,line=3,title=ktx doctor%3A wiki::100%25 of: it ::error::x%0Afix: edit a%25b",
        "::error title=ktx doctor%3A lock::gone",
    ]
    both = ktx("doctor", "--github", "--json")
    assert both.data["counts"] == {"ok": 1, "warn": 1, "fail": 1, "skip": 0}
    assert both.err.splitlines() == answer.out.splitlines()[2:], "stdout is the envelope's alone"


def test_a_fix_is_wrapped_between_words_and_a_command_is_not(
    ktx: Run, project: Path, found: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "available: addresses, calendar, categories, customer_value, customers, days, employees and 15 more"
    command = Command("config", "set", "connections.warehouse.path", "/srv/" + "x" * 60)
    found(CheckResult("semantic", Level.FAIL, "wrong", sentence), CheckResult("config", Level.FAIL, "gone", command))
    monkeypatch.setattr(checking, "terminal_width", lambda: 80)
    with monkeypatch.context() as patch:
        patch.setattr("ktx_cli.cli.settings.Settings.pretty", True)
        lines = ktx("doctor").out.splitlines()
    assert [line for line in lines if len(line) > 80] == [f"      fix: {command}"]
    assert lines[1:3] == [
        "      fix: available: addresses, calendar, categories, customer_value,",
        "        customers, days, employees and 15 more",
    ]


def test_a_check_that_fails_twice_is_one_failed_check(ktx: Run, project: Path, found: Callable[..., None]) -> None:
    found(*(CheckResult(name, Level.FAIL, "x") for name in ("semantic", "semantic", "config")))
    assert "error: 2 checks failed: semantic, config\n" in ktx("doctor").err


def test_a_project_in_a_folder_of_a_repository(
    ktx: Run, work: Path, found: Callable[..., None], git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "data").mkdir()
    git(work, "init", "-q")
    (work / "data" / "ktx.yaml").write_text("connections: {}\n")
    found(CheckResult("wiki", Level.WARN, "x", location=Location("wiki/global/a.md", 3)))
    assert "::warning file=data/wiki/global/a.md,line=3," in ktx("doctor", "--github", "--project-dir", "data").out


@pytest.mark.parametrize(
    ("text", "code", "check"), [(None, 3, "project"), ("connections: [", 2, "config"), ("- a\n", 2, "config")]
)
def test_nothing_to_check_is_told_in_every_format(
    ktx: Run, work: Path, text: str | None, code: int, check: str
) -> None:
    if text is not None:
        (work / "ktx.yaml").write_text(text)
    answer = ktx("doctor", "--json", "--junit", "report.xml", "--github")
    error = answer.envelope["error"]
    assert answer.code == code
    (finding,) = [each for each in answer.data["findings"] if each["check"] == check]
    assert (finding["level"], finding["message"]) == ("fail", error["message"])
    machine = {each["check"] for each in answer.data["findings"]} - {check}
    assert machine == ({"python", "sqlite", "git"} if text else set())
    (case,) = [each for each in ElementTree.parse(work / "report.xml").iter("testcase") if each.get("name") == check]
    assert case.find("failure") is not None
    assert f"title=ktx doctor%3A {check}::" in answer.err
    shown = ktx("doctor")
    assert (shown.code, f"fail  {check}" in shown.out) == (code, True)


def test_the_installed_program_ends_with_the_code_of_what_it_found(installed: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text("connections: [\n")
    answer = installed("doctor", "--github")
    assert answer.code == 2
    assert [line for line in answer.out.splitlines() if line.startswith("::error file=ktx.yaml,line=")]
    assert answer.err.startswith("error: ")


# -- --fix -----------------------------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {".ktx", ".git"} & set(path.relative_to(folder).parts)
    }


def test_fix_mends_what_needs_no_decision_and_touches_nothing_else(ktx: Run, ingested: Path) -> None:
    page = ingested / "wiki" / "global" / "a.md"
    page.parent.mkdir(parents=True)
    page.write_text("---\nsummary: A\nrefs: [nowhere]\n---\n\n# A\n")
    (ingested / ".ktx").chmod(0o755)
    with sqlite3.connect(ingested / ".ktx" / "state.sqlite") as state:
        state.execute("INSERT INTO leases VALUES ('run', 'r', 'ktx ingest', 4194000, '1', 'e', 'e', 0, 0)")
    state.close()
    Layout(ingested).mcp_state.write_text("{}")
    before = tree(ingested)
    answer = ktx("doctor", "--fix", "--json")
    repaired = {each["check"]: each["done"] for each in answer.data["repaired"]}
    assert repaired == {"index": True, "state": True, "lock": True, "mcp": True}
    assert {each["check"] for each in answer.data["findings"] if each["level"] == "warn"} == {"wiki"}
    assert (answer.code, tree(ingested)) == (0, before)
    again = ktx("doctor", "--fix", "--json")
    assert again.data["repaired"] == []


def test_a_damaged_state_database_makes_place_for_a_new_one(ktx: Run, project: Path) -> None:
    (project / ".ktx" / "state.sqlite").write_bytes(b"no database" * 1000)
    answer = ktx("doctor", "--only", "lock", "--json")
    (finding,) = answer.data["findings"]
    assert (answer.code, finding["level"], finding["fixable"]) == (1, "fail", True)
    mended = ktx(*finding["hint"].split()[1:], "--json")
    assert (mended.code, mended.data["counts"]["ok"]) == (0, 1)
    assert "damaged" in mended.data["repaired"][0]["message"]
    assert list((project / ".ktx").glob("state.sqlite.damaged-*")), "it is kept"


def test_warnings_of_the_configuration_say_where(ktx: Run, project: Path) -> None:
    with (project / "ktx.yaml").open("a") as config:
        config.write("scann: {}\nfoo: 1\n")
    found = ktx("doctor", "--only", "config", "--json").data["findings"]
    lines = (project / "ktx.yaml").read_text().splitlines()
    assert [(each["file"], lines[each["line"] - 1]) for each in found] == [
        ("ktx.yaml", "scann: {}"),
        ("ktx.yaml", "foo: 1"),
    ]
    assert found[0]["hint"] == f"in ktx.yaml line {found[0]['line']}: did you mean `scan`?"
    assert found[1]["hint"].startswith(f"in ktx.yaml line {found[1]['line']}: remove it; known settings: ")


def test_the_missing_key_of_a_backend_is_no_more_than_setup(ktx: Run, project: Path) -> None:
    llm = (
        "llm:\n  provider: {backend: anthropic, anthropic: {api_key: 'env:NOT_SET_ANYWHERE'}}\n  models: {default: m}\n"
    )
    (project / "ktx.yaml").write_text(f"{llm}connections: {{}}\n")
    answer = ktx("doctor", "--only", "llm", "--only", "probe", "--json")
    assert answer.code == 3
    assert {each["hint"] for each in answer.data["findings"]} == {"export NOT_SET_ANYWHERE=..."}


def test_what_cannot_be_mended_says_why(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, found: Callable[..., None]
) -> None:
    from ktx_cli.core.errors import BusyError
    from ktx_cli.jobs import index

    def busy(*args: Any, **given: Any) -> None:
        raise BusyError("`ktx ingest` is at work", hint="later")

    ktx("ingest")
    (project / "wiki" / "global").mkdir(parents=True)
    (project / "wiki" / "global" / "a.md").write_text("---\nsummary: A\n---\n")
    monkeypatch.setattr(index, "index_project", busy)
    answer = ktx("doctor", "--fix", "--only", "index")
    assert answer.out.splitlines()[0] == "left  index  `ktx ingest` is at work"
    assert answer.out.splitlines()[1].startswith("warn  index  the search index is behind by 1 file")


def test_the_users_own_changes_to_agent_files_are_no_matter_of_fix(ktx: Run, project: Path) -> None:
    assert ktx("agents", "install", "--target", "cursor", "--scope", "user").code == 0
    skills = json.loads(Layout(project).agents_manifest.read_text())["installs"][0]["skills"]
    mine = Path(next(iter(skills)))
    mine.write_text("mine")
    answer = ktx("doctor", "--fix", "--only", "agents", "--json")
    (finding,) = answer.data["findings"]
    assert (finding["level"], finding["fixable"], answer.data["repaired"]) == ("warn", False, [])
    assert "was edited" in finding["message"]
    assert mine.read_text() == "mine"


def test_which_project_a_client_serves_is_no_matter_of_fix(ktx: Run, project: Path) -> None:
    """A manifest could have come with a repository: it must not turn the user's own entry to this project."""
    assert ktx("agents", "install", "--target", "cursor", "--scope", "user").code == 0
    moved = project.with_name("moved")
    project.rename(moved)
    given = ("--project-dir", str(moved), "--json")
    answer = ktx("doctor", "--fix", "--only", "agents", *given)
    (finding,) = answer.data["findings"]
    assert (finding["level"], finding["fixable"], answer.data["repaired"]) == ("warn", False, [])
    assert f"it serves {project}, but this project is {moved}" in finding["message"]
    assert finding["hint"].endswith("--target cursor --scope user")


def test_a_program_that_is_not_on_path_is_put_there_by_the_fix(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert ktx("agents", "install", "--target", "cursor", "--scope", "project").code == 0
    (finding,) = ktx("doctor", "--only", "agents", "--json").data["findings"]
    assert finding["message"] == "the program `ktx` is not on PATH"
    done = subprocess.run(["sh", "-c", f"{finding['hint']}\necho $PATH"], capture_output=True, text=True, check=True)
    monkeypatch.setenv("PATH", done.stdout.strip())
    assert ktx("doctor", "--only", "agents", "--json").data["findings"][0]["level"] == "ok"


def test_findings_of_the_same_check_are_mended_once(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    done: list[int] = []

    def repair() -> str:
        done.append(1)
        return "done"

    broken = CheckResult("index", Level.WARN, "a", "ktx index", repair=repair)

    def check(context: Any) -> list[CheckResult]:
        return [CheckResult("index", Level.OK, "well")] if done else [broken, dataclasses.replace(broken, message="b")]

    (index,) = [each for each in CHECKS if each.id == "index"]
    monkeypatch.setattr(doctor, "CHECKS", (dataclasses.replace(index, run=check),))
    result = doctor.examine(project, {}, fix=True)
    assert (len(done), [each.message for each in result.findings]) == (1, ["well"])


# -- the local Claude Code session -----------------------------------------------------------------------------

CLAUDE = "llm:\n  provider: {backend: claude-code}\n  models: {default: sonnet}\nconnections: {}\n"
ENDS = ({"text": "ok"}, {"result": {}})
CANARY = "sk-ant-api03-canary"


def test_the_probe_of_a_session_says_how_it_was_isolated(
    ktx: Run, work: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "ktx.yaml").write_text(CLAUDE)
    model_server.play(lambda request: says("ok"))
    for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with offline_session(model_server, extra={"ANTHROPIC_API_KEY": CANARY, "OF_NOBODY": "x"}) as session:
        for name, value in session.environ.items():
            monkeypatch.setenv(name, value)
        answer = ktx("doctor", "--only", "probe", "--only", "llm", "--only", "claude", "--json")
    findings = {each["check"]: each for each in answer.data["findings"]}
    assert {name: each["level"] for name, each in findings.items()} == {
        "llm": "ok",
        "claude": "ok",
        "probe:claude-code:sonnet": "ok",
        "isolation:claude-code:sonnet": "ok",
    }, answer
    told = findings["isolation:claude-code:sonnet"]["message"]
    assert told.startswith("tools: none; mcp servers: none; plugins: none; foreign hooks: none; its launcher dropped ")
    assert "ANTHROPIC_API_KEY" in told, "by its name"
    assert "ANTHROPIC_API_KEY" in findings["claude"]["message"]
    assert CANARY not in answer.out + answer.err


CODEX = "llm:\n  provider: {backend: codex}\n  models: {default: gpt-6.1-sol}\nconnections: {}\n"


@needs_codex
def test_the_probe_of_codex_says_how_it_was_isolated(
    ktx: Run, work: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "ktx.yaml").write_text(CODEX)
    model_server.play(lambda request: says("ok"))
    with codex_offline(model_server, extra={"OPENAI_API_KEY": CANARY, "OF_NOBODY": "x"}) as session:
        for name, value in session.environ.items():
            monkeypatch.setenv(name, value)
        answer = ktx("doctor", "--only", "probe", "--only", "llm", "--only", "codex", "--json")
    findings = {each["check"]: each for each in answer.data["findings"]}
    assert {name: each["level"] for name, each in findings.items()} == {
        "llm": "ok",
        "codex": "ok",
        "probe:codex:gpt-6.1-sol": "ok",
        "isolation:codex:gpt-6.1-sol": "ok",
    }, answer
    told = findings["isolation:codex:gpt-6.1-sol"]["message"]
    assert told.startswith("tools: none; mcp servers: none; plugins: none; foreign hooks: none; ")
    assert told.endswith("removed from its environment")
    assert findings["codex"]["message"].startswith("codex 0.")
    assert CANARY not in answer.out + answer.err


@pytest.mark.skipif(sys.platform == "win32", reason="the files are in /etc")
def test_settings_of_the_machine_fail_for_codex(
    ktx: Run, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "ktx.yaml").write_text(CODEX)
    script = 'case "$1" in --version) echo "codex-cli 0.169.0" ;; features) echo "memories stable true" ;; esac'
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    (tmp_path / "requirements.toml").touch()
    monkeypatch.setenv("KTX_CODEX_CLI_BIN", str(program))
    files = (tmp_path / "config.toml", tmp_path / "requirements.toml")
    monkeypatch.setattr("ktx_cli.llm.backends.codex.isolation.MACHINE_FILES", files)
    answer = ktx("doctor", "--only", "codex", "--json")
    (managed,) = [each for each in answer.data["findings"] if each["level"] == "fail"]
    assert answer.code == 3
    assert "requirements.toml" in managed["message"] and "config.toml" not in managed["message"]
    assert managed["hint"].endswith("ktx setup --llm-backend anthropic")


@pytest.fixture
def binary(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClaude:
    """A binary in the place of Claude Code, which a project uses."""
    (work / "ktx.yaml").write_text(CLAUDE)
    fake = FakeClaude(tmp_path / "binary")
    monkeypatch.setenv("KTX_CLAUDE_CLI_BIN", str(fake.path))
    return fake


@pytest.mark.parametrize(
    ("steps", "says_so"),
    [
        ([{"init": {"tools": ["Bash"]}}, {"text": "ok"}, {"result": {}}], "started with tools other than"),
        (
            [{"init": {"plugins": [{"name": "p", "path": "/p"}]}}, {"text": "ok"}, {"result": {}}],
            "started with plugins",
        ),
    ],
    ids=["tools", "plugins"],
)
def test_a_process_that_is_not_isolated_fails(
    ktx: Run, binary: FakeClaude, steps: list[dict[str, Any]], says_so: str
) -> None:
    binary.play(steps=steps)
    answer = ktx("doctor", "--only", "probe", "--json")
    (finding,) = answer.data["findings"]
    assert (answer.code, finding["level"], finding["concern"]) == (3, "fail", "auth")
    assert says_so in finding["message"]
    assert finding["hint"].endswith("-m pip install --force-reinstall claude-agent-sdk")


def test_managed_files_fail_until_they_are_accepted(
    ktx: Run, binary: FakeClaude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "remote-settings.json").write_text('{"settings": {"hooks": {"Stop": []}}}')
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    answer = ktx("doctor", "--only", "claude", "--json")
    (managed,) = [each for each in answer.data["findings"] if each["level"] == "fail"]
    assert answer.code == 3
    assert "remote-settings.json" in managed["message"]
    assert managed["hint"] == "ktx config set llm.provider.claude.allow_managed_policy true"
    assert ktx(*managed["hint"].split()[1:]).code == 0
    assert ktx("doctor", "--only", "claude", "--json").data["counts"] == {"ok": 1, "warn": 1, "fail": 0, "skip": 0}


def test_a_binary_that_is_not_there_is_named_with_what_names_it(
    ktx: Run, binary: FakeClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTX_CLAUDE_CLI_BIN", str(binary.folder / "gone"))
    answer = ktx("doctor", "--only", "claude", "--json")
    (finding,) = answer.data["findings"]
    assert (answer.code, finding["hint"]) == (3, "unset KTX_CLAUDE_CLI_BIN")
