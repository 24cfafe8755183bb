"""A full disk and a read-only folder: exit 1, the path named, nothing truncated."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount refused: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def project_on_disk(disk: Path, ktx: Run, shop: Path, tmp_path: Path) -> Path:
    """An ingested project on the small disk, its database elsewhere and grown since."""
    args = ("--project-dir", str(disk))
    assert ktx("setup", "--database", "sqlite", "--database-path", str(shop), *args).code == 0
    assert ktx("ingest", *args).code == 0
    database = sqlite3.connect(shop)
    for number in range(150):
        database.execute(f"CREATE TABLE a_table_with_a_long_name_{number} (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
    database.close()
    return disk


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and ".ktx" not in path.parts and path.name != "filler"
    }


SOME = (0, 24, 384)
"""KiB left that `make test` tries: nothing, room for some of it, room for all."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "left",
    [left if left in SOME else pytest.param(left, marks=pytest.mark.slow) for left in (0, 8, 24, 64, 128, 256, 384)],
)
def test_full_disk(project_on_disk: Path, ktx: Run, left: int) -> None:
    disk = project_on_disk
    before = contents(disk)
    free = shutil.disk_usage(disk).free
    (disk / ".git" / "filler").write_bytes(b"\0" * max(0, free - left * 1024))
    answer = ktx("ingest", "--json", "--project-dir", str(disk))
    if answer.code:
        assert answer.code == 1, answer
        assert str(disk) in answer.envelope["error"]["message"]
        assert "space" in answer.envelope["error"]["hint"]
        assert "No space left on device" in answer.envelope["error"]["message"]
        assert contents(disk) == before
    else:
        assert left > 128, "it cannot have had room"
    (disk / ".git" / "filler").unlink()
    subprocess.run(["git", "fsck", "--strict"], cwd=disk, check=True, capture_output=True)
    subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
    again = ktx("ingest", "--json", "--project-dir", str(disk))
    assert again.code == 0, again
    done = subprocess.run(["git", "status", "--porcelain"], cwd=disk, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_read_only_folder(project_on_disk: Path, ktx: Run) -> None:
    disk = project_on_disk
    before = contents(disk)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    answer = ktx("ingest", "--json", "--project-dir", str(disk))
    assert answer.code == 1
    assert str(disk) in answer.envelope["error"]["message"]
    assert answer.envelope["error"]["hint"]
    assert contents(disk) == before
    for words in (("status",), ("connection", "list"), ("config", "show"), ("doctor",), ("ingest", "--dry-run")):
        assert ktx(*words, "--json", "--project-dir", str(disk)).envelope["schema"].startswith("ktx/")
    assert ktx("status", "--project-dir", str(disk)).code == 0
    assert ktx("config", "set", "llm.provider.backend", "vertex", "--project-dir", str(disk)).code == 1
