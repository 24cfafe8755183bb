"""Files by content in the state: stored once, checked when they are read, and trees that name them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.core import StorageError
from ktx_cli.project import (
    Layout,
    ProjectCopy,
    SharedFiles,
    SharedTree,
    StateDatabase,
    copy_project,
    open_copy,
    open_for_writing,
    remove_old_copies,
    tree_id,
)

FILES = {"wiki/global/a.md": b"# a\n", "semantic-layer/shop/b.yaml": b"\0\xff", "ktx.yaml": b""}


class Counted:
    """A state that notes the contents that each statement stores or returns, in bytes."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self.sizes: list[int] = []

    @property
    def in_transaction(self) -> bool:
        return self._database.in_transaction

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        found = self._database.execute(sql, parameters)
        if not sql.startswith("SELECT"):
            return found
        rows = found.fetchall()
        self.sizes.append(size_of(rows))
        return SimpleNamespace(fetchall=lambda: rows, fetchone=lambda: next(iter(rows), None))

    def executemany(self, sql: str, rows: Iterable[Any]) -> Any:
        given = list(rows)
        self.sizes.append(size_of(given))
        return self._database.executemany(sql, given)


def size_of(rows: Iterable[Iterable[Any]]) -> int:
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes))


@pytest.fixture
def counted(database: StateDatabase) -> Counted:
    return Counted(database)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with open_for_writing(Layout(tmp_path)) as opened:
        yield opened


def test_a_tree_comes_back(database: StateDatabase, tmp_path: Path) -> None:
    files = SharedFiles(database, tmp_path / "cache")
    name = files.put_tree(FILES)
    assert name == tree_id(FILES) == tree_id(dict(reversed(FILES.items()))) != tree_id({**FILES, "ktx.yaml": b"\n"})
    tree = SharedTree(files, files.tree(name))
    assert {path: tree.read(path) for path in tree.paths("")} == FILES
    assert tree.paths("wiki/") == ["wiki/global/a.md"] and tree.read("wiki/none.md") is None


def test_a_content_is_stored_once(database: StateDatabase) -> None:
    files = SharedFiles(database)
    for _ in range(2):
        files.put(f"{number}".encode() for number in range(500))
        assert database.execute("SELECT count(*) FROM shared_files").fetchone()[0] == 500


MANY = {f"wiki/global/page{number}.md": f"# {number}\n".encode() for number in range(500)}
LARGE = {f"raw-sources/docs/{number}.pdf": bytes([number]) * 6_000_000 for number in range(5)}


def test_a_statement_stores_and_returns_a_limited_size(counted: Counted) -> None:
    files = SharedFiles(counted)
    names = files.tree(files.put_tree(LARGE))
    assert {name: len(content) for name, content in files.get_many(names.values())}.keys() == set(names.values())
    assert 6_000_000 < max(counted.sizes) <= 16_000_000 and sum(counted.sizes) > 60_000_000


@pytest.mark.parametrize("cache", [None, "cache"])
def test_many_files_take_a_few_statements(counted: Counted, tmp_path: Path, cache: str | None) -> None:
    (tmp_path / "ktx.yaml").touch()
    files = SharedFiles(counted, None if cache is None else tmp_path / cache)
    names = files.tree(files.put_tree(MANY))
    assert len(counted.sizes) < 10, "to store them"
    counted.sizes.clear()
    copy = copy_project(Layout(tmp_path), Layout(tmp_path / ".ktx/copies/a"), names, files, lambda _: None)
    copy.close()
    assert (copy.layout.root / "wiki/global/page7.md").read_text() == "# 7\n"
    assert len(counted.sizes) < 10, "to copy them"
    counted.sizes.clear()
    tree = SharedTree(files, names)
    assert {path: tree.read(path) for path in tree.paths("")} == MANY
    assert len(counted.sizes) < 10, "to read them"
    assert cache is None or counted.sizes == []


def test_reading_a_file_reads_no_large_ones_with_it(counted: Counted) -> None:
    files = SharedFiles(counted)
    names = files.tree(files.put_tree(LARGE | {"raw-sources/docs/readme.md": b"x"}))
    counted.sizes.clear()
    assert SharedTree(files, names).read("raw-sources/docs/1.pdf") == LARGE["raw-sources/docs/1.pdf"]
    assert sum(counted.sizes) == 6_000_000


def test_a_file_can_be_read_beside_a_missing_or_forged_one(database: StateDatabase, tmp_path: Path) -> None:
    files = SharedFiles(database, tmp_path / "cache")
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    files.put((b"a",))
    missing = SharedFiles.name_of(b"b")
    tree = SharedTree(files, {"x/a": SharedFiles.name_of(b"a"), "x/b": missing, "x/c": f"../../../{outside}"})
    assert tree.read("x/a") == b"a"
    for path in ("x/b", "x/c"):
        with pytest.raises(StorageError):
            tree.read(path)
    with pytest.raises(StorageError, match="has no file"):
        list(files.get_many((SharedFiles.name_of(b"a"), missing)))


def test_a_damaged_or_missing_content_is_an_error(database: StateDatabase, tmp_path: Path) -> None:
    files = SharedFiles(database, tmp_path / "cache")
    files.put((b"content",))
    name = hashlib.sha256(b"content").hexdigest()
    assert files.get(name) == b"content"
    (tmp_path / "cache" / name[:2] / name).write_bytes(b"planted")
    assert files.get(name) == b"content", "a damaged copy on this host does not count"
    database.execute("UPDATE shared_files SET content = ?", (b"planted",))
    (tmp_path / "cache" / name[:2] / name).unlink()
    with pytest.raises(StorageError, match="has no file"):
        files.get(name)


def test_what_nobody_uses_is_dropped(database: StateDatabase) -> None:
    files = SharedFiles(database)
    files.put((b"old", b"new"))
    database.execute("UPDATE shared_files SET used = '2020-01-01T00:00:00Z'")
    files.put((b"new",))
    assert files.drop_unused() == 1
    assert files.get(hashlib.sha256(b"new").hexdigest()) == b"new"


def test_a_published_snapshot_is_kept_however_old_it_is(database: StateDatabase) -> None:
    files = SharedFiles(database)
    files.put((b"old", b"statuses"))
    tree = files.put_tree(FILES)
    row = ("served", tree, SharedFiles.name_of(b"statuses"), "c0ffee", "2020-01-01T00:00:00Z", "host")
    database.execute("INSERT INTO published VALUES (?, ?, ?, ?, ?, ?)", row)
    database.execute("UPDATE shared_files SET used = '2020-01-01T00:00:00Z'")
    assert files.drop_unused() == 1
    assert {path: files.get(name) for path, name in files.tree(tree).items()} == FILES
    assert files.get(SharedFiles.name_of(b"statuses")) == b"statuses"


def test_copies_that_this_host_does_not_use_are_dropped(database: StateDatabase, tmp_path: Path) -> None:
    files = SharedFiles(database, tmp_path / "cache")
    files.put((b"old", b"new"))
    for content in (b"old", b"new"):
        name = SharedFiles.name_of(content)
        files.get(name)
        os.utime(tmp_path / "cache" / name[:2] / name, (0, 0))
    files.get(SharedFiles.name_of(b"new"))
    files.drop_unused_copies()
    assert [path.read_bytes() for path in (tmp_path / "cache").glob("*/*")] == [b"new"]
    assert files.get(SharedFiles.name_of(b"old")) == b"old"


def made_copy(own: Path, database: StateDatabase, number: int) -> ProjectCopy:
    """Make the copy with a number, last used that many minutes after the first one."""
    files = SharedFiles(database)
    (own / "ktx.yaml").touch()
    names = files.tree(files.put_tree({"ktx.yaml": b"", "wiki/global/a.md": f"# {number}\n".encode()}))
    layout = Layout(Layout(own).private / "copies" / f"{number:x}")
    copy = copy_project(Layout(own), layout, names, files, lambda _: None)
    os.utime(copy.layout.root, (60 * number, 60 * number))
    return copy


def test_old_copies_are_removed_unless_they_are_in_use(database: StateDatabase, tmp_path: Path) -> None:
    copies = [made_copy(tmp_path, database, number) for number in range(1, 7)]
    folder = copies[0].layout.root.parent
    for copy in copies[1:]:
        copy.close()
    remove_old_copies(folder)
    assert sorted(each.name for each in folder.iterdir()) == ["1", "4", "5", "6"]
    assert (copies[0].layout.root / "wiki/global/a.md").read_text() == "# 1\n"
    copies[0].close()
    remove_old_copies(folder)
    assert sorted(each.name for each in folder.iterdir()) == ["4", "5", "6"]


def test_a_copy_that_is_opened_again_is_not_the_oldest(database: StateDatabase, tmp_path: Path) -> None:
    copies = [made_copy(tmp_path, database, number) for number in range(1, 5)]
    for copy in copies:
        copy.close()
    again = open_copy(copies[0].layout)
    assert again is not None
    again.close()
    folder = copies[0].layout.root.parent
    (folder / ".removed-0").mkdir()  # of a process that was killed
    remove_old_copies(folder)
    assert sorted(each.name for each in folder.iterdir()) == ["1", "3", "4"]
    assert open_copy(copies[1].layout) is None
    made_copy(tmp_path, database, 2).close()
    assert (copies[1].layout.root / "wiki/global/a.md").read_text() == "# 2\n"
