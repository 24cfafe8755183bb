"""Expand measures into formulas over aggregates: resolve names, split aggregates by fact, and apply conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ktx_cli.core import listing
from ktx_cli.semantic.expressions.fragments import COUNT, SUM, is_aggregate, kind_of
from ktx_cli.semantic.expressions.names import Expression, Name, Names, column_parts, placeholder, with_names
from ktx_cli.semantic.graph import Path
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import Measure, SemanticError, Source, Span, Visibility, ambiguous, unknown
from ktx_cli.semantic.plan.plan import Leaf, Nested, Treatment, added
from ktx_cli.warehouses import SemanticType

PLAIN = Treatment()
"""The row treatment of a plain aggregate."""


@dataclass(frozen=True, slots=True)
class Context:
    """The conditions and treatment of rows that enclosing measures add to a measure; `open`: those being resolved."""

    conditions: tuple[Expression, ...] = ()
    treatment: Treatment = PLAIN
    open: tuple[str, ...] = ()


NO_CONTEXT = Context()

_AS_MUCH: Final = (exp.Paren, exp.Cast, exp.Round, exp.Abs, exp.Ceil, exp.Floor)
"""The functions that return 0 for 0."""


def _askable(source: Source) -> list[str]:
    """Return the measures of a source that a query may name."""
    return [name for name, measure in source.measures.items() if measure.visibility is Visibility.PUBLIC]


def _without_measures(source: Source | None, written: str, example: str | None = None) -> SemanticError:
    owner = "SOURCE" if source is None else source.name
    reason = "no source defines measures" if source is None else f"{owner} defines no measures"
    message = f"there is no measure `{written}`: {reason}"
    hint = f"aggregate a column: {example or f'count({owner}.COLUMN)'}, sum({owner}.COLUMN)"
    return SemanticError(message, hint=hint, code="unknown_name", details={"candidates": []})


class Measures:
    """Turns measures into formulas, and collects the aggregates in them in `leaves`.

    `named`: the query's named expressions by name: text and tree. `named_by`: see `Plan`.
    """

    def __init__(self, names: Names, segments: Sequence[str] = (), kept: dict[str, int] | None = None) -> None:
        self._names = names
        self._kept = kept or {}
        self.leaves: list[Leaf] = []
        self.named_by: dict[int, list[tuple[str, ...]]] = {}
        self.named: dict[str, tuple[str, exp.Expr]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._segments = [self._segment(ref) for ref in segments]
        self._segments_used: set[int] = set()

    def find(self, parts: Sequence[str]) -> tuple[Source, Measure] | None:
        """Return the measure that a name in a query refers to, or None; raises `SemanticError` if it is ambiguous."""
        if len(parts) == 2:
            source = self._names.find_source(parts[0])
            measure = None if source is None else source.measure(parts[1])
            return None if source is None or measure is None else (source, measure)
        if len(parts) != 1:
            return None
        result = [
            (each, measure)
            for each in lookup_of(self._names.model).with_measure(parts[0])
            if (measure := each.measure(parts[0])) is not None
        ]
        result = [each for each in result if each[1].name == parts[0]] or result
        result = [each for each in result if not each[1].is_proposed] or result
        if len(result) > 1:
            known = (f"{each.name}.{measure.name}" for each, measure in result)
            raise ambiguous("the measure", parts[0], self._names.offered(known))
        return result[0] if result else None

    def of(self, source: Source, measure: Measure, context: Context = NO_CONTEXT) -> exp.Expr:
        """Return the formula for a measure of a source."""
        ref = f"{source.name}.{measure.name}"
        if ref in context.open:
            message = f"the measure `{ref}` refers to itself: {' -> '.join((*context.open, ref))}"
            hint = f"change the `expr` of {measure.name} in {measure.place}"
            raise SemanticError(message, hint=hint, code="definition")
        what = f"the measure `{ref}`"
        context = self._with_own(source, measure, context, ref, what)
        tree = self._names.parse(measure.expr, what)
        if measure.per:
            return self._two_level(source, measure, tree, context, what)
        if measure.percent_of is not None:
            return self._percent(source, measure, tree, context, what)
        return self._formula(tree, source, context, what)

    def asked(self, tree: exp.Expr, text: str, context: Context = NO_CONTEXT) -> exp.Expr:
        """Return the formula for an expression in a query."""
        return self._formula(tree, None, context, f"`{text}`")

    def require_segments_used(self) -> None:
        """Raise `SemanticError` for a segment in the query that affects no measure."""
        for index, (source, expression) in enumerate(self._segments):
            if index not in self._segments_used:
                message = f"the segment `{expression.text}` has no effect: the query has no measure of `{source.name}`"
                hint = f"add a measure of {source.name}, or move the condition to `filters`"
                raise SemanticError(message, hint=hint)

    def _with_own(self, source: Source, measure: Measure, context: Context, ref: str, what: str) -> Context:
        own = [self._names.defined(source, measure.filter, f"the filter of {what}")] if measure.filter else []
        for name in measure.segments:
            if name not in source.segments:
                raise unknown("segment", name, source.segments, f" in `{source.name}` (for {what})")
            own.append(self._names.defined(source, source.segments[name].expr, f"the segment `{source.name}.{name}`"))
        treatment = self._treatment(measure, context.treatment, what)
        return Context((*context.conditions, *own), treatment, (*context.open, ref))

    def _treatment(self, measure: Measure, around: Treatment, what: str) -> Treatment:
        if None not in (measure.cumulative, around.cumulative) and measure.cumulative != around.cumulative:
            message = f"{what} is cumulative, and so is the measure that uses it"
            raise SemanticError(message, hint="remove `cumulative` from one of the two measures", code="definition")
        return replace(
            around,
            time=around.time or measure.time,
            cumulative=around.cumulative or measure.cumulative,
            semi_additive=around.semi_additive or measure.semi_additive,
            offset=_added(around.offset, measure.offset, what),
        )

    def _formula(self, tree: exp.Expr, source: Source | None, context: Context, what: str) -> exp.Expr:
        if is_aggregate(tree):
            return self._leaf(tree, source, context, what)
        if isinstance(tree, exp.Column):
            return self._measure(tree, source, context, what)
        copy = tree.copy()
        outermost = [
            node for node in copy.walk(prune=is_aggregate) if is_aggregate(node) or isinstance(node, exp.Column)
        ]
        if not outermost:
            message = f"{what} contains neither an aggregate nor a measure"
            raise SemanticError(message, hint="write an aggregate, for example: sum(amount)", code="definition")
        for node in outermost:
            if isinstance(node, exp.Column):
                formula = self._measure(node, source, context, what)
                node.replace(self._operand(formula) if _is_reckoned(node) else exp.paren(formula, copy=False))
            else:
                leaf = self._leaf(node, source, context, what)
                node.replace(self._operand(leaf) if _is_reckoned(node) else leaf)
        return exact_divisions(copy)

    def _operand(self, formula: exp.Expr) -> exp.Expr:
        """Return a measure as part of a formula, in which a missing sum or count counts as 0."""
        if isinstance(formula, exp.Placeholder):
            if self.leaves[int(formula.name)].kind in (SUM, COUNT):
                return exp.Coalesce(this=formula, expressions=[exp.Literal.number(0)])
            return formula
        return exp.paren(formula, copy=False)

    def _measure(self, column: exp.Column, source: Source | None, context: Context, what: str) -> exp.Expr:
        parts = column_parts(column)
        if source is None and len(parts) == 1 and parts[0] in self.named:
            return self._named(parts[0], context)
        own = source.measure(parts[0]) if source is not None and len(parts) == 1 else None
        if source is not None and own is not None:
            return self.of(source, own, context)
        found = self.find(parts)
        if found is None:
            raise self._no_measure(parts, source, what)
        if source is None:
            require_public(*found)
        return self.of(*found, context)

    def _named(self, name: str, context: Context) -> exp.Expr:
        """Return the formula for an expression that the query itself names."""
        if name in context.open:
            raise SemanticError(f"the measure `{name}` of the query refers to itself", hint="change its `expr`")
        text, tree = self.named[name]
        return self._formula(tree, None, replace(context, open=(*context.open, name)), f"`{text}`")

    def _no_measure(self, parts: Sequence[str], source: Source | None, what: str) -> SemanticError:
        written = ".".join(parts)
        owner = source if len(parts) == 1 else self._names.find_source(parts[0])
        if len(parts) == 2 and owner is None:
            return unknown("source", parts[0], (each.name for each in self._offered()))
        column = None if owner is None else owner.column(parts[-1])
        if column is not None:
            adds = column.type is SemanticType.NUMBER
            candidates = [f"sum({written})"] * adds + [f"count({written})", f"count(distinct {written})"]
            message = f"`{written}` in {what} is a column, not a measure"
            hint = f"aggregate it, for example {candidates[0]}, or move it to `dimensions`"
            return SemanticError(message, hint=hint, code="unknown_name", details={"candidates": candidates})
        if source is not None and owner is not None:  # in a definition, which may use what nobody may ask for
            return unknown("measure", written, owner.measures)
        known = [(each, name) for each in self._offered() for name in _askable(each)]
        if owner in self._offered() and not any(each is owner or name == parts[-1] for each, name in known):
            return _without_measures(owner, written)
        if not known:
            return _without_measures(None, written, self._names.example_count())
        fitting = [(each, name) for each, name in known if owner is None or each is owner or name == parts[-1]]
        return unknown("measure", written, (f"{each.name}.{name}" for each, name in fitting))

    def _offered(self) -> list[Source]:
        """Return the sources that a query may name."""
        return [source for source in self._names.model.sources.values() if source.visibility is not Visibility.HIDDEN]

    def _leaf(self, aggregate: exp.Expr, source: Source | None, context: Context, what: str) -> exp.Expr:
        if sum(isinstance(node, exp.AggFunc) for node in aggregate.walk()) > 1:
            hint = "define the inner aggregate as a measure, and set `per:` in the outer one"
            raise SemanticError(
                f"{what} nests one aggregate inside another: {aggregate.sql()}", hint=hint, code="definition"
            )
        text = aggregate.sql(self._names.model.dialect)
        counted = None if source is not None else self._counted_rows(aggregate)
        if counted is not None:
            owner, aggregate = counted
            expression = self._aggregate_names(aggregate, None, text, what)
            fact, expression = _fact_of_rows(self._names, expression, owner, what), replace(expression, home=owner.name)
        else:
            expression = self._aggregate_names(aggregate, source, text, what)
            fact, expression = fact_of(self._names, expression, source, what)
        expression = _without_loops(expression, fact)
        conditions = tuple(from_fact(condition, fact) for condition in context.conditions)
        conditions += self._segments_of(fact, source)
        home = None if source is None else source.name
        leaf = Leaf(fact, expression, kind_of(aggregate), conditions, context.treatment, home=home)
        return self._number(leaf, context)

    def counted(self, column: exp.Column) -> Source | None:
        """Return the source whose rows `count(orders)` counts in a query, or None if the name has another meaning.

        A column takes precedence over a source; a measure does not, because it cannot be counted.
        """
        parts = column_parts(column)
        if len(parts) != 1 or not isinstance(column.parent, exp.Count) or self.is_column(parts):
            return None
        source = self._names.find_source(parts[0])
        if source is not None and source.visibility is Visibility.HIDDEN:
            message = f"`{source.name}` cannot be counted: it is hidden"
            hint = f"change `visibility` in the definition of `{source.name}`"
            raise SemanticError(message, hint=hint, code="hidden", details={"source": source.name})
        return source

    def _counted_rows(self, aggregate: exp.Expr) -> tuple[Source, exp.Expr] | None:
        """Return the source in `count(orders)` and the aggregate as a count of rows, or None for anything else."""
        copy = aggregate.copy()
        for count in copy.find_all(exp.Count):
            source = self.counted(count.this) if isinstance(count.this, exp.Column) else None
            if source is not None:
                count.set("this", exp.Star())
                return source, copy
        return None

    def _aggregate_names(self, aggregate: exp.Expr, source: Source | None, text: str, what: str) -> Expression:
        if source is None:
            for column in aggregate.find_all(exp.Column):
                parts = column_parts(column)
                if self.find(parts) and not self.is_column(parts):
                    hint = (
                        "use the measure without the aggregate; to aggregate it a second time, define "
                        "another measure with `per:`"
                    )
                    raise SemanticError(
                        f"`{text}` aggregates `{'.'.join(parts)}`, which is already a measure", hint=hint, code="query"
                    )
            return self._names.asked(aggregate, text)
        return self._names.in_source(source, aggregate, text, what)

    def is_column(self, parts: Sequence[str]) -> bool:
        """Return whether a name in a query is that of a column."""
        if len(parts) == 1:
            return bool(lookup_of(self._names.model).with_column(parts[0]))
        source = self._names.find_source(parts[-2])
        return source is not None and source.column(parts[-1]) is not None

    def _segments_of(self, fact: str, source: Source | None) -> tuple[Expression, ...]:
        result = []
        for index, (owner, expression) in enumerate(self._segments):
            if owner.name == fact or (source is not None and owner.name == source.name):
                self._segments_used.add(index)
                result.append(from_fact(expression, fact))
        return tuple(result)

    def _segment(self, ref: str) -> tuple[Source, Expression]:
        name, _, segment = ref.rpartition(".")
        if not name:
            owners = lookup_of(self._names.model).with_segment(segment)
            owners = [each for each in owners if not each.segments[segment].is_proposed] or owners
            if len(owners) > 1:
                raise ambiguous("the segment", segment, (f"{owner.name}.{segment}" for owner in owners))
            if not owners:
                raise unknown("segment", segment, self._all_segments())
            source = owners[0]
        else:
            source = self._names.source(name)
        if segment not in source.segments or source.visibility is Visibility.HIDDEN:
            raise unknown("segment", ref, self._all_segments())
        expression = self._names.defined(source, source.segments[segment].expr, f"the segment `{ref}`")
        return source, replace(expression, text=f"{source.name}.{segment}")

    def _all_segments(self) -> list[str]:
        return [f"{source.name}.{name}" for source in self._offered() for name in source.segments]

    def _percent(self, source: Source, measure: Measure, tree: exp.Expr, context: Context, what: str) -> exp.Expr:
        wanted = measure.percent_of or ()
        missing = [name for name in wanted if name not in self._kept]
        if missing and self._kept:
            message = f"{what} is a percentage of the total of `{missing[0]}`, which is not a dimension of the query"
            hint = f"add {missing[0]} to the dimensions; `percent_of` is set in {measure.place}"
            raise SemanticError(message, hint=hint, details={"candidates": list(wanted)})
        kept = tuple(sorted({self._kept[name] for name in wanted if name in self._kept}))
        part = self._formula(tree, source, context, what)
        whole = self._formula(tree, source, replace(context, treatment=replace(context.treatment, keep=kept)), what)
        share = exp.Div(this=exp.paren(part, copy=False), expression=exp.paren(whole, copy=False))
        # Divided first: the share of a whole in itself is exactly 1.
        return exp.Mul(this=exp.Literal.number("100.0"), expression=exp.paren(exact_divisions(share), copy=False))

    def _two_level(self, source: Source, measure: Measure, tree: exp.Expr, context: Context, what: str) -> exp.Expr:
        keys = tuple(self._names.defined(source, key, f"`per` of {what}") for key in measure.per)
        copy = exp.paren(tree)
        for aggregate in [node for node in copy.walk(prune=is_aggregate) if is_aggregate(node)]:
            formulas: list[exp.Expr] = []

            def inner(column: exp.Column, formulas: list[exp.Expr] = formulas) -> Name:
                formulas.append(self._measure(column, source, context, what))
                return Name((), str(len(formulas) - 1))

            expression = with_names(aggregate, source.name, aggregate.sql(), inner)
            if not formulas:
                hint = f"aggregate a measure, for example: expr: avg(revenue), per: [{measure.per[0]}]"
                raise SemanticError(f"{what} has `per` but does not aggregate a measure", hint=hint, code="definition")
            nested = Nested(keys, tuple(formulas))
            leaf = Leaf(source.name, expression, kind_of(aggregate), (), context.treatment, nested, source.name)
            aggregate.replace(self._number(leaf, context))
        return exact_divisions(copy.this)

    def _number(self, leaf: Leaf, context: Context) -> exp.Placeholder:
        number = self._numbers.setdefault(leaf.key, len(self.leaves))
        if number == len(self.leaves):
            self.leaves.append(leaf)
        found = self.named_by.setdefault(number, [])
        if context.open not in found:
            found.append(context.open)
        return placeholder(number)


def _added(one: Span | None, other: Span | None, what: str) -> Span | None:
    """Return the offset of an offset, which is as long as both together."""
    if one is None or other is None:
        return one or other
    found = added(one, other)
    if found is None:
        message = f"{what} is offset by {other} and then by {one}; days and months cannot be added up"
        hint = "give both offsets in days and weeks, or both in months, quarters and years"
        raise SemanticError(message, hint=hint, code="query")
    return found


def _is_reckoned(node: exp.Expr) -> bool:
    """Return whether a node, possibly rounded or cast, is added, subtracted, multiplied or divided."""
    parent = node.parent
    while isinstance(parent, _AS_MUCH):
        parent = parent.parent
    return isinstance(parent, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Neg)


def require_public(source: Source, measure: Measure) -> None:
    """Raise `SemanticError` for a measure that no query may name."""
    hidden = Visibility.HIDDEN in (measure.visibility, source.visibility)
    if hidden or measure.visibility is Visibility.INTERNAL:
        message = f"`{source.name}.{measure.name}` cannot be queried: it is {'hidden' if hidden else 'internal'}"
        hint = f"other measures can still use it; to query it, change its `visibility` in `{source.name}`"
        raise SemanticError(message, hint=hint, code="hidden", details={"source": source.name, "measure": measure.name})


def exact_divisions(tree: exp.Expr) -> exp.Expr:
    """Return a formula whose divisions have decimals, and are null if the divisor is 0."""
    around = exp.Paren(this=tree.copy())
    for node in reversed(list(around.find_all(exp.Div))):  # those inside of others first
        if not _is_exact(node):
            node.replace(_exact(node))
    result: exp.Expr = around.this
    return result.pop()


def _exact(node: exp.Div) -> exp.Div:
    dividend = exp.Cast(this=_bare(node.this), to=exp.DataType.build("double"))
    divisor = _bare(node.expression)
    if not (isinstance(divisor, exp.Literal) and float(divisor.this) != 0):
        divisor = exp.Nullif(this=divisor, expression=exp.Literal.number(0))
    return exp.Div(this=dividend, expression=divisor, typed=True, safe=False)


def _is_exact(division: exp.Div) -> bool:
    of_double = isinstance(division.this, exp.Cast) and division.this.is_type("double")
    return of_double and isinstance(division.expression, exp.Nullif | exp.Literal)


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def fact_of(names: Names, aggregate: Expression, declared: Source | None, what: str) -> tuple[str, Expression]:
    """Return the fact of an aggregate, and the aggregate with its names resolved from the fact.

    The fact is the finest of the sources of its columns: each of its rows has at most one row of every other source. An
    aggregate without columns counts the rows of the source that declares it.
    """
    if declared is not None and all(_to_one(names, declared.name, name) for name in aggregate.names):
        return declared.name, aggregate
    ends = dict.fromkeys(_end(names, name, declared) for name in aggregate.names)
    if not ends:
        example = names.example_count()
        hint = f"name the source{f', for example {example}' if example else ''}, or use one of its measures"
        raise SemanticError(f"{what} does not say which source's rows to count", hint=hint, code="query")
    loose = from_anywhere(aggregate)
    for fact in ends:
        if all(_to_one(names, fact, name) for name in loose.names):
            return fact, replace(loose, home=fact)
    message = f"{what} combines rows of {listing(ends)} in one aggregate: {aggregate.text}"
    hint = "aggregate each source separately, or add a many_to_one join between them"
    raise SemanticError(message, hint=hint, code="unreachable", details={"sources": list(ends)})


def _fact_of_rows(names: Names, aggregate: Expression, source: Source, what: str) -> str:
    """Return the source whose rows are counted; each row must have one value for every column in a FILTER."""
    for name in aggregate.names:
        if not _to_one(names, source.name, name):
            message = f"{what} counts rows of {source.name}, which have no single `{name}`"
            hint = f"count rows of the source that has the column, or filter on a column of {source.name}"
            raise SemanticError(message, hint=hint, code="unreachable", details={"sources": [source.name]})
    return source.name


def from_fact(expression: Expression, fact: str) -> Expression:
    """Return a definition's expression with its names resolved from a fact."""
    if expression.home in (fact, None):
        return expression
    return replace(from_anywhere(expression), home=fact)


def from_anywhere(expression: Expression) -> Expression:
    """Return the expression with the columns of its own source qualified by that source's name."""
    if expression.home is None:
        return expression
    home = expression.home
    return replace(
        expression, names=tuple(name if name.hops else Name((home,), name.column) for name in expression.names)
    )


def path_from(names: Names, start: str, name: Name) -> Path | None:
    """Return the path from a source to a column's source, None where there is none."""
    is_own = not name.hops or (name.via and name.hops == (start,))
    return Path(start) if is_own else names.graph.path(start, name.hops, name.via)


def _without_loops(expression: Expression, fact: str) -> Expression:
    """Return an aggregate whose own columns are those of its rows, whatever joins the query requires to other rows."""
    if not any(name.via for name in expression.names):
        return expression
    own = (replace(name, via=()) if name.hops == (fact,) else name for name in expression.names)
    return replace(expression, names=tuple(own))


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
