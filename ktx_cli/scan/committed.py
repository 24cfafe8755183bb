"""The committed files of a connection (snapshot, shards, records), and the tables that a scan carries over."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from ktx_cli.core import ConfigError, KtxError, ResultWarning, SourceError, is_utf8, listing, yaml
from ktx_cli.project import DATABASE_SOURCE, Layout
from ktx_cli.scan import snapshot as stored_columns
from ktx_cli.scan.decisions import record as decisions
from ktx_cli.scan.descriptions import facts
from ktx_cli.scan.measures import record as measures
from ktx_cli.scan.relationships.record import (
    RELATIONSHIPS,
    Relationship,
    RelationshipRecord,
    read_record,
    record_text,
    restricted,
)
from ktx_cli.scan.shards import ManifestIndex, WrittenShards, entries
from ktx_cli.scan.snapshot import MANIFEST, manifest_hashes, manifest_text, read_table, table_path
from ktx_cli.semantic import MANIFEST_HEADER, SUFFIXES, Entry, ParsedCopies, Shard, is_shard_path, physical_name
from ktx_cli.warehouses import DatabaseSchema, Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.record import Relationship

WHOLESALE = frozenset({"schema", "folder"})
"""Problems that hide an unknown number of tables. While one occurs, a missing table does not count as dropped."""


def require_some_tables(connection: str, schema: DatabaseSchema, before: Sequence[Table]) -> None:
    """Raise `SourceError` if a database that had tables now has none, which usually means lost privileges."""
    if before and not schema.tables and not schema.problems:
        raise SourceError(
            f"connection `{connection}` has no visible tables; the last scan read {len(before)}",
            hint="check the role's privileges, `include` and the path; to start over, delete the connection's "
            "folders in semantic-layer/ and raw-sources/",
        )


def carried_over(schema: DatabaseSchema, before: Sequence[Table]) -> tuple[list[Table], list[Table]]:
    """Return all tables, and those carried over from the last scan.

    A table that could not be read, or that no longer has visible columns, is carried over whole. If one kind of
    metadata could not be read at all (such as `foreign keys` or `indexes`), that part of each table is carried over.
    """
    found = {table.ref: table for table in schema.tables}
    unreadable = {problem.ref for problem in schema.problems if problem.ref is not None}
    hidden = any(problem.ref is None and problem.what in WHOLESALE for problem in schema.problems)
    kept = [table for table in before if table.ref not in found and (hidden or table.ref in unreadable)]
    missing = frozenset(problem.what for problem in schema.problems if problem.ref is None)
    old = {table.ref: table for table in before}
    # A table that is dropped and recreated while the catalog is being read keeps its name but has no visible columns.
    bare = {table.ref for table in schema.tables if not table.columns and table.ref in old and old[table.ref].columns}
    kept += [old[ref] for ref in sorted(bare, key=str)]
    tables = [_completed(table, old.get(table.ref), missing) for table in schema.tables if table.ref not in bare]
    return [*tables, *kept], kept


def _completed(table: Table, old: Table | None, missing: frozenset[str]) -> Table:
    if old is None or not missing:
        return table
    if missing & {"constraints", "foreign keys"}:
        table = replace(table, foreign_keys=old.foreign_keys)
    if missing & {"constraints", "indexes"}:
        table = replace(table, primary_key=old.primary_key, unique_keys=old.unique_keys, indexes=old.indexes)
    if "view definitions" in missing:
        table = replace(table, view_sql=old.view_sql)
    if "materialized views" in missing:
        table = replace(table, kind=old.kind, view_sql=table.view_sql or old.view_sql)
    if "row counts" in missing and table.row_estimate is None:
        table = replace(table, row_estimate=old.row_estimate)
    return _with_comments(table, old, missing)


def _with_comments(table: Table, old: Table, missing: frozenset[str]) -> Table:
    if "table comments" in missing:
        table = replace(table, comment=table.comment or old.comment)
    if "column comments" in missing:
        known = {column.name: column.comment for column in old.columns}
        columns = (replace(each, comment=each.comment or known.get(each.name)) for each in table.columns)
        table = replace(table, columns=tuple(columns))
    return table


class Base(Protocol):
    """The committed tree that a scan compares its results with."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the contents of the paths that exist."""

    def blobs(self, prefix: str) -> Mapping[str, str]:
        """Return path -> blob id for every file below a folder."""


def folders(connection: str) -> tuple[str, str]:
    """Return the two folders that a scan writes: the shards and the snapshot."""
    return Layout.schema_path(connection), Layout.raw_path(connection, DATABASE_SOURCE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last snapshot: path -> sha256, and its tables, which are None if there is no readable snapshot."""

    hashes: Mapping[str, str]
    tables: tuple[Table, ...] | None
    warnings: tuple[ResultWarning, ...] = ()


class Committed:
    """The committed files of one connection. `files`: path -> blob id, for files whose names are UTF-8."""

    def __init__(self, base: Base, connection: str, copies: ParsedCopies) -> None:
        self.base, self.connection = base, connection
        self.schema_folder, self.raw_folder = folders(connection)
        blobs = {path: blob for folder in folders(connection) for path, blob in base.blobs(folder).items()}
        self.files = {path: blob for path, blob in blobs.items() if is_utf8(path)}
        self._copies = copies

    @cached_property
    def _read_records(self) -> tuple[Records, tuple[ResultWarning, ...]]:
        paths = [f"{self.raw_folder}/{name}" for name in FILES]
        return read_records(self.base.read_many(path for path in paths if path in self.files), self.raw_folder)

    @property
    def records(self) -> Records:
        """The records from earlier scans."""
        return self._read_records[0]

    @property
    def warnings(self) -> tuple[ResultWarning, ...]:
        """A warning for each record that cannot be read."""
        return self._read_records[1]

    @cached_property
    def manifest(self) -> WrittenShards:
        """Return the shards by path. Raises `ConfigError` for a broken shard."""
        paths = [path for path in self.files if is_shard_path(path) and path.endswith(SUFFIXES)]
        contents = self.base.read_many(paths)
        return WrittenShards.of({path: self._copies.parse(content, path) for path, content in contents.items()})

    @property
    def shards(self) -> Mapping[str, Shard]:
        """Return path -> shard, with each join listed on both of its tables. Raises `ConfigError` for broken shards."""
        return self.manifest.shards

    @cached_property
    def snapshot(self) -> Snapshot:
        """The last snapshot."""
        where = f"{self.raw_folder}/{MANIFEST}"
        if where not in self.files:
            return Snapshot({}, None)
        try:
            hashes = manifest_hashes(self.base.read_many([where])[where], where)
            hashes = {path: value for path, value in hashes.items() if f"{self.raw_folder}/{path}" in self.files}
            contents = self.base.read_many([f"{self.raw_folder}/{path}" for path in hashes])
            return Snapshot(hashes, tuple(read_table(content, path) for path, content in contents.items()))
        except KtxError as error:
            message = f"{error.message}; ktx writes a new one"
            note = ResultWarning("broken_snapshot", message, problem=error.message, path=self.raw_folder)
            return Snapshot({}, None, (note,))

    def all_tables(self, schema: DatabaseSchema) -> list[Table]:
        """Return the tables of a database, including those that only the last scan could read."""
        whole = not schema.problems and all(table.columns for table in schema.tables)
        return list(schema.tables) if whole else carried_over(schema, self.snapshot.tables or ())[0]

    def texts(self, tables: Iterable[Table]) -> dict[TableRef, facts.KnownTexts]:
        """Return the texts that people and other tools wrote about tables. Raises `ConfigError` for a broken shard."""
        refs = [table.ref for table in tables]
        primary = ManifestIndex.of(self.shards, refs).primary
        found = {ref: primary[physical_name(ref)] for ref in refs if physical_name(ref) in primary}
        return {ref: facts.known_texts(self.shards[path].tables[name]) for ref, (path, name) in found.items()}


FILES: Final = (
    *(RELATIONSHIPS, facts.DESCRIPTIONS, measures.MEASURES, decisions.DECISIONS),
    stored_columns.STORED_COLUMNS,
)

_READERS: Final[Mapping[str, Callable[[bytes, str], Any]]] = {
    RELATIONSHIPS: read_record,
    facts.DESCRIPTIONS: facts.read_descriptions,
    measures.MEASURES: measures.read_proposals,
    decisions.DECISIONS: decisions.read_points,
    stored_columns.STORED_COLUMNS: stored_columns.read_stored_columns,
}


@dataclass(frozen=True, slots=True)
class Records:
    """The recorded relationships, descriptions, proposed measures, decision points and stored columns of a connection.

    A value is None if no scan recorded any, or if its file is one of the `broken` ones, which ktx does not change.
    """

    relationships: RelationshipRecord | None = None
    described: Mapping[TableRef, facts.Described] | None = None
    broken: frozenset[str] = frozenset()
    measures: measures.Proposals | None = None
    decisions: decisions.FoundPoints | None = None
    stored: stored_columns.StoredColumns | None = None

    @property
    def known(self) -> RelationshipRecord:
        """The inferred keys and relationships; empty if none are recorded."""
        return self.relationships or RelationshipRecord()

    @property
    def texts(self) -> Mapping[TableRef, facts.Described]:
        """The descriptions by table; empty if none are recorded."""
        return self.described or {}

    def restricted(self, tables: Iterable[Table]) -> Records:
        """Return the records for tables and columns that still exist."""
        by_ref = {table.ref: table for table in tables}
        return replace(
            self,
            relationships=None if self.relationships is None else restricted(self.relationships, by_ref),
            described=None if self.described is None else facts.updated_record(self.described, (), by_ref.values()),
            measures=None if self.measures is None else measures.restricted(self.measures, by_ref.values()),
            decisions=None if self.decisions is None else decisions.restricted(self.decisions, by_ref.values()),
            stored=None if self.stored is None else stored_columns.restricted_columns(self.stored, by_ref.values()),
        )

    def contents(self, before: Records | None = None, written: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return name -> content of the files, except records that are None.

        `written`: the contents of `before`, reused for records that did not change.
        """
        known = written or {}
        found = {}
        if self.relationships is not None:
            same = before is not None and before.relationships == self.relationships
            found[RELATIONSHIPS] = known[RELATIONSHIPS] if same else record_text(self.relationships)
        if self.described is not None:
            same = before is not None and before.described == self.described
            found[facts.DESCRIPTIONS] = (
                known[facts.DESCRIPTIONS] if same else facts.record_bytes(self.described.values())
            )
        if self.measures is not None:
            same = before is not None and before.measures == self.measures
            found[measures.MEASURES] = known[measures.MEASURES] if same else measures.proposals_bytes(self.measures)
        if self.decisions is not None:
            same = before is not None and before.decisions == self.decisions
            found[decisions.DECISIONS] = known[decisions.DECISIONS] if same else decisions.points_bytes(self.decisions)
        if self.stored is not None:
            name = stored_columns.STORED_COLUMNS
            same = before is not None and before.stored == self.stored
            found[name] = known[name] if same else stored_columns.stored_columns_bytes(self.stored)
        return found

    def entries(
        self, tables: Iterable[Table], names: Mapping[TableRef, str], manual: Sequence[Relationship] = ()
    ) -> dict[TableRef, Entry]:
        """Return the generated manifest entry of every table. `manual`: relationships restored as manual ones."""
        generated = entries(tables, names, self.relationships, manual)
        proposed, stored = self.measures or {}, self.stored or {}
        found = {}
        for ref, plain in generated.items():
            entry = stored_columns.with_stored_columns(plain, stored[ref]) if ref in stored else plain
            entry = facts.with_descriptions(entry, self.texts.get(ref))
            found[ref] = measures.with_proposals(entry, proposed.get(ref, ()))
        return found


def read_records(contents: Mapping[str, bytes], folder: str) -> tuple[Records, tuple[ResultWarning, ...]]:
    """Return the records in a folder's `contents` (path -> bytes), and a warning for each broken record."""
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
    records = Records(
        found.get(RELATIONSHIPS),
        found.get(facts.DESCRIPTIONS),
        broken,
        found.get(measures.MEASURES),
        found.get(decisions.DECISIONS),
        found.get(stored_columns.STORED_COLUMNS),
    )
    return records, tuple(warnings)


@dataclass(frozen=True, slots=True)
class LinkedFiles:
    """The files of a scan that must change together: snapshot files, shards and records.

    The next scan compares a snapshot file with its shard to tell people's values from generated ones. The records of
    relationships, proposed measures, decision points and stored columns cover all tables; each table has its own part
    of the descriptions.
    `shard_of`: snapshot path -> shard path. `moves`: the old and the new shard of entries that move. `old`, `new`: path
    below `folder` -> sha256, before and after. `old_texts`, `new_texts`: the record of descriptions, before and after.
    """

    connection: str
    driver: str
    folder: str
    shard_of: Mapping[str, str]
    old: Mapping[str, str]
    new: Mapping[str, str]
    old_texts: Mapping[TableRef, facts.Described] = field(default_factory=dict)
    new_texts: Mapping[TableRef, facts.Described] = field(default_factory=dict)
    moves: Collection[tuple[str, str]] = ()

    def without(self, files: Mapping[str, bytes | None], held: frozenset[str]) -> dict[str, bytes | None]:
        """Return `files` with a matching manifest, but without files linked to a held path."""
        manifest = f"{self.folder}/{MANIFEST}"
        if held & {manifest, *(f"{self.folder}/{name}" for name in FILES)}:
            return {}
        shards = self._moved_with({shard for raw, shard in self.shard_of.items() if raw in held} | held)
        linked = {raw for raw, shard in self.shard_of.items() if shard in shards}
        kept = {path: content for path, content in files.items() if path not in shards and path not in linked}
        if linked:
            kept.pop(f"{self.folder}/{RELATIONSHIPS}", None)
            kept.pop(f"{self.folder}/{measures.MEASURES}", None)
            kept.pop(f"{self.folder}/{decisions.DECISIONS}", None)
            kept.pop(f"{self.folder}/{stored_columns.STORED_COLUMNS}", None)
            self._hold_texts(kept, linked)
        if manifest in files:
            kept[manifest] = manifest_text(self.connection, self.driver, self._hashes(linked)).encode()
        return kept

    def _moved_with(self, shards: set[str]) -> set[str]:
        """Return these shards and all that exchange entries with them, because an entry must not be in two files."""
        neighbours: dict[str, set[str]] = {}
        for old, new in self.moves:
            neighbours.setdefault(old, set()).add(new)
            neighbours.setdefault(new, set()).add(old)
        found, waiting = set(shards), list(shards)
        while waiting:
            more = neighbours.get(waiting.pop(), set()) - found
            found |= more
            waiting += more
        return found

    def _hashes(self, linked: set[str]) -> dict[str, str]:
        hashes = {path: value for path, value in self.new.items() if f"{self.folder}/{path}" not in linked}
        return hashes | {path: value for path, value in self.old.items() if f"{self.folder}/{path}" in linked}

    def _hold_texts(self, kept: dict[str, bytes | None], linked: set[str]) -> None:
        """Keep the old descriptions of the linked tables."""
        path = f"{self.folder}/{facts.DESCRIPTIONS}"
        if path not in kept:
            return
        held = {ref for ref in (*self.old_texts, *self.new_texts) if f"{self.folder}/{table_path(ref)}" in linked}
        texts = {ref: each for ref, each in self.new_texts.items() if ref not in held}
        texts |= {ref: each for ref, each in self.old_texts.items() if ref in held}
        if texts == self.old_texts:
            del kept[path]
        else:
            kept[path] = facts.record_bytes(texts.values())


_COMMENT = re.compile(r"(?m)(?:^|[ \t])#")


@dataclass(frozen=True, slots=True)
class RemovedTexts:
    """User-written texts that a scan removes.

    `tables`: physical name of a removed table with descriptions by people -> its shard. `comments`: rewritten shards
    that contained comments.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    @property
    def shards(self) -> frozenset[str]:
        """The shards that lose texts."""
        return frozenset({*self.tables.values(), *self.comments})

    def warnings(
        self, connection: str, written: Collection[str], replaced: Mapping[str, str]
    ) -> Iterator[ResultWarning]:
        """Yield a warning for each kind of text lost from the shards in `written`. `replaced`: path -> location of the
        old text.
        """
        tables = [table for table, shard in sorted(self.tables.items()) if shard in written]
        if tables:
            message = (
                f"connection `{connection}`: removed tables that had descriptions written by people: {listing(tables)}"
            )
            hint = _hint({self.tables[table] for table in tables}, replaced)
            yield ResultWarning("removed_text", message, hint=hint, tables=tables)
        shards = [shard for shard in self.comments if shard in written]
        if shards:
            message = f"connection `{connection}`: ktx rewrote {listing(shards)} without the YAML comments"
            hint = f"{_hint(shards, replaced)}; put text that ktx must keep into a `descriptions` value"
            yield ResultWarning("removed_comments", message, hint=hint, paths=shards)


def _hint(shards: Collection[str], replaced: Mapping[str, str]) -> str:
    kept = [replaced[shard] for shard in sorted(shards) if shard in replaced]
    return f"the previous text is in {listing(kept)}" if kept else "the previous commit has the text"


def has_comments(content: bytes, where: str) -> bool:
    """Return whether a valid shard has comments other than the header that ktx writes."""
    text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").removeprefix(MANIFEST_HEADER)
    if _COMMENT.search(text) is None:
        return False
    try:
        root = yaml.compose(text, where=where)
    except ConfigError:  # It was valid as bytes before; its comments are then unknown.
        return False
    pieces, position = [], 0
    for node in _scalars(root):
        pieces += [text[position : node.start], _outside(text[node.start : node.end]) if node.style in "|>" else "x"]
        position = node.end
    return _COMMENT.search("".join(pieces) + text[position:]) is not None


def _scalars(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the scalars of a document in text order."""
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "scalar":
            yield node
        below = [*node.items, *(part for pair in node.pairs for part in pair)]
        waiting += reversed(below)


def _outside(block: str) -> str:
    """Return the lines of a block scalar that are not part of its text: its header, and comments below it."""
    header, _, body = block.partition("\n")
    lines = [line for line in body.split("\n") if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip(" ")) if lines else 0
    return "\n".join([header, *(line for line in lines if len(line) - len(line.lstrip(" ")) < indent)])
