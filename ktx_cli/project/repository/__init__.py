"""The git store of a project: committed contents to read, and one commit a run, made beside the user's own work."""

from __future__ import annotations

from ktx_cli.project.merge import Conflict
from ktx_cli.project.repository.hints import EDITED_AFTER_KILL, EDITED_MEANWHILE, held_hint
from ktx_cli.project.repository.model import (
    AdjustFunction,
    CommitResult,
    Head,
    Held,
    HeldReason,
    MergeFunction,
    Recovery,
    RepositoryLayout,
)
from ktx_cli.project.repository.planning import merge_file
from ktx_cli.project.repository.store import Repository
from ktx_cli.project.repository.trees import TreeView

__all__ = [
    "EDITED_AFTER_KILL",
    "EDITED_MEANWHILE",
    "AdjustFunction",
    "CommitResult",
    "Conflict",
    "Head",
    "Held",
    "HeldReason",
    "MergeFunction",
    "Recovery",
    "Repository",
    "RepositoryLayout",
    "TreeView",
    "held_hint",
    "merge_file",
]
