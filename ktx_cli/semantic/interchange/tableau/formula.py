"""Parse the formulas of calculated fields, and write them with other names of fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ktx_cli.semantic.interchange.report import UnresolvedError


class FormulaError(UnresolvedError):
    """A formula that is not valid; the message names the place in it."""

    code = "config"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant. `kind` is `integer`, `real`, `string`, `boolean`, `null` or `date`; dates are kept as written."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """A reference to a field or parameter, such as `[Sales]` or `[Parameters].[Top N]`."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, whose name is in upper case."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `NOT x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands with an operator. `==` is read as `=`, and `!=` as `<>`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Membership:
    """`x IN (a, b)`, or `x IN [Set]` with the set as the only option and `of_set`."""

    value: Node
    options: tuple[Node, ...]
    of_set: bool = False


@dataclass(frozen=True, slots=True)
class Branches:
    """`IF` (without `subject`) or `CASE`: pairs of condition or value, and result."""

    subject: Node | None
    pairs: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Lod:
    """A level of detail expression: `FIXED`, `INCLUDE` or `EXCLUDE`, its dimensions and its aggregate."""

    kind: str
    dimensions: tuple[Node, ...]
    value: Node


Node = Constant | Field | Call | Unary | Binary | Membership | Branches | Lod

LONGEST: Final = 20_000
"""Maximum length of a formula, in characters."""

_DEEPEST: Final = 100
_NESTED: Final = 40
_MOST: Final = 2_000
_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:\s|//[^\r\n]*|/\*.*?\*/)+)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<date>\#[^#\r\n]{1,40}\#)
  | (?P<field>\[(?:[^\]]|\]\])+\])
  | (?P<word>[^\W\d]\w*)
  | (?P<mark><>|<=|>=|!=|==|[-+*/%^=<>(),{}:.])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KINDS: Final = ("FIXED", "INCLUDE", "EXCLUDE")
_KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "IF", "THEN", "ELSEIF", "ELSE", "END", "CASE", "WHEN", "NULL", "TRUE", "FALSE")
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The keyword or function in upper case, or the mark."""
        return self.text.upper() if self.kind == "word" else self.text if self.kind == "mark" else ""


def parse_formula(text: str) -> Node:
    """Return the tree of a formula. Raises `FormulaError` if it is not valid."""
    if len(text) > LONGEST:
        raise FormulaError(f"the formula is longer than {LONGEST:,} characters")
    tokens = list(_tokens(text))
    if len(tokens) > _MOST:
        raise FormulaError(f"the formula has more than {_MOST:,} parts")
    parser = _Parser(tokens)
    tree = parser.expression()
    parser.require_end()
    _require_flat(tree)
    return tree


def _require_flat(tree: Node) -> None:
    """Refuse a tree that is too deep for recursion, such as the sum of hundreds of fields."""
    level, depth = [tree], 0
    while level:
        level, depth = [below for node in level for below in children(node)], depth + 1
        if depth > _DEEPEST:
            raise FormulaError(f"the formula is nested deeper than {_DEEPEST} levels")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise FormulaError(f"the formula is not valid at character {at + 1}: unexpected `{text[at]}`")
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found[0], at)
        at = found.end()
    yield _Token("end", "", len(text))


class _Parser:
    """Reads tokens by recursive descent, one method for each level of precedence."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def require_end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *words: str) -> str:
        """Consume the next token and return it if it is one of the keywords or marks; else return an empty string."""
        word = self._next.word
        if word not in words or not word:
            return ""
        self._at += 1
        return word

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._unexpected(f"; `{word}` is missing")

    def _unexpected(self, more: str = "") -> FormulaError:
        token = self._next
        what = f"unexpected `{token.text[:40]}`" if token.text else "it ends too early"
        return FormulaError(f"the formula is not valid at character {token.at + 1}: {what}{more}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _NESTED:
            raise FormulaError(f"the formula has more than {_NESTED} levels of parentheses")
        tree = self._left_to_right(("OR",), lambda: self._left_to_right(("AND",), self._not))
        self._depth -= 1
        return tree

    def _left_to_right(self, operators: tuple[str, ...], below: Callable[[], Node]) -> Node:
        tree = below()
        while operator := self._take(*operators):
            tree = Binary(operator, tree, below())
        return tree

    def _not(self) -> Node:
        count = 0
        while self._take("NOT"):
            count += 1
        tree = self._comparison()
        for _ in range(self._limited(count)):
            tree = Unary("NOT", tree)
        return tree

    def _comparison(self) -> Node:
        tree = self._sum()
        while word := self._take(*_COMPARISONS, "IN"):
            tree = self._membership(tree) if word == "IN" else Binary(_COMPARISONS[word], tree, self._sum())
        return tree

    def _membership(self, value: Node) -> Node:
        if self._next.kind == "field":
            return Membership(value, (self._field(),), of_set=True)
        self._expect("(")
        return Membership(value, self._list(")"))

    def _sum(self) -> Node:
        return self._left_to_right(("+", "-"), lambda: self._left_to_right(("*", "/", "%"), self._negative))

    def _negative(self) -> Node:
        signs = 0
        while sign := self._take("-", "+"):
            signs += sign == "-"
        tree = self._power()
        for _ in range(self._limited(signs)):
            tree = Unary("-", tree)
        return tree

    def _limited(self, count: int) -> int:
        if count > _DEEPEST:
            raise FormulaError(f"the formula is nested deeper than {_DEEPEST} levels")
        return count

    def _power(self) -> Node:
        return self._left_to_right(("^",), self._atom)

    def _atom(self) -> Node:
        token = self._next
        if token.kind in ("number", "string", "date"):
            self._at += 1
            return _constant(token)
        if token.kind == "field":
            return self._field()
        if self._take("("):
            tree = self.expression()
            self._expect(")")
            return tree
        if self._take("{"):
            return self._lod()
        if token.word in ("TRUE", "FALSE", "NULL"):
            self._at += 1
            return Constant("null" if token.word == "NULL" else "boolean", token.word)
        if self._take("IF"):
            return self._if()
        if self._take("CASE"):
            return self._case()
        if token.kind == "word" and token.word not in _KEYWORDS:
            self._at += 1
            self._expect("(")
            return Call(token.word, () if self._take(")") else self._list(")"))
        if token.word == "-":  # as in 2 ^ -1
            return self._negative()
        raise self._unexpected()

    def _list(self, end: str) -> tuple[Node, ...]:
        found = [self.expression()]
        while self._take(","):
            found.append(self.expression())
        self._expect(end)
        return tuple(found)

    def _field(self) -> Field:
        parts = [self._name()]
        while self._next.word == "." and self._tokens[self._at + 1].kind == "field":
            self._at += 1
            parts.append(self._name())
        return Field(tuple(parts))

    def _name(self) -> str:
        text = self._next.text
        self._at += 1
        return text[1:-1].replace("]]", "]")

    def _if(self) -> Node:
        pairs = [self._pair("THEN")]
        while self._take("ELSEIF"):
            pairs.append(self._pair("THEN"))
        return Branches(None, tuple(pairs), self._otherwise())

    def _case(self) -> Node:
        subject = self.expression()
        pairs = []
        while self._take("WHEN"):
            pairs.append(self._pair("THEN"))
        if not pairs:
            raise self._unexpected("; `WHEN` is missing")
        return Branches(subject, tuple(pairs), self._otherwise())

    def _pair(self, word: str) -> tuple[Node, Node]:
        first = self.expression()
        self._expect(word)
        return first, self.expression()

    def _otherwise(self) -> Node | None:
        found = self.expression() if self._take("ELSE") else None
        self._expect("END")
        return found

    def _lod(self) -> Node:
        kind = self._take(*_KINDS)
        dimensions: list[Node] = []
        if kind and not self._take(":"):
            dimensions.append(self.expression())
            while self._take(","):
                dimensions.append(self.expression())
            self._expect(":")
        value = self.expression()
        self._expect("}")
        return Lod(kind or "FIXED", tuple(dimensions), value)


def _constant(token: _Token) -> Constant:
    text = token.text
    if token.kind == "number":
        return Constant("integer" if text.isdecimal() else "real", text)
    if token.kind == "date":
        return Constant("date", text[1:-1].strip())
    return Constant("string", text[1:-1].replace(text[0] * 2, text[0]))


_LEVELS: Final = {"OR": 1, "AND": 2, "NOT": 3, **dict.fromkeys((*_COMPARISONS, "IN"), 4), "+": 5, "-": 5,
                  "*": 6, "/": 6, "%": 6, "negative": 7, "^": 8}  # fmt: skip
_ATOM: Final = 9


def formula_text(node: Node, name_of: Callable[[Field], str] | None = None) -> str:
    """Return a formula as text. `name_of` returns the name to write for a field, with brackets."""
    return _Writer(name_of or _bracketed).text(node, 0)


def _bracketed(field: Field) -> str:
    return ".".join(f"[{part.replace(']', ']]')}]" for part in field.parts)


class _Writer:
    """Writes trees with as few parentheses as the precedence of the operators allows."""

    def __init__(self, name_of: Callable[[Field], str]) -> None:
        self._name_of = name_of

    def text(self, node: Node, above: int) -> str:
        written, level = self._written(node)
        return f"({written})" if level < above else written

    def _written(self, node: Node) -> tuple[str, int]:
        match node:
            case Constant():
                return _constant_text(node), _ATOM
            case Field():
                return self._name_of(node), _ATOM
            case Call():
                return f"{node.name}({self._several(node.arguments)})", _ATOM
            case Unary():
                level = _LEVELS["NOT" if node.operator == "NOT" else "negative"]
                space = " " if node.operator == "NOT" else ""
                return f"{node.operator}{space}{self.text(node.operand, level)}", level
            case Binary():
                level = _LEVELS[node.operator]
                return f"{self.text(node.left, level)} {node.operator} {self.text(node.right, level + 1)}", level
            case Membership():
                options = self._several(node.options)
                shown = options if node.of_set else f"({options})"
                return f"{self.text(node.value, _LEVELS['IN'])} IN {shown}", _LEVELS["IN"]
            case Branches():
                return self._branches(node), _ATOM
            case Lod():
                dimensions = f" {self._several(node.dimensions)} : " if node.dimensions else " : "
                return f"{{{node.kind}{dimensions}{self.text(node.value, 0)}}}", _ATOM

    def _several(self, nodes: tuple[Node, ...]) -> str:
        return ", ".join(self.text(each, 0) for each in nodes)

    def _branches(self, node: Branches) -> str:
        words = [] if node.subject is None else ["CASE", self.text(node.subject, 0)]
        for index, (condition, value) in enumerate(node.pairs):
            word = "WHEN" if node.subject is not None else "IF" if index == 0 else "ELSEIF"
            words += [word, self.text(condition, 0), "THEN", self.text(value, 0)]
        if node.otherwise is not None:
            words += ["ELSE", self.text(node.otherwise, 0)]
        return " ".join([*words, "END"])


def _constant_text(node: Constant) -> str:
    if node.kind == "string":
        return "'" + node.text.replace("'", "''") + "'"
    return f"#{node.text}#" if node.kind == "date" else node.text


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node."""
    match node:
        case Call():
            return node.arguments
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Membership():
            return (node.value, *node.options)
        case Branches():
            several = (node.subject, *(each for pair in node.pairs for each in pair), node.otherwise)
            return tuple(each for each in several if each is not None)
        case Lod():
            return (*node.dimensions, node.value)
        case Constant() | Field():
            return ()
