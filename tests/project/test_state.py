from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project import state
from ktx_cli.project.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_ids(database: sqlite3.Connection) -> list[str]:
    return [row[0] for row in database.execute("SELECT run_id FROM runs")]


WRITER = """
import sys
from pathlib import Path
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
for number in range(60):
    with open_for_writing(Layout(Path(sys.argv[1]))) as database:
        database.execute(
            "INSERT INTO runs (run_id, command, status, started) VALUES (?, ?, 'done', 't')",
            (f"{number:03}", "x" * 5000),
        )
"""


def test_readers_beside_runs_that_come_and_go_are_never_wrong(layout: Layout) -> None:
    with state.open_for_writing(layout):
        pass
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(layout.root)])
    seen = 0
    while writer.poll() is None:
        found = state.read_state(layout, run_ids)
        assert found == [f"{number:03}" for number in range(len(found or ()))]
        assert len(found or ()) >= seen
        seen = len(found or ())
    assert writer.returncode == 0
    assert len(state.read_state(layout, run_ids) or ()) == 60


def test_a_damaged_database_is_an_error_for_readers(layout: Layout) -> None:
    layout.private.mkdir()
    layout.state.write_bytes(b"not a database at all, certainly not" * 100)
    with pytest.raises(StorageError):
        state.read_state(layout, run_ids)


def test_after_writing_only_one_file_is_left_and_git_ignores_it(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'done', 't')")
    assert sorted(tree(layout.root)) == [".ktx/.gitignore", ".ktx/state.sqlite"]
    assert layout.private_gitignore.read_text() == "*\n"


def test_reading_changes_no_file(layout: Layout) -> None:
    assert state.read_state(layout, run_ids) is None
    assert tree(layout.root) == {}
    with state.open_for_writing(layout):
        pass
    before = tree(layout.root)
    assert state.read_state(layout, run_ids) == []
    assert tree(layout.root) == before


def test_reading_beside_a_writer_sees_its_rows_and_changes_nothing(layout: Layout) -> None:
    with state.open_for_writing(layout) as writer:
        writer.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'running', 't')")
        before = tree(layout.root)
        assert state.read_state(layout, run_ids) == ["r"]
        assert sorted(tree(layout.root)) == sorted(before)


def test_reading_what_a_killed_writer_left(layout: Layout) -> None:
    pid = os.fork()
    if pid == 0:
        with state.open_for_writing(layout) as database:
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'running', 't')")
            os._exit(0)
    os.waitpid(pid, 0)
    before = tree(layout.root)
    assert ".ktx/state.sqlite-wal" in before
    assert state.read_state(layout, run_ids) == ["r"]
    after = tree(layout.root)
    assert sorted(after) == sorted(before)
    assert {name for name in after if after[name] != before[name]} <= {".ktx/state.sqlite-shm"}


def test_migrations_bring_every_older_database_forward(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with state.open_for_writing(layout):
        pass
    monkeypatch.setattr(state, "MIGRATIONS", (*state.MIGRATIONS, "CREATE TABLE later (x INTEGER)"))
    assert state.read_state(layout, run_ids) is None, "an older form is not read as if it were the newest"
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO later VALUES (1)")
    assert state.read_state(layout, run_ids) == []


def test_a_database_of_a_newer_ktx_is_refused(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(StorageError, match="newer ktx"), state.open_for_writing(layout):
        pass


def test_a_damaged_database_says_what_to_delete(layout: Layout) -> None:
    layout.private.mkdir()
    layout.state.write_bytes(b"not a database at all, certainly not" * 100)
    with pytest.raises(StorageError) as caught, state.open_for_writing(layout):
        pass
    assert str(layout.state) in (caught.value.hint or "")


def test_transaction_rolls_back(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        with pytest.raises(sqlite3.IntegrityError), state.transaction(database):
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (0,)
