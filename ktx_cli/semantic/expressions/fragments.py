"""Parse a single SQL expression, fill in its templates, and analyze its aggregates."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ktx_cli.core import Argument, Command, Hint, did_you_mean, listing, one_line, plural
from ktx_cli.semantic.expressions.dates import with_own_dates
from ktx_cli.semantic.model import GRAINS, SEVERAL, SemanticError
from ktx_cli.warehouses import Dialect, dialect_named

_MARK: Final = "ktx_template_"
_FAULTS: Final = (SqlglotError, ValueError, LookupError, AttributeError, TypeError, RecursionError, AssertionError)
"""The exceptions that the parser raises for unexpected texts, besides its own errors."""

_WORD: Final = re.compile(r"[^\W\d]\w*")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_LIST: Final = re.compile(r"\s*[^\W\d][\w.]*(?::\w+)?(?:\s*,\s*[^\W\d][\w.]*(?::\w+)?)+\s*")
"""Names separated by commas."""
_OPERATORS: Final = frozenset((
    "AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "FROM",
    "DISTINCT",
))  # fmt: skip
"""Keywords that can be part of expressions."""

_REFUSED: Final[tuple[tuple[type[exp.Expr], str], ...]] = (
    (exp.Query, "a subquery"), (exp.Subquery, "a subquery"), (exp.Exists, "a subquery"),
    (exp.Table, "a table"), (exp.Window, "a window function"), (exp.DML, "a statement that writes"),
    (exp.DDL, "a statement that changes tables"), (exp.Command, "a command"), (exp.Placeholder, "a placeholder"),
    (exp.Parameter, "a variable"), (exp.SessionParameter, "a variable"), (exp.Alias, "an alias"),
    (exp.Lambda, "a lambda"), (exp.Semicolon, "a second statement"), (exp.Block, "a second statement"),
    (exp.Columns, "columns that are not named"), (exp.PositionalColumn, "columns that are not named"),
)  # fmt: skip


def parse(text: str, dialect: str, *, what: str, values: Mapping[str, Any] | None = None) -> exp.Expr:
    """Parse an expression in a dialect. Callers must not change the result.

    `what` names it in errors. `values` are the values of `{{ param.x }}` and `{{ user.x }}` by name. Raises
    `SemanticError` for an invalid expression, for a query, window function or statement in it, and for a template
    without a value.
    """
    if "{{" not in text:
        return _parsed(text, dialect, what)
    marks, filling = marked(text, what, values or {})
    return filling.fill(_parsed(marks, dialect, what).copy(), what)


@dataclass(frozen=True, slots=True)
class Filling:
    """The values that replace the marks in a text, in order."""

    values: tuple[Any, ...]

    def fill(self, tree: exp.Expr, what: str) -> exp.Expr:
        """Return the tree with every mark replaced by its value; raises `SemanticError` for one in a string or name."""
        marks = [column for column in tree.find_all(exp.Column) if column.name.startswith(_MARK) and not column.table]
        if {int(column.name.removeprefix(_MARK)) for column in marks} != set(range(len(self.values))):
            hint = "write {{ user.region }} without quotes around it"
            raise SemanticError(f"{what} has a template inside a string or a quoted name", hint=hint, code="definition")
        for column in marks:
            value = exp.convert(self.values[int(column.name.removeprefix(_MARK))])
            if column is tree:
                return value
            column.replace(value)
        return tree


def marked(text: str, what: str, values: Mapping[str, Any]) -> tuple[str, Filling]:
    """Return a text with a mark in place of each template, and the templates that the marks replace."""
    templates = template_names(text)
    if has_other_braces(text):
        hint = "use {{ param.NAME }} or {{ user.NAME }}"
        raise SemanticError(
            f"{what} has a template that is neither a parameter nor a user attribute", hint=hint, code="definition"
        )
    for kind, name in templates:
        if f"{kind}.{name}" not in values:
            raise _no_value(kind, name, what)
        if values[f"{kind}.{name}"] is SEVERAL:
            message = f"{what} needs one value of the user attribute `{name}`, but the principals of the caller differ"
            hint = "use the attribute in a row policy, which applies once for each principal"
            raise SemanticError(message, hint=hint, code="policy", details={"attribute": name})

    def mark(template: re.Match[str]) -> str:
        return f" {_MARK}{templates.index((template[1], template[2]))} "

    return TEMPLATE.sub(mark, text), Filling(tuple(values[f"{kind}.{name}"] for kind, name in templates))


@functools.lru_cache(maxsize=20_000)
def _parsed(text: str, dialect: str, what: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(text, read=dialect, into=exp.Condition)
    except _FAULTS:
        raise SemanticError(
            f"{what} is not a valid {dialect} expression: {one_line(text, 120)}",
            hint=_unread(text, dialect),
            code="definition",
        ) from None
    for node in tree.walk():
        refused = next((name for kind, name in _REFUSED if isinstance(node, kind)), None)
        if refused is not None or _is_all_columns(node):
            message = f"{what} contains {refused or 'columns that are not named'}: {one_line(text, 120)}"
            hint = "write a single expression over columns; if you need a query, define a source with `sql:`"
            raise SemanticError(message, hint=hint, code="definition")
    return _with_functions(tree, dialect)


def _unread(text: str, dialect: str) -> str:
    """Return a hint about what may be wrong in unreadable text: a list, a parenthesis, a granularity, a keyword."""
    if _LIST.fullmatch(text):
        return f"pass each name separately: {listing(f'`{name.strip()}`' for name in text.split(','))}"
    bare = _QUOTED.sub("", text)
    unclosed = bare.count("(") - bare.count(")")
    if unclosed:
        count = plural(abs(unclosed), "closing parenthesis", "closing parentheses")
        return f"{'add' if unclosed > 0 else 'remove'} {count}"
    field, colon, grain = text.rpartition(":")
    if colon and grain.strip().isidentifier() and not field.endswith(":"):
        near = did_you_mean(grain.strip(), GRAINS)
        return f"did you mean `{field}:{near}`?" if near else f"there is no granularity `{grain}`: {', '.join(GRAINS)}"
    for word in _WORD.findall(_QUOTED.sub(" ", text)):
        try:
            sqlglot.parse_one(f"t.{word}", read=dialect, into=exp.Condition)
            sqlglot.parse_one(f"{word} > 1", read=dialect, into=exp.Condition)
        except _FAULTS:
            if word.upper() not in _OPERATORS:
                return f"if `{word}` is a name, quote it: {exp.to_identifier(word, quoted=True).sql(dialect)}"
    return f"write `{one_line(text, 60)}` as one SQL expression"


def _is_all_columns(node: exp.Expr) -> bool:
    """Return whether a node refers to unresolved columns, which may be hidden; `count(*)` counts rows instead."""
    if not isinstance(node, exp.Star):
        return False
    counted = node.parent.parent if isinstance(node.parent, exp.Column) else node.parent
    return not isinstance(counted, exp.Count) or any(node.args.values())


def _no_value(kind: str, name: str, what: str) -> SemanticError:
    if kind == "user":
        return SemanticError(
            f"{what} needs the user attribute `{name}`, which the caller did not pass",
            hint=Command("sl", "query", "--user-attribute", f"{name}=VALUE"),
            code="policy",
            details={"attribute": name},
        )
    if kind == "param":
        message = f"{what} needs the parameter `{name}`, which has no value"
        value = Hint("add `{}` to the query", Argument("parameters", {name: "VALUE"}))
        return SemanticError(message, hint=value, code="parameter", details={"parameter": name})
    hint = "use param.NAME or user.NAME"
    return SemanticError(f"{what} has an unknown template `{kind}.{name}`", hint=hint, code="definition")


def _with_functions(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return the tree with ktx's own functions expanded: percentile(x, p), count_distinct(x)."""

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous):
            return node
        name, arguments = str(node.this).lower(), node.expressions
        if name == "count_distinct" and arguments:
            return exp.Count(this=exp.Distinct(expressions=arguments), big_int=True)
        if name == "percentile" and len(arguments) == 2:
            return exp.Quantile(this=arguments[0], quantile=arguments[1])
        if name == "safe_divide" and len(arguments) == 2:
            return exp.Div(this=exp.paren(arguments[0]), expression=exp.paren(arguments[1]))
        return node

    def divide(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.SafeDivide):
            return exp.Div(this=exp.paren(node.this), expression=exp.paren(node.expression))
        return node

    tree = tree.transform(replace).transform(divide)
    syntax = dialect_named(dialect)
    return tree.transform(with_own_dates, syntax) if syntax.times_are_texts else tree


TEMPLATE: Final = re.compile(r"\{\{\s*(\w+)\.(\w+)\s*\}\}")
"""A template: its kind and its name."""


def template_names(text: str) -> list[tuple[str, str]]:
    """Return the (kind, name) of every template in a text, without duplicates."""
    return list(dict.fromkeys(TEMPLATE.findall(text)))


def has_other_braces(text: str) -> bool:
    """Return whether a text contains braces that do not open a valid template."""
    return "{{" in TEMPLATE.sub("", text)


COUNT, SUM, OTHER = "count", "sum", "other"
"""The value of an aggregate without rows: always 0, 0 only inside a formula, or NULL."""

_IGNORES_NULL: Final = (
    exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance,
    exp.VariancePop, exp.Median, exp.Quantile, exp.ApproxDistinct, exp.ApproxQuantile, exp.LogicalAnd, exp.LogicalOr,
    exp.GroupConcat, exp.Corr, exp.CovarPop, exp.CovarSamp,
)  # fmt: skip


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate, including FILTER or WITHIN GROUP around it."""
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def has_aggregate(tree: exp.Expr) -> bool:
    """Return whether the tree contains an aggregate."""
    return any(is_aggregate(node) for node in tree.walk())


def kind_of(aggregate: exp.Expr) -> str:
    """Return the kind of value that the aggregate has without rows: `count`, `sum` or `other`."""
    inner = aggregate
    while isinstance(inner, exp.Filter | exp.WithinGroup | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Count | exp.CountIf | exp.ApproxDistinct):
        return COUNT
    return SUM if isinstance(inner, exp.Sum) else OTHER


def counts_rows(aggregate: exp.Expr) -> bool:
    """Return whether an aggregate is count(*) or the count of a constant."""
    return isinstance(aggregate, exp.Count) and (
        aggregate.this is None or isinstance(aggregate.this, exp.Star | exp.Literal | exp.Boolean)
    )


def distinct_columns(aggregate: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of count(distinct a, b, ...) if there are several, otherwise none."""
    if isinstance(aggregate, exp.Count) and isinstance(aggregate.this, exp.Distinct):
        result: list[exp.Expr] = aggregate.this.expressions
        if len(result) == 1 and isinstance(result[0], exp.Tuple):
            result = result[0].expressions
        return result if len(result) > 1 else []
    return []


def percentile_of(aggregate: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (the ranked expression, the fraction) of a median or a continuous percentile, otherwise None."""
    if isinstance(aggregate, exp.Median):
        return aggregate.this, exp.Literal.number("0.5")
    if isinstance(aggregate, exp.Quantile):
        return aggregate.this, aggregate.args["quantile"]
    if isinstance(aggregate, exp.WithinGroup) and isinstance(aggregate.this, exp.PercentileCont):
        ordered = aggregate.expression.expressions[0]
        if isinstance(ordered, exp.Ordered) and not ordered.args.get("desc"):
            return ordered.this, aggregate.this.this
    return None


def with_condition(aggregate: exp.Expr, condition: exp.Expr | None, dialect: str) -> exp.Expr:
    """Return the aggregate over the rows that meet the condition. The given trees are consumed."""
    if isinstance(aggregate, exp.Filter):
        own = aggregate.expression.this
        condition = own if condition is None else exp.and_(condition, own, copy=False)
        aggregate = aggregate.this
    syntax = dialect_named(dialect)
    aggregate = _exact(aggregate, syntax)
    if condition is None:
        return aggregate
    if counts_rows(aggregate):
        return exp.Count(this=_case(condition, exp.Literal.number(1)), big_int=True)
    if isinstance(aggregate, exp.WithinGroup):
        ordered = aggregate.expression.expressions[0]
        ordered.set("this", _case(condition, ordered.this))
        return aggregate
    if isinstance(aggregate, exp.CountIf):
        aggregate.set("this", exp.and_(condition, aggregate.this, copy=False))
        return aggregate
    if isinstance(aggregate, _IGNORES_NULL):
        return _inside(aggregate, lambda argument: _case(condition, argument))
    if syntax.filters_aggregates:
        return exp.Filter(this=aggregate, expression=exp.Where(this=condition))
    message = f"{aggregate.sql(dialect)} cannot be filtered in {dialect}: it may count rows that have no value"
    hint = "move the condition into a source with `sql:`, or use another aggregate"
    raise SemanticError(message, hint=hint, code="definition")


def _inside(aggregate: exp.Expr, wrap: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    argument = aggregate.this
    if isinstance(argument, exp.Distinct):
        argument.set("expressions", [wrap(value) for value in argument.expressions])
    elif isinstance(argument, exp.Order):
        argument.set("this", wrap(argument.this))
    else:
        aggregate.set("this", wrap(argument))
    return aggregate


def _exact(aggregate: exp.Expr, syntax: Dialect) -> exp.Expr:
    """Return the aggregate in the form that the dialect computes correctly, such as averages with decimals."""
    percentile = percentile_of(aggregate)
    if percentile is not None and syntax.has_percentiles:
        value, fraction = percentile
        if syntax.rounds_percentiles:
            value = _double(value)
        order = exp.Order(expressions=[exp.Ordered(this=value, desc=False, nulls_first=False)])
        return exp.WithinGroup(this=exp.PercentileCont(this=fraction), expression=order)
    if syntax.rounds_averages and isinstance(aggregate, exp.Avg):
        return _inside(aggregate, _double)
    return aggregate


def _double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("double"))


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
