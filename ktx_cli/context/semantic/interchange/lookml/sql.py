"""The SQL of LookML: `${...}` replaced by what ktx calls it, Liquid refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ktx_cli.context.semantic.interchange.sql import truncated
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line

TIMEFRAMES: Final = {
    "raw": None, "time": None, "date": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year",
    "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
"""Timeframe of a dimension group -> the grain it is here; None: the time itself."""

_REFERENCE: Final = re.compile(r"\$\{\s*([\w.]+)\s*\}")
_TABLE: Final = re.compile(r"\$\{TABLE\}\s*\.\s*")
_LIQUID: Final = re.compile(r"\{%|\{\{")


class UnresolvedError(KtxError):
    """A piece of LookML's SQL that has no meaning here."""

    code = "config"


def without_liquid(text: str) -> str:
    """Return the text; raises `UnresolvedError` where Liquid stands in it."""
    if _LIQUID.search(text):
        raise UnresolvedError(f"it holds Liquid: {one_line(text, 80)}", hint="write its outcome")
    return text


def replaced(text: str, find: Callable[[str], str]) -> str:
    """Return SQL with `${TABLE}.column` as the column, and every other `${reference}` as `find` gives it."""
    plain = _TABLE.sub("", without_liquid(text).strip())
    found = _REFERENCE.sub(lambda match: find(match[1]), plain)
    if "${" in found:
        raise UnresolvedError(f"its reference cannot be read: {one_line(text, 80)}", hint="write ${view.field}")
    return found


def references(text: str) -> list[str]:
    """Return what stands in `${...}`, without `TABLE`."""
    return [name for name in _REFERENCE.findall(text) if name != "TABLE"]


def cut(column: str, timeframe: str, dialect: str) -> str:
    """Return a column of a dimension group cut to a timeframe; raises `UnresolvedError` for one ktx does not have."""
    if timeframe not in TIMEFRAMES:
        raise UnresolvedError(f"ktx has no timeframe `{timeframe}`", hint="write SQL in its place")
    grain = TIMEFRAMES[timeframe]
    return column if grain is None else truncated(column, grain, dialect)
