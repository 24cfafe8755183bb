from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project.merge import Conflict
from ktx_cli.project.repository import commits
from ktx_cli.project.repository.commit_plan import merge_lines
from ktx_cli.project.repository.model import Held, HeldReason

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"
LINES = b"".join(b"line %d\n" % n for n in range(9))


def _lines(**changed: bytes) -> bytes:
    return b"".join(changed.get(f"l{n}", b"line %d\n" % n) for n in range(9))


def merging(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | Conflict | None:
    if base is None or ours is None or theirs is None:
        return Conflict(path, "", "deleted on one side")
    merged = merge_lines(base, ours, theirs)
    return Conflict(path, "", "lines") if merged is None else merged


def _move_by_plumbing(work: Any, path: str, content: bytes | None) -> str:
    """Commit as another program would that has an index of its own: the user's index does not follow."""
    index = {"GIT_INDEX_FILE": str(work.top / ".git/other-index")}
    work.git("read-tree", "HEAD", **index)
    if content is None:
        work.git("update-index", "--force-remove", path, **index)
    else:
        oid = work.git("hash-object", "-w", "--stdin", stdin=content).strip()
        work.git("update-index", "--add", "--cacheinfo", f"100644,{oid},{path}", **index)
    tree = work.git("write-tree", **index).strip()
    (work.top / ".git/other-index").unlink()
    commit: str = work.git("commit-tree", tree, "-p", "HEAD", "-m", "other").strip()
    work.git("update-ref", "refs/heads/main", commit)
    return commit


@pytest.mark.parametrize("when", ["before the lock", "right before publishing"])
@pytest.mark.parametrize(
    ("path", "theirs", "ours", "merge", "expected"),
    [
        ("other.yaml", b"x\n", _lines(l8=b"ours\n"), None, _lines(l8=b"ours\n")),
        (ORDERS, _lines(l0=b"theirs\n"), _lines(l8=b"ours\n"), merging, _lines(l0=b"theirs\n", l8=b"ours\n")),
        (ORDERS, _lines(l0=b"theirs\n"), _lines(l0=b"ours\n"), merging, None),
        (ORDERS, _lines(l0=b"theirs\n"), _lines(l8=b"ours\n"), None, None),
        (ORDERS, _lines(l0=b"same\n"), _lines(l0=b"same\n"), None, "same"),
        (ORDERS, None, _lines(l8=b"ours\n"), merging, None),
        (ORDERS, _lines(l0=b"theirs\n"), None, merging, None),
        (ORDERS, None, None, None, "same"),
    ],
)
def test_the_tip_moved(
    work: Any, when: str, path: str, theirs: bytes | None, ours: bytes | None, merge: Any, expected: bytes | str | None
) -> None:
    work.write(ORDERS, LINES)
    work.user_commit()
    base = work.head
    moves: list[str] = []

    def move() -> None:
        if not moves:
            moves.append(_move_by_plumbing(work, path, theirs))

    if when == "before the lock":
        if theirs is None:
            (work.root / path).unlink()
        else:
            work.write(path, theirs)
        work.user_commit()
        moves.append(work.head)
    result = work.repo.commit(
        {ORDERS: ours, ITEMS: b"i\n"}, message="ours", base=base, merge=merge, before_publish=move
    )
    assert work.git("rev-parse", "HEAD~1").strip() == moves[0] and result.commit == work.head
    assert ITEMS in result.committed and work.show(path if path != ORDERS else ITEMS) in (theirs, b"i\n")
    if expected is None:
        assert [(held.path, held.reason) for held in result.held] == [(ORDERS, HeldReason.CONFLICT)]
        assert work.show(ORDERS) == theirs
    elif expected == "same":
        assert result.held == () and result.committed == (ITEMS,)
    else:
        assert work.show(ORDERS) == work.read(ORDERS) == expected
        assert result.merged == ((ORDERS,) if merge else ())
    if when == "before the lock":
        work.assert_clean()
    assert work.leftovers() == []


def test_a_branch_that_never_rests(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "ATTEMPTS", 2)
    count = iter(range(99))
    with pytest.raises(BusyError, match="moved 2 times"):
        work.repo.commit(
            {ORDERS: b"n\n"},
            message="m",
            base=work.head,
            before_publish=lambda: _move_by_plumbing(work, "other", b"%d" % next(count)) and None,
        )
    assert next(count) == 2 and work.leftovers() == [] and work.read(ORDERS) == b"name: orders\n"


def test_another_branch_under_our_feet(work: Any) -> None:
    def switch() -> None:
        _move_by_plumbing(work, "other", b"1")
        work.git("branch", "side")
        work.git("symbolic-ref", "HEAD", "refs/heads/side")

    with pytest.raises(GitError, match="from refs/heads/main to refs/heads/side"):
        work.repo.commit({ORDERS: b"n\n"}, message="m", base=work.head, before_publish=switch)
    assert work.leftovers() == []


def test_the_merge_function_s_word_counts(work: Any) -> None:
    base = work.head
    work.write(ORDERS, "theirs\n")
    work.write(ITEMS, "theirs\n")
    work.user_commit()
    asked = []

    def merge(path: str, *contents: bytes | None) -> bytes | Conflict | None:
        asked.append((path, *contents))
        return None if path == ORDERS else Conflict(path, "", "because")

    result = work.repo.commit({ORDERS: b"o\n", ITEMS: b"o\n", "new": b""}, message="m", base=base, merge=merge)
    assert asked == [(ITEMS, b"name: items\n", b"o\n", b"theirs\n"), (ORDERS, b"name: orders\n", b"o\n", b"theirs\n")]
    assert result.committed == ("new", ORDERS) and result.held == (Held(ITEMS, HeldReason.CONFLICT, "because"),)
    assert work.read(ORDERS) is None
    work.assert_clean()


def test_two_runs_without_a_common_run_lock_both_commit(work: Any, python: str) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from ktx_cli.project import Repository
        name = sys.argv[2]
        for number in range(4):
            repo = Repository.discover(Path(sys.argv[1]))
            repo.recover()
            content = f"{name} {number}\\n".encode()
            changes = {f"{name}/{n}.yaml": content for n in range(3)}
            result = repo.commit(changes, message=f"{name} {number}", base=repo.head().commit)
            assert result.committed == tuple(changes), result
    """)
    runs = [subprocess.Popen([python, "-c", script, work.top, name]) for name in ("one", "two")]
    assert [run.wait() for run in runs] == [0, 0]
    assert work.git("rev-list", "--count", "HEAD") == "9\n"
    assert work.read("one/0.yaml") == b"one 3\n" and work.read("two/2.yaml") == b"two 3\n"
    work.assert_clean()
    assert work.leftovers() == []


def test_a_person_adding_files_beside_runs_loses_nothing(work: Any, python: str) -> None:
    """The index is edited under git's own lock: each file added meanwhile is still staged afterwards."""
    loop = "for n in $(seq 1 15); do echo $n > mine$n; until git add mine$n 2>/dev/null; do sleep 0.005; done; done"
    person = subprocess.Popen(["sh", "-c", loop], cwd=work.top)
    for number in range(5):
        assert work.commit({ORDERS: b"%d\n" % number}).committed == (ORDERS,)
    assert person.wait() == 0
    staged = {line.rpartition(" ")[2] for line in work.status() if line.startswith("1 A.")}
    assert staged == {f"mine{n}" for n in range(1, 16)}


words = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d"]), max_size=6).map(b"".join)


@settings(max_examples=12, deadline=None)
@given(base=words, ours=words)
def test_merging_with_an_unchanged_side_is_the_other_side(base: bytes, ours: bytes) -> None:
    assert merge_lines(base, ours, base) == ours
    assert merge_lines(base, base, ours) == ours
    assert merge_lines(base, ours, ours) == ours


@pytest.mark.table(
    ("base", "ours", "theirs", "expected"),
    [
        (LINES, _lines(l0=b"x\n"), _lines(l8=b"y\n"), _lines(l0=b"x\n", l8=b"y\n")),
        (LINES, _lines(l4=b"x\n"), _lines(l4=b"y\n"), None),
        (b"a\0", b"a\0b", b"a\0", None),
        (b"", b"", b"", b""),
        (b"a", b"a\n", b"a", b"a\n"),
    ],
)
def test_merge_file(base: bytes, ours: bytes, theirs: bytes, expected: bytes | None) -> None:
    assert merge_lines(base, ours, theirs) == expected


def _staging_beside(work: Any, monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> list[int]:
    """Call `act` with 0, 1, ... after every preparation of an attempt, before the index is locked."""
    prepare, seen = commits.Attempt._prepare, []

    def prepared(attempt: Any, contents: Any) -> Any:
        finish = prepare(attempt, contents)
        act(len(seen))
        seen.append(len(seen))
        return finish

    monkeypatch.setattr(commits.Attempt, "_prepare", prepared)
    return seen


def test_a_file_staged_while_a_commit_is_prepared_is_held(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stage(number: int) -> None:
        if number == 0:
            work.write(ORDERS, "mine\n")
            work.git("add", ORDERS)

    seen = _staging_beside(work, monkeypatch, stage)
    result = work.commit({ORDERS: b"o\n", ITEMS: b"i\n"})
    assert seen == [0, 1]
    assert result.held == (Held(ORDERS, HeldReason.STAGED),) and result.committed == (ITEMS,)
    assert work.read(ORDERS) == b"mine\n" and work.git("diff", "--cached", "--name-only").split() == [ORDERS]
    assert work.leftovers() == []


def test_a_commit_of_the_user_s_while_ours_is_prepared(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(number: int) -> None:
        if number == 0:
            work.write("mine.txt", "mine\n")
            work.user_commit()

    _staging_beside(work, monkeypatch, commit)
    assert work.commit({ORDERS: b"o\n", ITEMS: None}).committed == (ITEMS, ORDERS)
    assert work.git("log", "--format=%s").split("\n")[:3] == ["ktx: test", "by hand", "by hand"]
    assert work.show("mine.txt") == b"mine\n"
    work.assert_clean()
    assert work.leftovers() == []


def test_an_index_that_changes_all_the_time_is_locked_after_the_first(
    work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = []

    def stage(number: int) -> None:
        work.write(f"mine{number}", "m")
        work.git("add", f"mine{number}", ok=False)
        added.append((work.top / ".git/index.lock").exists())

    seen = _staging_beside(work, monkeypatch, stage)
    assert work.commit({ORDERS: b"o\n"}).committed == (ORDERS,)
    assert seen == [0, 1] and added == [False, True]
    assert work.git("diff", "--cached", "--name-only").split() == ["mine0"]
