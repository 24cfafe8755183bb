from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, StorageError
from ktx_cli.project.repository import working_files

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
        with pytest.raises(StorageError, match=r"orders\.yaml") as caught:
            work.commit({ORDERS: b"n\n", "ok.yaml": b"n\n"})
        assert caught.value.details["commit"] == work.head
        assert not (work.top / ".git/index.lock").exists()
        subprocess.run(["mount", "-o", "remount,rw,bind", target], check=True)
        assert set(work.repo.recover().finished) >= {ORDERS}
        assert work.read(ORDERS) == b"n\n"  # across file systems: copied, not renamed
        assert work.status() == []
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def test_an_error_after_the_branch_moved_is_mended(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def full(*arguments: object) -> bool:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(working_files, "_place", full)
        with pytest.raises(KtxError) as caught:
            work.commit({ORDERS: b"n\n", ITEMS: None})
        assert "the next run" in (caught.value.hint or "")
        assert caught.value.details["commit"] == work.head
    assert work.repo.recover().finished == (ITEMS, ORDERS)
    work.assert_clean()
    assert work.leftovers() == []


@pytest.mark.parametrize("step", ["placing.refresh_index", "publishing.drop_journal", "lock._remove_scratch"])
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
