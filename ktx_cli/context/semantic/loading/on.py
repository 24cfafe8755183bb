"""The `on` of a join: an AND of equalities between a column of each side, and of constants a column must have.

    on         = equality { AND equality }            round brackets may stand around any of it
    equality   = operand "=" operand                  either side first
    operand    = column | constant
    column     = [ qualifier "." ] name               own side bare or by its source; the other by `to` or the alias
    constant   = 'text' | number | TRUE | FALSE      the latter where no own column has that name

Everything else (functions, casts, other comparisons, OR) is refused. It is a parser of its own because a model has
thousands of these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from ktx_cli.context.semantic.loading.names import MARK, NAME, TEXTS_IN_DOUBLE_QUOTES, Token, tokens
from ktx_cli.context.semantic.model import Condition
from ktx_cli.core.errors import ConfigError

OWN, OTHER, EITHER = "own", "other", "either"
_CONSTANTS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Sides:
    """What the two sides of a join are called: `own` declares it; `columns` are its columns, `dialect` its SQL's."""

    own: str
    to: str
    alias: str | None
    dialect: str
    columns: Collection[str] = ()

    def side_of(self, qualifier: str) -> str | None:
        """Return which side a qualifier is, `EITHER` where both have the name, None where neither has."""
        for name in (qualifier, None):
            own, to, alias = (each == name if name else _alike(each, qualifier) for each in self._names)
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
    """`pairs`: (own column, the other's); `conditions`: constants."""

    pairs: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column with its side, or a constant (`side` None)."""

    side: str | None
    value: Any


def parse_on(on: str, sides: Sides) -> OnParts:
    """Return what an `on` says; `ConfigError` where it says anything but equalities."""
    found = tokens(on, sides.dialect)
    if not found:
        _refuse("it may hold equalities of columns and constants alone, joined by AND", sides)
    reader = _Reader(found, sides)
    pairs: list[tuple[str, str]] = []
    conditions: list[Condition] = []
    for left, right in reader.equalities():
        if left.side is None or right.side is None:
            conditions.append(_condition(left, right, sides))
        else:
            pairs.append(_pair(left, right, sides))
    if not pairs:
        _refuse("it compares no columns of the two sides", sides)
    return OnParts(tuple(dict.fromkeys(pairs)), tuple(dict.fromkeys(conditions)))


class _Reader:
    """Reads the tokens from the first to the last; nothing is nested but brackets, which are counted."""

    def __init__(self, found: Sequence[Token], sides: Sides) -> None:
        self._tokens, self._sides, self._at, self._open = found, sides, 0, 0

    def equalities(self) -> list[tuple[_Operand, _Operand]]:
        found: list[tuple[_Operand, _Operand]] = []
        while True:
            self._brackets("(", 1)
            left = self._operand()
            if not self._take_mark("="):
                _refuse("it may hold equalities (`=`) alone", self._sides)
            found.append((left, self._operand()))
            self._brackets(")", -1)
            if self._at == len(self._tokens):
                break
            if not self._take_word("and"):
                _refuse("it may hold equalities joined by AND alone", self._sides)
        if self._open:
            _refuse("a bracket is not closed", self._sides)
        return found

    def _brackets(self, mark: str, by: int) -> None:
        while self._take_mark(mark):
            self._open += by
            if self._open < 0:
                _refuse("a bracket was never opened", self._sides)

    def _operand(self) -> _Operand:
        token = self._next()
        if token.kind not in (NAME, MARK):
            return _Operand(None, token.value)
        if token.kind == MARK:
            _refuse(f"a column or a constant must stand before `{token.value}`", self._sides)
        if not token.quote and token.value.lower() in (*_CONSTANTS, "null") and not self._is_name(token):
            return self._constant(token.value.lower())
        parts = [token]
        while self._take_mark("."):
            parts.append(self._next())
        if any(part.kind != NAME for part in parts):
            _refuse("a name must stand behind each dot", self._sides)
        return self._column(parts)

    def _is_name(self, token: Token) -> bool:
        """Say whether a word is a name though it could be a constant: names are quoted only where they are no words."""
        return self._is_mark(".") or token.value in self._sides.columns

    def _constant(self, word: str) -> _Operand:
        if word == "null":
            _refuse("nothing is equal to NULL", self._sides)
        return _Operand(None, _CONSTANTS[word])

    def _column(self, parts: Sequence[Token]) -> _Operand:
        last = parts[-1]
        if len(parts) == 1:
            is_text = last.quote == '"' and self._sides.dialect in TEXTS_IN_DOUBLE_QUOTES
            return _Operand(None if is_text and last.value not in self._sides.columns else OWN, last.value)
        qualifier = ".".join(part.value for part in parts[:-1])
        side = self._sides.side_of(qualifier)
        if side is None:
            called = f"`{self._sides.own}` and `{self._sides.alias or self._sides.to}`"
            _refuse(f"`{qualifier}` is neither of the two sides, {called}", self._sides)
        return _Operand(side, last.value)

    def _next(self) -> Token:
        if self._at == len(self._tokens):
            _refuse("it ends too early", self._sides)
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_mark(self, mark: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == Token(MARK, mark)

    def _take_mark(self, mark: str) -> bool:
        found = self._is_mark(mark)
        self._at += found
        return found

    def _take_word(self, word: str) -> bool:
        token = self._tokens[self._at]
        found = token.kind == NAME and not token.quote and token.value.lower() == word
        self._at += found
        return found


def _pair(left: _Operand, right: _Operand, sides: Sides) -> tuple[str, str]:
    """Return (own column, other column); in a join of a source with itself the bare column, else the first, is own."""
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
    raise ConfigError(why, hint=f"write {example}; what needs more is a source with `sql:`")
