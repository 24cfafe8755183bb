"""Files that rotate: whole lines or nothing, in order, from several processes."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from ktx_cli.runs import RotatingFile, rotated_files, rotated_name, transcripts


def texts(path: Path, kept: int = 3) -> list[str]:
    return [line for each in rotated_files(path, kept) for line in each.read_text().splitlines()]


def test_a_full_file_gets_a_number_and_the_oldest_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log"
    file = RotatingFile(path, largest=8, kept=2)
    for number in range(8):
        file.append(f"{number:03}\n".encode())
    assert [each.name for each in rotated_files(path, 2)] == ["log.2", "log.1", "log"]
    assert texts(path, 2) == [f"{number:03}" for number in range(2, 8)]
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}


def test_more_than_a_file_may_contain_gets_one_of_its_own(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "log", largest=8)
    for data in (b"a\n", b"much too long\n", b"b\n"):
        file.append(data)
    assert [each.read_bytes() for each in rotated_files(tmp_path / "log")] == [b"a\n", b"much too long\n", b"b\n"]


def test_a_file_that_another_process_rotated_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, two = RotatingFile(path, largest=8), RotatingFile(path, largest=8)
    one.append(b"one\n")
    two.append(b"two\n")
    two.append(b"new\n")
    one.append(b"old\n")
    assert [each.read_bytes() for each in rotated_files(path)] == [b"one\ntwo\n", b"new\nold\n"]
    path.unlink()
    one.append(b"again\n")
    assert path.read_bytes() == b"again\n"


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RotatingFile(tmp_path / "log")
    file.append(b"whole\n")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(transcripts.os, "write", lambda descriptor, data: write(descriptor, data[:3]))
        with pytest.raises(OSError, match="No space left"):
            file.append(b"half of it\n")
    file.append(b"next\n")
    assert (tmp_path / "log").read_bytes() == b"whole\nnext\n"


def append_many(path: Path, name: str) -> None:
    file = RotatingFile(path, largest=400, kept=100)
    for number in range(50):
        file.append(f"{name} {number} {'x' * (number % 7)}\n".encode())
    os._exit(0)


def test_several_processes_lose_nothing_when_they_rotate(tmp_path: Path) -> None:
    path = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=append_many, args=(path, f"p{number}")) for number in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
        assert each.exitcode == 0
    lines = [line.split() for line in texts(path, 100)]
    for name in ("p0", "p1", "p2", "p3"):
        assert [int(line[1]) for line in lines if line[0] == name] == list(range(50))
    assert all(each.stat().st_size <= 400 for each in rotated_files(path, 100))
    assert rotated_name(path, 1).exists()
