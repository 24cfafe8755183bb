"""What changes in files, as a diff that shows ktx's own lines and no values of other people's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.jobs.agents.staging import Change

_STRING = re.compile(r'"(?:\\.|[^"\\])*"(?P<colon>\s*:)?|\'[^\']*\'')
_CONFIGURATIONS: Final = (".json", ".jsonc", ".toml")
_COMMENT = re.compile(r"(?://|/\*|#).*")


@dataclass(frozen=True, slots=True)
class Diff:
    """A file that changes: `kind` is create, change or remove; `lines` a diff without lines around the change."""

    path: str
    kind: str
    lines: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the answer."""
        return {"path": self.path, "change": self.kind, "diff": "\n".join(self.lines)}


def diff_of(change: Change) -> Diff:
    """Return the diff of a change. Of a line that has other people's values in it only the keys are shown."""
    before, after = (_lines(content) for content in (change.before, change.after))
    head = (
        f"--- {'/dev/null' if change.before is None else change.path}",
        f"+++ {'/dev/null' if change.after is None else change.path}",
    )
    hide = _hidden if change.path.suffix in _CONFIGURATIONS else str
    return Diff(str(change.path), change.kind, (*head, *_hunk(before, after, hide)))


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode().replace("\r\n", "\n").splitlines()


def _hunk(before: Sequence[str], after: Sequence[str], hide: Callable[[str], str]) -> Iterator[str]:
    """Yield the one piece that changed: everything between the lines that both texts begin and end with."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - start
    end = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    yield f"@@ -{_range(start, old)} +{_range(start, new)} @@"
    yield from (f"-{hide(line)}" for line in old)
    for at, line in enumerate(new):  # as many lines as are replaced, at either end, may hold what stood there
        yield f"+{hide(line) if min(at, len(new) - 1 - at) < len(old) else line}"


def _range(start: int, lines: Sequence[str]) -> str:
    return f"{start + 1 if lines else start},{len(lines)}"


def _hidden(line: str) -> str:
    """Return a line with its keys alone: no texts, no comments."""
    keys = _STRING.sub(lambda found: found[0] if found["colon"] else '"…"', line)
    return _COMMENT.sub("// …", keys)
