"""Whether a unit that wrote nothing looked at its files: nothing worth keeping is fine, a file unread is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from ktx_cli.llm.types import ToolInvocation

_READERS: Final = frozenset(("read_raw_file", "read_raw_span"))
_OF_EVIDENCE: Final = "context_evidence_read"
"""It names passages, not files: whoever calls it has looked at the documents."""


def unread(files: Sequence[str], invocations: Iterable[ToolInvocation]) -> list[str]:
    """Return the files of a unit that no call asked for; one that was refused was asked for."""
    asked: set[str] = set()
    for each in invocations:
        if each.name == _OF_EVIDENCE:
            return []
        if each.name in _READERS and not isinstance(each.arguments, str):
            asked.add(PurePosixPath(str(each.arguments.get("path"))).as_posix())
    return [path for path in files if path not in asked]
