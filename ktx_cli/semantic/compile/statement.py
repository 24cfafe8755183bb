"""The whole statement: the branches put together, empty members and missing periods added, formulas, order, limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ktx_cli.semantic.compile.branches import Branch, BranchBuilder, branches, named_query
from ktx_cli.semantic.compile.build import Build, called, column, identifier, join, named, without_booleans
from ktx_cli.semantic.compile.members import dimension_rows, labelled, members
from ktx_cli.semantic.compile.rows import needs_ranks, rank_query, weighed
from ktx_cli.semantic.compile.windows import filled_periods
from ktx_cli.semantic.expressions.aggregates import COUNT, percentile_of, with_condition
from ktx_cli.semantic.expressions.names import Expression, filled, placeholders
from ktx_cli.semantic.plan.axis import filled_time, with_axes
from ktx_cli.semantic.plan.plan import Dimension, Leaf, Output, Plan


@dataclass(frozen=True, slots=True)
class Compiled:
    """One statement and what it is made of; `tree` has the limit of the question, one row more."""

    tree: exp.Expr
    columns: tuple[str, ...]
    build: Build


def compile_plan(build: Build) -> Compiled:
    """Return the statement of a plan."""
    plan = build.plan
    relation, whole = combined(build)
    columns = [called(_dimension(relation, index), dimension.name) for index, dimension in enumerate(plan.dimensions)]
    value = _Values(build, relation, whole)
    columns += [called(value.of(output.formula), output.name) for output in plan.outputs]
    query = value.joined(exp.select(*columns, copy=False).from_(named_query(relation), copy=False))
    for condition in plan.having:
        query = query.where(exp.paren(value.of(condition), copy=False), copy=False)
    order = _order(plan, value)
    if order:
        query = query.order_by(*order, copy=False)
    query = query.limit(plan.query.limit + 1, copy=False)
    if plan.query.offset:
        query = query.offset(plan.query.offset, copy=False)
    names = (*(dimension.name for dimension in plan.dimensions), *(output.name for output in plan.outputs))
    tree = build.with_queries(query)
    return Compiled(tree if build.syntax.conditions_are_values else without_booleans(tree), names, build)


def combined(build: Build) -> tuple[str, dict[int, str]]:
    """Return the relation with all dimensions and leaves, and of each leaf over fewer dimensions its own relation."""
    plan = build.plan
    every = tuple(range(len(plan.dimensions)))
    parts: dict[str, tuple[int, ...]] = {}
    whole: dict[int, str] = {}
    for branch in branches(plan):
        name = build.add(
            f"{branch.fact}__totals" if branch.kept != every else branch.fact + "__1", _query(build, branch)
        )
        if branch.kept == every:
            parts[name] = tuple(branch.leaves)
        else:
            whole |= dict.fromkeys(branch.leaves, name)
    if not plan.wanted:
        parts[build.add("members", dimension_rows(build))] = ()
    extra = members(build)
    if extra is not None:
        parts[build.add("members", extra)] = ()
    relation = _together(build, parts)
    if plan.query.fill:
        relation = _filled(build, relation, parts)
    return relation, whole


def _query(build: Build, branch: Branch) -> exp.Expr:
    leaf = next(iter(branch.leaves.values()))
    if leaf.nested is not None:
        return _two_level(build, next(iter(branch.leaves)), leaf, branch)
    return BranchBuilder(build, branch).query()


def _two_level(build: Build, number: int, leaf: Leaf, branch: Branch) -> exp.Expr:
    """Return the outer aggregate over the inner formulas, grouped by the dimensions and the keys."""
    assert leaf.nested is not None
    plan = build.plan
    kept = [plan.dimensions[index] for index in branch.kept]
    keys = [Dimension(f"k{n}", key, key.text) for n, key in enumerate(leaf.nested.keys)]
    outputs = [Output(f"v{n}", formula, f"v{n}") for n, formula in enumerate(leaf.nested.formulas)]
    needed = sorted(
        {int(placeholder.name) for formula in leaf.nested.formulas for placeholder in placeholders(formula)}
    )
    renumbered = {old: new for new, old in enumerate(needed)}
    outputs = [
        replace(output, formula=filled(output.formula, lambda old: exp.Placeholder(this=str(renumbered[old]))))
        for output in outputs
    ]
    inner_query = replace(plan.query, fill=False, include_empty=False, limit=0, offset=0)
    inner = Plan(
        inner_query,
        (*kept, *(replace(key, expression=_loose(key.expression)) for key in keys)),
        tuple(outputs),
        tuple(
            replace(leaf, treatment=replace(leaf.treatment, keep=None)) for leaf in map(plan.leaves.__getitem__, needed)
        ),
        plan.filters,
        (),
        (),
        plan.time_range,
        plan.timezone,
    )
    inner = with_axes(build.names, inner, range(len(kept)))
    outer_plan, build.plan = build.plan, inner
    try:
        relation, whole = combined(build)
        value = _Values(build, relation, whole)
        columns = [called(_dimension(relation, index), f"d{number}") for index, number in enumerate(branch.kept)]
        columns += [called(value.of(output.formula), output.name) for output in outputs]
        query = value.joined(exp.select(*columns, copy=False).from_(named_query(relation), copy=False))
    finally:
        build.plan = outer_plan
    name = build.add(f"{leaf.fact}__by_key", query)
    aggregate = filled(leaf.aggregate.tree, lambda place: column(f"v{leaf.aggregate.names[place].column}", name))
    groups = [f"d{index}" for index in branch.kept]
    percentile = percentile_of(aggregate) if needs_ranks(aggregate, build.dialect) else None
    if percentile is None:
        total = with_condition(aggregate, None, build.dialect)
    else:
        name = build.add(f"{leaf.fact}__ranks", rank_query(name, percentile[0], groups, ()))
        total = weighed(percentile[1], name, build.dialect)
    selected = [*(called(column(key, name), key) for key in groups), called(total, f"m{number}")]
    result = exp.select(*selected, copy=False).from_(named_query(name), copy=False)
    if groups:
        result = result.group_by(*(column(key, name) for key in groups), copy=False)
    return result


def _loose(expression: Expression) -> Expression:
    from ktx_cli.semantic.plan.measures import from_anywhere

    return replace(from_anywhere(expression), home=None)


def _together(build: Build, parts: dict[str, tuple[int, ...]]) -> str:
    """Return the relation of several: one row for each combination of dimensions any of them has."""
    if len(parts) == 1:
        return next(iter(parts))
    dimensions = [f"d{number}" for number in range(len(build.plan.dimensions))]
    measures = [f"m{number}" for numbers in parts.values() for number in numbers]
    stacked: list[exp.Select] = []
    if build.syntax.requires_typed_nulls:
        stacked.append(_header(parts, dimensions))
    for name, numbers in parts.items():
        own = {f"m{number}" for number in numbers}
        columns = [called(column(key, name), key) for key in dimensions]
        columns += [called(column(key, name) if key in own else exp.null(), key) for key in measures]
        stacked.append(exp.select(*columns, copy=False).from_(named_query(name), copy=False))
    query: exp.Expr = stacked[0]
    for other in stacked[1:]:
        query = exp.union(query, other, distinct=False, copy=False)
    rows = build.add("stacked", query)
    picked = [called(column(key, rows), key) for key in dimensions]
    picked += [called(_any(build, key, column(key, rows)), key) for key in measures]
    result = exp.select(*picked, copy=False).from_(named_query(rows), copy=False)
    if dimensions:
        result = result.group_by(*(column(key, rows) for key in dimensions), copy=False)
    return build.add("combined", result)


def _any(build: Build, key: str, value: exp.Expr) -> exp.Expr:
    """Return the one value of a group that is not missing."""
    aggregate = build.plan.leaves[int(key[1:])].aggregate.tree
    return exp.LogicalOr(this=value) if isinstance(aggregate, exp.LogicalOr | exp.LogicalAnd) else exp.Max(this=value)


def _header(parts: dict[str, tuple[int, ...]], dimensions: Sequence[str]) -> exp.Select:
    """Return a query without rows that gives every column its type."""
    names = list(parts)
    columns = [called(column(key, names[0]), key) for key in dimensions]
    columns += [
        called(column(f"m{number}", name), f"m{number}") for name, numbers in parts.items() for number in numbers
    ]
    query = exp.select(*columns, copy=False).from_(named_query(names[0]), copy=False)
    for name in names[1:]:
        join(query, named_query(name), None)
    return query.where(exp.false(), copy=False)


def _filled(build: Build, relation: str, parts: dict[str, tuple[int, ...]]) -> str:
    """Return the relation with every period for every combination of the other dimensions."""
    plan = build.plan
    filled = filled_time(build.names, plan)
    time, grain = filled.number, filled.grain
    seen = exp.select(called(column(f"d{time}", relation), "period")).from_(named_query(relation))
    seen = seen.where(exp.Not(this=exp.Is(this=column(f"d{time}", relation), expression=exp.null())))
    periods = filled_periods(build, [build.add("shown_periods", seen)], grain)
    fact = plan.leaves[plan.wanted[0]].fact if plan.wanted else ""
    periods, values = labelled(build, fact, periods, grain, filled.readings)
    others = [f"d{index}" for index in range(len(plan.dimensions)) if index not in values]
    combinations = exp.select(*(called(column(key, relation), key) for key in others)).from_(named_query(relation))
    grid = exp.select(
        *(
            called(values[index] if index in values else column(f"d{index}", "others"), f"d{index}")
            for index in range(len(plan.dimensions))
        )
    ).from_(named(periods))
    if others:
        inner = exp.Subquery(this=combinations.distinct(), alias=exp.TableAlias(this=identifier("others")))
        join(grid, inner, None)
    numbers = tuple(number for own in parts.values() for number in own)
    return _together(build, {relation: numbers, build.add("every_period", grid): ()})


class _Values:
    """Formulas over the combined relation; wholes that are over fewer dimensions are joined to it."""

    def __init__(self, build: Build, relation: str, whole: dict[int, str]) -> None:
        self._build = build
        self._relation = relation
        self._whole = whole

    def of(self, formula: exp.Expr) -> exp.Expr:
        """Return a formula over the relation's columns."""
        return filled(formula, self._value)

    def joined(self, query: exp.Select) -> exp.Select:
        """Return the query with the wholes joined to it."""
        plan = self._build.plan
        for name in dict.fromkeys(self._whole.values()):
            number = next(number for number, of in self._whole.items() if of == name)
            kept = plan.leaves[number].treatment.keep or ()
            pairs = [(column(f"d{index}", self._relation), column(f"d{index}", name)) for index in kept]
            equal = [self._build.syntax.null_safe(one, two) for one, two in pairs]
            join(query, named_query(name), exp.and_(*equal, copy=False) if equal else None, "LEFT")
        return query

    def _value(self, number: int) -> exp.Expr:
        if number < 0:
            return _dimension(self._relation, -1 - number)
        value = column(f"m{number}", self._whole.get(number, self._relation))
        if self._build.plan.leaves[number].kind == COUNT:
            return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
        return value


def _dimension(relation: str, index: int) -> exp.Column:
    return column(f"d{index}", relation)


def _order(plan: Plan, value: _Values) -> list[exp.Expr]:
    """Return what to sort by: as asked, then by the dimensions, so that ties always come in the same order."""
    result: list[exp.Expr] = [_ordered(value.of(key.tree), key.descending) for key in plan.order]
    asked = {key.tree for key in plan.order}
    for index in range(len(plan.dimensions)):
        place = exp.Placeholder(this=str(-1 - index))
        if place not in asked:
            result.append(_ordered(value.of(place), descending=False))
    return result


def _ordered(value: exp.Expr, descending: bool) -> exp.Ordered:
    return exp.Ordered(this=value, desc=descending, nulls_first=False)
