from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.project.repository.model import EDITED_AFTER_KILL, EDITED_MEANWHILE, HeldReason, held_hint

PROJECT = Path("/the project")
SAID = {
    HeldReason.MODIFIED: "git restore -- 'a b'",
    HeldReason.DELETED: "git restore -- 'a b'",
    HeldReason.UNREADABLE: "chmod u+r '/the project/a b'",
    HeldReason.STAGED: "git restore --staged",
    HeldReason.UNTRACKED: "git add -- 'a b'",
    HeldReason.UNMERGED: "resolve the conflict",
    HeldReason.CONFLICT: "run the same command again",
    HeldReason.ASSUME_UNCHANGED: "--no-assume-unchanged -- 'a b'",
    HeldReason.SKIP_WORKTREE: "--no-skip-worktree -- 'a b'",
    HeldReason.SYMLINK: "symbolic link",
    HeldReason.NOT_A_DIRECTORY: "move that file away",
    HeldReason.IS_A_DIRECTORY: "'a b' is a folder",
    HeldReason.NOT_A_FILE: "pipe",
    HeldReason.NESTED_REPOSITORY: "submodule",
    EDITED_MEANWHILE: "git diff -- 'a b'",
    EDITED_AFTER_KILL: "git diff -- 'a b'",
}


@pytest.mark.table("reason", [*HeldReason, EDITED_MEANWHILE, EDITED_AFTER_KILL])
def test_every_reason_has_a_hint_of_its_own(reason: str) -> None:
    hint = held_hint([("a b", str(reason))], PROJECT)
    assert SAID[reason] in hint and "{" not in hint
    others = {held_hint([("a b", str(other))], PROJECT) for other in HeldReason if other != reason}
    assert hint not in others


def test_one_hint_a_reason() -> None:
    hint = held_hint([("a", "modified"), ("b", "modified"), ("c", "symlink")], PROJECT)
    assert hint.count(";") == 1 and " a" in hint and " b" not in hint and "c, or a folder" in hint


def test_all_deleted_paths_are_in_one_command() -> None:
    held = [(f"{number}", "deleted") for number in range(30)]
    assert held_hint(held[:3], PROJECT) == "git restore -- 0 1 2"
    assert held_hint(held, PROJECT).split()[-1] == "19"
