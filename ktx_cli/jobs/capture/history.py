"""Whether a text was captured before: by the committed manifest, and by branches on which a change waits."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.core import Command, isoformat, now
from ktx_cli.jobs.capture.agent import MANIFEST, path_of, state_of
from ktx_cli.jobs.capture.records import MemoryRecord, Status, alike, find
from ktx_cli.project import Layout, Repository, Tree
from ktx_cli.sources import FileStatus, parse_delivery


@dataclass(frozen=True, slots=True)
class Earlier:
    """The capture that said the same. `run_id` None: of another clone, or forgotten.

    `commit`: where the record itself is the one, and was cut off after it had landed. `branch`: where it waits.
    """

    run_id: str | None
    artifacts: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None

    def applied_to(self, record: MemoryRecord) -> MemoryRecord:
        """Return the record of the text with what is known of it."""
        ended = replace(record, worker=None, finished=isoformat(now()), error=None, conflicts=())
        if self.run_id == record.run_id:
            commits = record.with_commit(self.commit)
            files = tuple(sorted({*record.files, *map(path_of, self.artifacts)}))
            own = replace(ended, status=Status.DONE, reason="", commits=commits, branch=self.branch)
            return replace(own, artifacts=self.artifacts or record.artifacts, files=files)
        where = f", and waits on the branch {self.branch}" if self.branch else ""
        by = f"capture {self.run_id}" if self.run_id else "an earlier capture"
        return replace(
            ended, status=Status.NOTHING, reason=f"{by} had the same text{where}", duplicate_of=self.run_id, branch=None
        )


def branch_of(record: MemoryRecord) -> str:
    """Return the branch on which the change of a capture waits for review, if it was to."""
    return f"ktx/memory/{record.run_id}"


def earlier_capture(layout: Layout, repository: Repository, base: Tree, record: MemoryRecord) -> Earlier | None:
    """Return the capture of the same text and scope that has landed or waits for review; None where there is none.

    One that failed, was interrupted, was taken back or found a conflict is none. Raises `ConfigError` for a manifest
    that cannot be read.
    """
    state = state_of(parse_delivery(base.read(MANIFEST), MANIFEST), record)
    if state is not None and state.status is FileStatus.DONE:
        own = repository.commit_of_run(record.run_id)
        if own is not None:
            return Earlier(record.run_id, state.artifacts, own)
        known = next((each for each in alike(layout, record) if each.status is Status.DONE), None)
        return Earlier(None if known is None else known.run_id, state.artifacts)
    own_branch = branch_of(record)
    waiting = repository.commit_at(f"refs/heads/{own_branch}") if record.propose else None
    if waiting is not None:
        return Earlier(record.run_id, record.artifacts, waiting, own_branch)
    for each in alike(layout, record):
        if each.status is Status.DONE and each.branch and repository.commit_at(f"refs/heads/{each.branch}"):
            return Earlier(each.run_id, each.artifacts, None, each.branch)
    return None


@dataclass(frozen=True, slots=True)
class Shown:
    """A capture in full. `diff`: what it wrote, line by line; `transcripts`: of its agent, relative to the project."""

    record: MemoryRecord
    diff: str = ""
    transcripts: tuple[str, ...] = ()
    report: str | None = None

    @property
    def review(self) -> list[str]:
        """The commands that look at a change which waits on a branch, and take it over."""
        branch = self.record.branch
        if branch is None:
            return []
        return [Command("diff", f"HEAD...{branch}", program="git"), Command("merge", branch, program="git")]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, with the text that was given."""
        return {
            **self.record.to_json(content=True),
            "diff": self.diff,
            "transcripts": list(self.transcripts),
            "report": self.report,
            "review": self.review,
        }


def show(layout: Layout, text: str) -> Shown:
    """Return the capture a text names; raises as `find`."""
    record = find(layout, text)
    folder, report = layout.run_transcripts(record.run_id), layout.run_report(record.run_id)
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    return Shown(
        record,
        "".join(_diff(layout, record)),
        tuple(path.relative_to(layout.root).as_posix() for path in there),
        report.relative_to(layout.root).as_posix() if report.is_file() else None,
    )


def _diff(layout: Layout, record: MemoryRecord) -> Iterator[str]:
    """Yield the unified diffs of a capture's commits, without the manifest; nothing of a commit that is gone."""
    repository = Repository.discover(layout.root) if record.commits else None
    for commit in record.commits if repository is not None else ():
        if repository is None or repository.commit_at(commit) is None:
            continue
        after, before = repository.tree(commit), repository.tree(repository.parent_of(commit))
        for path in record.files:
            old, new = (_lines(tree.read(path)) for tree in (before, after))
            yield from difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")


def _lines(content: bytes | None) -> list[str]:
    text = "" if content is None else content.decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]
