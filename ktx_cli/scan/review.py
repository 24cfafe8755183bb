"""The review of a connection's relationships: decisions by scans, foreign keys and people, old and new.

People decide in the files that they write about sources. An overlay (`name:` of a generated source, without `table` and
`sql`) disables joins with `disable_joins`, a list of their `on` conditions, compared with blanks ignored. The `name:`
in a file decides which source it is about, not the name of the file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, KtxError, ResultWarning, file_stem, listing, yaml
from ktx_cli.project import Layout
from ktx_cli.scan.committed import Base, Committed, RemovedTexts, has_comments
from ktx_cli.scan.descriptions.facts import mappings_in
from ktx_cli.scan.relationships.record import ARROW, RELATIONSHIPS, RelationshipRecord, Status, relationship_name
from ktx_cli.scan.shards import JoinKey, ManifestIndex, WrittenShards, declared_relationships, join_key, joins_of
from ktx_cli.semantic import (
    DISABLED,
    SUFFIXES,
    Shard,
    is_table_file,
    physical_name,
    plain_on,
    quoted,
    render_shard,
    source_names,
)
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.record import Relationship, RelationshipId
    from ktx_cli.semantic import Entry, ParsedCopies


@dataclass(frozen=True, slots=True)
class AuthoredFile:
    """A user-written file about a source. `document` is a mapping with a `name`."""

    path: str
    content: bytes
    document: Mapping[str, Any]

    @property
    def is_overlay(self) -> bool:
        """Whether the file changes a generated source. Otherwise, the file is a standalone source."""
        return "table" not in self.document and "sql" not in self.document

    @property
    def disabled(self) -> frozenset[str]:
        """The `on` clauses of the joins that the file disables."""
        listed = self.document.get(DISABLED)
        return frozenset(map(plain_on, listed)) if isinstance(listed, list) else frozenset()

    @property
    def joins(self) -> frozenset[JoinKey]:
        """The joins that the file adds."""
        return frozenset(map(join_key, mappings_in(self.document, "joins")))


@dataclass(frozen=True, slots=True)
class AuthoredSources:
    """User-written files about sources: overlays on generated sources, and standalone sources.

    `files`: name of a source -> its files. `broken`: path -> the error of a file that cannot be read.
    """

    connection: str
    files: Mapping[str, tuple[AuthoredFile, ...]]
    broken: Mapping[str, KtxError]

    @classmethod
    def read(cls, base: Base, connection: str) -> AuthoredSources:
        """Read the files of a connection. Unreadable files are `broken`; files without a name are ignored."""
        folder, generated = Layout.context_paths(connection)[0], f"{Layout.schema_path(connection)}/"
        below = sorted(base.blobs(folder))
        paths = [path for path in below if path.endswith(SUFFIXES) and not path.startswith(generated)]
        files: dict[str, list[AuthoredFile]] = {}
        broken: dict[str, KtxError] = {}
        for path in paths:
            try:
                found = base.read_many([path])
                document = yaml.load(found.get(path, b""), where=path)
            except KtxError as error:
                broken[path] = error
                continue
            if isinstance(document, dict) and "name" in document:
                files.setdefault(str(document["name"]), []).append(AuthoredFile(path, found[path], document))
        return cls(connection, {name: tuple(found) for name, found in files.items()}, broken)

    @property
    def warnings(self) -> list[ResultWarning]:
        """A warning for each file that cannot be read."""
        return [ResultWarning("broken_source", e.message, hint=e.hint, path=path) for path, e in self.broken.items()]

    def overlays_of(self, source: str) -> list[AuthoredFile]:
        """Return the overlays of a source."""
        return [file for file in self.files.get(source, ()) if file.is_overlay]

    def overlay_file(self, source: str) -> tuple[str, bytes | None]:
        """Return the path and content of a source's overlay; for a new one, its path and None.

        Raises `ConfigError` if there is no single file to edit: the name belongs to a source of its own, several
        overlays have it, the overlay is broken, or its path is taken by the file of another source.
        """
        found = self.files.get(source, ())
        for file in found:
            if not file.is_overlay:
                raise _standalone(source, file.path)
        if len(found) > 1:
            paths = listing(file.path for file in found)
            raise ConfigError(f"several files are named `{source}`: {paths}", hint=f"merge them into {found[0].path}")
        if found:
            return found[0].path, found[0].content
        path = f"{Layout.context_paths(self.connection)[0]}/{file_stem(source)}.yaml"
        if path in self.broken:
            raise self.broken[path]
        if any(file.path == path for files in self.files.values() for file in files):
            message = f"{path} is about another source, but its path is reserved for the overlay of `{source}`"
            raise ConfigError(
                message, hint=f"rename {path}; ktx identifies a source by the `name:` in the file, not by the file name"
            )
        return path, None


def empty_overlay(source: str) -> bytes:
    """Return an overlay without changes."""
    return yaml.dump({"name": source}).encode()


def disabling(content: bytes | None, source: str, joins: Iterable[Mapping[str, Any]], where: str) -> bytes:
    """Return the overlay changed to disable joins and no longer add them."""
    from ktx_cli.project import edit

    if content is None:
        content = empty_overlay(source)
    for join in joins:
        content = _without(
            content, ("joins",), [i for i, key in _joins_made(content, where) if key == join_key(join)], where
        )
        if plain_on(join["on"]) not in {on for _, on in _disabled(content, where)}:
            content = edit.append_value(content, (DISABLED,), str(join["on"]), where=where)
    return content


def enabling(content: bytes, joins: Iterable[Mapping[str, Any]], where: str) -> bytes | None:
    """Return the overlay changed to no longer disable joins, or None if it is then empty."""
    before = content
    for join in joins:
        found = [index for index, on in _disabled(content, where) if on == plain_on(join["on"])]
        content = _without(content, (DISABLED,), found, where)
    if content == before:
        return content
    return None if content == empty_overlay(yaml.load(content, where=where)["name"]) else content


def _without(content: bytes, path: tuple[str | int, ...], indexes: list[int], where: str) -> bytes:
    """Return the text without some list items, and without the list if it becomes empty."""
    if not indexes:
        return content
    from ktx_cli.project import edit, lookup

    _, items = lookup(yaml.load(content, where=where), path)
    if len(items) == len(indexes):
        return edit.delete_value(content, path, where=where)
    return edit.apply(content, [edit.Edit("delete", (*path, i)) for i in sorted(indexes, reverse=True)], where=where)


def _disabled(content: bytes, where: str) -> list[tuple[int, str]]:
    return [(index, plain_on(on)) for index, on in enumerate(_list(content, DISABLED, where))]


def _joins_made(content: bytes, where: str) -> list[tuple[int, JoinKey]]:
    return [
        (index, join_key(join)) for index, join in enumerate(_list(content, "joins", where)) if isinstance(join, dict)
    ]


def _list(content: bytes, key: str, where: str) -> list[Any]:
    items = yaml.load(content, where=where).get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        line, column = yaml.locate(content, (key,)) or (1, 1)
        raise ConfigError(f"{where}:{line}:{column}: `{key}` must be a list", hint=f"use `{key}: []` for an empty list")
    return items


def _standalone(source: str, path: str) -> ConfigError:
    message = f"{path} defines `{source}` as a standalone source, so its joins cannot be disabled in an overlay"
    return ConfigError(message, hint=f"edit the `joins` in {path} by hand, or rename the source")


GENERATED_SOURCES = frozenset({"formal", "inferred"})
"""The `source` of joins written by a scan. Any other join was written by a person."""


class JoinStatus(StrEnum):
    """The current state of a relationship, as decided by the scan, a person or the database."""

    ACCEPTED = "accepted"
    """A join that the scan accepted."""
    MANUAL = "manual"
    """A join that a person accepted."""
    REVIEW = "review"
    """A relationship that needs human review."""
    REJECTED = "rejected"
    """Not a join: the scan rejected it."""
    DISABLED = "disabled"
    """Not a join: a person rejected it."""
    DECLARED = "declared"
    """A join that a foreign key in the database declares."""


BY_A_PERSON: Final = "accepted by a person"
"""The start of the reason for a join that the scan did not accept."""

_DECIDED: Final = {
    JoinStatus.MANUAL: (Status.ACCEPTED, BY_A_PERSON),
    JoinStatus.DISABLED: (Status.REJECTED, "rejected by a person"),
}

INFERRED_JOINS: Final = frozenset({JoinStatus.ACCEPTED, JoinStatus.MANUAL})
"""The statuses of inferred joins in effect, which every count of inferred joins includes."""

JOINED: Final = INFERRED_JOINS | {JoinStatus.DECLARED}

OTHER_WAY: Final = "The join in the opposite direction is in effect."
"""The reason for a relationship that would need review if its opposite were not a join."""


@dataclass(frozen=True, slots=True)
class GeneratedJoin:
    """A relationship's join in the form that a scan writes. `shard`: the path of its source's shard, if any."""

    source: str
    shard: str | None
    join: Mapping[str, Any]

    @property
    def on(self) -> str:
        """The join's `on`, with single blanks."""
        return plain_on(self.join["on"])


@dataclass(frozen=True, slots=True)
class Opposite:
    """The opposite relationship: from the other one's parent to its child, by the same columns."""

    name: str
    status: JoinStatus

    @property
    def is_join(self) -> bool:
        """Whether this relationship, rather than the opposite, is the join between the two tables."""
        return self.status in JOINED


@dataclass(frozen=True, slots=True)
class ReviewedRelationship:
    """A relationship, its name and its status. `joins`: the forward join, then the backward one unless a table refers
    to itself.

    `gone`: scans no longer detect it, and its reason says why. `missing`: a table or column of it that does not exist.
    `opposite`: the relationship in the opposite direction, if that is a join or needs review.
    """

    connection: str
    name: str
    relationship: Relationship
    status: JoinStatus
    joins: tuple[GeneratedJoin, ...]
    gone: bool = False
    missing: str | None = None
    opposite: Opposite | None = None

    @property
    def tables(self) -> frozenset[str]:
        """The names of the relationship's two tables: as sources, and in the database."""
        refs = self.relationship.tables
        return frozenset({*(each.source for each in self.joins), *map(physical_name, refs), *map(str, refs)})

    @property
    def is_overruled(self) -> bool:
        """Whether it is a join although the scan did not accept it."""
        return self.status is JoinStatus.MANUAL and self.relationship.status is not Status.ACCEPTED

    def to_json(self) -> dict[str, Any]:
        """Return the relationship in the form that commands show."""
        found = self.relationship
        return {
            "connection": self.connection,
            "edge": self.name,
            "status": self.status.value,
            "found": found.status.value,
            "score": found.probability,
            "relationship": found.cardinality.value,
            "reason": found.reason,
            "gone": self.gone,
            "sources": list(found.sources),
            "from": {"table": physical_name(found.child), "columns": list(found.child_columns)},
            "to": {"table": physical_name(found.parent), "columns": list(found.parent_columns)},
            "when": None if found.condition is None else {"column": found.condition[0], "value": found.condition[1]},
        }


Reviewed = Mapping["RelationshipId | None", ReviewedRelationship]


@dataclass(frozen=True, slots=True)
class RelationshipReview:
    """The recorded relationships of a connection in order, with their status and the files that it comes from.

    `declared`: relationships that foreign keys declare, which need no decision.
    """

    connection: str
    relationships: tuple[ReviewedRelationship, ...]
    manifest: WrittenShards
    authored: AuthoredSources
    declared: tuple[ReviewedRelationship, ...] = ()

    @property
    def warnings(self) -> list[ResultWarning]:
        """A warning for each file that cannot be read."""
        return self.authored.warnings

    def decided_in(self, each: ReviewedRelationship) -> str | None:
        """Return the file with a person's decision on a relationship, or the one from which its join was removed."""
        forward = each.joins[0]
        overlays = self.authored.overlays_of(forward.source)
        deciding = (o.path for o in overlays if forward.on in o.disabled or join_key(forward.join) in o.joins)
        return next(deciding, forward.shard)


def read_review(base: Base, connection: str, copies: ParsedCopies) -> RelationshipReview | None:
    """Return the review of a connection, or None if no scan has read its rows yet.

    Raises `KtxError` for a damaged record, `ConfigError` for a broken shard.
    """
    committed = Committed(base, connection, copies)
    records = committed.records
    if RELATIONSHIPS in records.broken:
        note = next(note for note in committed.warnings if str(note.details.get("path")).endswith(RELATIONSHIPS))
        raise KtxError(note.message, hint=note.hint)
    if records.relationships is None:
        return None
    authored = AuthoredSources.read(base, connection)
    tables = {table.ref: table for table in committed.snapshot.tables or ()}
    resolver = StatusResolver(connection, committed.shards, authored, tables)
    found, declared = resolver.resolve_record(records.relationships), declared_relationships(tables.values())
    return RelationshipReview(connection, found, committed.manifest, authored, resolver.resolve(declared))


@dataclass(frozen=True, slots=True)
class StatusResolver:
    """Resolves the status of relationships from shards, user-written files and tables (empty if unknown)."""

    connection: str
    shards: Mapping[str, Shard]
    authored: AuthoredSources
    tables: Mapping[TableRef, Table]

    def resolve_record(self, record: RelationshipRecord) -> tuple[ReviewedRelationship, ...]:
        """Return a record's relationships with their status, removed ones last."""
        gone = frozenset(each.id for each in record.gone)
        return self.resolve((*record.recorded(), *record.gone), gone, record.waiting)

    def resolve(
        self,
        relationships: Sequence[Relationship],
        gone: Collection[RelationshipId] = (),
        waiting: Collection[RelationshipId] = (),
    ) -> tuple[ReviewedRelationship, ...]:
        """Return relationships with names and statuses. `waiting`: as in a `RelationshipRecord`."""
        opposites = set(map(_opposite_id, relationships))
        declared = [each for each in declared_relationships(self.tables.values()) if each.id in opposites]
        found = self._resolve_alone((*relationships, *declared), gone, waiting)
        known: Reviewed = {each.relationship.id: each for each in found}
        return tuple(_with_decision(self._beside_opposite(each, known)) for each in found[: len(relationships)])

    def _resolve_alone(
        self, found: Sequence[Relationship], gone: Collection[RelationshipId], waiting: Collection[RelationshipId]
    ) -> tuple[ReviewedRelationship, ...]:
        """Return relationships with their status, ignoring their opposites."""
        ends = (ref for each in found for ref in (each.child, each.parent))
        refs = list(dict.fromkeys((*self.tables, *ends)))
        index = ManifestIndex.of(self.shards, refs)
        names = source_names(refs, index.names, [name for _, name in index.custom])
        return tuple(
            self._reviewed(each, names, index, gone=each.id in gone, waits=each.id in waiting) for each in found
        )

    def _reviewed(
        self, found: Relationship, names: Mapping[TableRef, str], index: ManifestIndex, *, gone: bool, waits: bool
    ) -> ReviewedRelationship:
        joins = tuple(
            GeneratedJoin(names[ref], index.primary.get(physical_name(ref), (None, ""))[0], join)
            for ref, join in joins_of(found, names)
        )
        missing = missing_end(found, self.tables) if gone else None
        status = self._status(found, joins[0])
        if missing is not None and (status is JoinStatus.MANUAL or (waits and status is not JoinStatus.DISABLED)):
            status = JoinStatus.REVIEW  # A person's join that can no longer work.
        name = relationship_name(found, names)
        return ReviewedRelationship(self.connection, name, found, status, joins, gone, missing)

    def _status(self, found: Relationship, forward: GeneratedJoin) -> JoinStatus:
        overlays = self.authored.overlays_of(forward.source)
        if any(forward.on in overlay.disabled for overlay in overlays):
            return JoinStatus.DISABLED
        if any(join_key(forward.join) in overlay.joins for overlay in overlays):
            return JoinStatus.MANUAL
        join = self._written(forward)
        if _is_declared(found):
            return JoinStatus.DECLARED if join is not None else JoinStatus.DISABLED
        if join is not None:
            return JoinStatus.ACCEPTED if join.get("source") in GENERATED_SOURCES else JoinStatus.MANUAL
        # A person removed an accepted join, and scans do not write it again.
        return JoinStatus.DISABLED if found.status is Status.ACCEPTED else JoinStatus(found.status.value)

    def _written(self, join: GeneratedJoin) -> Mapping[str, Any] | None:
        """Return the join from its shard, whoever wrote it."""
        return None if join.shard is None else find_join(self.shards[join.shard].entry(join.source), join)

    def _beside_opposite(self, each: ReviewedRelationship, known: Reviewed) -> ReviewedRelationship:
        """Return a relationship with its status, considering its opposite. The opposite's join does not count."""
        found = each.relationship
        other = known.get(_opposite_id(found))
        if other is None or _is_declared(found) or (each.status in JOINED and not self._is_join_of(other, each)):
            return each
        own = JoinStatus(found.status.value)
        other_is_join = other.status in JOINED and not self._is_join_of(each, other)
        if each.status is JoinStatus.DISABLED:
            of_other = other.status is JoinStatus.DISABLED and other.relationship.status is not Status.REJECTED
            status: JoinStatus = own if of_other and own is JoinStatus.REJECTED else JoinStatus.DISABLED
        else:
            status = JoinStatus.REJECTED if other_is_join else own if each.status in JOINED else each.status
        found = replace(found, reason=OTHER_WAY) if status is not own and other_is_join else found
        shown = other_is_join or other.status is JoinStatus.REVIEW
        opposite = Opposite(other.name, other.status) if shown else None
        return replace(each, relationship=found, status=status, opposite=opposite)

    def _is_join_of(self, other: ReviewedRelationship, each: ReviewedRelationship) -> bool:
        """Return whether the join at a relationship's child belongs to its opposite (`other`), judging by the many
        side.
        """
        cardinality = (self._written(each.joins[0]) or {}).get("relationship")
        if _is_declared(each.relationship) or _is_declared(other.relationship):
            return _is_declared(other.relationship)
        if cardinality in ("one_to_many", "many_to_one"):
            return bool(cardinality == "one_to_many")
        return _likelihood(other.relationship) > _likelihood(each.relationship)


def _is_declared(found: Relationship) -> bool:
    return found.sources == (JoinStatus.DECLARED.value,)


def _likelihood(found: Relationship) -> tuple[int, float, str]:
    """Return the sort key that decides between opposites if both relationships are one-to-one."""
    return -(*Status,).index(found.status), found.probability, repr(found.id)


def _with_decision(each: ReviewedRelationship) -> ReviewedRelationship:
    """Return a relationship, with a reason that says whether a person overruled the scan."""
    decision, found = _DECIDED.get(each.status), each.relationship
    if decision is None or each.gone or found.status is decision[0] or not found.reason:
        return each
    return replace(each, relationship=replace(found, reason=f"{decision[1]}; evidence of the scan: {found.reason}"))


def status_counts(relationships: Iterable[ReviewedRelationship]) -> dict[str, int]:
    """Return status -> number of relationships, except declared ones."""
    counts = Counter(each.status for each in relationships)
    return {each.value: counts[each] for each in JoinStatus if each is not JoinStatus.DECLARED}


def missing_end(found: Relationship, tables: Mapping[TableRef, Table]) -> str | None:
    """Return which table or column of a relationship is missing, or None if all exist or no table is known."""
    own = found.child_columns if found.condition is None else (*found.child_columns, found.condition[0])
    for ref, columns in ((found.child, own), (found.parent, found.parent_columns)) if tables else ():
        if ref not in tables:
            return f"table {physical_name(ref)} no longer exists"
        existing = {column.name for column in tables[ref].columns}
        for name in columns:
            if name not in existing:
                return f"column {physical_name(ref)}.{quoted(name)} no longer exists"
    return None


def _opposite_id(found: Relationship) -> RelationshipId | None:
    """Return the ID of the opposite relationship, or None if conditional or within one table."""
    if found.condition is not None or found.child == found.parent:
        return None
    return found.parent, found.parent_columns, found.child, found.child_columns, repr(None)


def find_join(entry: Entry, wanted: GeneratedJoin) -> Mapping[str, Any] | None:
    """Return the join in a manifest entry that matches a wanted join, whoever wrote it."""
    key = join_key(wanted.join)
    return next((join for join in entry.get("joins") or () if join_key(join) == key), None)


def relationships_named(word: str, relationships: Iterable[ReviewedRelationship]) -> list[ReviewedRelationship]:
    """Return the relationships that an argument names: by full name, ignoring blanks, or the part before the arrow.

    If there are none, quotes are ignored too.
    """
    known = list(relationships)
    found = [each for each in known if each.name == word]
    for plain in (_squeezed, _unquoted):
        found = found or [each for each in known if plain(each.name) == plain(word)]
        found = found or [each for each in known if plain(each.name).partition(ARROW)[0] == plain(word)]
    return found


def _squeezed(name: str) -> str:
    return "".join(name.split())


def _unquoted(name: str) -> str:
    return _squeezed(name).replace('"', "")


Joins = list[dict[str, Any]]


class Decision(StrEnum):
    """A person's decision on a relationship."""

    ACCEPT = "accept"
    REJECT = "reject"


class ReviewDraft:
    """New decisions on a connection's relationships, as changes to its files. Nothing is written."""

    def __init__(self, review: RelationshipReview) -> None:
        self.connection = review.connection
        self._review = review
        self._documents: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, bytes] = {}
        self._overlays: dict[str, bytes | None] = {}

    def decide(self, each: ReviewedRelationship, decision: Decision) -> frozenset[str]:
        """Make a decision and return the paths that it changes; none if the decision already exists.

        Accepted: both tables have the join as `manual` (in a file for one table: the one that has it), and no overlay
        disables it. Rejected: the overlays of both disable it, and it is no longer `manual`; only that of the child if
        the opposite needs review. If the opposite is a join, the joins belong to the opposite, and nothing changes.

        Raises `ConfigError` if a file cannot be edited, or if a table or column of the relationship is missing.
        """
        if decision is Decision.ACCEPT and each.missing is not None:
            message = f"`{each.name}` cannot be a join: {each.missing}"
            raise ConfigError(message, hint=Command("scan", "relationships", each.connection, "--reject", each.name))
        if each.opposite is not None and each.opposite.is_join:
            return frozenset()
        joins = each.joins[:1] if decision is Decision.REJECT and each.opposite is not None else each.joins
        change = self._accept if decision is Decision.ACCEPT else self._reject
        written = self._written_once(each.joins)
        return frozenset(path for join in joins for path in change(each, join, is_written=join in written))

    def _written_once(self, joins: Sequence[GeneratedJoin]) -> Sequence[GeneratedJoin]:
        """Return the joins in the manifest: only one of the two if a table has a separate file there."""
        if not any(join.shard is not None and is_table_file(join.shard) for join in joins):
            return joins
        shards = self._review.manifest.written
        there = [join for join in joins if join.shard and find_join(shards[join.shard].entry(join.source), join)]
        return there or joins[:1]

    def changes(self) -> dict[str, bytes | None]:
        """Return path -> new content of the files that change, or None for an overlay that becomes empty."""
        return {**self._rendered(), **self._overlays}

    def shards(self) -> dict[str, Shard]:
        """Return all of the connection's shards, with the decisions applied."""
        texts = self._rendered()
        written = {
            path: Shard(document, hashlib.sha256(texts[path]).hexdigest()) for path, document in self._documents.items()
        }
        return {**self._review.manifest.written, **written}

    def removed_texts(self, contents: Mapping[str, bytes]) -> RemovedTexts:
        """Return the texts that would be lost when the shards are rewritten. `contents`: path -> current content."""
        return RemovedTexts(
            comments=tuple(sorted(p for p in self._documents if p in contents and has_comments(contents[p], p)))
        )

    def _rendered(self) -> dict[str, bytes]:
        for path in self._documents.keys() - self._texts.keys():
            self._texts[path] = render_shard(self._documents[path])
        return self._texts

    def _accept(self, each: ReviewedRelationship, join: GeneratedJoin, *, is_written: bool) -> list[str]:
        if join.shard is None:
            message = f"`{join.source}` has no entry in the manifest of `{each.connection}`, so no join can be written"
            raise ConfigError(message, hint=Command("scan", each.connection))
        changed: list[str] = []
        if any(join.on in overlay.disabled for overlay in self._review.authored.overlays_of(join.source)):
            path, before = self._overlay(join.source)
            changed = self._put(path, before, None if before is None else enabling(before, [join.join], path))
        if any(join_key(join.join) in overlay.joins for overlay in self._review.authored.overlays_of(join.source)):
            return changed
        if is_written:
            changed += self._change_joins(join, lambda joins: _with_manual(joins, join))
        return changed

    def _reject(self, each: ReviewedRelationship, join: GeneratedJoin, *, is_written: bool) -> list[str]:
        sure = each.relationship.status is Status.ACCEPTED
        path, before = self._overlay(join.source)
        changed = self._put(path, before, disabling(before, join.source, [join.join], path))
        if is_written:
            changed += self._change_joins(join, lambda joins: _without_manual(joins, join, keep=sure))
        return changed

    def _overlay(self, source: str) -> tuple[str, bytes | None]:
        path, content = self._review.authored.overlay_file(source)
        return path, self._overlays.get(path, content)

    def _put(self, path: str, before: bytes | None, after: bytes | None) -> list[str]:
        if after == before:
            return []
        self._overlays[path] = after
        return [path]

    def _change_joins(self, join: GeneratedJoin, change: Callable[[Joins], Joins]) -> list[str]:
        """Change the joins of a source in its shard without other changes."""
        if join.shard is None:
            return []
        document = self._documents.get(join.shard, self._review.manifest.written[join.shard].document)
        tables = document["tables"]
        key = next(name for name in tables if str(name) == join.source)
        before = list(tables[key].get("joins") or ())
        after = change(before)
        if after == before:
            return []
        entry = {name: value for name, value in tables[key].items() if name != "joins"}
        self._texts.pop(join.shard, None)
        self._documents[join.shard] = {
            **document,
            "tables": {**tables, key: {**entry, "joins": after} if after else entry},
        }
        return [join.shard]


def _with_manual(joins: Joins, wanted: GeneratedJoin) -> Joins:
    """Return the joins, with the specified one as `manual`. A declared join is unchanged."""
    key = join_key(wanted.join)
    if all(join_key(join) != key for join in joins):
        return [*joins, {**wanted.join, "source": "manual"}]
    return [
        _as_manual(join, wanted) if join_key(join) == key and join.get("source") != "formal" else join for join in joins
    ]


def _as_manual(join: dict[str, Any], wanted: GeneratedJoin) -> dict[str, Any]:
    """Return a join as `manual`; a join in the opposite direction is reversed."""
    if join.get("source") == "inferred":
        join = {**join, "source": "manual"}
    cardinality = wanted.join["relationship"]
    if {join.get("relationship"), cardinality} == {"many_to_one", "one_to_many"}:
        join = {**join, "relationship": cardinality}
    return join


def _without_manual(joins: Joins, wanted: GeneratedJoin, *, keep: bool) -> Joins:
    """Return the joins, without the specified one if a person wrote it. `keep`: make it `inferred` instead."""
    key = join_key(wanted.join)
    persons = [join for join in joins if join_key(join) == key and join.get("source") not in GENERATED_SOURCES]
    if not keep:
        return [join for join in joins if join not in persons]
    return [{**join, "source": "inferred"} if join in persons else join for join in joins]
