"""Parse DAX expressions into trees.

The parser reads the expressions of measures and calculated columns: literals, references to columns, measures, tables
and variables, function calls, operators, row lists in braces, and `VAR ... RETURN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from ktx_cli.core import one_line
from ktx_cli.semantic.interchange.report import UnresolvedError

MAX_DEPTH: Final = 40
"""The maximum depth of nested parentheses and functions."""

MAX_LEVELS: Final = 120
"""The maximum depth of a tree, in which each operator is a level."""

LONGEST: Final = 20_000
"""The maximum length of an expression, in characters."""


class DaxError(UnresolvedError):
    """The text is not a DAX expression that ktx can read."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number. `text`: as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    value: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a measure if `table` is None or the home table of the measure."""

    table: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Name:
    """A table or a variable. `quoted`: whether the name is in quotes, and therefore a table."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. `name`: in capital letters. A missing argument is None."""

    name: str
    arguments: tuple[Dax | None, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `+` or `NOT`, with its operand."""

    operator: str
    operand: Dax


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator with two operands: one of `+ - * / ^ & = == <> < <= > >= && || IN`."""

    operator: str
    left: Dax
    right: Dax


@dataclass(frozen=True, slots=True)
class Rows:
    """A table in braces; each row has one or several values."""

    rows: tuple[tuple[Dax, ...], ...]


@dataclass(frozen=True, slots=True)
class Let:
    """`VAR name = value ... RETURN body`."""

    variables: tuple[tuple[str, Dax], ...]
    body: Dax


Dax = Number | Text | Column | Name | Call | Unary | Binary | Rows | Let
"""A DAX expression."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_TOKENS: Final = re.compile(
    r"(?P<blank>\s+|//[^\n]*|--[^\n]*|/\*.*?\*/)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<text>"(?:[^"]|"")*")'
    r"|(?P<table>'(?:[^']|'')*')"
    r"|(?P<column>\[(?:[^\]]|\]\])*\])"
    r"|(?P<name>[^\W\d][\w.]*)"
    r"|(?P<operator>&&|\|\||==|<>|<=|>=|[-+*/^&=<>(),;{}])",
    re.DOTALL,
)
_COMPARISONS: Final = ("=", "==", "<>", "<", "<=", ">", ">=")


def parse_dax(text: str) -> Dax:
    """Parse an expression. Raises `DaxError` for anything that is not one."""
    if len(text) > LONGEST:
        raise DaxError(f"the expression is longer than {LONGEST:,} characters")
    return _Parser(text).whole()


def children(node: Dax) -> Iterator[Dax]:
    """Yield the direct parts of an expression."""
    if isinstance(node, Call):
        yield from (each for each in node.arguments if each is not None)
    elif isinstance(node, Unary):
        yield node.operand
    elif isinstance(node, Binary):
        yield from (node.left, node.right)
    elif isinstance(node, Rows):
        yield from (value for row in node.rows for value in row)
    elif isinstance(node, Let):
        yield from (value for _, value in node.variables)
        yield node.body


def walk(node: Dax) -> Iterator[Dax]:
    """Yield an expression and all its parts."""
    yield node
    for child in children(node):
        yield from walk(child)


def _tokens(text: str) -> list[_Token]:
    result: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            raise DaxError(f"`{one_line(text[at:], 20)}` is not valid DAX")
        if found.lastgroup != "blank":
            result.append(_Token(found.lastgroup, found[0], at))
        at = found.end()
    return result


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at, self._depth = text, _tokens(text), 0, 0

    def whole(self) -> Dax:
        if not self._tokens:
            raise DaxError("the expression is empty")
        result = self._expression()
        if self._at < len(self._tokens):
            self._refuse()
        rest = [(result, 1)]
        while rest:
            node, level = rest.pop()
            if level > MAX_LEVELS:
                raise DaxError(f"the DAX expression has more than {MAX_LEVELS} levels")
            rest += ((child, level + 1) for child in children(node))
        return result

    def _peek(self) -> str:
        """Return the current operator or word in capital letters, or an empty string for anything else."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        return token.text.upper() if token is not None and token.kind in ("operator", "name") else ""

    def _take(self, *wanted: str) -> str:
        """Return the current operator or word and move on if it is one of `wanted`, otherwise an empty string."""
        found = self._peek()
        if found and found in wanted:
            self._at += 1
            return found
        return ""

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            self._refuse(f", expected `{wanted}`")

    def _refuse(self, expected: str = "") -> NoReturn:
        if self._at >= len(self._tokens):
            raise DaxError(f"the DAX expression ends too early{expected}")
        start = self._tokens[self._at].start
        raise DaxError(f"unexpected `{one_line(self._text[start:], 20)}` in the DAX expression{expected}")

    def _expression(self) -> Dax:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DaxError(f"the DAX expression is nested more than {MAX_DEPTH} levels deep")
        result = self._let() if self._peek() == "VAR" else self._or()
        self._depth -= 1
        return result

    def _let(self) -> Dax:
        variables: list[tuple[str, Dax]] = []
        while self._take("VAR"):
            token = self._tokens[self._at] if self._at < len(self._tokens) else None
            if token is None or token.kind != "name":
                self._refuse(", expected the name of a variable")
            self._at += 1
            self._expect("=")
            variables.append((token.text, self._expression()))
        self._expect("RETURN")
        return Let(tuple(variables), self._expression())

    def _binary(self, operators: tuple[str, ...], below: Callable[[], Dax]) -> Dax:
        left = below()
        while operator := self._take(*operators):
            left = Binary(operator, left, below())
        return left

    def _or(self) -> Dax:
        return self._binary(("||",), self._and)

    def _and(self) -> Dax:
        return self._binary(("&&",), self._not)

    def _not(self) -> Dax:
        if self._peek() == "NOT" and not self._is_call():
            self._at += 1
            return Unary("NOT", self._nested(self._not))
        return self._comparison()

    def _nested(self, below: Callable[[], Dax]) -> Dax:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DaxError(f"the DAX expression is nested more than {MAX_DEPTH} levels deep")
        result = below()
        self._depth -= 1
        return result

    def _is_call(self) -> bool:
        """Return whether the current word is followed by an opening parenthesis."""
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        return after is not None and after.text == "("

    def _comparison(self) -> Dax:
        left = self._concatenated()
        while True:
            if self._peek() == "NOT" and self._at + 1 < len(self._tokens) and (
                self._tokens[self._at + 1].text.upper() == "IN"
            ):  # fmt: skip
                self._at += 2
                left = Unary("NOT", Binary("IN", left, self._concatenated()))
            elif operator := self._take(*_COMPARISONS, "IN"):
                left = Binary(operator, left, self._concatenated())
            else:
                return left

    def _concatenated(self) -> Dax:
        return self._binary(("&",), self._sum)

    def _sum(self) -> Dax:
        return self._binary(("+", "-"), self._product)

    def _product(self) -> Dax:
        return self._binary(("*", "/"), self._signed)

    def _signed(self) -> Dax:
        if operator := self._take("-", "+"):
            return Unary(operator, self._nested(self._signed))
        return self._power()

    def _power(self) -> Dax:
        base = self._primary()
        if self._take("^"):
            return Binary("^", base, self._nested(self._signed))
        return base

    def _primary(self) -> Dax:
        if self._at >= len(self._tokens):
            self._refuse()
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "number":
            return Number(token.text)
        if token.kind == "text":
            return Text(token.text[1:-1].replace('""', '"'))
        if token.kind == "column":
            return Column(None, _bracketed(token.text))
        if token.kind == "table":
            return self._of_table(token.text[1:-1].replace("''", "'"), quoted=True)
        if token.kind == "name":
            return self._call(token.text) if self._peek() == "(" else self._of_table(token.text, quoted=False)
        if token.text == "(":
            result = self._expression()
            if self._peek() in (",", ";"):
                self._refuse(": ktx does not support lists of several columns")
            self._expect(")")
            return result
        if token.text == "{":
            return self._rows()
        self._at -= 1
        return self._refuse()

    def _of_table(self, table: str, *, quoted: bool) -> Dax:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is not None and token.kind == "column":
            self._at += 1
            return Column(table, _bracketed(token.text))
        return Name(table, quoted)

    def _call(self, name: str) -> Dax:
        self._expect("(")
        arguments: list[Dax | None] = []
        while not self._take(")"):
            if self._take(",", ";"):
                arguments.append(None)
                continue
            arguments.append(self._expression())
            if not self._take(",", ";"):
                self._expect(")")
                break
        return Call(name.upper(), tuple(arguments))

    def _rows(self) -> Dax:
        rows: list[tuple[Dax, ...]] = []
        while not self._take("}"):
            if self._peek() == "(":
                rows.append(self._row())
            else:
                rows.append((self._expression(),))
            if not self._take(",", ";"):
                self._expect("}")
                break
        return Rows(tuple(rows))

    def _row(self) -> tuple[Dax, ...]:
        self._expect("(")
        values = [self._expression()]
        while self._take(",", ";"):
            values.append(self._expression())
        self._expect(")")
        return tuple(values)


def _bracketed(text: str) -> str:
    return text[1:-1].replace("]]", "]")
