"""What was read out of statements before, so that a history that did not change is not parsed again.

Kept in `.ktx/cache`, disposable. A text is known there by a keyed hash; what is kept of it is what raw files may hold:
its structure, without literals and blanked as the project says.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.context.sources.query_history.statements import ObservedJoin, Statement
from ktx_cli.context.sources.query_history.tables import NamedTable, Tables
from ktx_cli.core.text import file_stem
from ktx_cli.project.files import read_bytes, write_atomic

FORMAT: Final = 1
"""Raised when the same statement would be read in another way."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a text without a parser. `text`: hash of it without literals, None where it has no end.

    `loose`: hash of what texts that may turn out to be the same have in common. `sender`: the program that sent it.
    """

    text: str | None
    loose: str = ""
    sender: str | None = None


@dataclass(slots=True)
class Readings:
    """The readings of one history. `key` makes the hashes; only what was asked for since the loading is stored.

    `basis`: everything besides the text that a statement is read by; readings of another basis do not count.
    """

    basis: str = ""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _old: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    _texts: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    _statements: dict[str, Any] = field(default_factory=dict, repr=False)
    _cuts: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _tables: Tables | None = None

    @classmethod
    def load(cls, folder: Path, connection: str, basis: str, tables: Tables) -> Readings:
        """Return what is kept of a connection's history; nothing where that is damaged, or of another basis."""
        content = read_bytes(_place(folder, connection))
        try:
            stored = json.loads(content or b"{}")
            if stored["basis"] == basis:
                old = {name: dict(stored[name]) for name in ("texts", "statements", "cuts")}
                return cls(basis, bytes.fromhex(stored["key"]), old, _tables=tables)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # it is made anew
        return cls(basis, _tables=tables)

    def save(self, folder: Path, connection: str) -> None:
        """Store what was asked for, where that is not what was stored. Raises `StorageError`."""
        found = {"texts": self._texts, "statements": self._statements, "cuts": self._cuts}
        if self._old == found:
            return
        document = {"basis": self.basis, "key": self.key.hex(), **found}
        place = _place(folder, connection)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(place, json.dumps(document, separators=(",", ":")).encode("utf-8", "surrogatepass"), mode=0o600)

    def hash_of(self, text: str) -> str:
        """Return what stands for a text."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=16).hexdigest()

    def reading(self, text: str, read: Callable[[str], Reading]) -> Reading:
        """Return the reading of a text; `read` makes it where it is not known."""
        name = self.hash_of(text)
        kept = self._texts.get(name) or self._old.get("texts", {}).get(name)
        if kept is None:
            made = read(text)
            kept = [made.text, made.loose, made.sender]
        self._texts[name] = kept
        return Reading(*kept)

    def statement(self, name: str, read: Callable[[], Statement | str]) -> Statement | str:
        """Return the statement of a text by its hash, or why it cannot be read; `read` finds it out."""
        kept = self._statements.get(name) or self._old.get("statements", {}).get(name)
        if kept is not None:
            self._statements[name] = kept
            return kept if isinstance(kept, str) else _statement(kept, self._table)
        found = read()
        self._statements[name] = found if isinstance(found, str) else _plain(found)
        return found

    def cuts(self, text: str, find: Callable[[], list[int]]) -> list[int]:
        """Return where a text is cut into statements; `find` finds out where it is not known."""
        name = self.hash_of(text)
        kept = self._old.get("cuts", {}).get(name)
        self._cuts[name] = find() if kept is None else kept
        return self._cuts[name]

    def _table(self, display: str, parts: Iterable[str], source: str | None) -> NamedTable:
        made = NamedTable(display, tuple(parts), source)
        return made if self._tables is None else self._tables.same(made)


def basis_of(dialect: str, redactions: Iterable[str], tables: Tables) -> str:
    """Return what tells everything a statement is read by from what it was read by before."""
    import importlib.metadata

    known = [[table.display, table.parts, table.source, sorted(table.columns.items())] for table in tables.known]
    parts = [FORMAT, importlib.metadata.version("sqlglot"), dialect, [*redactions], known]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _place(folder: Path, connection: str) -> Path:
    return folder / "query-history" / f"{file_stem(connection)}.json"


def _plain(statement: Statement) -> dict[str, Any]:
    """Return a statement as JSON; tables by their place in a list."""
    numbers: dict[NamedTable, int] = {table: number for number, table in enumerate(statement.tables)}

    def of(table: NamedTable) -> int:
        return numbers.setdefault(table, len(numbers))

    found: dict[str, Any] = {
        "id": statement.id,
        "sql": statement.sql,
        "count": len(statement.tables),
        "columns": [[of(table), clause, column] for table, clause, column in _by_table(statement.columns)],
        "joins": [[of(join.left), of(join.right), [list(pair) for pair in join.pairs]] for join in statement.joins],
        "filters": [[of(table), text] for table, text in _by_table(statement.filters)],
        "groupings": [[of(table), text] for table, text in _by_table(statement.groupings)],
        "trivial": statement.trivial,
        "system": statement.system,
    }
    return found | {"tables": [[table.display, list(table.parts), table.source] for table in numbers]}


def _by_table(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: (item[0].display, *item[1:]))


def _statement(kept: Mapping[str, Any], table: Callable[[str, Iterable[str], str | None], NamedTable]) -> Statement:
    tables = [table(*each) for each in kept["tables"]]
    return Statement(
        kept["id"],
        kept["sql"],
        tuple(tables[: kept["count"]]),
        frozenset((tables[number], clause, column) for number, clause, column in kept["columns"]),
        tuple(
            ObservedJoin(tables[left], tables[right], tuple((own, other) for own, other in pairs))
            for left, right, pairs in kept["joins"]
        ),
        frozenset((tables[number], text) for number, text in kept["filters"]),
        frozenset((tables[number], text) for number, text in kept["groupings"]),
        kept["trivial"],
        kept["system"],
    )
