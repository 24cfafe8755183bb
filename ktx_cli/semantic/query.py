"""Parse and validate the JSON form of semantic layer queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from ktx_cli.core import Argument, Hint, did_you_mean, listing
from ktx_cli.semantic.model import GRAINS, SemanticError

DEFAULT_LIMIT: Final = 1000
"""The default row limit."""

MOST_ROWS: Final = 100_000
"""The maximum row limit."""

LONGEST: Final = 10_000
"""Maximum length of an expression in characters."""

MOST_ITEMS: Final = 200
"""Maximum number of measures, dimensions or conditions in a query."""

TIME_RANGE: Final = "time_range"
"""The key of a query's time range, and the code of errors about one."""

_DIRECTION: Final = re.compile(r"(.*\S)(?:\s+|\s*:\s*)(asc|desc)", re.IGNORECASE | re.DOTALL)
"""A name to sort by and a direction: `revenue desc`, or `revenue:desc` as on the command line."""

_NAMED: Final = re.compile(
    r"(?P<expr>.*\S)\s+as\s+(?:(?P<name>[^\W\d]\w*)|\"(?P<quoted>[^\"]+)\"|`(?P<marked>[^`]+)`)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""An expression with a name for its column, as in a SELECT: `sum(orders.amount) as revenue`."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class QueryMeasure:
    """A measure reference, or an expression with aggregates. `name` is the name of its column.

    As text, it may end with its name, as in SQL: `sum(orders.amount) as revenue`; so may a dimension.
    """

    expr: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class QueryDimension:
    """A column to group by, with the `granularity` of a time and the joins to use (`via`)."""

    field: str
    granularity: str | None = None
    name: str | None = None
    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """A condition on rows or on results. `facts` limits it to some facts; None means all."""

    expr: str
    via: tuple[str, ...] = ()
    facts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class QueryOrder:
    """A name to sort by, or the position of a column in the result, `1` for the first."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class QueryRange:
    """A time range with an inclusive `start` and exclusive `end`, or the most recent period (`last`)."""

    field: str | None = None
    start: str | None = None
    end: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query with validated fields, but unresolved names.

    If `include_empty` is None, dimension values without rows are included if all dimensions are from one source.
    `comparison` is an offset or `previous_period`. `via` maps sources to the joins on the paths to their columns.
    """

    measures: tuple[QueryMeasure, ...] = ()
    dimensions: tuple[QueryDimension, ...] = ()
    filters: tuple[QueryFilter, ...] = ()
    segments: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    order_by: tuple[QueryOrder, ...] = ()
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    include_empty: bool | None = None
    time_range: QueryRange | None = None
    comparison: str | None = None
    totals: bool = False
    fill: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    via: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def time_range_with(self, **changes: str) -> Argument:
        """Return the time range of the query with some of its keys changed, as part of a hint."""
        given = {} if self.time_range is None else asdict(self.time_range)
        return Argument(TIME_RANGE, {key: value for key, value in (given | changes).items() if value is not None})


def parse_query(asked: Any) -> Query:
    """Parse a JSON object. Raises `SemanticError` (code `query`) for the first error."""
    if not isinstance(asked, Mapping):
        raise _wrong("the query", "must be a JSON object", '{"measures": ["orders.revenue"]}')
    _known_keys(asked, _READERS, "the query")
    values = {key: read(asked[key], key) for key, read in _READERS.items() if key in asked and asked[key] is not None}
    query = Query(**values)
    if not query.measures and not query.dimensions:
        raise _wrong("the query", "has no measures or dimensions", "add at least one measure or dimension")
    return query


def _measures(value: Any, key: str) -> tuple[QueryMeasure, ...]:
    return _items(
        value,
        key,
        lambda item, where: QueryMeasure(**_named(_texts(item, where, ("expr", "name"), "expr"), "expr", where)),
    )


def _dimensions(value: Any, key: str) -> tuple[QueryDimension, ...]:
    return _items(value, key, _dimension)


def _dimension(item: Any, where: str) -> QueryDimension:
    if isinstance(item, Mapping):
        item = dict(item)
        via = _path(item.pop("via", None), f"{where}.via")
    else:
        via = ()
    texts = _named(_texts(item, where, ("field", "granularity", "name"), "field"), "field", where)
    if "granularity" not in texts:
        field, grain = with_grain(texts["field"])
        texts |= {"field": field} | ({} if grain is None else {"granularity": grain})
    found = QueryDimension(**texts, via=via)
    if found.granularity is not None and found.granularity not in GRAINS:
        raise _not_one_of(found.granularity, GRAINS, f"{where}.granularity")
    return found


def with_name(text: str) -> tuple[str, str | None]:
    """Return a written expression such as `sum(orders.amount) as revenue` as the expression and its name."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return text, None
    name = found["name"] or (found["quoted"] or found["marked"]).strip()
    is_whole = all(found["expr"].count(mark) % 2 == 0 for mark in "'\"`") and not found["expr"].endswith(".")
    return (found["expr"].strip(), name) if is_whole and name else (text, None)


def _named(texts: dict[str, Any], main: str, where: str) -> dict[str, Any]:
    """Return the texts of an entry, with the name at the end of its expression as a separate text."""
    expr, name = with_name(texts[main])
    if name is None:
        return texts
    if "name" in texts:
        raise _wrong(f"`{where}`", f"has two names, `{name}` and `{texts['name']}`", f"remove `as {name}`")
    return {**texts, main: expr, "name": name}


def with_grain(text: str) -> tuple[str, str | None]:
    """Return a written dimension such as `orders.ordered_at:month` as its field and its granularity."""
    field, colon, grain = text.rpartition(":")
    if not colon or grain.strip() not in GRAINS or not field.strip() or field.endswith(":"):
        return text, None
    return field.strip(), grain.strip()


def _filters(value: Any, key: str) -> tuple[QueryFilter, ...]:
    def read(item: Any, where: str) -> QueryFilter:
        facts: tuple[str, ...] | None = None
        via: tuple[str, ...] = ()
        if isinstance(item, Mapping):
            item = dict(item)
            via = _path(item.pop("via", None), f"{where}.via")
            named = item.pop("facts", None)
            facts = None if named is None else _text_list(named, f"{where}.facts")
        return QueryFilter(**_texts(item, where, ("expr",), "expr"), via=via, facts=facts)

    return _items(value, key, read)


def _order(value: Any, key: str) -> tuple[QueryOrder, ...]:
    def read(item: Any, where: str) -> QueryOrder:
        if isinstance(item, int) and not isinstance(item, bool):
            item = str(item)
        if isinstance(item, str):
            match = _DIRECTION.fullmatch(_text(item, where))
            return QueryOrder(item.strip()) if match is None else QueryOrder(match[1], match[2].lower() == "desc")
        found = _texts(item, where, ("field", "direction"), "field")
        direction = found.get("direction") or "asc"
        if direction.lower() not in ("asc", "desc"):
            raise _not_one_of(direction, ("asc", "desc"), f"{where}.direction")
        return QueryOrder(found["field"], direction.lower() == "desc")

    return _items(value, key, read)


def _range(value: Any, key: str) -> QueryRange:
    found = QueryRange(**_texts(value, key, ("field", "start", "end", "last"), None))
    if found.last is not None and (found.start is not None or found.end is not None):
        message = "the time range has both a length and a start or an end"
        either = Argument(key, {"last": found.last}), Argument(key, {"start": "2024-01-01", "end": "2025-01-01"})
        raise SemanticError(message, hint=Hint("use either `{}` or a start and an end: `{}`", *either), code=TIME_RANGE)
    if found.last is None and found.start is None and found.end is None:
        month, year = Argument(key, {"last": "1 month"}), Argument(key, {"start": "2024-01-01", "end": "2025-01-01"})
        message = "the time range has no start, end or length"
        raise SemanticError(message, hint=Hint("for example: `{}` or `{}`", month, year), code=TIME_RANGE)
    return found


def _comparison(value: Any, key: str) -> str:
    return str(_texts(value, key, ("offset",), "offset")["offset"])


def _limit(value: Any, key: str) -> int:
    return _number(value, key, MOST_ROWS)


def _offset(value: Any, key: str) -> int:
    return _number(value, key, 1_000_000_000)


def _number(value: Any, key: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise _wrong(f"`{key}`", f"must be a whole number from 0 to {most:,}", f'"{key}": 100')
    return value


def _flag(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(f"`{key}`", "must be true or false", f'"{key}": true')
    return value


def _mapping(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _wrong(f"`{key}`", "must be an object that maps names to values", f'"{key}": {{"name": "value"}}')
    for name, each in value.items():
        if not isinstance(each, str | int | float | bool):
            raise _wrong(
                f"`{key}.{name}`", "must be a string, a number or a boolean", f'"{key}": {{"{name}": "value"}}'
            )
    return dict(value)


def _via_map(value: Any, key: str = "via") -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(f"`{key}`", "must be an object that maps target sources to paths", '"via": {"regions": "bill_to"}')
    paths = {str(target): _path(path, f"{key}.{target}") for target, path in value.items()}
    return {target: path for target, path in paths.items() if path}


def _path(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        path = tuple(part for part in value.split(".") if part)
        if not path:
            raise _wrong(f"`{where}`", "names no join", '"via": {"regions": "bill_to"}')
        return path
    return _text_list(value, where)


def _text_list(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    return _items(value, where, _text)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(f"`{where}`", "must be a string", f"write a string at `{where}`")
    if len(value) > LONGEST:
        raise _wrong(f"`{where}`", f"is longer than {LONGEST:,} characters", "define it as a measure or a segment")
    return value.strip()


def _texts(item: Any, where: str, keys: tuple[str, ...], main: str | None) -> dict[str, Any]:
    """Return the texts in an object with these keys, or a plain text as the key `main`."""
    if isinstance(item, str) and main is not None:
        return {main: _text(item, where)}
    if not isinstance(item, Mapping):
        raise _wrong(f"`{where}`", f"must be {'a string or ' if main else ''}an object", f"keys: {', '.join(keys)}")
    _known_keys(item, keys, f"`{where}`")
    if main is not None and item.get(main) is None:
        raise _wrong(f"`{where}`", f"has no `{main}`", f'{{"{main}": "..."}}')
    return {key: _text(item[key], f"{where}.{key}") for key in keys if item.get(key) is not None}


def _items(value: Any, key: str, read: Callable[[Any, str], _Item]) -> tuple[_Item, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _wrong(f"`{key}`", "must be a list", f'"{key}": [...]')
    if len(value) > MOST_ITEMS:
        raise _wrong(f"`{key}`", f"has more than {MOST_ITEMS} entries", "split it into several queries")
    return tuple(read(item, f"{key}[{index}]") for index, item in enumerate(value))


def _known_keys(item: Mapping[Any, Any], known: Sequence[str] | Mapping[str, Any], what: str) -> None:
    for key in item:
        if key not in known:
            near = did_you_mean(str(key), known)
            hint = f"did you mean `{near}`?" if near else f"keys: {listing(sorted(known))}"
            raise SemanticError(f"{what} has an unknown key `{key}`", hint=hint, details={"key": str(key)})


def _not_one_of(value: str, known: Sequence[str], where: str) -> SemanticError:
    near = did_you_mean(value, known)
    hint = f"did you mean `{near}`?" if near else f"use one of: {', '.join(known)}"
    return SemanticError(f"`{where}` cannot be `{value}`", hint=hint, details={"candidates": list(known)})


def _wrong(what: str, message: str, hint: str) -> SemanticError:
    return SemanticError(f"{what} {message}", hint=hint)


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "measures": _measures, "dimensions": _dimensions, "filters": _filters, "segments": _text_list,
    "having": _text_list, "order_by": _order, "limit": _limit, "offset": _offset, "include_empty": _flag,
    "time_range": _range, "comparison": _comparison, "totals": _flag, "fill": _flag, "parameters": _mapping,
    "timezone": _text, "via": _via_map,
}  # fmt: skip
