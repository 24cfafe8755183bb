"""Which source's rows an aggregate counts, and expressions looked at from there."""

from __future__ import annotations

from dataclasses import replace

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.expressions.names import Expression, Name
from ktx_cli.context.semantic.expressions.resolving import Names
from ktx_cli.context.semantic.graph import Path
from ktx_cli.context.semantic.model import Source
from ktx_cli.core.text import listing


def fact_of(names: Names, aggregate: Expression, declared: Source | None, what: str) -> tuple[str, Expression]:
    """Return the fact of an aggregate, and the aggregate as seen from it.

    The finest of the sources its columns are of: a row of it has at most one row of each other. An aggregate without
    columns counts the rows of the source that declares it.
    """
    if declared is not None and all(_to_one(names, declared.name, name) for name in aggregate.names):
        return declared.name, aggregate
    ends = dict.fromkeys(_end(names, name, declared) for name in aggregate.names)
    if not ends:
        example = names.example_count()
        raise SemanticError(
            f"{what} does not say which source's rows it counts",
            hint=f"name a column{f', for example {example}' if example else ''}, or a measure of the source",
            code="query",
        )
    loose = from_anywhere(aggregate)
    for fact in ends:
        if all(_to_one(names, fact, name) for name in loose.names):
            return fact, replace(loose, home=fact)
    raise SemanticError(
        f"{what} mixes rows of {listing(ends)} in one aggregate: {aggregate.text}",
        hint="aggregate each by itself, or join them by a many_to_one join",
        code="unreachable",
        details={"sources": list(ends)},
    )


def from_fact(names: Names, expression: Expression, fact: str) -> Expression:
    """Return a definition's expression with its names looked for from a fact."""
    if expression.home in (fact, None):
        return expression
    return replace(from_anywhere(expression), home=fact)


def from_anywhere(expression: Expression) -> Expression:
    """Return the expression with its own source's name before the columns of that source."""
    if expression.home is None:
        return expression
    home = expression.home
    return replace(
        expression, names=tuple(name if name.hops else Name((home,), name.column) for name in expression.names)
    )


def path_from(names: Names, start: str, name: Name, via: tuple[str, ...] = ()) -> Path | None:
    """Return the path from a source to a column's source, None where there is none."""
    return names.graph.path(start, name.hops, via) if name.hops or via else Path(start)


def _to_one(names: Names, start: str, name: Name) -> bool:
    path = path_from(names, start, name)
    return path is not None and path.to_one


def _end(names: Names, name: Name, declared: Source | None) -> str:
    if not name.hops:
        return "" if declared is None else declared.name
    if name.hops[-1] in names.model.sources:
        return name.hops[-1]
    if declared is not None:
        path = names.graph.path(declared.name, name.hops)
        if path is not None:
            return path.end
    return next(iter(names.graph.aliases[name.hops[-1]]))
