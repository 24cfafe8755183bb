"""Find the database table behind a Power BI table: read the M query (Power Query) that loads it.

A query is followed from its result back to a database function. Steps that only choose, order, rename or retype columns
are followed; steps that change rows are not, because the table then has other rows than the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import sqlglot
from sqlglot.errors import SqlglotError

from ktx_cli.core import one_line
from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import UnresolvedError

_MAX_DEPTH: Final = 50
_TOKENS: Final = re.compile(
    r'(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"]|"")*")|(?P<name>\#"(?:[^"]|"")*"|\#?[^\W\d][\w.]*)'
    r"|(?P<number>\d[\w.]*)|(?P<sign>=>|<>|<=|>=|\.\.\.|\.\.|[^\s\w])",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"#\(([^)]*)\)")
_ESCAPES: Final = {"lf": "\n", "cr": "\r", "tab": "\t", "cr,lf": "\r\n", "#": "#"}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_ENDS: Final = (",", ")", "]", "}")

_DATABASES: Final = frozenset({
    "AmazonAthena", "AmazonRedshift", "ApacheSpark", "ClickHouse", "DB2", "Databricks", "DatabricksMultiCloud",
    "DuckDB", "Fabric", "GoogleBigQuery", "Lakehouse", "MySQL", "Odbc", "OleDb", "Oracle", "PostgreSQL", "SapHana",
    "Snowflake", "Spark", "Sql", "Starburst", "Teradata", "Trino", "Vertica",
})  # fmt: skip
"""The prefixes of functions that open a database."""

_ITEMS: Final = ("Catalog", "Database", "Schema", "Item", "Name", "Id")
"""The fields that name a database, schema or table in a navigation step, outermost first."""

_SAME: Final = frozenset({
    "Table.Buffer", "Table.TransformColumnTypes", "Table.SelectColumns", "Table.RemoveColumns", "Table.ReorderColumns",
    "Table.Sort", "Table.StopFolding",
})  # fmt: skip
"""Steps that change no value."""

_COMPUTING: Final = {
    "Table.AddColumn": 1, "Table.AddIndexColumn": 1, "Table.DuplicateColumn": 2, "Table.CombineColumns": 3,
    "Table.ReplaceValue": 4, "Table.FillDown": 1, "Table.FillUp": 1, "Table.ReplaceErrorValues": 1,
    "Table.TransformColumns": 1, "Table.ExpandRecordColumn": 3,
}  # fmt: skip
"""Steps that compute the values of columns and keep all rows -> the argument with the names of the columns."""


@dataclass(frozen=True, slots=True)
class Str:
    """A text."""

    value: str


@dataclass(frozen=True, slots=True)
class Ident:
    """A reference to a step, query or parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    name: str
    arguments: tuple[M, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its fields by name."""

    fields: Mapping[str, M]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[M, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A field of a value, `value[Data]`, or an item of it, `value{...}`."""

    value: M
    key: str | M


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts joined by `&`."""

    parts: tuple[M, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """`let name = value, ... in body`."""

    steps: Mapping[str, M]
    body: M


@dataclass(frozen=True, slots=True)
class Other:
    """Any other expression, as text."""

    text: str


M = Str | Ident | Call | Record | Items | Access | Joined | Steps | Other
"""An M expression."""


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """The table or query in the database behind a Power BI table.

    `parts`: its name, outermost first. `database`: the database in the connection, if known. `sql`: the query, if it is
    not a table. `renamed`: name in Power BI -> column. `computed`: names whose values Power Query computes. `changes`:
    differences to the database that do not affect the rows that exist.
    """

    parts: tuple[str, ...] = ()
    database: str = ""
    sql: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()

    def column(self, name: str) -> str | None:
        """Return the database column for a column of the query, or None if Power Query computes it."""
        return None if name in self.computed else self.renamed.get(name, name)


def origin_of(text: str, queries: Mapping[str, str], dialect: str = "") -> TableOrigin:
    """Return the origin of the table that an M expression loads. `queries`: the shared expressions by name.

    Raises `UnresolvedError` with the reason if it is not a table or query of a database.
    """
    return _Follower(queries, dialect).origin(parse_m(text), {}, 0)


def native_origin(sql: str, dialect: str) -> TableOrigin:
    """Return the origin of a query: its table if it only selects columns of one, otherwise the query itself."""
    query = sql.strip().rstrip(";").strip()
    try:
        tree = sqlglot.parse_one(query, read=dialect or None)
    except (SqlglotError, ValueError, RecursionError):
        raise UnresolvedError(f"its query is not valid SQL: {one_line(query, 60)}") from None
    if not isinstance(tree, exp.Select):
        raise UnresolvedError(f"its query is not a single SELECT: {one_line(query, 60)}")
    renamed = _plain_columns(tree)
    if renamed is None:
        return TableOrigin(sql=query)
    source = tree.find(exp.Table)
    assert source is not None  # `_plain_columns` found it.
    return TableOrigin(tuple(part.name for part in source.parts), renamed=renamed)


def _plain_columns(tree: exp.Select) -> dict[str, str] | None:
    """Return the renamed columns of a query that only selects columns of one table, otherwise None."""
    from_key = "from_" if "from_" in tree.args else "from"
    used = {key for key, value in tree.args.items() if value and key not in ("expressions", from_key, "hint")}
    start = tree.args.get(from_key)
    if used or start is None or not isinstance(start.this, exp.Table) or start.this.args.get("joins"):
        return None
    renamed = {}
    for each in tree.expressions:
        inner = each.unalias()
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            continue
        if not isinstance(inner, exp.Column):
            return None
        if each.alias_or_name != inner.name:
            renamed[each.alias_or_name] = inner.name
    return renamed


class _Follower:
    """Follows the steps of queries."""

    def __init__(self, queries: Mapping[str, str], dialect: str) -> None:
        self._queries, self._dialect = queries, dialect

    def origin(self, node: M, steps: Mapping[str, M], depth: int) -> TableOrigin:
        if depth > _MAX_DEPTH:
            raise UnresolvedError("its query has too many steps")
        below = depth + 1
        if isinstance(node, Steps):
            return self.origin(node.body, {**steps, **node.steps}, below)
        if isinstance(node, Ident):
            return self._named(node.name, steps, below)
        if isinstance(node, Access):
            return self._step_into(node, steps, below)
        if isinstance(node, Call):
            return self._call(node, steps, below)
        raise UnresolvedError(f"ktx cannot follow its query: {_shown(node)}")

    def _named(self, name: str, steps: Mapping[str, M], depth: int) -> TableOrigin:
        if name in steps:
            rest = {key: value for key, value in steps.items() if key != name}
            return self.origin(steps[name], rest, depth)
        if name in self._queries:
            return self.origin(parse_m(self._queries[name]), {}, depth)
        raise UnresolvedError(f"its query refers to `{name}`, which is not in the model")

    def _step_into(self, node: Access, steps: Mapping[str, M], depth: int) -> TableOrigin:
        origin = self.origin(node.value, steps, depth)
        if isinstance(node.key, str) or origin.sql is not None:
            return origin
        if not isinstance(node.key, Record):
            raise UnresolvedError(f"ktx cannot follow its query: {_shown(node)}")
        names = [self._text(node.key.fields[key], steps) for key in _ITEMS if key in node.key.fields]
        return replace(origin, parts=(*origin.parts, *names))

    def _call(self, node: Call, steps: Mapping[str, M], depth: int) -> TableOrigin:
        name, arguments = node.name, node.arguments
        if name == "Value.NativeQuery" and len(arguments) > 1:
            self.origin(arguments[0], steps, depth)
            return native_origin(self._text(arguments[1], steps), self._dialect)
        if name.partition(".")[0] in _DATABASES:
            return self._database(node, steps)
        if not name.startswith("Table.") or not arguments:
            raise UnresolvedError(f"its data comes from `{name}`, not from a database")
        return self._table_step(node, self.origin(arguments[0], steps, depth), steps)

    def _database(self, node: Call, steps: Mapping[str, M]) -> TableOrigin:
        options = next((each for each in reversed(node.arguments) if isinstance(each, Record)), None)
        if options is not None and "Query" in options.fields:
            return native_origin(self._text(options.fields["Query"], steps), self._dialect)
        if node.name.endswith(".Query") and node.arguments:
            return native_origin(self._text(node.arguments[-1], steps), self._dialect)
        has_database = node.name.endswith(".Database") and len(node.arguments) > 1
        plain = has_database and not isinstance(node.arguments[1], Record | Other)
        return TableOrigin(database=self._text(node.arguments[1], steps) if plain else "")

    def _table_step(self, node: Call, origin: TableOrigin, steps: Mapping[str, M]) -> TableOrigin:
        name, arguments = node.name, node.arguments
        if name in _SAME or (name == "Table.SelectRows" and _is_refresh_window(arguments)):
            return origin
        if name == "Table.RenameColumns" and len(arguments) > 1:
            return self._rename(origin, arguments[1], steps)
        changes_all = name == "Table.TransformColumns" and len(arguments) > 2
        if name in _COMPUTING and len(arguments) > _COMPUTING[name] and not changes_all:
            return replace(origin, computed=origin.computed | self._names(arguments[_COMPUTING[name]], steps))
        raise UnresolvedError(f"its query changes rows or values with `{name}`")

    def _rename(self, origin: TableOrigin, pairs: M, steps: Mapping[str, M]) -> TableOrigin:
        renamed, computed = dict(origin.renamed), set(origin.computed)
        for old, new in self._pairs(pairs, steps):
            if old in computed:
                computed.discard(old)
                computed.add(new)
            else:
                renamed[new] = renamed.pop(old, old)
        return replace(origin, renamed=renamed, computed=frozenset(computed))

    def _pairs(self, node: M, steps: Mapping[str, M]) -> list[tuple[str, str]]:
        items = node.items if isinstance(node, Items) else ()
        if items and not isinstance(items[0], Items):
            items = (Items(items),)
        pairs = [each.items for each in items if isinstance(each, Items)]
        if not items or len(pairs) != len(items) or any(len(pair) != 2 for pair in pairs):
            raise UnresolvedError("its query renames columns in a way that ktx cannot follow")
        return [(self._text(old, steps), self._text(new, steps)) for old, new in pairs]

    def _names(self, node: M, steps: Mapping[str, M]) -> frozenset[str]:
        """Return a name, a list of names, or the names at the start of lists such as `{"a", Text.Upper}`."""
        items = node.items if isinstance(node, Items) else (node,)
        if len(items) > 1 and not isinstance(items[1], Str | Items):
            items = items[:1]
        names = [each.items[0] if isinstance(each, Items) and each.items else each for each in items]
        return frozenset(self._text(each, steps) for each in names)

    def _text(self, node: M, steps: Mapping[str, M], depth: int = 0) -> str:
        """Return the text of an expression, which may be a parameter of the model."""
        if isinstance(node, Str):
            return node.value
        if isinstance(node, Joined):
            return "".join(self._text(part, steps, depth + 1) for part in node.parts)
        if isinstance(node, Ident) and depth < _MAX_DEPTH:
            if node.name in steps:
                return self._text(steps[node.name], steps, depth + 1)
            if node.name in self._queries:
                return self._text(parse_m(self._queries[node.name]), {}, depth + 1)
            raise UnresolvedError(f"its query refers to `{node.name}`, which is not in the model")
        raise UnresolvedError(f"ktx cannot follow its query: {_shown(node)}")


def _is_refresh_window(arguments: tuple[M, ...]) -> bool:
    """Return whether a condition is that of an incremental refresh, which keeps all rows of the recent past."""
    text = arguments[1].text if len(arguments) > 1 and isinstance(arguments[1], Other) else ""
    sides = re.split(r"\band\b", text)
    bounds = [[name for name in ("RangeStart", "RangeEnd") if name in side] for side in sides]
    return sorted(bounds) == [["RangeEnd"], ["RangeStart"]] and re.search(r"\bor\b", text) is None


def _shown(node: M) -> str:
    return f"`{one_line(node.text, 40)}`" if isinstance(node, Other) else f"`{type(node).__name__.lower()}`"


def parse_m(text: str) -> M:
    """Parse an M expression. Raises `UnresolvedError` for anything that is not one."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        found = [(str(each.lastgroup), each[0], each.start()) for each in _TOKENS.finditer(text)]
        self._tokens = [each for each in found if each[0] != "blank"]

    def whole(self) -> M:
        return self._expression()

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str) -> bool:
        taken = self._peek() == wanted
        self._at += taken
        return taken

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise UnresolvedError(f"its query is not valid M: expected `{wanted}` at `{one_line(self._rest(), 20)}`")

    def _rest(self) -> str:
        return self._text[self._tokens[self._at][2] :] if self._at < len(self._tokens) else ""

    def _expression(self) -> M:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnresolvedError("its query is nested too deeply")
        start = self._at
        result = self._let() if self._peek() == "let" else self._joined()
        if self._peek() not in ("", "in", "meta", *_ENDS):
            self._at = start
            result = self._other()
        if self._take("meta"):
            self._expression()
        self._depth -= 1
        return result

    def _let(self) -> M:
        self._expect("let")
        steps: dict[str, M] = {}
        while self._peek() != "in":
            name = _name(self._peek())
            self._at += 1
            self._expect("=")
            steps[name] = self._expression()
            if not self._take(","):
                break
        self._expect("in")
        return Steps(steps, self._expression())

    def _joined(self) -> M:
        parts = [self._operand()]
        while self._take("&"):
            parts.append(self._operand())
        return parts[0] if len(parts) == 1 else Joined(tuple(parts))

    def _operand(self) -> M:
        kind, token, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
        if kind == "text":
            self._at += 1
            return _text_of(token)
        if token == "[":
            return self._record()
        if token == "{":
            return Items(self._listed("{", "}"))
        if kind != "name" or token in ("each", "type", "if", "try", "not", "function"):
            return self._other()
        self._at += 1
        value: M = Ident(_name(token))
        if self._peek() == "(":
            value = Call(_name(token), self._listed("(", ")"))
        while self._peek() in ("[", "{"):
            value = Access(value, self._field() if self._peek() == "[" else self._item())
        return value

    def _field(self) -> str:
        self._expect("[")
        start = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        while self._peek() not in ("]", ""):
            self._at += 1
        end = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        self._expect("]")
        return self._text[start:end].strip()

    def _item(self) -> M:
        self._expect("{")
        result = self._expression()
        self._expect("}")
        self._take("?")
        return result

    def _record(self) -> M:
        self._expect("[")
        fields: dict[str, M] = {}
        while not self._take("]"):
            start = self._at
            while self._peek() not in ("=", "", *_ENDS):
                self._at += 1
            name = " ".join(_name(each[1]) for each in self._tokens[start : self._at])
            if self._peek() == "]":  # the short form of `each [Column]`
                continue
            self._expect("=")
            fields[name] = self._expression()
            if not self._take(","):
                self._expect("]")
                break
        return Record(fields)

    def _listed(self, opening: str, closing: str) -> tuple[M, ...]:
        self._expect(opening)
        items: list[M] = []
        while not self._take(closing):
            items.append(self._expression())
            if not self._take(","):
                self._expect(closing)
                break
        return tuple(items)

    def _other(self) -> M:
        """Skip an expression of another kind up to its end, and return its text."""
        start = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        closing: list[str] = []
        first = self._at
        while token := self._peek():
            if token in _CLOSING:
                closing.append(_CLOSING[token])
            elif closing and token == closing[-1]:
                closing.pop()
            elif not closing and (token in _ENDS or token in ("in", "meta")):
                break
            self._at += 1
        if self._at == first:
            raise UnresolvedError(f"its query is not valid M at `{one_line(self._rest(), 20)}`")
        end = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        return Other(self._text[start:end].strip())


def _name(token: str) -> str:
    return token[2:-1].replace('""', '"') if token.startswith('#"') else token


def _text_of(token: str) -> M:
    unescape: Callable[[re.Match[str]], str] = lambda found: _ESCAPES.get(found[1], found[0])  # noqa: E731
    return Str(_ESCAPE.sub(unescape, token[1:-1].replace('""', '"')))
