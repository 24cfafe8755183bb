"""What would run on and on, or fill the memory, by its form: long texts, long series, recursion without an end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.guard.errors import refused
from ktx_cli.warehouses.guard.functions import FunctionList
from ktx_cli.warehouses.guard.series import SERIES, require_fill, require_series, require_short_sequence

MAX_TEXT: Final = 1_000_000
"""How long the texts may be that all functions of a statement build of what is written in it."""

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
    "bit": 1,
    "bpchar": 1,
    "polygon": 0,
}
_MULTIPLYING: Final = frozenset({"Repeat", "Space", "array_fill", "array_repeat", "arraywithconstant"})
_REPLACING: Final = frozenset({"Replace", "RegexpReplace"})
_WIDTH: Final = re.compile(r"%[^%a-zA-Z]*?(\d{5,}|\*)|\{[^{}]*(\d{5,}|\{)")
"""A width in a template, `%99999s` or `{:>99999}`, or one that another value gives, `%*s` or `{:>{}}`."""

_FORMATS: Final = frozenset({"Format", "printf", "format", "sformat", "format_string"})


def require_bounded(tree: exp.Expr, functions: FunctionList) -> None:
    """Raise for a text, a series or a recursion whose size nothing in the statement bounds."""
    built = _Built(tree)
    for function in tree.find_all(exp.Func):
        if functions.allows(function):
            continue
        if _key(function) in _BUILDERS or _key(function) in _REPLACING:
            built.add(function, functions)
        elif _key(function) in SERIES:
            require_series(function, functions)
        elif _key(function) in _FORMATS:
            _require_template(function, functions)
    for kind in tree.find_all(exp.DataType):
        _require_short_type(kind, functions)
    if functions.syntax.has_sequence_tables:
        for table in tree.find_all(exp.Table):
            require_short_sequence(table)
    for fill in tree.find_all(exp.WithFill):
        require_fill(fill)
    for clause in tree.find_all(exp.With):
        if clause.args.get("recursive") or functions.syntax.recurses_without_word:
            _require_end(clause)


def _key(function: exp.Func) -> str:
    kind = type(function).__name__
    return function.name.lower() if kind == "Anonymous" else kind


class _Built:
    """How long the texts may be that a statement builds: its functions may stand in each other, also by a subquery."""

    def __init__(self, tree: exp.Expr) -> None:
        self._tree = tree
        self._times = 1
        self._padded = 0
        self._unknown = 0

    def add(self, function: exp.Func, functions: FunctionList) -> None:
        """Count a function; raises where all that were counted may build too much."""
        if _key(function) in _REPLACING:
            growth = _growth(function)
            self._times *= growth or 1
            self._unknown += growth is None
        else:
            size = _length(function, functions)
            if _key(function) in _MULTIPLYING:
                self._times *= max(1, size)
            else:
                self._padded += size
        length = max(1, self._padded)
        if self._times > 1 and length > 1:
            length *= self._times
        elif self._times > 1:
            length = self._times * self._longest()
        if length * max(1, self._padded) ** self._unknown > MAX_TEXT:
            raise functions.refuse_size(function, f"builds texts of over {MAX_TEXT:,} characters", MAX_TEXT)

    def _longest(self) -> int:
        """Return the length of the longest text that is written in the statement."""
        return max((len(node.name) for node in self._tree.find_all(exp.Literal) if node.is_string), default=1) or 1


def _length(function: exp.Func, functions: FunctionList) -> int:
    """Return the number that says how long a text becomes, or how often it is repeated; 0 where it has a default."""
    where = _BUILDERS[_key(function)]
    listed = function.expressions
    if (isinstance(where, int) and where >= len(listed)) or (_key(function) == "polygon" and len(listed) == 1):
        return 0
    size = _number(function.args.get(where) if isinstance(where, str) else listed[where])
    if size is None:
        raise functions.refuse_size(function, "builds texts of a length that is not written as a number", MAX_TEXT)
    if size > MAX_TEXT:
        raise functions.refuse_size(function, f"builds texts of over {MAX_TEXT:,} characters", MAX_TEXT)
    return int(size)


def _growth(function: exp.Func) -> int | None:
    """Return how much longer a text may become when each match of a written text is replaced by a longer one.

    None where what replaces it is not written.
    """
    match, new = function.args.get("expression"), function.args.get("replacement")
    if not isinstance(new, exp.Literal):
        return 1 if new is None else None
    length = len(match.name) if isinstance(match, exp.Literal) and _key(function) == "Replace" else 1
    return max(1, len(new.name) // max(1, length))


def _require_template(function: exp.Func, functions: FunctionList) -> None:
    """Raise for a template with a width that is too large or not written, in one text or in pieces."""
    listed = function.expressions
    template = function.this if type(function).__name__ != "Anonymous" else listed[0] if listed else None
    if not functions.syntax.format_has_widths and _key(function) in ("Format", "format"):
        return
    text = _written(template)
    if text is None:
        why = "has a template that is not written as a text, so its widths are not known"
        hint = "write its template as one text"
        raise refused("size", f"the function `{functions.name_of(function)}`", why, hint=hint)
    if _WIDTH.search(text.replace("{{", "").replace("%%", "")):
        raise functions.refuse_size(
            function, "has a width of over 9,999 in its format, or one that a value gives", 9999
        )


def _written(node: object) -> str | None:
    """Return a text that is written, also in pieces that are put together; None for one that is not."""
    if isinstance(node, exp.Literal | exp.National | exp.RawString | exp.Heredoc):
        return str(node.name)
    if isinstance(node, exp.Paren | exp.Cast):
        return _written(node.this)
    if isinstance(node, exp.DPipe):
        pieces = [_written(node.this), _written(node.expression)]
    elif isinstance(node, exp.Concat):
        pieces = [_written(expression) for expression in node.expressions]
    else:
        return None
    return None if None in pieces else "".join(map(str, pieces))


def _require_short_type(kind: exp.DataType, functions: FunctionList) -> None:
    """Raise for a type that fills every value up to a length that is too large."""
    own = kind.args.get("kind")  # of a type that is written with its schema
    name = getattr(kind.this, "name", "") if own is None else own.name.upper()
    if name not in functions.syntax.padded_types:
        return
    sizes = [_number(expression.this) for expression in kind.expressions]
    if any(size is not None and size > MAX_TEXT for size in sizes):
        why = f"fills a value up to over {MAX_TEXT:,} characters"
        raise refused("size", f"the type {name}", why, hint=f"use a length of at most {MAX_TEXT:,}")


def _number(node: object) -> float | None:
    """Return the value of a number, of a negative one, or of the largest number in an array of them."""
    if isinstance(node, exp.Array):
        sizes = [_number(expression) for expression in node.expressions]
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
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in sources:
        if source is not None and isinstance(source.this, exp.Table):
            yield source.this
            yield from (join.this for join in source.this.args.get("joins") or () if isinstance(join.this, exp.Table))


def _ends(select: exp.Select) -> bool:
    within = (join for table in _tables(select) for join in table.args.get("joins") or ())
    joins = [*(select.args.get("joins") or ()), *within]
    if any(join.args.get("using") for join in joins):
        return True
    conditions = [
        *(select.args.get(name) for name in ("where", "qualify", "limit")),
        *(j.args.get("on") for j in joins),
    ]
    return any(
        condition is not None and (isinstance(condition, exp.Limit) or condition.find(exp.Column))
        for condition in conditions
    )
