"""Changes for another branch, or for the working files alone: what is not asked for stays as it is."""

from __future__ import annotations

import os
import random
import re
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import GitError, UsageError
from ktx_cli.project import CommitResult, Destination, HeldReason, Repository
from tests.project.repository.test_kills import _kill

ORDERS, NEW, OLD = "semantic-layer/shop/orders.yaml", "wiki/global/new.md", "semantic-layer/shop/items.yaml"
CHANGES = {ORDERS: b"name: orders\ngrain: [id]\n", NEW: b"# New\n", OLD: None}
UPDATE = Destination("ktx/update")
FILES = Destination(commits=False)


def commit_to(work: Any, destination: Destination = UPDATE, changes: Any = None, **options: Any) -> CommitResult:
    """Begin with what the destination begins with, as a run does, and commit."""
    repository = Repository.discover(work.root)
    assert repository is not None
    base = options.pop("base", None) or repository.start(destination).commit
    result: CommitResult = repository.commit(
        CHANGES if changes is None else changes, message="ktx: test", base=base, destination=destination, **options
    )
    return result


def tip(work: Any, branch: str = "ktx/update") -> str | None:
    return work.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", ok=False).strip() or None


def state(work: Any) -> tuple[Any, ...]:
    """Everything of the user's that a commit on another branch must leave alone."""
    files = {
        path.relative_to(work.top): path.read_bytes()
        for path in work.top.rglob("*")
        if path.is_file() and not {".git", ".ktx"}.intersection(path.relative_to(work.top).parts)
    }
    head = (work.top / ".git" / "HEAD").read_text()
    return files, head, work.index(), work.git("rev-parse", "--verify", "--quiet", "HEAD", ok=False), work.status()


def dirty(work: Any) -> None:
    work.write(ORDERS, "name: orders # mine\n")
    work.write(NEW, "mine, untracked\n")
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")


def detached(work: Any) -> None:
    work.git("checkout", "-q", "--detach")


def unborn(work: Any) -> None:
    work.git("checkout", "-q", "--orphan", "fresh")


def ahead(work: Any) -> None:
    commit_to(work, changes={"ahead.txt": b"a\n"})


def behind(work: Any) -> None:
    work.git("branch", "ktx/update")
    work.write("main.txt", "m\n")
    work.user_commit()


def diverged(work: Any) -> None:
    ahead(work)
    work.write("main.txt", "m\n")
    work.user_commit()


def in_worktree(work: Any) -> None:
    work.git("worktree", "add", "-q", str(work.top.parent / "second"), "-b", "second")
    work.top = work.root = work.top.parent / "second"


def nothing(work: Any) -> None:
    """The state as the fixture leaves it."""


STATES = {
    "clean": (nothing, "HEAD"),
    "edited, staged and untracked": (dirty, "HEAD"),
    "detached": (detached, "HEAD"),
    "no commit yet": (unborn, None),
    "the branch is ahead": (ahead, "ktx/update"),
    "the branch is behind": (behind, "HEAD"),
    "the branch has diverged": (diverged, "ktx/update"),
}


@pytest.mark.parametrize("name", STATES)
def test_the_commit_lands_on_the_branch_and_nothing_else_moves(work: Any, name: str) -> None:
    prepare, begins = STATES[name]
    prepare(work)
    before, base = state(work), None if begins is None else work.git("rev-parse", begins).strip()
    others = work.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    result = commit_to(work)
    assert (result.commit, result.held, result.uncommitted) == (tip(work), (), ())
    assert (work.git("rev-parse", "--verify", "--quiet", "ktx/update^", ok=False).strip() or None) == base
    assert work.show(NEW, "ktx/update") == b"# New\n" and work.show(OLD, "ktx/update") is None
    assert state(work) == before
    now = work.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    assert set(others.splitlines()) - set(now.splitlines()) <= {
        line for line in others.splitlines() if line.startswith("refs/heads/ktx/update ")
    }
    assert work.git("fsck", "--strict") == "" and work.leftovers() == []
    again = commit_to(work)
    assert again.commit is None and again.committed == (), "the branch has it"


def test_a_branch_that_has_what_is_wanted_stays_where_it_is(work: Any) -> None:
    assert commit_to(work, changes={"README.md": b"hello\n"}).commit is None
    assert tip(work) is None, "nothing to commit makes no branch"


def test_the_current_branch_by_its_name_is_the_current_branch(work: Any) -> None:
    result = commit_to(work, Destination("main"))
    assert result.commit == work.head and work.read(NEW) == b"# New\n"
    work.assert_clean()


def test_a_commit_from_a_second_working_tree_leaves_both_alone(work: Any) -> None:
    first = work.top
    in_worktree(work)
    before = subprocess.run(["git", "status", "--porcelain"], cwd=first, capture_output=True, check=True).stdout
    result = commit_to(work)
    assert result.commit == tip(work) and work.status() == []
    assert subprocess.run(["git", "status", "--porcelain"], cwd=first, capture_output=True, check=True).stdout == before
    with pytest.raises(UsageError, match=re.escape(f"branch `main` is checked out in {first}")) as caught:
        commit_to(work, Destination("main"))
    assert "--branch" in str(caught.value.hint)


@pytest.mark.parametrize(
    "name", ["-x", "a..b", "a b", "HEAD", "refs/heads/x", "x.lock", "", "a/", "@{-1}", "main/sub", "ktx"]
)
def test_a_name_that_no_branch_can_have_is_refused_before_anything_is_done(work: Any, name: str) -> None:
    ahead(work)
    refs = work.git("for-each-ref")
    with pytest.raises(UsageError) as caught:
        commit_to(work, Destination(name))
    assert caught.value.hint and work.git("for-each-ref") == refs


def test_a_merge_in_progress_is_refused(work: Any) -> None:
    (work.top / ".git" / "MERGE_HEAD").write_text(f"{work.head}\n")
    with pytest.raises(GitError, match="a merge is in progress"):
        commit_to(work)


def test_a_branch_that_moves_while_the_run_is_at_work_is_merged_with(work: Any) -> None:
    ahead(work)
    base = tip(work)
    commit_to(work, changes={ORDERS: b"name: orders\ndescription: theirs\n", "theirs.txt": b"t\n"})
    result = commit_to(work, base=base)
    assert result.commit == tip(work) and result.held == ()
    merged = work.show(ORDERS, "ktx/update")
    assert b"grain" in merged and b"theirs" in merged and work.show("theirs.txt", "ktx/update") == b"t\n"
    conflict = commit_to(work, base=base, changes={ORDERS: b"name: orders\ngrain: [other]\n"})
    assert [each.reason for each in conflict.held] == [HeldReason.CONFLICT]


def test_a_branch_that_moves_at_the_last_moment_is_tried_again(work: Any) -> None:
    others = Destination("others")
    made = [commit_to(work, others, {"beside.txt": text}).commit for text in (b"one\n", b"two\n")]

    def move() -> None:
        if made:
            work.git("update-ref", "refs/heads/ktx/update", made.pop(0) or "")

    result = commit_to(work, before_publish=move)
    assert result.commit == tip(work)
    assert work.show("beside.txt", "ktx/update") == b"two\n" and work.show(NEW, "ktx/update") == b"# New\n"


def test_files_that_git_ignores_are_neither_committed_nor_written(work: Any) -> None:
    work.write(".gitignore", "wiki/\n")
    work.user_commit()
    result = commit_to(work)
    assert result.ignored == (NEW,) and NEW not in result.committed and work.read(NEW) is None
    assert work.show(NEW, "ktx/update") is None


def test_a_path_that_is_a_link_in_the_branch_is_held(work: Any) -> None:
    (work.root / "wiki").mkdir()
    (work.root / "wiki/global").symlink_to("../semantic-layer")
    work.user_commit()
    assert [(each.path, each.reason) for each in commit_to(work).held] == [(NEW, HeldReason.SYMLINK)]


def test_the_working_files_alone_change_without_a_commit(work: Any) -> None:
    index, head = work.index(), work.head
    result = commit_to(work, FILES)
    assert (result.commit, result.committed) == (None, ()) and result.uncommitted == tuple(sorted(CHANGES))
    assert (work.index(), work.head) == (index, head)
    assert work.read(ORDERS) == CHANGES[ORDERS] and work.read(NEW) == b"# New\n" and work.read(OLD) is None
    assert work.leftovers() == [] and not (work.top / ".ktx/journal.json").exists()
    again = commit_to(work, FILES)
    assert again.held == () and again.uncommitted == result.uncommitted
    landed = work.commit(CHANGES)
    assert landed.held == () and landed.committed == tuple(sorted(CHANGES)), "what ktx wrote is not taken for an edit"
    work.assert_clean()


UNCOMMITTED: dict[str, Callable[[Any], object]] = {"detached": detached, "clean": nothing, "second": in_worktree}


@pytest.mark.parametrize("name", UNCOMMITTED)
def test_working_files_are_written_wherever_head_is(work: Any, name: str) -> None:
    UNCOMMITTED[name](work)
    index = work.index()
    assert commit_to(work, FILES).uncommitted == tuple(sorted(CHANGES))
    assert work.index() == index and work.read(NEW) == b"# New\n"


def test_before_the_first_commit_new_files_are_written_and_files_of_the_user_are_held(work: Any) -> None:
    unborn(work)
    work.git("rm", "-r", "-q", "--cached", ".")
    result = commit_to(work, FILES, changes={ORDERS: b"name: orders\ngrain: [id]\n", NEW: b"# New\n"})
    assert result.uncommitted == (NEW,) and [each.path for each in result.held] == [ORDERS]


def test_files_with_edits_of_the_user_are_held_and_the_rest_is_written(work: Any) -> None:
    dirty(work)
    before = work.read(ORDERS), work.read(NEW), work.index()
    result = commit_to(work, FILES)
    assert result.uncommitted == (OLD,)
    assert [(each.path, each.reason) for each in result.held] == [
        (ORDERS, HeldReason.MODIFIED),
        (NEW, HeldReason.UNTRACKED),
    ]
    assert (work.read(ORDERS), work.read(NEW), work.index()) == before


def test_a_file_left_out_of_a_sparse_checkout_is_held_without_a_commit(work: Any) -> None:
    work.git("update-index", "--skip-worktree", ORDERS)
    (work.root / ORDERS).unlink()
    result = commit_to(work, FILES)
    assert [(each.path, each.reason) for each in result.held] == [(ORDERS, HeldReason.SKIP_WORKTREE)]
    assert work.read(ORDERS) is None


KILLS = 60 if os.environ.get("KTX_TEST_FULL") else 9
ROUNDS = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from ktx_cli.project import Destination, Repository

    os.setsid()
    repo, update = Repository.discover(Path(sys.argv[1])), Destination("ktx/update")
    print(flush=True)
    for number in range(100_000):
        repo.recover()
        changes = {f"semantic-layer/shop/{n}.yaml": f"n: {n}\\nround: {number}\\n".encode() for n in range(3)}
        repo.commit(changes, message=f"round {number}", base=repo.start(update).commit, destination=update)
""")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["process", "group", "everything"])
def test_killed_at_any_moment_the_branch_is_whole_and_the_next_run_commits(work: Any, python: str, how: str) -> None:
    chance = random.Random(f"branch {how}")
    dirty(work)
    before = state(work)
    for _ in range(KILLS):
        run = subprocess.Popen([python, "-c", ROUNDS, work.top], stdout=subprocess.PIPE)
        assert run.stdout is not None and run.stdout.readline() == b"\n"
        time.sleep(chance.uniform(0.0, 0.25))
        _kill(run.pid, how)
        run.wait()
        run.stdout.close()
        repository = Repository.discover(work.root)
        assert repository is not None
        repository.recover()
        rounds = {work.show(f"semantic-layer/shop/{n}.yaml", "ktx/update") for n in range(3)} - {None}
        assert len({text.rpartition(b"round")[2] for text in rounds}) <= 1, "all of a round, or none"
        assert commit_to(work, changes={"last.txt": os.urandom(8)}).commit == tip(work)
        assert state(work) == before and work.leftovers() == []
    assert "error" not in work.git("fsck", "--strict")


def test_the_index_of_the_user_is_not_waited_for(work: Any) -> None:
    lock = Path(work.top / ".git" / "index.lock")
    lock.touch()
    assert commit_to(work).commit == tip(work), "the index is none of its business"
    lock.unlink()
