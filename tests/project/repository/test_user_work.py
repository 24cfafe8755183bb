from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.repository.model import Held, HeldReason

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"
NEW = b"name: new\n"


def _stage(work: Any) -> None:
    work.write(ORDERS, "staged\n")
    work.git("add", ORDERS)


def _stage_and_edit(work: Any) -> None:
    _stage(work)
    work.write(ORDERS, "edited\n")


def _stage_mode(work: Any) -> None:
    work.git("update-index", "--chmod=+x", ORDERS)
    (work.root / ORDERS).chmod(0o755)


def _edit_same_size(work: Any) -> None:
    work.write(ORDERS, "name: mine!!\n"[: len("name: orders\n")])


def _symlink(work: Any) -> None:
    (work.root / ORDERS).unlink()
    (work.root / ORDERS).symlink_to("items.yaml")


def _symlinked_folder(work: Any) -> None:
    (work.root / "semantic-layer/shop").rename(work.root / "elsewhere")
    (work.root / "semantic-layer/shop").symlink_to(work.root / "elsewhere")


def _committed_symlink(work: Any) -> None:
    _symlink(work)
    work.user_commit()


def _file_for_folder(work: Any) -> None:
    for name in (ORDERS, ITEMS):
        (work.root / name).unlink()
    (work.root / "semantic-layer/shop").rmdir()
    work.write("semantic-layer/shop", "a file\n")


def _folder_for_file(work: Any) -> None:
    (work.root / ORDERS).unlink()
    work.write(ORDERS + "/inside", "x")


def _stash_conflict(work: Any) -> None:
    work.write(ORDERS, "stashed\n")
    work.git("stash", "-q")
    work.write(ORDERS, "committed\n")
    work.user_commit()
    work.git("stash", "pop", ok=False)


def _assume_unchanged(work: Any) -> None:
    work.git("update-index", "--assume-unchanged", ORDERS)
    work.write(ORDERS, "hidden edit\n")


def _skip_worktree(work: Any) -> None:
    work.git("update-index", "--skip-worktree", ORDERS)
    work.write(ORDERS, "hidden edit\n")


def _both_flags(work: Any) -> None:
    _skip_worktree(work)
    work.git("update-index", "--assume-unchanged", ORDERS)


def _hidden(flag: str, edit: Callable[[Path], object]) -> Callable[[Any], object]:
    def act(work: Any) -> None:
        work.git("update-index", flag, ORDERS)
        edit(work.root / ORDERS)

    return act


def _fifo(work: Any) -> None:
    (work.root / ORDERS).unlink()
    os.mkfifo(work.root / ORDERS)


def _nested(work: Any) -> None:
    work.git("rm", "-q", "--cached", ORDERS, ITEMS)
    work.git("commit", "-q", "-m", "out")
    subprocess.run(["git", "init", "-q", work.root / "semantic-layer/shop"], check=True)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (_stage, "staged"),
        (_stage_and_edit, "staged"),
        (_stage_mode, "staged"),
        (lambda work: work.git("rm", "-q", ORDERS), "staged"),
        (lambda work: work.git("rm", "-q", "--cached", ORDERS), "staged"),
        (lambda work: work.write(ORDERS, "edited\n"), "modified"),
        (_edit_same_size, "modified"),
        (lambda work: (work.root / ORDERS).chmod(0o755), "modified"),
        (lambda work: (work.root / ORDERS).unlink(), "deleted"),
        (_symlink, "symlink"),
        (_symlinked_folder, "symlink"),
        (_committed_symlink, "symlink"),
        (_file_for_folder, "not_a_directory"),
        (_folder_for_file, "is_a_directory"),
        (_stash_conflict, "unmerged"),
        (_assume_unchanged, "assume_unchanged"),
        (_skip_worktree, "skip_worktree"),
        (_both_flags, "skip_worktree"),
        (_hidden("--assume-unchanged", lambda file: file.chmod(0o755)), "assume_unchanged"),
        (_hidden("--assume-unchanged", lambda file: file.unlink()), "assume_unchanged"),
        (_hidden("--skip-worktree", lambda file: file.chmod(0o755)), "skip_worktree"),
        (_hidden("--skip-worktree", lambda file: file.write_text("name: ORDERS\n")), "skip_worktree"),
        (_fifo, "not_a_file"),
        (_nested, "nested_repository"),
    ],
)
def test_a_path_with_the_user_s_work_is_held(
    work: Any, act: Callable[[Any], object], reason: str, digest: Callable[[Path], str]
) -> None:
    act(work)
    index, status = work.index(), work.status()
    files = digest(work.root / "semantic-layer")
    old = work.show(ORDERS)
    result = work.commit({ORDERS: NEW, "fresh.yaml": b"fresh\n"})
    assert result.held == (Held(ORDERS, HeldReason(reason)),)
    assert result.committed == ("fresh.yaml",) and work.names() == ["fresh.yaml"]
    assert work.show(ORDERS) == old
    assert [line for line in work.index() if "fresh" not in line] == index
    assert work.status() == status
    assert digest(work.root / "semantic-layer") == files
    assert work.leftovers() == []


@pytest.mark.parametrize(
    "act", [_stage, lambda work: work.write(ORDERS, "edited\n"), _symlink, _assume_unchanged, _skip_worktree]
)
def test_a_deletion_is_held_too(work: Any, act: Callable[[Any], object], digest: Callable[[Path], str]) -> None:
    act(work)
    before = digest(work.root / "semantic-layer")
    result = work.commit({ORDERS: None})
    assert result.commit is None and [held.path for held in result.held] == [ORDERS]
    assert digest(work.root / "semantic-layer") == before


def test_untracked_file_at_our_path(work: Any) -> None:
    work.write("wiki/a.md", "mine\n")
    result = work.commit({"wiki/a.md": NEW})
    assert result == type(result)(None, held=(Held("wiki/a.md", HeldReason.UNTRACKED),))
    assert work.read("wiki/a.md") == b"mine\n" and work.status() == ["? wiki/a.md"]


def test_everything_else_of_the_user_stays_as_it_is(work: Any) -> None:
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")
    work.write("README.md", "dirty\n")
    work.write("untracked.txt", "u\n")
    work.write("intended.txt", "i\n")
    work.git("add", "-N", "intended.txt")
    work.git("update-index", "--skip-worktree", ITEMS)
    work.git("branch", "other")
    index, status, other = work.index(), work.status(), work.git("rev-parse", "other", "stash@{0}", ok=False)
    result = work.commit({ORDERS: NEW})
    assert result.committed == (ORDERS,) and work.names() == [ORDERS]
    assert [line for line in work.index() if ORDERS not in line] == [line for line in index if ORDERS not in line]
    assert work.status() == status
    assert work.git("rev-parse", "other", "stash@{0}", ok=False) == other


def test_the_next_commit_of_the_user_does_not_undo_ours(work: Any) -> None:
    work.commit({ORDERS: NEW, ITEMS: None, "fresh.yaml": b"f\n"})
    work.write("README.md", "dirty\n")
    work.git("commit", "-q", "-a", "-m", "the user's")
    assert work.names() == ["README.md"]
    work.write("more.txt", "m")
    work.git("add", "more.txt")
    work.git("commit", "-q", "-m", "again")
    assert work.names() == ["more.txt"]
    assert work.show(ORDERS) == NEW and work.show(ITEMS) is None
    work.assert_clean()


HOOKS = """
    pre-commit prepare-commit-msg commit-msg post-commit reference-transaction post-index-change post-checkout
    pre-auto-gc post-rewrite
""".split()  # noqa: SIM905


@pytest.mark.parametrize("where", ["hooks", "core.hooksPath"])
def test_no_hook_runs_nothing_is_signed_no_monitor_starts(work: Any, where: str, tmp_path: Path) -> None:
    folder = work.top / ".git/hooks"
    trace = tmp_path / "trace"
    if where != "hooks":
        folder = tmp_path / "hooks"
        work.git("config", "core.hooksPath", str(folder))
    folder.mkdir()
    for name in HOOKS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {trace}\nexit 1\n")
        (folder / name).chmod(0o755)
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\necho monitor >> {trace}\nexit 1\n")
    monitor.chmod(0o755)
    work.git("config", "core.fsmonitor", str(monitor))
    work.git("config", "commit.gpgSign", "true")
    work.git("config", "gpg.program", str(monitor))
    assert work.commit({ORDERS: NEW, "fresh.yaml": b"f\n"}).committed == ("fresh.yaml", ORDERS)
    assert not trace.exists()
    assert "gpgsig" not in work.git("cat-file", "commit", "HEAD")


def test_an_edit_in_the_same_instant_as_the_user_s_git_add_stays_visible(work: Any) -> None:
    """git finds it only because the index is no younger than the file: a copied index must keep its time."""
    work.git("config", "core.trustctime", "false")
    readme, index = work.write("README.md", "one\n"), work.top / ".git/index"
    instant = time.time_ns() - 10_000_000_000
    os.utime(readme, ns=(instant, instant))
    work.git("add", "README.md")
    work.write("README.md", "two\n")
    for path in (readme, index):
        os.utime(path, ns=(instant, instant))
    assert work.git("diff-files", "--name-only") == "README.md\n"
    assert work.commit({ORDERS: NEW}).committed == (ORDERS,)
    assert work.git("diff-files", "--name-only") == "README.md\n"


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_mode


def test_same_content_is_adopted_where_the_file_is_untracked_or_modified(work: Any) -> None:
    work.write(ORDERS, NEW)
    (work.root / ITEMS).unlink()
    script = work.write("run.sh", "#!/bin/sh\n")
    script.chmod(0o755)
    before = {path: _identity(work.root / path) for path in (ORDERS, "run.sh")}
    result = work.commit({ORDERS: NEW, ITEMS: None, "run.sh": b"#!/bin/sh\n"})
    assert result.committed == ("run.sh", ITEMS, ORDERS) and result.held == ()
    assert {path: _identity(work.root / path) for path in before} == before
    assert work.git("ls-tree", "HEAD", "run.sh").startswith("100755")
    work.assert_clean()


def test_same_content_with_another_mode_is_the_user_s(work: Any) -> None:
    work.write(ORDERS, NEW).chmod(0o755)
    assert work.commit({ORDERS: NEW}).held == (Held(ORDERS, HeldReason.MODIFIED),)


def test_same_content_staged_is_adopted_and_other_content_staged_is_not(work: Any) -> None:
    for path, staged, on_disk in ((ORDERS, NEW, NEW), (ITEMS, b"else\n", NEW), ("fresh.yaml", NEW, b"edited\n")):
        work.write(path, staged)
        work.git("add", path)
        work.write(path, on_disk)
    result = work.commit({ORDERS: NEW, ITEMS: NEW, "fresh.yaml": NEW})
    assert result.committed == (ORDERS,)
    assert [(held.path, held.reason) for held in result.held] == [("fresh.yaml", "staged"), (ITEMS, "staged")]


def test_a_clean_file_with_a_mark_is_changed_and_keeps_the_mark(work: Any) -> None:
    work.git("update-index", "--assume-unchanged", ORDERS)
    work.git("update-index", "--skip-worktree", ITEMS)
    for content in (NEW, b"name: newer\n"):
        result = work.commit({ORDERS: content, ITEMS: content})
        assert result.committed == (ITEMS, ORDERS) and result.held == ()
        assert work.read(ORDERS) == work.read(ITEMS) == content
        flags = {line.partition("\t")[2]: line[0] for line in work.index()}
        assert flags[ORDERS] == "h" and flags[ITEMS] == "S"
    work.git("update-index", "--no-assume-unchanged", ORDERS)
    work.git("update-index", "--no-skip-worktree", ITEMS)
    assert work.status() == []


def test_a_hidden_edit_that_is_what_ktx_writes_is_adopted(work: Any) -> None:
    work.git("update-index", "--assume-unchanged", ORDERS)
    work.git("update-index", "--skip-worktree", ITEMS)
    work.write(ORDERS, NEW)
    work.write(ITEMS, NEW)
    assert work.commit({ORDERS: NEW, ITEMS: NEW}).committed == (ITEMS, ORDERS)
    assert work.commit({ORDERS: None, ITEMS: None}).committed == (ITEMS, ORDERS)
    assert work.read(ORDERS) is None and work.read(ITEMS) is None
    work.assert_clean()


def test_a_path_without_a_change_is_not_held_however_dirty(work: Any) -> None:
    work.write(ORDERS, "dirty\n")
    result = work.commit({ORDERS: b"name: orders\n", "none": None})
    assert result == type(result)(None)


def test_a_file_edited_while_the_commit_is_made_stays_as_the_user_has_it(work: Any) -> None:
    repo = work.repo
    result = repo.commit(
        {ORDERS: NEW, ITEMS: None, "fresh.yaml": NEW},
        message="m",
        base=work.head,
        before_publish=lambda: [work.write(path, "mine\n") for path in (ORDERS, ITEMS, "fresh.yaml")] and None,
    )
    assert result.left == ("fresh.yaml", ITEMS, ORDERS) and result.commit is not None
    assert {work.read(path) for path in result.left} == {b"mine\n"}
    assert [line for line in work.status() if " .M " not in line] == ["? " + ITEMS]


def test_held_files_do_not_stop_a_conflicting_folder(work: Any) -> None:
    result = work.commit({"README.md/inside": NEW, "semantic-layer": NEW, "fresh.yaml": NEW})
    assert result.committed == ("fresh.yaml",)
    assert [(held.path, held.reason) for held in result.held] == [
        ("README.md/inside", "not_a_directory"),
        ("semantic-layer", "is_a_directory"),
    ]


def test_split_index_and_untracked_cache(work: Any) -> None:
    work.git("config", "core.splitIndex", "true")
    work.git("config", "core.untrackedCache", "true")
    work.git("update-index", "--split-index")
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")
    status = work.status()
    assert work.commit({ORDERS: NEW, "fresh.yaml": b"f"}).committed == ("fresh.yaml", ORDERS)
    assert work.status() == status
    work.git("fsck", "--strict")
