"""What would run on and on, or fill the memory, by its form: long texts, long series, recursion without an end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.errors import refused
from ktx_cli.connectors.guard.functions import FunctionList
from ktx_cli.connectors.guard.series import SERIES, require_fill, require_series, require_short_sequence

if TYPE_CHECKING:
    from sqlglot import exp

MAX_TEXT: Final = 1_000_000
"""How long a text may be that a function builds, and how often all `repeat` of a statement together may repeat."""

_BUILDERS: Final[dict[str, str | int]] = {
    # class or name -> the position or the argument that says how long the text becomes
    "Repeat": "times",
    "Space": "this",
    "Pad": "expression",
    "Randstr": "this",
    "zeroblob": 0,
    "randomblob": 0,
    "random_bytes": 0,
    "gen_random_bytes": 0,
    "array_fill": 1,
    "array_repeat": 1,
    "array_resize": 1,
    "list_resize": 1,
    "arrayresize": 1,
    "arraywithconstant": 0,
    "randomstring": 0,
    "randomprintableascii": 0,
    "leftpad": 1,
    "rightpad": 1,
    "leftpadutf8": 1,
    "rightpadutf8": 1,
    "reservoir_quantile": 2,
    "bitstring": 1,
}
_MULTIPLYING: Final = frozenset({"Repeat", "Space", "array_repeat", "arraywithconstant"})
_REPLACING: Final = frozenset({"Replace", "RegexpReplace"})
_WIDTH: Final = re.compile(r"%[^%a-zA-Z]*?(\d{5,}|\*)")
_FORMATS: Final = frozenset({"Format", "printf", "format", "sformat", "format_string"})

_WORDLESS: Final = frozenset({"sqlite", "snowflake", "tsql"})
"""Dialects whose WITH is recursive without the word."""


def require_bounded(tree: exp.Expr, functions: FunctionList) -> None:
    """Raise for a text, a series or a recursion whose size nothing in the statement bounds."""
    from sqlglot import exp

    times = 1
    for function in tree.find_all(exp.Func):
        if functions.allows(function):
            continue
        if _key(function) in _BUILDERS or _key(function) in _REPLACING:
            times *= _length(function, functions) if _key(function) in _BUILDERS else _growth(function)
            if times > MAX_TEXT:
                raise functions.refuse_size(function, f"builds texts of over {MAX_TEXT:,} characters", MAX_TEXT)
        elif _key(function) in SERIES:
            require_series(function, functions)
        elif _key(function) in _FORMATS and any(_WIDTH.search(text.name) for text in function.find_all(exp.Literal)):
            raise functions.refuse_size(function, "has a width of over 9,999 in its format", 9999)
    if functions.dialect == "mysql":
        for table in tree.find_all(exp.Table):
            require_short_sequence(table)
    for fill in tree.find_all(exp.WithFill):
        require_fill(fill)
    for clause in tree.find_all(exp.With):
        if clause.args.get("recursive") or functions.dialect in _WORDLESS:
            _require_end(clause)


def _key(function: exp.Func) -> str:
    kind = type(function).__name__
    return function.name.lower() if kind == "Anonymous" else kind


def _length(function: exp.Func, functions: FunctionList) -> int:
    """Return by how much a function multiplies a text (1 for one that pads up to a bounded length)."""
    where = _BUILDERS[_key(function)]
    listed = function.expressions
    if isinstance(where, int) and where >= len(listed):
        return 1  # its length has a default
    size = _number(function.args.get(where) if isinstance(where, str) else listed[where])
    if size is None:
        raise functions.refuse_size(function, "builds texts of a length that is not written as a number", MAX_TEXT)
    if size > MAX_TEXT:
        raise functions.refuse_size(function, f"builds texts of over {MAX_TEXT:,} characters", MAX_TEXT)
    return max(1, int(size)) if _key(function) in _MULTIPLYING else 1


def _growth(function: exp.Func) -> int:
    """Return how much longer a text may become when each match of a written text is replaced by a longer one."""
    from sqlglot import exp

    match, new = function.args.get("expression"), function.args.get("replacement")
    if not isinstance(new, exp.Literal):
        return 1
    length = len(match.name) if isinstance(match, exp.Literal) and _key(function) == "Replace" else 1
    return max(1, len(new.name) // max(1, length))


def _number(node: object) -> float | None:
    """Return the value of a number, of a negative one, or of the largest number in an array of them."""
    from sqlglot import exp

    if isinstance(node, exp.Array):
        sizes = [_number(each) for each in node.expressions]
        return None if None in sizes else float(math.prod(size or 0 for size in sizes))
    if isinstance(node, exp.Neg):
        return 0.0
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:
        return None


def _require_end(clause: exp.With) -> None:
    """Raise for a recursive part that nothing ends: no WHERE, no condition of a join, no LIMIT."""
    from sqlglot import exp

    for part in clause.expressions:
        name = part.alias.lower()
        if part.this.args.get("limit") is not None:
            continue
        for select in part.this.find_all(exp.Select):
            own = {table.name.lower() for table in _tables(select)}
            if name in own and not _ends(select):
                raise refused(
                    "recursion",
                    f"the recursive part of `{part.alias}`",
                    "has no condition that ends it",
                    hint="add a WHERE on one of its columns to the part behind UNION",
                )


def _tables(select: exp.Select) -> Iterator[exp.Table]:
    from sqlglot import exp

    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in sources:
        if source is not None and isinstance(source.this, exp.Table):
            yield source.this
            yield from (join.this for join in source.this.args.get("joins") or () if isinstance(join.this, exp.Table))


def _ends(select: exp.Select) -> bool:
    from sqlglot import exp

    within = (join for table in _tables(select) for join in table.args.get("joins") or ())
    joins = [*(select.args.get("joins") or ()), *within]
    if any(join.args.get("using") for join in joins):
        return True
    conditions = [
        *(select.args.get(name) for name in ("where", "qualify", "limit")),
        *(j.args.get("on") for j in joins),
    ]
    return any(each is not None and (isinstance(each, exp.Limit) or each.find(exp.Column)) for each in conditions)
