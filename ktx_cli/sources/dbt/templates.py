"""Resolve the Jinja in texts and SQL files of a dbt project. Known calls are resolved; nothing is executed.

Jinja that only dbt can resolve becomes a placeholder, so that the rest can be parsed, and is shown unchanged. Each line
of the result corresponds to the same line of the file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.documents import without_comments
from ktx_cli.semantic import TARGET_NAME, Call, Relation, UnresolvedError, parse_call, relation_of, render

_BLOCK: Final = re.compile(r"\{%-?\s*docs\s+(?P<name>\w+)\s*-?%\}(?P<text>.*?)\{%-?\s*enddocs\s*-?%\}", re.DOTALL)
_JINJA: Final = ("{{", "{%", "{#")


class Texts:
    """Renders texts. `docs`: doc blocks by name. `variables`: values of `var()`. `target`: the `target.name`."""

    def __init__(self, docs: Mapping[str, str], variables: Mapping[str, Any], target: str | None = None) -> None:
        self._docs, self.variables, self._target = docs, variables, target

    def rendered(self, text: str) -> str:
        """Return the text. Raises `UnresolvedError` for Jinja that cannot be resolved here."""
        if not any(mark in text for mark in _JINJA):
            return text.strip()
        return render(text, self.resolve)

    def resolve(self, call: Call) -> str:
        """Return the value of a call. Raises `UnresolvedError` if only dbt knows it."""
        names = [each for each in call.arguments if isinstance(each, str)]
        if call.name == "doc" and names:
            if names[-1] not in self._docs:
                raise UnresolvedError(f"doc block `{names[-1]}` does not exist")
            return self._docs[names[-1]]
        if call.name == "var" and names:
            value = self.variable(call)
            if isinstance(value, str | int | float):
                return str(value)
            raise UnresolvedError(f"the variable `{names[0]}` has no value")
        if call.name == TARGET_NAME and self._target:
            return self._target
        raise UnresolvedError(f"only dbt can resolve `{call.shown}`")

    def variable(self, call: Call) -> Any:
        """Return the value of the variable in a `var` call. Raises `UnresolvedError` if it has no value."""
        name = call.argument(0, "name")
        value = self.variables.get(name) if isinstance(name, str) else None
        value = call.argument(1, "default") if value is None else value
        if value is None:
            raise UnresolvedError(f"the variable `{name}` has no value")
        return value


def doc_blocks(text: str) -> dict[str, str]:
    """Return the doc blocks of a Markdown file by name, without HTML comments, which readers do not see."""
    return {found["name"]: without_comments(found["text"]).strip() for found in _BLOCK.finditer(text)}


def variables_of(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables in `dbt_project.yml`: its own, and those for its own package."""
    found = project.get("vars")
    if not isinstance(found, dict):
        return {}
    own = found.get(str(project.get("name")))
    return {**found, **(own if isinstance(own, dict) else {})}


MOST_CHARACTERS: Final = 100_000
"""The maximum length of a file that is read. The guard has the same limit for statements."""

_MOST_PIECES: Final = 4_000
_LONGEST: Final = 10_000
"""The maximum length of one piece of Jinja."""

_FAULTS: Final = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, LookupError)
_REFERENCE: Final = re.compile(r"\b(?:ref|source)\(\s*(?:'[^'\n]{1,200}'|\"[^\"\n]{1,200}\")[^()]{0,200}\)")
_WORD: Final = re.compile(r"[-+\s]*(\w+)")
_SHORT_IF: Final = re.compile(r"\sif\s(?!.*\selse\s)", re.DOTALL)
"""`',' if not loop.last`, which is not valid Python without an `else`."""

_CLOSING: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_ENDS: Final = {
    "endif": "if", "endfor": "for", "endset": "set", "endmacro": "macro", "endcall": "call", "endtest": "test",
    "enddocs": "docs", "endsnapshot": "snapshot", "endmaterialization": "materialization", "endfilter": "filter",
}  # fmt: skip
_SILENT: Final = frozenset({"macro", "call", "test", "docs", "materialization"})
"""Blocks whose content is not part of the query."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A SQL or Jinja comment, and the line where it begins."""

    text: str
    line: int

    @property
    def is_telling(self) -> bool:
        """Return whether the comment says more than a section name, such as `-- final`."""
        return len(re.findall(r"\w+", self.text)) > 2


@dataclass(frozen=True, slots=True)
class Rendered:
    """A SQL file without Jinja.

    `sql`: the query, with placeholders. `references`: placeholder -> its model or source. `open`: placeholder -> the
    unresolved Jinja. `omitted`: Jinja statements that cannot be resolved. `mentioned`: models and sources that such
    Jinja names. `config`: the settings in `config()` with constant values. `is_incremental`: whether a part for
    incremental runs was omitted. `snapshot`: the name of a snapshot. `problem`: why the file was not read.
    `is_compiled`: whether dbt resolved the Jinja, which makes line numbers differ from the file's.
    """

    sql: str = ""
    references: Mapping[str, Relation] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    mentioned: tuple[Relation, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    comments: tuple[Comment, ...] = ()
    is_incremental: bool = False
    snapshot: str = ""
    problem: str = ""
    is_compiled: bool = False

    @property
    def is_resolved(self) -> bool:
        """Whether the query is the one that dbt would run, except for table names."""
        return not (self.open or self.omitted or self.problem)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The unresolved Jinja that only dbt can resolve."""
        return tuple(dict.fromkeys((*self.open.values(), *self.omitted)))

    def shown(self, sql: str) -> str:
        """Return a human-readable part of the query, with model names and unresolved Jinja."""
        for placeholder in sorted(_placeholders(sql), key=len, reverse=True):
            known = self.references.get(placeholder)
            text = known[-1] if known else self.open.get(placeholder)
            if text is not None:
                sql = re.sub(re.escape(placeholder), lambda _, text=text: text, sql, flags=re.IGNORECASE)  # type: ignore[misc]
        return sql


_PLACEHOLDER: Final = re.compile(r"ktx_part_x*\d+_", re.IGNORECASE)


def _placeholders(sql: str) -> set[str]:
    return {found.lower() for found in _PLACEHOLDER.findall(sql)}


def rendered(text: str, texts: Texts, dialect: str = "") -> Rendered:
    """Return a SQL file without Jinja. `dialect` determines the syntax of comments and strings."""
    if len(text) > MOST_CHARACTERS:
        return Rendered(problem=f"it has {len(text):,} characters, more than the limit of {MOST_CHARACTERS:,}")
    reader = _Reader(text, texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's parser warns about `'\\d'`, which is valid in Jinja.
        for count, piece in enumerate(_pieces(text, dialect)):
            if count > _MOST_PIECES:
                return Rendered(problem=f"it has more than {_MOST_PIECES:,} comments and pieces of Jinja")
            reader.take(piece)
    return reader.result()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a file. `kind`: `text`, `comment`, or the mark that opens Jinja. `quoted`: whether it is inside a
    string.
    """

    kind: str
    text: str
    line: int
    quoted: bool = False
    alone: bool = False


_END: Final = re.compile(r"'(?:[^'\\]|\\.){0,2000}'|\"(?:[^\"\\]|\\.){0,2000}\"|\}\}|%\}|#\}", re.DOTALL)
"""Tokens that can end a piece of Jinja, and the strings in which they do not."""


def _pieces(text: str, dialect: str) -> Iterator[_Piece]:
    """Yield the parts of a file in order; together they make up the whole file."""
    lines, escapes = _lexicon(dialect)
    mark = re.compile("|".join(map(re.escape, ["{{", "{%", "{#", "'", '"', "`", "/*", *lines])))
    inside = {quote: re.compile(rf"\{{[{{%#]|{quote}" + (r"|\\." if escapes else ""), re.DOTALL) for quote in "'\"`"}
    missing: set[str] = set()  # Ends that no longer occur, so that they are not searched for again.
    quote, begun, at, line, blank = "", 0, 0, 1, True
    while True:
        found = (inside[quote] if quote else mark).search(text, at)
        if found is None:
            yield _Piece("text", text[begun:], line)
            return
        opened = found[0]
        if opened not in _CLOSING and (quote or opened not in ("/*", *lines)):
            quote = "" if opened == quote else quote or opened
            at = found.end()
            continue
        stop = _end(text, opened, found.end(), missing)
        if stop is None:
            at = found.end()
            continue
        before = text[begun : found.start()]
        if before:
            yield _Piece("text", before, line, bool(quote))
        line += before.count("\n")
        blank = not before.rpartition("\n")[2].strip() and (blank or "\n" in before)
        whole = text[found.start() : stop]
        yield _Piece(opened if opened in _CLOSING else "comment", whole, line, bool(quote), blank)
        line += whole.count("\n")
        blank = False
        begun = at = stop


def _end(text: str, opened: str, at: int, missing: set[str]) -> int | None:
    """Return the end of a piece of Jinja or a comment, or None if there is none."""
    close = _CLOSING.get(opened) or ("*/" if opened == "/*" else "\n")
    if close in missing:
        return len(text) if close == "\n" else None
    if opened in ("{{", "{%"):
        end = next((found.start() for found in _END.finditer(text, at) if found[0] == close), -1)
    else:
        end = text.find(close, at)
    if end >= 0:
        return end if close == "\n" else end + len(close)
    missing.add(close)
    return len(text) if close == "\n" else None


def _lexicon(dialect: str) -> tuple[tuple[str, ...], bool]:
    """Return the prefix of line comments, and whether `\\` escapes a quote."""
    from sqlglot import Dialect

    words: Any = Dialect.get_or_raise(dialect or None).tokenizer_class
    lines = tuple(each for each in words.COMMENTS if isinstance(each, str))
    return lines, "\\" in words.STRING_ESCAPES


_CONSTANTS: Final = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}


class _Unknown(Exception):
    """Raised for an expression whose value only dbt knows."""


@dataclass(slots=True)
class _Block:
    """An open block. `keeps`: its content is part of the query. `decided`: the branch of an `if` that applies was
    reached.

    `unknown`: it cannot be known which branch applies, so the first one is taken.
    """

    kind: str
    keeps: bool
    decided: bool = False
    unknown: bool = False


class _Reader:
    """Assembles the pieces of a file."""

    def __init__(self, text: str, texts: Texts) -> None:
        self._texts = texts
        self._prefix = "ktx_part_"
        while self._prefix in text.lower():
            self._prefix += "x"
        self._sql: list[str] = []
        self._blocks: list[_Block] = []
        self.variables: dict[str, Any] = {}
        self._named: dict[Relation, str] = {}
        self._open: dict[str, str] = {}
        self._omitted: list[str] = []
        self._mentioned: dict[Relation, None] = {}
        self._config: dict[str, Any] = {}
        self._comments: list[Comment] = []
        self._comment_end = 0
        self._incremental, self._snapshot = False, ""

    def result(self) -> Rendered:
        """Return the file without Jinja."""
        references = {placeholder: relation for relation, placeholder in self._named.items()}
        return Rendered(
            "".join(self._sql), references, self._open, tuple(dict.fromkeys(self._omitted)), tuple(self._mentioned),
            self._config, tuple(self._comments), self._incremental, self._snapshot,
        )  # fmt: skip

    @property
    def _keeps(self) -> bool:
        return all(block.keeps for block in self._blocks)

    def take(self, piece: _Piece) -> None:
        """Add a piece."""
        lines = "" if piece.quoted else "\n" * piece.text.count("\n")
        if piece.kind == "text":
            self._sql.append(piece.text if self._keeps else lines)
        elif piece.kind in ("comment", "{#"):
            self._comment(piece)
            self._sql.append(" " + lines)
        else:
            inner = piece.text[2:-2].strip("-+ \t\r\n")[:_LONGEST]
            if piece.kind == "{%":
                self._statement(inner, piece)
                self._sql.append(lines)
            elif self._keeps:
                self._sql.append(self._expression(inner, piece) + lines)
            else:
                self._sql.append(lines)

    def _comment(self, piece: _Piece) -> None:
        """Add a comment. Consecutive comment lines become one."""
        text = piece.text
        if text.startswith(("/*", "{#")):
            text = "\n".join(each.strip(" \t*") for each in text[2:-2].strip("-+").split("\n"))
        else:
            text = text.lstrip("-#/")
        text = text.strip()
        if not text:
            return
        follows = piece.alone and piece.line == self._comment_end + 1 and self._comments
        if follows and not piece.text.startswith(("/*", "{#")):
            last = self._comments[-1]
            self._comments[-1] = Comment(f"{last.text} {text}", last.line)
        else:
            self._comments.append(Comment(text, piece.line))
        self._comment_end = piece.line + piece.text.count("\n") if piece.alone else 0

    def _expression(self, inner: str, piece: _Piece) -> str:
        """Return the value of an expression, or a placeholder."""
        relation = relation_of(inner)
        if relation is not None:
            return self._named.setdefault(relation, self._placeholder())
        if re.match(r"config\s*\(", inner):
            self._config |= _constants(inner)
            return ""
        try:
            return _written(self._value_of(inner))
        except _Unknown:
            self._mention(inner)
            placeholder = self._placeholder()
            self._open[placeholder] = one_line(piece.text, 200)
            return placeholder

    def _placeholder(self) -> str:
        return f"{self._prefix}{len(self._named) + len(self._open)}_"

    def _mention(self, inner: str) -> None:
        for found in _REFERENCE.findall(inner):
            relation = relation_of(found)
            if relation is not None:
                self._mentioned.setdefault(relation)

    def _statement(self, inner: str, piece: _Piece) -> None:
        found = _WORD.match(inner)
        word = found[1] if found else ""
        rest = inner[found.end() :].strip() if found else ""
        if word in _ENDS:
            self._close(_ENDS[word])
        elif word == "if":
            self._branch(_Block("if", keeps=False), rest, piece)
        elif word in ("elif", "else"):
            self._otherwise(rest if word == "elif" else None)
        elif word == "for":
            self._blocks.append(_Block("for", keeps=True))
            self._leave_out(piece, rest)
        elif word == "snapshot":
            self._snapshot = self._snapshot or rest
            self._blocks.append(_Block("snapshot", keeps=True))
        elif word == "set":
            self._set(rest)
        elif word == "filter" or word in _SILENT:
            self._blocks.append(_Block(word, keeps=word == "filter"))
        elif word not in ("do", "raw", "endraw"):
            self._leave_out(piece, rest)

    def _leave_out(self, piece: _Piece, rest: str) -> None:
        if self._keeps:
            self._mention(rest)
            self._omitted.append(one_line(piece.text, 200))

    def _branch(self, block: _Block, condition: str, piece: _Piece) -> None:
        """Open a block. For a condition that cannot be evaluated, the first branch is taken."""
        if "is_incremental" in condition and self._keeps:
            self._incremental = True
        try:
            block.keeps = bool(self._value_of(condition))
        except _Unknown:
            block.keeps = block.unknown = True
            self._leave_out(piece, condition)
        block.decided = block.keeps
        self._blocks.append(block)

    def _otherwise(self, condition: str | None) -> None:
        block = self._blocks[-1] if self._blocks else None
        if block is None or block.kind not in ("if", "for"):
            return
        if block.kind == "for" or block.decided:
            block.keeps = False
            return
        try:
            block.keeps = condition is None or bool(self._value_of(condition))
        except _Unknown:
            block.keeps = True
            self._omitted.append(one_line(f"{{% elif {condition} %}}", 200))
        block.decided = block.keeps

    def _close(self, kind: str) -> None:
        if self._blocks and self._blocks[-1].kind == kind:
            self._blocks.pop()

    def _set(self, rest: str) -> None:
        name, equals, value = rest.partition("=")
        if not equals:
            self._blocks.append(_Block("set", keeps=False))
            return
        self._mention(value)
        try:
            self.variables[name.strip()] = self._value_of(value)
        except _Unknown:
            self.variables.pop(name.strip(), None)

    def _value_of(self, text: str) -> Any:
        text = text.strip()[:_LONGEST]
        if _SHORT_IF.search(text):
            text += " else ''"
        try:
            return self._value(ast.parse(text, mode="eval").body)
        except (UnresolvedError, *_FAULTS):
            raise _Unknown from None

    def _value(self, node: ast.expr) -> Any:
        """Return the value of an expression. Raises `_Unknown` if only dbt knows the value."""
        if isinstance(node, ast.BoolOp):
            return self._any_or_all(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._value(node.operand)
        if isinstance(node, ast.IfExp):
            return self._value(node.body if self._value(node.test) else node.orelse)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(self._value(node.left), node.ops[0], self._value(node.comparators[0]))
        if isinstance(node, ast.Name):
            return self._named_value(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(ast.unparse(node))
        if isinstance(node, ast.Call):
            return self._called(parse_call(ast.unparse(node)))
        return ast.literal_eval(node)

    def _any_or_all(self, node: ast.BoolOp) -> bool:
        """Return the value of `and` or `or`, which may only need one known operand."""
        decides = isinstance(node.op, ast.Or)
        unknown = False
        for each in node.values:
            try:
                if bool(self._value(each)) is decides:
                    return decides
            except _Unknown:
                unknown = True
        if unknown:
            raise _Unknown
        return not decides

    @staticmethod
    def _compared(left: Any, operator: ast.cmpop, right: Any) -> bool:
        if isinstance(operator, ast.Eq):
            return bool(left == right)
        if isinstance(operator, ast.NotEq):
            return bool(left != right)
        if isinstance(operator, ast.In):
            return bool(left in right)
        if isinstance(operator, ast.NotIn):
            return bool(left not in right)
        raise _Unknown

    def _named_value(self, name: str) -> Any:
        if name in self.variables:
            return self.variables[name]
        if name == "execute":
            return True
        return _CONSTANTS[name]

    def _attribute(self, name: str) -> Any:
        if name in ("loop.last", "loop.first"):  # The content of a loop is shown once.
            return True
        if name == TARGET_NAME:
            return self._texts.resolve(Call(TARGET_NAME, (), {}))
        raise _Unknown

    def _called(self, call: Call) -> Any:
        if call.chained:
            raise _Unknown
        if call.name == "is_incremental":
            return False
        if call.name == "var":
            return self._texts.variable(call)
        raise _Unknown


def _written(value: Any) -> str:
    """Return a value in the form that Jinja writes. A list or None cannot be part of a query."""
    if not isinstance(value, str | int | float):
        raise _Unknown
    return str(value)


def _constants(text: str) -> dict[str, Any]:
    """Return the arguments of `config(...)` that are constants."""
    try:
        tree = ast.parse(text, mode="eval").body
    except _FAULTS:
        return {}
    found: dict[str, Any] = {}
    for keyword in tree.keywords if isinstance(tree, ast.Call) else ():
        try:
            name = keyword.value.id if isinstance(keyword.value, ast.Name) else ""
            found[str(keyword.arg)] = _CONSTANTS[name] if name else ast.literal_eval(keyword.value)
        except _FAULTS:
            continue
    return found
