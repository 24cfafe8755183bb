from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project.repository import index, recovery

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"
CHANGES: dict[str, bytes | None] = {ORDERS: b"new\n", ITEMS: None, "wiki/new.md": b"fresh\n"}
STOPS = """
    index.IndexLock.copy_index commits.stage recovery.PendingCommit.save+ commits.publish+
    working_files._place:0+ working_files._place:1+ working_files._place:2+ recovery.refresh_index+
    index.IndexLock.swap+ commits.drop_pending index.IndexLock.release
""".split()  # noqa: SIM905
RECOVERY_STOPS = [
    "working_files._place:0+",
    "working_files._place:1+",
    "index.IndexLock.swap+",
    "recovery.drop_pending",
]

# Forks a run for every JSON line it reads, so that Python starts only once; prints how the run ended.
NURSERY = textwrap.dedent("""
    import importlib, json, os, signal, sys
    from pathlib import Path
    from ktx_cli.project import state
    from ktx_cli.project import Repository

    def stop_at(place):
        after = place.endswith("+")
        place, _, turn = place.rstrip("+").partition(":")
        module, *names = place.split(".")
        owner = importlib.import_module(f"ktx_cli.project.repository.{module}")
        for name in names[:-1]:
            owner = getattr(owner, name)
        original, calls = getattr(owner, names[-1]), []
        def stopped(*arguments, **named):
            calls.append(1)
            last = len(calls) > int(turn or 0)
            if last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments, **named)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        setattr(owner, names[-1], stopped)

    def run(top, what, place, environ):
        os.environ.update(environ)
        repo = Repository.discover(Path(top))
        base = repo.head().commit
        if place:
            stop_at(place)
        if what == "recover":
            repo.recover()
        else:
            changes = {"semantic-layer/shop/orders.yaml": b"new\\n", "semantic-layer/shop/items.yaml": None,
                       "wiki/new.md": b"fresh\\n"}
            def edit():
                if what == "edit":
                    Path(top, "semantic-layer/shop/orders.yaml").write_bytes(b"mine\\n")
            repo.commit(changes, message="ktx: killed", base=base, before_publish=edit)

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            print(os.getpid(), flush=True)
            run(*json.loads(line))
            os._exit(0)
        print(os.waitpid(pid, 0)[1], flush=True)
""")


class Nursery:
    """Runs that end at a given step."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, work: Any, what: str, place: str | None, **environ: str) -> int:
        assert self._process.stdin is not None
        request = [str(work.top), what, place, {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **environ}]
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def _killed(nursery: Nursery, work: Any, what: str, place: str) -> None:
    nursery.start(work, what, place)
    assert nursery.answer() == signal.SIGKILL


def _assert_done(work: Any) -> None:
    work.assert_clean()
    assert work.leftovers() == []
    for path, content in CHANGES.items():
        assert work.read(path) == work.show(path) == content
    assert not (work.root / "semantic-layer/shop/items.yaml").exists()
    work.git("fsck", "--strict")


@pytest.mark.parametrize("place", STOPS)
def test_killed_at_any_step_the_next_run_needs_no_hand(work: Any, nursery: Nursery, place: str) -> None:
    work.write("README.md", "dirty\n")
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")
    status, before = work.status(), work.head
    _killed(nursery, work, "commit", place)
    published = work.head != before
    found = work.repo.recover()
    assert work.leftovers() == []
    assert work.status() == status
    if published and found.commit:
        assert found.commit == work.head and not found.dropped
    assert work.commit(CHANGES).commit is None or not published
    assert work.git("rev-list", "--count", f"{before}..HEAD") == "1\n"
    assert work.status() == status
    work.git("checkout", "README.md")
    work.git("rm", "-q", "-f", "staged.txt")
    _assert_done(work)


@pytest.mark.parametrize("place", RECOVERY_STOPS)
def test_a_recovery_that_is_killed_is_done_again(work: Any, nursery: Nursery, place: str) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    _killed(nursery, work, "recover", place)
    work.repo.recover()
    _assert_done(work)
    assert work.repo.recover() == type(work.repo.recover())()


def test_a_killed_commit_is_finished_by_the_next_commit_too(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    assert work.commit({"more.yaml": b"m\n"}, base=None).committed == ("more.yaml",)
    _assert_done(work)


def test_what_the_user_did_after_the_kill_is_theirs(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    (work.top / ".git/index.lock").unlink()  # as git tells the user to
    work.write(ORDERS, "edited\n")
    work.write("wiki/new.md", "staged\n")
    work.git("add", "wiki/new.md")
    found = work.repo.recover()
    assert found.finished == (ITEMS, ORDERS) and found.left == (ORDERS, "wiki/new.md")
    assert work.read(ORDERS) == b"edited\n" and work.read("wiki/new.md") == b"staged\n"
    assert [line.split(" ")[1] for line in work.status()] == [".M", "M."]
    assert work.leftovers() == []


def test_a_file_edited_between_judging_and_the_kill_is_the_user_s(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "edit", "commits.publish+")
    assert work.repo.recover().left == (ORDERS,)
    assert work.read(ORDERS) == b"mine\n" and work.show(ORDERS) == b"new\n"
    assert [line.split(" ")[1] for line in work.status()] == [".M"]


def test_old_files_under_a_new_index_are_the_user_s(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    (work.top / ".git/index.lock").unlink()
    work.git("reset", "-q")
    assert work.repo.recover().left == (ITEMS, ORDERS, "wiki/new.md")
    assert work.read(ORDERS) == b"name: orders\n"


@pytest.mark.parametrize("undo", ["reset --hard HEAD~1", "commit -q --amend -m other", "switch -q -f -c side HEAD~1"])
def test_a_branch_that_went_elsewhere_after_the_kill(work: Any, nursery: Nursery, undo: str) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    (work.top / ".git/index.lock").unlink()
    if "amend" in undo:
        work.write("more.txt", "m")
        work.git("add", "more.txt")
    work.git(*undo.split())
    files = {path: work.read(path) for path in CHANGES}
    index = work.index()
    work.repo.recover()
    assert work.leftovers() == []
    assert {path: work.read(path) for path in CHANGES} == files and work.index() == index


def test_a_journal_that_cannot_be_read_loses_nothing(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    journal = work.root / ".ktx/journal.json"
    good = journal.read_text()
    hostile = {**json.loads(good), "written": ["../../outside"]}
    option = {**json.loads(good), "new": "--output=x"}
    newer = {**json.loads(good), "version": 2}
    bad = [json.dumps(data) for data in (hostile, option, newer, {"version": 1})]
    for text in ("", "{", "[]", good[:100], *bad):
        journal.write_text(text)
        for action in (work.repo.recover, lambda: work.commit({"x": b""})):
            with pytest.raises(GitError) as caught:
                action()
            assert str(journal) in caught.value.message and f"rm {journal}" in (caught.value.hint or "")
        assert journal.read_text() == text
    journal.write_text(good)
    work.repo.recover()
    _assert_done(work)


def test_a_child_of_a_run_killed_before_its_journal_is_waited_for_too(work: Any) -> None:
    with (work.top / ".git" / f"ktx-{'0' * 16}.marker").open("wb") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        os.link(marker.name, work.top / ".git/index.lock")
        child = subprocess.Popen(["sleep", "0.3"], pass_fds=(marker.fileno(),))
    work.repo.recover()
    assert work.leftovers() == []
    assert child.wait() == 0


@pytest.mark.parametrize("lock_is_left", [True, False])
def test_a_child_of_a_killed_run_is_waited_for(work: Any, nursery: Nursery, lock_is_left: bool) -> None:
    """The killed run's own git may move the branch after its death; judging before would leave index and files old."""
    hold = work.top / "hold"
    os.mkfifo(hold)
    slow = work.top.parent / "bin/git"  # outside of the repository: ktx runs no git that lies in it
    slow.parent.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True).stdout.strip()
    slow.write_text(f'#!/bin/sh\ncase "$*" in *update-ref*) : < {hold};; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    pid = nursery.start(work, "commit", None, PATH=path)
    while not (work.root / ".ktx/journal.json").exists():
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    assert nursery.answer() == signal.SIGKILL
    if not lock_is_left:
        (work.top / ".git/index.lock").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "WAIT_FOR_KTX_SECONDS", 0.2)
        with pytest.raises(BusyError):
            work.repo.recover()
    release = subprocess.Popen(["sh", "-c", f": > {hold}"])
    found = work.repo.recover()
    release.wait()
    assert found.commit == work.head and set(found.finished) == set(CHANGES)
    hold.unlink()
    _assert_done(work)


def test_locks_of_the_branch_are_removed_only_when_they_are_ours(work: Any, nursery: Nursery, monkeypatch: Any) -> None:
    monkeypatch.setattr(recovery, "LOCK_AGE_SECONDS", 0.3)
    _killed(nursery, work, "commit", "recovery.PendingCommit.save+")
    journal = work.root / ".ktx/journal.json"
    branch, head = work.top / ".git/refs/heads/main.lock", work.top / ".git/HEAD.lock"
    new = json.loads(journal.read_text())["new"]
    foreign = work.top / ".git/refs/heads/foreign.lock"
    foreign.write_text("")
    for lock_file, content, age, ours in (
        (branch, new + "\n", 500.0, True),
        (branch, "1" * 40 + "\n", 0.0, False),
        (head, "", 0.0, True),
        (head, "", -20.0, False),
        (head, "", 20.0, False),
        (head, "ref: refs/heads/x\n", 0.0, False),
    ):
        lock_file.write_text(content)
        stamp = journal.stat().st_mtime + age
        os.utime(lock_file, (stamp, stamp))
        text = journal.read_bytes()
        times = journal.stat()
        work.repo.recover()
        assert lock_file.exists() is not ours, (lock_file, content, age)
        lock_file.unlink(missing_ok=True)
        journal.write_bytes(text)
        os.utime(journal, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert foreign.exists()


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(work: Any) -> None:
    git_dir = work.top / ".git"
    dead = [git_dir / f"ktx-{'0' * 16}.{name}" for name in ("marker", "index", "index.lock", "tree")]
    orphan = git_dir / f"ktx-{'1' * 16}.index"
    foreign = git_dir / "ktx-notes.txt"
    for path in (*dead, orphan, foreign):
        path.write_bytes(b"")
    os.link(dead[0], git_dir / "index.lock")
    with index.hold_index(work.repo.layout) as held:
        assert not any(path.exists() for path in (*dead, orphan)) and foreign.exists()
        living = held.scratch("marker")
        assert index.clear_dead(work.repo.layout) == [] and living.exists()
    foreign.unlink()
    assert work.leftovers() == []


def test_temporary_files_beside_our_paths_go(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "commits.publish+")
    ours = work.write("semantic-layer/shop/.orders.yaml.0badcafe.ktx-tmp", "half")
    private = work.write(".ktx/.journal.json.0badcafe.ktx-tmp", "half")
    elsewhere = work.write("other/.x.0badcafe.ktx-tmp", "not beside one of our paths")
    work.repo.recover()
    assert not ours.exists() and not private.exists() and elsewhere.exists()


def test_recovery_of_converted_and_sparse_files(work: Any, nursery: Nursery) -> None:
    work.git("config", "core.autocrlf", "true")
    work.write("wiki/old.md", "o\n")
    work.user_commit()
    _killed(nursery, work, "commit", "commits.publish+")
    work.repo.recover()
    assert work.read(ORDERS) == b"new\r\n"
    work.assert_clean()
    assert Path(work.top / ".git/index").exists()


@pytest.mark.parametrize("place", ["commits.publish+", "working_files._place:1+", "index.IndexLock.swap+"])
def test_recovery_of_marked_files(work: Any, nursery: Nursery, place: str) -> None:
    work.git("update-index", "--skip-worktree", ORDERS)
    work.git("update-index", "--assume-unchanged", ITEMS)
    _killed(nursery, work, "commit", place)
    work.repo.recover()
    assert [line[0] for line in work.index() if line.endswith(ORDERS)] == ["S"]
    work.git("update-index", "--no-skip-worktree", ORDERS)
    assert work.status() == []
    _assert_done(work)


def test_a_lock_left_by_a_dead_run_is_told_from_all_others(work: Any, nursery: Nursery, digest: Any) -> None:
    index_lock = work.top / ".git/index.lock"
    assert work.repo.leftover_lock() is None
    _killed(nursery, work, "commit", "commits.publish+")
    before = digest(work.top)
    assert work.repo.leftover_lock() == index_lock
    assert digest(work.top) == before
    work.repo.recover()
    assert work.repo.leftover_lock() is None
    index_lock.write_bytes(b"")  # of another git
    assert work.repo.leftover_lock() is None
    index_lock.unlink()
    with index.hold_index(work.repo.layout) as held:
        assert held.lock.exists() and work.repo.leftover_lock() is None  # of a living run


def test_killed_before_the_last_steps_git_is_free(work: Any, nursery: Nursery) -> None:
    for place in ("index.IndexLock.copy_index", "commits.stage", "commits.Attempt._prepare+"):
        _killed(nursery, work, "commit", place)
        assert not (work.top / ".git/index.lock").exists()
        work.write("mine.txt", place)
        work.git("add", "mine.txt")
    work.repo.recover()
    assert work.leftovers() == []


def test_killed_after_the_index_is_swapped_git_is_free(work: Any, nursery: Nursery) -> None:
    _killed(nursery, work, "commit", "index.IndexLock.swap+")
    assert work.repo.leftover_lock() is None
    work.write("mine.txt", "m")
    work.git("add", "mine.txt")
    work.git("commit", "-qm", "the user's")
    assert work.names() == ["mine.txt"]
    work.repo.recover()
    _assert_done(work)
