"""The shared state of all parts of one statement: names, clock, common table expressions, and facts for the receipt.

If times are texts, as in SQLite, this module converts both sides of a comparison to the same format, because
`2024-01-31 00:00:00` would not equal its date otherwise.

Columns whose values are stored as another type are converted wherever an expression uses them as their own. What it
compares or takes apart as text is not converted, so that `status = 'Y'`, `LIKE '2024-%'` and
`to_date(day, 'YYYY-MM-DD')` mean the same with and without `stored_as`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ktx_cli.core import one_line
from ktx_cli.semantic.calendar import UTC_NAME, Clock, WrittenMoment, parse_moment
from ktx_cli.semantic.expressions.dates import CUT
from ktx_cli.semantic.expressions.fragments import marked
from ktx_cli.semantic.expressions.names import Expression, Name, Names, filled, placeholder
from ktx_cli.semantic.graph import Edge, Path
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.masks import mask_value, with_inputs
from ktx_cli.semantic.model import HOUR, MINUTE, SECOND, Column, SemanticError, Source
from ktx_cli.semantic.plan.axis import time_of
from ktx_cli.semantic.plan.plan import Plan
from ktx_cli.warehouses import DateOrTimestamp, Dialect, SemanticType, StoredAs, dialect_named

Read = Callable[[int], Column | None]
"""Returns the column for a numbered placeholder."""

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Between, exp.In),
)
_DATES: Final = (exp.Date, exp.CurrentDate)
_TIMESTAMPS: Final = (exp.CurrentTimestamp,)
_MIDNIGHT: Final = " 00:00:00"


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a column, a literal, or a function that returns text in a single format."""

    tree: exp.Expr
    column: Column | None = None
    function: DateOrTimestamp | None = None
    literal: WrittenMoment | None = None

    @property
    def form(self) -> DateOrTimestamp | None:
        """The format of the side's values, or None for literals and NULL, which adapt to the other side."""
        if self.column is not None:
            return "date" if self.column.is_date else "timestamp"
        return self.function

    def comparable(self, syntax: Dialect) -> exp.Expr:
        """Return a column in its own format."""
        assert self.column is not None
        assert self.form is not None
        return syntax.comparable_time(self.tree, self.form, self.column.zone or UTC_NAME)

    def written(self, form: DateOrTimestamp, syntax: Dialect) -> exp.Expr:
        """Return the side in a format in which comparing texts is the same as comparing times."""
        if self.literal is not None:
            shown = self.literal.beside_dates() if form == "date" else self.literal.beside_timestamps()
            return exp.Literal.string(shown)
        if self.form is None or (self.column is None and self.form == form):
            return self.tree.copy()
        value = self.tree.copy() if self.column is None else self.comparable(syntax)
        if self.form == form:
            return value
        return exp.DPipe(this=exp.paren(value, copy=False), expression=exp.Literal.string(_MIDNIGHT), safe=True)


def with_compared_times(tree: exp.Expr, read: Read, syntax: Dialect) -> exp.Expr:
    """Return a tree in which times are compared as times. Trees without time comparisons do not change."""
    if not tree.find(*_COMPARISONS):
        return tree
    return tree.transform(lambda node: _compared(node, read, syntax) if isinstance(node, _COMPARISONS) else node)


def readable_times(tree: exp.Expr, read: Read, syntax: Dialect) -> Iterator[exp.Expr]:
    """Yield conditions that the compared times in a tree are null or valid."""
    for node in tree.walk():
        sides = _sides(node, read) if isinstance(node, _COMPARISONS) else []
        for side in sides:
            if side.column is None or side.form is None:
                continue
            missing = exp.Is(this=side.tree.copy(), expression=exp.null())
            yield exp.or_(missing, is_present(side.comparable(syntax)), *_both_numbers(sides, syntax), copy=False)


def _compared(node: exp.Expr, read: Read, syntax: Dialect) -> exp.Expr:
    """Return a comparison of times in the same format. Other comparisons do not change."""
    sides = _sides(node, read)
    if not sides:
        return node
    form: DateOrTimestamp = "date" if all(side.form in ("date", None) for side in sides) else "timestamp"
    new = node.copy()
    for place, side in zip(list(_places(new)), sides, strict=True):
        place.replace(side.written(form, syntax))
    ifs = [exp.If(this=numbers, true=node.copy()) for numbers in _both_numbers(sides, syntax)]
    return exp.Case(ifs=ifs, default=new) if ifs else new


def _both_numbers(sides: Sequence[_Side], syntax: Dialect) -> Iterator[exp.Expr]:
    """Yield, for timestamp columns, the condition that all values are numbers, which are compared directly."""
    if all(side.column is not None and side.form == "timestamp" for side in sides):
        yield exp.and_(*(syntax.is_number(side.tree) for side in sides), copy=False)


def _sides(node: exp.Expr, read: Read) -> list[_Side]:
    """Return the sides of a comparison of times, or none for other comparisons."""
    if isinstance(node, exp.In) and not node.expressions:
        return []
    trees = [place.unnest() for place in _places(node)]
    columns = {int(tree.name): read(int(tree.name)) for tree in trees if isinstance(tree, exp.Placeholder)}
    times = [column for column in columns.values() if column is not None and column.type is SemanticType.TIME]
    zone = next((time.timezone for time in times if time.timezone), UTC_NAME)
    result = [_side(tree, columns, zone) for tree in trees]
    sides = [side for side in result if side is not None]
    return sides if len(sides) == len(trees) and any(side.form for side in sides) else []


def _places(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the two sides of a comparison."""
    yield node.this
    if isinstance(node, exp.Between):
        yield from (node.args["low"], node.args["high"])
    elif isinstance(node, exp.In):
        yield from node.expressions
    else:
        yield node.expression


def _side(tree: exp.Expr, columns: dict[int, Column | None], zone: str) -> _Side | None:
    """Return a side of a comparison of times, or None for other values."""
    if isinstance(tree, exp.Placeholder):
        column = columns[int(tree.name)]
        return None if column is None or column.type is not SemanticType.TIME else _Side(tree, column=column)
    if isinstance(tree, exp.Null):
        return _Side(tree)
    if isinstance(tree, exp.Literal):
        literal = parse_moment(tree.name, zone) if tree.is_string else None
        return None if literal is None else _Side(tree, literal=literal)
    function = _function(tree)
    return None if function is None else _Side(tree, function=function)


def _function(tree: exp.Expr) -> DateOrTimestamp | None:
    """Return the format of the text that a date function returns."""
    name = tree.name.upper() if isinstance(tree, exp.Anonymous) else ""
    if isinstance(tree, _DATES) or name == "DATE" or (isinstance(tree, exp.Cast) and tree.to.is_type("date")):
        return "date"
    if isinstance(tree, _TIMESTAMPS) or name == "DATETIME" or tree.meta.get(CUT) in (HOUR, MINUTE, SECOND):
        return "timestamp"
    return "timestamp" if isinstance(tree, exp.Cast) and tree.to.is_type("timestamp", "datetime") else None


_OF_TEXTS: Final = (
    *(exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob, exp.Escape),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Length, exp.Concat, exp.DPipe),
    *(exp.StrPosition, exp.Replace, exp.RegexpReplace, exp.RegexpExtract, exp.Split, exp.SplitPart, exp.Pad),
    *(exp.StrToTime, exp.StrToDate, exp.StrToUnix, exp.ParseDatetime),
)
"""Operators and functions that read a value as the database stores it."""

_OF_NUMBERS: Final = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.UnixToTime, exp.UnixToStr),
    exp.UnixToTimeStr,
)
"""Operators and functions that read an epoch as a number, unless they add an interval to it."""

_BESIDE_LITERALS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In),
    *(exp.Coalesce, exp.Nullif, exp.Case, exp.If, exp.Greatest, exp.Least),
)
"""Nodes in which a literal determines whether a value is used as it is stored."""

_OF_PRESENCE: Final = (exp.Is, exp.Count)
_OF_ORDER: Final = (exp.Distinct, exp.Min, exp.Max, exp.Coalesce)
"""Nodes that only ask whether there is a value, and those in which a blank text counts as one."""


def with_typed_values(tree: exp.Expr, read: Read, syntax: Dialect, used: Callable[[Column], None]) -> exp.Expr:
    """Return a tree whose placeholders of stored columns are converted. Other trees do not change.

    `used` is called with every column that is converted.
    """
    places = [node for node in tree.find_all(exp.Placeholder) if _stored_as(read, node) is not None]
    if not places:
        return tree
    copy = tree.copy()
    for place in [node for node in copy.find_all(exp.Placeholder) if _stored_as(read, node) is not None]:
        column = read(int(place.name))
        assert column is not None
        value = _value(place, column, syntax)
        if value is None:
            continue
        if not isinstance(_around(place)[0], _OF_PRESENCE):
            used(column)
        if place is copy:
            copy = value
        else:
            place.replace(value)
    return copy


def _stored_as(read: Read, place: exp.Placeholder) -> StoredAs | None:
    column = read(int(place.name))
    return None if column is None else column.stored_as


def _value(place: exp.Placeholder, column: Column, syntax: Dialect) -> exp.Expr | None:
    """Return what a placeholder becomes, or None if it stays as it is."""
    stored_as = column.stored_as
    assert stored_as is not None
    around, child = _around(place)
    if stored_as is StoredAs.JSON_TEXT or _reads_as_stored(around, child, stored_as):
        return None
    is_text = stored_as.native is SemanticType.STRING
    if isinstance(around, _OF_PRESENCE):
        return syntax.present_text(place) if is_text else None
    value = syntax.typed_value(place, stored_as)
    if value == place:  # a database without time types, in which a blank text is a value
        return syntax.present_text(place) if is_text and isinstance(around, _OF_ORDER) else place.copy()
    return value if around is None or isinstance(value, exp.Func | exp.Paren) else exp.paren(value, copy=False)


def _around(place: exp.Expr) -> tuple[exp.Expr | None, exp.Expr]:
    """Return the node that uses a value, and its operand: the value with its parentheses."""
    child = place
    while isinstance(child.parent, exp.Paren):
        child = child.parent
    return child.parent, child


def _reads_as_stored(around: exp.Expr | None, child: exp.Expr, stored_as: StoredAs) -> bool:
    if around is None:
        return False
    if isinstance(around, _OF_TEXTS):
        return True
    is_epoch = stored_as.native is SemanticType.NUMBER
    if is_epoch and isinstance(around, _OF_NUMBERS):
        return around.find(exp.Interval) is None
    if not isinstance(around, _BESIDE_LITERALS):
        return False
    return any(_is_of_stored(each, stored_as) for each in _beside(around, child))


def _beside(around: exp.Expr, child: exp.Expr) -> list[exp.Literal]:
    """Return the literals that a value is compared with, or that take its place."""
    if isinstance(around, exp.Case | exp.If):
        is_compared = child.arg_key == "this" and isinstance(around, exp.Case)
        branches = [each.this for each in around.args.get("ifs") or ()] if is_compared else []
        siblings = [each.unnest() for each in branches]
    else:
        siblings = [each.unnest() for each in around.iter_expressions() if each is not child]
    plain = (each.this if isinstance(each, exp.Neg) else each for each in siblings)
    return [each for each in plain if isinstance(each, exp.Literal)]


def _is_of_stored(literal: exp.Literal, stored_as: StoredAs) -> bool:
    """Return whether a literal is a value as it is stored, and not one of the type."""
    if stored_as.type is not SemanticType.TIME:
        return bool(literal.is_string)
    if not literal.is_string:
        return stored_as.native is SemanticType.NUMBER
    return stored_as.native is SemanticType.STRING and parse_moment(literal.name, UTC_NAME) is None


_LONGEST_NAME: Final = 48
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(slots=True)
class FactUse:
    """The use of one fact in the statement, for the receipt and the probe.

    `overlapping` means that a row may be in several groups, and `by_key` that the fact's grain identifies rows.
    """

    fact: str
    paths: dict[str, Path] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)
    overlapping: bool = False
    by_key: bool = False


class Build:
    """The state of one statement while it is compiled."""

    def __init__(self, names: Names, plan: Plan) -> None:
        self.names = names
        self.plan = plan
        self.dialect = names.model.dialect
        self.syntax = dialect_named(self.dialect)
        self.uses: dict[str, FactUse] = {}
        self.notes: list[str] = list(plan.notes)
        self.reads_zone = False
        """Whether the period of a timestamp depends on a time zone."""
        self.policies: dict[str, None] = {}
        self.sources: dict[str, None] = {}
        self.periods: dict[str, str] = {}
        self.limits: list[tuple[str, exp.Expr]] = []
        self.conversions: dict[tuple[str, str], Column] = {}
        """The converted columns by source and name."""
        self._queries: dict[str, exp.Expr] = {}
        self._relations: dict[str, exp.Expr] = {}
        self._taken = set(lookup_of(names.model).table_words)

    def again(self) -> Build:
        """Return the state for another statement about the same query, which shares the records of facts."""
        other = Build(self.names, self.plan)
        other.uses = self.uses
        other.conversions = self.conversions
        return other

    def use(self, fact: str) -> FactUse:
        """Return the record of a fact's use."""
        return self.uses.setdefault(fact, FactUse(fact))

    def note(self, text: str) -> None:
        """Add a note to the receipt."""
        if text not in self.notes:
            self.notes.append(text)

    def clock(self, column: Column | None) -> Clock:
        """Return the clock for a column."""
        self.reads_zone = self.reads_zone or (column is not None and not column.is_date)
        own = None if column is None else column.zone
        return Clock(self.dialect, self.names.model.calendar, self.plan.timezone, own)

    def add(self, wanted: str, query: exp.Expr) -> str:
        """Add a common table expression, and return its unique name."""
        base = _NOT_PLAIN.sub("_", wanted)[:_LONGEST_NAME]
        name, number = base, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.casefold())
        self._queries[name] = query
        return name

    def with_queries(self, final: exp.Select) -> exp.Select:
        """Return the statement with its common table expressions."""
        for name, query in self._queries.items():
            final = final.with_(identifier(name), as_=query, copy=False)
        return final

    def relation(self, source: Source, alias: str) -> exp.Expr:
        """Return the rows of a source that its row policies allow, with an alias."""
        if source.name not in self._relations:
            self.sources[source.name] = None
            self._relations[source.name] = self._masked(source, self._allowed(source, self._physical(source)))
        return aliased(self._relations[source.name].copy(), alias)

    def _physical(self, source: Source) -> exp.Expr:
        if source.table is not None:
            return table(*self.syntax.parts(source.table))
        return cte(self.add(f"{source.name}__sql", self._body(source)))

    def _body(self, source: Source) -> exp.Expr:
        what = f"the `sql` of `{source.name}`"
        filled = _filled_templates(source.sql or "", self.dialect, what, self.names)
        if isinstance(filled, exp.Query):
            return self._hoisted(source, filled)
        raise SemanticError(
            f"{what} is not a query", hint=f"write a single SELECT in {source.place}", code="definition"
        )

    def _hoisted(self, source: Source, body: exp.Query) -> exp.Expr:
        """Move the query's common table expressions to the statement if the dialect does not allow them inside."""
        if self.syntax.nests_with or not body.ctes:
            return body
        for part in body.ctes:
            inner = self.add(f"{source.name}__{part.alias}", part.this)
            for used in [node for node in body.find_all(exp.Table) if node.name == part.alias and not node.db]:
                used.replace(aliased(cte(inner), used.alias or part.alias))
        body.set("with_", None)
        return body

    def _allowed(self, source: Source, relation: exp.Expr) -> exp.Expr:
        if not source.policies:
            return relation
        inner = aliased(relation, source.name)
        query = exp.select("*").from_(inner, copy=False)
        for policy in source.policies:
            what = f"the policy `{policy.name}` of `{source.name}`"
            for condition in self.names.policy(source, policy, what):
                if any(name.hops for name in condition.names):
                    message = f"{what} refers to another source: {policy.filter}"
                    raise SemanticError(
                        message, hint="a policy can only use the columns of its own source", code="definition"
                    )
                readable: dict[exp.Expr, None] = {}
                query = query.where(exp.paren(self._own(source, condition, readable)), copy=False)
                query = query.where(*(exp.paren(condition) for condition in readable), copy=False)
            self.policies[f"{source.name}.{policy.name}"] = None
        return cte(self.add(f"{source.name}__allowed", self.syntax.fenced(query)))

    def _masked(self, source: Source, relation: exp.Expr) -> exp.Expr:
        """Return a relation in which masked columns show their masks. Real values stay for joins, by other names.

        Policies are inside, because they decide about the real row.
        """
        masks = self.names.masks(source)
        stored = {each.name: each for each in source.columns.values() if each.expr is None}
        if masks.keys().isdisjoint(name.casefold() for name in stored):
            return relation
        selected: list[exp.Expr] = []
        keys = key_columns(self.names.graph.edges(source.name), source)
        folded = {name.casefold() for name in stored}
        for name, each in stored.items():
            value = column(name, source.name)
            mask = masks.get(name.casefold())
            selected.append(value if mask is None else as_column(mask_value(source, each, mask, value), name))
        for name in keys:
            known = source.column(name)
            if name.casefold() not in folded and known is None:
                selected.append(column(name, source.name))
            elif known is not None and known.name.casefold() in masks and known.expr is None:
                selected.append(as_column(column(known.name, source.name), self.key_name(source, known.name)))
        query = exp.select(*selected, copy=False).from_(aliased(relation, source.name), copy=False)
        return cte(self.add(f"{source.name}__masked", query))

    def key_name(self, source: Source, name: str) -> str:
        """Return the name of a stored column in the relation of its source where a join reads its real value."""
        if name.casefold() not in self.names.masks(source):
            return name
        taken = {each.casefold() for each in source.columns}
        wanted = f"{name}__key"
        while wanted.casefold() in taken:
            wanted += "_"
        return wanted

    def require_unmasked_conditions(self, edge: Edge) -> None:
        """Raise `SemanticError` if a join compares a masked column with a constant, which would reveal its value."""
        for own_side, name, _ in edge.conditions:
            source = self.names.model.sources[edge.source if own_side else edge.target]
            if not self.names.masks(source).keys().isdisjoint(with_inputs(source, name)):
                raise SemanticError(
                    f"the join from `{edge.source}` to `{edge.target}` compares `{source.name}.{name}` with a "
                    "constant, but the column is masked for this caller",
                    hint="use other sources, or ask as a caller who sees the column",
                    code="hidden",
                    details={"source": source.name, "column": name},
                )

    def _own(self, source: Source, condition: Expression, readable: dict[exp.Expr, None]) -> exp.Expr:
        """Return the condition of a policy, or a column that it reads, and collect conditions for valid times.

        Rows with an invalid time are excluded, even if the condition would allow a null time.
        """

        def value(name: Name) -> exp.Expr:
            read = source.column(name.column)
            if read is not None and read.expr is not None:
                return exp.paren(self._own(source, self.names.computed(source, read), readable), copy=False)
            return column(name.column, source.name)

        if self.syntax.times_are_texts:
            times = readable_times(
                condition.tree, lambda number: source.column(condition.names[number].column), self.syntax
            )
            typed = (self._typed(time, lambda number: source.column(condition.names[number].column)) for time in times)
            readable |= dict.fromkeys(filled(time, lambda number: value(condition.names[number])) for time in typed)
        return self.bound(condition, value)

    def bound(
        self,
        expression: Expression,
        value: Callable[[Name], exp.Expr],
        column_of: Callable[[Name], Column | None] | None = None,
    ) -> exp.Expr:
        """Return an expression with names replaced by `value`, stored values converted, and times compared as times.

        `value` returns columns as the database stores them. `column_of` returns the column of a name, by default as
        seen from the expression's home.
        """

        def read(number: int) -> Column | None:
            name = expression.names[number]
            return self.names.column_of(name, expression.home) if column_of is None else column_of(name)

        return filled(self.typed(expression.tree, read), lambda number: value(expression.names[number]))

    def typed(self, tree: exp.Expr, read: Read) -> exp.Expr:
        """Return a tree in which stored values are converted, and times compared as times.

        `read` returns the columns of placeholders.
        """
        return self._typed(with_compared_times(tree, read, self.syntax) if self.syntax.times_are_texts else tree, read)

    def typed_column(self, value: exp.Expr, column: Column | None) -> exp.Expr:
        """Return a column of a row, as the database stores it, as a value of its type."""
        return filled(self.typed(placeholder(0), lambda _: column), lambda _: value)

    def _typed(self, tree: exp.Expr, read: Read) -> exp.Expr:
        return with_typed_values(tree, read, self.syntax, self._note_conversion)

    def _note_conversion(self, column: Column) -> None:
        """Record a converted column for the receipt and the probe."""
        owners = self.names.model.sources.values()
        source = next((each.name for each in owners if each.columns.get(column.name) is column), None)
        if source is not None:
            self.conversions[source, column.name] = column

    def time_of(self, fact: Source, name: str | None) -> Name | None:
        """Return the time column of a fact: the given name, its default, or the only one."""
        return time_of(fact, name)


def key_columns(edges: Iterable[Edge], source: Source) -> list[str]:
    """Return the columns that identify rows of a source or that its joins compare, and the columns they read."""
    names = [*source.grain, *(own for edge in edges for own, _ in edge.pairs)]
    own = {each.casefold(): each for each in source.columns}
    found = dict.fromkeys(names)
    for name in names:
        found |= dict.fromkeys(own.get(each, each) for each in sorted(with_inputs(source, name)) if each in own)
    unique = {(known.name if (known := source.column(name)) is not None else name): None for name in found}
    return list(unique)


def identifier(name: str) -> exp.Identifier:
    """Return a quoted name."""
    return exp.to_identifier(name, quoted=True)


def column(name: str, relation: str | None = None) -> exp.Column:
    """Return a column with quoted names."""
    return exp.column(identifier(name), None if relation is None else identifier(relation))


def is_present(value: exp.Expr) -> exp.Expr:
    """Return the condition that a value is not null."""
    return exp.Not(this=exp.Is(this=value, expression=exp.null()))


def count_of(condition: exp.Expr | None = None) -> exp.Expr:
    """Return the count of all rows, or of rows that meet a condition."""
    if condition is None:
        return exp.Count(this=exp.Star(), big_int=True)
    return exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))]), big_int=True)


def subquery(query: exp.Expr, name: str) -> exp.Subquery:
    """Return a query as a subquery."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(name)))


def as_column(value: exp.Expr, name: str) -> exp.Alias:
    """Return a value as a named column."""
    return exp.Alias(this=value, alias=identifier(name))


def cte(name: str) -> exp.Table:
    """Return a common table expression as a relation."""
    return exp.Table(this=identifier(name))


def table(*parts: str) -> exp.Table:
    """Return a table from the parts of its name, outermost first."""
    quoted = [identifier(part) for part in parts]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(quoted[-3:]), strict=False)))


def aliased(relation: exp.Expr, alias: str) -> exp.Expr:
    """Return a relation with an alias."""
    relation.set("alias", exp.TableAlias(this=identifier(alias)))
    return relation


def join(query: exp.Select, relation: exp.Expr, on: exp.Expr | None, side: str = "") -> exp.Select:
    """Join a relation to a query: `LEFT`, inner with a condition, or cross without one."""
    if on is None:
        query.append("joins", exp.Join(this=relation, kind="CROSS"))
    else:
        query.append("joins", exp.Join(this=relation, on=on, **({"side": side} if side else {"kind": "INNER"})))
    return query


def _filled_templates(text: str, dialect: str, what: str, names: Names) -> exp.Expr:
    """Parse a query with its templates replaced by values."""
    filled, values = marked(text, what, names.values)
    try:
        tree = sqlglot.parse_one(filled, read=dialect)
    except (SqlglotError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        detail = one_line(str(error).split("\n")[0], 120)
        raise SemanticError(f"{what} is not valid {dialect} SQL", hint=detail, code="definition") from None
    return values.fill(tree, what)


_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)
_TAKES_CONDITION = (exp.Where, exp.Having, exp.Connector, exp.Not)


def without_booleans(tree: exp.Expr) -> exp.Expr:
    """Convert conditions that are used as values to bits and back. Changes the statement in place."""
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Paren | exp.Alias) or not isinstance(node, exp.Condition):
            continue
        is_condition, is_wanted = isinstance(node, _CONDITIONS), _stands_for_a_condition(node)
        if is_condition and not is_wanted:
            node.replace(_as_bit(node))
        elif is_wanted and not is_condition and not isinstance(node, exp.Boolean):
            node.replace(exp.EQ(this=node.copy(), expression=exp.Literal.number(1)))
    return tree


def _stands_for_a_condition(node: exp.Expr) -> bool:
    child, around = node, node.parent
    while isinstance(around, exp.Paren):
        child, around = around, around.parent
    if isinstance(around, exp.If):
        return child.arg_key == "this" and not (isinstance(around.parent, exp.Case) and around.parent.this)
    if isinstance(around, exp.CountIf):
        return True
    if isinstance(around, exp.Join):
        return child.arg_key == "on"
    return isinstance(around, _TAKES_CONDITION)


def _as_bit(condition: exp.Expr) -> exp.Expr:
    """Return 1, 0 or null for a condition that is true, false or unknown."""
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    no = exp.Not(this=exp.paren(condition.copy(), copy=False))
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=one), exp.If(this=no, true=zero)])
