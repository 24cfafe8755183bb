from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.core.errors import BusyError, ResultWarning, StorageError
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
from collections.abc import Callable
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


def test_a_newer_database_is_an_error_for_readers_too(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("PRAGMA user_version=99")
    before = tree(layout.root)
    with pytest.raises(StorageError, match="newer ktx") as caught:
        state.read_state(layout, run_ids)
    assert f"rm {layout.state}" in (caught.value.hint or "")
    assert tree(layout.root) == before


def garbage(content: bytes) -> bytes:
    return b"not a database at all, certainly not" * 100


def torn_page(content: bytes) -> bytes:
    return content[:4096] + bytes(range(256)) * 16 + content[8192:]


DAMAGES = [
    garbage,
    torn_page,
    lambda content: content[:50],
    lambda content: content[:100],
    lambda content: content[:4096],
    lambda content: content[: len(content) // 2],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_moved_aside_by_a_writer_alone(layout: Layout, damage: Callable[[bytes], bytes]) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 'done', 't')")
    damaged = damage(layout.state.read_bytes())
    layout.state.write_bytes(damaged)
    Path(f"{layout.state}-wal").write_bytes(b"")
    before = tree(layout.root)
    with contextlib.suppress(StorageError):  # not every damage shows to every question
        state.read_state(layout, run_ids)
    assert tree(layout.root) == before
    warnings: list[ResultWarning] = []
    with state.open_for_writing(layout, warnings.append) as database:
        assert run_ids(database) == []
    (warning,) = warnings
    assert warning.code == "state_damaged" and "rm " in (warning.hint or "")
    aside = Path(warning.details["path"])
    assert aside.name.startswith("state.sqlite.damaged-") and aside.read_bytes() == damaged
    assert set(tree(layout.private)) - {f"{aside.name}-wal"} == {".gitignore", "state.sqlite", aside.name}
    with state.open_for_writing(layout, warnings.append) as database:
        assert run_ids(database) == [] and len(warnings) == 1


def test_two_damages_in_the_same_second_keep_both_files(layout: Layout) -> None:
    asides = []
    for number in range(3):
        layout.private.mkdir(exist_ok=True)
        layout.state.write_bytes(b"damaged %d" % number * 100)
        with state.open_for_writing(layout, lambda warning: asides.append(Path(warning.details["path"]))):
            pass
    assert [aside.read_bytes()[:9] for aside in asides] == [b"damaged 0", b"damaged 1", b"damaged 2"]


HOLDER = """
import sys
from collections.abc import Callable
from pathlib import Path
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
with open_for_writing(Layout(Path(sys.argv[1]))) as database:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_damaged_database_another_run_has_open_stays(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LOCK_SECONDS", 0.1)
    with state.open_for_writing(layout):
        pass
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, layout.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "open\n"
        with layout.state.open("r+b") as stream:  # the same file, now broken under its user
            stream.write(garbage(b""))
        inode = layout.state.stat().st_ino
        with pytest.raises(BusyError, match="another process has it open"), state.open_for_writing(layout):
            pass
        assert layout.state.stat().st_ino == inode and not list(layout.private.glob("*damaged*"))
    warnings: list[ResultWarning] = []
    with state.open_for_writing(layout, warnings.append):
        assert len(warnings) == 1


def test_of_many_that_find_the_damage_at_once_one_moves_it(layout: Layout) -> None:
    script = WRITER.replace("range(60)", "range(3)").replace('f"{number:03}"', 'f"{sys.argv[2]}-{number}"')
    layout.private.mkdir()
    layout.state.write_bytes(garbage(b""))
    writers = [subprocess.Popen([sys.executable, "-c", script, layout.root, str(n)]) for n in range(6)]
    assert [writer.wait() for writer in writers] == [0] * 6
    assert len(state.read_state(layout, run_ids) or ()) == 18
    assert len(list(layout.private.glob("*.damaged-*"))) == 1


def test_a_database_another_run_has_put_in_its_place_stays(layout: Layout) -> None:
    layout.private.mkdir()
    layout.state.write_bytes(garbage(b""))
    seen = state.identity_of(layout.state)
    with state.open_for_writing(layout):
        pass
    new = layout.state.stat().st_ino
    assert state.move_aside(layout.state, seen) is None
    assert layout.state.stat().st_ino == new


def test_a_locked_database_is_not_taken_for_a_damaged_one() -> None:
    for code, damaged in (
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_IOERR_SHORT_READ, False),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_CANTOPEN, False),
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_CORRUPT_INDEX, True),
        (sqlite3.SQLITE_NOTADB, True),
    ):
        error = sqlite3.DatabaseError("x")
        error.sqlite_errorcode = code
        assert state.is_damage(error) is damaged
    assert not state.is_damage(sqlite3.ProgrammingError("no code"))


def test_transaction_rolls_back(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        with pytest.raises(sqlite3.IntegrityError), state.transaction(database):
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('r', 'c', 's', 't')")
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def modes(folder: Path) -> dict[str, int]:
    found = {"": folder, **{path.name: path for path in folder.iterdir()}}
    return {name: stat.S_IMODE(path.stat().st_mode) for name, path in found.items() if name != ".gitignore"}


def test_only_the_owner_may_look_into_what_a_run_keeps(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        with state.transaction(database):
            database.execute("INSERT INTO runs (run_id, command, status, started) VALUES ('1', 'x', 'done', 't')")
        assert modes(layout.private) == {
            "": 0o700, "state.sqlite": 0o600, "state.sqlite-wal": 0o600, "state.sqlite-shm": 0o600,
        }  # fmt: skip
    assert state.open_to_others(layout) == []


def test_what_is_open_to_others_is_closed_by_the_next_writing_run_alone(layout: Layout) -> None:
    with state.open_for_writing(layout):
        pass
    layout.runs.mkdir(mode=0o755)
    report = layout.runs / "1.json"
    report.touch(0o644)
    layout.private.chmod(0o755)
    layout.state.chmod(0o644)
    found = [layout.private, layout.runs, layout.state, report]
    assert state.open_to_others(layout) == found
    state.read_state(layout, run_ids)
    assert state.open_to_others(layout) == found, "reading changes nothing"
    with state.open_for_writing(layout):
        pass
    assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o700, 0o700, 0o600, 0o600]


def test_a_folder_its_owner_may_not_write_in_is_not_opened(layout: Layout) -> None:
    layout.private.mkdir()
    layout.private.chmod(0o555)
    with contextlib.suppress(StorageError):  # whoever may write everywhere can all the same
        state.prepare_private_folder(layout)
    assert stat.S_IMODE(layout.private.stat().st_mode) == 0o500
    layout.private.chmod(0o700)
