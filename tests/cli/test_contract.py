"""One contract for every registered command, in every mode, against everything that usually goes wrong."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ktx_cli.cli.app import app
from ktx_cli.cli.settings import COMMON_OPTIONS
from ktx_cli.core.errors import CancelledError
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.envelope import check_envelope
from tests.worlds.forks import Forks

Run = Callable[..., Any]

MODES = {
    "human": (),
    "json": ("--json",),
    "plain": ("--plain",),
    "quiet": ("--quiet",),
    "verbose": ("--verbose",),
    "jsonl": ("--progress", "jsonl"),
    "no-progress": ("--progress", "none"),
    "json-jsonl": ("--json", "--progress", "jsonl"),
    "no-input": ("--no-input",),
    "debug": ("--debug",),
}

ARGUMENTS = {
    "agents install": ("--target", "universal"),
    "sql": ("SELECT 1",),
    "mongo-query": ("orders", "[]"),
    "connection add": ("new", "--driver", "sqlite", "--path", "shop.sqlite"),
    "connection remove": ("warehouse", "--yes"),
    "config get": ("llm.provider.backend",),
    "config set": ("llm.provider.backend", "none"),
    "config unset": ("scan.privacy",),
    "completion": ("bash",),
    "demo": ("company",),
    "llm ask": ("hello", "--model", "gateway:scripted"),
    "llm probe": ("--model", "gateway:scripted"),
    "llm run": ("request.json",),
    "sl read": ("customers",),
    "sl query": ("-d", "customers.country"),
    "sl explain": ("-d", "customers.country"),
    "sl export": ("osi",),
    "sl import": ("osi", "model.yaml", "--dry-run"),
    "memory capture": ("Refunds come off revenue.",),
    "memory retry": ("latest",),
    "memory revert": ("latest",),
    "memory show": ("latest",),
    "runs show": ("latest",),
    "runs replay": ("latest",),
    "search": ("customers",),
    "pack": ("How many customers are there?",),
    "wiki read": ("revenue",),
    "wiki write": ("refunds", "--summary", "Money given back", "--content", "Subtracted from revenue."),
}
"""What a command needs besides its name to do its work."""

NEEDS_NO_PROJECT = {"setup", "demo", "completion", "config schema"}
NEEDS_LAYER = {"scan diagram", "scan relationships", "sl read", "sl query", "sl explain", "sl export"}
NEEDS_RUN = {"runs show", "runs replay"}
NEEDS_SCAN = {"status", "doctor", "check", "lint", "diff", *NEEDS_LAYER, *NEEDS_RUN}
READS_NO_CONFIG = {
    *("demo", "completion", "config schema", "runs list", "runs show", "runs replay"),
    *("mcp stop", "mcp status", "mcp logs"),
}
TEXT_ONLY = {"completion", "mcp stdio"}
"""The listed exceptions: a script in every mode, and a protocol (test_mcp.py has what it does of the contract)."""
EVENTS_FIRST = {"llm run"}
"""The listed exception: with --json, it prints its events before the envelope, one on a line."""
CAPTURING = {f"memory {name}" for name in ("capture", "retry", "revert", "show", "work")}
CHECKED_ELSEWHERE = {"demo", "mcp start", "mcp stdio", "mcp publish", "worker", "proof", "mongo-query", *CAPTURING}
"""What takes seconds, stays, asks a model or another server: its success in both modes is checked in test_demo.py,
test_mcp.py, test_proof.py, test_mongo_query.py and test_memory.py."""


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, child in node.commands.items():
        if hasattr(child, "own"):
            yield " ".join((*path, name))
        if hasattr(child, "commands"):
            yield from leaves(child, (*path, name))
        else:
            yield " ".join((*path, name))


TREE = typer.main.get_command(app)
COMMANDS = sorted(leaves(TREE))
CONTRACT_COMMANDS = [name for name in COMMANDS if name not in TEXT_ONLY]
QUICK_COMMANDS = [name for name in CONTRACT_COMMANDS if name not in CHECKED_ELSEWHERE]


def check_failure(answer: Any, command: str, mode: str, code: int, error: str) -> None:
    assert answer.code == code, (answer.out, answer.err)
    if "--json" in MODES[mode]:
        document = check_envelope(answer.out, command, code)
        assert document["error"]["code"] == error
        for line in answer.err.splitlines():
            json.loads(line)
    else:
        found = command == "doctor" and error in ("no_project", "config")  # its data is what is wrong
        assert ("fail  " in answer.out) if found else answer.out == "", "stdout holds only data"
        assert "error: " in answer.err
        assert "hint: " in answer.err
        if mode != "debug":
            assert "Traceback" not in answer.err


@pytest.fixture
def project(request: pytest.FixtureRequest, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the other tests, scanned where the command needs it, with a gateway that answers `ok`."""
    callspec = getattr(request.node, "callspec", None)
    is_scanned = callspec is not None and callspec.params.get("command") in NEEDS_SCAN
    project: Path = request.getfixturevalue("ingested" if is_scanned else "project_set_up")
    model_server.play(lambda request: says("ok"))
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    (project / "model.yaml").write_text('version: "0.1.1"\nsemantic_model:\n  - {name: shop, datasets: []}\n')
    request_text = '{"messages": [{"role": "user", "content": "hello"}], "model": "gateway:scripted"}'
    (project / "request.json").write_text(request_text)
    page = project / "wiki" / "global" / "revenue.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\nsummary: What customers paid\n---\n\nPaid orders.\n")
    text = (project / "ktx.yaml").read_text()
    gateway = f"gateway: {{base_url: '{model_server.url}', api_key: 'env:SCRIPTED_KEY'}}"
    (project / "ktx.yaml").write_text(text.replace("backend: none\n", f"backend: none\n    {gateway}\n"))
    return project


@pytest.mark.table("mode", MODES)
@pytest.mark.parametrize("command", [c for c in CONTRACT_COMMANDS if c not in NEEDS_NO_PROJECT])
def test_no_project(command: str, mode: str, ktx: Run) -> None:
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), *MODES[mode])
    check_failure(answer, command, mode, 3, "no_project")


@pytest.mark.table("mode", MODES)
@pytest.mark.parametrize("command", [c for c in CONTRACT_COMMANDS if c not in READS_NO_CONFIG])
def test_broken_configuration(command: str, mode: str, ktx: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text("llm:\n  provider: {backend: [\n")
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), *MODES[mode])
    check_failure(answer, command, mode, 2, "config")
    assert [p.name for p in work.iterdir()] == ["ktx.yaml"], "nothing else was made"


@pytest.mark.table("mode", MODES)
@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_option(command: str, mode: str, ktx: Run, work: Path) -> None:
    if command in TEXT_ONLY:
        if mode == "human":
            assert ktx(command, "bash", "--nonsense").code == 2
        return
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), *MODES[mode], "--nonsense")
    check_failure(answer, command, mode, 2, "usage")
    assert list(work.iterdir()) == []


UNREAD = [("reader-gone", "human"), ("reader-gone", "json"), ("reader-gone", "plain")]
"""How nobody reads, and in which mode; each takes a process, so by default every fourth command has one of them.

Closed before it starts takes one of its own: test_streams.py.
"""

WAYS = [
    (command, *UNREAD[at // 4 % len(UNREAD)])
    for at, command in enumerate(COMMANDS)
    if at % 4 == 1 and command not in CHECKED_ELSEWHERE
]

if os.environ.get("KTX_TEST_FULL"):
    UNREAD = [(how, mode) for how in ("reader-gone", "closed") for mode in ("human", "json", "plain")]
    WAYS = [(command, *way) for command in COMMANDS for way in UNREAD]


@pytest.mark.parametrize(("command", "how", "mode"), WAYS)
def test_nobody_reads_stdout(command: str, mode: str, how: str, ktx: Run, project: Path, forks: Forks) -> None:
    args = [*command.split(), *ARGUMENTS.get(command, ())]
    args += () if command in TEXT_ONLY else MODES[mode]
    code, told = run_closed(args, project) if how == "closed" else run_unread(args, project, forks)
    assert code == 141, told
    assert "Traceback" not in told
    assert "error" not in told


def run_unread(args: list[str], folder: Path, forks: Forks) -> tuple[int, str]:
    said = folder.parent / "said"
    code = forks(args, folder=folder, environ=os.environ, said=said, unread=True).wait()
    return code, said.read_text("utf-8")


def run_closed(args: list[str], folder: Path) -> tuple[int, str]:
    """Run the program itself: what Python makes of a closed stream it decides when it starts."""
    program = str(Path(sys.executable).with_name("ktx"))
    command = ["bash", "-c", 'exec "$@" >&-', "bash", program, *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", QUICK_COMMANDS)
def test_success_in_json_is_one_envelope_and_nothing_else(command: str, ktx: Run, project: Path) -> None:
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), "--json")
    assert answer.code == 0, answer
    *events, last = answer.out.splitlines(keepends=True) if command in EVENTS_FIRST else [answer.out]
    assert all(json.loads(each)["event"] for each in events)
    check_envelope(last, command, 0)
    assert answer.err == ""


@pytest.mark.parametrize("command", QUICK_COMMANDS)
def test_success_in_plain_text_has_no_escape_codes(command: str, ktx: Run, project: Path) -> None:
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), "--plain")
    assert answer.code == 0, answer
    assert answer.out
    assert "\x1b" not in answer.out + answer.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_the_common_options(command: str) -> None:
    node: Any = TREE
    for word in command.split():
        node = node.commands[word]
    node = getattr(node, "own", node)
    assert node.help
    if command not in TEXT_ONLY:
        assert {p.name for p in node.params} >= set(COMMON_OPTIONS)
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0


@pytest.mark.parametrize("words", [["nonsense"], ["connection", "nonsense"], ["--nonsense"], ["stat", "--json"]])
def test_before_a_command_is_known(words: list[str], ktx: Run) -> None:
    answer = ktx(*words, "--json") if "--json" not in words else ktx(*words)
    assert answer.code == 2
    document = check_envelope(answer.out, "cli", 2)
    assert document["error"]["code"] == "usage"


def test_a_near_miss_is_suggested(ktx: Run) -> None:
    assert "ktx status" in ktx("statsu").err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["status", "--jsn"], "no such option: --jsn", "did you mean `--json`?"),
        (["--jsn", "status"], "no such option: --jsn", "did you mean `--json`?"),
        (["status", "--yse"], "no such option: --yse", "did you mean `--yes`?"),
        (["status", "--where"], "no such option: --where", "ktx status --help"),
        (["sl", "query", "--where", "a = 1"], "no such option: --where", "did you mean `--filter`?"),
        (["sl", "query", "--group-by", "a"], "no such option: --group-by", "did you mean `--dimension`?"),
        (["sl", "query", "--metrics", "a"], "no such option: --metrics", "did you mean `--measure`?"),
        (["sl", "query", "--sort", "a"], "no such option: --sort", "did you mean `--order-by`?"),
        (["sl", "query", "--start-time", "a"], "no such option: --start-time", "did you mean `--from`?"),
        (["connection", "add", "--drver", "x"], "no such option: --drver", "did you mean `--driver`?"),
        (["ingest", "--dryrun"], "no such option: --dryrun", "did you mean `--dry-run`?"),
        (["status", "--zzzzzzzz"], "no such option: --zzzzzzzz", "ktx status --help"),
        (["connecton"], "no such command 'connecton'", "ktx connection"),
        (["connection", "lst"], "no such command 'lst'", "ktx connection list"),
        (["ingest", "--wait=abc"], "invalid value for '--wait': `abc` is not a number of at least 0",
         "for example: ktx ingest --wait 1"),
        (["ingest", "--wait=-1"], "invalid value for '--wait': `-1` is not a number of at least 0",
         "for example: ktx ingest --wait 1"),
        (["demo", "--seed", "1.5"], "invalid value for '--seed': `1.5` is not a whole number of at least 0",
         "for example: ktx demo --seed 1"),
        (["scan", "--depth", "profil"],
         "invalid value for '--depth': `profil` is not one of structural, profile, enriched",
         "for example: ktx scan --depth profile"),
        (["status", "--progress", "x"], "invalid value for '--progress': `x` is not one of auto, plain, jsonl, none",
         "for example: ktx status --progress auto"),
        (["completion", "tcsh"], "invalid value for 'shell': `tcsh` is not one of bash, zsh, fish",
         "for example: ktx completion bash"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_usage_errors_are_in_our_words(ktx: Run, work: Path, words: list[str], message: str, hint: str) -> None:
    answer = ktx(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: {message}\nhint: {hint}\n"


def test_options_before_the_command_count_too(ktx: Run, work: Path) -> None:
    answer = ktx("--json", "status")
    assert answer.code == 3
    check_envelope(answer.out, "status", 3)


def test_json_and_plain_exclude_each_other(ktx: Run) -> None:
    answer = ktx("status", "--json", "--plain")
    assert answer.code == 2
    check_envelope(answer.out, "status", 2)


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--project-dir", ""],
        ["--project-dir", "", "status"],
        ["--project-dir", ".", "status", "--project-dir", " "],
    ],
)
def test_a_blank_project_dir_is_refused(ktx: Run, project: Path, words: list[str]) -> None:
    answer = ktx(*words, "--json")
    assert answer.code == 2
    assert answer.envelope["error"]["message"] == "--project-dir is blank"


@pytest.mark.parametrize(
    ("words", "code", "hint"), [(["--json"], 2, "ktx --help"), (["--json", "connection"], 2, "ktx connection --help")]
)
def test_json_without_a_command_is_a_usage_error(ktx: Run, words: list[str], code: int, hint: str) -> None:
    answer = ktx(*words)
    assert answer.code == code
    assert check_envelope(answer.out, "cli", code)["error"]["hint"] == hint


@pytest.mark.parametrize("words", [[], ["connection"]])
def test_a_group_alone_prints_its_help(ktx: Run, words: list[str]) -> None:
    answer = ktx(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: ktx")


@pytest.mark.parametrize(
    ("words", "seconds", "ids"),
    [
        ([], 0.0, ()),
        (["--wait"], math.inf, ()),
        (["--wait", "warehouse"], math.inf, ("warehouse",)),
        (["warehouse", "--wait", "--quiet"], math.inf, ("warehouse",)),
        (["--wait", "inf"], math.inf, ("inf",)),
        (["--wait", "2.5", "warehouse"], 2.5, ("warehouse",)),
        (["--wait=7", "warehouse"], 7.0, ("warehouse",)),
        (["--wait", "1e2"], 100.0, ()),
        (["--wait", "--", "3"], math.inf, ("3",)),
        (["--", "--wait"], 0.0, ("--wait",)),
    ],
)
@pytest.mark.parametrize("command", ["ingest", "scan"])
def test_wait(
    ktx: Run,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    words: list[str],
    seconds: float,
    ids: tuple[str, ...],
) -> None:
    import ktx_cli.jobs.ingest.run as module

    asked: list[Any] = []

    def ingest(request: Any) -> Any:
        asked.append(request)
        raise CancelledError("seen")

    monkeypatch.setattr(module, "ingest", ingest)
    assert ktx(command, *words).code == 130
    assert [(request.wait_seconds, request.connections) for request in asked] == [(seconds, ids)]


@pytest.mark.parametrize("value", ["-1", "nan", "soon"])
def test_wait_refuses_what_is_no_number_of_seconds(ktx: Run, project: Path, value: str) -> None:
    assert ktx("ingest", f"--wait={value}").code == 2


@pytest.mark.parametrize("command", [c for c in CONTRACT_COMMANDS if c not in {"config schema", "setup"}])
def test_a_removed_current_folder(command: str, ktx: Run, work: Path) -> None:
    work.rmdir()
    answer = ktx(*command.split(), *ARGUMENTS.get(command, ()), "--json")
    check_failure(answer, command, "json", 2, "usage")
    assert "current folder" in answer.envelope["error"]["message"]


def test_a_confirmation_is_refused_without_a_terminal(ktx: Run, project: Path) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("connection", "remove", "warehouse", "--json")
    assert answer.code == 2
    assert "--yes" in answer.envelope["error"]["hint"]
    assert (project / "ktx.yaml").read_bytes() == before


def test_an_unexpected_error_keeps_the_contract(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ktx_cli.jobs.health.status as module

    def explode(*args: object) -> None:
        raise RuntimeError("canary-in-the-message")

    monkeypatch.setattr(module, "project_status", explode)
    answer = ktx("status", "--json")
    assert answer.code == 1
    assert check_envelope(answer.out, "status", 1)["error"]["code"] == "internal"
    assert "Traceback" in ktx("status", "--debug").err
    assert "Traceback" not in ktx("status").err


def test_python_without_docstrings_is_refused() -> None:
    """They are the help of commands, and what agents read of their tools."""
    words = [sys.executable, "-B", "-OO", "-m", "ktx_cli", "status", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (2, "usage")
    assert error["hint"] == "run Python without `-OO`, and unset PYTHONOPTIMIZE"
