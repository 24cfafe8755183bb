"""The files people write about a connection's sources, beside the generated ones: which joins they disable or make.

An overlay (`name:` of a generated source, neither `table` nor `sql`) takes joins out by `disable_joins`, a list of
their `on`, compared without regard to blanks. A file is known by the `name:` in it, not by its own name.
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
from ktx_cli.scan.shards import ManifestIndex, declared_relationships, entries
from ktx_cli.semantic import DISABLED, SUFFIXES, Shard, physical_name, plain_on, quoted, render_shard, source_names
from ktx_cli.warehouses import Table, TableKind, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.record import Relationship, RelationshipId
    from ktx_cli.semantic import Entry, ParsedCopies

JoinKey = tuple[str, str]
"""What makes two joins of a source the same: `to`, and `on` with single blanks."""


def join_key(join: Mapping[str, Any]) -> JoinKey:
    """Return what makes a join the same as another one of its source."""
    return str(join.get("to")), plain_on(join.get("on"))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file about a source; `document` is a mapping with a `name`."""

    path: str
    content: bytes
    document: Mapping[str, Any]

    @property
    def is_overlay(self) -> bool:
        """Whether it changes a generated source; else it is a source of its own."""
        return "table" not in self.document and "sql" not in self.document

    @property
    def disabled(self) -> frozenset[str]:
        """The `on` of the joins it disables."""
        listed = self.document.get(DISABLED)
        return frozenset(map(plain_on, listed)) if isinstance(listed, list) else frozenset()

    @property
    def joins(self) -> frozenset[JoinKey]:
        """The joins it makes."""
        return frozenset(map(join_key, mappings_in(self.document, "joins")))


@dataclass(frozen=True, slots=True)
class Overlays:
    """The files about a connection's sources, by the name of the source; `broken`: path -> why it cannot be read."""

    connection: str
    files: Mapping[str, tuple[SourceFile, ...]]
    broken: Mapping[str, KtxError]

    @classmethod
    def read(cls, base: Base, connection: str) -> Overlays:
        """Read all of them; one that cannot be read, or as YAML, is `broken`; one without a name is nobody's."""
        folder, generated = Layout.context_paths(connection)[0], f"{Layout.schema_path(connection)}/"
        below = sorted(base.blobs(folder))
        paths = [path for path in below if path.endswith(SUFFIXES) and not path.startswith(generated)]
        files: dict[str, list[SourceFile]] = {}
        broken: dict[str, KtxError] = {}
        for path in paths:
            try:
                found = base.read_many([path])
                document = yaml.load(found.get(path, b""), where=path)
            except KtxError as error:
                broken[path] = error
                continue
            if isinstance(document, dict) and "name" in document:
                files.setdefault(str(document["name"]), []).append(SourceFile(path, found[path], document))
        return cls(connection, {name: tuple(found) for name, found in files.items()}, broken)

    @property
    def warnings(self) -> list[ResultWarning]:
        """A warning for each file that cannot be read."""
        return [ResultWarning("broken_source", e.message, hint=e.hint, path=path) for path, e in self.broken.items()]

    def of(self, source: str) -> list[SourceFile]:
        """Return the overlays of a source."""
        return [file for file in self.files.get(source, ()) if file.is_overlay]

    def place(self, source: str) -> tuple[str, bytes | None]:
        """Return path and content of a source's overlay, or the path a new one gets, and None.

        Raises `ConfigError` where there is no one file to edit: a source of its own has that name, several overlays
        have, the overlay is broken, or another source's file stands at its path.
        """
        found = self.files.get(source, ())
        for file in found:
            if not file.is_overlay:
                raise _standalone(source, file.path)
        if len(found) > 1:
            paths = listing(file.path for file in found)
            raise ConfigError(f"several files are named `{source}`: {paths}", hint=f"move all into {found[0].path}")
        if found:
            return found[0].path, found[0].content
        path = f"{Layout.context_paths(self.connection)[0]}/{file_stem(source)}.yaml"
        if path in self.broken:
            raise self.broken[path]
        if any(file.path == path for files in self.files.values() for file in files):
            message = f"{path} is not about `{source}`, whose overlay it would be"
            raise ConfigError(message, hint=f"rename {path}; the `name:` in it decides, not the file's own")
        return path, None


def empty_overlay(source: str) -> bytes:
    """Return an overlay that changes nothing."""
    return yaml.dump({"name": source}).encode()


def disabling(content: bytes | None, source: str, joins: Iterable[Mapping[str, Any]], where: str) -> bytes:
    """Return the overlay that takes joins out of its source: they are disabled, and no longer made by it."""
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
    """Return the overlay that leaves joins in; None when nothing is left to say in it."""
    before = content
    for join in joins:
        found = [index for index, on in _disabled(content, where) if on == plain_on(join["on"])]
        content = _without(content, (DISABLED,), found, where)
    if content == before:
        return content
    return None if content == empty_overlay(yaml.load(content, where=where)["name"]) else content


def _without(content: bytes, path: tuple[str | int, ...], indexes: list[int], where: str) -> bytes:
    """Return the text without those items of a list, and without the list when it has no other."""
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
        raise ConfigError(f"{where}:{line}:{column}: `{key}` must be a list", hint=f"write {key}: [] there")
    return items


def _standalone(source: str, path: str) -> ConfigError:
    message = f"{path} is a source of its own named `{source}`, so there is no overlay to disable its joins in"
    return ConfigError(message, hint=f"edit the `joins` in {path} by hand, or rename that source")


GENERATED_SOURCES = frozenset({"formal", "inferred"})
"""The `source` of joins that a scan wrote; a join with any other, or none, is a person's."""


class Standing(StrEnum):
    """What holds for an edge now: the scan's word, or a person's."""

    ACCEPTED = "accepted"
    """The join stands because the scan is sure."""
    MANUAL = "manual"
    """The join stands because a person said so."""
    REVIEW = "review"
    """A person has to look."""
    REJECTED = "rejected"
    """No join: the scan takes it for none."""
    DISABLED = "disabled"
    """No join, because a person said so."""
    DECLARED = "declared"
    """The join stands because a foreign key of the database makes it."""


_DECIDED: Final = {
    Standing.MANUAL: (Status.ACCEPTED, "a person accepted it"),
    Standing.DISABLED: (Status.REJECTED, "a person rejected it"),
}

JOINED: Final = frozenset({Standing.ACCEPTED, Standing.MANUAL, Standing.DECLARED})

OTHER_WAY: Final = "the join the other way round stands"
"""The reason of an edge that would be for review if its opposite were no join."""


@dataclass(frozen=True, slots=True)
class EdgeJoin:
    """A join that an edge makes, as a scan writes it. `shard`: where its source stands; None: it is in no shard."""

    source: str
    shard: str | None
    join: Mapping[str, Any]

    @property
    def on(self) -> str:
        """Its `on`, with single blanks."""
        return plain_on(self.join["on"])


@dataclass(frozen=True, slots=True)
class Opposite:
    """The edge from the other's parent to its child, by the same columns."""

    name: str
    standing: Standing

    @property
    def stands(self) -> bool:
        """Whether it makes the joins of the two."""
        return self.standing in JOINED


@dataclass(frozen=True, slots=True)
class ReviewedEdge:
    """An edge, its name, and what holds for it. `joins`: forward, then backward unless a table refers to itself.

    `gone`: no scan finds it any more; its reason says why. `missing`: which table or column of it is not there.
    `opposite`: the edge the other way round, where that one stands or waits for a decision.
    """

    connection: str
    name: str
    edge: Relationship
    standing: Standing
    joins: tuple[EdgeJoin, ...]
    gone: bool = False
    missing: str | None = None
    opposite: Opposite | None = None

    @property
    def tables(self) -> frozenset[str]:
        """The names its two tables go by: as sources, and in the database."""
        refs = (self.edge.child, self.edge.parent)
        return frozenset({*(each.source for each in self.joins), *map(physical_name, refs), *map(str, refs)})

    def to_json(self) -> dict[str, Any]:
        """Return the edge as it stands in the answer of a command."""
        edge = self.edge
        return {
            "connection": self.connection,
            "edge": self.name,
            "status": self.standing.value,
            "found": edge.status.value,
            "score": edge.probability,
            "relationship": edge.cardinality.value,
            "reason": edge.reason,
            "gone": self.gone,
            "sources": list(edge.sources),
            "from": {"table": physical_name(edge.child), "columns": list(edge.child_columns)},
            "to": {"table": physical_name(edge.parent), "columns": list(edge.parent_columns)},
            "when": None if edge.condition is None else {"column": edge.condition[0], "value": edge.condition[1]},
        }


@dataclass(frozen=True, slots=True)
class Review:
    """All edges of a connection's record in its order, and the files that say what holds for them.

    `declared`: the joins that foreign keys make, which need no decision.
    """

    connection: str
    edges: tuple[ReviewedEdge, ...]
    shards: Mapping[str, Shard]
    overlays: Overlays
    declared: tuple[ReviewedEdge, ...] = ()

    @property
    def warnings(self) -> list[ResultWarning]:
        """What of the files could not be read."""
        return self.overlays.warnings


def read_review(base: Base, connection: str, copies: ParsedCopies) -> Review | None:
    """Return what is found and decided; None where no scan has looked at the rows yet.

    Raises `KtxError` for a damaged record, `ConfigError` for a broken shard.
    """
    committed = Committed(base, connection, copies)
    records = committed.records
    if RELATIONSHIPS in records.broken:
        note = next(note for note in committed.warnings if str(note.details.get("path")).endswith(RELATIONSHIPS))
        raise KtxError(note.message, hint=note.hint)
    if records.relationships is None:
        return None
    overlays = Overlays.read(base, connection)
    tables = {table.ref: table for table in committed.snapshot.tables or ()}
    scene = Scene(connection, committed.shards, overlays, tables)
    declared = declared_relationships(tables.values())
    return Review(connection, scene.reviewed(records.relationships), committed.shards, overlays, scene.edges(declared))


@dataclass(frozen=True, slots=True)
class Scene:
    """The files and tables by which it is told what holds for an edge; no `tables`: which there are is not known."""

    connection: str
    shards: Mapping[str, Shard]
    overlays: Overlays
    tables: Mapping[TableRef, Table]

    def reviewed(self, known: RelationshipRecord) -> tuple[ReviewedEdge, ...]:
        """Return the edges of a record, those that are gone last."""
        gone = frozenset(each.id for each in known.gone)
        return self.edges((*known.recorded(), *known.gone), gone, known.waiting)

    def edges(
        self,
        edges: Sequence[Relationship],
        gone: Collection[RelationshipId] = (),
        waiting: Collection[RelationshipId] = (),
    ) -> tuple[ReviewedEdge, ...]:
        """Return each edge with its name and what holds for it; `waiting`: those a person accepted that miss an end."""
        turned = set(map(_turned, edges))
        declared = [edge for edge in declared_relationships(self.tables.values()) if edge.id in turned]
        found = self._each((*edges, *declared), gone, waiting)
        by_id: dict[RelationshipId | None, ReviewedEdge] = {each.edge.id: each for each in found}
        return tuple(_with_decision(self._beside(each, by_id.get(_turned(each.edge)))) for each in found[: len(edges)])

    def _each(
        self, edges: Sequence[Relationship], gone: Collection[RelationshipId], waiting: Collection[RelationshipId]
    ) -> tuple[ReviewedEdge, ...]:
        refs = list(dict.fromkeys((*self.tables, *(ref for edge in edges for ref in (edge.child, edge.parent)))))
        index = ManifestIndex.of(self.shards, refs)
        names = source_names(refs, index.names, [name for _, name in index.custom])
        return tuple(
            self._reviewed(edge, names, index, gone=edge.id in gone, waits=edge.id in waiting) for edge in edges
        )

    def _reviewed(
        self, edge: Relationship, names: Mapping[TableRef, str], index: ManifestIndex, *, gone: bool, waits: bool
    ) -> ReviewedEdge:
        joins = tuple(
            EdgeJoin(names[ref], index.primary.get(physical_name(ref), (None, ""))[0], join)
            for ref, join in _joins(edge, names)
        )
        missing = missing_end(edge, self.tables) if gone else None
        standing = _standing(edge, joins[0], self.shards, self.overlays)
        if missing is not None and (standing is Standing.MANUAL or (waits and standing is not Standing.DISABLED)):
            standing = Standing.REVIEW  # a person's join that cannot work any more
        return ReviewedEdge(self.connection, relationship_name(edge, names), edge, standing, joins, gone, missing)

    def _beside(self, each: ReviewedEdge, other: ReviewedEdge | None) -> ReviewedEdge:
        """Return an edge with what holds for it beside its opposite: joins that the other makes are not its own."""
        if other is None or _is_declared(each.edge) or (each.standing in JOINED and not self._is_others(each, other)):
            return each
        own, stands = Standing(each.edge.status.value), other.standing in JOINED and not self._is_others(other, each)
        if each.standing is Standing.DISABLED:
            of_other = other.standing is Standing.DISABLED and other.edge.status is not Status.REJECTED
            standing: Standing = own if of_other and own is Standing.REJECTED else Standing.DISABLED
        else:
            standing = Standing.REJECTED if stands else own if each.standing in JOINED else each.standing
        edge = replace(each.edge, reason=OTHER_WAY) if standing is not own and stands else each.edge
        shown = stands or other.standing is Standing.REVIEW
        opposite = Opposite(other.name, other.standing) if shown else None
        return replace(each, edge=edge, standing=standing, opposite=opposite)

    def _is_others(self, each: ReviewedEdge, other: ReviewedEdge) -> bool:
        """Whether a join on the child of an edge is the one its opposite makes there: the many side tells."""
        forward = each.joins[0]
        entry = {} if forward.shard is None else self.shards[forward.shard].entry(forward.source)
        relationship = (find_join(entry, forward) or {}).get("relationship")
        if _is_declared(each.edge) or _is_declared(other.edge):
            return _is_declared(other.edge)
        if relationship in ("one_to_many", "many_to_one"):
            return bool(relationship == "one_to_many")
        return _likelihood(other.edge) > _likelihood(each.edge)


def _is_declared(edge: Relationship) -> bool:
    return edge.sources == (Standing.DECLARED.value,)


def _likelihood(edge: Relationship) -> tuple[int, float, str]:
    """Return what tells an edge from its opposite where both are one-to-one."""
    return -(*Status,).index(edge.status), edge.probability, repr(edge.id)


def _with_decision(each: ReviewedEdge) -> ReviewedEdge:
    """Return an edge whose reason says so where a person decided otherwise than the scan."""
    decision = _DECIDED.get(each.standing)
    if decision is None or each.gone or each.edge.status is decision[0] or not each.edge.reason:
        return each
    return replace(each, edge=replace(each.edge, reason=f"{decision[1]}; the scan: {each.edge.reason}"))


def counted(edges: Iterable[ReviewedEdge]) -> dict[str, int]:
    """Return how many found edges there are by what holds for them; declared joins are not found."""
    counts = Counter(each.standing for each in edges)
    return {each.value: counts[each] for each in Standing if each is not Standing.DECLARED}


def missing_end(edge: Relationship, tables: Mapping[TableRef, Table]) -> str | None:
    """Return which table or column of an edge is not there; None where all are, and where no table is known."""
    own = edge.child_columns if edge.condition is None else (*edge.child_columns, edge.condition[0])
    for ref, columns in ((edge.child, own), (edge.parent, edge.parent_columns)) if tables else ():
        if ref not in tables:
            return f"table {physical_name(ref)} is gone"
        there = {column.name for column in tables[ref].columns}
        for name in columns:
            if name not in there:
                return f"column {physical_name(ref)}.{quoted(name)} is gone"
    return None


def _turned(edge: Relationship) -> RelationshipId | None:
    """Return the id of the edge the other way round; none where a condition leads one way, or a table to itself."""
    if edge.condition is not None or edge.child == edge.parent:
        return None
    return edge.parent, edge.parent_columns, edge.child, edge.child_columns, repr(None)


def _joins(edge: Relationship, names: Mapping[TableRef, str]) -> list[tuple[TableRef, Mapping[str, Any]]]:
    """Return the joins a scan writes for an edge it accepts, by table."""
    tables = [Table(ref, TableKind.TABLE, ()) for ref in dict.fromkeys((edge.child, edge.parent))]
    made = entries(tables, names, RelationshipRecord(edges=(replace(edge, status=Status.ACCEPTED),)))
    return [(ref, join) for ref, entry in made.items() for join in entry.get("joins", ())]


def _standing(edge: Relationship, forward: EdgeJoin, shards: Mapping[str, Shard], overlays: Overlays) -> Standing:
    authored = overlays.of(forward.source)
    if any(forward.on in overlay.disabled for overlay in authored):
        return Standing.DISABLED
    if any(join_key(forward.join) in overlay.joins for overlay in authored):
        return Standing.MANUAL
    entry = {} if forward.shard is None else shards[forward.shard].entry(forward.source)
    join = find_join(entry, forward)
    if _is_declared(edge):
        return Standing.DECLARED if join is not None else Standing.DISABLED
    if join is not None:
        return Standing.ACCEPTED if join.get("source") in GENERATED_SOURCES else Standing.MANUAL
    # a sure join that is not there was taken out by hand, and scans leave it out
    return Standing.DISABLED if edge.status is Status.ACCEPTED else Standing(edge.status.value)


def find_join(entry: Entry, wanted: EdgeJoin) -> Mapping[str, Any] | None:
    """Return the join of an entry of the manifest that is the wanted one, whoever wrote it."""
    key = join_key(wanted.join)
    return next((join for join in entry.get("joins") or () if join_key(join) == key), None)


def edges_named(word: str, edges: Iterable[ReviewedEdge]) -> list[ReviewedEdge]:
    """Return the edges a word names: by the whole name, blanks aside, else by the part before the arrow alone."""
    known = list(edges)
    squeezed = _squeezed(word)
    return (
        [each for each in known if each.name == word]
        or [each for each in known if _squeezed(each.name) == squeezed]
        or [each for each in known if _squeezed(each.name).partition(ARROW)[0] == squeezed]
    )


def _squeezed(name: str) -> str:
    return "".join(name.split())


Joins = list[dict[str, Any]]


class Decision(StrEnum):
    """What a person says of an edge."""

    ACCEPT = "accept"
    REJECT = "reject"


class Draft:
    """The files of one connection with decisions made in them; nothing is written."""

    def __init__(self, review: Review) -> None:
        self.connection = review.connection
        self._review = review
        self._documents: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, bytes] = {}
        self._overlays: dict[str, bytes | None] = {}

    def decide(self, edge: ReviewedEdge, decision: Decision) -> frozenset[str]:
        """Make a decision and return the paths it changes; none where it holds already.

        Accepted: both tables have the join as `manual`, no overlay disables it. Rejected: the overlays of both disable
        it, and it is no longer a person's; of the two ends only the child's where its opposite waits for a decision.
        Where the opposite stands the joins are that one's, and nothing changes. Raises `ConfigError` where a file
        leaves no place for it, and for a join of something that is not there.
        """
        if decision is Decision.ACCEPT and edge.missing is not None:
            message = f"`{edge.name}` cannot be a join: {edge.missing}"
            raise ConfigError(message, hint=Command("scan", "relationships", edge.connection, "--reject", edge.name))
        if edge.opposite is not None and edge.opposite.stands:
            return frozenset()
        joins = edge.joins[:1] if decision is Decision.REJECT and edge.opposite is not None else edge.joins
        change = self._accept if decision is Decision.ACCEPT else self._reject
        return frozenset(path for join in joins for path in change(edge, join))

    def changes(self) -> dict[str, bytes | None]:
        """Return path -> new content of what differs; None for an overlay with nothing left in it."""
        return {**self._rendered(), **self._overlays}

    def shards(self) -> dict[str, Shard]:
        """Return all shards of the connection, as they are with the decisions."""
        texts = self._rendered()
        written = {
            path: Shard(document, hashlib.sha256(texts[path]).hexdigest()) for path, document in self._documents.items()
        }
        return {**self._review.shards, **written}

    def removed_texts(self, contents: Mapping[str, bytes]) -> RemovedTexts:
        """Return what writing the shards anew takes out of `contents`, path -> what stands there now."""
        return RemovedTexts(
            comments=tuple(sorted(p for p in self._documents if p in contents and has_comments(contents[p], p)))
        )

    def _rendered(self) -> dict[str, bytes]:
        for path in self._documents.keys() - self._texts.keys():
            self._texts[path] = render_shard(self._documents[path])
        return self._texts

    def _accept(self, edge: ReviewedEdge, join: EdgeJoin) -> list[str]:
        if join.shard is None:
            message = f"`{join.source}` has no entry in the manifest of `{edge.connection}`, so no join can be written"
            raise ConfigError(message, hint=Command("scan", edge.connection))
        overlays = []
        if any(join.on in overlay.disabled for overlay in self._review.overlays.of(join.source)):
            path, before = self._overlay(join.source)
            overlays = self._put(path, before, None if before is None else enabling(before, [join.join], path))
        if any(join_key(join.join) in overlay.joins for overlay in self._review.overlays.of(join.source)):
            return overlays
        return [*self._change_joins(join, lambda joins: _with_manual(joins, join)), *overlays]

    def _reject(self, edge: ReviewedEdge, join: EdgeJoin) -> list[str]:
        sure = edge.edge.status is Status.ACCEPTED
        path, before = self._overlay(join.source)
        touched = self._put(path, before, disabling(before, join.source, [join.join], path))
        return [*self._change_joins(join, lambda joins: _without_manual(joins, join, keep=sure)), *touched]

    def _overlay(self, source: str) -> tuple[str, bytes | None]:
        path, content = self._review.overlays.place(source)
        return path, self._overlays.get(path, content)

    def _put(self, path: str, before: bytes | None, after: bytes | None) -> list[str]:
        if after == before:
            return []
        self._overlays[path] = after
        return [path]

    def _change_joins(self, join: EdgeJoin, change: Callable[[Joins], Joins]) -> list[str]:
        """Change the joins of a source in its shard; all else stays."""
        if join.shard is None:
            return []
        document = self._documents.get(join.shard, self._review.shards[join.shard].document)
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


def _with_manual(joins: Joins, wanted: EdgeJoin) -> Joins:
    """Return the joins with the wanted one as a person's; a declared one is as sure as can be and stays."""
    key = join_key(wanted.join)
    if all(join_key(join) != key for join in joins):
        return [*joins, {**wanted.join, "source": "manual"}]
    return [
        _as_manual(join, wanted) if join_key(join) == key and join.get("source") != "formal" else join for join in joins
    ]


def _as_manual(join: dict[str, Any], wanted: EdgeJoin) -> dict[str, Any]:
    """Return a join as a person's; one that the opposite of the wanted one made takes its direction."""
    if join.get("source") == "inferred":
        join = {**join, "source": "manual"}
    relationship = wanted.join["relationship"]
    if {join.get("relationship"), relationship} == {"many_to_one", "one_to_many"}:
        join = {**join, "relationship": relationship}
    return join


def _without_manual(joins: Joins, wanted: EdgeJoin, *, keep: bool) -> Joins:
    """Return the joins without a person's wanted one; `keep`: the scan finds it too, and has it as `inferred`."""
    key = join_key(wanted.join)
    persons = [join for join in joins if join_key(join) == key and join.get("source") not in GENERATED_SOURCES]
    if not keep:
        return [join for join in joins if join not in persons]
    return [{**join, "source": "inferred"} if join in persons else join for join in joins]
