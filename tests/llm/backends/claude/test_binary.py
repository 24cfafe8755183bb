"""Finding the `claude` binary: the order, what is refused, and that the SDK brings the one that is pinned."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.llm.backends.claude import binary
from ktx_cli.llm.backends.claude.binary import (
    MINIMUM,
    OVERRIDE,
    ClaudeBinary,
    bundled_binary,
    find_claude,
    find_launcher,
)
from ktx_cli.llm.errors import LlmError

Program = Callable[..., Path]
ROOT = Path(__file__).parents[4]


def claude(version: str = "2.1.329 (Claude Code)", help_text: str = "--restricted") -> str:
    """A script that says a version and a help text."""
    return f'case "$1" in --version) echo "{version}";; --help) echo "{help_text}";; esac\n'


def find(folder: Path, *, cli_path: str | None = None, **environ: str) -> ClaudeBinary:
    """Look from a project in a folder: what lies in the project itself is not run because its settings name it."""
    project = folder / "project"
    project.mkdir(exist_ok=True, parents=True)
    return find_claude(cli_path=cli_path, project_dir=project, environ=environ, backend="claude-code")


def refused(project: Path, *, cli_path: str | None = None, **environ: str) -> LlmError:
    with pytest.raises(LlmError) as caught:
        find(project, cli_path=cli_path, **environ)
    assert caught.value.code == "connection"
    assert caught.value.hint
    return caught.value


def test_the_order_of_the_lookup(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, variable, path = (program(claude(), name=name) for name in ("named", "variable", "claude"))
    everything = {OVERRIDE: str(variable), "PATH": str(path.parent)}
    bundled = bundled_binary()

    def found(cli_path: str | None, **environ: str) -> tuple[str, Path]:
        one = find(tmp_path, cli_path=cli_path, **environ)
        return one.origin, one.path

    assert found(str(named), **everything) == ("llm.provider.claude.cli_path", named)
    assert found(None, **everything) == (OVERRIDE, variable)
    assert found(None, PATH=str(path.parent)) == ("claude-agent-sdk", bundled)
    monkeypatch.setattr(binary, "bundled_binary", lambda: None)
    assert found(None, PATH=str(path.parent)) == ("PATH", path)
    path.unlink()
    error = refused(tmp_path, PATH=str(path.parent))
    assert error.message == "there is no `claude` binary"
    assert error.hint == "pip install --force-reinstall claude-agent-sdk"


def test_a_relative_setting_is_relative_to_the_project_and_one_with_a_tilde_to_home(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(claude())
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find(tmp_path, cli_path="../programs/claude").path.samefile(path)
    assert find(tmp_path / "elsewhere", cli_path="~/programs/claude").path == path
    assert find(tmp_path, **{OVERRIDE: "../programs/claude"}).path.samefile(path)


@pytest.mark.parametrize("place", ["claude", "../tools/claude", "link"])
def test_a_program_that_came_with_the_project_is_run_only_where_the_environment_names_it(
    place: str, tmp_path: Path
) -> None:
    """Else `ktx status` in a fresh clone would run it."""
    project, ran = tmp_path / "clone" / "project", tmp_path / "ran"
    tools = tmp_path / "clone" / "tools"
    for folder in (tmp_path / "clone" / ".git", project, tools):
        folder.mkdir(parents=True)
    for path in (project / "claude", tools / "claude"):
        path.write_text(f"#!/bin/sh\ntouch {ran}\n{claude()}")
        path.chmod(0o755)
    (project / "link").symlink_to("../tools/claude")
    with pytest.raises(LlmError, match="is inside the project"):
        find_claude(cli_path=place, project_dir=project, environ={}, backend="claude-code")
    assert not ran.exists()
    named = find_claude(cli_path=None, project_dir=project, environ={OVERRIDE: place}, backend="claude-code")
    assert (named.origin, ran.exists()) == (OVERRIDE, True)


def test_a_home_folder_that_is_a_repository_holds_programs_of_the_user(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(claude())
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    assert find(tmp_path, cli_path="~/programs/claude").path == path


def test_a_relative_folder_of_path_gives_an_absolute_program(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(claude())
    monkeypatch.setattr(binary, "bundled_binary", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert find(tmp_path, PATH="programs").path == tmp_path / "programs" / "claude"


@pytest.mark.parametrize("origin", ["llm.provider.claude.cli_path", OVERRIDE])
@pytest.mark.parametrize("broken", ["missing", "no program", "folder"])
def test_a_named_binary_that_cannot_run_is_an_error_and_not_a_reason_to_take_the_next(
    origin: str, broken: str, program: Program, tmp_path: Path
) -> None:
    path = program(claude(), mode=0o644)
    if broken == "missing":
        path.unlink()
    if broken == "folder":
        path = path.parent
    environ, cli_path = ({}, str(path)) if origin != OVERRIDE else ({OVERRIDE: str(path)}, None)
    error = refused(tmp_path, cli_path=cli_path, **environ)
    assert error.message == f"{origin} is {path}, which is not an executable program"
    assert error.hint == f"correct {origin}, or remove it"


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        ("2.1.248 (Claude Code)", True),
        ("2.1.329", True),
        ("2.2.0", True),
        ("10.0.0", True),
        ("2.1.247 (Claude Code)", False),
        ("2.0.999", False),
        ("1.9.300", False),
    ],
)
def test_versions(version: str, accepted: bool, program: Program, tmp_path: Path) -> None:
    path = program(claude(version))
    if accepted:
        assert find(tmp_path, cli_path=str(path)).version >= MINIMUM
        return
    error = refused(tmp_path, cli_path=str(path))
    assert error.message == f"{path} is Claude Code {version.split()[0]}, but ktx requires 2.1.248 or later"
    assert error.hint == "claude update"


def test_a_program_that_says_no_version_is_refused(program: Program, tmp_path: Path) -> None:
    path = program("echo hello\n")
    assert (
        refused(tmp_path, cli_path=str(path)).message == f"{path} does not print its version, so it is not Claude Code"
    )


def test_a_program_that_cannot_be_started_or_hangs_is_refused(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program("exec sleep 30\n")
    monkeypatch.setattr(binary, "VERSION_SECONDS", 0.2)
    assert refused(tmp_path, cli_path=str(path)).message == f"`{path} --version` does not work: TimeoutExpired"
    path.write_bytes(b"\x7fELF nothing that runs")
    assert refused(tmp_path, cli_path=str(path)).message == f"`{path} --version` does not work: OSError"


def test_a_help_text_that_does_not_come_is_not_taken_for_a_binary_without_the_flag(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program('[ "$1" = --version ] && echo 2.1.300 && exit\nexec sleep 30\n')
    monkeypatch.setattr(binary, "VERSION_SECONDS", 0.2)
    assert refused(tmp_path, cli_path=str(path)).message == f"`{path} --help` does not work: TimeoutExpired"


def test_restricted_only_where_the_version_knows_it(program: Program, tmp_path: Path) -> None:
    knows = program(claude(help_text="  --restricted  Run restricted"), name="knows")
    not_yet = program(claude(help_text="  --print  Print"), name="not_yet")
    assert find(tmp_path, cli_path=str(knows)).knows_restricted
    assert not find(tmp_path, cli_path=str(not_yet)).knows_restricted


def test_an_updated_binary_is_asked_again_and_an_old_answer_is_kept(program: Program, tmp_path: Path) -> None:
    path = program('echo asked >> {folder}/asked\necho "2.1.300"\n')
    for _ in range(3):
        assert find(tmp_path, cli_path=str(path)).version == (2, 1, 300)
    assert (tmp_path / "asked").read_text().count("asked") == 2, "once for the version, once for the help"
    program('echo "2.1.301"\n')
    os.utime(path, ns=(1, 1))
    assert find(tmp_path, cli_path=str(path)).version == (2, 1, 301)


def test_the_binary_is_asked_in_a_scrubbed_environment(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-seeded")
    path = program('env > {folder}/environ\necho "2.1.300"\n')
    find(tmp_path, cli_path=str(path))
    assert "sk-seeded" not in (tmp_path / "environ").read_text()


def test_how_a_binary_is_shown(tmp_path: Path) -> None:
    one = ClaudeBinary(Path("/opt/claude"), "PATH", (2, 1, 329), True)
    assert (one.version_text, str(one)) == ("2.1.329", "claude 2.1.329 (PATH: /opt/claude)")


def test_the_installed_sdk_and_its_binary_are_the_pinned_ones(tmp_path: Path) -> None:
    (pinned,) = re.findall(r"^claude-agent-sdk==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert importlib.metadata.version("claude-agent-sdk") == pinned
    bundled = find(tmp_path)
    assert (bundled.origin, bundled.knows_restricted) == ("claude-agent-sdk", True)
    said = subprocess.run([bundled.path, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert said.startswith(bundled.version_text), "the recorded version is that of the binary"
    code = "from claude_agent_sdk import _cli_version; print(_cli_version.__cli_version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == bundled.version_text


def test_the_bundled_binary_is_not_asked_for_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ask(path: str, flag: str) -> str:
        raise AssertionError(f"{path} {flag} was run")

    binary._version.cache_clear()
    monkeypatch.setattr(binary, "_ask", ask)
    assert find(tmp_path).version >= MINIMUM


def test_a_missing_launcher_is_an_isolation_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_launcher("claude-code").name == "ktx-claude-launcher"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(binary.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(LlmError) as caught:
        find_launcher("claude-code")
    assert caught.value.code == "isolation"
    assert "never runs Claude Code without it" in caught.value.message
