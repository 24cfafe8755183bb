from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import BusyError, GitError, StorageError
from ktx_cli.project.git import Git, condensed, failure, find_git


def _alias(command: str) -> tuple[str, str, str]:
    return "-c", f"alias.ask=!{command}", "ask"


def test_children_that_write_are_out_of_reach_of_signals_to_our_group(tmp_path: Path) -> None:
    git = Git(find_git(), tmp_path)
    session = _alias("cut -d' ' -f6 /proc/self/stat")
    assert int(git.read(*session).out) == os.getsid(0)
    assert int(git.write(*session).out) != os.getsid(0)


def test_children_that_write_hold_the_guard(tmp_path: Path) -> None:
    with (tmp_path / "guard").open("w") as stream:
        git = Git(find_git(), tmp_path).guarded(stream.fileno())
        ask = _alias(f"readlink /proc/self/fd/{stream.fileno()} || echo none")
        assert git.write(*ask).out.decode().strip() == stream.name
        assert git.read(*ask).out.decode().strip() != stream.name


@pytest.mark.parametrize(
    ("name", "value"),
    [("GIT_OPTIONAL_LOCKS", "0"), ("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_LITERAL_PATHSPECS", "1")],
)
def test_environment(tmp_path: Path, name: str, value: str) -> None:
    assert Git(find_git(), tmp_path).read(*_alias(f"echo ${name}")).out.decode().strip() == value


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("GIT_GRAFT_FILE", False), ("GIT_NO_REPLACE_OBJECTS", False), ("GIT_SHALLOW_FILE", False), ("GIT_DIR", False),
        ("GIT_AUTHOR_NAME", True), ("GIT_SSH_COMMAND", True), ("GIT_OF_TOMORROW", True),
    ],
)  # fmt: skip
def test_what_git_counts_among_its_local_variables_is_not_passed_on(tmp_path: Path, name: str, passed: bool) -> None:
    assert (name in Git(find_git(), tmp_path, environ={"PATH": os.defpath, name: "x"}).environment()) is passed


@pytest.mark.table(
    ("stderr", "kind", "message"),
    [
        (
            b"fatal: Unable to create '/r/.git/refs/heads/main.lock': File exists.\n\nAnother git",
            BusyError,
            "/r/.git/refs",
        ),
        (
            b"error: unable to write file /r/.git/objects/aa: No space left on device\n",
            StorageError,
            "/r/.git/objects/aa",
        ),
        (b"fatal: cannot open '/r/.git/index.lock': Permission denied", StorageError, "/r/.git/index.lock"),
        (b"error: insufficient permission for adding an object to database .git/objects", StorageError, "here"),
        (b"hint: do\nwarning: w\nerror: e\nfatal: the reason.\n", GitError, "the reason"),
        (b"", GitError, "exit code 128"),
    ],
)
def test_failures_are_told_apart(stderr: bytes, kind: type[Exception], message: str) -> None:
    error = failure("write-tree", 128, stderr, Path("/here"))
    assert type(error) is kind and message in error.message and "\n" not in error.message


def test_a_full_disk_git_does_not_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusal = b"fatal: unable to write new index file"
    assert type(failure("read-tree", 128, refusal, tmp_path)) is GitError
    none_left = os.statvfs_result((4096, 4096, 10, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: none_left)
    assert failure("read-tree", 128, refusal, tmp_path).details["errno"] == errno.errorcode[errno.ENOSPC]


def test_condensed_is_one_line_without_hints() -> None:
    assert condensed(b"hint: no\nwarning: no\nplain  words\nmore") == "plain words"
    assert condensed(b"") == "" and condensed(b"\xff\n") != ""


def test_an_interrupted_call_waits_for_a_child_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = subprocess.Popen.communicate
    calls = []

    def interrupted(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Git(find_git(), tmp_path).write(*_alias("sleep 0.2; echo done > done"))
    assert (tmp_path / "done").exists()
