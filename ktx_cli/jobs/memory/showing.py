"""A capture in full: its record, what it wrote as a diff, where its transcript is, how to review it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ktx_cli.core.text import shell_words
from ktx_cli.jobs.memory.records import MemoryRecord, find
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import Repository


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
        return [shell_words("git", "diff", f"HEAD...{branch}"), shell_words("git", "merge", branch)]

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
