from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project.git import Git, GitResult
from ktx_cli.project.repository import recovery, working_files

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"


def _on(disk: Path, work: Any) -> Any:
    subprocess.run(["cp", "-a", str(work.top), disk / "work"], check=True)
    return type(work)(disk / "work")


def test_a_full_disk_at_any_moment(work: Any, small_disk: Path) -> None:
    there = _on(small_disk, work)
    content = os.urandom(60_000)
    changes: dict[str, bytes | None] = {ORDERS: content, "wiki/new.md": os.urandom(60_000)}
    head, failed = there.head, 0
    filler = small_disk / "filler"
    free = os.statvfs(small_disk).f_bavail * 4096
    for kilobytes in (0, 4, 8, 16, 24, 64, 128, 160, 260):
        filler.write_bytes(b"\0" * (free - kilobytes * 1024))
        try:
            there.repo.commit(changes, message="m", base=there.head)
        except StorageError as error:
            failed += 1
            assert str(small_disk) in error.message and "space" in (error.hint or "")
        filler.unlink()
        there.repo.recover()
        assert there.leftovers() == []
        assert there.status() == []
        if there.head != head:
            break
        assert there.read(ORDERS) == b"name: orders\n" and there.read("wiki/new.md") is None
        there.git("prune", "--expire=now")
    assert failed >= 5
    there.repo.commit(changes, message="m", base=there.head)
    assert there.read(ORDERS) == there.show(ORDERS) == content
    there.assert_clean()


def test_a_read_only_file_system(work: Any, small_disk: Path) -> None:
    there = _on(small_disk, work)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert there.repo.recover().finished == ()
    with pytest.raises(StorageError, match="Read-only") as caught:
        there.commit({ORDERS: b"n\n"})
    assert str(small_disk) in caught.value.message


def test_a_read_only_folder_in_the_project(work: Any, small_disk: Path) -> None:
    target = work.root / "semantic-layer/shop"
    subprocess.run(["cp", "-a", f"{target}/.", small_disk], check=True)
    subprocess.run(["mount", "--bind", small_disk, target], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", target], check=True)
        head = work.head
        with pytest.raises(StorageError, match=r"orders\.yaml: Read-only") as caught:
            work.commit({ORDERS: b"n\n", "ok.yaml": b"n\n"})
        assert work.head == head and "commit" not in caught.value.details
        assert work.status() == [] and work.leftovers() == []
        subprocess.run(["mount", "-o", "remount,rw,bind", target], check=True)
        assert work.commit({ORDERS: b"n\n", "ok.yaml": b"n\n"}).committed == ("ok.yaml", ORDERS)
        assert work.read(ORDERS) == b"n\n"  # across file systems: copied, not renamed
        assert work.status() == []
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def _failing_at(count: int) -> Callable[..., bool]:
    """Return a `_place` that puts `count` files in place, then finds the disk full."""
    real, calls = working_files._place, iter(range(count))

    def place(*arguments: Any) -> bool:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    return place


CHANGES = {ORDERS: b"n\n", ITEMS: None, "deep/er/new.yaml": b"new\n", "wiki/a.md": b"a\n"}


@pytest.mark.parametrize("placed", range(5))
def test_an_error_after_the_branch_moved_is_taken_back(work: Any, monkeypatch: pytest.MonkeyPatch, placed: int) -> None:
    head, index = work.head, work.index()
    with monkeypatch.context() as patch:
        if placed < 4:
            patch.setattr(working_files, "_place", _failing_at(placed))
        else:
            patch.setattr(recovery, "refresh_index", _broken)
        with pytest.raises(StorageError) as caught:
            work.commit(CHANGES)
    assert "commit" not in caught.value.details and "the next run" not in (caught.value.hint or "")
    assert work.head == head and work.index() == index and work.status() == [] and work.leftovers() == []
    assert work.read(ORDERS) == b"name: orders\n" and work.read(ITEMS) == b"name: items\n"
    assert not (work.root / "deep").exists() and not (work.root / "wiki").exists()
    assert work.commit(CHANGES).committed == tuple(sorted(CHANGES))
    work.assert_clean()


def test_the_first_commit_is_taken_back(empty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(working_files, "_place", _failing_at(1))
        with pytest.raises(StorageError):
            empty.commit({"a.yaml": b"a\n", "b.yaml": b"b\n"}, base=None)
    assert empty.head is None and empty.status() == [] and empty.leftovers() == []
    assert empty.commit({"a.yaml": b"a\n"}, base=None).committed == ("a.yaml",)


def test_a_file_edited_before_it_is_taken_back_stays(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    take_back = working_files.Undo.take_back

    def edit_first(undo: Any) -> None:
        work.write("wiki/a.md", "mine\n")
        take_back(undo)

    head = work.head
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "refresh_index", _broken)
        patch.setattr(working_files.Undo, "take_back", edit_first)
        with pytest.raises(StorageError):
            work.commit(CHANGES)
    assert work.head == head and work.read("wiki/a.md") == b"mine\n" and work.read(ORDERS) == b"name: orders\n"


@pytest.mark.parametrize("step", ["take_back", "update-ref"])
def test_what_cannot_be_taken_back_is_finished_by_the_next_run(
    work: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write = Git.write

    def refuse_the_way_back(git: Git, *words: Any, **more: Any) -> GitResult:
        if words[0] == "update-ref" and "undone" in str(words[2]):
            return GitResult(1, b"", b"no")
        return write(git, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(working_files, "_place", _failing_at(1))
        if step == "take_back":
            patch.setattr(working_files.Undo, "take_back", _broken)
        else:
            patch.setattr(Git, "write", refuse_the_way_back)
        with pytest.raises(StorageError) as caught:
            work.commit(CHANGES)
    assert caught.value.details["commit"] == work.head and "the next run" in (caught.value.hint or "")
    work.repo.recover()
    assert work.read(ORDERS) == b"n\n" and work.read("wiki/a.md") == b"a\n"
    work.assert_clean()
    assert work.leftovers() == []


def _broken(*arguments: object) -> None:
    raise StorageError("the disk is gone")


@pytest.mark.parametrize("step", ["commits.drop_pending", "index._remove_scratch"])
def test_an_error_of_any_last_step_names_the_commit(work: Any, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    module, name = step.split(".")

    def broken(*arguments: object) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(f"ktx_cli.project.repository.{module}.{name}", broken)
        with pytest.raises(StorageError) as caught:
            work.commit({ORDERS: b"n\n"})
    assert caught.value.details["commit"] == work.head and work.show(ORDERS) == b"n\n"
    work.repo.recover()
    work.assert_clean()
    assert work.leftovers() == []


def test_an_interrupt_leaves_the_lock_free(work: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.repo.commit({ORDERS: b"n\n"}, message="m", base=work.head, before_publish=interrupt)
    assert work.leftovers() == []
    work.assert_clean()
