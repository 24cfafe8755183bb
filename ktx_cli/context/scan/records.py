"""The records of a connection: what scans learned beyond the structure, committed beside the snapshot, a file a kind.

A scan that does not look again keeps them, less what is said of tables and columns that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.connectors.port import Table, TableRef
from ktx_cli.context.scan import knowledge as relationships
from ktx_cli.context.scan.describe import described as descriptions
from ktx_cli.context.scan.describe.facts import Described
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.manifest import Entry, entries
from ktx_cli.context.scan.relationships.model import Edge
from ktx_cli.core.errors import KtxError, ResultWarning

RELATIONSHIPS: Final = relationships.FILE
DESCRIPTIONS: Final = descriptions.RECORD
FILES: Final = (RELATIONSHIPS, DESCRIPTIONS)

_READERS: Final[Mapping[str, Callable[[bytes, str], Any]]] = {
    RELATIONSHIPS: relationships.read_record,
    DESCRIPTIONS: descriptions.read_record,
}


@dataclass(frozen=True, slots=True)
class Records:
    """What is known. None: nobody looked, or the file is among the `broken`, which are left as they are."""

    knowledge: Knowledge | None = None
    described: Mapping[TableRef, Described] | None = None
    broken: frozenset[str] = frozenset()

    @property
    def known(self) -> Knowledge:
        """Keys and edges; none where nobody looked."""
        return self.knowledge or Knowledge()

    @property
    def texts(self) -> Mapping[TableRef, Described]:
        """The descriptions by table; none where nobody described."""
        return self.described or {}

    def restricted(self, tables: Iterable[Table]) -> Records:
        """Return what is said of tables and columns that are there."""
        by_ref = {table.ref: table for table in tables}
        return replace(
            self,
            knowledge=None if self.knowledge is None else relationships.restricted(self.knowledge, by_ref),
            described=None
            if self.described is None
            else descriptions.updated_record(self.described, (), by_ref.values()),
        )

    def contents(self, before: Records | None = None, written: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return the files by name; none of what is not known.

        `written`: the files of `before`, taken for what both say alike.
        """
        known = written or {}
        found = {}
        if self.knowledge is not None:
            same = before is not None and before.knowledge == self.knowledge
            found[RELATIONSHIPS] = known[RELATIONSHIPS] if same else relationships.record_text(self.knowledge)
        if self.described is not None:
            same = before is not None and before.described == self.described
            found[DESCRIPTIONS] = known[DESCRIPTIONS] if same else descriptions.record_bytes(self.described.values())
        return found

    def entries(
        self, tables: Iterable[Table], names: Mapping[TableRef, str], manual: Sequence[Edge] = ()
    ) -> dict[TableRef, Entry]:
        """Return the generated manifest entry of every table; `manual`: edges whose joins are a person's again."""
        generated = entries(tables, names, self.knowledge, manual)
        return {ref: descriptions.with_descriptions(entry, self.texts.get(ref)) for ref, entry in generated.items()}


def read_records(contents: Mapping[str, bytes], folder: str) -> tuple[Records, tuple[ResultWarning, ...]]:
    """Return the records among `contents` (path -> bytes) in a folder; one that cannot be read is named."""
    found: dict[str, Any] = {}
    warnings = []
    for name, read in _READERS.items():
        path = f"{folder}/{name}"
        if path not in contents:
            continue
        try:
            found[name] = read(contents[path], path)
        except KtxError as error:
            warnings.append(ResultWarning("broken_record", error.message, hint=error.hint, path=path))
    broken = frozenset(name for name in _READERS if f"{folder}/{name}" in contents and name not in found)
    return Records(found.get(RELATIONSHIPS), found.get(DESCRIPTIONS), broken), tuple(warnings)
