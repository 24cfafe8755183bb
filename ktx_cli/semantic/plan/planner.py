"""Plan a query: resolve every name and assign every condition, without guessing."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from ktx_cli.core import Argument, Hint, listing, plural, suggestion
from ktx_cli.semantic.calendar import parse_span
from ktx_cli.semantic.expressions.fragments import has_aggregate
from ktx_cli.semantic.expressions.names import (
    METRIC_TIME,
    Expression,
    Name,
    Names,
    column_parts,
    conjuncts,
    placeholder,
)
from ktx_cli.semantic.graph import Graph, Path, via_hint
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import (
    DAY,
    FISCAL_QUARTER,
    FISCAL_YEAR,
    GRAINS,
    Relationship,
    SemanticError,
    Visibility,
    unknown,
)
from ktx_cli.semantic.plan.axis import TimeReader, as_of_hint, time_of, with_axes
from ktx_cli.semantic.plan.measures import Context, Measures, exact_divisions, require_public
from ktx_cli.semantic.plan.plan import (
    Dimension,
    Leaf,
    Order,
    Output,
    Plan,
    Read,
    RowFilter,
    TimeRange,
    Treatment,
    asked_range,
    length,
    lines_up,
)
from ktx_cli.semantic.query import TIME_RANGE, Query, QueryDimension, QueryFilter, QueryMeasure, QueryOrder, with_grain
from ktx_cli.warehouses import SemanticType

if TYPE_CHECKING:
    from ktx_cli.semantic.caller import Caller
    from ktx_cli.semantic.model import Column, Model, Parameter, Span

_NOT_NAME: Final = re.compile(r"\W+")
_COMPARED: Final = ("previous", "change", "change_pct")
_COMPARABLE: Final = (
    Argument("time_range", {"last": "1 month"}),
    Argument("time_range", {"start": "2025-01-01", "end": "2026-01-01"}),
)
"""Time ranges that have a previous period."""


class Planner:
    """Plans queries against one model. Queries can share the `graph`."""

    def __init__(self, model: Model, graph: Graph, query: Query, caller: Caller, now: datetime) -> None:
        self._model = model
        self._query = query
        self._now = now
        values, self._parameters = parameter_values(model, query.parameters)
        caller.require_plain()
        self.names = Names(model, graph, values, caller)
        self.names.via = query.via
        self._dimensions: list[Dimension] = []
        self._outputs: list[Output] = []
        self._result_texts: list[str] = []
        self._notes: list[str] = []

    def plan(self, *, is_part: bool = False) -> Plan:
        """Return the plan. Raises `SemanticError` for unknown, ambiguous or hidden names and ambiguous paths.

        `is_part`: the query is a part of another one, and joins in `via` may belong to columns of the rest.
        """
        query = self._query
        self._find_facts()
        self._dimensions = self._named_dimensions()
        measures = Measures(self.names, query.segments, self._kept_names())
        for measure in query.measures:
            if measure.name is not None and measures.find((measure.name,)) is None:
                measures.named[measure.name] = (measure.expr, self._measure_tree(measure))
        self._outputs = [self._output(asked, measures) for asked in query.measures]
        given = {measure.name for measure in query.measures if measure.name is not None}
        self._outputs = _distinct_names(self._outputs, {dimension.name for dimension in self._dimensions}, given)
        if query.comparison is not None:
            self._outputs = self._compared(measures, query.comparison)
        self._require_distinct_names()
        measures.require_segments_used()
        self._dimensions = self._with_grains(measures.leaves)
        rows: list[RowFilter] = []
        results: list[exp.Expr] = []
        for asked in query.filters:
            self._place(asked, measures, rows, results)
        for text in query.having:
            results.append(self._result(self.names.parse_asked(text, f"having `{text}`"), text, measures))
        order = tuple(self._order(each) for each in query.order_by)
        plan = Plan(
            query,
            tuple(self._dimensions),
            tuple(self._outputs),
            tuple(measures.leaves),
            tuple(rows),
            tuple(results),
            order,
            self._time_range(measures.leaves),
            query.timezone or self._model.calendar.timezone,
            parameters=self._parameters,
            having_texts=(*self._result_texts, *query.having),
            named_by=measures.named_by,
            notes=tuple(self._notes),
        )
        if not is_part:
            self._require_targets()
        self._require_joins(plan)
        self._require_dimensions_of_rows(plan)
        return with_axes(self.names, plan)

    def _require_distinct_names(self) -> None:
        """Raise `SemanticError` if a column that the query names has the same name as another."""
        asked_names = [each.name for each in self._query.dimensions] + [each.name for each in self._query.measures]
        given = {name.casefold() for name in asked_names if name is not None}
        named = [(each.name, each.asked) for each in self._dimensions]
        named += [(each.name, each.asked) for each in self._outputs]
        columns = Counter(name.casefold() for name, _ in named)
        for name, asked in named:
            if columns[name.casefold()] > 1 and name.casefold() in given:
                raise _same_name(name, asked)

    def _require_dimensions_of_rows(self, plan: Plan) -> None:
        """Raise `SemanticError` (`fan_out`) for a dimension that only shares a parent with a fact's row.

        A query can still request it, with `via` or by the joins in the dimension's name.
        """
        graph = self.names.graph
        for fact in dict.fromkeys(leaf.fact for leaf in plan.leaves):
            for dimension in plan.dimensions:
                for name in dimension.expression.names:
                    if len(name.hops) != 1 or dimension.expression.via_to(name):
                        continue
                    paths = self._paths(fact, name.hops)
                    if paths and all(graph.fan_out(path) for path in paths):
                        raise _fan_out(self.names, paths, name)

    def _paths(self, fact: str, hops: Sequence[str]) -> list[Path]:
        """Return the path for a query, or the paths that it must choose from."""
        try:
            path = self.names.graph.path(fact, hops)
        except SemanticError:
            return self.names.graph.ways(fact, hops)
        return [] if path is None else [path]

    def _find_facts(self) -> None:
        """Find the sources whose measures are queried; bare columns are looked up there first."""
        measures = Measures(self.names)
        facts = []
        for asked in self._query.measures:
            for column in self._measure_tree(asked).find_all(exp.Column):
                counted = measures.counted(column)
                found = None if counted else measures.find(column_parts(column))
                if counted is not None:
                    facts.append(counted.name)
                elif found:
                    facts.append(found[0].name)
                elif len(column_parts(column)) > 1 and self.names.find_source(column_parts(column)[0]):
                    facts.append(self.names.source(column_parts(column)[0]).name)
        self.names.facts = tuple(dict.fromkeys(facts))

    def _measure_tree(self, asked: QueryMeasure) -> exp.Expr:
        plain = self._plain_measure(asked.expr)
        return plain if plain is not None else self.names.parse_asked(asked.expr, f"the measure `{asked.expr}`")

    def _plain_measure(self, text: str) -> exp.Column | None:
        """Return the measure whose exact name a text is, whatever characters it contains."""
        source, _, name = text.rpartition(".")
        owner = self.names.find_source(source) if source else None
        if owner is not None and owner.measure(name) is not None:
            return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(source, quoted=True))
        if not source and lookup_of(self._model).with_measure(name):
            return exp.column(exp.to_identifier(name, quoted=True))
        return None

    def _output(self, asked: QueryMeasure, measures: Measures) -> Output:
        tree = self._measure_tree(asked)
        if isinstance(tree, exp.Column):
            found = measures.find(column_parts(tree))
            if found is not None:
                source, measure = found
                require_public(source, measure)
                ref = f"{source.name}.{measure.name}"
                formula = measures.of(source, measure)
                name = asked.name or measure.name
                return Output(name, formula, asked.expr, ref, measure.description, measure.unit, measure.format)
        formula = measures.asked(tree, asked.expr)
        return Output(asked.name or auto_name(asked.expr), formula, asked.expr)

    def _compared(self, measures: Measures, comparison: str) -> list[Output]:
        """Return the outputs, each followed by its earlier value and the change from it."""
        offset = self._length() if comparison == "previous_period" else parse_span(comparison)
        context = Context(treatment=Treatment(offset=offset))
        outputs = []
        for output in self._outputs:
            tree = self._measure_tree(QueryMeasure(output.asked))
            found = measures.find(column_parts(tree)) if isinstance(tree, exp.Column) else None
            before = measures.of(*found, context) if found else measures.asked(tree, output.asked, context)
            change = exp.Sub(this=exp.paren(output.formula), expression=exp.paren(before))
            share = exp.Div(
                this=exp.Mul(this=exp.Literal.number("100.0"), expression=exp.paren(change.copy())),
                expression=exp.paren(before),
            )
            formulas = (before, change, exact_divisions(share))
            outputs.append(output)
            for suffix, formula in zip(_COMPARED, formulas, strict=True):
                shown = ("percent", None) if suffix == "change_pct" else (output.unit, output.format)
                asked = f"{output.asked} ({suffix})"
                outputs.append(Output(f"{output.name}_{suffix}", formula, asked, unit=shown[0], format=shown[1]))
        return outputs

    def _length(self) -> Span:
        """Return the length of the time range: the previous period has that length, and ends where the range starts."""
        asked = self._query.time_range
        start, end = (None, None) if asked is None else asked_range(asked, self._now)
        if start is None or end is None:
            hint = Hint("for example: `{}` or `{}`", *_COMPARABLE)
            message = "a comparison with the previous period requires a time range with a start and an end"
            raise SemanticError(message, hint=hint, code=TIME_RANGE)
        span = length(start, end)
        for dimension in self._dimensions:
            if dimension.grain is not None and not lines_up(span, dimension.grain):
                message = (
                    f"the previous period is {span} earlier, which is not a whole number of periods of one "
                    f"{dimension.grain}"
                )
                raise SemanticError(message, hint="group by day, or use a time range of whole periods", code="grain")
        return span

    def _named_dimensions(self) -> list[Dimension]:
        result = [self._dimension(asked) for asked in self._query.dimensions]
        unique = list({(each.expression.key, each.grain): each for each in reversed(result)}.values())[::-1]
        leaves = [each.name for each in unique]
        given = {each.name for each in self._query.dimensions}
        for each in result:
            if each.name in given and each.name not in leaves:
                hint = f"remove `as {each.name}`, or the dimension"
                raise SemanticError(f"the dimension `{each.asked}` is given twice", hint=hint)
        named = []
        for each in unique:
            shared = leaves.count(each.name) > 1 and each.name not in given
            if shared and each.column is not None and each.column.hops:
                each = replace(each, name=_suffixed(f"{'_'.join(each.column.hops)}_{each.name}", None))
            named.append(each)
        return named

    def _require_targets(self) -> None:
        """Raise `SemanticError` for a key of `via` that applies to no column of the query."""
        names = self.names
        applied = {target for target in names.required.values() if target is not None}
        for target in self._query.via:
            if target not in applied:
                message = f"`via` names `{target}`, but the query uses no column of it"
                hint = suggestion(target, names.reached) if names.reached else "remove it"
                raise SemanticError(message, hint=hint, code="unknown_name", details={"candidates": [*names.reached]})

    def _require_joins(self, plan: Plan) -> None:
        """Raise `SemanticError` for joins in `via` that are on no path to a column of the query."""
        names = self.names
        facts = list(dict.fromkeys(leaf.fact for leaf in plan.leaves))
        for (hops, via), key in names.required.items():
            missing = [label for label in via if label not in names.graph.labels]
            if missing or (facts and not any(names.graph.goes_through(fact, hops, via) for fact in facts)):
                raise _no_such_path(names, facts, hops, via, key or ".".join(hops))

    def _dimension(self, asked: QueryDimension) -> Dimension:
        parts = self._plain_reference(asked.field)
        if parts is not None:
            name = self.names.asked_name(parts, grouped=True)
            expression = Expression(placeholder(0), (name,), None, asked.field, asked.via)
            self.names.require(expression)
        else:
            tree = self.names.parse_asked(asked.field, f"the dimension `{asked.field}`")
            if has_aggregate(tree):
                message = f"the dimension `{asked.field}` contains an aggregate"
                raise SemanticError(message, hint="move it to `measures`")
            expression = self.names.asked(tree, asked.field, asked.via, grouped=True)
        grain = self._grain(expression, asked)
        leaf = expression.names[0].column if parts is not None else auto_name(asked.field)
        return Dimension(asked.name or _suffixed(leaf, grain), expression, asked.field, grain)

    def _plain_reference(self, text: str) -> tuple[str, ...] | None:
        """Return the parts of a text that is a single reference, even if SQL would require quotes around its names."""
        source, _, column = text.rpartition(".")
        owner = self.names.find_source(source) if source else None
        if owner is not None and owner.column(column) is not None:
            return owner.name, column
        if not source and lookup_of(self._model).with_column(column):
            return (column,)
        hops = tuple(source.split(".")) if source else ()
        if hops and (set(hops) & set(self.names.graph.aliases)):
            with contextlib.suppress(SemanticError):  # no such path, or a choice: what reads it says so
                if self._model.sources[self.names.target_of(hops)].column(column) is not None:
                    return (*hops, column)
        try:
            tree = self.names.parse_asked(text, "a name")
        except SemanticError:
            return None
        return column_parts(tree) if isinstance(tree, exp.Column) else None

    def _grain(self, expression: Expression, asked: QueryDimension) -> str | None:
        name = expression.names[0] if expression.names else None
        if name is None:
            return asked.granularity
        if name.is_metric_time:
            return asked.granularity
        column = self._model.sources[self.names.target_of(name.hops)].column(name.column)
        if column is None or asked.granularity is None:
            return asked.granularity
        if column.type is not SemanticType.TIME and isinstance(expression.tree, exp.Placeholder):
            message = f"`{asked.field}` cannot have a granularity: it is a {column.type.value}, not a time"
            hint = f"remove the granularity, or set `type: time` for {column.name} in {column.place}"
            raise SemanticError(message, hint=hint, code="grain")
        finest = column.natural_granularity
        if finest is not None and _finer(asked.granularity, finest):
            raise SemanticError(
                f"`{asked.field}` cannot be truncated to {asked.granularity}: its values have the granularity {finest}",
                hint=f"use {finest} or coarser",
                code="grain",
                details={"candidates": list(GRAINS[GRAINS.index(finest) :])},
            )
        return asked.granularity

    def _with_grains(self, leaves: Sequence[Leaf]) -> list[Dimension]:
        """Return the dimensions, with times truncated to their natural granularity where they have no other.

        This is done if periods are enumerated: for cumulative and earlier values, with `fill`, and for `metric_time`.
        """
        result = []
        timed = any(dimension.grain is not None for dimension in self._dimensions)
        for dimension in self._dimensions:
            if dimension.grain is None and dimension.column is not None:
                columns = self._columns_of_time(dimension, leaves, filled=self._query.fill and not timed)
                if columns:
                    dimension = replace(dimension, grain=self._natural(dimension, columns))
            result.append(dimension)
        return result

    def _columns_of_time(self, dimension: Dimension, leaves: Sequence[Leaf], *, filled: bool) -> list[Column | None]:
        """Return the columns of a dimension's periods, or none if rows are only grouped by its values."""
        assert dimension.column is not None
        name = dimension.column
        if name.is_metric_time:
            facts = {(leaf.fact, leaf.treatment.time) for leaf in leaves}
            sources = {fact: self._model.sources[fact] for fact, _ in facts}
            times = {(fact, time_of(sources[fact], time_name)) for fact, time_name in facts}
            return [None if time is None else sources[fact].column(time.column) for fact, time in times] or [None]
        column = self._model.sources[self.names.target_of(name.hops)].column(name.column)
        if column is None or column.type is not SemanticType.TIME:
            return []
        return [column] if filled or any(self._goes_over(leaf, dimension) for leaf in leaves) else []

    def _goes_over(self, leaf: Leaf, dimension: Dimension) -> bool:
        """Return whether a dimension is a time over which an aggregate is cumulative, windowed or offset."""
        treatment, source = leaf.treatment, self._model.sources[leaf.fact]
        if not treatment.is_windowed:
            return False
        time_name = None if treatment.cumulative is None else treatment.cumulative.over
        time_name = time_name or (None if treatment.semi_additive is None else treatment.semi_additive.over)
        own = time_of(source, time_name or treatment.time)
        if own is None:
            return self.names.graph.path(leaf.fact, *_way(dimension)) == Path(leaf.fact)
        times = TimeReader(self.names, leaf.fact, Read((), own.column, is_time=True), None, own.column)
        found = times.taken_apart(dimension.expression)
        return found is not None and isinstance(found[0], exp.Placeholder) and found[1][0].is_time

    def _natural(self, dimension: Dimension, columns: Sequence[Column | None]) -> str:
        """Return the finest grain known for all columns, which is a day if one does not specify its grain."""
        known = [
            DAY if column is None or column.natural_granularity is None else column.natural_granularity
            for column in columns
        ]
        if any(column is None or column.natural_granularity is None for column in columns):
            self._notes.append(f"`{dimension.asked}` is truncated to days; use `{dimension.asked}:month` for months")
        return max(known, key=GRAINS.index)

    def _kept_names(self) -> dict[str, int]:
        """Return the names that `percent_of` may use for the dimensions."""
        kept: dict[str, int] = {}
        for index, dimension in enumerate(self._dimensions):
            names = {dimension.name, dimension.asked}
            if dimension.column is not None:
                names |= {str(dimension.column), dimension.column.column}
            for name in names:
                kept.setdefault(name, index)
        return kept

    def _place(self, asked: QueryFilter, measures: Measures, rows: list[RowFilter], results: list[exp.Expr]) -> None:
        tree = self.names.parse_asked(asked.expr, f"the filter `{asked.expr}`")
        facts = None if asked.facts is None else frozenset(self.names.source(name).name for name in asked.facts)
        for part in conjuncts(tree):
            if self._on_results(part, measures):
                results.append(self._result(part, asked.expr, measures))
                self._result_texts.append(part.sql(self._model.dialect))
            else:
                self._require_no_names_of_answer(part, asked.expr)
                rows.append(RowFilter(self.names.asked(part, part.sql(self._model.dialect), asked.via), facts))

    def _require_no_names_of_answer(self, tree: exp.Expr, text: str) -> None:
        """Raise `SemanticError` if a condition on rows uses a dimension's name in the answer instead of a column."""
        called = {dimension.name.casefold(): dimension for dimension in self._dimensions}
        for column in tree.find_all(exp.Column):
            parts = column_parts(column)
            found = called.get(parts[0].casefold()) if len(parts) == 1 else None
            if found is None or lookup_of(self._model).with_column(parts[0]):
                continue
            if parts[0].casefold() == METRIC_TIME:
                continue
            message = f"`{parts[0]}` in the filter `{text}` is a column of the result, not of a source"
            hint = f"move the condition to `having`, or filter on `{found.asked}`"
            raise SemanticError(message, hint=hint, code="unknown_name", details={"candidates": [found.asked]})

    def _on_results(self, tree: exp.Expr, measures: Measures) -> bool:
        if has_aggregate(tree):
            return True
        outputs = {output.name.casefold() for output in self._outputs}
        for column in tree.find_all(exp.Column):
            parts = column_parts(column)
            if measures.is_column(parts):
                continue
            if measures.find(parts) or (len(parts) == 1 and parts[0].casefold() in outputs):
                return True
        return False

    def _result(self, tree: exp.Expr, text: str, measures: Measures) -> exp.Expr:
        """Return a condition on result rows, with measures, aggregates, and dimensions of the answer."""

        def known(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.find_ancestor(exp.AggFunc, exp.Filter, exp.WithinGroup):
                return node
            return self._of_answer(column_parts(node)) or node

        if isinstance(tree, exp.Column):
            return self._of_answer(column_parts(tree)) or measures.asked(tree, text)
        copy = tree.transform(known)
        if has_aggregate(copy) or any(copy.find_all(exp.Column)):
            return measures.asked(copy, text)
        return exact_divisions(copy)

    def _of_answer(self, parts: Sequence[str]) -> exp.Expr | None:
        """Return the answer's column that a name refers to, or None."""
        written = ".".join(parts).casefold()
        for output in self._outputs:
            if written in (output.name.casefold(), output.asked.casefold(), (output.ref or "").casefold()):
                return exp.paren(output.formula)
        for index, dimension in enumerate(self._dimensions):
            column = "" if dimension.column is None else str(dimension.column)
            if written in (dimension.name.casefold(), dimension.asked.casefold(), column.casefold()):
                return placeholder(-1 - index)
        return None

    def _order(self, asked: QueryOrder) -> Order:
        tree = self._of_answer((asked.field,)) or self._of_position(asked.field) or self._of_reference(asked.field)
        if tree is None:
            known = [dimension.name for dimension in self._dimensions] + [output.name for output in self._outputs]
            raise unknown("column", asked.field, known, " in the result to sort by")
        return Order(tree.unnest(), asked.descending)

    def _of_position(self, text: str) -> exp.Expr | None:
        """Return the answer's column at a position, `1` for the first, or None for a text that is not a number."""
        if not (text.isascii() and text.isdigit()):
            return None
        names = [each.name for each in self._dimensions] + [each.name for each in self._outputs]
        number, dimensions = int(text), len(self._dimensions)
        if not 1 <= number <= len(names):
            message = f"cannot sort by column {text}: the result has {plural(len(names), 'column')}"
            positions = (f"{place} ({name})" for place, name in enumerate(names, start=1))
            raise SemanticError(message, hint=f"use a name, or a position: {listing(positions)}")
        return (
            placeholder(-number) if number <= dimensions else exp.paren(self._outputs[number - dimensions - 1].formula)
        )

    def _of_reference(self, text: str) -> exp.Expr | None:
        """Return the answer's column that a reference means; `orders.placed_at:month` is the one with that grain."""
        field, grain = with_grain(text)
        parts = self._plain_reference(field)
        found = self._of_answer(parts) if parts is not None and grain is None else None
        if found is not None:
            return found
        written = {field.casefold(), ".".join(parts or ()).casefold()}
        matches = [
            index
            for index, dimension in enumerate(self._dimensions)
            if grain in (None, dimension.grain)
            and dimension.column is not None
            and written
            & {dimension.asked.casefold(), str(dimension.column).casefold(), dimension.column.column.casefold()}
        ]
        return placeholder(-1 - matches[0]) if len(matches) == 1 else None

    def _time(self, parts: Sequence[str], text: str) -> Name:
        """Return the name of a time column."""
        name = self.names.asked_name(parts)
        if not name.is_metric_time:
            column = self._model.sources[self.names.target_of(name.hops)].column(name.column)
            if column is not None and column.type is not SemanticType.TIME:
                message = f"the time range is on `{text}`, which is a {column.type.value}, not a time"
                hint = f"use a time column; or set `type: time` for {column.name} in {column.place}"
                raise SemanticError(message, hint=hint, code=TIME_RANGE)
        return name

    def _time_range(self, leaves: Sequence[Leaf]) -> TimeRange | None:
        asked = self._query.time_range
        if asked is None:
            return None
        if asked.field is not None:
            parts = self._plain_reference(asked.field)
            if parts is None:
                message = f"the time range is on `{asked.field}`, which is not a column"
                hint = "use one time column, written as `source.column`"
                raise SemanticError(message, hint=hint, code=TIME_RANGE)
            expression = Expression(placeholder(0), (self._time(parts, asked.field),), None, asked.field)
        else:
            expression = self._default_time(leaves)
        start, end = asked_range(asked, self._now)
        return TimeRange(expression, start, end)

    def _default_time(self, leaves: Sequence[Leaf]) -> Expression:
        """Return the time for a range without a field: the one among the dimensions, or else each fact's own."""
        own = Expression(placeholder(0), (Name((), "metric_time"),), None, "metric_time")
        times = {dimension.expression.key: dimension for dimension in self._dimensions if dimension.grain is not None}
        if len(times) < 2:
            return next(iter(times.values())).expression if times else own
        facts = dict.fromkeys((leaf.fact, leaf.treatment.time) for leaf in leaves)
        for fact, time_name in facts:
            time = time_of(self._model.sources[fact], time_name)
            if time is None:
                continue
            times_of = TimeReader(self.names, fact, Read((), time.column, is_time=True), None, time.column)
            same = [each for each in times.values() if times_of.read(each.expression, each.grain) is not None]
            if len(same) == len(times):
                return _preferred(times_of, same)
            if same and len(facts) == 1:
                return own
        message = (
            f"the time range is ambiguous: it could apply to {listing(f'`{each.asked}`' for each in times.values())}"
        )
        fields = (self._query.time_range_with(field=each.asked) for each in times.values())
        hint = Hint("choose one: ") + Hint.steps(*(Hint("`{}`", field) for field in fields), between=" or ")
        raise SemanticError(message, hint=hint, code=TIME_RANGE)


def _preferred(times: TimeReader, dimensions: Sequence[Dimension]) -> Expression:
    """Return one of several expressions for a time: the time itself, or else the first by its text."""
    return min(dimensions, key=lambda each: (not times.is_itself(each.expression), each.asked)).expression


def _no_such_path(
    names: Names, facts: Sequence[str], hops: Sequence[str], via: Sequence[str], target: str
) -> SemanticError:
    """Return the error for joins in `via` that are on no path to a source; the hint offers the paths that exist."""
    end = ".".join(hops)
    start = f" from {' or '.join(f'`{fact}`' for fact in facts)}" if facts else ""
    message = f"no join path{start} to `{end}` goes through `{'.'.join(via)}`"
    if names.model.sources.keys() & {*hops[-1:]} == {*facts}:
        message = f"the query aggregates the rows of `{end}` itself, not through `{'.'.join(via)}`"
    known = all(label in names.graph.labels for label in via)
    details: dict[str, Any] = {"target": target, "choices": []}
    only: list[str] = []
    for fact in facts:
        try:
            path = names.graph.path(fact, hops)
        except SemanticError as error:
            details["choices"] += error.details["choices"]
        else:
            only += [] if path is None or not path.edges else names.offered([str(path)])
    ways = dict.fromkeys(each["via"] for each in details["choices"])
    if ways:
        hint: Hint | str = Hint("choose a path: ") + via_hint(target, list(ways))
    elif only:
        hint = f"remove `via` for `{target}`: the only path is {listing(only)}"
    else:
        hint = f"remove `via` for `{target}`"
    return SemanticError(message, hint=hint, code="unreachable" if known else "unknown_name", details=details)


def _fan_out(names: Names, paths: Sequence[Path], name: Name) -> SemanticError:
    """Return the error for a dimension to which paths lead down from a parent that rows of the fact share."""
    graph, target = names.graph, ".".join(name.hops)
    fact, end = names.model.sources[paths[0].start], names.model.sources[paths[0].end]
    parents = dict.fromkeys(edge.source for path in paths if (edge := graph.fan_out(path)))
    parent = " or ".join(f"`{each}`" for each in parents)
    message = (
        f"a row of `{fact.name}` has no single `{name}`: {listing(map(str, paths))} "
        f"{'leads' if len(paths) == 1 else 'lead'} up to {parent} and down again, "
        f"so each row would count once for every row of `{end.name}` below the same row of {parent}"
    )
    choices = [{"via": graph.via_of(path, name.hops), "path": str(path)} for path in paths]
    details: dict[str, Any] = {"fact": fact.name, "target": target, "choices": choices}
    hints: list[str] = []
    own = fact.column(name.column)
    if own is not None and names.visibility(fact, own) is Visibility.PUBLIC:
        details["candidates"] = [f"{fact.name}.{own.name}"]
        hints.append(f"group by `{fact.name}.{own.name}`, which has one value per row")
    key = end.grain[0] if end.keyed and len(end.grain) == 1 else ""
    reference = fact.column(key)
    if reference is not None:
        kind = Relationship.ONE_TO_ONE if fact.grain == (reference.name,) else Relationship.MANY_TO_ONE
        details["join"] = f"{{to: {end.name}, on: {reference.name} = {end.name}.{key}, relationship: {kind.value}}}"
        hints.append(
            f"if `{reference.name}` refers to {end.name}, add it to `joins` in the definition of `{fact.name}`: "
            f"`- {details['join']}`"
        )
    if as_of := as_of_hint(fact, end):
        hints.append(as_of)
    offered = [each for each, path in zip(choices, paths, strict=True) if not _goes_over_days(names, path)]
    if offered:
        ways = via_hint(target, [each["via"] for each in offered])
        hints.append(Hint("to count each row in every matching group, use {}", ways))
    hint = Hint.steps(*hints, between="; ") if hints else f"group by a column of `{fact.name}` or of {parent}"
    return SemanticError(message, hint=hint, code="fan_out", details=details)


_OF_DAYS: Final = re.compile(r"(?:^|_)(?:dates?|days?|weeks?|months?|calendar|datum|tag)(?:_|$)", re.IGNORECASE)


def _goes_over_days(names: Names, path: Path) -> bool:
    """Whether rows only share a day: a path over a calendar relates each row to all others on that day."""
    edge = names.graph.fan_out(path)
    if edge is None:
        return False
    parent = names.model.sources[edge.source]
    keys = [column for name in parent.grain if (column := parent.column(name)) is not None]
    return len(keys) == 1 and (keys[0].type is SemanticType.TIME or _OF_DAYS.search(keys[0].name) is not None)


def _way(dimension: Dimension) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hops to a dimension's column, and the joins that they must use."""
    column, via = dimension.column, dimension.expression.via
    return ((), via) if column is None else (column.hops, dimension.expression.via_to(column))


def auto_name(expr: str) -> str:
    """Return the column name for an unnamed expression: `sum(orders.amount)` is `sum_orders_amount`."""
    return _NOT_NAME.sub("_", expr.lower()).strip("_") or "value"


def _suffixed(name: str, grain: str | None) -> str:
    return name if grain is None else f"{name}_{grain}"


def _finer(grain: str, than: str) -> bool:
    order = [each for each in GRAINS if each not in (FISCAL_QUARTER, FISCAL_YEAR)]
    plain = {FISCAL_QUARTER: "quarter", FISCAL_YEAR: "year"}.get(grain, grain)
    return order.index(plain) < order.index(than) if than in order else False


def _distinct_names(outputs: Sequence[Output], taken: set[str], given: set[str]) -> list[Output]:
    """Return the outputs without duplicates; those with the same name are qualified by their source.

    `taken`: the names of the dimensions. `given`: the names that the query gives its measures, which do not change.
    """
    unique = list({(output.ref or output.asked, output.name): output for output in reversed(outputs)}.values())[::-1]
    names = [each.name for each in unique]
    result = []
    for each in unique:
        is_shared = (names.count(each.name) > 1 or each.name in taken) and each.name not in given
        if is_shared and each.ref is not None:
            each = replace(each, name=each.ref.replace(".", "_"))
        result.append(each)
    seen: set[str] = set(taken)
    for each in result:
        if each.name in seen:
            raise _same_name(each.name, each.asked)
        seen.add(each.name)
    return result


def _same_name(name: str, asked: str) -> SemanticError:
    return SemanticError(f"two columns of the result would be named `{name}`", hint=f"rename one: `{asked} as NAME`")


def parameter_values(model: Model, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of `param.x`, and the parameters by name, including defaults.

    Raises `SemanticError` for a parameter that is undeclared, of the wrong type, or not among its `values`.
    """
    declared = lookup_of(model).parameters
    for name in given:
        if name not in declared:
            raise unknown("parameter", name, declared)
    parameters = {name: each.default for name, each in declared.items() if each.default is not None}
    parameters |= {name: _checked(declared[name], value) for name, value in given.items()}
    return {f"param.{name}": value for name, value in parameters.items()}, parameters


def _checked(parameter: Parameter, value: Any) -> Any:
    fits = {
        SemanticType.STRING: isinstance(value, str),
        SemanticType.NUMBER: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
        SemanticType.BOOLEAN: isinstance(value, bool),
        SemanticType.TIME: isinstance(value, str),
    }[parameter.type]
    if not fits:
        message = f"the parameter `{parameter.name}` must be a {parameter.type.value}, not {value!r}"
        raise SemanticError(message, hint=f"it is declared in {parameter.place}", code="parameter")
    if parameter.values and value not in parameter.values:
        message = f"the parameter `{parameter.name}` cannot be {value!r}"
        hint = f"use one of: {listing(map(str, parameter.values))}"
        raise SemanticError(message, hint=hint, code="parameter", details={"candidates": list(parameter.values)})
    return value
