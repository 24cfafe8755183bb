"""The structure of a MongoDB database: tables from sampled documents, and what indexes and validators declare."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import SourceError
from ktx_cli.warehouses import port
from ktx_cli.warehouses.base import reason
from ktx_cli.warehouses.mongodb.client import Collection, MongoServer
from ktx_cli.warehouses.mongodb.documents import (
    CHILD,
    INDEX,
    PARENT_ID,
    CollectionShape,
    Field,
    TableShape,
    infer,
    is_unaddressable,
    kind_of,
)

SAMPLE_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of the documents in the sample of a collection."""

RANGES: Final = 20
"""The number of places in the middle of a collection that a sample reads, besides its first and last documents."""

SKIPPED: Final = 1_000_000
"""The number of documents up to which a sample counts documents to find places, if ids have no arithmetic."""

_DECLARED: Final = {"int": "int", "long": "int", "double": "double", "decimal": "decimal"}
_PLAIN_TYPES: Final = frozenset({"string", "bool", "date", "objectId", "timestamp", "binData", "object", "array"})


@dataclass(frozen=True, slots=True)
class MongoTable:
    """A table of the connection: the collection it reads, and its columns."""

    collection: Collection
    shape: TableShape
    ref: port.TableRef


@dataclass(slots=True)
class MongoCatalog:
    """Reads collections and infers their tables; each collection is sampled once.

    `sample`: the maximum number of documents. `problems`: what became no table, and `notes`: what became no column, by
    collection.
    """

    server: MongoServer
    sample: int
    problems: dict[port.TableRef, list[port.ObjectProblem]] = field(default_factory=dict)
    notes: dict[port.TableRef, list[port.ObjectProblem]] = field(default_factory=dict)
    _shapes: dict[port.TableRef, CollectionShape] = field(default_factory=dict)

    def shape(self, collection: Collection) -> CollectionShape:
        """Return the tables of a collection. Raises `SourceError` if it cannot be read."""
        found = self._shapes.get(collection.ref)
        if found is None:
            documents = self._documents(collection)
            found = self._shapes[collection.ref] = infer(documents, _declared_kinds(collection))
            notes = [
                port.ObjectProblem(collection.ref, "field", reason(f"`{name}` is not a column: {why}"))
                for name, why in list(found.left_out.items())[:20]
            ]
            self.notes.setdefault(collection.ref, []).extend(notes)
        return found

    def tables(self, collections: Sequence[Collection]) -> dict[port.TableRef, MongoTable]:
        """Return the tables of collections, with a problem for each name that is taken or cannot be read."""
        found: dict[port.TableRef, MongoTable] = {}
        taken = {(each.ref.schema, each.ref.name.casefold()): each.ref for each in reversed(collections)}
        for each in collections:
            if taken[each.ref.schema, each.ref.name.casefold()] != each.ref:
                self._note(each.ref, "collection", "another collection has the same name in other case")
                continue
            try:
                shape = self.shape(each)
            except SourceError as error:
                if error.code == "connection" and not found and len(collections) > 1:
                    self.server.ping()  # raises if the server is gone
                self._note(each.ref, each.kind, error.problem)
                continue
            if not shape.own.fields:
                self._note(each.ref, each.kind, "it has no documents, and no validator declares its fields")
                continue
            found[each.ref] = MongoTable(each, shape.own, each.ref)
            for path, child in shape.children.items():
                ref = child_ref(each.ref, path)
                if (ref.schema, ref.name.casefold()) in taken:
                    why = f"`{'.'.join(path)}` does not become a table: `{ref.name}` already exists"
                    note = port.ObjectProblem(each.ref, "field", why)
                    self.notes.setdefault(each.ref, []).append(note)
                    continue
                taken[ref.schema, ref.name.casefold()] = ref
                found[ref] = MongoTable(each, child, ref)
        return found

    def described(self, table: MongoTable) -> port.Table:
        """Return a table with its declared keys, comments and allowed values."""
        rules = _rules(table.collection) if not table.shape.array else {}
        columns = tuple(_with_rules(each, rules.get(each.path, {})) for each in table.shape.fields)
        is_view = table.collection.kind == "view"
        kind = port.TableKind.VIEW if is_view else port.TableKind.TABLE
        if table.shape.array:
            comment = f"The documents in the array `{'.'.join(table.shape.array)}` of `{table.collection.ref}`."
            if table.collection.kind != "collection":  # the `_id` of its documents need not be unique
                return port.Table(table.ref, kind, columns, comment)
            parent = port.ForeignKey((PARENT_ID,), table.collection.ref, ("_id",))
            return port.Table(table.ref, kind, columns, comment, (PARENT_ID, INDEX), (parent,))
        if is_view:
            return port.Table(table.ref, kind, columns)
        names = {each.name for each in table.shape.fields}
        keys, indexes = self._indexes(table, names)
        return port.Table(
            table.ref,
            port.TableKind.TABLE,
            columns,
            primary_key=("_id",) if "_id" in names and table.collection.kind == "collection" else (),
            unique_keys=tuple(keys),
            indexes=tuple(indexes),
            row_estimate=self.server.estimate(table.collection.ref) if table.collection.kind == "collection" else None,
        )

    def _indexes(self, table: MongoTable, names: set[str]) -> tuple[list[port.UniqueKey], list[port.Index]]:
        if table.collection.kind != "collection":
            return [], []
        nested = {each.name for each in table.shape.fields if each.native_type == "JSON"}
        keys: list[port.UniqueKey] = []
        indexes: list[port.Index] = []
        for each in self.server.indexes(table.collection.ref):
            columns = tuple(str(name) for name in each.get("key", {}))
            directions = set(each.get("key", {}).values())
            if columns == ("_id",) or not set(columns) <= names or not directions <= {1, -1, "hashed"}:
                continue
            partial = bool(each.get("partialFilterExpression")) or (bool(each.get("sparse")) and len(columns) > 1)
            if each.get("unique") and not partial and not nested & set(columns):
                keys.append(port.UniqueKey(columns, str(each.get("name"))))
            elif not each.get("unique"):
                indexes.append(port.Index(columns, str(each.get("name"))))
        return keys, indexes

    def _note(self, ref: port.TableRef, what: str, why: str) -> None:
        self.problems.setdefault(ref, []).append(port.ObjectProblem(ref, what, reason(why)))

    def _documents(self, collection: Collection) -> list[Mapping[str, Any]]:
        """Return a sample of documents; the same collection gives the same one."""
        found: list[Mapping[str, Any]] = []
        broken, left = 0, SAMPLE_BYTES
        for size, document in sampled(self.server, collection, self.sample, seed=0):
            left -= size
            if document is None:
                broken += 1
            else:
                found.append(document)
            if left < 0:
                break
        if broken:
            self._note(collection.ref, "document", f"documents that are not valid BSON were skipped: {broken}")
        return found


def child_ref(parent: port.TableRef, path: Sequence[str]) -> port.TableRef:
    """Return the name of the child table of an array."""
    return port.TableRef(parent.schema, CHILD.join((parent.name, *path)))


@functools.cache
def _decoder() -> Callable[[Any], dict[str, Any]]:
    """Return the function that decodes bytes, made once because it decodes every document."""
    from bson import CodecOptions, DatetimeConversion, decode
    from bson.binary import UuidRepresentation

    options: CodecOptions[dict[str, Any]] = CodecOptions(
        document_class=dict,
        uuid_representation=UuidRepresentation.STANDARD,
        unicode_decode_error_handler="replace",
        datetime_conversion=DatetimeConversion.DATETIME_MS,
    )
    return functools.partial(decode, codec_options=options)


def decoded(raw: Any) -> dict[str, Any] | None:
    """Return a raw document as a dictionary with dates in milliseconds, or None if it is not valid BSON."""
    from bson.errors import BSONError

    try:
        return _decoder()(raw.raw)
    except (BSONError, ValueError, OverflowError, RecursionError):
        return None


def sampled(
    server: MongoServer,
    collection: Collection,
    count: int,
    *,
    seed: int,
    projection: Mapping[str, int] | None = None,
    until: float | None = None,
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the sizes and contents of at most `count` documents; None is a document that is not valid BSON.

    They are the first and last ones by `_id`, and some at seeded places between them. Views and time series have no
    index on `_id`, so their first documents are the sample. `projection` must include `_id`.
    """
    ref = collection.ref
    options: dict[str, Any] = {"projection": projection, "until": until}
    known = server.estimate(ref) if collection.kind == "collection" else None
    if known is None or known <= count:
        parts: list[Iterator[Any]] = [server.find(ref, sort=0 if known is None else 1, limit=count, **options)]
    else:
        end = count // 4
        parts = [
            server.find(ref, sort=1, limit=count - 2 * end, **options),
            *_middle(server, ref, known, end, seed, options),
            server.find(ref, sort=-1, limit=end, **options),
        ]
    seen: set[str] = set()
    for raw in (raw for part in parts for raw in part):
        document = decoded(raw)
        mark = repr(None if document is None else document.get("_id"))
        if known is None or document is None or mark not in seen:
            seen.add(mark)
            yield len(raw.raw), document


def _middle(
    server: MongoServer, ref: port.TableRef, known: int, count: int, seed: int, options: Mapping[str, Any]
) -> Iterator[Iterator[Any]]:
    """Yield runs of documents at seeded places: by arithmetic on ids where there is one, else by skipping documents."""
    low, high = (_end(server, ref, way) for way in (1, -1))
    chance, each = random.Random(seed), max(1, count // RANGES)
    for place in range(min(RANGES, count)):
        share = (place + chance.random()) / RANGES
        start = _between(low, high, share)
        if start is not None:
            yield server.find(ref, criteria={"_id": {"$gte": start}}, sort=1, limit=each, **options)
        elif known <= SKIPPED:
            yield server.find(ref, sort=1, skip=int(known * share), limit=each, **options)


def _end(server: MongoServer, ref: port.TableRef, way: int) -> Any:
    found = next(iter(server.find(ref, projection={"_id": 1}, sort=way, limit=1)), None)
    document = None if found is None else decoded(found)
    return None if document is None else document.get("_id")


def _between(low: Any, high: Any, share: float) -> Any:
    """Return the id at a share of the way between two, or None if ids of this type have no arithmetic."""
    from bson import ObjectId

    if isinstance(low, ObjectId) and isinstance(high, ObjectId):
        first, last = (int.from_bytes(each.binary, "big") for each in (low, high))
        return ObjectId((first + int((last - first) * share)).to_bytes(12, "big"))
    if kind_of(low) == "int" and kind_of(high) == "int":
        return int(low) + int((int(high) - int(low)) * share)
    return None


def _schema(collection: Collection) -> Mapping[str, Any]:
    validator = collection.options.get("validator")
    found = validator.get("$jsonSchema") if isinstance(validator, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _rules(collection: Collection) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """Return what a validator says about each path, with `required` for a value that every document must have."""
    enforced = (
        collection.options.get("validationLevel", "strict") == "strict"
        and collection.options.get("validationAction", "error") == "error"
    )
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}

    def visit(schema: Mapping[str, Any], path: tuple[str, ...], always: bool) -> None:
        needed = schema.get("required") or ()
        properties = schema.get("properties")
        for key, rule in properties.items() if isinstance(properties, Mapping) else ():
            if not isinstance(rule, Mapping) or is_unaddressable(str(key)) or len(path) > 10:
                continue
            required = always and key in needed
            found[*path, str(key)] = {**rule, "required": required and enforced}
            visit(rule, (*path, str(key)), required)

    visit(_schema(collection), (), True)
    return found


def _kinds(rule: Mapping[str, Any]) -> set[str]:
    given = rule.get("bsonType", ())
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    return {_DECLARED.get(name, name) for name in names if name in _DECLARED or name in _PLAIN_TYPES}


def _declared_kinds(collection: Collection) -> dict[tuple[str, ...], set[str]]:
    """Return the BSON types of the paths that a validator declares, without those of documents with properties."""
    rules = _rules(collection)
    return {
        path: _kinds(rule)
        for path, rule in rules.items()
        if _kinds(rule) and not isinstance(rule.get("properties"), Mapping)
    }


def _with_rules(each: Field, rule: Mapping[str, Any]) -> port.Column:
    column = each.column()
    described = rule.get("description")
    given = rule.get("enum")
    texts = tuple(given) if isinstance(given, list) and all(isinstance(value, str) for value in given) else ()
    kinds = _kinds(rule)
    return replace(
        column,
        comment=described
        if isinstance(described, str) and described.strip() and not column.comment
        else column.comment,
        values=texts if each.kinds <= {"string"} and len(texts) <= 200 else (),
        nullable=column.nullable and not (rule.get("required") and kinds and "null" not in str(rule.get("bsonType"))),
    )
