from __future__ import annotations

import hashlib
import os
import sqlite3
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


def test_after_writing_only_one_file_is_left_and_git_ignores_it(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'done', 't')")
    assert sorted(tree(layout.root)) == [".ktx/.gitignore", ".ktx/state.sqlite"]
    assert layout.private_gitignore.read_text() == "*\n"


def test_reading_changes_no_file(layout: Layout) -> None:
    with state.open_for_reading(layout) as database:
        assert database is None
    assert tree(layout.root) == {}
    with state.open_for_writing(layout):
        pass
    before = tree(layout.root)
    with state.open_for_reading(layout) as database:
        assert database is not None
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    assert tree(layout.root) == before


def test_reading_beside_a_writer_sees_its_rows_and_changes_nothing(layout: Layout) -> None:
    with state.open_for_writing(layout) as writer:
        writer.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'running', 't')")
        before = tree(layout.root)
        with state.open_for_reading(layout) as database:
            assert database is not None
            assert database.execute("SELECT status FROM runs").fetchone() == ("running",)
        assert tree(layout.root) == before


def test_reading_what_a_killed_writer_left(layout: Layout) -> None:
    pid = os.fork()
    if pid == 0:
        with state.open_for_writing(layout) as database:
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'running', 't')")
            os._exit(0)
    os.waitpid(pid, 0)
    before = tree(layout.root)
    assert ".ktx/state.sqlite-wal" in before
    with state.open_for_reading(layout) as database:
        assert database is not None
        assert database.execute("SELECT run_id FROM runs").fetchone() == ("r",)
    assert tree(layout.root) == before


def test_migrations_bring_every_older_database_forward(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with state.open_for_writing(layout):
        pass
    monkeypatch.setattr(state, "MIGRATIONS", (*state.MIGRATIONS, "CREATE TABLE later (x INTEGER)"))
    with state.open_for_reading(layout) as database:
        assert database is None, "an older form is not read as if it were the newest"
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO later VALUES (1)")
    with state.open_for_reading(layout) as database:
        assert database is not None


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
