"""The functions that a statement may call, and the error for a refused statement.

A list contains what only computes or reads the catalog: by name per dialect, and by the parser's class. Everything else
is refused, with the setting that allows it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from ktx_cli.core import Command, Hint, SourceError, one_line
from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import dialect_named, words_in

READING = "write a single SELECT statement; to change data, use the database's own client"


class StatementRefusedError(SourceError):
    """Raised for a statement that was not sent. `details`: the broken `rule` and the `construct`."""

    code = "read_only"


def refused(rule: str, construct: str, why: str, *, hint: str = READING, **details: Any) -> StatementRefusedError:
    """Return the error for a construct. `why` continues the sentence that begins with the construct.

    The construct comes from the statement, so it is shortened and stripped of control characters.
    """
    shown = one_line(construct, 80)
    message = f"the statement was not run: {shown} {why}"
    return StatementRefusedError(message, hint=hint, details={"rule": rule, "construct": shown, **details})


def refused_function(name: str, connection: str, allowed: Iterable[str], why: str) -> StatementRefusedError:
    """Return the error for a function, with the command that allows it on this connection unless it is harmful."""
    forms = (name.lower(), name.lower().rpartition(".")[2])
    if any(fnmatchcase(form, pattern) for form in forms for pattern in _harmful()):
        does = "does more than compute"
        return refused(
            "function", f"the function `{name}`", does, hint="rewrite the statement without the function", function=name
        )
    names = sorted({*(each.lower() for each in allowed), name.lower()})
    setting = Command("config", "set", f"connections.{connection}.allowed_functions", _flow(names))
    return refused(
        "function",
        f"the function `{name}`",
        why,
        hint=Hint("if the function only reads, allow it: {}", setting),
        function=name,
    )


@functools.cache
def _harmful() -> tuple[str, ...]:
    return tuple(read_words("harmful.txt"))


def _flow(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def read_words(name: str) -> list[str]:
    """Return the words in one of the package's text files."""
    return words_in(__package__, name)


SETTINGS: Final = frozenset(
    {"timezone", "datestyle", "intervalstyle", "server_version", "server_version_num", "server_encoding"}
    | {"client_encoding", "lc_collate", "lc_ctype", "lc_monetary", "lc_numeric", "lc_time", "default_collation"}
    | {"calendar", "default_order", "default_null_order", "statement_timeout", "transaction_read_only"}
)
"""The settings whose values `current_setting` may return."""

ROW_PATTERN: Final = frozenset({"prev", "next", "first", "last", "classifier", "match_number", "running", "final"})
"""Functions in MATCH_RECOGNIZE for which the parser has no classes; elsewhere, these names are unknown."""

_CALLED: Final = re.compile(r"(\w+)\(")
_NAMELESS: Final = frozenset({"CombinedAggFunc", "CombinedParameterizedAgg", "ParameterizedAgg", "AnonymousAggFunc"})


class FunctionList:
    """Decides which functions of a dialect may be called, including those that a connection allows."""

    def __init__(
        self, dialect: str, allowed: Collection[str] = (), connection: str = "ID", server: Server | None = None
    ) -> None:
        self.dialect = dialect
        self.syntax = dialect_named(dialect)
        self.connection = connection
        self.allowed = frozenset(name.lower() for name in allowed)
        self.names = listed(dialect, server)

    def require(self, function: exp.Func) -> None:
        """Raise an error unless the function may be called in its position."""
        if self.allows(function):
            return
        place = place_of(function)
        if place and place not in self.syntax.free_places:
            raise self.refuse(f"{place}.{self.name_of(function)}", "is not built in, because its name has a schema")
        if not self._is_listed(function):
            name = f"{place}.{self.name_of(function)}" if place else self.name_of(function)
            raise self.refuse(name, "is not on the list of functions that only compute")
        if type(function).__name__ == "Anonymous" and function.name.lower() == "current_setting":
            self._require_setting(function)

    def name_of(self, function: exp.Func) -> str:
        """Return a function's name in the dialect."""
        return names_of(function, self.dialect)[0]

    def allows(self, function: exp.Func) -> bool:
        """Return whether the connection's own setting allows the function."""
        if not self.allowed:
            return False
        place = place_of(function)
        return any((f"{place}.{name}" if place else name) in self.allowed for name in names_of(function, self.dialect))

    def refuse(self, name: str, why: str) -> Exception:
        """Return the error for a function, with the setting that allows it."""
        return refused_function(name, self.connection, self.allowed, why)

    def refuse_size(self, function: exp.Func, why: str, most: int) -> Exception:
        """Return the error for a function that generates too much data. `most`: the maximum to name in the hint."""
        name = self.name_of(function)
        hint = f"set its size to a literal number of at most {most:,}"
        return refused("size", f"the function `{name}`", why, hint=hint, function=name)

    def _require_setting(self, function: exp.Func) -> None:
        """Raise an error unless the requested setting is harmless."""
        name = function.expressions[0] if function.expressions else None
        shown = name.name if name is not None and name.is_string else "a setting whose name is not a string literal"
        if shown.lower() not in SETTINGS:
            hint = f"readable settings: {', '.join(sorted(SETTINGS))}"
            raise refused("setting", f"the setting `{shown}`", "is not on the list of harmless settings", hint=hint)

    def _is_listed(self, function: exp.Func) -> bool:
        kind = type(function).__name__
        if kind == "Anonymous" and function.name.lower() in ROW_PATTERN and _is_in_row_pattern(function):
            return True
        if kind == "Anonymous":
            return self._folds_name(function) and function.name.lower() in self.names
        if kind in _NAMELESS:
            return self.syntax.combines_aggregates
        return kind in known_classes()

    def _folds_name(self, function: exp.Func) -> bool:
        """Return whether a name belongs to a listed function. A quoted name with capitals may belong to another
        function.
        """
        name = function.this
        quoted = isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))
        return not quoted or name.name == name.name.lower() or self.syntax.folds_function_names


def names_of(function: exp.Func, dialect: str) -> tuple[str, ...]:
    """Return the lower-case names of a function, starting with the dialect's own."""
    if type(function).__name__ == "Anonymous" or type(function).__name__ in _NAMELESS:
        return (function.name.lower(),)
    # The parser treats AND and OR as functions; rendering each of a thousand joined conditions would take minutes.
    written = None if isinstance(function, exp.Connector) else _CALLED.match(function.sql(dialect))
    known = tuple(name.lower() for name in type(function).sql_names())
    return ((written[1].lower(), *known) if written else known) or (type(function).__name__.lower(),)


def place_of(function: exp.Func) -> str:
    """Return the lower-case schema of a function (`public`, `db.schema`), or an empty string."""
    parent = function.parent
    if isinstance(parent, exp.Table) and parent.this is function:
        return ".".join(part.name.lower() for part in (parent.args.get("catalog"), parent.args.get("db")) if part)
    if isinstance(parent, exp.Dot) and parent.expression is function:
        return ".".join(_path(parent.this)).lower()
    return ""


def _path(node: exp.Expr) -> Iterator[str]:
    """Yield the names of `a.b` in `a.b.f(x)`; none if the left side is a value, as in `'x'.upper()`."""
    if isinstance(node, exp.Dot):
        yield from _path(node.this)
        yield from _path(node.expression)
    elif isinstance(node, exp.Identifier):
        yield node.name
    elif isinstance(node, exp.Column):
        yield from (part.name for part in node.parts)


def _is_in_row_pattern(function: exp.Func) -> bool:
    return not place_of(function) and function.find_ancestor(exp.MatchRecognize) is not None


@functools.cache
def listed(dialect: str, server: Server | None = None) -> frozenset[str]:
    """Return the lower-case names on a dialect's list, including those for the server."""
    syntax = dialect_named(dialect)
    lists = server.lists if server is not None else ()
    own = (holds(word, server.version) for each in lists for word in syntax.server_functions(each)) if server else ()
    return syntax.functions() | {word for word in own if word}


@functools.cache
def known_classes() -> frozenset[str]:
    """Return the parser's function classes that only compute."""
    return frozenset(read_words("functions.txt"))


Version = tuple[int, ...]

_NUMBER: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_MARIADB: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)-MariaDB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """A server's additional function lists, and its version.

    A name with a version (`json_table@8.0.4`) is valid from that version on.
    """

    lists: tuple[str, ...]
    version: Version


EITHER: Final = Server(("mysql", "mariadb"), (99,))
"""A server with an unknown version, for a first check before a connection is opened."""


def server_of(version: str) -> Server:
    """Return the server for the `version` returned by its `SELECT VERSION()`."""
    mariadb = _MARIADB.search(version)
    found = mariadb or _NUMBER.search(version)
    number = tuple(int(part or 0) for part in found.groups()) if found else ()
    return Server(("mariadb" if "mariadb" in version.lower() else "mysql",), number)


def holds(word: str, version: Version) -> str:
    """Return the lower-case name in a list's word, or an empty string if the server is older than the function."""
    name, _, since = word.lower().partition("@")
    return name if version >= tuple(int(part) for part in since.split(".") if part) else ""


_WORD: Final = re.compile(r"[\w$]+")


def calls(tokens: Sequence[Any], words: Container[str]) -> Iterator[tuple[str, bool]]:
    """Yield the lower-case word before each opening parenthesis that may call something, and whether it is quoted.

    Names of tables with their columns (`AS t (a)`, `WITH t (a) AS (`) and the `words` of the grammar are not calls.
    """
    for place, token in enumerate(tokens[1:], start=1):
        before = tokens[place - 1]
        if token.token_type.name != "L_PAREN" or not _is_word(before) or _is_named(tokens, place):
            continue
        quoted = before.token_type.name == "IDENTIFIER"
        if quoted or before.text.lower() not in words:
            yield before.text.lower(), quoted


def strange_call(tokens: Sequence[Any], known: Container[str], words: Container[str]) -> str | None:
    """Return the first call to an unknown name, or to a quoted name that may be another function."""
    return next((name for name, quoted in calls(tokens, words) if quoted or name not in known), None)


def _is_word(token: Any) -> bool:
    return token.token_type.name == "IDENTIFIER" or _WORD.fullmatch(token.text) is not None


def _is_named(tokens: Sequence[Any], opening: int) -> bool:
    """Return whether the word before a parenthesis defines a name or has a schema, which the tree check covers."""
    if opening >= 2 and tokens[opening - 2].text.upper() in ("AS", "."):
        return True
    end = _closing(tokens, opening)
    if tokens[opening - 1].text.upper() == "JSON_TABLE":  # Not in the grammar of any call.
        return any(token.text.upper() == "COLUMNS" for token in tokens[opening:end])
    return [token.text.upper() for token in tokens[end + 1 : end + 3]] == ["AS", "("]


def _closing(tokens: Sequence[Any], opening: int) -> int:
    """Return the position of the parenthesis that closes the one at `opening`, or of the end of the text."""
    depth = 0
    for place in range(opening, len(tokens)):
        kind = tokens[place].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0:
            return place
    return len(tokens)
