"""The search index of one machine: its tables, in a SQLite file or in memory."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ktx_cli.core import Command, Hint, StorageError
from ktx_cli.project import is_full, replacing, storage_error
from ktx_cli.search.corpus import KINDS, Document, Scope, digest_of
from ktx_cli.search.explanations import TABLES, find_mentions
from ktx_cli.search.store import (
    ALL_COLUMNS,
    FINDING,
    INTERNAL,
    KIND_BITS,
    MARK,
    MOST_SPELLINGS,
    OWNED,
    TIERS,
    VERSION,
    NewPart,
    Row,
    packed_fields,
    storable,
    stored_texts,
    tag,
    unpacked,
    words_of,
)

_SCRIPT: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE units (key TEXT PRIMARY KEY, signature TEXT NOT NULL, digest TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE parts (
    id INTEGER PRIMARY KEY, unit TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, UNIQUE (unit, name)
) STRICT;
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, part INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, connection TEXT NOT NULL,
    owner TEXT NOT NULL, place INTEGER NOT NULL, summary TEXT NOT NULL, length REAL NOT NULL, worth REAL NOT NULL,
    digest BLOB NOT NULL,
    fields BLOB NOT NULL
) STRICT;
CREATE INDEX docs_of_part ON docs (part);
CREATE INDEX docs_of_owner ON docs (owner) WHERE owner <> '';
CREATE TABLE totals (kind TEXT PRIMARY KEY, number INTEGER NOT NULL, length REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER docs_added AFTER INSERT ON docs BEGIN
    INSERT INTO totals VALUES (new.kind, 1, new.length)
    ON CONFLICT (kind) DO UPDATE SET number = number + 1, length = length + new.length;
END;
CREATE TRIGGER docs_removed AFTER DELETE ON docs BEGIN
    UPDATE totals SET number = number - 1, length = length - old.length WHERE kind = old.kind;
END;
CREATE TABLE spellings (
    word TEXT PRIMARY KEY, backwards TEXT NOT NULL, stem TEXT NOT NULL, docs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spellings_backwards ON spellings (backwards);
CREATE TABLE vectors (doc INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT;
CREATE VIRTUAL TABLE texts USING fts5 (tag, {", ".join(TIERS)}, tokenize = 'ascii');
CREATE VIRTUAL TABLE terms USING fts5vocab (texts, row);
{TABLES}
PRAGMA user_version = {VERSION};
"""


def create(database: sqlite3.Connection) -> None:
    """Create the tables in an empty database."""
    database.executescript(_SCRIPT)


def is_current(database: sqlite3.Connection) -> bool:
    """Return whether a database has the tables of this version. Raises the SQLite error for a damaged one."""
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == VERSION)


def get_meta(database: sqlite3.Connection, key: str) -> str | None:
    """Return a stored fact about the index, or None."""
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_meta(database: sqlite3.Connection, key: str, value: str) -> None:
    """Store a fact about the index."""
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


_AT_ONCE: Final = 500
"""Maximum number of rows per statement."""
_ROW: Final = "d.id, d.kind, d.name, d.connection, d.owner, d.place, d.length, d.worth"
_FACTS: Final = 8
_SHOWN: Final = "d.id, d.summary, d.fields FROM docs AS d"
_TEXTS: Final = ", ".join(f"' ' || t.{tier} || ' '" for tier in TIERS)

_OF_PART: Final = (
    "SELECT d.digest, d.id FROM parts AS p JOIN docs AS d ON d.part = p.id WHERE p.unit = ? AND p.name = ?"
)


_Asked = tuple[str, int, int]
"""An FTS5 query, and the range of documents to search."""
_WITHIN: Final = "texts MATCH ? AND rowid BETWEEN ? AND ?"
_LARGE: Final = 300_000
"""Number of documents above which FTS5 does not rank every match of a frequent word."""
_MOST_RANKED: Final = 20_000
"""Number of documents that FTS5 ranks for a frequent word in a large index."""
_TOGETHER: Final = 5
"""Number of the rarest words to match together in a large index."""


class Store:
    """An open index without the documents `removed`. It is immutable and safe for several threads."""

    def __init__(self, database: Connection, removed: Collection[int] = ()) -> None:
        self.database = database
        self.removed = frozenset(removed)
        self._having: dict[str, int] = {}

    @classmethod
    def of(cls, units: Mapping[str, Iterable[Document]]) -> Store:
        """Build an index in memory from units and their documents."""
        return cls.of_parts((NewPart(unit, "", "", documents) for unit, documents in units.items()))

    @classmethod
    def of_parts(cls, parts: Iterable[NewPart]) -> Store:
        """Build an index in memory from parts of units."""
        database = in_memory()
        for part in parts:
            add(database, part.unit, part.documents, part.name, part.digest)
        return cls(database)

    def without(self, removed: Collection[int]) -> Store:
        """Return a copy that excludes further documents."""
        return Store(self.database, self.removed.union(removed)) if removed else self

    def parts(self, unit: str) -> dict[str, str]:
        """Return the digests of the parts of a unit by name. A removed unit has none."""
        return dict(self.database.ask("SELECT name, digest FROM parts WHERE unit = ?", (unit,)))

    def of_part(self, unit: str, name: str) -> dict[bytes, int]:
        """Return the documents in a part of a unit, by digest."""
        rows = self.database.ask(_OF_PART, (unit, name))
        return {digest: number for digest, number in rows if number not in self.removed}

    @functools.cached_property
    def count(self) -> int:
        """The number of documents."""
        return sum(number for number, _ in self.lengths.values())

    @functools.cached_property
    def lengths(self) -> Mapping[str, tuple[int, float]]:
        """The number of documents and their total weighted length in words, for each kind."""
        rows = self.database.ask("SELECT kind, number, length FROM totals WHERE number > 0 ORDER BY kind")
        return {kind: (number, length) for kind, number, length in rows}

    def having(self, term: str) -> int:
        """Return the number of documents that contain a stem, including removed ones."""
        if term not in self._having:
            rows = self.database.ask("SELECT doc FROM terms WHERE term = ?", (term,))
            self._having[term] = int(rows[0][0]) if rows else 0
        return self._having[term]

    def begun(self, word: str) -> list[str]:
        """Return the stems of words with a prefix, shortest first."""
        rows = self.database.ask(
            "SELECT stem, min(length(word)) AS shortest FROM spellings WHERE word >= ? AND word < ?"
            " GROUP BY stem ORDER BY shortest, stem LIMIT ?",
            (word, word + "\U0010ffff", MOST_SPELLINGS),
        )
        return [stem for stem, _ in rows]

    def containing(self, part: str, most: int) -> list[str]:
        """Return the stems of words with a prefix or suffix, shortest first."""
        found: list[str] = []
        for column, begun in (("word", part), ("backwards", part[::-1])):
            rows = self.database.ask(
                f"SELECT stem, min(length(word)) AS shortest FROM spellings WHERE {column} >= ? AND {column} < ?"
                " AND length(word) >= ? GROUP BY stem ORDER BY shortest, stem LIMIT ?",
                (begun, begun + "\U0010ffff", len(part) + 2, most),
            )
            found += [stem for stem, _ in rows]
        return found

    def alike(self, word: str) -> dict[str, str]:
        """Return the stems of words of similar length that share the first or last third with a word.

        Inserting, deleting, changing or swapping a single letter leaves one of the two unchanged.
        """
        third = max(1, len(word) // 3)
        found: dict[str, str] = {}
        for column, part in (("word", word[:third]), ("backwards", word[::-1][:third])):
            rows = self.database.ask(
                f"SELECT word, stem FROM spellings WHERE {column} >= ? AND {column} < ?"
                " AND length(word) BETWEEN ? AND ?",
                (part, part + "\U0010ffff", len(word) - 2, len(word) + 2),
            )
            found.update(rows)
        return found

    def best(self, terms: Iterable[str], scope: Scope, wanted: int) -> list[int]:
        """Return up to `wanted` documents with one of the stems, best first as ranked by FTS5.

        If very many documents of a large index match, the result includes those with several of the stems and the best
        of the first ones, with governed definitions before columns.
        """
        listed = list(terms)
        asked = self._asked(listed, scope)
        if asked is None:
            return []
        if self.count > _LARGE:
            return self._best_of_many(listed, scope, asked, wanted)
        most = wanted
        while True:
            rows = self._ranked(asked, most)
            kept = [number for number in rows if number not in self.removed]
            if len(kept) >= wanted or len(rows) < most:
                return kept[:wanted]
            most *= 4

    def _ranked(self, asked: _Asked, wanted: int) -> list[int]:
        weights = ", ".join(map(str, (0.0, *TIERS.values())))
        rows = self.database.ask(
            f"SELECT rowid FROM texts WHERE {_WITHIN} ORDER BY bm25(texts, {weights}), rowid LIMIT ?", (*asked, wanted)
        )
        return [number for (number,) in rows]

    def _best_of_many(self, terms: list[str], scope: Scope, asked: _Asked, wanted: int) -> list[int]:
        match, low, high = asked
        edge = self.database.ask(f"SELECT rowid FROM texts WHERE {_WITHIN} LIMIT 1 OFFSET ?", (*asked, _MOST_RANKED))
        if not edge:
            first = self._ranked(asked, wanted + len(self.removed))
            return [number for number in first if number not in self.removed][:wanted]
        found: dict[int, None] = {}
        rarest = sorted(terms, key=self.having)[:_TOGETHER]
        groups = [rarest, *combinations(rarest, 2)] if len(rarest) > 2 else [rarest] if len(rarest) == 2 else []
        for group in groups:
            together = self._asked(group, scope, every=True)
            if together is not None and len(found) < wanted:
                rows = self.database.ask(f"SELECT rowid FROM texts WHERE {_WITHIN} LIMIT ?", (*together, wanted))
                found |= dict.fromkeys(number for (number,) in rows if number not in self.removed)
        first = self._ranked((match, low, min(high, edge[0][0])), wanted + len(self.removed))
        found |= dict.fromkeys(each for each in first if each not in self.removed)
        return list(found)[: 2 * wanted]

    def _asked(self, terms: Sequence[str], scope: Scope, *, every: bool = False) -> _Asked | None:
        """Return the FTS5 query for any of the stems, or for all with `every`. None if nothing can match."""
        kinds = sorted(map(KINDS.index, scope.kinds or KINDS))
        if not terms or not any(KINDS[kind] in self.lengths for kind in kinds):
            return None
        low, high = kinds[0] << KIND_BITS, (kinds[-1] + 1 << KIND_BITS) - 1
        if len(set(kinds)) == kinds[-1] - kinds[0] + 1:
            scope = replace(scope, kinds=())
        if not self.having(INTERNAL):
            scope = replace(scope, internal=True)
        return expression(terms, scope, every=every, owned=self.having(OWNED) > 0), low, high

    def total(self, terms: Iterable[str], scope: Scope) -> int:
        """Return the number of documents that contain one of the stems."""
        asked = self._asked(list(terms), scope)
        if asked is None:
            return 0
        if not self.removed:
            return int(self.database.ask(f"SELECT count(*) FROM texts WHERE {_WITHIN}", asked)[0][0])
        rows = self.database.ask(f"SELECT rowid FROM texts WHERE {_WITHIN}", asked)
        return sum(number not in self.removed for (number,) in rows)

    def within(self, scope: Scope) -> list[int]:
        """Return all documents in a scope, sorted."""
        return self._matching(scoped(_any_kind(scope), scope))

    def _matching(self, match: str) -> list[int]:
        rows = self.database.ask("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid", (match,))
        return [number for (number,) in rows if number not in self.removed]

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield documents for ranking in any order."""
        for facts in self._of(f"{_ROW}, {_TEXTS} FROM docs AS d JOIN texts AS t ON t.rowid = d.id", numbers):
            yield Row(*(*facts[:_FACTS], facts[_FACTS:]))

    def bare_rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield documents without their texts, in any order."""
        for facts in self._of(f"{_ROW} FROM docs AS d", numbers):
            yield Row(*facts)

    def _of(self, what: str, numbers: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            marks = ", ".join("?" for _ in part)
            yield from self.database.ask(f"SELECT {what} WHERE d.id IN ({marks})", part)

    def shown(self, numbers: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        """Return the summary and packed fields of each document by number."""
        return {number: (summary, fields) for number, summary, fields in self._of(_SHOWN, numbers)}

    def naming(self, names: Collection[str]) -> list[tuple[str, str, str]]:
        """Return (name, page, owner) of the pages that mention one of the semantic layer names."""
        found = find_mentions(self.database.ask, names)
        return [(name, page, owner) for name, page, owner, number in found if number not in self.removed]

    def named_by(self, number: int) -> list[str]:
        """Return the semantic layer names that a page mentions, in lower case."""
        return [name for (name,) in self.database.ask("SELECT name FROM mentions WHERE doc = ?", (number,))]

    @property
    def models(self) -> Collection[str]:
        """The model of the vectors, if any; see `vectors.model_name`."""
        stored = get_meta(self.database, "vectors")
        return () if stored is None else (stored,)

    def dimensions(self, model: str) -> int:
        """Return the length of the vectors of a model, or 0 without vectors."""
        rows = self.database.ask("SELECT length(vector) / 4 FROM vectors LIMIT 1") if model in self.models else []
        return int(rows[0][0]) if rows else 0

    def vectors(self, model: str) -> list[tuple[int, bytes, str]]:
        """Return (document, packed vector, kind) of all documents with a vector, sorted by document."""
        query = "SELECT v.doc, v.vector, d.kind FROM vectors AS v JOIN docs AS d ON d.id = v.doc ORDER BY v.doc"
        return self.database.ask(query) if model in self.models else []

    def nearest(self, model: str, vector: Sequence[float], scope: Scope, wanted: int) -> None:
        """Return None, because the vectors of a file are compared by `Vectors`."""

    def prepare(self, terms: Iterable[str]) -> None:
        """Do nothing, because asking a file for one stem is as fast."""

    def owned(self, user: str) -> set[str]:
        """Return the names of a user's pages."""
        rows = self.database.ask("SELECT id, name FROM docs WHERE owner = ? AND kind = 'page'", (user,))
        return {name for number, name in rows if number not in self.removed}


def in_memory() -> Connection:
    """Return an empty index in memory."""
    database = connect(":memory:")
    create(database)
    return database


def expression(terms: Iterable[str], scope: Scope, *, every: bool = False, owned: bool = True) -> str:
    """Return the FTS5 query for any of the terms, or all with `every`, within the scope.

    `owned` is true if the index has documents of single users.
    """
    listed = (" AND " if every else " OR ").join(f'"{term}"' for term in terms)
    if not listed:
        return ""
    asked = f"{{{' '.join(FINDING)}}} : ({listed})"
    return scoped(f"({asked}) AND {_any_kind(scope)}" if scope.kinds else asked, scope, owned=owned)


def scoped(asked: str, scope: Scope, *, owned: bool = True) -> str:
    """Restrict an FTS5 query to a scope, apart from its kinds."""
    if scope.connection is not None:
        asked = f'({asked}) AND tag : ("{tag("c", scope.connection)}" OR "{MARK}n")'
    if scope.tag is not None:
        asked = f'({asked}) AND tag : "{tag("t", scope.tag)}"'
    if not scope.internal:
        asked = f'({asked}) NOT tag : "{INTERNAL}"'
    others = f'tag : "{OWNED}"'
    if scope.user:
        others = f'({others} NOT tag : "{tag("u", scope.user)}")'
    return f"({asked}) NOT {others}" if owned else asked


def _any_kind(scope: Scope) -> str:
    kinds = (tag("k", kind) for kind in sorted(scope.kinds or KINDS))
    return "tag : (" + " OR ".join(f'"{kind}"' for kind in kinds) + ")"


def identity(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of the current index file, or None if it does not exist."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def open_index(path: Path) -> Connection | None:
    """Open an index for reading, or return None for one of another version.

    It is opened as immutable, because a run replaces the file instead of changing it. Raises the SQLite error for a
    damaged one.
    """
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    database = connect(uri, uri=True)
    try:
        if is_current(database):
            database.execute("SELECT count(*) FROM units").fetchone()
            return database
    except BaseException:
        database.close()
        raise
    database.close()
    return None


class ChangedIndex:
    """An index that is read in place, and copied before its first change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = contextlib.ExitStack()
        self._written: Connection | None = None
        self.known = _undamaged(path)
        """The index before any change, or None for a new one."""

    @property
    def database(self) -> Connection:
        """The current index, with the changes so far."""
        return self._written or self.known or self.changed

    @property
    def changed(self) -> Connection:
        """The index to change, in its own file."""
        if self._written is None:
            place = self._stack.enter_context(replacing(self.path, mode=0o600))
            if self.known is not None:
                shutil.copyfile(self.path, place)
            self._written = connect(str(place))
            for setting in _WRITING:
                self._written.execute(setting)
            if self.known is None:
                create(self._written)
                self._written.execute("INSERT INTO texts (texts, rank) VALUES ('hashsize', ?)", (_PENDING,))
            self._written.execute("BEGIN")
        return self._written

    def commit(self) -> None:
        """Keep the changes so far, even if a later step fails."""
        self.changed.execute("COMMIT")
        self.changed.execute("BEGIN")

    def keep(self) -> None:
        """Replace the existing index with the changed one; without changes, nothing is written."""
        if self.known is None:
            assert self.changed
        if self._written is not None:
            self._written.execute("COMMIT")
            self._written.close()
        self._stack.close()

    def close(self, *error: Any) -> None:
        """Close all open indexes, and drop changes that were not kept."""
        for database in (self._written, self.known):
            if database is not None:
                database.close()
        self._stack.__exit__(*error)


_WRITING: Final = (
    "PRAGMA journal_mode = OFF",  # it is a copy: one that fails is dropped
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA cache_size = -131072",
    "PRAGMA secure_delete = ON",  # what may not be shown any more must not stay in the file
)
_PENDING: Final = 16_000_000
"""Bytes of words to collect before writing; with more, fewer parts have to be merged."""
_CHECKED: Final = 64_000_000
"""Maximum bytes of an index that is checked for damage before a change; in a larger one, reading detects it."""


@contextlib.contextmanager
def changing(path: Path) -> Iterator[ChangedIndex]:
    """Provide the index to change, then replace the file with it.

    An index that is damaged or of another version is rebuilt. Without changes, nothing is written; if the block fails,
    the file is unchanged. The caller holds the run lock. Raises `StorageError`.
    """
    index = ChangedIndex(path)
    try:
        yield index
        index.keep()
    except sqlite3.Error as error:
        index.close(type(error), error, error.__traceback__)
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL or is_full(path):
            raise storage_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
        raise index_error(path, error) from error
    except BaseException as error:
        index.close(type(error), error, error.__traceback__)
        raise
    index.close(None, None, None)


def index_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the error for an unusable index."""
    hint = Hint("delete it, then build it again: {} && {}", Command(path, program="rm"), Command("index"))
    return StorageError(f"the search index {path} cannot be used: {error}", hint=hint, details={"path": str(path)})


def _undamaged(path: Path) -> Connection | None:
    """Return the existing index for reading, or None if it is damaged, missing or of another version."""
    there = identity(path)
    if there is None:
        return None
    try:
        database = open_index(path)
        if database is None:
            return None
        if there[1] > _CHECKED or database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
            return database
        database.close()
    except sqlite3.DatabaseError:  # damaged: what is in it is built again from the files
        pass
    return None


class Connection(sqlite3.Connection):
    """A connection that closes itself when its last reader releases it, so that no reader closes it for another."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._lock = threading.Lock()

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query; queries run one after the other."""
        with self._lock:
            return self.execute(sql, values).fetchall()

    def __del__(self) -> None:
        self.close()


def connect(place: str, *, uri: bool = False) -> Connection:
    """Open a database for all threads; raises the SQLite error if that fails."""
    return sqlite3.connect(place, uri=uri, isolation_level=None, check_same_thread=False, factory=Connection)


def add(
    database: sqlite3.Connection, unit: str, documents: Iterable[Document], name: str = "", digest: str = ""
) -> list[int]:
    """Store documents in a part of a unit, and return their numbers. `digest` identifies the part from now on."""
    written = "INSERT INTO parts (unit, name, digest) VALUES (?, ?, ?)"
    again = "ON CONFLICT (unit, name) DO UPDATE SET digest = excluded.digest"
    database.execute(f"{written} {again}", (unit, name, digest))
    part: int = database.execute("SELECT id FROM parts WHERE unit = ? AND name = ?", (unit, name)).fetchone()[0]
    numbers = []
    following: dict[str, int] = {}
    spelled: dict[str, str] = {}
    docs: Counter[str] = Counter()
    for document in documents:
        texts, length, words = stored_texts(document, spelled)
        docs.update(words)
        number = following.get(document.kind) or _following(database, document.kind)
        following[document.kind] = number + 1
        _insert(database, number, part, document, texts, length)
        named = ((storable(each), number) for each in document.mentions)
        database.executemany("INSERT OR IGNORE INTO mentions VALUES (?, ?)", named)
        numbers.append(number)
    more = "ON CONFLICT (word) DO UPDATE SET docs = docs + excluded.docs"
    rows = ((word, word[::-1], to, docs[word]) for word, to in spelled.items())
    database.executemany(f"INSERT INTO spellings VALUES (?, ?, ?, ?) {more}", rows)
    return numbers


def remove(database: sqlite3.Connection, numbers: Iterable[int]) -> set[str]:
    """Remove documents with their vectors and the words that no other document has, and return the stems they had."""
    rows = [(number,) for number in numbers]
    columns = " || ' ' || ".join(f"t.{each}" for each in ALL_COLUMNS)
    found: set[str] = set()
    fewer: Counter[str] = Counter()
    query = f"SELECT {columns}, d.fields FROM texts AS t JOIN docs AS d ON d.id = t.rowid WHERE t.rowid = ?"
    for row in rows:
        for texts, fields in database.execute(query, row).fetchall():
            found.update(texts.split())
            fewer.update(words_of(unpacked(fields)))
    lost = ((count, word) for word, count in fewer.items())
    database.executemany("UPDATE spellings SET docs = docs - ? WHERE word = ?", lost)
    database.executemany("DELETE FROM spellings WHERE word = ? AND docs <= 0", ((word,) for word in fewer))
    for table, key in (("texts", "rowid"), ("vectors", "doc"), ("mentions", "doc"), ("docs", "id")):
        database.executemany(f"DELETE FROM {table} WHERE {key} = ?", rows)
    return found


_FEW: Final = 5_000
"""Maximum number of words to check individually for whether a document still contains them."""


def forget_words(database: sqlite3.Connection, stems: Set[str]) -> None:
    """Rewrite the index of words if no document has one of the stems any more.

    They may belong to values that are now hidden, and remain in the file otherwise.
    """
    if len(stems) > _FEW or not all(_is_had(database, each) for each in sorted(stems)):
        database.execute("INSERT INTO texts (texts) VALUES ('optimize')")


def _is_had(database: sqlite3.Connection, term: str) -> bool:
    query = "SELECT 1 FROM texts WHERE texts MATCH ? LIMIT 1"
    return database.execute(query, (f'"{term}"',)).fetchone() is not None


def _following(database: sqlite3.Connection, kind: str) -> int:
    """Return the number of the next document of a kind."""
    low = KINDS.index(kind) << KIND_BITS
    query = "SELECT max(id) FROM docs WHERE id BETWEEN ? AND ?"
    last = database.execute(query, (low, low + (1 << KIND_BITS) - 1)).fetchone()[0]
    return low + 1 if last is None else int(last) + 1


def _insert(
    database: sqlite3.Connection, number: int, part: int, document: Document, texts: dict[str, str], length: float
) -> None:
    row: tuple[Any, ...] = (
        *(number, part, document.kind, document.id, document.connection, document.owner, document.order),
        *(document.summary, length, document.worth, digest_of(document), packed_fields(document)),
    )
    names = "id, part, kind, name, connection, owner, place, summary, length, worth, digest, fields"
    row = tuple(storable(each) if isinstance(each, str) else each for each in row)
    database.execute(f"INSERT INTO docs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    marks = ", ".join("?" for _ in ALL_COLUMNS)
    database.execute(
        f"INSERT INTO texts (rowid, {', '.join(ALL_COLUMNS)}) VALUES (?, {marks})", (number, *texts.values())
    )
