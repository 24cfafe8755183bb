"""The launcher: what it lets through, what it refuses, and what the launched process really has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ktx_cli.llm.backends.claude.binary import find_launcher
from ktx_cli.llm.backends.claude.launcher import (
    DENIED,
    KEYS,
    OURS,
    REAL_CLI,
    REPORT_PREFIX,
    SDK_OWN,
    SWITCHED_OFF,
    LauncherError,
    child_environment,
    claude_environment,
    is_denied,
)

Program = Callable[..., Path]

DUMP = f"""exec {sys.executable} - "$@" <<'END'
import json, os, sys
facts = dict(argv=sys.argv[1:], environ=dict(os.environ), pid=os.getpid(), sid=os.getsid(0), cwd=os.getcwd())
open("{{folder}}/dump.json", "w").write(json.dumps(facts))
END
"""


def launch(environ: Mapping[str, str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(find_launcher("claude-code")), *arguments]
    return subprocess.run(command, env=dict(environ), cwd=cwd, capture_output=True, text=True, timeout=30, check=False)


def asked(environ: Mapping[str, str], program: Path, *more: str) -> dict[str, str]:
    """The environment the SDK gives the launcher: its parent's, merged with ours."""
    own = claude_environment(environ)
    return {**environ, **own, REAL_CLI: str(program), KEYS: json.dumps([*own, *more])}


@pytest.mark.requirement("R33", "R35")
def test_the_launched_process_has_exactly_the_environment_that_was_built(program: Program, tmp_path: Path) -> None:
    named = (*DENIED, "AWS_ENDPOINT_URL_BEDROCK", "ANTHROPIC_OF_TOMORROW", "CCR_X", "GIT_TRACE", "NODE_PATH")
    seeded = dict.fromkeys(named, "seeded")
    for breaks_the_launcher in ("PYTHONHOME", "PYTHONPATH"):
        del seeded[breaks_the_launcher]
    user = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "CLAUDE_CODE_OAUTH_TOKEN": "t",
        "HTTPS_PROXY": "http://p",
    }
    sdk = dict.fromkeys(SDK_OWN, "of the sdk")
    environ = {**asked({**seeded, **user}, program(DUMP)), **sdk, "PWD": str(tmp_path), "LATE": "added by the parent"}
    done = launch(environ, "--version", "a b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    dump = json.loads((tmp_path / "dump.json").read_text())
    shell = {"_", "SHLVL", "OLDPWD", "LC_CTYPE"}
    assert {name: value for name, value in dump["environ"].items() if name not in shell} == {
        **user,
        **SWITCHED_OFF,
        **sdk,
        "PWD": str(tmp_path),
    }
    assert dump["argv"] == ["--version", "a b"]
    (line,) = done.stderr.splitlines()
    dropped = json.loads(line.removeprefix(REPORT_PREFIX))
    assert dropped == sorted(dropped)
    assert {*dropped} - {"LC_CTYPE"} == {*seeded, "LATE"} - SDK_OWN, "LC_CTYPE is Python's own doing"
    print(f"{len(dropped)} names dropped")


def test_it_becomes_the_binary_in_a_session_of_its_own(program: Program, tmp_path: Path) -> None:
    environ = asked({"PATH": os.environ["PATH"]}, program(DUMP))
    process = subprocess.Popen([str(find_launcher("x"))], env=environ, stderr=subprocess.DEVNULL)
    assert process.wait(30) == 0
    dump = json.loads((tmp_path / "dump.json").read_text())
    assert dump["pid"] == dump["sid"] == process.pid != os.getsid(0)


def test_it_starts_also_where_it_leads_its_group_already(program: Program, tmp_path: Path) -> None:
    environ = asked({"PATH": os.environ["PATH"]}, program(DUMP))
    command = [str(find_launcher("x"))]
    done = subprocess.run(command, env=environ, start_new_session=True, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dump.json").exists()


def test_the_exit_code_and_the_streams_are_the_binarys(program: Program, tmp_path: Path) -> None:
    environ = asked({"PATH": os.environ["PATH"]}, program("cat; echo bad >&2; exit 7\n"))
    command = [str(find_launcher("x"))]
    done = subprocess.run(command, env=environ, input="hi", capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (7, "hi", ["bad"])


REFUSED = {
    "a denied name": ({KEYS: '["HOME", "ANTHROPIC_API_KEY"]'}, "asked to pass on ANTHROPIC_API_KEY"),
    "a name of tomorrow": ({KEYS: '["AWS_OF_TOMORROW"]'}, "asked to pass on AWS_OF_TOMORROW"),
    "no list": ({KEYS: None}, "one of them is missing or invalid"),
    "a list that is no JSON": ({KEYS: "HOME,PATH"}, "one of them is missing or invalid"),
    "a list that is none": ({KEYS: "5"}, "one of them is missing or invalid"),
    "names that are none": ({KEYS: "[1, [2]]"}, "one of them is missing or invalid"),
    "no binary": ({REAL_CLI: None}, "one of them is missing or invalid"),
    "a binary that is not there": ({REAL_CLI: "/nowhere/claude"}, "No such file or directory"),
    "a binary that is a folder": ({REAL_CLI: "/"}, "Permission denied"),
}


@pytest.mark.requirement("R35")
@pytest.mark.parametrize("case", REFUSED)
def test_it_starts_nothing_it_was_not_told_properly(case: str, program: Program, tmp_path: Path) -> None:
    changes, words = REFUSED[case]
    environ: dict[str, str | None] = {**asked({"PATH": os.environ["PATH"]}, program(DUMP)), **changes}
    done = launch({name: value for name, value in environ.items() if value is not None}, cwd=tmp_path)
    assert done.returncode == 127
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "dump.json").exists()


@pytest.mark.table("name", sorted(OURS))
def test_what_ktx_sets_may_pass(name: str) -> None:
    _, kept, _ = child_environment({REAL_CLI: "/claude", KEYS: json.dumps([name]), name: "1"})
    assert kept == {name: "1"}


def test_every_denied_name_is_refused() -> None:
    for name in set(DENIED) - OURS:
        environ = {REAL_CLI: "/claude", KEYS: json.dumps([name]), name: "x"}
        assert is_denied(name)
        with pytest.raises(LauncherError, match="asked to pass on"):
            child_environment(environ)


def test_it_loads_nothing_but_the_list_of_names() -> None:
    code = (
        "import sys; import ktx_cli.llm.backends.claude.launcher; "
        "print(sorted(m for m in sys.modules if m.startswith('ktx_cli')), "
        "any(m in sys.modules for m in ('pydantic', 'yaml', 'anthropic', 'asyncio', 'typer')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    modules, heavy = done.stdout.rsplit(" ", 1)
    assert heavy.strip() == "False"
    assert modules.count("ktx_cli.llm.backends.claude") == 2, modules
