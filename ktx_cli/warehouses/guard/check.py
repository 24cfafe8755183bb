"""The guard: checks a statement, and returns the statement to send or the reason for refusing it."""

from __future__ import annotations

import functools
import itertools
import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import Command, Hint, NotSupportedError, Recent, SourceError, UsageError, did_you_mean, listing
from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, dialect_named
from ktx_cli.warehouses.guard.bounds import require_bounded
from ktx_cli.warehouses.guard.columns import require_columns
from ktx_cli.warehouses.guard.functions import READING, SETTINGS, FunctionList, Server, refused, strange_call
from ktx_cli.warehouses.guard.nodes import (
    qualify,
    require_node,
    require_root,
    require_row_function,
    require_table,
    require_type,
)
from ktx_cli.warehouses.guard.rendering import Headers, as_query, limited, with_headers, without_hints, written_headers

SchemaOf = Callable[[str], str | None]
"""The schema for an unqualified table name, or None to keep the name unchanged."""

PARSER_FAULTS: Final = (ValueError, LookupError, AttributeError, TypeError, AssertionError, NotImplementedError)
"""Errors besides the parser's own that it raises for unexpected input."""

_TOO_DEEP: Final = "split the statement into smaller ones"


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A read-only statement. `sql` is the text to send, never the original text.

    `headers` are the names of those columns that the database would have taken from the original text.
    """

    sql: str
    dialect: str
    explains: bool = False
    headers: Headers = ()

    def columns(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the column names that the database would return for the user's original text."""
        return with_headers(found, self.headers)


def check(
    sql: str,
    dialect: str,
    *,
    max_rows: int,
    allowed_functions: Collection[str] = (),
    connection: str = "ID",
    tables: Container[str] = (),
    schema_of: SchemaOf | None = None,
    server: Server | None = None,
) -> CheckedStatement:
    """Return the statement to send: one query, rewritten from its tree, with at most `max_rows + 1` rows.

    `allowed_functions` are names in addition to the dialect's list (`name`, or `schema.name` for one in a schema);
    `connection` is the id for hints; `tables` are names that may look like files; `server` is which of several servers
    it is (None: what all of them have). An EXPLAIN gets no limit. Raises `StatementRefusedError` (code `read_only`)
    with the refused construct, or with code `query` if the text is not a valid statement. Raises `NotSupportedError`
    for a dialect without a list of functions.
    """
    syntax = dialect_named(dialect)
    if not syntax.functions():
        raise NotSupportedError(f"ktx has no list of allowed functions for the dialect `{dialect}`")
    passed = _PASSED.get((sql, syntax, max_rows, frozenset(allowed_functions), server, schema_of is None), list)
    for each in tuple(passed):
        if each.passes_again(tables, schema_of):
            return each.statement
    asked = _Asked(tables, schema_of)
    functions = FunctionList(dialect, allowed_functions, connection, server)
    statement = _checked(sql, syntax, max_rows, functions, asked, asked.schema_of if schema_of else None)
    if len(sql) <= _LONGEST_KEPT:
        passed[:] = [_Passed(statement, asked.files, asked.schemas)]
    return statement


@dataclass(frozen=True, slots=True)
class _Passed:
    """A statement that passed, and the answers about tables that its check used: with equal ones, it passes again."""

    statement: CheckedStatement
    files: Mapping[object, bool]
    schemas: Mapping[str, str | None]

    def passes_again(self, tables: Container[str], schema_of: SchemaOf | None) -> bool:
        if any((name in tables) is not answer for name, answer in self.files.items()):
            return False
        return schema_of is None or all(schema_of(name) == schema for name, schema in self.schemas.items())


class _Asked:
    """The tables for a check, which records its questions about them."""

    def __init__(self, tables: Container[str], schema_of: SchemaOf | None) -> None:
        self._tables, self._schema_of = tables, schema_of
        self.files: dict[object, bool] = {}
        self.schemas: dict[str, str | None] = {}

    def __contains__(self, name: object) -> bool:
        self.files[name] = name in self._tables
        return self.files[name]

    def schema_of(self, table: str) -> str | None:
        self.schemas[table] = self._schema_of(table) if self._schema_of else None
        return self.schemas[table]


_PASSED: Final = Recent[list[_Passed]](256)
"""The statements that passed most recently, by text and rules, because statements are often repeated."""
_LONGEST_KEPT: Final = 10_000
"""The maximum length of a cached statement."""


def _checked(
    sql: str,
    syntax: Dialect,
    max_rows: int,
    functions: FunctionList,
    tables: Container[str],
    schema_of: SchemaOf | None,
) -> CheckedStatement:
    dialect, connection = syntax.name, functions.connection
    rules = _Rules(syntax, functions, tables)
    try:
        require_short(sql)
        require_no_description(sql, dialect, connection)
        prefix, query = explained(sql, dialect)
        tree = rules.parse(query)
        if schema_of is not None:
            qualify(tree, schema_of)
        headers = written_headers(query, tree, dialect)
        text = syntax.rendered(tree if prefix else limited(tree, max_rows), copy=False)
        if text != query:
            rules.parse(text)  # The statement to send is checked too, not only the original.
        rules.require_built_in(text)
    except RecursionError:
        raise refused("size", "it", "is nested too deeply", hint=_TOO_DEEP) from None
    except PARSER_FAULTS as error:
        raise _unreadable(error, dialect) from error
    return CheckedStatement(f"{prefix} {text}".strip(), dialect, bool(prefix), () if prefix else headers)


class _Rules:
    def __init__(self, syntax: Dialect, functions: FunctionList, tables: Container[str]) -> None:
        self.syntax = syntax
        self.dialect = syntax.name
        self.functions = functions
        self.tables = tables

    def parse(self, sql: str) -> Any:
        """Return the tree of the single query in the text. Raises `StatementRefusedError`."""
        tree = without_hints(self._tree(sql))
        tree = as_query(tree) if self.syntax.pivots_are_statements else tree
        require_root(tree)
        for node in tree.walk():
            self._require(node)
        require_columns(tree, self.functions)
        require_bounded(tree, self.functions)
        return tree

    def _tree(self, sql: str) -> exp.Expr:
        from sqlglot import Dialect, ErrorLevel
        from sqlglot.errors import SqlglotError

        silence_parser()
        try:
            speaker = Dialect.get_or_raise(self.dialect)
            tokens = speaker.tokenize(sql)
            require_plain(sql, tokens)
            if self.syntax.doubled_quotes_vary:
                require_no_doubled_quote(tokens)
            require_shallow(tokens)
            parser = speaker.parser(error_level=ErrorLevel.IMMEDIATE)
            trees = parser.parse(tokens, sql)
        except SqlglotError as error:
            raise _unreadable(error, self.dialect) from None
        statements = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
        if len(statements) != 1:
            found = f"there are {len(statements)} statements" if statements else "it contains no statement"
            raise refused("statements", found, "instead of exactly one", hint=READING)
        return statements[0]

    def require_built_in(self, sql: str) -> None:
        """Raise an error for a call in the statement to send that is not built into the server, whether or not the
        parser knows it.
        """
        if not self.syntax.has_several_servers:
            return
        from sqlglot import tokenize

        tokens = tokenize(sql, self.dialect)
        known = self.functions.names | self.functions.allowed
        name = strange_call(tokens, known, self.syntax.grammar_words())
        if name is not None:
            raise self.functions.refuse(name, "is not on the list of functions that only compute")

    def _require(self, node: Any) -> None:
        if isinstance(node, exp.DataType):
            require_type(node, self.syntax, self.functions.allowed, self.functions.connection)
        if isinstance(node, exp.Func):
            self.functions.require(node)
        else:
            require_node(node, self.syntax)
        if isinstance(node, exp.Table):
            require_table(node, self.syntax, self.tables)
        elif isinstance(node, exp.TableFromRows):
            require_row_function(node)
        elif isinstance(node, exp.Operator):
            self._require_operator(node)

    def _require_operator(self, node: exp.Operator) -> None:
        """Raise an error for an operator in a schema, which is a user-defined function."""
        name = node.args["operator"] if isinstance(node.args["operator"], str) else node.args["operator"].sql()
        if not name.startswith("pg_catalog.") and name.lower() not in self.functions.allowed:
            raise self.functions.refuse(name, "is not built in, because its name has a schema")


@functools.cache
def silence_parser() -> None:
    """Keep the parser's log messages off standard error, because the caller reports errors."""
    logging.getLogger("sqlglot").addHandler(logging.NullHandler())


def _unreadable(error: Exception, dialect: str) -> Exception:
    from sqlglot.errors import ParseError

    place = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    word = str(place.get("highlight") or "")
    where = f"it (line {place.get('line')}, at `{word}`)" if place else "it"
    hint = (
        f"correct the part before `{word}`"
        if word
        else "close every parenthesis and quote, and complete the last clause"
    )
    unread = refused("syntax", where, f"cannot be parsed as {dialect}", hint=hint)
    unread.code = "query"
    return unread


_WORD: Final = re.compile(r"\s*explain\b", re.IGNORECASE)


def explained(sql: str, dialect: str) -> tuple[str, str]:
    """Return the EXPLAIN at the beginning of a statement, in normalized spelling, and the query after it.

    The first is empty without an EXPLAIN. Raises `StatementRefusedError` for options that are not on the list.
    """
    begin = _WORD.match(sql)
    if begin is None:
        return "", sql
    form = dialect_named(dialect).explain_options
    if form is None:
        raise refused("root", "`EXPLAIN`", f"is not supported by {dialect}")
    options = re.compile(rf"\s*({form})(?=[\s(])", re.IGNORECASE).match(sql, begin.end())
    if options is None:
        raise refused("root", "`EXPLAIN` with these options", "is not allowed", hint="EXPLAIN SELECT ...")
    words = " ".join(options[1].split())
    return f"EXPLAIN {words}".strip(), sql[options.end() :]


_INSTEAD_WORD: Final = re.compile(
    r"\s*(show|describe|desc|pragma|summarize|explain)\b\s*(.*)", re.IGNORECASE | re.DOTALL
)
_QUERY: Final = re.compile(r"[\s(]*(select|with|values|from)\b", re.IGNORECASE)
_TABLE: Final = re.compile(
    r"(?:(?:full|extended|formatted)\s+)*(?:(?:columns|fields|indexes|index|keys|table_info|table_xinfo)\b\s*)?"
    r"(?:(?:from|in|table)\s+)?[\s('\"`\[]*([\w$.\"`]+)",
    re.IGNORECASE,
)
_OF_A_TABLE: Final = re.compile(r"(?:(?:full|extended)\s+)*(?:columns|fields|indexes|index|keys|table_x?info)\b", re.I)


def require_no_description(sql: str, dialect: str, connection: str) -> None:
    """Raise an error for a statement that describes a table; the hint is a query or command with the same result."""
    found = _INSTEAD_WORD.match(sql)
    if found is None:
        return
    word, rest = found[1].upper(), found[2].strip().rstrip(";")
    syntax = dialect_named(dialect)
    if word == "EXPLAIN" and not (syntax.explain_describes and re.fullmatch(r"[\w`.]+", rest)):
        return
    raise refused("root", f"`{word}`", "is not a query", hint=_answer(word, rest, syntax, connection))


def catalog_query(dialect: str, table: str | None = None) -> str:
    """Return the query that lists the tables of a database, or the columns of one table.

    If no query reads the catalog, it is the command that shows what was scanned.
    """
    syntax = dialect_named(dialect)
    if not syntax.tables_query:
        return Command("sl", "list") if table is None else Command("sl", "read", table)
    if table is None:
        return syntax.tables_query
    return syntax.columns_query.format(table.replace("'", syntax.quote_in_texts))


def _answer(word: str, rest: str, syntax: Dialect, connection: str) -> str:
    scan = Command("scan", connection, "--depth", "profile")
    if word == "SUMMARIZE":
        return f"{scan} counts and profiles columns"
    if _QUERY.match(rest):
        return READING
    if word == "SHOW" and syntax.has_settings and rest.lower() in SETTINGS:
        return f"SELECT current_setting('{rest}')"
    named = _TABLE.match(rest) if word != "SHOW" or _OF_A_TABLE.match(rest) else None
    if word == "PRAGMA" and not _OF_A_TABLE.match(rest):
        named = None
    table = named[1].strip("\"`'").rpartition(".")[2].strip("\"`'") if named else None
    return catalog_query(syntax.name, table or None)


@dataclass(frozen=True, slots=True)
class StatementPolicy:
    """A connection's settings for raw SQL: `query_policy` and `allowed_functions`."""

    connection: str
    raw_sql: bool = True
    allowed_functions: tuple[str, ...] = ()

    @classmethod
    def of(cls, connection: str, options: Mapping[str, Any]) -> StatementPolicy:
        """Return the policy in a connection's fields, by their names in `ktx.yaml`."""
        raw_sql = options.get("query_policy") != "semantic-layer-only"
        return cls(connection, raw_sql, tuple(options.get("allowed_functions") or ()))

    def require_raw_sql(self) -> None:
        """Raise `UsageError` if the connection only answers semantic layer queries."""
        if not self.raw_sql:
            raise UsageError(
                f"connection `{self.connection}` does not allow raw SQL: its query_policy is semantic-layer-only",
                hint=Hint(
                    "to allow raw SQL: {}",
                    Command("config", "set", f"connections.{self.connection}.query_policy", "any"),
                ),
                details={"connection": self.connection, "query_policy": "semantic-layer-only"},
            )

    def check(
        self,
        sql: str,
        dialect: str,
        *,
        max_rows: int,
        tables: Container[str] = (),
        schema_of: SchemaOf | None = None,
        server: Server | None = None,
    ) -> CheckedStatement:
        """Return the statement to send. Raises the errors of `check`, or `UsageError` if raw SQL is disabled."""
        self.require_raw_sql()
        return check(
            sql,
            dialect,
            max_rows=max_rows,
            allowed_functions=self.allowed_functions,
            connection=self.connection,
            tables=tables,
            schema_of=schema_of,
            server=server,
        )


MAX_CHARACTERS: Final = 100_000
"""The maximum length of a statement in characters."""

MAX_TOKENS: Final = 20_000
"""The maximum number of words, numbers and symbols in a statement."""

MAX_DEPTH: Final = 60
"""The maximum nesting of parentheses and CASE; the parser itself stops at about 100."""

MAX_CHAIN: Final = 400
"""The maximum number of consecutive operators (||, +, ::, UNION ...) on one level, except AND and OR."""

_EXECUTABLE = re.compile(r"/\*M?!")
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_CHAINED = frozenset(
    {"NOT", "DPIPE", "PLUS", "DASH", "STAR", "SLASH", "DIV", "MOD", "CARET", "AMP", "PIPE", "TILDE", "ARROW", "DARROW"}
    | {"UNION", "EXCEPT", "INTERSECT", "DCOLON", "DOT", "COLLATE"}
)
_HINT = "split the statement into smaller ones"


def require_short(sql: str) -> None:
    """Raise an error for a statement that is too long to check."""
    if len(sql) > MAX_CHARACTERS:
        raise refused("size", "it", f"has {len(sql):,} characters, more than {MAX_CHARACTERS:,}", hint=_HINT)


def require_plain(sql: str, tokens: Sequence[Any]) -> None:
    """Raise an error for invisible characters outside strings, and for comments that some servers execute."""
    rest = _without_texts(sql, tokens)
    if _EXECUTABLE.search(rest):
        raise refused("comment", "a comment `/*!`", "is executed by MySQL and MariaDB", hint="remove the comment")
    if "\0" in sql:
        raise refused("character", "the character NUL", "ends a statement on some servers", hint="remove it")
    for position, character in enumerate(rest):
        if not _is_plain(character):
            name = unicodedata.name(character, f"U+{ord(character):04X}")
            hint = "remove it"
            raise refused("character", f"the character {name}", f"at position {position + 1} is invisible", hint=hint)


def require_no_doubled_quote(tokens: Sequence[Any]) -> None:
    """Raise an error for a string that follows another one at once, because it may be the same string for a server."""
    for token, behind in itertools.pairwise(tokens):
        names = (token.token_type.name, behind.token_type.name)
        if names == ("STRING", "STRING") and token.end + 1 == behind.start:
            why = "means different strings in different versions"
            raise refused("syntax", "a doubled quote in a string", why, hint="write a backslash before the quote")


def _without_texts(sql: str, tokens: Sequence[Any]) -> str:
    """Return the statement with every string blanked, at the same positions."""
    pieces, behind = [], 0
    for token in tokens:
        if token.token_type.name.endswith("STRING"):
            pieces += [sql[behind : token.start], " " * (token.end + 1 - token.start)]
            behind = token.end + 1
    return "".join([*pieces, sql[behind:]])


def _is_plain(character: str) -> bool:
    """Return whether a character is visible, or is a blank or line end that servers recognize."""
    return character in " \t\n\r" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")


def require_shallow(tokens: Sequence[Any]) -> None:
    """Raise an error for a statement whose tree would be too deep or too large."""
    if len(tokens) > MAX_TOKENS:
        raise refused("size", "it", f"has {len(tokens):,} words and symbols, more than {MAX_TOKENS:,}", hint=_HINT)
    chains = [0]
    for token in tokens:
        kind = token.token_type.name
        if kind in _OPENING:
            chains.append(0)
        elif kind in _CLOSING and len(chains) > 1:
            chains.pop()
        elif kind in _CHAINED:
            chains[-1] += 1
        elif kind == "COMMA":
            chains[-1] = 0
        if len(chains) > MAX_DEPTH:
            raise refused("size", "it", f"is nested more than {MAX_DEPTH} levels deep", hint=_HINT)
        if chains[-1] > MAX_CHAIN:
            raise refused("size", "it", f"has a chain of more than {MAX_CHAIN} operators", hint=_HINT)


_NAME: Final = r"[\"'`\[]*(?P<name>[^\"'`\]\s,;:()]+)"
_COLUMN: Final = re.compile(
    rf"(?:no such column: |unknown column |referenced column |invalid column name |(?<!\w)column (?:named )?|"
    rf"invalid identifier |unrecognized name: |unknown expression identifier |parameter with name ){_NAME}",
    re.IGNORECASE,
)
_UNKNOWN_TABLE: Final = re.compile(
    rf"(?:no such table: |table with name |relation |invalid object name |object |unknown table expression identifier |"
    rf"not found: table |the table or view |(?<!\w)table ){_NAME}",
    re.IGNORECASE,
)
_SUGGESTION: Final = re.compile(
    r"\s*(?:Candidate bindings: (?:: )?|(?:HINT:\s*)?Did you mean )\"(?P<name>[^\"]+)\".*", re.DOTALL
)
_MISSING: Final = re.compile(
    r"no such|unknown|not found|does(?: not|n't) (?:exist|have a column)|invalid|unrecognized|"
    r"cannot be (?:resolved|found)",
    re.IGNORECASE,
)


def with_hint(
    error: SourceError, dialect: str, tables: Iterable[tuple[str, ...]], columns: Iterable[str]
) -> SourceError:
    """Return a database's error with a hint: a similar name in `tables` or `columns`, or else how to list the names.

    `tables` are names by their parts. A suggested name is as a statement needs it: with its schema, and quoted if
    necessary. An existing hint is only replaced by a similar name. Errors that do not concern the statement are
    unchanged.
    """
    if error.code != "query":
        return error
    text = error.problem
    column = _near(_missing(text, _COLUMN), columns)
    near = [(column,)] if column else _near_tables(_missing(text, _UNKNOWN_TABLE), list(tables))
    named = [_written(parts, dialect) for parts in near] or [each for each in [_suggested(text)] if each]
    error.hint = _one_of(named) or error.hint or _listed(text, dialect)
    error.message = _SUGGESTION.sub("", error.message).rstrip()
    return error


def _one_of(names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"similar names: {listing(names)}"
    return "".join(f"did you mean {name if '`' in name else f'`{name}`'}?" for name in names)


def names_are_missing(error: SourceError) -> bool:
    """Return whether a database's error concerns a missing table or column."""
    return _MISSING.search(error.message) is not None


def _suggested(text: str) -> str | None:
    """Return the name that the database itself suggests, if it is similar: DuckDB suggests one in any case."""
    found = _SUGGESTION.search(text)
    missing = _COLUMN.search(text) or _UNKNOWN_TABLE.search(text)
    if found is None or missing is None:
        return found["name"] if found else None
    word, suggested = _last(missing["name"]), _last(found["name"])
    is_similar = did_you_mean(word, [suggested]) or {*word.lower().split("_")} & {*suggested.lower().split("_")}
    return found["name"] if is_similar else None


def _missing(text: str, pattern: re.Pattern[str]) -> str:
    """Return the missing name in a database's error, or an empty text."""
    found = pattern.search(text) if _MISSING.search(text) else None
    return found["name"].rstrip(".!") if found else ""


def _near(missing: str, known: Iterable[str]) -> str | None:
    """Return a known name that is similar to the missing one, or None if the name exists elsewhere."""
    name, names = _last(missing), list(known)
    return did_you_mean(name, names) if name and name not in names else None


def _near_tables(missing: str, tables: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the tables with a name similar to the missing one, if possible in its schema.

    A table of the same name only counts if the missing one has another schema.
    """
    schema, _, name = missing.rpartition(".")
    near = _near(name, [parts[-1] for parts in tables])
    if near is None and schema:
        near = name
    found = [parts for parts in dict.fromkeys(tables) if parts[-1] == near]
    within = [parts for parts in found if parts[-2:-1] == (_last(schema),)]
    if near == name:
        return [] if within else [parts for parts in found if len(parts) > 1]
    return within or found


def _written(parts: Sequence[str], dialect: str) -> str:
    """Return a name as a statement contains it, quoted if it would mean something else otherwise."""
    from sqlglot import Dialect

    speaker = Dialect.get_or_raise(dialect)
    reserved = {word for each in speaker.tokenizer_class.KEYWORDS for word in each.lower().split()}
    reserved |= speaker.generator_class.RESERVED_KEYWORDS
    folds = speaker.normalization_strategy.value in ("LOWERCASE", "UPPERCASE")

    def written(part: str) -> str:
        is_plain = _PLAIN.fullmatch(part) and part.lower() not in reserved
        return part if is_plain and not (folds and speaker.case_sensitive(part)) else dialect_named(dialect).quote(part)

    return ".".join(map(written, parts))


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _listed(text: str, dialect: str) -> str:
    if not _MISSING.search(text):
        return f"correct the statement for {dialect}"
    if _COLUMN.search(text):
        return Hint("to list the columns of a table: {}", catalog_query(dialect, "TABLE"))
    if _UNKNOWN_TABLE.search(text):
        return Hint("to list the tables: {}", catalog_query(dialect))
    return f"correct the statement for {dialect}"


def _last(name: str) -> str:
    return name.rstrip(".!").rpartition(".")[2]
