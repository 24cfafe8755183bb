"""Find literals in a query's filters that no row contains, with a single statement.

The statement applies the row policies of each source, so it neither finds nor suggests values that the caller cannot
query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from ktx_cli.semantic.answer import CompiledQuery
from ktx_cli.semantic.compile.build import Build, column, identifier, is_present, subquery, without_booleans
from ktx_cli.semantic.compile.rows import Rows, in_range
from ktx_cli.semantic.expressions.names import filled, placeholder
from ktx_cli.semantic.model import Column, Source, Visibility
from ktx_cli.semantic.plan.plan import Leaf, RowFilter
from ktx_cli.warehouses import SemanticType

MOST_CHECKED: Final = 12
"""Maximum number of literals in a query to check in the database."""

MOST_CANDIDATES: Final = 500
"""Maximum number of column values to read to find values near a literal."""

LONGEST_VALUE: Final = 120
"""Maximum length of a suggested value in characters."""

_ROWS: Final = "source_rows"
_HAS, _CANDIDATE, _BELOW, _ABOVE, _IN_PERIOD, _NEWEST = range(6)
_EQUAL: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_LIKE: Final = (exp.Like, exp.ILike)
_WILD: Final = frozenset("%_[]\\")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a plain column with a literal.

    `name` is the column as named in the query. `like` means that the literal is a pattern, and `negated`
    that the condition keeps the other rows. `facts` are the facts that the condition applies to, or None for all.
    `required` means that every row of the answer has the value, so that an answer with rows proves that it exists.
    `public` allows suggesting other values of the column.
    """

    source: Source
    column: Column
    name: str
    literal: exp.Expr
    like: type[exp.Expr] | None = None
    negated: bool = False
    facts: frozenset[str] | None = None
    required: bool = False
    public: bool = False

    @property
    def value(self) -> str | int | float | bool | None:
        """The literal as a string, number or boolean. Other literals are returned as text."""
        return _value(self.literal)

    def condition(self, build: Build, kind: type[exp.Expr] | None = None) -> exp.Expr:
        """Return the condition that a row of the source has the value, or compares with it in another way."""
        tree = (kind or self.like or exp.EQ)(this=placeholder(0), expression=self.literal.copy())
        left = column(self.column.name, _ROWS)
        return filled(build.typed(tree, lambda _: self.column), lambda _: left.copy())

    def text(self, dialect: str) -> str:
        """Return the comparison as SQL with the column name from the query."""
        operator = "=" if self.like is None else self.like.key.upper()
        return f"{self.name} {operator} {self.literal.sql(dialect)}"


@dataclass(frozen=True, slots=True)
class Recency:
    """A fact whose most recent period the query asks for. `public` allows showing its times."""

    fact: str
    last: str
    public: bool


@dataclass(slots=True)
class ValueCheck:
    """The statement that checks the values of comparisons and the rows of periods."""

    sql: str
    comparisons: Sequence[Comparison]
    periods: Sequence[Recency]
    max_rows: int

    def read(self, rows: Iterable[Sequence[Any]]) -> ValueFindings:
        """Return the findings, based on the rows that the statement returned."""
        findings = ValueFindings(set(range(len(self.comparisons))), set(range(len(self.periods))))
        for number, what, value in rows:
            if what == _HAS:
                findings.missing.discard(number)
            elif what == _IN_PERIOD:
                findings.empty.discard(number)
            elif value is not None and what == _NEWEST:
                findings.newest[number] = str(value)
            elif value is not None:
                findings.candidates.setdefault(number, []).append(str(value))
        return findings


@dataclass(slots=True)
class ValueFindings:
    """The result of a check: the numbers of comparisons and periods without rows.

    `candidates` are other values of a comparison's column, those with a common prefix first. `newest` is the time of
    the newest row of a fact.
    """

    missing: set[int]
    empty: set[int]
    candidates: dict[int, list[str]] = field(default_factory=dict)
    newest: dict[int, str] = field(default_factory=dict)


def comparisons(asked: CompiledQuery) -> list[Comparison]:
    """Return the distinct comparisons of plain columns with literals in a query's conditions."""
    result: dict[tuple[object, ...], Comparison] = {}
    for condition in asked.plan.filters:
        for made in _of_filter(asked.compiled.build, condition):
            result.setdefault((made.name, made.literal, made.like, made.negated), made)
    return list(result.values())


def periods(asked: CompiledQuery) -> list[Recency]:
    """Return the facts that the query limits to a most recent period by a time of each row."""
    plan, build = asked.plan, asked.compiled.build
    last = None if plan.query.time_range is None else plan.query.time_range.last
    if last is None or plan.time_range is None:
        return []
    result = []
    for leaf in {leaf.fact: leaf for leaf in reversed(plan.leaves)}.values():
        source = build.names.model.sources[leaf.fact]
        expression = plan.time_range.expression
        name = expression.names[0]
        time = build.time_of(source, leaf.treatment.time) if name.is_metric_time else name
        path = None if time is None else build.names.graph.path(leaf.fact, time.hops, expression.via_to(time))
        if time is None or path is None or not path.to_one:
            continue
        source = build.names.model.sources[path.end]
        read = source.column(time.column)
        result.append(Recency(leaf.fact, last, read is not None and _is_public(build, source, read)))
    return result[::-1]


def is_proven(comparison: Comparison, asked: CompiledQuery, rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the answer proves that a row has the value."""
    if not comparison.required:
        return False
    if not asked.plan.outputs:
        return bool(rows)
    return any(comparison.facts is None or leaf.fact in comparison.facts for leaf in _counted(asked, rows))


def has_rows(period: Recency, asked: CompiledQuery, rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the answer proves that the fact has rows in the period."""
    plain = (leaf for leaf in _counted(asked, rows) if not (leaf.treatment.offset or leaf.treatment.cumulative))
    return any(leaf.fact == period.fact for leaf in plain)


def plan_check(
    asked: CompiledQuery, wanted: Sequence[Comparison], since: Sequence[Recency], suggest: Sequence[bool]
) -> ValueCheck:
    """Return the statement for comparisons and periods. `suggest` selects comparisons for which to read values."""
    build = Build(asked.compiled.build.names, asked.plan)  # a separate build, so that the receipt only covers the query
    parts: list[exp.Select] = []
    for number, comparison in enumerate(wanted):
        parts.append(_has(build, number, comparison))
        if suggest[number]:
            parts += _candidates(build, number, comparison)
    for number, period in enumerate(since):
        parts += _of_period(build, number, period)
    union: exp.Expr = exp.select("*").from_(subquery(parts[0], "p0"), copy=False)
    for number, part in enumerate(parts[1:], start=1):
        other = exp.select("*").from_(subquery(part, f"p{number}"), copy=False)
        union = exp.union(union, other, distinct=False, copy=False)
    query = build.with_queries(exp.select("*").from_(subquery(union, "checks"), copy=False))
    tree = query if build.syntax.conditions_are_values else without_booleans(query)
    return ValueCheck(tree.sql(build.dialect), wanted, since, len(parts) * MOST_CANDIDATES)


def _of_filter(build: Build, condition: RowFilter) -> Iterator[Comparison]:
    expression = condition.expression
    top = expression.tree.unnest()
    for node in top.walk():
        for place, literal, like in _literals(node):
            name = expression.names[int(place.name)]
            if name.is_metric_time or not name.hops:
                continue
            source = build.names.model.sources[build.names.target_of(name.hops)]
            read = source.column(name.column)
            if read is None or read.expr is not None or read.name.casefold() in build.names.masks(source):
                continue  # the values of a masked column are not looked up, not even in lists of a scan
            alone = not isinstance(node, exp.In) or len(node.expressions) == 1
            negated = _is_negated(node)
            yield Comparison(
                source,
                read,
                str(name),
                literal,
                like,
                negated,
                condition.facts,
                required=node is top and alone and not negated,
                public=_is_public(build, source, read),
            )


def _literals(node: exp.Expr) -> Iterator[tuple[exp.Placeholder, exp.Expr, type[exp.Expr] | None]]:
    """Yield (column, literal, kind of pattern) of a comparison."""
    if isinstance(node, _EQUAL):
        one, two = node.this.unnest(), node.expression.unnest()
        for place, literal in ((one, two), (two, one)):
            if isinstance(place, exp.Placeholder) and _is_literal(literal):
                yield place, literal, None
    elif isinstance(node, _LIKE) and not isinstance(node.parent, exp.Escape):
        place, literal = node.this.unnest(), node.expression.unnest()
        if isinstance(place, exp.Placeholder) and isinstance(literal, exp.Literal) and literal.is_string:
            yield place, literal, type(node)
    elif isinstance(node, exp.In) and isinstance(node.this.unnest(), exp.Placeholder):
        for expression in node.expressions:
            if _is_literal(expression.unnest()):
                yield node.this.unnest(), expression.unnest(), None


def _is_literal(node: exp.Expr) -> bool:
    if isinstance(node, exp.Neg | exp.Cast):
        return isinstance(node.this, exp.Literal)
    return isinstance(node, exp.Literal | exp.Boolean)


def _value(node: exp.Expr) -> str | int | float | bool | None:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        return -inner if isinstance(inner, int | float) else None
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return float(node.this) if set(node.this) & set(".eE") else int(node.this)
        except ValueError:
            return None
    return str(node.name)


def _is_negated(node: exp.Expr) -> bool:
    negated = isinstance(node, exp.NEQ | exp.NullSafeNEQ)
    while node.parent is not None:
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    return negated


def _is_public(build: Build, source: Source, read: Column) -> bool:
    return build.names.visibility(source, read) is Visibility.PUBLIC and source.visibility is Visibility.PUBLIC


def _counted(asked: CompiledQuery, rows: Sequence[Sequence[Any]]) -> Iterator[Leaf]:
    """Yield the aggregates that provably counted a row."""
    for place, output in enumerate(asked.plan.outputs, start=len(asked.plan.dimensions)):
        number = _leaf_of(output.formula)
        if number is not None and any(row[place] not in (None, 0, False) for row in rows):
            yield asked.plan.leaves[number]


def _leaf_of(formula: exp.Expr) -> int | None:
    """Return the aggregate without which a formula is 0 or null, or None."""
    node = formula.unnest()
    if isinstance(node, exp.Placeholder):
        return int(node.name) if int(node.name) >= 0 else None
    if isinstance(node, exp.Coalesce) and all(
        expression.is_number and float(expression.name) == 0 for expression in node.expressions
    ):
        return _leaf_of(node.this)
    if isinstance(node, exp.Cast | exp.Nullif | exp.Div):
        return _leaf_of(node.this)
    if isinstance(node, exp.Mul):
        leaf = _leaf_of(node.this)
        return _leaf_of(node.expression) if leaf is None else leaf
    return None


def _has(build: Build, number: int, comparison: Comparison) -> exp.Select:
    """Return a query with one row if the source has the value."""
    query = _selected(number, _HAS, _no_text()).from_(build.relation(comparison.source, _ROWS), copy=False)
    return query.where(comparison.condition(build), copy=False).limit(1, copy=False)


def _candidates(build: Build, number: int, comparison: Comparison) -> Iterator[exp.Select]:
    """Yield the queries for other values: similar texts, or the next lower and higher number or time."""
    of = build.typed_column(column(comparison.column.name, _ROWS), comparison.column)
    if comparison.column.type in (SemanticType.NUMBER, SemanticType.TIME):
        for what, compare, most in ((_BELOW, exp.LT, exp.Max), (_ABOVE, exp.GT, exp.Min)):
            query = _selected(number, what, _text(most(this=of.copy())))
            query = query.from_(build.relation(comparison.source, _ROWS), copy=False)
            yield query.where(comparison.condition(build, compare), copy=False)
    elif comparison.column.type is SemanticType.STRING:
        values = exp.select(exp.Alias(this=_text(of), alias=identifier("v"))).distinct(copy=False)
        values = values.from_(build.relation(comparison.source, _ROWS), copy=False)
        values = values.where(is_present(of.copy()), copy=False)
        value = column("v", "source_values")
        query = _selected(number, _CANDIDATE, value).from_(subquery(values, "source_values"), copy=False)
        short = exp.LTE(this=exp.Length(this=value.copy()), expression=exp.Literal.number(LONGEST_VALUE))
        order = [exp.Ordered(this=key, nulls_first=False) for key in (*_nearness(value, comparison), value.copy())]
        yield query.where(short, copy=False).order_by(*order, copy=False).limit(MOST_CANDIDATES, copy=False)


def _nearness(value: exp.Expr, comparison: Comparison) -> Iterator[exp.Expr]:
    """Yield sort keys that put similar values first."""
    wanted = str(comparison.value).strip().lower()
    lower = exp.Lower(this=value.copy())
    ranked: list[exp.Expr] = [exp.EQ(this=exp.Trim(this=lower.copy()), expression=exp.Literal.string(wanted))]
    if comparison.like is not None:
        ranked = [exp.Like(this=lower.copy(), expression=exp.Literal.string(wanted))]
    elif wanted and not _WILD & set(wanted[:2]):
        ranked.append(exp.Like(this=lower.copy(), expression=exp.Literal.string(f"{wanted[:2]}%")))
    ifs = [exp.If(this=term, true=exp.Literal.number(rank)) for rank, term in enumerate(ranked)]
    yield exp.Case(ifs=ifs, default=exp.Literal.number(len(ranked)))


def _of_period(build: Build, number: int, period: Recency) -> Iterator[exp.Select]:
    """Yield the queries for a row in the period and for the newest row."""
    asked = build.plan.time_range
    assert asked is not None
    source = build.names.model.sources[period.fact]
    time = next(leaf.treatment.time for leaf in build.plan.leaves if leaf.fact == period.fact)
    rows = Rows(build, period.fact, time=build.time_of(source, time))
    condition = in_range(rows, asked)
    yield rows.select(_columns(number, _IN_PERIOD, _no_text())).where(condition, copy=False).limit(1, copy=False)
    if period.public:
        yield rows.select(_columns(number, _NEWEST, _text(exp.Max(this=rows.bind(asked.expression)))))


def _selected(number: int, what: int, value: exp.Expr) -> exp.Select:
    return exp.select(*_columns(number, what, value), copy=False)


def _columns(number: int, what: int, value: exp.Expr) -> list[exp.Expr]:
    named = (("n", exp.Literal.number(number)), ("what", exp.Literal.number(what)), ("v", value))
    return [exp.Alias(this=part, alias=identifier(name)) for name, part in named]


def _text(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("text"))


def _no_text() -> exp.Expr:
    return _text(exp.null())
