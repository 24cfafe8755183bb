"""One process, run to its end: its folder, its streams, and that nothing of it outlives a cancellation."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.llm.backends.claude import binary
from ktx_cli.llm.backends.claude.binary import (
    FOLDER_PREFIX,
    CliAnswer,
    Host,
    child_environment,
    private_folder,
    run,
    sweep,
)
from ktx_cli.llm.errors import LlmError

Program = Callable[..., Path]
ENVIRON = {"PATH": os.environ["PATH"]}


async def start(program: Path, *arguments: str, folder: Path, prompt: str = "") -> CliAnswer:
    command = [str(program), *arguments]
    return await run(command, environment=ENVIRON, folder=folder, prompt=prompt, backend="claude-cli")


def test_streams_exit_code_folder_and_environment(program: Program, tmp_path: Path) -> None:
    path = program('cat; pwd; echo "$2" >&2; env >&2; exit 3\n')
    answer = asyncio.run(start(path, "-p", "ärgument", folder=tmp_path, prompt="wörds 🌍\n"))
    assert (answer.code, answer.out) == (3, f"wörds 🌍\n{tmp_path}\n")
    assert "ärgument" in answer.err
    assert [line for line in answer.err.splitlines() if "=" in line and not line.startswith(("_", "PWD", "SHLVL"))] == [
        f"PATH={os.environ['PATH']}"
    ]


def test_a_program_that_reads_nothing_and_one_that_says_no_utf8(program: Program, tmp_path: Path) -> None:
    answer = asyncio.run(start(program("printf '\\377ok'\n"), folder=tmp_path, prompt="x" * 1_000_000))
    assert (answer.code, answer.out) == (0, "\ufffdok")


def test_half_a_surrogate_pair_does_not_break_a_prompt(program: Program, tmp_path: Path) -> None:
    assert asyncio.run(start(program("cat\n"), folder=tmp_path, prompt="a\ud83db")).out == "a?b"


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, [], "No such file or directory"),
        ("\x7fELF", [], "Exec format error"),
        ("#!/bin/sh\n", ["x" * 200_000], "Argument list too long"),
        ("#!/bin/sh\n", ["a\0b"], "embedded null byte"),
    ],
)
def test_a_program_that_cannot_be_started_is_an_error_of_the_tree(
    text: str | None, arguments: list[str], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "claude"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    with pytest.raises(LlmError) as caught:
        asyncio.run(start(path, *arguments, folder=tmp_path))
    assert (caught.value.code, caught.value.message) == ("connection", f"{path} cannot be started: {words}")


STUBBORN = """
trap '' TERM
sh -c 'trap "" TERM; echo $$ > {folder}/grandchild; while :; do sleep 0.05; done' &
echo $$ > {folder}/child
while :; do sleep 0.05; done
"""
POLITE_WITH_A_STUBBORN_CHILD = """
sh -c 'trap "" TERM; echo $$ > {folder}/grandchild; while :; do sleep 0.05; done' &
trap 'echo ended > {folder}/politely; exit 0' TERM
echo $$ > {folder}/child
while :; do sleep 0.05; done
"""


def wait_for(*files: Path) -> list[int]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if all(file.is_file() and file.read_text().strip() for file in files):
            return [int(file.read_text()) for file in files]
        time.sleep(0.01)
    raise AssertionError(f"{files} were not written")


def is_running(pid: int) -> bool:
    """Whether a process runs: one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end and any(is_running(pid) for pid in pids):
        time.sleep(0.01)
    return not any(is_running(pid) for pid in pids)


@pytest.mark.requirement("G10")
@pytest.mark.parametrize("text", [STUBBORN, POLITE_WITH_A_STUBBORN_CHILD], ids=["stubborn", "stubborn child"])
@pytest.mark.parametrize("cancellations", [1, 3])
def test_cancelling_ends_the_whole_process_group(
    text: str, cancellations: int, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary, "TERMINATE_SECONDS", 0.5)
    path = program(text)

    async def ask() -> list[int]:
        task = asyncio.create_task(start(path, folder=tmp_path, prompt="x"))
        pids = await asyncio.to_thread(wait_for, tmp_path / "child", tmp_path / "grandchild")
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await task
        return pids

    pids = asyncio.run(ask())
    assert gone(pids), "neither the process nor its child is left"
    if text is POLITE_WITH_A_STUBBORN_CHILD:
        assert (tmp_path / "politely").exists(), "the process itself was asked first"


def test_a_private_folder_is_empty_private_and_goes_away() -> None:
    with private_folder() as folder:
        assert list(folder.iterdir()) == []
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.name.startswith(f"{FOLDER_PREFIX}{os.getpid()}-")
        (folder / "left").write_text("x")
    assert not folder.exists()


def test_a_private_folder_goes_away_also_when_the_work_fails() -> None:
    with pytest.raises(RuntimeError), private_folder() as folder:
        raise RuntimeError
    assert not folder.exists()


def test_folders_of_dead_runs_are_swept_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f"{ended.pid}-a", f"{10**30}-b", f"{os.getpid()}-c", "²-d", "name-e", "-f"]
    folders = [tmp_path / f"{FOLDER_PREFIX}{name}" for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / "system.txt").write_text("x")
    target = tmp_path / "kept"
    target.mkdir()
    (tmp_path / f"{FOLDER_PREFIX}{ended.pid}-link").symlink_to(target)
    sweep()
    assert [folder.exists() for folder in folders] == [False, False, True, True, True, True]
    assert target.exists()


def test_folders_of_other_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{FOLDER_PREFIX}{10**30}-x"
    folder.mkdir()
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    sweep()
    assert folder.exists()


def test_a_process_gets_the_hosts_environment_its_folder_and_no_retries_of_its_own(tmp_path: Path) -> None:
    host = Host(tmp_path, Path("/launcher"), Path("/claude"), True, {"HOME": "/home/me", "PWD": "/elsewhere"})
    assert child_environment(host, tmp_path / "f") == {
        "HOME": "/home/me",
        "PWD": str(tmp_path / "f"),
        "XDG_CACHE_HOME": str(tmp_path / "f" / "cache"),
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


@pytest.mark.requirement("G10")
def test_a_process_cancelled_while_it_starts_is_ended_with_what_it_started(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary, "TERMINATE_SECONDS", 0.1)
    path = program(STUBBORN)

    async def ask(turns: int) -> None:
        task = asyncio.create_task(start(path, folder=tmp_path, prompt="x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for turns in range(0, 40, 4):
        asyncio.run(ask(turns))
    end = time.monotonic() + 10
    while running_from(path) and time.monotonic() < end:
        time.sleep(0.05)
    assert running_from(path) == []


def running_from(path: Path) -> list[str]:
    """Return the processes whose command line names a program, the test's own aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(path.parent).encode() in b" ".join(words) and is_running(int(entry.name)):
            found.append(entry.name)
    return found
