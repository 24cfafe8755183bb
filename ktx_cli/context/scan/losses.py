"""What people wrote that a scan takes out of the shards: comments, and descriptions of tables that are gone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ktx_cli.context.scan.shards import HEADER
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.core.text import listing

_COMMENT = re.compile(r"(?m)(?:^|[ \t])#")


@dataclass(frozen=True, slots=True)
class Losses:
    """`tables`: physical name of a removed table people wrote about -> its shard. `comments`: shards that had some."""

    tables: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    @property
    def shards(self) -> frozenset[str]:
        """The shards that lose something."""
        return frozenset({*self.tables.values(), *self.comments})

    def warnings(
        self, connection: str, written: Collection[str], replaced: Mapping[str, str]
    ) -> Iterator[ResultWarning]:
        """Yield a warning for either kind, of the shards in `written`; `replaced`: path -> where its old text is."""
        tables = [table for table, shard in sorted(self.tables.items()) if shard in written]
        if tables:
            message = f"connection `{connection}`: removed with what people wrote about them: {listing(tables)}"
            hint = _hint({self.tables[table] for table in tables}, replaced)
            yield ResultWarning("removed_text", message, hint=hint, tables=tables)
        shards = [shard for shard in self.comments if shard in written]
        if shards:
            message = f"connection `{connection}`: comments are gone from {listing(shards)}, which ktx wrote anew"
            hint = f"{_hint(shards, replaced)}; what is to stay goes into a `descriptions` value"
            yield ResultWarning("removed_comments", message, hint=hint, paths=shards)


def _hint(shards: Collection[str], replaced: Mapping[str, str]) -> str:
    kept = [replaced[shard] for shard in sorted(shards) if shard in replaced]
    return f"the text before is in {listing(kept)}" if kept else "the last commit before this one has the text"


def has_comments(content: bytes, where: str) -> bool:
    """Say whether a shard that can be parsed holds comments other than the one ktx writes at its top."""
    text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").removeprefix(HEADER)
    if _COMMENT.search(text) is None:
        return False
    try:
        root = yaml.compose(text, where=where)
    except ConfigError:  # it was read before it came here, as bytes; then nothing can be said of its comments
        return False
    pieces, position = [], 0
    for node in _scalars(root):
        pieces += [text[position : node.start], _outside(text[node.start : node.end]) if node.style in "|>" else "x"]
        position = node.end
    return _COMMENT.search("".join(pieces) + text[position:]) is not None


def _scalars(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the scalars of a document in the order of its text."""
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "scalar":
            yield node
        below = [*node.items, *(part for pair in node.pairs for part in pair)]
        waiting += reversed(below)


def _outside(block: str) -> str:
    """Return what does not belong to the text of a block scalar: its header line, and comments below it."""
    header, _, body = block.partition("\n")
    lines = [line for line in body.split("\n") if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip(" ")) if lines else 0
    return "\n".join([header, *(line for line in lines if len(line) - len(line.lstrip(" ")) < indent)])
