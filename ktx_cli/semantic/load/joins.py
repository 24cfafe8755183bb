"""Read declared joins, and determine whether two joins are the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from ktx_cli.core import ConfigError
from ktx_cli.semantic.load.entries import APPROVALS, Entry, read_approval
from ktx_cli.semantic.manifest import plain_on, quoted
from ktx_cli.semantic.model import Condition, Join, Relationship
from ktx_cli.warehouses import dialect_named, parse_name

JOIN_KEYS = frozenset(("to", "on", "relationship", "alias", "source", *APPROVALS))
RELATIONSHIPS = tuple(relationship.value for relationship in Relationship)
PROVENANCES = ("formal", "inferred", "manual")

Key = tuple[str, str, str | None]
"""The identity of a source's join: `to`, `on` with single spaces, and the alias."""


def join_key(join: Join) -> Key:
    """Return the key that identifies a join within its source."""
    return join.to, plain_on(join.on), join.alias


Meaning = tuple[str, frozenset[tuple[str, str]], frozenset[Condition]]
"""The meaning of a join, however its `on` is written: the lower-case other source, pairs and conditions."""


def meaning(join: Join) -> Meaning:
    """Return the meaning of a source's join."""
    return join.to.casefold(), frozenset(join.pairs), frozenset(join.conditions)


_TURNED: Final = {
    Relationship.MANY_TO_ONE: Relationship.ONE_TO_MANY,
    Relationship.ONE_TO_MANY: Relationship.MANY_TO_ONE,
}


def mirrored(join: Join, source: str) -> Join:
    """Return a source's join as the other source would declare it."""
    pairs = tuple((other, own) for own, other in join.pairs)
    conditions = tuple(replace(each, own=not each.own) for each in join.conditions)
    relationship = _TURNED.get(join.relationship, join.relationship)
    on = on_text(pairs, source, conditions)
    return replace(join, to=source, on=on, pairs=pairs, relationship=relationship, conditions=conditions, mirrored=True)


def with_sides(item: Mapping[str, Any], join: Join) -> dict[str, Any]:
    """Return a join entry with the sides of a `mirrored` join."""
    return {**item, "to": join.to, "on": join.on, "relationship": join.relationship.value}


def on_text(pairs: Iterable[tuple[str, str]], to: str, conditions: Iterable[Condition] = ()) -> str:
    """Return the `on` of a join to a source in ktx's format."""
    other = quoted(to)
    parts = [f"{quoted(own)} = {other}.{quoted(theirs)}" for own, theirs in pairs]
    for each in conditions:
        side = "" if each.own else f"{other}."
        parts.append(f"{side}{quoted(each.column)} = {_constant_text(each.value)}")
    return " AND ".join(parts)


def _constant_text(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_join(entry: Entry, own: str, dialect: str, columns: Collection[str]) -> Join | None:
    """Return a join, or None if it has errors.

    `own` is the source that declares it, and `columns` are its columns.
    """
    entry.check_keys(JOIN_KEYS)
    read_approval(entry)
    to, on, alias = entry.required("to"), entry.required("on"), entry.text("alias")
    relationship = _relationship(entry)
    provenance = entry.word("source", PROVENANCES)
    if entry.failed or relationship is None:
        return None
    try:
        parts = parse_on(on, Sides(own, to, alias, dialect, columns))
    except ConfigError as error:
        what = f"the `on` of a join from `{own}` to `{to}` is not supported ({plain_on(on)}): {error.message}"
        entry.error("join_on", what, "on", hint=error.hint)
        return None
    return Join(to, on, parts.pairs, relationship, alias, parts.conditions, provenance, entry.place)


def read_plain_join(item: Mapping[str, Any], own: str, columns: Collection[str]) -> Join | None:
    """Return a join without an alias as a source's entry contains it, or None if it has an alias or is invalid.

    `columns` are those of the source; names are quoted as ktx quotes them, in any dialect.
    """
    to, on, relationship = item.get("to"), item.get("on"), item.get("relationship")
    if item.get("alias") is not None or not isinstance(to, str) or not isinstance(on, str):
        return None
    try:
        parts = parse_on(on, Sides(own, to, None, "", columns))
        return Join(to, on, parts.pairs, Relationship(str(relationship)), None, parts.conditions)
    except (ConfigError, ValueError):
        return None


def _relationship(entry: Entry) -> Relationship | None:
    word = entry.word("relationship", RELATIONSHIPS)
    if word is None and not entry.failed:
        hint = f"add relationship: {'|'.join(RELATIONSHIPS)}, from this source to the other"
        entry.error("missing", f"{entry.what} has no `relationship`", hint=hint)
    return Relationship(word) if word else None


OWN, OTHER, EITHER = "own", "other", "either"
_CONSTANTS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Sides:
    """The names of the two sides of a join: `own` declares it and has `columns`; `dialect` is that of its SQL."""

    own: str
    to: str
    alias: str | None
    dialect: str
    columns: Collection[str] = ()

    def side_of(self, qualifier: str) -> str | None:
        """Return the side that a qualifier names, `EITHER` if both have the name, or None if neither has it."""
        for name in (qualifier, None):
            own, to, alias = (side == name if name else _alike(side, qualifier) for side in self._names)
            if alias:
                return OTHER
            if own and to:
                return EITHER
            if own or to:
                return OWN if own else OTHER
        return None

    @property
    def _names(self) -> tuple[str, str, str | None]:
        return self.own, self.to, self.alias


def _alike(one: str | None, other: str) -> bool:
    return one is not None and one.casefold() == other.casefold()


@dataclass(frozen=True, slots=True)
class OnParts:
    """The parts of an `on`; `pairs`: (own column, the other's); `conditions`: constants."""

    pairs: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column with its side, or a constant, whose `side` is None."""

    side: str | None
    value: Any


def parse_on(on: str, sides: Sides) -> OnParts:
    """Parse an `on`. Raises `ConfigError` if it contains anything except equalities."""
    written = tokens(on, sides.dialect)
    if not written:
        _refuse("only equalities of columns and constants, combined with AND, are supported", sides)
    reader = _Reader(written, sides)
    pairs: list[tuple[str, str]] = []
    conditions: list[Condition] = []
    for left, right in reader.equalities():
        if left.side is None or right.side is None:
            conditions.append(_condition(left, right, sides))
        else:
            pairs.append(_pair(left, right, sides))
    if not pairs:
        _refuse("it does not compare columns of the two sides", sides)
    return OnParts(tuple(dict.fromkeys(pairs)), tuple(dict.fromkeys(conditions)))


class _Reader:
    """Reads the tokens from first to last; only brackets nest, and they are counted."""

    def __init__(self, of: Sequence[Token], sides: Sides) -> None:
        self._tokens, self._sides, self._at, self._open = of, sides, 0, 0

    def equalities(self) -> list[tuple[_Operand, _Operand]]:
        result: list[tuple[_Operand, _Operand]] = []
        while True:
            self._brackets("(", 1)
            left = self._operand()
            if not self._take_mark("="):
                _refuse("only equalities (`=`) are supported", self._sides)
            result.append((left, self._operand()))
            self._brackets(")", -1)
            if self._at == len(self._tokens):
                break
            if not self._take_word("and"):
                _refuse("only equalities combined with AND are supported", self._sides)
        if self._open:
            _refuse("a parenthesis is not closed", self._sides)
        return result

    def _brackets(self, mark: str, by: int) -> None:
        while self._take_mark(mark):
            self._open += by
            if self._open < 0:
                _refuse("unmatched closing parenthesis", self._sides)

    def _operand(self) -> _Operand:
        token = self._next()
        if token.kind not in (NAME, MARK):
            return _Operand(None, token.value)
        if token.kind == MARK:
            _refuse(f"a column or a constant is missing before `{token.value}`", self._sides)
        if not token.quote and token.value.lower() in (*_CONSTANTS, "null") and not self._is_name(token):
            return self._constant(token.value.lower())
        parts = [token]
        while self._take_mark("."):
            parts.append(self._next())
        if any(part.kind != NAME for part in parts):
            _refuse("a name is missing after a dot", self._sides)
        return self._column(parts)

    def _is_name(self, token: Token) -> bool:
        """Return whether a word is a name although it could be a constant: names are only quoted if necessary."""
        return self._is_mark(".") or token.value in self._sides.columns

    def _constant(self, word: str) -> _Operand:
        if word == "null":
            _refuse("comparisons with NULL are never true", self._sides)
        return _Operand(None, _CONSTANTS[word])

    def _column(self, parts: Sequence[Token]) -> _Operand:
        last = parts[-1]
        if len(parts) == 1:
            is_text = last.quote == '"' and dialect_named(self._sides.dialect).texts_in_double_quotes
            return _Operand(None if is_text and last.value not in self._sides.columns else OWN, last.value)
        qualifier = ".".join(part.value for part in parts[:-1])
        side = self._sides.side_of(qualifier)
        if side is None:
            called = f"`{self._sides.own}` and `{self._sides.alias or self._sides.to}`"
            _refuse(f"`{qualifier}` is not one of the two sides, {called}", self._sides)
        return _Operand(side, last.value)

    def _next(self) -> Token:
        if self._at == len(self._tokens):
            _refuse("it is incomplete", self._sides)
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_mark(self, mark: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == Token(MARK, mark)

    def _take_mark(self, mark: str) -> bool:
        present = self._is_mark(mark)
        self._at += present
        return present

    def _take_word(self, word: str) -> bool:
        token = self._tokens[self._at]
        present = token.kind == NAME and not token.quote and token.value.lower() == word
        self._at += present
        return present


def _pair(left: _Operand, right: _Operand, sides: Sides) -> tuple[str, str]:
    """Return (own column, other column); in a self-join, the bare column, or else the first, is own."""
    if left.side == right.side == OWN or left.side == right.side == OTHER:
        which = sides.own if left.side == OWN else sides.alias or sides.to
        _refuse(f"`{left.value}` and `{right.value}` are both columns of `{which}`", sides)
    if right.side == OWN or left.side == OTHER:
        return str(right.value), str(left.value)
    return str(left.value), str(right.value)


def _condition(left: _Operand, right: _Operand, sides: Sides) -> Condition:
    column, constant = (left, right) if left.side is not None else (right, left)
    if column.side is None:
        _refuse("it compares two constants", sides)
    return Condition(column.side == OWN, str(column.value), constant.value)


def _refuse(why: str, sides: Sides) -> NoReturn:
    example = f'on: "its_column = {sides.alias or sides.to}.column"'
    raise ConfigError(why, hint=f"write {example}; for anything else, define a source with `sql:`")


NAME, TEXT, NUMBER, MARK = "name", "text", "number", "mark"

_IDENTIFIER = r"""
    (?P<double>"(?:[^"]|"")+") | (?P<back>`(?:[^`]|``)+`) | (?P<bracket>\[(?:[^\]]|\]\])+\])
"""
_TOKEN = r"""\s*(?:
    (?P<word>[^\W\d][\w$#@]*) | {identifier} | {text} | (?P<number>-?\d+(?:\.\d+)?(?!\w)) | (?P<mark>[.=()])
)"""
_PLAIN_TEXT = r"(?P<text>'(?:[^']|'')*')"
_ESCAPED_TEXT = r"(?P<text>'(?:[^'\\]|''|\\.)*')"
_FLAGS = re.VERBOSE | re.DOTALL
_TOKENS = re.compile(_TOKEN.format(identifier=_IDENTIFIER, text=_PLAIN_TEXT), _FLAGS)
_ESCAPED_TOKENS = re.compile(_TOKEN.format(identifier=_IDENTIFIER, text=_ESCAPED_TEXT), _FLAGS)


@dataclass(frozen=True, slots=True)
class Token:
    """A name, a text, a number or a symbol (`kind`); `value` has no quotes, and `quote` is the quote around a name."""

    kind: str
    value: Any
    quote: str = ""


def tokens(text: str, dialect: str) -> list[Token] | None:
    """Return the tokens of names, constants and equalities, or None if the text contains anything else."""
    escaped = dialect_named(dialect).escapes_in_texts
    pattern = _ESCAPED_TOKENS if escaped else _TOKENS
    result: list[Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = pattern.match(text, position, end)
        if match is None:
            return None
        result.append(_token(match, escaped=escaped))
        position = match.end()
    return result


def _token(match: re.Match[str], *, escaped: bool) -> Token:
    kind, text = match.lastgroup or "", match[match.lastgroup or 0]
    if kind == "word":
        return Token(NAME, text)
    if kind == "mark":
        return Token(MARK, text)
    if kind == "number":
        return Token(NUMBER, float(text) if "." in text else int(text))
    closing = text[-1]
    value = text[1:-1].replace(closing * 2, closing)
    if kind == "text":
        return Token(TEXT, re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) if escaped else value)
    return Token(NAME, value, text[0])


def table_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name, outermost first, like `parse_name` but also in backticks or brackets.

    A name wholly in backticks is split at its dots, as BigQuery does. Raises `ConfigError`.
    """
    stripped = text.strip()
    try:
        if not stripped.startswith(("`", "[")) and "`" not in stripped and ".[" not in stripped:
            return parse_name(stripped)
        whole = re.fullmatch(r"`([^`]+)`", stripped)
        parts = tuple(whole[1].split(".")) if whole else _quoted_parts(stripped)
    except ConfigError:
        parts = ()
    if not parts or not all(parts):
        raise ConfigError(
            f"`{text}` is not a table name",
            hint='write schema.table; quote names with special characters: public."a.b"',
        )
    return parts


def _quoted_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a name with backticks or brackets; none if it is not a name."""
    part = re.compile(_IDENTIFIER + r"| (?P<plain>[^.\"`\[\]]+)", re.VERBOSE)
    result: list[str] = []
    position = 0
    while (match := part.match(text, position)) is not None:
        piece = match[0]
        result.append(piece if match.lastgroup == "plain" else piece[1:-1].replace(piece[-1] * 2, piece[-1]))
        if match.end() == len(text):
            return tuple(result)
        if text[match.end()] != ".":
            return ()
        position = match.end() + 1
    return ()
