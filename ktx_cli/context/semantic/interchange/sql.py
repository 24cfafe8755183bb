"""The SQL of definitions: what it names, what it gives, and names replaced in it without touching the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.interchange.drafts import SourceDraft

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 20_000
"""Characters of the longest piece of SQL that is read."""

NAME: Final = re.compile(r"[A-Za-z_]\w*")
_TOKEN: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*(?!\w*\s*\()"
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a piece of SQL names: `columns` inside aggregates (all, where it has none), those `outside` them.

    `numbers`: columns that are added up. `type`: the ktx type of what it gives, None where that does not show.
    """

    columns: tuple[tuple[str, ...], ...]
    outside: tuple[tuple[str, ...], ...]
    numbers: frozenset[tuple[str, ...]]
    aggregates: bool
    type: str | None


def read(text: str, dialect: str) -> Read:
    """Read one expression; `SemanticError` for what is none, or none a definition may hold."""
    from sqlglot import exp

    from ktx_cli.context.semantic.expressions.aggregates import is_aggregate
    from ktx_cli.context.semantic.expressions.fragments import parse

    if len(text) > LONGEST:
        raise SemanticError(f"it is longer than {LONGEST:,} characters", hint="move it into a view", code="definition")
    if "{{" in text or "{%" in text or "${" in text:
        raise SemanticError("it holds a template that stands for nothing here", hint="write it out", code="definition")
    tree = parse(text, dialect, what="it")
    inside: list[tuple[str, ...]] = []
    outside: list[tuple[str, ...]] = []
    numbers: set[tuple[str, ...]] = set()
    for column in tree.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        parts = tuple(part.name for part in column.parts)
        around = _aggregate_around(column, is_aggregate)
        (outside if around is None else inside).append(parts)
        if _is_added(column, around):
            numbers.add(parts)
    if any(_is_nested(node, is_aggregate) for node in tree.walk()):
        raise SemanticError("it holds an aggregate inside another one", hint="name the inner one", code="definition")
    aggregates = any(is_aggregate(node) for node in tree.walk())
    found = tuple(dict.fromkeys(inside if aggregates else outside))
    return Read(found, tuple(dict.fromkeys(outside)), frozenset(numbers), aggregates, type_of(tree))


def _is_nested(node: exp.Expr, fits: Callable[[exp.Expr], bool]) -> bool:
    """Say whether a node is an aggregate inside one; FILTER and WITHIN GROUP belong to the aggregate they are of."""
    above = _aggregate_around(node, fits) if fits(node) else None
    return above is not None and above.this is not node


def _aggregate_around(node: exp.Expr, fits: Callable[[exp.Expr], bool]) -> exp.Expr | None:
    above = node.parent
    while above is not None and not fits(above):
        above = above.parent
    return above


def _is_added(column: exp.Expr, aggregate: exp.Expr | None) -> bool:
    """Say whether an aggregate of numbers takes the column as it is, or in arithmetic."""
    from sqlglot import exp

    if not isinstance(aggregate, exp.Sum | exp.Avg | exp.Median | exp.Quantile):
        return False
    above = column.parent
    while above is not aggregate and isinstance(above, exp.Paren | exp.Add | exp.Sub | exp.Mul | exp.Div):
        above = above.parent
    return above is aggregate


def type_of(tree: exp.Expr) -> str | None:
    """Return the ktx type an expression gives, None where its form does not show it."""
    from sqlglot import exp

    while isinstance(tree, exp.Paren | exp.Neg):
        tree = tree.this
    if isinstance(tree, exp.Case):
        branches = [each.args["true"] for each in tree.args["ifs"]]
        return next((kind for branch in branches if (kind := type_of(branch))), None)
    if isinstance(tree, exp.Literal):
        return "string" if tree.is_string else "number"
    if isinstance(tree, exp.Cast):
        return _type_of_cast(tree)
    if isinstance(tree, exp.Predicate | exp.Connector | exp.Not | exp.Boolean):
        return "boolean"
    if isinstance(tree, exp.TimestampTrunc | exp.DateTrunc | exp.TsOrDsToDate):
        return "time"
    if isinstance(tree, exp.Extract | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Sum | exp.Count | exp.Avg):
        return "number"
    return (
        "string"
        if isinstance(tree, exp.Upper | exp.Lower | exp.Concat | exp.DPipe | exp.Trim | exp.Substring)
        else None
    )


def _type_of_cast(tree: exp.Expr) -> str | None:
    from sqlglot import exp

    kind = tree.args["to"].this
    if kind in exp.DataType.NUMERIC_TYPES:
        return "number"
    if kind in exp.DataType.TEMPORAL_TYPES:
        return "time"
    if kind in exp.DataType.TEXT_TYPES:
        return "string"
    return "boolean" if kind == exp.DType.BOOLEAN else None


def fault(draft: SourceDraft, text: str, *, aggregate: bool, measures: Iterable[str] = ()) -> str | None:
    """Return why a definition cannot stand in a source, None where it can; columns it needs are then added.

    `aggregate`: it must hold one (or one of `measures`), or must not.
    """
    try:
        found = read(text, draft.dialect)
    except SemanticError as error:
        return error.message
    if found.aggregates and not aggregate:
        return "it holds an aggregate, but is about single rows"
    named = found.outside if aggregate else ()
    if aggregate and not found.aggregates and not named:
        return "it holds no aggregate"
    known = set(measures)
    strange = [".".join(parts) for parts in named if ".".join(parts) not in known]
    if strange:
        return f"`{strange[0]}` in it is no measure that was imported"
    return _missing(draft, found.columns if found.aggregates or not aggregate else (), found)


def _missing(draft: SourceDraft, columns: Iterable[tuple[str, ...]], found: Read) -> str | None:
    """Return why a column is not there; one that nobody declared is added to a source of its own."""
    owners = [(parts, _owner(draft, parts[:-1])) for parts in columns]
    for parts, owner in owners:
        if owner is None:
            return f"`{'.'.join(parts)}` in it is of nothing `{draft.name}` is joined to"
        if owner.find(parts[-1]) is None and owner.base is not None:
            return f"`{owner.name}` has no column `{parts[-1]}`"
        if owner.find(parts[-1]) is None and "." in parts[-1]:
            return f"the name `{parts[-1]}` in it has a dot"
    for parts, owner in owners:
        if owner is not None:
            owner.require(parts[-1], "number" if parts in found.numbers else None)
    return None


def _owner(draft: SourceDraft, hops: tuple[str, ...]) -> SourceDraft | None:
    """Return the source some hops lead to."""
    found: SourceDraft | None = draft
    for hop in hops:
        if found is not None and hop != found.name:
            found = found.hops.get(hop)
    return found


def plain_name(text: str) -> str | None:
    """Return the column a text is the bare or quoted name of, else None."""
    stripped = text.strip()
    if NAME.fullmatch(stripped):
        return stripped
    quoted = re.fullmatch(r'"([^"]+)"|`([^`]+)`', stripped)
    return quoted[1] or quoted[2] if quoted else None


def quoted(name: str, dialect: str) -> str:
    """Return a name as the dialect's SQL writes it: in quotes where it is no plain word."""
    from sqlglot import exp

    return name if NAME.fullmatch(name) else str(exp.to_identifier(name, quoted=True).sql(dialect))


def with_names(text: str, names: dict[str, str]) -> str:
    """Return the text with bare names replaced; functions, texts and quoted names stay as they are."""
    return _TOKEN.sub(lambda found: names.get(re.sub(r"\s", "", found[0]), found[0]), text)


def truncated(text: str, grain: str, dialect: str) -> str:
    """Return a column cut to a grain, in the dialect; `SemanticError` where the text is no expression."""
    from sqlglot import exp

    from ktx_cli.context.semantic.expressions.fragments import parse

    tree = parse(text, dialect, what="it").copy()
    if grain == "day":
        return str(exp.cast(tree, "date").sql(dialect))
    return str(exp.TimestampTrunc(this=tree, unit=exp.var(grain.upper())).sql(dialect))


def all_of(conditions: Iterable[str]) -> str | None:
    """Return one condition that holds where all do."""
    several = list(dict.fromkeys(conditions))
    if len(several) < 2:
        return several[0] if several else None
    return " AND ".join(f"({each})" for each in several)
