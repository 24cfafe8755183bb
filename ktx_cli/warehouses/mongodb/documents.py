"""Documents as rows: the columns of a collection, inferred from a sample, and the values that they take from documents.

A column is a dotted path to a value that is not a document itself. An array is a JSON column, and an array of documents
is a child table: `orders.items` becomes `orders__items`, with the columns `_parent_id` and `_index`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from ktx_cli.warehouses.port import Column, SemanticType

PARENT_ID: Final = "_parent_id"
INDEX: Final = "_index"
CHILD: Final = "__"
"""Separates the name of a collection and of an array in the name of a child table."""

MOST_COLUMNS: Final = 500
"""The maximum number of columns of a table; further paths are part of no column."""

MOST_KEYS: Final = 100
"""The maximum number of keys of a nested document that become columns; one with more is a JSON column."""

DEEPEST: Final = 6
"""The maximum depth of a path; documents below are JSON columns."""

JSON_DEPTH: Final = 200
"""The depth at which values are no longer written; the server stores at most 100 levels."""

_EPOCH: Final = datetime(1970, 1, 1)
_MOST_MICROSECONDS: Final = 9_000_000_000_000_000_000
NUMBERS: Final = frozenset({"int", "double", "decimal"})
_DIGITS: Final = 37
_DECIMAL128: Final = Context(prec=34, traps=[])
_DOUBLE_DIGITS: Final = 15
_DOUBLE_INTEGERS: Final = 2**53
_TYPES: Final[Mapping[str, tuple[str, SemanticType]]] = {
    "int": ("BIGINT", SemanticType.NUMBER),
    "double": ("DOUBLE", SemanticType.NUMBER),
    "string": ("VARCHAR", SemanticType.STRING),
    "objectId": ("VARCHAR", SemanticType.STRING),
    "uuid": ("VARCHAR", SemanticType.STRING),
    "symbol": ("VARCHAR", SemanticType.STRING),
    "regex": ("VARCHAR", SemanticType.STRING),
    "bool": ("BOOLEAN", SemanticType.BOOLEAN),
    "date": ("TIMESTAMP", SemanticType.TIME),
    "timestamp": ("TIMESTAMP", SemanticType.TIME),
    "binData": ("BLOB", SemanticType.STRING),
    "object": ("JSON", SemanticType.STRING),
    "array": ("JSON", SemanticType.STRING),
}
"""The SQL type of a column whose values all have one BSON type; a decimal's also has a scale."""

_PYTHON: Final[Mapping[str, str]] = {
    "str": "string",
    "bool": "bool",
    "int": "int",
    "Int64": "int",
    "float": "double",
    "Decimal128": "decimal",
    "datetime": "date",
    "DatetimeMS": "date",
    "ObjectId": "objectId",
    "UUID": "uuid",
    "bytes": "binData",
    "Binary": "binData",
    "NoneType": "null",
    "dict": "object",
    "DBRef": "object",
    "list": "array",
    "Regex": "regex",
    "Pattern": "regex",
    "Timestamp": "timestamp",
    "Code": "javascript",
}


_KINDS: Final[dict[type, str]] = {}


class MixedError(Exception):
    """Raised for a value of another type than its column.

    `kind`: the BSON type of the value. `path`: the path of a parent with another type, empty for the column's own.
    """

    def __init__(self, kind: str, path: Sequence[str] = ()) -> None:
        super().__init__(kind)
        self.kind = kind
        self.path = tuple(path)


class InexactError(Exception):
    """Raised for a column with doubles and with a number that a double cannot represent."""


def kind_of(value: Any) -> str:
    """Return the BSON type of a value, with `int` for both sizes of integers."""
    found = _KINDS.get(type(value))
    if found is None:  # every value of every document passes here
        name = type(value).__name__
        found = _KINDS[type(value)] = _PYTHON.get(name, name[:1].lower() + name[1:])
    return found


@dataclass(slots=True)
class PathFacts:
    """What a sample shows about one path: its BSON types and the largest scale of its decimals."""

    kinds: set[str] = field(default_factory=set)
    scale: int = 0

    def note(self, value: Any) -> None:
        """Record a value."""
        kind, scale = number_kind(value)
        self.kinds.add(kind)
        self.scale = max(self.scale, scale)


@dataclass(frozen=True, slots=True)
class Field:
    """A column: the keys that lead to its value, and the BSON types that the sample contains, without null."""

    path: tuple[str, ...]
    kinds: frozenset[str]
    scale: int = 0
    generated: str = ""
    """The name of a column that the document does not store: `PARENT_ID` or `INDEX`."""

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.generated or ".".join(self.path)

    @property
    def is_mixed(self) -> bool:
        """Whether values of different types are stored, which are read as text, or as JSON if any is nested."""
        return len(self.kinds) > 1 and not self.kinds <= NUMBERS

    @property
    def native_type(self) -> str:
        """The SQL type of the column."""
        if not self.kinds:
            return "VARCHAR"
        if self.is_mixed:
            return "JSON" if self.kinds & {"object", "array"} else "VARCHAR"
        if self.kinds <= NUMBERS:
            return number_type(self.kinds, self.scale)
        return _TYPES.get(min(self.kinds), ("VARCHAR", SemanticType.STRING))[0]

    @property
    def type(self) -> SemanticType:
        """The type of the column in the semantic layer."""
        if not self.kinds or self.is_mixed:
            return SemanticType.STRING
        if self.kinds <= NUMBERS:
            return SemanticType.NUMBER
        return _TYPES.get(min(self.kinds), ("VARCHAR", SemanticType.STRING))[1]

    def column(self) -> Column:
        """Return the column, with a comment that names mixed types."""
        comment = f"Values have different BSON types: {', '.join(sorted(self.kinds))}." if self.is_mixed else None
        nullable = not (self.generated or self.path == ("_id",))
        return Column(self.name, self.native_type, self.type, nullable=nullable, comment=comment)


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table. `array`: the path of the array whose documents are the rows of a child table."""

    fields: tuple[Field, ...]
    array: tuple[str, ...] = ()

    def only(self, names: Iterable[str] | None) -> TableShape:
        """Return the shape with only the named columns, ignoring case; None keeps all of them."""
        if names is None:
            return self
        wanted = {name.casefold() for name in names}
        return TableShape(tuple(each for each in self.fields if each.name.casefold() in wanted), self.array)

    def projection(self) -> dict[str, int]:
        """Return the projection that transfers only what the columns need.

        It names whole fields of the document, because a projection of paths below them drops values that are no
        documents, which would be read as missing.
        """
        if self.array:
            return {"_id": 1, self.array[0]: 1}
        paths = sorted({each.path[0] for each in self.fields})
        return {**({} if "_id" in paths else {"_id": 0 if paths else 1}), **dict.fromkeys(paths, 1)}

    def rows(self, document: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Yield the rows of a document: itself, or the documents of the array. Raises `MixedError` for others."""
        if not self.array:
            yield [value_at(document, each.path) for each in self.fields]
            return
        items = value_at(document, self.array)
        if items is None:
            return
        if not isinstance(items, list):
            raise MixedError(kind_of(items))
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                raise MixedError(kind_of(item))
            given = {PARENT_ID: document.get("_id"), INDEX: place}
            yield [given[each.generated] if each.generated else value_at(item, each.path) for each in self.fields]


@dataclass(slots=True)
class CollectionShape:
    """The tables of one collection. `children`: array path -> shape. `left_out`: keys that are no columns, and why."""

    own: TableShape
    children: dict[tuple[str, ...], TableShape]
    left_out: dict[str, str]


def infer(documents: Iterable[Mapping[str, Any]], declared: Mapping[tuple[str, ...], set[str]]) -> CollectionShape:
    """Return the tables of a collection from sampled documents and the paths that a validator declares."""
    sample = list(documents)
    left_out: dict[str, str] = {}
    own, arrays = _fields(sample, left_out, declared)
    children: dict[tuple[str, ...], TableShape] = {}
    kept: list[Field] = []
    for each in own:
        items = arrays.get(each.path) if each.kinds == {"array"} else None
        if not items or not all(isinstance(item, dict) for item in items):
            kept.append(each)
            continue
        inside: dict[str, str] = {}
        below, _ = _fields(items, inside, {})
        left_out |= {f"{each.name}.{name}": why for name, why in inside.items()}
        key = next((field for field in own if field.path == ("_id",)), Field(("_id",), frozenset({"objectId"})))
        extra = (Field((), key.kinds, key.scale, PARENT_ID), Field((), frozenset({"int"}), 0, INDEX))
        taken = {PARENT_ID, INDEX}
        for one in below:
            if one.name.casefold() in taken:
                left_out[f"{each.name}.{one.name}"] = "the table of an array has a column of this name"
        rest = (one for one in below if one.name.casefold() not in taken)
        children[each.path] = TableShape((*extra, *rest), each.path)
    return CollectionShape(TableShape(tuple(kept)), children, left_out)


def _fields(
    sample: Sequence[Mapping[str, Any]], left_out: dict[str, str], declared: Mapping[tuple[str, ...], set[str]]
) -> tuple[list[Field], dict[tuple[str, ...], list[Any]]]:
    """Return the columns of documents, and the items of every array."""
    collapsed = _collapsed(sample)
    facts: dict[tuple[str, ...], PathFacts] = {}
    arrays: dict[tuple[str, ...], list[Any]] = {}

    def visit(document: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for key, value in document.items():
            here = (*path, key)
            if is_unaddressable(key):
                left_out[".".join(here)] = "its name is empty, contains a dot or begins with `$`"
                continue
            if isinstance(value, dict) and value and here not in collapsed:
                visit(value, here)
                continue
            facts.setdefault(here, PathFacts()).note(value)
            if isinstance(value, list):
                arrays.setdefault(here, []).extend(value)

    for document in sample:
        visit(document, ())
    for path, kinds in declared.items():
        if path not in facts and not any(is_below(other, path) or is_below(path, other) for other in facts):
            facts[path] = PathFacts(set(kinds))
    return _chosen(facts, left_out), arrays


def _chosen(facts: Mapping[tuple[str, ...], PathFacts], left_out: dict[str, str]) -> list[Field]:
    fields: list[Field] = []
    names: dict[str, str] = {}
    for path, found in facts.items():
        name = ".".join(path)
        kinds = found.kinds - {"null", "undefined"}
        if kinds <= {"object"} and any(other != path and other[: len(path)] == path for other in facts):
            continue  # Null or empty in some documents, and a document with columns in the others.
        if name.casefold() in names:
            left_out[name] = f"its name differs from `{names[name.casefold()]}` only in case"
        elif len(fields) >= MOST_COLUMNS:
            left_out[name] = f"the table already has {MOST_COLUMNS} columns"
        else:
            names[name.casefold()] = name
            fields.append(Field(path, frozenset(kinds), found.scale))
    return fields


def _collapsed(sample: Sequence[Mapping[str, Any]]) -> set[tuple[str, ...]]:
    """Return the paths of documents that stay JSON: too many keys, too deep, other values, or unaddressable keys."""
    keys: dict[tuple[str, ...], set[str]] = {}
    other: set[tuple[str, ...]] = set()

    def visit(document: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for key, value in document.items():
            here = (*path, key)
            if not isinstance(value, dict):
                if value is not None:
                    other.add(here)
                continue
            keys.setdefault(here, set()).update(value)
            if len(here) <= DEEPEST and len(keys[here]) <= MOST_KEYS:
                visit(value, here)

    for document in sample:
        visit(document, ())
    return {
        path
        for path, found in keys.items()
        if path in other or len(found) > MOST_KEYS or len(path) >= DEEPEST or any(map(is_unaddressable, found))
    }


def is_unaddressable(key: str) -> bool:
    """Return whether a projection cannot name a key."""
    return not key or "." in key or key.startswith("$") or "\0" in key


def is_below(path: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a path is another one or leads to a part of its value."""
    return tuple(path[: len(other)]) == tuple(other)


def value_at(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value that a path leads to in a document, or None. Raises `MixedError` if a parent is not one."""
    value: Any = document
    for place, key in enumerate(path):
        if not isinstance(value, dict):
            if value is None:
                return None
            raise MixedError(kind_of(value), path[:place])
        value = value.get(key)
    return value


def number_type(kinds: Iterable[str], scale: int) -> str:
    """Return the SQL type that represents numbers of these BSON types."""
    found = set(kinds)
    if "double" in found:
        return "DOUBLE"
    return f"DECIMAL(38, {scale})" if "decimal" in found else "BIGINT"


def number_kind(value: Any) -> tuple[str, int]:
    """Return the BSON type of a value, and the number of decimal places of a decimal.

    A decimal that no SQL decimal represents counts as a double: infinity, NaN, and too many digits.
    """
    kind = kind_of(value)
    if kind != "decimal":
        return kind, 0
    found: Decimal = value.to_decimal()
    exponent = found.normalize(_DECIMAL128).as_tuple().exponent
    if not isinstance(exponent, int):
        return "double", 0
    scale = max(0, -exponent)
    return ("double", 0) if max(0, found.adjusted() + 1) + scale > _DIGITS else ("decimal", scale)


def fits_double(value: Any) -> bool:
    """Return whether a double can represent a number, so that it stays distinct from others of its type."""
    if isinstance(value, int):
        return -_DOUBLE_INTEGERS <= value <= _DOUBLE_INTEGERS or int(float(value)) == value
    if kind_of(value) != "decimal":
        return True
    found = value.to_decimal().normalize(_DECIMAL128)
    return not found.is_finite() or len(found.as_tuple().digits) <= _DOUBLE_DIGITS


def number_value(value: Any, native_type: str) -> Any:
    """Return a number as a JSON value for a column of this type, which represents it."""
    if value is None:
        return None
    if native_type == "BIGINT":
        return int(value)
    if native_type != "DOUBLE":
        return str(value)
    found = float(value.to_decimal()) if kind_of(value) == "decimal" else float(value)
    return found if math.isfinite(found) else str(found)


def converter(column: Field) -> Callable[[Any], Any]:
    """Return the function that turns a value of a column into a JSON value for DuckDB.

    It raises `MixedError` for a value of a type that the sample does not contain. Numbers are converted separately,
    because their type depends on all documents.
    """
    if column.is_mixed:
        return _json_text if column.native_type == "JSON" else _text
    if not column.kinds:
        return _nothing
    write: Callable[[Any], Any] = _CONVERTED.get(min(column.kinds), _text)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        found = kind_of(value)
        if found not in column.kinds:
            raise MixedError(found)
        return write(value)

    return convert


def _nothing(value: Any) -> Any:
    if value is not None:
        raise MixedError(kind_of(value))
    return None


def microseconds(value: Any) -> int | None:
    """Return a BSON date or timestamp as microseconds since 1970, or None if SQL cannot represent it."""
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - _EPOCH) // timedelta(microseconds=1)
    found = int(value.time) * 1_000_000 if type(value).__name__ == "Timestamp" else int(value) * 1000
    return found if abs(found) <= _MOST_MICROSECONDS else None


def _encoded(value: bytes) -> str:
    return base64.b64encode(bytes(value)).decode()


def _text(value: Any) -> str | None:
    """Return a value as text, in the form that JSON has for it if there is one."""
    plain = plain_value(value)
    if plain is None or isinstance(plain, str):
        return clean(plain) if plain is not None else None
    return json.dumps(plain, ensure_ascii=False)


def _json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(plain_value(value))


def clean(text: str) -> str:
    """Return a text that UTF-8 can encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": clean,
    "objectId": str,
    "uuid": str,
    "bool": bool,
    "date": microseconds,
    "timestamp": microseconds,
    "binData": _encoded,
    "object": _json_text,
    "array": _json_text,
}


def plain_value(value: Any, depth: int = 0) -> Any:
    """Return a BSON value as JSON: ids, dates and decimals as text, nested values as objects and arrays."""
    kind = kind_of(value)
    if value is None or kind in ("bool", "int"):
        return value if not isinstance(value, int) or isinstance(value, bool) else int(value)
    if kind == "string":
        return clean(value)
    if kind == "double":
        return value if math.isfinite(value) else str(value)
    if kind in ("object", "array") and depth >= JSON_DEPTH:
        return "..."
    if kind == "object":
        items = value.as_doc() if type(value).__name__ == "DBRef" else value
        return {clean(str(key)): plain_value(each, depth + 1) for key, each in items.items()}
    if kind == "array":
        return [plain_value(each, depth + 1) for each in value]
    if kind in ("date", "timestamp"):
        found = microseconds(value)
        return None if found is None else iso_text(found)
    return _encoded(value) if kind == "binData" else clean(str(value))


def iso_text(found: int) -> str | None:
    """Return microseconds since 1970 as an ISO timestamp in UTC, or None for a year that Python cannot represent."""
    try:
        return (_EPOCH + timedelta(microseconds=found)).isoformat() + "Z"
    except OverflowError:
        return None
