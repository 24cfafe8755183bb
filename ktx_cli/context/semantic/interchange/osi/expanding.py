"""A measure of ktx as one expression over fields of datasets: formulas written out, filters inside the aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import Measure, Model, Source

if TYPE_CHECKING:
    from sqlglot import exp

_SPECIAL: Final = ("semi_additive", "cumulative", "offset", "percent_of", "per")


class Expander:
    """Expands the measures of one model. `facts`: the sources a last expansion aggregated rows of."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.facts: set[str] = set()
        self.columns: set[tuple[str, str]] = set()

    def expand(self, source: Source, measure: Measure) -> exp.Expr:
        """Return the tree of a measure, columns as `source.column`; `SemanticError` for what OSI cannot say."""
        from ktx_cli.context.semantic.planning.measures import exact_divisions

        self.facts, self.columns = set(), set()
        return exact_divisions(self._measure(source, measure, (), ()))

    def row(self, source: Source, text: str) -> exp.Expr:
        """Return the tree of an expression over the rows of a source, columns as `source.column`."""
        tree = self._parse(text)
        return self._changed(tree, lambda column: self._column(source, column))

    def _parse(self, text: str) -> exp.Expr:
        from ktx_cli.context.semantic.expressions.fragments import parse

        if "{{" in text:
            raise SemanticError("it holds a parameter, which OSI has not", hint="write its value", code="definition")
        return parse(text, self._model.dialect, what="it").copy()

    def _measure(
        self, source: Source, measure: Measure, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        ref = f"{source.name}.{measure.name}"
        special = next((key for key in _SPECIAL if getattr(measure, key) not in (None, ())), None)
        if measure.percent_of == ():
            special = special or "percent_of"
        if special is not None:
            raise SemanticError(f"OSI has nothing like `{special}`", hint="leave it out", code="definition")
        if ref in above:
            raise SemanticError("it is computed from itself", hint="change its expr", code="definition")
        own = [measure.filter] if measure.filter else []
        own += [source.segments[name].expr for name in measure.segments if name in source.segments]
        conditions = [*conditions, *(self.row(source, each) for each in own)]
        return self._formula(source, self._parse(measure.expr), conditions, (*above, ref))

    def _formula(
        self, source: Source, tree: exp.Expr, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        """Return a formula with its aggregates and measures written out."""
        from sqlglot import exp

        from ktx_cli.context.semantic.expressions.aggregates import is_aggregate

        root = exp.Paren(this=tree)
        nodes = [node for node in root.walk(prune=is_aggregate) if is_aggregate(node) or isinstance(node, exp.Column)]
        for node in nodes:
            if is_aggregate(node):
                node.replace(self._aggregate(source, node, conditions))
            else:
                node.replace(exp.Paren(this=self._operand(source, node, conditions, above)))
        return root.this  # type: ignore[no-any-return]

    def _operand(
        self, source: Source, column: exp.Expr, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        parts = _parts(column)
        owner = source if len(parts) == 1 else self._model.sources.get(parts[-2])
        measure = owner.measures.get(parts[-1]) if owner is not None else None
        if owner is None or measure is None:
            raise SemanticError(f"`{'.'.join(parts)}` in it is no measure", hint="change its expr", code="definition")
        return self._measure(owner, measure, conditions, above)

    def _aggregate(self, source: Source, aggregate: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
        """Return an aggregate with the conditions inside; one of all rows counts the key, which says whose rows."""
        from sqlglot import exp

        from ktx_cli.context.semantic.expressions.aggregates import counts_rows, with_condition

        if counts_rows(aggregate):
            aggregate = exp.Count(this=self._key(source), big_int=True)
        else:
            aggregate = self._changed(aggregate.copy(), lambda column: self._column(source, column))
        self.facts.add(source.name)
        condition = exp.and_(*(each.copy() for each in conditions), copy=False) if conditions else None
        return with_condition(aggregate, condition, self._model.dialect)

    def _key(self, source: Source) -> exp.Expr:
        from sqlglot import exp

        if not source.keyed or not source.grain:
            why = f"it counts rows, and `{source.name}` has no key that would say of which dataset"
            raise SemanticError(why, hint=f"add grain: [column, ...] to {source.name}", code="definition")
        self.columns.add((source.name, source.grain[0]))
        return exp.column(source.grain[0], table=source.name)

    def _column(self, source: Source, column: exp.Expr) -> exp.Expr:
        """Return a column as `dataset.field`."""
        from sqlglot import exp

        parts = _parts(column)
        owner = source if len(parts) == 1 else self._model.sources.get(parts[-2])
        found = owner.column(parts[-1]) if owner is not None else None
        if owner is None or found is None:
            why = f"`{'.'.join(parts)}` in it goes through an alias, which OSI cannot name"
            raise SemanticError(why, hint="leave it out", code="definition")
        self.columns.add((owner.name, found.name))
        return exp.column(found.name, table=owner.name)

    def _changed(self, tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        from sqlglot import exp

        root = exp.Paren(this=tree)
        for column in list(root.find_all(exp.Column)):
            if not isinstance(column.this, exp.Star):
                column.replace(change(column))
        return root.this  # type: ignore[no-any-return]


def _parts(column: exp.Expr) -> tuple[str, ...]:
    """Return the names a column is written with, outermost first."""
    from sqlglot import exp

    return tuple(part.name for part in column.parts) if isinstance(column, exp.Column) else (column.name,)
