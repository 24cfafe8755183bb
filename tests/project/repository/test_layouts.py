from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, GitError, GitMissingError, StorageError
from ktx_cli.project.git import find_git
from ktx_cli.project.repository.history import _stored
from ktx_cli.project.repository.model import Head
from ktx_cli.project.repository.store import Repository

ORDERS = "semantic-layer/shop/orders.yaml"


def test_no_repository_is_none(tmp_path: Path) -> None:
    assert Repository.discover(tmp_path) is None


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none"):
        Repository.discover(tmp_path / "none")


def test_create_makes_an_unborn_main_and_changes_no_other_repository(tmp_path: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("")
    repo = Repository.create(tmp_path)
    assert repo.head() == Head("refs/heads/main", None)
    assert Repository.create(tmp_path).layout == repo.layout


def test_create_follows_init_default_branch(tmp_path: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("[init]\ndefaultBranch = trunk\n")
    assert Repository.create(tmp_path).head().ref == "refs/heads/trunk"


def test_unborn_branch(empty: Any) -> None:
    result = empty.commit({"a/b.yaml": b"x: 1\n", "c.md": b"hi\n"}, base=None)
    assert result.committed == ("a/b.yaml", "c.md")
    assert empty.git("rev-list", "--count", "HEAD") == "1\n"
    empty.assert_clean()
    assert empty.leftovers() == []


def test_unborn_branch_with_files_of_the_user_staged_and_untracked(empty: Any) -> None:
    empty.write("staged.txt", "s")
    empty.git("add", "staged.txt")
    empty.write("a.yaml", "mine\n")
    result = empty.commit({"a.yaml": b"ours\n", "b.yaml": b"ours\n"}, base=None)
    assert result.committed == ("b.yaml",)
    assert [(held.path, held.reason) for held in result.held] == [("a.yaml", "untracked")]
    assert empty.names() == ["b.yaml"]
    assert [line.split(" ")[0] + line.rpartition(" ")[2] for line in empty.status()] == ["1staged.txt", "?a.yaml"]


def test_sha256(tmp_path: Path, work: Any) -> None:
    other = type(work)(tmp_path / "sha256")
    other.top.mkdir()
    other.git("init", "-q", "--template=", "--object-format=sha256")
    first = other.commit({"a.yaml": b"1\n", "old.yaml": b"o\n"}, base=None)
    second = other.commit({"a.yaml": b"2\n", "old.yaml": None})
    assert first.commit is not None and len(first.commit) == 64
    assert second.committed == ("a.yaml", "old.yaml")
    assert other.repo.layout.object_format == "sha256"
    assert other.repo.tree(first.commit).read("a.yaml") == b"1\n"
    other.assert_clean()
    other.git("fsck", "--strict")


def test_linked_worktree(work: Any, tmp_path: Path) -> None:
    work.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = type(work)(tmp_path / "side")
    assert [repo.layout.git_dir == repo.layout.common_dir for repo in (side.repo, work.repo)] == [False, True]
    assert side.commit({ORDERS: b"new\n"}).committed == (ORDERS,)
    side.assert_clean()
    work.assert_clean()
    assert work.read(ORDERS) == b"name: orders\n"
    assert side.leftovers() == []


@pytest.mark.parametrize("prefix", ["analytics/ktx", "-dash dir", "übung"])
def test_host_repository(work: Any, prefix: str) -> None:
    host = type(work)(work.top, prefix)
    host.write("wiki/a.md", "a\n")
    work.user_commit()
    work.write("README.md", "changed by the user\n")
    repo = host.repo
    assert repo.layout.is_host and repo.layout.prefix == prefix + "/"
    result = host.commit({"wiki/a.md": b"b\n", "wiki/new.md": b"n\n"})
    assert result.committed == ("wiki/a.md", "wiki/new.md")
    assert work.names() == [f"{prefix}/wiki/a.md", f"{prefix}/wiki/new.md"]
    assert len(work.status()) == 1 and "README.md" in work.status()[0]
    assert list(repo.tree(host.head).blobs()) == ["wiki/a.md", "wiki/new.md"]
    assert repo.tree(host.head).read("wiki/a.md") == b"b\n"


def test_a_project_behind_a_symbolic_link_is_the_real_one(work: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(work.top)
    repo = Repository.discover(tmp_path / "link")
    assert repo is not None and repo.layout.project_dir == work.top


def test_detached_head_is_refused_and_read(work: Any) -> None:
    work.git("checkout", "-q", "--detach")
    assert work.repo.head().ref is None
    with pytest.raises(GitError) as caught:
        work.repo.check_writable()
    assert "git switch" in (caught.value.hint or "")
    with pytest.raises(GitError):
        work.commit({"a": b"x"})
    assert work.leftovers() == []


def test_bare(tmp_path: Path, work: Any) -> None:
    work.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    repo = Repository.discover(tmp_path / "bare")
    assert repo is not None
    with pytest.raises(GitError, match="bare"):
        repo.check_writable()


def _conflicting(work: Any) -> None:
    work.git("switch", "-q", "-c", "side")
    work.write(ORDERS, "side\n")
    work.user_commit()
    work.git("switch", "-q", "main")
    work.write(ORDERS, "main\n")
    work.user_commit()


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (("merge", "side"), "a merge"),
        (("rebase", "side"), "a rebase"),
        (("rebase", "--apply", "side"), "a rebase"),
        (("cherry-pick", "side"), "a cherry-pick"),
        (("revert", "HEAD~1"), "a revert"),
    ],
)
def test_an_operation_in_progress_is_refused_and_undisturbed(
    work: Any, operation: tuple[str, ...], name: str, digest: Callable[[Path], str]
) -> None:
    _conflicting(work)
    work.git(*operation, ok=False, GIT_EDITOR="true")
    before = digest(work.top)
    with pytest.raises(GitError, match=name) as caught:
        work.commit({"semantic-layer/shop/items.yaml": b"x\n"})
    assert "--abort" in (caught.value.hint or "")
    assert digest(work.top) == before


def test_bisect_is_refused(work: Any) -> None:
    work.git("bisect", "start")
    with pytest.raises(GitError, match="bisection"):
        work.repo.check_writable()


def test_another_owner_is_git_s_own_error_with_the_command(work: Any) -> None:
    for path in [work.top, *work.top.rglob("*")]:
        os.chown(path, 12345, 12345)
    with pytest.raises(GitError) as caught:
        Repository.discover(work.top)
    assert "belongs to another user" in caught.value.message
    assert caught.value.hint == f"git config --global --add safe.directory {work.top}"


def test_a_git_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(GitError, match="does not recognize it"):
        Repository.discover(tmp_path)


def test_a_worktree_whose_repository_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    with pytest.raises(GitError) as caught:
        Repository.discover(tmp_path)
    assert "\n" not in caught.value.details["reason"]


def test_a_broken_branch_is_not_an_unborn_one(work: Any) -> None:
    (work.top / ".git/refs/heads/main").write_text("garbage\n")
    with pytest.raises(GitError):
        work.repo.head()


def test_reading_writes_nothing(work: Any, digest: Callable[[Path], str]) -> None:
    os.utime(work.top / ORDERS)  # stat data in the index is old: a `git status` would refresh it
    before = digest(work.top)
    repo = work.repo
    repo.check_writable()
    tree = repo.tree(repo.head().commit)
    assert tree.read_many([ORDERS, "none"]) == {ORDERS: b"name: orders\n"}
    assert list(tree.blobs("semantic-layer/shop")) == ["semantic-layer/shop/items.yaml", ORDERS]
    assert tree.blobs("semantic-layer/sho") == {} and tree.read("none") is None
    assert repo.tree(None).blobs() == {}
    assert repo.recover().finished == ()
    assert digest(work.top) == before


def test_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitMissingError) as caught:
        Repository.discover(tmp_path)
    assert "install git" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo git version 2.30.9", "2.30.9"), ("echo no >&2; exit 3", "no"), ("echo what", "version")],
)
def test_a_git_that_cannot_be_used(tmp_path: Path, script: str, message: str) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    with pytest.raises(GitMissingError, match=message):
        find_git(str(tmp_path))


def test_the_binary_s_version_is_compared_by_number(tmp_path: Path) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho 'git version 2.100.1 (Apple Git-154)'\n")
    fake.chmod(0o755)
    assert find_git(str(tmp_path)).number == (2, 100)


@pytest.mark.parametrize(
    ("config", "variables", "author", "expected"),
    [
        ("", {}, None, "ktx <ktx@example.com> ktx <ktx@example.com>"),
        ("[user]\nname = A\nemail = a@x\n", {}, None, "A <a@x> A <a@x>"),
        ("[user]\nname = A\nemail = a@x\n", {}, "Bot <b@x>", "Bot <b@x> A <a@x>"),
        ("", {}, "Bot <b@x>", "Bot <b@x> Bot <b@x>"),
        ("[user]\nname = A\n", {}, None, "ktx <ktx@example.com> ktx <ktx@example.com>"),
        ("", {"GIT_AUTHOR_NAME": "E", "GIT_AUTHOR_EMAIL": "e@x"}, None, "E <e@x> E <e@x>"),
        ("[user]\nuseConfigOnly = true\n", {}, None, "ktx <ktx@example.com> ktx <ktx@example.com>"),
    ],
)
def test_identity(
    empty: Any,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    variables: dict[str, str],
    author: str | None,
    expected: str,
) -> None:
    (home / ".gitconfig").write_text(config)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    empty.repo.commit({"a": b"1"}, message="m", base=None, author=author)
    assert empty.git("log", "--format=%an <%ae> %cn <%ce>").strip() == expected


def test_an_author_that_is_none(empty: Any) -> None:
    with pytest.raises(ConfigError, match="Name <mail>"):
        empty.repo.commit({"a": b"1"}, message="m", base=None, author="just a name")
    assert empty.leftovers() == []


def test_variables_of_a_calling_git(work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GIT_DIR": str(tmp_path / "other"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_GLOB_PATHSPECS": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_TRACE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert work.repo.layout.top_level == work.top
    result = work.repo.commit({ORDERS: b"n\n"}, message="m", base=work.repo.head().commit)
    assert result.committed == (ORDERS,)


def test_a_reader_has_a_session_of_its_own_and_one_that_was_ended_starts_again(empty: Any) -> None:
    result = empty.commit({"a.yaml": b"x: 1\n", "b.yaml": b"y: 2\n"}, base=None)
    tree = empty.repo.tree(result.commit)
    assert tree.read("a.yaml") == b"x: 1\n"
    process = empty.repo._git._reader._process
    assert os.getsid(process.pid) != os.getsid(0)
    process.kill()
    process.wait()
    assert (tree.read("a.yaml"), tree.read("b.yaml")) == (b"x: 1\n", b"y: 2\n")
    with pytest.raises(GitError, match="cannot read the object"):
        _stored(empty.repo._git, "0" * 40)
    assert tree.read("b.yaml") == b"y: 2\n"


def test_one_question_about_the_repository_and_one_reader_of_its_objects(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, counting = tmp_path / "log", tmp_path / "git"
    counting.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {find_git().path} "$@"\n')
    counting.chmod(0o755)
    monkeypatch.setenv("KTX_GIT_BIN", str(counting))
    repo = Repository.discover(work.root)
    assert repo is not None
    for _ in range(3):
        repo.check_writable()
        tree = repo.tree(repo.head().commit)
        assert tree.read(ORDERS) == b"name: orders\n"
        assert tree.commit is not None and repo.parent_of(tree.commit) is None
    calls = log.read_text().splitlines()
    assert [next(word for word in call.split() if word in ("version", "rev-parse", "cat-file")) for call in calls] == [
        "version",
        "rev-parse",
        "cat-file",
    ]


@pytest.mark.parametrize(
    "commands",
    [
        ["commit -q --allow-empty -m next"],
        ["pack-refs --all", "commit -q --allow-empty -m next", "pack-refs --all"],
        ["commit -q --allow-empty -m next", "gc -q --prune=now", "reset -q --hard HEAD~1"],
        ["checkout -q -b side", "commit -q --allow-empty -m next"],
        ["branch -q -m other"],
        ["symbolic-ref refs/heads/alias refs/heads/main", "symbolic-ref HEAD refs/heads/alias"],
        ["symbolic-ref HEAD refs/heads/unborn"],
        ["checkout -q --detach"],
        ["branch -q side", "worktree add -q ../linked side"],
    ],
    ids=" and ".join,
)
def test_head_is_where_others_moved_it(work: Any, commands: list[str]) -> None:
    before = work.head
    for command in commands:
        work.git(*command.split())
        ref = work.git("symbolic-ref", "--quiet", "HEAD", ok=False).strip() or None
        commit = work.git("rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok=False).strip() or None
        assert work.repo.head() == Head(ref, commit)
    assert work.repo.commit_at(before) == before


def test_a_tree_has_what_git_lists(work: Any) -> None:
    work.write("run.sh", "x\n").chmod(0o755)
    work.write("a/b.md", "1\n")
    work.write("a.b/übung \n.md", "2\n")
    work.write("a-b", b"\0\n")
    (work.top / "link").symlink_to("run.sh")
    work.user_commit()
    blob = work.git("rev-parse", "HEAD:README.md").strip()
    lines = work.git("ls-tree", "-z", "HEAD").encode("utf-8", "surrogateescape")
    submodule = f"160000 commit {work.head}\tmodule\0".encode()
    tree = work.git("mktree", "-z", stdin=lines + submodule).strip()
    raw = bytes.fromhex(blob)
    odd = work.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=b"100664 odd.md\0" + raw).strip()
    for found in (tree, odd):
        commit = work.git("commit-tree", found, "-m", "m").strip()
        listed = [line.split("\t", 1) for line in work.git("ls-tree", "-r", "-z", commit).split("\0") if line]
        entries = work.repo.tree(commit).entries
        assert [(path, f"{entry.mode} {entry.oid}") for path, entry in entries.items()] == [
            (path, f"{facts.split()[0]} {facts.split()[2]}") for facts, path in listed
        ]
