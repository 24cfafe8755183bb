"""Formulas: translated DAX expressions over aggregates, measures and parts with conditions of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.powerbi.dax import Dax, Let, Name
from ktx_cli.semantic.interchange.powerbi.world import Entity

AGGREGATES: Final[dict[str, Callable[[exp.Expr], exp.Expr]]] = {
    "SUM": lambda x: exp.Sum(this=x), "AVERAGE": lambda x: exp.Avg(this=x), "MIN": lambda x: exp.Min(this=x),
    "MAX": lambda x: exp.Max(this=x), "COUNT": lambda x: exp.Count(this=x), "COUNTA": lambda x: exp.Count(this=x),
    "MEDIAN": lambda x: exp.Anonymous(this="percentile", expressions=[x, exp.Literal.number("0.5")]),
    "STDEV.S": lambda x: exp.StddevSamp(this=x),
    "STDEV.P": lambda x: exp.StddevPop(this=x), "VAR.S": lambda x: exp.Variance(this=x),
    "VAR.P": lambda x: exp.VariancePop(this=x),
    "DISTINCTCOUNTNOBLANK": lambda x: exp.Count(this=exp.Distinct(expressions=[x])),
}  # fmt: skip
ITERATORS: Final = {
    "SUMX": "SUM", "AVERAGEX": "AVERAGE", "MINX": "MIN", "MAXX": "MAX", "COUNTX": "COUNT", "COUNTAX": "COUNTA",
    "MEDIANX": "MEDIAN", "STDEVX.S": "STDEV.S", "STDEVX.P": "STDEV.P",
}  # fmt: skip
COUNTS: Final = ("COUNT", "COUNTA", "DISTINCTCOUNTNOBLANK")
_QUERY: Final = "`{}` depends on the rows or selections of a visual"
REASONS: Final = {
    **{
        name: _QUERY.format(name)
        for name in (
            "SELECTEDVALUE", "HASONEVALUE", "HASONEFILTER", "ISFILTERED", "ISCROSSFILTERED", "ISINSCOPE", "VALUES",
            "ALLSELECTED", "SELECTEDMEASURE", "RANKX", "TOPN", "FIRSTNONBLANKVALUE", "LASTNONBLANKVALUE", "LOOKUPVALUE",
            "OFFSET", "WINDOW", "INDEX",
        )
    },
    "USERELATIONSHIP": (
        "it uses an inactive relationship; query the columns of the role of that join instead"
    ),
    "CROSSFILTER": "it changes the direction of a relationship",
    "TREATAS": "it relates tables without a relationship",
    "FORMAT": "it formats numbers as text; set `format` of a measure instead",
    "CONCATENATEX": "a list of values is not a measure; query the column as a dimension",
    "TODAY": "its value depends on the day of the query", "NOW": "its value depends on the time of the query",
    "SUMMARIZE": "it aggregates a table that it computes", "ADDCOLUMNS": "it aggregates a table that it computes",
    "EARLIER": "it compares rows of one table with each other",
    **{
        f"{edge}BALANCE{unit}": "ktx has no balance at the edge of a whole period; use `semi_additive`"
        for edge in ("OPENING", "CLOSING") for unit in ("MONTH", "QUARTER", "YEAR")
    },
}  # fmt: skip
"""Function -> why ktx cannot translate it."""

REMOVES: Final = (
    "`{}` removes filters of the query, which ktx measures cannot; for a share of the total, use ALLSELECTED() or "
    "`percent_of`"
)
REMOVING: Final = ("ALL", "REMOVEFILTERS", "ALLEXCEPT", "ALLCROSSFILTERED", "ALLNOBLANKROW")
GUARDS: Final = ("HASONEVALUE", "HASONEFILTER", "ISINSCOPE", "ISFILTERED", "ISCROSSFILTERED")
"""Conditions on the filters of a query, which measures use to return blank for totals."""

Filtered = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Formula:
    """A translated expression. Placeholders in `tree` are the numbers of parts.

    `kind`: its type. `summed`: whether ktx counts a missing value as 0 in arithmetic; `counted`: whether it is 0 rather
    than missing. `filtered`: the columns whose filters it replaces. `periods`: the keys for time that it uses.
    `varies`: whether it contains a variable that is not a constant.
    """

    tree: exp.Expr
    kind: str | None = "number"
    summed: bool = False
    counted: bool = False
    constant: bool = False
    entities: tuple[str, ...] = ()
    filtered: Filtered = frozenset()
    periods: frozenset[str] = frozenset()
    varies: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """An aggregate over the rows of a table."""

    entity: Entity
    tree: exp.Expr


@dataclass(frozen=True, slots=True)
class Known:
    """An imported measure: its source, its name there, and the properties of its formula."""

    entity: Entity
    name: str
    formula: Formula


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A formula with keys of a measure, such as `filter` and `offset`."""

    entity: Entity
    formula: Formula
    keys: Mapping[str, Any]


@dataclass(slots=True)
class Scope:
    """The variables around an expression: name -> definition and its own scope."""

    variables: dict[str, tuple[Dax, Scope]] = field(default_factory=dict)

    def get(self, name: str) -> tuple[Dax, Scope] | None:
        """Return the definition of a variable and its scope, or None; DAX ignores case in names."""
        return self.variables.get(name.casefold())

    def resolve(self, node: Dax) -> Dax:
        """Return the definition of a variable, or the expression itself if it is none."""
        scope, seen = self, 0
        while isinstance(node, Name) and (known := scope.get(node.name)) is not None and seen < 50:
            node, scope = known
            seen += 1
        return node


def with_variables(node: Let, scope: Scope) -> Scope:
    """Return a scope with the variables of `VAR ... RETURN`; each can use the ones before it."""
    result = Scope(dict(scope.variables))
    for name, value in node.variables:
        result.variables[name.casefold()] = (value, Scope(dict(result.variables)))
    return result


def wrapped(tree: exp.Expr) -> exp.Expr:
    """Return an operand, in parentheses if necessary."""
    return exp.paren(tree) if isinstance(tree, exp.Binary | exp.Connector | exp.Case | exp.Neg) else tree


def quotient(top: exp.Expr, bottom: exp.Expr) -> exp.Expr:
    """Return a division of values of measures, which ktx computes with decimals."""
    return exp.Div(this=top, expression=bottom, typed=False, safe=False)


def is_nonzero(formula: Formula) -> bool:
    """Return whether a formula is a number other than 0."""
    return isinstance(formula.tree, exp.Literal) and not formula.tree.is_string and float(formula.tree.name) != 0


def combined(formulas: Iterable[Formula], tree: exp.Expr, kind: str | None = "number") -> Formula:
    """Return the formula of a tree that combines others."""
    several = list(formulas)
    return Formula(
        tree, kind, constant=all(each.constant for each in several),
        entities=tuple(dict.fromkeys(name for each in several for name in each.entities)),
        filtered=frozenset().union(*(each.filtered for each in several)),
        periods=frozenset().union(*(each.periods for each in several)),
        varies=any(each.varies for each in several),
    )  # fmt: skip
