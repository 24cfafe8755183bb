"""The functions a statement may call, and the error of a statement that the guard does not let through.

A list names what only computes or reads the catalog: those of dialects, and what the parser knows by class. Everything
else is refused, with the setting that allows it.
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

READING = "write one SELECT statement; change data with the database's own client"


class StatementRefusedError(SourceError):
    """A statement that was not sent; `details["rule"]` says which rule it breaks, `details["construct"]` with what."""

    code = "read_only"


def refused(rule: str, construct: str, why: str, *, hint: str = READING, **details: Any) -> StatementRefusedError:
    """Return the error for a construct; `why` continues the sentence that begins with the construct.

    The construct comes from the statement: it is shortened and stripped of control characters.
    """
    shown = one_line(construct, 80)
    message = f"the statement was not run: {shown} {why}"
    return StatementRefusedError(message, hint=hint, details={"rule": rule, "construct": shown, **details})


def refused_function(name: str, connection: str, allowed: Iterable[str], why: str) -> StatementRefusedError:
    """Return the error for a function, with the command that allows it on this connection unless it is harmful."""
    forms = (name.lower(), name.lower().rpartition(".")[2])
    if any(fnmatchcase(form, pattern) for form in forms for pattern in _harmful()):
        does = "does more than compute"
        return refused("function", f"the function `{name}`", does, hint="write the statement without it", function=name)
    names = sorted({*(each.lower() for each in allowed), name.lower()})
    setting = Command("config", "set", f"connections.{connection}.allowed_functions", _flow(names))
    return refused("function", f"the function `{name}`", why, hint=Hint("if it only reads: {}", setting), function=name)


@functools.cache
def _harmful() -> tuple[str, ...]:
    return tuple(read_words("harmful.txt"))


def _flow(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def read_words(name: str) -> list[str]:
    """Return the words of one of the package's text files."""
    return words_in(__package__, name)


SETTINGS: Final = frozenset(
    {"timezone", "datestyle", "intervalstyle", "server_version", "server_version_num", "server_encoding"}
    | {"client_encoding", "lc_collate", "lc_ctype", "lc_monetary", "lc_numeric", "lc_time", "default_collation"}
    | {"calendar", "default_order", "default_null_order", "statement_timeout", "transaction_read_only"}
)
"""The settings whose values `current_setting` may tell."""

ROW_PATTERN: Final = frozenset({"prev", "next", "first", "last", "classifier", "match_number", "running", "final"})
"""Functions of MATCH_RECOGNIZE that the parser has no classes for; outside of it they are unknown names."""

_CALLED: Final = re.compile(r"(\w+)\(")
_NAMELESS: Final = frozenset({"CombinedAggFunc", "CombinedParameterizedAgg", "ParameterizedAgg", "AnonymousAggFunc"})


class FunctionList:
    """Says which functions of a dialect may be called, with those a connection allows besides."""

    def __init__(
        self, dialect: str, allowed: Collection[str] = (), connection: str = "ID", server: Server | None = None
    ) -> None:
        self.dialect = dialect
        self.syntax = dialect_named(dialect)
        self.connection = connection
        self.allowed = frozenset(name.lower() for name in allowed)
        self.names = listed(dialect, server)

    def require(self, function: exp.Func) -> None:
        """Raise unless the function may be called, at the place it is named at."""
        if self.allows(function):
            return
        place = place_of(function)
        if place and place not in self.syntax.free_places:
            raise self.refuse(f"{place}.{self.name_of(function)}", "is not built in: its name has a schema")
        if not self._is_listed(function):
            name = f"{place}.{self.name_of(function)}" if place else self.name_of(function)
            raise self.refuse(name, "is not on the list of functions that only compute")
        if type(function).__name__ == "Anonymous" and function.name.lower() == "current_setting":
            self._require_setting(function)

    def name_of(self, function: exp.Func) -> str:
        """Return the name a function is called by in the dialect."""
        return names_of(function, self.dialect)[0]

    def allows(self, function: exp.Func) -> bool:
        """Whether the connection's own setting allows the function."""
        if not self.allowed:
            return False
        place = place_of(function)
        return any((f"{place}.{name}" if place else name) in self.allowed for name in names_of(function, self.dialect))

    def refuse(self, name: str, why: str) -> Exception:
        """Return the error for a function, with the setting that allows it."""
        return refused_function(name, self.connection, self.allowed, why)

    def refuse_size(self, function: exp.Func, why: str, most: int) -> Exception:
        """Return the error for a function that makes too much; `most` is what may be written as its number."""
        name = self.name_of(function)
        hint = f"write its size as a number of at most {most:,}"
        return refused("size", f"the function `{name}`", why, hint=hint, function=name)

    def _require_setting(self, function: exp.Func) -> None:
        """Raise unless it is a harmless setting whose value is asked for."""
        name = function.expressions[0] if function.expressions else None
        shown = name.name if name is not None and name.is_string else "a setting that is not named by a text"
        if shown.lower() not in SETTINGS:
            hint = f"these can be read: {', '.join(sorted(SETTINGS))}"
            raise refused("setting", f"the setting `{shown}`", "is not on the list of harmless ones", hint=hint)

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
        """Whether a name is that of the listed function: quoted, with capitals, it may be another one."""
        name = function.this
        quoted = isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))
        return not quoted or name.name == name.name.lower() or self.syntax.folds_function_names


def names_of(function: exp.Func, dialect: str) -> tuple[str, ...]:
    """Return the names a function is called by, in lower case, the one of the dialect first."""
    if type(function).__name__ == "Anonymous" or type(function).__name__ in _NAMELESS:
        return (function.name.lower(),)
    # AND and OR are functions to the parser; a text of each of a thousand joined conditions would take minutes.
    written = None if isinstance(function, exp.Connector) else _CALLED.match(function.sql(dialect))
    known = tuple(name.lower() for name in type(function).sql_names())
    return ((written[1].lower(), *known) if written else known) or (type(function).__name__.lower(),)


def place_of(function: exp.Func) -> str:
    """Return the schema a function is named with (`public`, `db.schema`), in lower case; empty for none."""
    parent = function.parent
    if isinstance(parent, exp.Table) and parent.this is function:
        return ".".join(part.name.lower() for part in (parent.args.get("catalog"), parent.args.get("db")) if part)
    if isinstance(parent, exp.Dot) and parent.expression is function:
        return ".".join(_path(parent.this)).lower()
    return ""


def _path(node: exp.Expr) -> Iterator[str]:
    """Yield the names of `a.b` in `a.b.f(x)`; none where the left is a value, as in `'x'.upper()`."""
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
    """Return the names on a dialect's list, in lower case, with those that the server has besides."""
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
    """The lists besides the dialect's own that hold on a server, and its version.

    A name on a list with a version (`json_table@8.0.4`) holds from that version on.
    """

    lists: tuple[str, ...]
    version: Version


EITHER: Final = Server(("mysql", "mariadb"), (99,))
"""A server that is not asked yet: for a first look, before a connection is opened."""


def server_of(version: str) -> Server:
    """Return the server that gives `version` for its `SELECT VERSION()`."""
    mariadb = _MARIADB.search(version)
    found = mariadb or _NUMBER.search(version)
    number = tuple(int(part or 0) for part in found.groups()) if found else ()
    return Server(("mariadb" if "mariadb" in version.lower() else "mysql",), number)


def holds(word: str, version: Version) -> str:
    """Return the name of a word of a list, in lower case, empty where the server is older than it."""
    name, _, since = word.lower().partition("@")
    return name if version >= tuple(int(part) for part in since.split(".") if part) else ""


_WORD: Final = re.compile(r"[\w$]+")


def calls(tokens: Sequence[Any], words: Container[str]) -> Iterator[tuple[str, bool]]:
    """Yield the word before each opening bracket that may call something, in lower case, and whether it is quoted.

    Names of tables with their columns (`AS t (a)`, `WITH t (a) AS (`) and the `words` of the grammar are no calls.
    """
    for place, token in enumerate(tokens[1:], start=1):
        before = tokens[place - 1]
        if token.token_type.name != "L_PAREN" or not _is_word(before) or _is_named(tokens, place):
            continue
        quoted = before.token_type.name == "IDENTIFIER"
        if quoted or before.text.lower() not in words:
            yield before.text.lower(), quoted


def strange_call(tokens: Sequence[Any], known: Container[str], words: Container[str]) -> str | None:
    """Return the first call of a name that is not known, or that is quoted and so may be another's."""
    return next((name for name, quoted in calls(tokens, words) if quoted or name not in known), None)


def _is_word(token: Any) -> bool:
    return token.token_type.name == "IDENTIFIER" or _WORD.fullmatch(token.text) is not None


def _is_named(tokens: Sequence[Any], opening: int) -> bool:
    """Whether the word before a bracket is a name that is given there, or one with a schema, checked in the tree."""
    if opening >= 2 and tokens[opening - 2].text.upper() in ("AS", "."):
        return True
    end = _closing(tokens, opening)
    if tokens[opening - 1].text.upper() == "JSON_TABLE":  # in the grammar of no call
        return any(token.text.upper() == "COLUMNS" for token in tokens[opening:end])
    return [token.text.upper() for token in tokens[end + 1 : end + 3]] == ["AS", "("]


def _closing(tokens: Sequence[Any], opening: int) -> int:
    """Return the place of the bracket that closes the one at `opening`, or of the end."""
    depth = 0
    for place in range(opening, len(tokens)):
        kind = tokens[place].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0:
            return place
    return len(tokens)
