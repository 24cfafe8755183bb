"""The literals that are kept in a statement's text, and the placeholders for the others.

A literal is kept if it determines how the statement computes, or if it is a known value of the column that it is
compared with: positions, limits, formats, date parts, intervals, small numbers in formulas, and codes that a definition
declares or a scan listed. Every other literal is replaced. Looking harmless is not a reason to keep a literal.
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.faces import exp
from ktx_cli.sources.query_history.tables import NamedTable
from ktx_cli.warehouses import SemanticType, silence_parser

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

BLANK: Final = "?"
"""The placeholder for a literal in shown or stored text."""

_UNIT_WORDS: Final = """
microsecond millisecond second minute hour day dow doy isodow week isoweek month quarter year isoyear epoch
"""
UNITS: Final = frozenset(_UNIT_WORDS.split())
"""Words that are literals in some databases and do not reveal anything about anybody: `date_trunc('month', x)`."""

_MARK: Final = re.compile(r"(?<![A-Za-z0-9_])[xp]_x_(\d+)_x(?![A-Za-z0-9_])", re.IGNORECASE)
_PARAMETER: Final = "p"
_META: Final = "ktx_literal"


@functools.lru_cache(maxsize=2)
def tokens_of(sql: str, dialect: str) -> Sequence[Token]:
    """Return a statement's tokens, which must not be changed. Raises `SqlglotError` for an unterminated string."""
    from sqlglot import tokenize

    silence_parser()
    return tokenize(sql, read=dialect)


def spliced(sql: str, tokens: Sequence[Token], blank: Callable[[str, int], str], *, numbers: bool) -> str:
    """Return a statement's text without its literals, on one line.

    `blank`: takes `x`, or `p` for a parameter, and the position of a literal, and returns its placeholder.
    """
    parts: list[str] = []
    end = count = 0
    for before, token in zip((None, *tokens), tokens, strict=False):
        if parts and token.start > end:
            parts.append(" ")
        end = token.end + 1
        kind = token.token_type.name
        if kind == "NUMBER" and before is not None and _is_numbered(before, token):
            parts[-1] = blank(_PARAMETER, count)
            count += 1
        elif _is_blanked(token) or (numbers and kind == "NUMBER"):
            parts.append(blank("x", count))
            count += 1
        else:
            parts.append(sql[token.start : end])
    return "".join(parts)


def marked(sql: str, dialect: str) -> str:
    """Return a statement to parse, with a mark for each string and parameter; `texts_of` returns those in order."""
    return spliced(sql, tokens_of(sql, dialect), lambda kind, number: f"'{kind}_x_{number}_x'", numbers=False)


def unmarked(text: str) -> str:
    """Return text with all marks made equal."""
    return _MARK.sub(lambda found: "X" if found[0][0].isupper() else "x", text)


def texts_of(sql: str, dialect: str) -> tuple[str | None, ...]:
    """Return a statement's strings in order, with None for parameters and bytes."""
    tokens = tokens_of(sql, dialect)
    found: list[str | None] = []
    for before, token in zip((None, *tokens), tokens, strict=False):
        kind = token.token_type.name
        if kind == "NUMBER" and before is not None and _is_numbered(before, token):
            found.append(None)
        elif _is_blanked(token):
            found.append(token.text if kind in ("STRING", "NATIONAL_STRING", "RAW_STRING") else None)
    return tuple(found)


def _is_blanked(token: Token) -> bool:
    return token.token_type.name.endswith("STRING") and token.text.lower() not in UNITS


def _is_numbered(before: Token, token: Token) -> bool:
    """Return whether two tokens form a parameter such as `$1`."""
    return before.token_type.name == "PARAMETER" and before.end + 1 == token.start


class Use(StrEnum):
    """The purpose of a literal, which decides whether it is kept."""

    VALUE = "value"
    FORMAT = "format"
    INTERVAL = "interval"
    ZONE = "zone"
    UNIT = "unit"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Blank:
    """The place of a literal or a list of literals in a statement.

    `marks`: the strings in the statement that it comes from. `fixed`: literals that are always kept. `hides`: whether
    literals at this place are never kept. `stand_in`: SQL for a literal that is not kept. `table`, `column`: the column
    that it is compared with; `folds`: ignoring case.
    """

    use: Use
    marks: tuple[int, ...] = ()
    fixed: tuple[str, ...] = ()
    hides: bool = False
    stand_in: str = BLANK
    table: NamedTable | None = None
    column: str = ""
    folds: bool = False

    def kept(self, texts: Sequence[str | None]) -> tuple[str, ...]:
        """Return the strings that are kept."""
        given = (texts[mark] if mark < len(texts) else None for mark in self.marks)
        return tuple(text for text in given if text is not None and self._stays(text))

    def _stays(self, text: str) -> bool:
        match self.use:
            case Use.VALUE:
                known = self.table is not None and self.table.has_value(self.column, text, folds=self.folds)
                return known or text == ""
            case Use.FORMAT:
                return len(text) <= _LONGEST_FORMAT and _FORMAT.fullmatch(text) is not None
            case Use.INTERVAL:
                return _INTERVAL.fullmatch(text.strip()) is not None
            case Use.ZONE:
                return text in _zones()
            case Use.UNIT:
                return text.lower().removesuffix("s") in UNITS
            case _:
                return text == ""


_LONGEST_FORMAT: Final = 40
_FORMAT: Final = re.compile(
    r"(?=.*(?:%|[YMDHQWISymdhqw9#]))(?:"
    r"(?:%[-#_^E]?[A-Za-z%]|[-/.:,_ TZWQ])+"  # %Y-%m
    r"|(?:FM|YYYY|IYYY|YY|MONTH|MON|MM|DAY|DY|DD|HH24|HH12|HH|MI|SS|IW|WW|Q|[-/.:,_ T\"])+"  # YYYY-MM
    r"|(?:y{1,4}|M{1,4}|d{1,2}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|Q|w{1,2}|'T'|[-/.:,_ T])+"  # yyyy-MM
    r"|[90#.,]+"
    r")"
)
_INTERVAL: Final = re.compile(
    r"[-+]?\d{1,5}(?:\.\d{1,3})?(?: ?(?:microsecond|millisecond|second|minute|hour|day|week|month|quarter|year)s?)?"
    r"|start of (?:day|month|year)|weekday [0-6]|localtime|utc|unixepoch",
    re.IGNORECASE,
)


def _zones() -> frozenset[str]:
    global _known_zones
    if _known_zones is None:
        _known_zones = frozenset(zoneinfo.available_timezones())
    return _known_zones


_known_zones: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The text of a statement or of part of it, with places for its literals."""

    parts: tuple[str | Blank, ...] = ()

    @property
    def blanks(self) -> Iterator[Blank]:
        """The places of the text's literals."""
        return (part for part in self.parts if isinstance(part, Blank))

    def shown(self, texts: Sequence[str | None] = (), dialect: str = "") -> str:
        """Return the text with the literals that are kept, and `?` for the others."""
        return self._written(texts, dialect, lambda blank: BLANK)

    def runnable(self, texts: Sequence[str | None] = (), dialect: str = "") -> str:
        """Return a statement in a form that a database accepts, with a constant of the same type for each hidden
        literal.
        """
        return self._written(texts, dialect, lambda blank: blank.stand_in)

    def _written(self, texts: Sequence[str | None], dialect: str, otherwise: Callable[[Blank], str]) -> str:
        return "".join(
            part if isinstance(part, str) else ", ".join(_items(part, texts, dialect, otherwise)) for part in self.parts
        )


def _items(blank: Blank, texts: Sequence[str | None], dialect: str, otherwise: Callable[[Blank], str]) -> Iterator[str]:
    kept = blank.kept(texts)
    is_bare = blank.use is Use.UNIT and not blank.stand_in.startswith("'")
    written = [text.upper() if is_bare else _literal(text, dialect) for text in sorted(set(kept))]
    yield from dict.fromkeys((*blank.fixed, *written))
    if blank.hides or len(kept) < len(blank.marks):
        yield otherwise(blank)


def _literal(text: str, dialect: str) -> str:
    return str(exp.Literal.string(text).sql(dialect or None))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The column that a literal is compared with. `equal`: whether by equality."""

    table: NamedTable
    column: str
    equal: bool
    folds: bool = False


def number_literals(tree: exp.Expr) -> None:
    """Number every literal and parameter in a tree; copies keep the number."""
    for number, node in enumerate(_literals(tree)):
        node.meta[_META] = number


def _literals(tree: exp.Expr) -> Iterator[Any]:
    for node in tree.find_all(exp.Literal, exp.Placeholder, exp.Parameter, exp.Var):
        if not isinstance(node, exp.Var) or _MARK.fullmatch(node.name):
            yield node


Comparisons = Mapping[int, Comparison]


def comparisons(scopes: Iterable[Any], origin: Callable[[Any, Any], tuple[NamedTable, str] | None]) -> Comparisons:
    """Return literal number -> the column that it is compared with. `origin` returns the underlying column."""
    found: dict[int, Comparison] = {}
    for scope in scopes:
        for node in scope.find_all(*_comparing()):
            for side, others in _sides(node):
                column, folds = _bare(side)
                owner = origin(column, scope) if isinstance(column, exp.Column) else None
                if owner is None:
                    continue
                comparison = Comparison(*owner, equal=isinstance(node, _equalities()), folds=folds)
                for literal in filter(None, map(_constant, others)):
                    if _META in literal.meta:
                        found.setdefault(literal.meta[_META], comparison)
    return found


@functools.cache
def _equalities() -> tuple[Any, ...]:
    return (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Case)


@functools.cache
def _comparing() -> tuple[Any, ...]:
    return (*_equalities(), exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


def _sides(node: Any) -> Iterator[tuple[Any, list[Any]]]:
    if isinstance(node, exp.In):
        yield node.this, node.expressions
    elif isinstance(node, exp.Between):
        yield node.this, [node.args.get("low"), node.args.get("high")]
    elif isinstance(node, exp.Case):
        yield node.this, [each.this for each in node.args.get("ifs") or ()]
    else:
        yield node.this, _members(node.expression)
        yield node.expression, _members(node.this)


def _members(node: Any) -> list[Any]:
    """Return an operand, or the items of `ANY (ARRAY[...])`."""
    inner = node.this if isinstance(node, exp.Any) else node
    inner = inner.unnest() if isinstance(inner, exp.Expression) else inner
    return list(inner.expressions) if isinstance(inner, exp.Array | exp.Tuple) else [node]


def _bare(node: Any) -> tuple[Any, bool]:
    """Return an operand without functions that only change its spelling, and whether they change the case."""
    folds = False
    while isinstance(node, exp.Paren | exp.Lower | exp.Upper | exp.Trim | exp.Cast | exp.Coalesce):
        folds = folds or isinstance(node, exp.Lower | exp.Upper)
        node = node.this
    return node, folds


def _constant(node: Any) -> Any:
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast | exp.Lower | exp.Upper):
        node = node.this
    return node if isinstance(node, exp.Literal | exp.Placeholder | exp.Parameter) else None


@dataclass(frozen=True, slots=True)
class Literals:
    """A statement's literals: the number of each -> its place."""

    places: Mapping[int, Blank]
    dialect: str = field(repr=False)

    @classmethod
    def of(cls, tree: exp.Expr, dialect: str, compared: Comparisons) -> Literals:
        """Return the literals in a tree numbered by `number_literals`."""
        nodes = [node for node in _literals(tree) if _META in node.meta]
        return cls({node.meta[_META]: _place(node, compared.get(node.meta[_META])) for node in nodes}, dialect)

    def shape(self, node: exp.Expr, redact: Callable[[str], str] = str) -> Shape:
        """Return the text of a statement or of part of it, with places for its literals."""
        copy = node.copy()
        root = exp.Paren(this=copy)  # So that a node that is itself a literal can be replaced.
        places: list[Blank] = []

        def put(blank: Blank) -> str:
            places.append(blank)
            return f"x_x_{len(places) - 1}_x"

        for each in list(root.find_all(exp.In)):
            if len(each.expressions) > 1 and all(_constant(item) is not None for item in each.expressions):
                blanks = [self._item(item) for item in each.expressions]
                each.set("expressions", [exp.Literal.string(put(_joined(blanks)))])
        for each in list(_literals(root)):
            number = each.meta.get(_META)
            if number is not None:
                mark = put(self.places[number])
                each.replace(exp.Var(this=mark) if isinstance(each, exp.Var) else exp.Literal.string(mark))
        parts = _merged(self._parts(root.this.sql(self.dialect, comments=False, copy=False), places))
        return Shape(tuple(redact(part) if isinstance(part, str) else part for part in parts))

    def _item(self, item: Any) -> Blank:
        """Return the place of a list item; a kept number includes its sign and cast."""
        literal = _constant(item)
        blank = self.places.get(literal.meta.get(_META, -1), Blank(Use.OTHER, hides=True))
        if not blank.fixed or item is literal:
            return blank
        return replace(blank, fixed=(str(item.sql(self.dialect, comments=False)),))

    def _parts(self, sql: str, places: Sequence[Blank]) -> Iterator[str | Blank]:
        end = 0
        for token in tokens_of(sql, self.dialect):
            if end and token.start > end:
                yield " "
            end = token.end + 1
            mark = _MARK.fullmatch(token.text)
            kind = token.token_type.name
            if mark is not None and int(mark[1]) < len(places):
                place = places[int(mark[1])]
                is_bare = place.use is Use.UNIT and not kind.endswith("STRING")
                yield replace(place, stand_in=place.stand_in.strip("'")) if is_bare else place
            elif kind == "NUMBER":
                yield Blank(Use.OTHER, hides=True, stand_in="1")
            elif kind.endswith("STRING") and token.text.lower() not in UNITS:
                yield Blank(Use.OTHER, hides=True, stand_in=_literal(unmarked(token.text), self.dialect))
            else:
                yield unmarked(sql[token.start : end])


def _merged(parts: Iterable[str | Blank]) -> Iterator[str | Blank]:
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text


def _joined(blanks: Sequence[Blank]) -> Blank:
    """Return the place of a list, based on the places of its items."""
    first = blanks[0]
    return replace(
        first,
        marks=tuple(mark for each in blanks for mark in each.marks),
        fixed=tuple(sorted({text for each in blanks for text in each.fixed})),
        hides=any(each.hides for each in blanks),
    )


_ANY_NUMBER: Final = "1 /* any number */"
_ANY_DATE: Final = "'2000-01-01' /* any date */"
_ANY_TEXT: Final = "'?'"
_ANY_VALUE: Final = "NULL /* any value */"
_BY_TYPE: Final[Mapping[SemanticType, str]] = {
    SemanticType.NUMBER: _ANY_NUMBER,
    SemanticType.TIME: _ANY_DATE,
    SemanticType.STRING: _ANY_TEXT,
    SemanticType.BOOLEAN: "TRUE /* or FALSE */",
}


@functools.cache
def _positions() -> tuple[Any, ...]:
    """The places in which a number is a position, a limit, a size or a style."""
    return (
        exp.Group, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch, exp.Cube, exp.Rollup, exp.GroupingSets,
        exp.DataTypeParam, exp.WindowSpec, exp.TableSample, exp.Convert,
    )  # fmt: skip


@functools.cache
def _shifts() -> tuple[Any, ...]:
    return (
        exp.Interval, exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimestampAdd, exp.TimestampSub,
        exp.TimeAdd, exp.TimeSub, exp.TsOrDsAdd, exp.AddMonths,
    )  # fmt: skip


@functools.cache
def _formatted() -> tuple[Any, ...]:
    return (
        exp.TimeToStr, exp.StrToTime, exp.StrToDate, exp.StrToUnix, exp.UnixToStr, exp.TsOrDsToDate, exp.ToChar,
        exp.NumberToStr, exp.ParseTime, exp.ParseDatetime,
    )  # fmt: skip


@functools.cache
def _times() -> tuple[Any, ...]:
    return (
        exp.Date, exp.Datetime, exp.TimestampTrunc, exp.DateTrunc, exp.TsOrDsToDate, exp.StrToTime, exp.StrToDate,
    )  # fmt: skip


_DATE_FUNCTIONS: Final = frozenset({"date", "datetime", "time", "julianday"})
_TIME_FUNCTIONS: Final = _DATE_FUNCTIONS | {
    "strftime", "to_char", "to_date", "to_timestamp", "date_format", "format_date", "format_datetime",
    "format_timestamp", "parse_date", "parse_datetime", "parse_timestamp", "str_to_date", "strptime", "try_strptime",
}  # fmt: skip
_UNIT_ARGUMENTS: Final = frozenset({
    "date_part", "date_trunc", "datetrunc", "dateadd", "date_add", "datediff", "date_diff", "timestampdiff",
    "timestamp_trunc", "trunc",
})  # fmt: skip


def _place(node: Any, compared: Comparison | None) -> Blank:
    parent, key = _around(node)
    if isinstance(node, exp.Literal) and not _MARK.fullmatch(node.name):
        return _number(node, parent, compared)
    mark = _MARK.fullmatch(node.name) if isinstance(node, exp.Literal | exp.Var) else None
    use = _use(node, parent, key, compared)
    marks = () if mark is None else (int(mark[1]),)
    blank = Blank(use, marks, hides=not marks, stand_in=_stand_in(node, parent, use, compared))
    if compared is None or use is not Use.VALUE:
        return blank
    return replace(blank, table=compared.table, column=compared.column, folds=compared.folds)


def _around(node: Any) -> tuple[Any, str]:
    parent: Any
    parent, key = node.parent, node.arg_key
    while isinstance(parent, exp.Paren | exp.Neg):
        parent, key = parent.parent, parent.arg_key
    return parent, key or ""


def _number(node: Any, parent: Any, compared: Comparison | None) -> Blank:
    """Return the place of a number, or of a string that the parser created from a number or a date part."""
    text = str(node.this)
    if node.is_string and text.lower() in UNITS:
        if compared is None and not isinstance(parent, _comparing()):
            return Blank(Use.UNIT, fixed=(f"'{text}'",))
        if compared is not None and compared.table.has_value(compared.column, text, folds=compared.folds):
            return Blank(Use.VALUE, fixed=(f"'{text}'",))
        return Blank(Use.VALUE, hides=True, stand_in=_ANY_TEXT)
    if _number_stays(text, parent, compared):
        return Blank(Use.OTHER, fixed=(f"'{text}'" if node.is_string else text,))
    stand_in = _BY_TYPE[compared.table.type_of(compared.column)] if compared is not None else _ANY_NUMBER
    return Blank(Use.OTHER, hides=True, stand_in=_ANY_NUMBER if stand_in == _ANY_TEXT else stand_in)


def _number_stays(text: str, parent: Any, compared: Comparison | None) -> bool:
    if isinstance(parent, _positions()):
        return len(text) <= _LONGEST_POSITION
    if isinstance(parent, _shifts()):
        return _SMALL.fullmatch(text) is not None or (text.isdecimal() and len(text) <= 4)
    if compared is not None and compared.equal:
        is_flag = compared.table.type_of(compared.column) is SemanticType.BOOLEAN and text in ("0", "1")
        return text == "0" or is_flag or compared.table.has_value(compared.column, text)
    if compared is not None or isinstance(parent, _comparing()):
        return text in ("0", "1", "100")
    return _SMALL.fullmatch(text) is not None


_LONGEST_POSITION: Final = 6
_SMALL: Final = re.compile(r"\d{1,3}|10+|1440|3600|86400|\d{0,3}\.\d{1,3}")
"""Numbers in formulas: factors, digits to round to, and lengths of texts and periods."""


def _use(node: Any, parent: Any, key: str, compared: Comparison | None) -> Use:
    if isinstance(node, exp.Var) or isinstance(parent, exp.Extract):
        return Use.UNIT
    if compared is not None:
        return Use.VALUE if compared.equal else Use.OTHER
    name = parent.name.lower() if isinstance(parent, exp.Anonymous) else ""
    if isinstance(parent, exp.Interval) or (isinstance(parent, exp.Cast) and parent.is_type("interval")):
        return Use.INTERVAL
    if isinstance(parent, exp.AtTimeZone | exp.FromTimeZone | exp.ConvertTimezone | exp.CurrentDate):
        return Use.ZONE
    if name in ("timezone", "convert_timezone", "convert_tz") and parent.expressions[0] is node:
        return Use.ZONE
    if key == "format" and isinstance(parent, _formatted()):
        return Use.FORMAT
    if name in _TIME_FUNCTIONS or isinstance(parent, exp.Date | exp.Datetime | exp.Time):
        first = next(iter(parent.expressions), None) if name else parent.this
        if name == "strftime" or first is not node:
            return Use.FORMAT if name and name not in _DATE_FUNCTIONS else Use.INTERVAL
    if name in _UNIT_ARGUMENTS and parent.expressions[0] is node:
        return Use.UNIT
    return Use.OTHER


_BY_CAST: Final[Mapping[str, str]] = {
    "DATE": _ANY_DATE, "DATETIME": _ANY_DATE, "TIMESTAMP": _ANY_DATE, "TIMESTAMPTZ": _ANY_DATE, "DATE32": _ANY_DATE,
    "TIMESTAMPNTZ": _ANY_DATE, "TIMESTAMPLTZ": _ANY_DATE, "TIME": "'00:00:00'", "INTERVAL": "'1 day'",
    "UUID": "'00000000-0000-0000-0000-000000000000'", "JSON": "'{}'", "JSONB": "'{}'", "BOOLEAN": "'true'",
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT", "DECIMAL", "DOUBLE", "FLOAT"), "'1'"),
}  # fmt: skip


def _stand_in(node: Any, parent: Any, use: Use, compared: Comparison | None) -> str:
    """Return SQL with the type that a literal's place requires."""
    if use is Use.UNIT:
        return "'month'"
    if use is Use.INTERVAL:
        has_unit = isinstance(parent, exp.Interval) and parent.args.get("unit") is not None
        return "'1'" if has_unit else "'1 day'"
    if use is Use.ZONE:
        return "'UTC'"
    if isinstance(parent, exp.Cast):
        return _BY_CAST.get(parent.to.this.name if parent.to is not None else "", _ANY_TEXT)
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return "100"
    if isinstance(parent, exp.Like | exp.ILike):
        return "'%'"
    if type(parent).__name__.startswith("Regexp") and node.arg_key == "expression":
        return "'.*'"
    if compared is not None:
        return _BY_TYPE[compared.table.type_of(compared.column)]
    return _ANY_TEXT if use is Use.FORMAT else _unknown(node, parent)


def _unknown(node: Any, parent: Any) -> str:
    """Return the placeholder for a string or parameter whose type would be known only from its value."""
    is_time = isinstance(parent, _times())
    if is_time:
        return _ANY_DATE
    is_text = isinstance(node, exp.Literal) and not node.name.startswith(_PARAMETER)
    return _ANY_TEXT if is_text else _ANY_VALUE
