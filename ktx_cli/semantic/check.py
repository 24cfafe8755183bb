"""Check a model without a database: names, joins, grains, and the SQL in definitions."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ktx_cli.core import Diagnostic, KtxError, Severity, listing, one_line, plural, suggestion
from ktx_cli.semantic.expressions.fragments import TEMPLATE, has_other_braces, parse, template_names
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.masks import mask_misfit, masks_of
from ktx_cli.semantic.model import (
    GRAINS,
    Place,
    Relationship,
    SemanticError,
    ambiguous,
    layer_diagnostic,
    name_hint,
    spelled,
    unknown,
)
from ktx_cli.warehouses import SemanticType, dialect_named, silence_parser

if TYPE_CHECKING:
    from ktx_cli.semantic.model import Column, Join, Measure, Model, Source

MeasureKey = tuple[str, str]
"""Source and measure."""

_PLAIN: Final = re.compile(r"(sum|avg|min|max|count)\(\s*(?:distinct\s+)?([A-Za-z_]\w*)\s*\)", re.IGNORECASE)
_ADDING: Final = frozenset({"sum", "avg"})
_ALL_ROWS: Final = re.compile(r"count\(\s*\*\s*\)", re.IGNORECASE)


class ExpressionChecks:
    """Checks the expressions in a model by source. `uses` maps measures to the measures they are computed from."""

    def __init__(self, model: Model, report: ProblemList) -> None:
        self.model, self.report = model, report
        self.names = Resolver(model)
        self.uses: dict[MeasureKey, list[MeasureKey]] = {}
        self.parameters = frozenset(lookup_of(model).parameters)

    def check(self, source: Source) -> None:
        """Check all expressions in a source."""
        for column in source.columns.values():
            if column.expr is not None:
                self._check_rows(source, column.expr, f"column `{column.name}`", column.place)
            if column.mask is not None and (why := mask_misfit(column, column.mask)) is not None:
                problem = (
                    f"the mask of `{column.name}` of `{source.name}` has the value {column.mask.value!r}, but {why}"
                )
                hint = "change `value` of the mask, or remove it to show null"
                self.report.error("mask", problem, source, column.place, hint)
        self._check_inherited_masks(source)
        for segment in source.segments.values():
            self._check_rows(source, segment.expr, f"segment `{segment.name}`", segment.place)
        for policy in source.policies:
            self._check_rows(source, policy.filter, f"policy `{policy.name}`", policy.place, policy=True)
        for measure in source.measures.values():
            if measure.filter is not None:
                self._check_rows(source, measure.filter, f"`filter` of measure `{measure.name}`", measure.place)
            self._check_measure(source, measure)
        self._check_equal(source)
        self._check_computed(source)

    def _check_inherited_masks(self, source: Source) -> None:
        """Report columns that are masked because they have the values of a masked column, which may be a surprise."""
        for name in masks_of(self.model, source):
            column = source.column(name)
            if column is not None and column.mask is None:
                problem = (
                    f"`{column.name}` of `{source.name}` is masked as well: it is the same column as a masked one of "
                    "another source, or a join equates the two"
                )
                hint = f"set the same `mask` for {column.name}, so that readers of the file see it"
                self.report.warn("mask", problem, source, column.place, hint)

    def _parse(
        self, source: Source, text: str, what: str, place: Place | None, *, policy: bool = False
    ) -> Fragment | None:
        try:
            return read_fragment(text, self.model.dialect, f"{what} of `{source.name}`", self.parameters, policy=policy)
        except SemanticError as error:
            self.report.raised(error, source, place)
        return None

    def _check_rows(self, source: Source, text: str, what: str, place: Place | None, *, policy: bool = False) -> None:
        """Check an expression over rows, which must not contain an aggregate."""
        fragment = self._parse(source, text, what, place, policy=policy)
        if fragment is None:
            return
        if fragment.aggregates:
            problem = f"{what} of `{source.name}` contains an aggregate, but applies to individual rows"
            self.report.error("aggregate", problem, source, place, "move the aggregate into a measure")
        for reference in fragment.references:
            self._check_column(source, reference, what, place)

    def _check_column(self, source: Source, reference: Reference, what: str, place: Place | None) -> None:
        try:
            self.names.column(source, reference.parts)
        except SemanticError as error:
            if not reference.is_date_part:
                self.report.raised(error, source, place, f"{what} of `{source.name}`")

    def _check_measure(self, source: Source, measure: Measure) -> None:
        self._check_keys(source, measure)
        if self._is_plain(source, measure):
            return
        what = f"measure `{measure.name}`"
        fragment = self._parse(source, measure.expr, what, measure.place)
        if fragment is None:
            return
        if not measure.per:
            for function, reference in fragment.added:
                self._check_added(source, measure, function, reference)
        used = self.uses.setdefault((source.name, measure.name), [])
        for reference in fragment.references:
            self._check_reference(source, measure, reference, used)
        if fragment.nested:
            problem = f"{what} of `{source.name}` nests one aggregate inside another"
            hint = "define the inner aggregate as a measure, and set its keys with `per: [column]`"
            self.report.error("aggregate", problem, source, measure.place, hint)
        if not (fragment.aggregates or fragment.opaque or used or fragment.references):
            problem = f"{what} of `{source.name}` contains neither an aggregate nor a measure"
            self.report.error(
                "aggregate", problem, source, measure.place, "write an aggregate, for example: sum(amount)"
            )

    def _is_plain(self, source: Source, measure: Measure) -> bool:
        """Return whether a measure aggregates one own column or counts rows, which requires no parser to check."""
        found = _PLAIN.fullmatch(measure.expr.strip())
        if found is not None:
            if measure.per or source.column(found[2]) is None:
                return False
            if found[1].lower() in _ADDING:
                self._check_added(source, measure, found[1].lower(), Reference((found[2],), True, False))
            return True
        return _ALL_ROWS.fullmatch(measure.expr.strip()) is not None

    def _check_added(self, source: Source, measure: Measure, function: str, reference: Reference) -> None:
        """Report a sum or average over a non-numeric column, as an error if the database does not support it.

        Only columns with types from the database are checked.
        """
        try:
            owner, column = self.names.column(source, reference.parts)
        except SemanticError:  # reported with the names of the measure
            return
        if not owner.generated or column.expr is not None or column.type is SemanticType.NUMBER:
            return
        if column.type is SemanticType.TIME and function == "avg":  # some databases can average times
            return
        strict = is_never_added(column, function, self.model.dialect)
        what = f"measure `{measure.name}` of `{source.name}` sums `{reference}`, which is a {column.type.value}"
        hint = "aggregate a number, count rows, or cast the column"
        severity = Severity.ERROR if strict else Severity.WARNING
        self.report.add(severity, "not_a_number", what, source, measure.place, hint)

    def _check_keys(self, source: Source, measure: Measure) -> None:
        for key, names in (("per", measure.per), ("percent_of", measure.percent_of or ())):
            for name in names:
                parts = (name,) if source.column(name) else tuple(name.split("."))
                what = f"`{key}` of measure `{measure.name}`"
                self._check_column(source, Reference(parts, False, False), what, measure.place)

    def _check_reference(self, source: Source, measure: Measure, reference: Reference, used: list[MeasureKey]) -> None:
        """Check one name in a measure: a column inside an aggregate (a measure with `per`), otherwise a measure."""
        found = self.names.measure(source, reference.parts)
        what = f"measure `{measure.name}`"
        if reference.aggregated and not (found and measure.per):
            if found and self._finds(source, reference) is None:
                problem = f"{what} of `{source.name}` aggregates `{reference}`, which is already a measure"
                hint = "set the keys of the inner aggregation: per: [column]"
                self.report.error("aggregate", problem, source, measure.place, hint)
            else:
                self._check_column(source, reference, what, measure.place)
        elif found is not None:
            used.append((found[0].name, found[1].name))
        elif not reference.passed:
            self._refuse_bare(source, measure, reference)
        else:
            self._check_column(source, reference, what, measure.place)

    def _refuse_bare(self, source: Source, measure: Measure, reference: Reference) -> None:
        what = f"measure `{measure.name}` of `{source.name}`"
        if self._finds(source, reference) is None:
            hint: str = name_hint(str(reference), (*source.measures, *source.columns), source=source.name)
            self.report.error("unknown_name", f"{what}: there is no measure `{reference}`", source, measure.place, hint)
        else:
            hint = f"aggregate it, for example: sum({reference})"
            problem = f"{what}: the column `{reference}` is used outside an aggregate"
            self.report.error("aggregate", problem, source, measure.place, hint)

    def _finds(self, source: Source, reference: Reference) -> object | None:
        try:
            return self.names.column(source, reference.parts)
        except KtxError:
            return None

    def _check_equal(self, source: Source) -> None:
        """Warn about measures with the same definition. A different filter makes a different measure."""
        alike: dict[tuple[object, ...], list[Measure]] = defaultdict(list)
        for measure in source.measures.values():
            if not measure.is_proposed:
                alike[_shape(measure)].append(measure)
        for first, *others in alike.values():
            for other in others:
                problem = f"measures `{first.name}` and `{other.name}` of `{source.name}` have the same definition"
                self.report.warn("equal_measures", problem, source, other.place, "keep one of them")

    def _check_computed(self, source: Source) -> None:
        """Report computed columns that refer to themselves."""
        computed = {name: column for name, column in source.columns.items() if column.expr is not None}
        if not computed:
            return
        uses = {name: list(self._own_names(source, column)) for name, column in computed.items()}
        for cycle in cycles(uses):
            column = computed[cycle[0]]
            problem = f"column `{cycle[0]}` of `{source.name}` refers to itself: {' -> '.join((*cycle, cycle[0]))}"
            self.report.error("cycle", problem, source, column.place, "remove one of them from the `expr` of the other")

    def _own_names(self, source: Source, column: Column) -> Iterator[str]:
        """Yield the computed columns of the same source that a column uses."""
        what = f"column `{column.name}` of `{source.name}`"
        try:
            references = read_fragment(column.expr or "", self.model.dialect, what, self.parameters).references
        except SemanticError:  # reported when the column was checked
            return
        for reference in references:
            own = source.column(reference.parts[0]) if len(reference.parts) == 1 else None
            if own is not None and own.expr is not None:
                yield own.name


def _shape(measure: Measure) -> tuple[object, ...]:
    """Return a key that is equal for measures with the same definition, ignoring whitespace and case in SQL."""
    return (
        _plain_text(measure.expr), _plain_text(measure.filter or ""), tuple(sorted(measure.segments)), measure.time,
        measure.semi_additive, measure.cumulative, measure.offset, measure.percent_of, measure.per,
    )  # fmt: skip


def _plain_text(sql: str) -> str:
    """Return SQL without whitespace and in one case, unless string literals could differ in them."""
    return "".join(sql.split()).casefold() if "'" not in sql else " ".join(sql.split())


LONGEST: Final = 20_000
"""Maximum length of a parsed fragment in characters."""

_DATE_PARTS: Final = frozenset(
    (*GRAINS, "microsecond", "millisecond", "dayofweek", "dayofyear", "isoweek", "dow", "doy", "epoch")
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a fragment, which may be inside an aggregate (`aggregated`) or an unknown function (`passed`)."""

    parts: tuple[str, ...]
    aggregated: bool
    passed: bool

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def is_date_part(self) -> bool:
        """Whether the name may be a date part, which some functions take like a column."""
        return self.passed and len(self.parts) == 1 and self.parts[0].lower() in _DATE_PARTS


@dataclass(frozen=True, slots=True)
class Fragment:
    """The names in a fragment.

    `opaque` means that it calls an unknown function, which may be an aggregate, and `nested` that it has nested
    aggregates. `added` lists each `sum` or `avg` directly over a column, with that column.
    """

    references: tuple[Reference, ...]
    aggregates: bool
    nested: bool
    opaque: bool
    added: tuple[tuple[str, Reference], ...] = ()


def read_fragment(text: str, dialect: str, what: str, parameters: Collection[str], *, policy: bool = False) -> Fragment:
    """Parse an expression of a dialect in the same way as queries do.

    `what` names it in errors, and `parameters` are the declared parameters. Raises `SemanticError` if it is not a
    single expression, contains a query, a window function or an unknown template, or uses user attributes outside a
    policy.
    """
    silence_parser()
    if len(text) > LONGEST:
        raise _refused(f"{what} is longer than {LONGEST:,} characters", "move the logic into the `sql` of a source")
    tree = parse(text, dialect, what=what, values=template_values(text, what, parameters, policy=policy))
    aggregates = [node for node in tree.walk() if is_aggregate(node)]
    return Fragment(
        tuple(_references(tree)),
        bool(aggregates),
        any(_is_inside(node.parent, is_aggregate) for node in aggregates),
        any(isinstance(node, exp.Anonymous) for node in tree.walk()),
        tuple((function, Reference(parts, True, False)) for function, parts in added_columns(tree)),
    )


def is_never_added(column: Column, function: str, dialect: str) -> bool:
    """Return whether the database does not support `sum` or `avg` (`function`) for a table column."""
    has_middle = function == "avg" and column.type is SemanticType.TIME
    return column.expr is None and not has_middle and column.type in dialect_named(dialect).not_summed


def added_columns(tree: exp.Expr) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each `sum` or `avg` directly over a column, with the parts of the column name."""
    for node in tree.find_all(exp.Sum, exp.Avg):
        value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        value = value.unnest() if isinstance(value, exp.Expr) else value
        if isinstance(value, exp.Column) and not isinstance(value.this, exp.Star):
            function = "sum" if isinstance(node, exp.Sum) else "avg"
            yield function, tuple(part.name for part in value.parts)


def template_values(text: str, what: str, parameters: Collection[str], *, policy: bool = False) -> dict[str, int]:
    """Return placeholder values for the templates in a text. Raises `SemanticError` for an unknown template."""
    if "{{" not in text:
        return {}
    found = template_names(text)
    for kind, name in found:
        if kind == "param" and name not in parameters:
            raise unknown("parameter", name, parameters, f" (for {what})")
        if kind == "user" and not policy:
            raise _refused(f"{what} uses `user.{name}`, which is only allowed in policies", "use {{ param.NAME }}")
        if kind not in ("param", "user"):
            raise _refused(f"{what} contains the unknown template `{kind}.{name}`", "write {{ param.NAME }}")
    if has_other_braces(text):
        raise _refused(f"{what} contains an invalid template: {one_line(text, 100)}", "write {{ param.NAME }}")
    return {f"{kind}.{name}": 1 for kind, name in found}


def is_aggregate(node: Any) -> bool:
    """Return whether a node is an aggregate. `max(a, b)` with several arguments is not."""
    return isinstance(node, exp.AggFunc) and not (isinstance(node, exp.Max | exp.Min) and bool(node.expressions))


def _references(tree: exp.Expr) -> Iterator[Reference]:
    for node in tree.find_all(exp.Column):
        if isinstance(node.this, exp.Star):
            continue
        yield Reference(
            tuple(part.name for part in node.parts),
            _is_inside(node.parent, lambda each: is_aggregate(each) or isinstance(each, exp.Filter | exp.WithinGroup)),
            _is_inside(node.parent, lambda each: isinstance(each, exp.Anonymous)),
        )


def _is_inside(node: Any, fits: Any) -> bool:
    while node is not None:
        if fits(node):
            return True
        node = node.parent
    return False


def _refused(what: str, hint: str) -> SemanticError:
    return SemanticError(what, hint=hint, code="definition")


_Key = TypeVar("_Key", bound=Hashable)


def cycles(uses: Mapping[_Key, Sequence[_Key]]) -> list[list[_Key]]:
    """Return a cycle for each back edge of a depth-first search, starting at its first key in `uses`.

    The result contains at least one cycle for each strongly connected component.
    """
    order = {key: position for position, key in enumerate(uses)}
    result: dict[frozenset[_Key], list[_Key]] = {}
    done: set[_Key] = set()
    for start in uses:
        path: list[_Key] = []
        stack: list[tuple[_Key, Iterator[_Key]]] = []
        _enter(start, uses, done, path, stack)
        while stack:
            following = next(stack[-1][1], None)
            if following is None:
                done.add(stack.pop()[0])
                path.pop()
            elif following in path:
                cycle = path[path.index(following) :]
                first = min(range(len(cycle)), key=lambda at: order.get(cycle[at], 0))
                result.setdefault(frozenset(cycle), cycle[first:] + cycle[:first])
            else:
                _enter(following, uses, done, path, stack)
    return list(result.values())


def _enter(
    key: _Key,
    uses: Mapping[_Key, Sequence[_Key]],
    done: set[_Key],
    path: list[_Key],
    stack: list[tuple[_Key, Iterator[_Key]]],
) -> None:
    if key not in done:
        path.append(key)
        stack.append((key, iter(uses.get(key, ()))))


Parts = Sequence[str]


class Resolver:
    """Resolves names from a source: its own names first, then those reachable over to-one joins."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.reached = False
        """Whether a name was looked up in another source."""

    @functools.cached_property
    def graph(self) -> Graph:
        """The joins of the model."""
        return Graph(self.model)

    def column(self, source: Source, parts: Parts) -> tuple[Source, Column]:
        """Return the column and its source. Raises `SemanticError` if no or several columns match."""
        if len(parts) == 1:
            own = source.column(parts[0])
            return (source, own) if own is not None else self._reached(source, parts[0])
        other = self._place(source, parts[:-1])
        found = other.column(parts[-1])
        if found is None:
            prefix, where = "".join(f"{part}." for part in parts[:-1]), f" in `{other.name}`"
            raise unknown("column", parts[-1], other.columns, where, source=other.name, prefix=prefix)
        return other, found

    def measure(self, source: Source, parts: Parts) -> tuple[Source, Measure] | None:
        """Return the measure for a bare name or for `source.measure`, or None."""
        owner = source if len(parts) == 1 else self.model.sources.get(parts[0]) if len(parts) == 2 else None
        self.reached = self.reached or len(parts) > 1
        found = None if owner is None else owner.measures.get(parts[-1])
        return None if owner is None or found is None else (owner, found)

    def _reached(self, source: Source, name: str) -> tuple[Source, Column]:
        """Return a column that exists in exactly one reachable source."""
        self.reached = True
        owners = [
            (other, column)
            for other in self.model.sources.values()
            if (column := other.column(name)) is not None and self.graph.reaches(source.name, other.name)
        ]
        if len(owners) == 1:
            self.graph.defined_path(source.name, (owners[0][0].name,))  # raises if there are several
            return owners[0]
        if owners:
            raise ambiguous("the column", name, (f"{other.name}.{name}" for other, _ in owners))
        raise unknown("column", name, source.columns, f" in `{source.name}`", source=source.name)

    def _place(self, source: Source, hops: Parts) -> Source:
        """Return the source at the end of `hops` over to-one joins."""
        if len(hops) == 1 and hops[0].casefold() == source.name.casefold():
            return source
        self.reached = True
        path = self.graph.defined_path(source.name, self._spelled(hops))
        if path is None:
            known = (name for edge in self.graph.edges(source.name) for name in (edge.name, edge.target))
            raise unknown(f"source or alias that `{source.name}` is joined to", ".".join(hops), known)
        if not path.to_one:
            message = f"`{'.'.join(hops)}` can have several rows for one row of `{source.name}`"
            hint = f"define it in {path.end}, or make the joins of the path many_to_one"
            raise SemanticError(message, hint=hint, code="unreachable")
        return self.model.sources[path.end]

    def _spelled(self, hops: Parts) -> tuple[str, ...]:
        """Return the hops with the exact spelling of source names."""
        return tuple(hop if hop in self.graph.aliases else self._source_name(hop) for hop in hops)

    def _source_name(self, hop: str) -> str:
        source = spelled(self.model.sources, hop)
        return hop if source is None else source.name


class ProblemList:
    """Collects the diagnostics for a model."""

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []

    def add(
        self, severity: Severity, code: str, message: str, source: Source, place: Place | None, hint: str | None = None
    ) -> None:
        """Add a diagnostic at `place` or at the source."""
        where = place or source.place or Place("")
        self.problems.append(layer_diagnostic(severity, code, message, where, hint, source.name))

    def error(self, code: str, message: str, source: Source, place: Place | None, hint: str | None = None) -> None:
        """Add an error."""
        self.add(Severity.ERROR, code, message, source, place, hint)

    def warn(self, code: str, message: str, source: Source, place: Place | None, hint: str | None = None) -> None:
        """Add a warning."""
        self.add(Severity.WARNING, code, message, source, place, hint)

    def raised(self, error: KtxError, source: Source, place: Place | None, what: str = "") -> None:
        """Add a raised error, prefixed with `what` if its message does not name the object."""
        self.error(error.code, f"{what}: {error.message}" if what else error.message, source, place, error.hint)

    def sorted(self) -> list[Diagnostic]:
        """Return the diagnostics, sorted by file and line."""
        return sorted(self.problems, key=lambda each: (each.path, each.line, each.code, each.message))


@dataclass(frozen=True, slots=True)
class SourceChecks:
    """The diagnostics for one source.

    `uses` maps its measures to the measures they are computed from. `reaches` means that the result depends on more
    sources than itself and those it joins.
    """

    problems: tuple[Diagnostic, ...] = ()
    uses: Mapping[str, Sequence[MeasureKey]] = field(default_factory=dict)
    reaches: bool = False


class ModelChecks:
    """Checks the sources of a model one by one."""

    def __init__(self, model: Model) -> None:
        self._model, self._report = model, ProblemList()
        self._expressions = ExpressionChecks(model, self._report)

    def check(self, source: Source) -> SourceChecks:
        """Check a source with its joins."""
        report, expressions, resolver = self._report, self._expressions, self._expressions.names
        report.problems, resolver.reached = [], False
        check_source(source, report)
        expressions.check(source)
        if source.sql is not None:
            check_projection(source, self._model.dialect, expressions.parameters, report)
        check_joins(source, self._model, report)
        own = ((name, expressions.uses.get((source.name, name))) for name in source.measures)
        return SourceChecks(tuple(report.problems), {name: used for name, used in own if used}, resolver.reached)


def check_cycles(model: Model, uses: Mapping[MeasureKey, Sequence[MeasureKey]], report: ProblemList) -> None:
    """Report measures that refer to themselves. `uses` maps measures to the measures they are computed from."""
    for cycle in cycles(uses):
        source = model.sources[cycle[0][0]]
        shown = " -> ".join(".".join(key) for key in (*cycle, cycle[0]))
        problem = f"measure `{cycle[0][1]}` of `{source.name}` refers to itself: {shown}"
        place = source.measures[cycle[0][1]].place
        report.error("cycle", problem, source, place, "remove one of them from the `expr` of the other")


def check_source(source: Source, report: ProblemList) -> None:
    """Check a source's column names, grain and time column, and the columns and segments in its measures."""
    for column in source.columns.values():
        if "." in column.name:
            severity = Severity.WARNING if source.generated and column.expr is None else Severity.ERROR
            what = f"the name of the column `{column.name}` of `{source.name}` contains a dot"
            report.add(
                severity,
                "dotted_name",
                what,
                source,
                column.place,
                "rename the column, or add a computed column with another name",
            )
    for name in source.grain:
        if source.column(name) is None:
            what = f"the grain of `{source.name}` includes `{name}`, which is not one of its columns"
            report.error(
                "unknown_column", what, source, source.place, name_hint(name, source.columns, source=source.name)
            )
    _check_time(source, report)
    for measure in source.measures.values():
        _check_measure(source, measure, report)


def _check_time(source: Source, report: ProblemList) -> None:
    if source.time_column is None:
        return
    column = source.column(source.time_column)
    if column is None:
        what = f"the default time of `{source.name}` is `{source.time_column}`, which is not one of its columns"
        report.error(
            "unknown_column",
            what,
            source,
            source.place,
            name_hint(source.time_column, source.columns, source=source.name),
        )
    elif column.type is not SemanticType.TIME:
        what = f"the default time of `{source.name}`, `{column.name}`, is a {column.type.value}"
        report.warn("not_a_time", what, source, column.place or source.place, "set `type: time` for that column")


def _check_measure(source: Source, measure: Measure, report: ProblemList) -> None:
    what = f"measure `{measure.name}` of `{source.name}`"
    if "." in measure.name:
        report.error("dotted_name", f"the name of {what} contains a dot", source, measure.place, "rename it")
    if source.column(measure.name) is not None and not measure.imported:
        message = f"{what} has the same name as a column; in filters, the name refers to the column"
        report.warn("shadowed_name", message, source, measure.place, f"rename it, for example to total_{measure.name}")
    for name in measure.segments:
        if name not in source.segments:
            message = f"{what} uses the segment `{name}`, which `{source.name}` does not define"
            report.error(
                "unknown_segment", message, source, measure.place, name_hint(name, source.segments, source=source.name)
            )
    for key, name in _own_columns(measure):
        if source.column(name) is None:
            message = f"`{key}` of {what} is `{name}`, which is not a column of `{source.name}`"
            report.error(
                "unknown_column", message, source, measure.place, name_hint(name, source.columns, source=source.name)
            )


def _own_columns(measure: Measure) -> Iterator[tuple[str, str]]:
    """Yield the key and name of each column in a measure's keys."""
    if measure.time is not None:
        yield "time", measure.time
    if measure.semi_additive is not None:
        yield "semi_additive.over", measure.semi_additive.over
        yield from (("semi_additive.per", name) for name in measure.semi_additive.per if "." not in name)
    if measure.cumulative is not None and measure.cumulative.over is not None:
        yield "cumulative.over", measure.cumulative.over


def check_projection(source: Source, dialect: str, parameters: Collection[str], report: ProblemList) -> None:
    """Check the `sql` of a source. Its columns are only checked if the statement names all of them."""
    what, sql = f"`sql` of `{source.name}`", source.sql or ""
    try:
        values = template_values(sql, what, parameters)
        names = projected(TEMPLATE.sub("NULL", sql) if values else sql, dialect, what)
    except SemanticError as error:
        report.raised(error, source, source.place)
        return
    if names is None:
        return
    folded = {name.casefold() for name in names}
    for column in source.columns.values():
        if column.expr is None and column.name.casefold() not in folded:
            what = f"`sql` of `{source.name}` does not return the column `{column.name}`"
            report.error("not_projected", what, source, column.place, suggestion(column.name, names))


def projected(sql: str, dialect: str, what: str = "it") -> list[str] | None:
    """Return the column names of a query, or None if `*` or an unnamed column makes them unknown."""
    tree = _query(sql, dialect, what)
    names = [select.alias_or_name for select in tree.selects]
    has_star = any(isinstance(select, exp.Star) or select.is_star for select in tree.selects)
    return None if has_star or not all(names) or not names else names


def _query(sql: str, dialect: str, what: str) -> exp.Query:
    silence_parser()
    try:
        result = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise _refused(f"{what} is not valid {dialect} SQL: {one_line(sql, 100)}", "write a single SELECT") from error
    if len(result) != 1 or not isinstance(result[0], exp.Query):
        raise _refused(f"{what} is not a single query: {one_line(sql, 100)}", "write a single SELECT")
    return result[0]


_DISPLAY: Final = re.compile(r"(?:.*_)?(?:name|email|label|title|description)", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(r"(?:.*_)?id", re.IGNORECASE)


def check_joins(source: Source, model: Model, report: ProblemList) -> None:
    """Check every join of a source."""
    for join in source.joins:
        if join.mirrored:
            continue  # it is checked where it is declared
        if join.to in model.sources or join.to not in model.barred:  # barred sources have their own error
            _check_join(source, join, model.sources, report)
    _check_aliases(source, model.sources, report)


def _check_join(source: Source, join: Join, sources: Mapping[str, Source], report: ProblemList) -> None:
    target = sources.get(join.to)
    if target is None:
        what = f"`{source.name}` is joined to `{join.to}`, which is not a source"
        report.error("unknown_source", what, source, join.place, name_hint(join.to, sources))
        return
    wanted = [(source, own) for own, _ in join.pairs] + [(target, other) for _, other in join.pairs]
    wanted += [(source if condition.own else target, condition.column) for condition in join.conditions]
    missing = [(side, name) for side, name in dict.fromkeys((side.name, name) for side, name in wanted)
               if sources[side].column(name) is None]  # fmt: skip
    for side, name in missing:
        what = f"the join from `{source.name}` to `{join.to}` is on `{side}.{name}`, which is not a column"
        report.error("unknown_column", what, source, join.place, name_hint(name, sources[side].columns, source=side))
    if not missing:
        _check_cardinality(source, target, join, report)
        _check_meaning(source, target, join, report)


def _check_aliases(source: Source, sources: Mapping[str, Source], report: ProblemList) -> None:
    seen: dict[str, Join] = {}
    for join in source.joins:
        if join.alias is None:
            continue
        if join.alias in sources:
            what = f"the alias `{join.alias}` of a join of `{source.name}` is also the name of a source"
            report.error("duplicate", what, source, join.place, "choose another alias")
        if join.alias in seen:
            what = (
                f"`{source.name}` has two joins with the alias `{join.alias}`: the other is at {seen[join.alias].place}"
            )
            report.error("duplicate", what, source, join.place, "choose another alias for one of them")
        seen.setdefault(join.alias, join)


def _check_cardinality(source: Source, target: Source, join: Join, report: ProblemList) -> None:
    """Warn if the to-one side is joined by columns that are not known to be unique.

    A scan that inferred a join has counted the rows.
    """
    if join.provenance == "inferred":
        return
    own = {name for name, _ in join.pairs} | {condition.column for condition in join.conditions if condition.own}
    other = {name for _, name in join.pairs} | {condition.column for condition in join.conditions if not condition.own}
    sides = []
    if join.relationship is not Relationship.ONE_TO_MANY:
        sides.append((target, other))
    if join.relationship is not Relationship.MANY_TO_ONE:
        sides.append((source, own))
    for side, columns in sides:
        if not _is_unique(side, columns):
            begin = (
                f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but nothing shows that "
            )
            what = f"{begin}{listing(sorted(columns))} is unique in `{side.name}`"
            hint = f"fix the relationship, or the grain of {side.name} ({listing(side.grain)})"
            report.warn("unproven_cardinality", what, source, join.place, hint)


def _is_unique(source: Source, columns: set[str]) -> bool:
    result = [column for name in columns if (column := source.column(name)) is not None]
    grain = [source.column(name) for name in source.grain]
    return any(column.unique for column in result) or (source.keyed and bool(grain) and all(c in result for c in grain))


def _check_meaning(source: Source, target: Source, join: Join, report: ProblemList) -> None:
    """Warn if a descriptive text is compared with an identifier."""
    if join.relationship is Relationship.ONE_TO_MANY:
        return
    for own, other in join.pairs:
        if _DISPLAY.fullmatch(own) and _IDENTIFIER.fullmatch(other) and other in target.grain:
            what = (
                f"the join from `{source.name}` to `{join.to}` compares the text `{own}` with the identifier `{other}`"
            )
            hint = f"join on the column of {source.name} that contains the {other} of {join.to}"
            report.warn("display_value", what, source, join.place, hint)


def check_connected(model: Model, report: ProblemList) -> None:
    """Report sources that no join connects with most of the others."""
    groups = _components(model)
    if len(groups) < 2:
        return
    apart = sorted(name for group in groups[1:] for name in group)
    first = model.sources[apart[0]]
    what = f"no join connects {plural(len(apart), 'source')} with the others: {listing(apart, 12)}"
    report.add(Severity.INFO, "disconnected", what, first, first.place, f"add joins, for example in {apart[0]}")


def _components(model: Model) -> list[set[str]]:
    """Return the groups of connected sources, largest first, then by name."""
    neighbours: dict[str, set[str]] = {name: set() for name in model.sources}
    for owner, target in lookup_of(model).joined():
        neighbours[owner].add(target)
        neighbours[target].add(owner)
    groups: list[set[str]] = []
    rest = dict.fromkeys(sorted(neighbours))
    while rest:
        group, open_names = set(), [next(iter(rest))]
        while open_names:
            name = open_names.pop()
            if name not in group:
                group.add(name)
                rest.pop(name, None)
                open_names += neighbours[name]
        groups.append(group)
    return sorted(groups, key=lambda group: (-len(group), min(group)))
