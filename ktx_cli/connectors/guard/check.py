"""The filter: a statement in, the statement that may be sent out, or the reason why not."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.connectors.guard.bounds import require_bounded
from ktx_cli.connectors.guard.columns import require_columns
from ktx_cli.connectors.guard.errors import READING, refused
from ktx_cli.connectors.guard.explain import explained
from ktx_cli.connectors.guard.functions import GUARDED_DIALECTS, FunctionList
from ktx_cli.connectors.guard.headers import Headers, with_headers, written_headers
from ktx_cli.connectors.guard.instead import require_no_description
from ktx_cli.connectors.guard.limits import require_plain, require_shallow, require_short
from ktx_cli.connectors.guard.names import qualify
from ktx_cli.connectors.guard.nodes import require_node, require_root
from ktx_cli.connectors.guard.render import as_query, limited, rendered, without_hints
from ktx_cli.connectors.guard.servers import Server
from ktx_cli.connectors.guard.tables import require_row_function, require_table
from ktx_cli.connectors.guard.types import require_type
from ktx_cli.connectors.guard.written import CHECKED, strange_call
from ktx_cli.core.errors import NotSupportedError

if TYPE_CHECKING:
    from sqlglot import exp

SchemaOf = Callable[[str], str | None]
"""The schema of a table that is named without one, or None to leave the name as it is."""

_PARSER_FAULTS: Final = (ValueError, LookupError, AttributeError, TypeError, AssertionError, NotImplementedError)
"""What the parser raises of texts it did not foresee, besides its own errors."""

_TOO_DEEP: Final = "split it into smaller statements"


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that only reads: `sql` is to be sent, never the text it came from.

    `headers` are those of its columns that the database would have taken from the text it came from.
    """

    sql: str
    dialect: str
    explains: bool = False
    headers: Headers = ()

    def columns(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns as the database gives them for the user's own text."""
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
    """Return the statement to send: one query, written from its tree, with at most `max_rows + 1` rows.

    `allowed_functions` are names besides the dialect's list (`name`, or `schema.name` for one of a schema's own);
    `connection` is the id that hints name; `tables` are names that may look like files; `server` is which of several
    speaks the dialect (None: what all of them have). An EXPLAIN gets no limit. Raises `StatementRefusedError` (code
    `read_only`) with the construct that is not let through, and, where the text is no statement of the dialect, with
    code `query`. `NotSupportedError`: a dialect without a list of functions.
    """
    if dialect not in GUARDED_DIALECTS:
        raise NotSupportedError(f"there is no list of functions for the dialect `{dialect}`")
    rules = _Rules(dialect, FunctionList(dialect, allowed_functions, connection, server), tables)
    try:
        require_short(sql)
        require_no_description(sql, dialect, connection)
        prefix, query = explained(sql, dialect)
        tree = rules.parse(query)
        if schema_of is not None:
            qualify(tree, schema_of)
        headers = written_headers(query, tree, dialect)
        text = rendered(tree if prefix else limited(tree, max_rows), dialect)
        rules.parse(text, again=True)  # what is sent is checked too, not only what it was written from
    except RecursionError:
        raise refused("size", "it", "is nested too deep", hint=_TOO_DEEP) from None
    except _PARSER_FAULTS as error:
        raise _unreadable(error, dialect) from error
    return CheckedStatement(f"{prefix} {text}".strip(), dialect, bool(prefix), () if prefix else headers)


class _Rules:
    def __init__(self, dialect: str, functions: FunctionList, tables: Container[str]) -> None:
        self.dialect = dialect
        self.functions = functions
        self.tables = tables

    def parse(self, sql: str, *, again: bool = False) -> Any:
        """Return the tree of the one query in the text (`again`: in what is sent); raises `StatementRefusedError`."""
        tree = as_query(without_hints(self._tree(sql, again)), self.dialect)
        require_root(tree)
        for node in tree.walk():
            self._require(node)
        require_columns(tree, self.functions)
        require_bounded(tree, self.functions)
        return tree

    def _tree(self, sql: str, again: bool) -> exp.Expr:
        from sqlglot import Dialect, ErrorLevel, exp
        from sqlglot.errors import SqlglotError

        _quiet()
        try:
            speaker = Dialect.get_or_raise(self.dialect)
            tokens = speaker.tokenize(sql)
            require_plain(sql, tokens)
            require_shallow(tokens)
            if self.dialect in CHECKED and again:
                self._require_built_in(tokens)
            parser = speaker.parser(error_level=ErrorLevel.IMMEDIATE)
            trees = parser.parse(tokens, sql)
        except SqlglotError as error:
            raise _unreadable(error, self.dialect) from None
        statements = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
        if len(statements) != 1:
            found = f"there are {len(statements)} statements" if statements else "there is no statement in it"
            raise refused("statements", found, "where one is wanted", hint=READING)
        return statements[0]

    def _require_built_in(self, tokens: Sequence[Any]) -> None:
        """Raise for a call in the text that is sent of what the server has not built in, whatever the parser knows."""
        name = strange_call(tokens, self.functions.names | self.functions.allowed)
        if name is not None:
            raise self.functions.refuse(name, "is not on the list of functions that only compute")

    def _require(self, node: Any) -> None:
        from sqlglot import exp

        if isinstance(node, exp.DataType):
            require_type(node, self.dialect, self.functions.allowed, self.functions.connection)
        if isinstance(node, exp.Func):
            self.functions.require(node)
        else:
            require_node(node, self.dialect)
        if isinstance(node, exp.Table):
            require_table(node, self.dialect, self.tables)
        elif isinstance(node, exp.TableFromRows):
            require_row_function(node)
        elif isinstance(node, exp.Operator):
            self._require_operator(node)

    def _require_operator(self, node: exp.Operator) -> None:
        """Raise for an operator of a schema: it is a function of its own."""
        name = node.args["operator"] if isinstance(node.args["operator"], str) else node.args["operator"].sql()
        if not name.startswith("pg_catalog.") and name.lower() not in self.functions.allowed:
            raise self.functions.refuse(name, "is not built in: its name has a schema")


@functools.cache
def _quiet() -> None:
    """Keep the parser from writing on stderr what it does not know: the filter says it."""
    logging.getLogger("sqlglot").addHandler(logging.NullHandler())


def _unreadable(error: Exception, dialect: str) -> Exception:
    from sqlglot.errors import ParseError

    place = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    word = str(place.get("highlight") or "")
    where = f"it (line {place.get('line')}, at `{word}`)" if place else "it"
    hint = f"correct what stands before `{word}`" if word else "close every bracket and quote, and end the last clause"
    unread = refused("syntax", where, f"cannot be read as {dialect}", hint=hint)
    unread.code = "query"
    return unread
