from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project import git
from ktx_cli.project.repository import index as lock

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"
ODD_NAMES = [
    "with space.yaml",
    " leading space.yaml",
    'quo"te.yaml',
    "back\\slash.yaml",
    "emoji-😀/ü.yaml",
    "-dash.yaml",
    "--help",
    "line\nbreak.yaml",
    "tab\there.yaml",
    ":colon.yaml",
    ":(glob)**/magic.yaml",
    "star*[a]?.yaml",
    "wiki/#hash !bang.md",
    "bytes-\udcff.yaml",
]


def test_one_commit_with_message_reflog_and_only_our_paths(work: Any) -> None:
    before = work.head
    result = work.commit({ORDERS: b"new\n", "wiki/a.md": b"# a\n"}, message="ktx ingest: shop\n\nKtx-Run: 1\n")
    assert result.committed == (ORDERS, "wiki/a.md") and result.commit == work.head
    assert work.git("rev-list", f"{before}..HEAD").split() == [result.commit]
    assert work.git("log", "-1", "--format=%B").rstrip("\n") == "ktx ingest: shop\n\nKtx-Run: 1"
    assert work.names() == [ORDERS, "wiki/a.md"]
    for log in ("HEAD@{0}", "main@{0}"):
        assert "commit (ktx): ktx ingest: shop" in work.git("reflog", "show", "-1", log)
    assert (work.root / ".ktx/.gitignore").read_bytes() == b"*\n"
    work.assert_clean()
    assert work.leftovers() == []
    work.git("fsck", "--strict")


def test_no_change_is_no_commit_and_touches_nothing(work: Any) -> None:
    index = (work.top / ".git/index").stat().st_mtime_ns
    called: list[int] = []
    result = work.repo.commit(
        {ORDERS: b"name: orders\n", "none": None}, message="m", base=work.head, before_publish=lambda: called.append(1)
    )
    assert result.commit is None and result.committed == () and not called
    assert (work.top / ".git/index").stat().st_mtime_ns == index
    assert not (work.root / ".ktx").exists()


def test_deletion_removes_folders_that_became_empty(work: Any) -> None:
    (work.root / "semantic-layer/kept").mkdir()
    work.commit({ORDERS: None, ITEMS: None})
    assert not (work.root / "semantic-layer/shop").exists()
    assert (work.root / "semantic-layer/kept").is_dir()
    work.assert_clean()


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o640, 0o600])
def test_modes_are_kept(work: Any, mode: int) -> None:
    (work.root / ORDERS).chmod(mode)
    work.user_commit() if mode & 0o100 else None
    work.commit({ORDERS: b"new\n"})
    assert stat.S_IMODE((work.root / ORDERS).stat().st_mode) == mode
    assert work.git("ls-tree", "HEAD", ORDERS).startswith("100755" if mode & 0o100 else "100644")
    work.assert_clean()


@pytest.mark.parametrize("autocrlf", ["false", "true"])
def test_any_name_git_allows(work: Any, autocrlf: str) -> None:
    work.git("config", "core.autocrlf", autocrlf)
    names = tuple(sorted(ODD_NAMES))
    assert work.commit(dict.fromkeys(names, b"1\n")).committed == names
    assert work.commit({name: name.encode("utf-8", "replace") + b"\n" for name in names}).committed == names
    tree = work.repo.tree(work.head)
    for name in names:
        content = name.encode("utf-8", "replace") + b"\n"
        assert tree.read(name) == content
        assert work.read(name) == (content.replace(b"\n", b"\r\n") if autocrlf == "true" else content)
    work.assert_clean()
    work.write(names[0], "mine\n")
    assert [held.path for held in work.commit(dict.fromkeys(names)).held] == [names[0]]
    assert not any((work.root / name).exists() for name in names[1:])


@pytest.mark.slow
def test_a_thousand_files_at_once(work: Any) -> None:
    changes: dict[str, bytes | None] = {f"semantic-layer/big/t{n // 50}/{n}.yaml": b"n: %d\n" % n for n in range(1000)}
    result = work.commit(changes)
    assert len(result.committed) == 1000
    work.assert_clean()
    tree = work.repo.tree(work.head)
    assert tree.read_many(changes) == changes
    gone = work.commit(dict.fromkeys(changes))
    assert len(gone.committed) == 1000 and not (work.root / "semantic-layer/big").exists()
    work.assert_clean()


def test_ignored_paths_are_written_not_committed_and_named(work: Any) -> None:
    work.write(".gitignore", "raw-sources/\n*.log\n/wiki/*\n!/wiki/kept.md\n")
    work.git("add", "-f", ".gitignore")
    work.write("tracked.log", "t\n")
    work.git("add", "-f", "tracked.log")
    work.git("commit", "-q", "-m", "ignore")
    work.write("raw-sources/old.json", "old\n")
    new: dict[str, bytes | None] = dict.fromkeys(
        ("raw-sources/a.json", "raw-sources/old.json", "tracked.log", "wiki/kept.md", "wiki/out.md"), b"new\n"
    )
    result = work.commit(new)
    assert result.ignored == ("raw-sources/a.json", "raw-sources/old.json", "wiki/out.md")
    assert result.committed == ("tracked.log", "wiki/kept.md")
    assert all(work.read(name) == b"new\n" for name in new)
    work.assert_clean()
    only = work.commit({"raw-sources/a.json": b"newer\n"})
    assert only.commit is None and only.ignored == ("raw-sources/a.json",)
    assert work.read("raw-sources/a.json") == b"newer\n"
    assert work.leftovers() == []


def test_ignored_by_info_exclude_and_global_excludes(work: Any, home: Path) -> None:
    (work.top / ".git/info").mkdir()
    (work.top / ".git/info/exclude").write_text("one.md\n")
    (home / "xdg/git").mkdir(parents=True)
    (home / "xdg/git/ignore").write_text("two.md\n")
    assert work.commit({"one.md": b"1", "two.md": b"2", "three.md": b"3"}).ignored == ("one.md", "two.md")


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", ".git/config", "a/.GIT/hooks", "git~1/x", "nul\0"],
)
def test_paths_that_are_refused(work: Any, path: str) -> None:
    with pytest.raises(GitError):
        work.commit({path: b"x"})
    for private in (".ktx/x", ".KTX/journal.json"):
        with pytest.raises(GitError, match=r"under \.ktx"):
            work.commit({private: b"x"})
    assert work.leftovers() == []


def test_a_file_and_its_folder_at_once_are_refused_and_ktx_gitignore_is_allowed(work: Any) -> None:
    with pytest.raises(GitError, match="folder of"):
        work.commit({"a": b"", "a/b": b""})
    assert work.commit({".ktx/.gitignore": b"*\n"}).held + work.commit({"b": b""}).held == ()


def test_what_before_publish_raises_leaves_nothing_behind(work: Any) -> None:
    head, index, status = work.head, work.index(), work.status()

    def lost() -> None:
        assert (work.top / ".git/index.lock").exists()
        raise BusyError("another run took over")

    with pytest.raises(BusyError, match="took over"):
        work.repo.commit({ORDERS: b"n\n", "new/a.md": b"n\n"}, message="m", base=head, before_publish=lost)
    assert (work.head, work.index(), work.status()) == (head, index, status)
    assert not (work.root / "new").exists() and not (work.root / ".ktx").exists()
    assert work.leftovers() == []


def test_a_lock_of_another_git_is_waited_for_and_named(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.1)
    held = work.top / ".git/index.lock"
    held.write_bytes(b"")
    with pytest.raises(BusyError) as caught:
        work.commit({ORDERS: b"n\n"})
    assert str(held) in caught.value.message and f"rm {held}" in (caught.value.hint or "")
    assert held.exists()
    held.unlink()
    assert work.commit({ORDERS: b"n\n"}).commit
    assert work.leftovers() == []


def test_a_lock_that_was_taken_away_is_noticed_and_the_next_run_finishes(work: Any) -> None:
    def take_away() -> None:
        (work.top / ".git/index.lock").unlink()
        work.write("mine.txt", "m")
        work.git("add", "mine.txt")

    with pytest.raises(BusyError, match="was removed while") as caught:
        work.repo.commit({ORDERS: b"n\n"}, message="m", base=work.head, before_publish=take_away)
    assert caught.value.details["commit"] == work.head
    assert work.repo.recover().finished == (ORDERS,)
    assert [line.rpartition(" ")[2] for line in work.status()] == ["mine.txt"]
    assert work.leftovers() == []


def test_a_lock_of_the_branch_is_named(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_OPTIONS", (*git._OPTIONS, "-c", "core.filesRefLockTimeout=50"))
    held = work.top / ".git/refs/heads/main.lock"
    held.write_bytes(b"")
    head, status = work.head, work.status()
    with pytest.raises(BusyError) as caught:
        work.commit({ORDERS: b"n\n"})
    assert str(held) in caught.value.message
    assert (work.head, work.status()) == (head, status)
    held.unlink()
    assert work.leftovers() == []


def test_a_base_that_does_not_exist_is_an_error(work: Any) -> None:
    with pytest.raises(GitError):
        work.commit({ORDERS: b"n\n"}, base="0" * 39 + "1")
    assert work.leftovers() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"new.md": b"", "a/b/c/d.md": b"deep\n", "semantic-layer/shop/orders.yaml": b"other\n"},
        {"semantic-layer/shop/orders.yaml": None, "semantic-layer/shop/items.yaml": None},
        {"semantic-layer/shop/orders.yaml": None, "semantic-layer/shop/items.yaml": None, "semantic-layer": b"file\n"},
        {"README.md": None, "README.md/now a folder.md": b"x\n"},
        {"README.md": None, "semantic-layer/shop/items.yaml": None, "semantic-layer/shop/orders.yaml": None},
        {"none.md": None, "semantic-layer": None, "README.md/none.md": None, "none/none.md": None, "x.md": b"x\n"},
        {"semantic-layer.md": b"1\n", "semantic-layer-2": b"2\n", "semantic-layer0/\udcff \n.md": b"3\n"},
        {f"many/{size}.md": b"x" * size for size in (0, 1, 15, 16, 17, 2047, 2048, 262_143, 262_144)},
        {f"many/{number % 7}/{number}.md": b"%d\n" % number for number in range(150)},
    ],
    ids=["add", "remove", "file for folder", "folder for file", "all", "nothing there", "order", "sizes", "many"],
)
def test_the_tree_is_the_one_git_s_index_makes(work: Any, changes: dict[str, bytes | None]) -> None:
    made = work.repo.propose(changes, ref="refs/heads/side", base=work.head, message="m")
    index = {"GIT_INDEX_FILE": str(work.top / ".git/other")}
    work.git("read-tree", "HEAD", **index)
    for path, content in sorted(changes.items(), key=lambda change: change[1] is not None):
        if content is None:
            work.git("update-index", "-z", "--index-info", stdin=f"0 {'0' * 40}\t{path}\0".encode(), **index)
        else:
            oid = work.git("hash-object", "--stdin", stdin=content).strip()
            line = f"100644 {oid}\t{path}\0".encode("utf-8", "surrogateescape")
            work.git("update-index", "-z", "--index-info", stdin=line, **index)
    assert work.git("rev-parse", f"{made}^{{tree}}") == work.git("write-tree", **index)
    assert work.git("fsck", "--strict", "--full") == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"semantic-layer": b"x\n"},
        {"README.md/x.md": b"x\n"},
        {"a/.git::$INDEX_ALLOCATION/x.md": b"x\n"},
        {"a/.git . /x.md": b"x\n"},
        {"GIT~1:x": b"x\n"},
        {"a\\.git\\x.md": b"x\n"},
        {"a/.g\u200cit/x.md": b"x\n"},
    ],
)
def test_a_tree_that_git_would_not_make_is_not_made(work: Any, changes: dict[str, bytes | None]) -> None:
    with pytest.raises(GitError):
        work.repo.propose(changes, ref="refs/heads/side", base=work.head, message="m")
    assert work.repo.commit_at("refs/heads/side") is None
    assert work.leftovers() == []
