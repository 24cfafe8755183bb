"""A proposed commit is on its own branch: nothing else of the repository and of the user's work moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import BusyError, GitError
from ktx_cli.project.repository.store import Repository

REF = "refs/heads/ktx/memory/one"
CHANGES: dict[str, bytes | None] = {
    "wiki/global/a.md": b"A\n",
    "semantic-layer/shop/orders.yaml": b"name: orders\ngrain: [id]\n",
    "semantic-layer/shop/items.yaml": None,
}


def propose(repository: Repository, base: str | None, **options: Any) -> str:
    return repository.propose(CHANGES, ref=REF, base=base, message="ktx: proposed\n\nKtx-Run: one\n", **options)


def test_the_branch_has_the_changes_and_the_users_work_is_as_it_was(work: Any) -> None:
    work.write("semantic-layer/shop/orders.yaml", "name: orders  # mine\n")
    work.write("staged.txt", "staged")
    work.git("add", "staged.txt")
    before = work.status(), work.index(), work.head, work.git("branch", "--list")
    commit = propose(work.repo, work.head, author="Bo <bo@example.com>")
    assert (work.status(), work.index(), work.head) == before[:3]
    assert work.git("rev-parse", REF).strip() == commit
    assert work.names(REF) == sorted(CHANGES)
    assert work.show("wiki/global/a.md", REF) == b"A\n"
    assert work.git("log", "-1", "--format=%an %P", REF).strip() == f"Bo {work.head}"
    assert work.leftovers() == []


def test_a_branch_can_have_a_commit_for_each_step(work: Any) -> None:
    before = work.status(), work.index(), work.head
    later: dict[str, bytes | None] = {"wiki/global/a.md": b"B\n", "semantic-layer/shop/orders.yaml": None}
    steps = [(CHANGES, "one\n\nKtx-Run: one\n"), (later, "two\n\nKtx-Run: one\n")]
    first, second = work.repo.propose_series(steps, ref=REF, base=work.head)
    assert (work.status(), work.index(), work.head) == before
    assert work.git("log", "--format=%H %s", f"HEAD..{REF}").splitlines() == [f"{second} two", f"{first} one"]
    assert (work.show("wiki/global/a.md", first), work.show("wiki/global/a.md", REF)) == (b"A\n", b"B\n")
    assert "semantic-layer/shop/orders.yaml" not in work.git("ls-tree", "-r", "--name-only", REF).split()
    with pytest.raises(GitError, match="already exists in"):
        work.repo.propose_series(steps, ref=REF, base=work.head)


def test_a_project_in_a_folder_of_its_host_and_one_without_a_commit(work: Any, empty: Any) -> None:
    inside = type(work)(work.top, "data/ktx")
    inside.write("wiki/global/a.md", "old\n")
    work.user_commit()
    propose(inside.repo, inside.head)
    names = ["data/ktx/semantic-layer/shop/orders.yaml", "data/ktx/wiki/global/a.md"]
    assert work.names(REF) == names
    assert "README.md" in work.git("ls-tree", "-r", "--name-only", REF).split()
    propose(empty.repo, None)
    assert empty.head is None
    assert sorted(empty.git("ls-tree", "-r", "--name-only", REF).split()) == names_of(CHANGES)


def names_of(changes: dict[str, bytes | None]) -> list[str]:
    return sorted(path for path, content in changes.items() if content is not None)


def test_a_repository_of_sha256(tmp_path: Path, work: Any) -> None:
    made = type(work)(tmp_path / "long")
    made.top.mkdir()
    made.git("init", "-q", "--template=", "--object-format=sha256")
    made.write("README.md", "x")
    made.user_commit()
    assert len(propose(made.repo, made.head)) == 64


def test_a_branch_that_is_there_is_left_alone(work: Any) -> None:
    first = propose(work.repo, work.head)
    with pytest.raises(GitError, match="already exists in"):
        propose(work.repo, work.head)
    assert work.git("rev-parse", REF).strip() == first


def test_what_is_raised_before_the_branch_is_made_leaves_none(work: Any) -> None:
    def lost() -> None:
        raise BusyError("another run took over")

    with pytest.raises(BusyError):
        propose(work.repo, work.head, before_publish=lost)
    assert work.repo.commit_at(REF) is None
    assert work.leftovers() == []


def test_the_commit_of_a_run_is_found_by_its_trailer(work: Any, empty: Any) -> None:
    assert empty.repo.commit_of_run("one") is None
    made = work.commit({"a.md": b"a\n"}, message="ktx: a\n\nKtx-Run: one\n").commit
    work.commit({"b.md": b"b\n"}, message="ktx: b\n\nKtx-Run: two\n")
    assert work.repo.commit_of_run("one") == made
    assert work.repo.commit_of_run("three") is None
    assert work.repo.parent_of(made) == work.git("rev-parse", f"{made}^").strip()
