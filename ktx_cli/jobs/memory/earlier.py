"""Whether a text was captured before: by the committed manifest, and by branches on which a change waits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktx_cli.context.sources.manifest import FileStatus, parse_manifest
from ktx_cli.core.clock import isoformat, now
from ktx_cli.jobs.memory.records import MemoryRecord, Status, alike
from ktx_cli.jobs.memory.source import MANIFEST, path_of, state_of
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import Repository
from ktx_cli.project.tree import Tree


@dataclass(frozen=True, slots=True)
class Earlier:
    """The capture that said the same. `run_id` None: of another clone, or forgotten.

    `commit`: where the record itself is the one, and was cut off after it had landed. `branch`: where it waits.
    """

    run_id: str | None
    artifacts: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None

    def told(self, record: MemoryRecord) -> MemoryRecord:
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
            ended,
            status=Status.NOTHING,
            reason=f"{by} had the same text{where}",
            duplicate_of=self.run_id,
            branch=None,
        )


def branch_of(record: MemoryRecord) -> str:
    """Return the branch on which the change of a capture waits for review, if it was to."""
    return f"ktx/memory/{record.run_id}"


def earlier_capture(layout: Layout, repository: Repository, base: Tree, record: MemoryRecord) -> Earlier | None:
    """Return the capture of the same text and scope that has landed or waits for review; None where there is none.

    One that failed, was interrupted, was taken back or found a conflict is none. Raises `ConfigError` for a manifest
    that cannot be read.
    """
    state = state_of(parse_manifest(base.read(MANIFEST), MANIFEST), record)
    if state is not None and state.status is FileStatus.DONE:
        own = repository.commit_of_run(record.run_id)
        if own is not None:
            return Earlier(record.run_id, state.artifacts, own)
        landed = (each for each in alike(layout, record) if each.status is Status.DONE)
        known = next(landed, None)
        return Earlier(None if known is None else known.run_id, state.artifacts)
    own_branch = branch_of(record)
    waiting = repository.commit_at(f"refs/heads/{own_branch}") if record.propose else None
    if waiting is not None:
        return Earlier(record.run_id, record.artifacts, waiting, own_branch)
    for each in alike(layout, record):
        if each.status is Status.DONE and each.branch and repository.commit_at(f"refs/heads/{each.branch}"):
            return Earlier(each.run_id, each.artifacts, None, each.branch)
    return None
