from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import read_bytes, remove_dead_leftovers_of, write_atomic


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip(f"mount refused: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_creates_parents_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.yaml"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.yaml"]


def test_keeps_the_mode_of_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"")
    path.chmod(0o750)
    write_atomic(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files of others")
def test_root_leaves_a_file_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    write_atomic(path, b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)
    write_atomic(tmp_path / "own", b"new")
    assert (tmp_path / "own").stat().st_uid == 0


def test_what_a_killed_writer_left_goes_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "SKILL[1].md"
    dead, living = (tmp_path / f".SKILL[1].md.{token}.ktx-tmp" for token in ("0badcafe", "deadbeef"))
    other, link = tmp_path / ".SKILL1.md.0badcafe.ktx-tmp", tmp_path / ".SKILL[1].md.11111111.ktx-tmp"
    for each in (dead, living, other):
        each.write_text("half")
    link.symlink_to(other)
    with living.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        remove_dead_leftovers_of(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(each.name for each in (living, other, link))


def test_a_writer_at_work_holds_its_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        remove_dead_leftovers_of(path)
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_atomic(path, b"whole")
    assert path.read_bytes() == b"whole"


def test_mode_of_a_secret_is_narrow_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_atomic(path, b"s", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_full_disk_keeps_the_old_content_and_names_the_path(small_disk: Path) -> None:
    path = small_disk / "shard.yaml"
    write_atomic(path, b"old")
    with pytest.raises(StorageError) as caught:
        write_atomic(path, os.urandom(200_000))
    assert str(path) in caught.value.message
    assert "space" in (caught.value.hint or "")
    assert path.read_bytes() == b"old"
    assert [p.name for p in small_disk.iterdir()] == ["shard.yaml"]


def test_read_only_file_system_names_the_path(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StorageError) as caught:
        write_atomic(small_disk / "x", b"")
    assert caught.value.details["errno"] == "EROFS"
    assert caught.value.exit_code == 1


def test_reading_what_is_not_there_is_none_and_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert read_bytes(tmp_path / "none") is None
    (tmp_path / "file").write_bytes(b"")
    assert read_bytes(tmp_path / "file" / "below") is None
    with pytest.raises(StorageError):
        read_bytes(tmp_path)
