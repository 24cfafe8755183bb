"""The error of a statement that the guard does not let through."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ktx_cli.core import Command, Hint, SourceError, one_line
from ktx_cli.warehouses.dialect import words_in

READING = "write one SELECT statement; change data with the database's own client"


class StatementRefusedError(SourceError):
    """A statement that was not sent; `details["rule"]` says which rule it breaks, `details["construct"]` with what."""

    code = "read_only"


def refused(rule: str, construct: str, why: str, *, hint: str = READING, **details: Any) -> StatementRefusedError:
    """Return the error for a construct; `why` continues the sentence that begins with the construct.

    The construct comes from the statement: it is shortened and stripped of control characters.
    """
    shown = one_line(construct, 80)
    return StatementRefusedError(
        f"the statement was not run: {shown} {why}", hint=hint, details={"rule": rule, "construct": shown, **details}
    )


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
