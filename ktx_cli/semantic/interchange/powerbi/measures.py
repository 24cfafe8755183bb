"""Translate DAX measures into measures of ktx.

A measure becomes a formula over parts: aggregates of a table, other measures, and parts with conditions or periods of
their own (`CALCULATE`), which become internal measures unless they are the whole measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.powerbi.dax import (
    Binary,
    Call,
    Column,
    Dax,
    Let,
    Name,
    Number,
    Text,
    Unary,
    parse_dax,
    walk,
)  # fmt: skip
from ktx_cli.semantic.interchange.powerbi.model import Measure, Table
from ktx_cli.semantic.interchange.powerbi.periods import Period, period_of, total_to_date
from ktx_cli.semantic.interchange.powerbi.rows import RowTranslator, Value, zero_of
from ktx_cli.semantic.interchange.powerbi.world import (
    INFINITE,
    LAST_DATE,
    NEEDS_TIME,
    REPLACES,
    ZERO,
    Entity,
    World,
    column_tree,
    slug,
)  # fmt: skip
from ktx_cli.semantic.interchange.report import UnresolvedError

TOOL: Final = "powerbi"

_AGGREGATES: Final[dict[str, Callable[[exp.Expr], exp.Expr]]] = {
    "SUM": lambda x: exp.Sum(this=x), "AVERAGE": lambda x: exp.Avg(this=x), "MIN": lambda x: exp.Min(this=x),
    "MAX": lambda x: exp.Max(this=x), "COUNT": lambda x: exp.Count(this=x), "COUNTA": lambda x: exp.Count(this=x),
    "MEDIAN": lambda x: exp.Median(this=x), "STDEV.S": lambda x: exp.StddevSamp(this=x),
    "STDEV.P": lambda x: exp.StddevPop(this=x), "VAR.S": lambda x: exp.Variance(this=x),
    "VAR.P": lambda x: exp.VariancePop(this=x),
    "DISTINCTCOUNTNOBLANK": lambda x: exp.Count(this=exp.Distinct(expressions=[x])),
}  # fmt: skip
_ITERATORS: Final = {
    "SUMX": "SUM", "AVERAGEX": "AVERAGE", "MINX": "MIN", "MAXX": "MAX", "COUNTX": "COUNT", "COUNTAX": "COUNTA",
    "MEDIANX": "MEDIAN", "STDEVX.S": "STDEV.S", "STDEVX.P": "STDEV.P",
}  # fmt: skip
_COUNTS: Final = ("COUNT", "COUNTA", "DISTINCTCOUNTNOBLANK")
_QUERY: Final = "`{}` depends on the rows or selections of a visual"
_REASONS: Final = {
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

_REMOVES: Final = (
    "`{}` removes filters of the query, which ktx measures cannot; for a share of the total, use ALLSELECTED() or "
    "`percent_of`"
)
_REMOVING: Final = ("ALL", "REMOVEFILTERS", "ALLEXCEPT", "ALLCROSSFILTERED", "ALLNOBLANKROW")
_Filtered = frozenset[tuple[str, str]]


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
    filtered: _Filtered = frozenset()
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
class _Scope:
    """The variables around an expression: name -> definition and its own scope."""

    variables: dict[str, tuple[Dax, _Scope]] = field(default_factory=dict)

    def get(self, name: str) -> tuple[Dax, _Scope] | None:
        return self.variables.get(name.casefold())

    def resolve(self, node: Dax) -> Dax:
        """Return the definition of a variable, or the expression itself if it is none."""
        scope, seen = self, 0
        while isinstance(node, Name) and (known := scope.get(node.name)) is not None and seen < 50:
            node, scope = known
            seen += 1
        return node


class Measures:
    """Imports the measures of a model. A measure is imported when something first refers to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Known | str] = {}
        """Name in Power BI -> the imported measure, or the reason why it was not imported."""
        self.auxiliary: dict[tuple[str, str], str] = {}
        """Source and definition of an internal measure -> its name."""

    def add_all(self) -> None:
        """Import all measures."""
        for table in self._world.model.tables.values():
            for measure in table.measures.values():
                self._add(table, measure)

    def known(self, name: str) -> Known | None:
        """Return the imported measure with a name, or None if the model has none.

        Raises `UnresolvedError` if it cannot be imported.
        """
        found = self._world.model.measure(name)
        if found is None:
            return None
        result = self._add(*found)
        if isinstance(result, str):
            raise UnresolvedError(result)
        return result

    def _add(self, table: Table, measure: Measure) -> Known | str:
        """Import a measure once, and return it, or the reason for measures that use it."""
        if measure.name not in self._known:
            self._known[measure.name] = f"the measure `[{measure.name}]` refers to itself"
            what = f"measure `{table.name}[{measure.name}]`"
            failed = f"it uses the measure `[{measure.name}]`, which was not imported"
            with self._world.report.dropping(what, measure.place):
                self._known[measure.name] = failed
                self._known[measure.name] = self._import(measure, what)
        return self._known[measure.name]

    def _import(self, measure: Measure, what: str) -> Known:
        translation = _Translation(self._world, self)
        formula = translation.formula(parse_dax(measure.expression), _Scope())
        if not formula.entities:
            raise UnresolvedError("it aggregates nothing")
        home = self._world.entities[formula.entities[0]]
        name = self.free_name(home, slug(measure.name))
        entry = translation.entry(formula, home, name)
        shown = {
            "label": measure.name if measure.name != name else None,
            "descriptions": {TOOL: measure.description} if measure.description else None,
            "visibility": "internal" if measure.hidden else None,
            "format": format_of(measure.format),
        }
        home.draft.measures[name] = {"name": name, **entry, **drafts.filled(shown)}
        target = f"{home.draft.name}.{name}"
        for note in translation.notes:
            self._world.report.approximated(what, note, measure.place, target)
        self._world.report.kept(what, measure.place, target)
        return Known(home, name, formula)

    def free_name(self, home: Entity, name: str) -> str:
        """Return a name for a measure that no column or measure of the source has."""
        draft = home.draft
        taken = {each.casefold() for each in (*draft.columns, *draft.measures)}
        taken |= {each.casefold() for each in (draft.base.columns if draft.base else ())}
        if name in taken:
            name = f"{name}_measure"
        free, number = name, 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        return free


def format_of(text: str | None) -> str | None:
    """Return the ktx format for a format string: the one for positive numbers, without escapes."""
    first = (text or "").split(";")[0].replace("\\", "").replace('"', "").strip()
    named = {"percent": "percent", "currency": "currency", "standard": "#,##0.00", "fixed": "0.00"}
    return named.get(first.lower()) or (first if any(sign in first for sign in "0#") else None)


class _Translation:
    """Translates the expression of one measure."""

    def __init__(self, world: World, measures: Measures) -> None:
        self._world, self._measures = world, measures
        self._parts: list[Leaf | Known | Wrapped] = []
        self.notes: dict[str, None] = {}

    # Rendering.

    def entry(self, formula: Formula, home: Entity, name: str) -> dict[str, Any]:
        """Return the keys of a measure, and add the internal measures that it needs."""
        keys: Mapping[str, Any] = {}
        part = self._only_part(formula)
        if isinstance(part, Wrapped) and part.entity is home:
            formula, keys = part.formula, part.keys
        return {"expr": self._expr(formula, home, name, keys), **keys}

    def _expr(self, formula: Formula, home: Entity, name: str, keys: Mapping[str, Any]) -> str:
        """Return the `expr` of a measure of a source; it aggregates measures instead of columns if `keys` has `per`."""
        uses: list[str] = []
        expr = self._render(formula, home, name, uses)
        if "per" not in keys:
            drafts.checked(home.draft, expr, aggregate=True, measures=uses)
        return expr

    def _only_part(self, formula: Formula) -> Leaf | Known | Wrapped | None:
        tree = formula.tree
        return self._parts[int(tree.name)] if isinstance(tree, exp.Placeholder) else None

    def _render(self, formula: Formula, home: Entity, name: str, uses: list[str]) -> str:
        def replaced(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Placeholder):
                return node
            part = self._parts[int(node.name)]
            if isinstance(part, Leaf) and part.entity is home:
                return part.tree.copy()
            known = part if isinstance(part, Known) else self._auxiliary(part, name)
            table = None if known.entity is home else known.entity.draft.name
            uses.append(known.name if table is None else f"{table}.{known.name}")
            return column_tree(known.name, self._world.dialect, table)

        return str(formula.tree.copy().transform(replaced).sql(self._world.dialect))

    def _auxiliary(self, part: Leaf | Wrapped, name: str) -> Known:
        """Return an internal measure for a part; equal parts share one."""
        formula = self._leaf_formula(part) if isinstance(part, Leaf) else part.formula
        keys = {} if isinstance(part, Leaf) else dict(part.keys)
        entry = {"expr": self._expr(formula, part.entity, name, keys), **keys, "visibility": "internal"}
        key = (part.entity.draft.name, json.dumps(entry, sort_keys=True))
        if key not in self._measures.auxiliary:
            free = self._measures.free_name(part.entity, f"{name}_part")
            part.entity.draft.measures[free] = {"name": free, **entry}
            self._measures.auxiliary[key] = free
        return Known(part.entity, self._measures.auxiliary[key], formula)

    def _leaf_formula(self, leaf: Leaf) -> Formula:
        return Formula(self._placeholder(leaf), entities=(leaf.entity.table.name,))

    def _placeholder(self, part: Leaf | Known | Wrapped) -> exp.Expr:
        self._parts.append(part)
        return exp.Placeholder(this=str(len(self._parts) - 1))

    # Expressions.

    def formula(self, node: Dax, scope: _Scope) -> Formula:
        """Return the translated expression. Raises `UnresolvedError` with the reason if ktx has no equivalent."""
        if isinstance(node, Number):
            return Formula(exp.Literal.number(node.text), constant=True)
        if isinstance(node, Text):
            return Formula(exp.Literal.string(node.value), "string", constant=True)
        if isinstance(node, Column):
            return self._reference(node)
        if isinstance(node, Name):
            return self._variable(node, scope)
        if isinstance(node, Let):
            return self.formula(node.body, _with_variables(node, scope))
        if isinstance(node, Unary) and node.operator in "+-":
            found = self.formula(node.operand, scope)
            return found if node.operator == "+" else replace(found, tree=exp.Neg(this=_wrapped(found.tree)))
        if isinstance(node, Binary) and node.operator in "+-*/":
            return self._arithmetic(node.operator, self.formula(node.left, scope), self.formula(node.right, scope))
        if isinstance(node, Call):
            return self._call(node, scope)
        return self._condition(node, scope)

    def _reference(self, node: Column) -> Formula:
        known = self._measures.known(node.name) if self._is_measure(node) else None
        if known is None:
            raise UnresolvedError(f"the column `{node.table or ''}[{node.name}]` is used without an aggregate")
        return replace(known.formula, tree=self._placeholder(known), constant=False, varies=False)

    def _is_measure(self, node: Column) -> bool:
        table = self._world.model.table(node.table) if node.table is not None else None
        return table is None or table.column(node.name) is None

    def _variable(self, node: Name, scope: _Scope) -> Formula:
        if not node.quoted and node.name.upper() in ("TRUE", "FALSE"):
            return Formula(exp.Boolean(this=node.name.upper() == "TRUE"), "boolean", constant=True)
        known = None if node.quoted else scope.get(node.name)
        if known is None:
            raise UnresolvedError(f"`{node.name}` is a table, where ktx needs a value")
        found = self.formula(*known)
        return replace(found, varies=not found.constant)

    def _arithmetic(self, sign: str, left: Formula, right: Formula) -> Formula:
        if {"string", "time", "boolean"} & {left.kind, right.kind}:
            raise UnresolvedError("ktx does not support arithmetic with texts, dates or conditions in measures")
        operands = [self._operand(sign, each) for each in (left, right)]
        if sign == "/":
            if not _is_nonzero(right):
                self.notes[INFINITE] = None
            tree: exp.Expr = _quotient(*operands)
        else:
            tree = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}[sign](this=operands[0], expression=operands[1])
        adds_measures = sign in "+-" and not (left.constant or right.constant)
        if adds_measures or (sign in "*/" and (left.summed or right.summed)):
            self.notes[ZERO] = None
        return _combined((left, right), tree)

    def _operand(self, sign: str, formula: Formula) -> exp.Expr:
        """Return an operand. In a sum, blank counts as 0, which ktx only does for sums and counts."""
        if sign in "+-" and not (formula.summed or formula.constant):
            return exp.Coalesce(this=formula.tree, expressions=[exp.Literal.number(0)])
        return _wrapped(formula.tree)

    def _condition(self, node: Dax, scope: _Scope) -> Formula:
        """Return a condition on values of measures."""
        if isinstance(node, Unary):
            found = self._condition_of(node.operand, scope)
            return replace(found, tree=exp.not_(exp.Coalesce(this=found.tree, expressions=[exp.false()])))
        if not isinstance(node, Binary):
            raise UnresolvedError("ktx does not support this part of the expression in a measure")
        if node.operator in ("&&", "||"):
            both = [self._condition_of(each, scope) for each in (node.left, node.right)]
            trees = [each.tree for each in both]
            return _combined(both, exp.and_(*trees) if node.operator == "&&" else exp.or_(*trees), "boolean")
        signs = {
            "=": exp.EQ, "==": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
        }  # fmt: skip
        if node.operator not in signs:
            raise UnresolvedError(f"ktx does not support `{node.operator}` in a measure")
        both = [self.formula(each, scope) for each in (node.left, node.right)]
        kind = both[0].kind or both[1].kind
        trees = [
            _wrapped(each.tree) if each.constant or each.counted
            else exp.Coalesce(this=each.tree, expressions=[zero_of(kind)])
            for each in both
        ]  # fmt: skip
        return _combined(both, signs[node.operator](this=trees[0], expression=trees[1]), "boolean")

    def _condition_of(self, node: Dax, scope: _Scope) -> Formula:
        found = self.formula(node, scope)
        if found.kind != "boolean":
            raise UnresolvedError("a condition of the measure is not a comparison")
        return found

    # Functions.

    def _call(self, node: Call, scope: _Scope) -> Formula:
        name = node.name
        handlers: dict[str, Callable[[Call, _Scope], Formula]] = {
            "CALCULATE": self._calculate, "DIVIDE": self._divide, "IF": self._if, "SWITCH": self._switch,
            "COALESCE": self._coalesce, "COUNTROWS": self._count_rows, "DISTINCTCOUNT": self._distinct,
            "COUNTBLANK": self._count_blank, "ROUND": self._round, "ABS": self._abs, "ISBLANK": self._is_blank,
            "PERCENTILE.INC": self._percentile, "AND": self._connected, "OR": self._connected,
        }  # fmt: skip
        if name in _AGGREGATES and len(node.arguments) == 1:
            return self._aggregate(node)
        if name in _ITERATORS:
            return self._iterate(node, scope)
        if name in handlers:
            return handlers[name](node, scope)
        if name == "BLANK":
            return Formula(exp.Null(), None, constant=True)
        if name in ("TRUE", "FALSE"):
            return Formula(exp.Boolean(this=name == "TRUE"), "boolean", constant=True)
        if name == "NOT":
            return self._condition(Unary("NOT", self._argument(node, 0)), scope)
        total = total_to_date(node)
        if total is not None:
            expression, period, further = total
            filters = [] if further is None else [further]
            return self._with_filters(self.formula(expression, scope), filters, [period], scope)
        if name in _REMOVING:
            raise UnresolvedError(_REMOVES.format(name))
        raise UnresolvedError(_REASONS.get(name, f"ktx does not support the DAX function `{name}`"))

    def _argument(self, node: Call, index: int) -> Dax:
        found = node.arguments[index] if len(node.arguments) > index else None
        if found is None:
            raise UnresolvedError(f"`{node.name}` has too few arguments")
        return found

    def _connected(self, node: Call, scope: _Scope) -> Formula:
        sign = "&&" if node.name == "AND" else "||"
        return self._condition(Binary(sign, self._argument(node, 0), self._argument(node, 1)), scope)

    def _aggregate(self, node: Call) -> Formula:
        column = self._argument(node, 0)
        if not isinstance(column, Column) or column.table is None:
            raise UnresolvedError(f"`{node.name}` is not applied to a column")
        return self._leaf_of(self._world.entity(column.table), node.name, column)

    def _leaf_of(self, entity: Entity, function: str, row: Dax, scope: _Scope | None = None) -> Formula:
        """Return the aggregate of a row expression."""
        translator = RowTranslator(self._world, entity, self._constants(scope or _Scope()))
        value = translator.value(row)
        self.notes |= translator.notes
        if function in ("SUM", "AVERAGE") and value.kind not in ("number", None):
            raise UnresolvedError(f"`{function}` is applied to values of the type {value.kind}")
        counted = function in _COUNTS
        if counted:
            self.notes[ZERO] = None
        tree = self._placeholder(Leaf(entity, _AGGREGATES[function](value.tree)))
        kind = value.kind if function in ("MIN", "MAX") else "number"
        return Formula(tree, kind, counted or function == "SUM", counted, entities=(entity.table.name,))

    def _constants(self, scope: _Scope) -> dict[str, Value]:
        """Return the variables that are literals, which conditions on rows can use."""
        found = {}
        for name, (node, around) in scope.variables.items():
            literal = around.resolve(node)
            if isinstance(literal, Number | Text):
                is_text = isinstance(literal, Text)
                constant: Any = literal.value if isinstance(literal, Text) else float(literal.text)
                text = literal.value if isinstance(literal, Text) else literal.text
                tree = exp.Literal.string(text) if is_text else exp.Literal.number(text)
                found[name] = Value(tree, "string" if is_text else "number", nullable=False, constant=constant)
        return found

    def _iterate(self, node: Call, scope: _Scope) -> Formula:
        rows, row = self._argument(node, 0), self._argument(node, 1)
        function = _ITERATORS[node.name]
        per = self._distinct_column(scope.resolve(rows))
        if per is not None:
            return self._per_value(per, function, row, scope)
        entity, filters = self._rows(rows, scope)
        return self._kept_rows(self._leaf_of(entity, function, row, scope), entity, filters, scope)

    def _distinct_column(self, rows: Dax) -> Column | None:
        """Return the column of `VALUES(T[c])` or `DISTINCT(T[c])`."""
        if isinstance(rows, Call) and rows.name in ("VALUES", "DISTINCT") and len(rows.arguments) == 1:
            column = rows.arguments[0]
            return column if isinstance(column, Column) and column.table is not None else None
        return None

    def _per_value(self, column: Column, function: str, row: Dax, scope: _Scope) -> Formula:
        """Return the aggregate of a measure over the values of a column: a measure with two levels."""
        inner = self.formula(row, scope)
        part = self._only_part(inner)
        if not isinstance(part, Known) or function not in ("SUM", "AVERAGE", "MIN", "MAX"):
            raise UnresolvedError("ktx only supports iterators over values of a column with a measure")
        entity = part.entity
        if entity.table.name.casefold() != str(column.table).casefold():
            raise UnresolvedError(f"`{part.name}` aggregates another table than that of `[{column.name}]`")
        key = self._world.field(entity, column.name)
        leaf = Leaf(entity, _AGGREGATES[function](column_tree(part.name, self._world.dialect)))
        formula = replace(self._leaf_formula(leaf), filtered=inner.filtered, periods=inner.periods)
        wrapped = Wrapped(entity, formula, {"per": [key.name]})
        return replace(formula, tree=self._placeholder(wrapped))

    def _rows(self, rows: Dax, scope: _Scope) -> tuple[Entity, list[Dax]]:
        """Return the table whose rows an expression iterates, and the conditions that they meet."""
        found = scope.resolve(rows)
        if isinstance(found, Name):
            return self._world.entity(found.name), []
        if isinstance(found, Call) and found.name == "FILTER":
            entity, filters = self._rows(self._argument(found, 0), scope)
            return entity, [*filters, self._argument(found, 1)]
        if isinstance(found, Call) and found.name in _REMOVING:
            raise UnresolvedError(_REMOVES.format(found.name))
        name = found.name if isinstance(found, Call) else type(found).__name__
        raise UnresolvedError(_REASONS.get(name, f"ktx cannot aggregate the rows of `{name}`"))

    def _kept_rows(self, formula: Formula, entity: Entity, filters: Iterable[Dax], scope: _Scope) -> Formula:
        """Return an aggregate of the rows that meet conditions, which no other filter replaces."""
        texts = [self._row_condition(entity, each, scope)[0] for each in filters]
        if not texts:
            return formula
        return replace(formula, tree=self._placeholder(Wrapped(entity, formula, {"filter": drafts.all_of(texts)})))

    def _row_condition(self, entity: Entity, node: Dax, scope: _Scope) -> tuple[str, _Filtered]:
        """Return a condition on the rows of a table, and the columns that it uses."""
        translator = RowTranslator(self._world, entity, self._constants(scope))
        text = str(translator.condition(node).sql(self._world.dialect))
        drafts.checked(entity.draft, text, aggregate=False)
        self.notes |= translator.notes
        return text, frozenset(translator.columns)

    def _count_rows(self, node: Call, scope: _Scope) -> Formula:
        rows = self._argument(node, 0)
        column = self._distinct_column(scope.resolve(rows))
        if column is not None:
            return self._distinct(Call("DISTINCTCOUNT", (column,)), scope)
        entity, filters = self._rows(rows, scope)
        self.notes[ZERO] = None
        tree = self._placeholder(Leaf(entity, exp.Count(this=exp.Star())))
        formula = Formula(tree, "number", summed=True, counted=True, entities=(entity.table.name,))
        return self._kept_rows(formula, entity, filters, scope)

    def _distinct(self, node: Call, scope: _Scope) -> Formula:
        """Return a count of distinct values, in which blank is a value."""
        column = self._argument(node, 0)
        if not isinstance(column, Column) or column.table is None:
            raise UnresolvedError(f"`{node.name}` is not applied to a column")
        entity = self._world.entity(column.table)
        found = self._leaf_of(entity, "DISTINCTCOUNTNOBLANK", column)
        known = self._world.field(entity, column.name)
        if not known.nullable:
            return found
        is_blank = exp.Is(this=column_tree(known.name, self._world.dialect), expression=exp.Null())
        one = exp.Case().when(is_blank, exp.Literal.number(1)).else_(exp.Literal.number(0))
        blank = self._placeholder(Leaf(entity, exp.Max(this=one)))
        tree = exp.Add(this=found.tree, expression=exp.Coalesce(this=blank, expressions=[exp.Literal.number(0)]))
        return replace(found, tree=tree, summed=False)

    def _count_blank(self, node: Call, scope: _Scope) -> Formula:
        column = self._argument(node, 0)
        if not isinstance(column, Column) or column.table is None:
            raise UnresolvedError(f"`{node.name}` is not applied to a column")
        entity = self._world.entity(column.table)
        value = RowTranslator(self._world, entity).value(column)
        test: exp.Expr = exp.Is(this=value.tree.copy(), expression=exp.Null())
        if value.kind == "string":
            test = exp.or_(test, exp.EQ(this=value.tree.copy(), expression=exp.Literal.string("")))
        self.notes[ZERO] = None
        counted = exp.Count(this=exp.Case().when(test, exp.Literal.number(1)))
        return Formula(self._placeholder(Leaf(entity, counted)), "number", summed=True, counted=True,
                       entities=(entity.table.name,))  # fmt: skip

    def _percentile(self, node: Call, scope: _Scope) -> Formula:
        column, share = self._argument(node, 0), scope.resolve(self._argument(node, 1))
        if not isinstance(column, Column) or column.table is None or not isinstance(share, Number):
            raise UnresolvedError("ktx only supports PERCENTILE.INC with a column and a number")
        entity = self._world.entity(column.table)
        value = RowTranslator(self._world, entity).value(column)
        tree = exp.Anonymous(this="percentile", expressions=[value.tree, exp.Literal.number(share.text)])
        return Formula(self._placeholder(Leaf(entity, tree)), entities=(entity.table.name,))

    def _divide(self, node: Call, scope: _Scope) -> Formula:
        share = self._share_of_selected(node, scope)
        if share is not None:
            return share
        top, bottom = (self.formula(self._argument(node, index), scope) for index in (0, 1))
        if top.summed:
            self.notes[ZERO] = None
        quotient = _quotient(_wrapped(top.tree), _wrapped(bottom.tree))
        if len(node.arguments) < 3:
            return _combined((top, bottom), quotient)
        other = self.formula(self._argument(node, 2), scope)
        is_zero = exp.EQ(this=exp.Coalesce(this=bottom.tree.copy(), expressions=[exp.Literal.number(0)]),
                         expression=exp.Literal.number(0))  # fmt: skip
        tree = exp.Case().when(is_zero, other.tree).else_(quotient)
        return _combined((top, bottom, other), tree)

    def _share_of_selected(self, node: Call, scope: _Scope) -> Formula | None:
        """Return the share of `DIVIDE(x, CALCULATE(x, ALLSELECTED()))` in the total of the query."""
        part, whole = scope.resolve(self._argument(node, 0)), scope.resolve(self._argument(node, 1))
        if not isinstance(whole, Call) or whole.arguments != (part, Call("ALLSELECTED", ())):
            return None
        top = self.formula(part, scope)
        entity = self._world.entities[top.entities[0]]
        wrapped = Wrapped(entity, top, {"percent_of": "total"})
        return replace(
            top, tree=_quotient(self._placeholder(wrapped), exp.Literal.number(100)), summed=False, counted=False
        )

    def _if(self, node: Call, scope: _Scope) -> Formula:
        test = self._condition_of(self._argument(node, 0), scope)
        values = [self.formula(each, scope) for each in node.arguments[1:3] if each is not None]
        if not values:
            raise UnresolvedError("`IF` has too few arguments")
        tree = exp.Case().when(test.tree, values[0].tree)
        return _combined((test, *values), tree.else_(values[1].tree) if len(values) > 1 else tree, values[0].kind)

    def _switch(self, node: Call, scope: _Scope) -> Formula:
        given = [each for each in node.arguments if each is not None]
        if len(given) < 3:
            raise UnresolvedError("`SWITCH` has too few arguments")
        subject, pairs = given[0], given[1:]
        rest = [self.formula(pairs[-1], scope)] if len(pairs) % 2 else []
        is_true = subject == Call("TRUE", ()) or (isinstance(subject, Name) and subject.name.upper() == "TRUE")
        tests, values, tree = [], [], exp.Case()
        for test, value in zip(pairs[::2], pairs[1::2], strict=False):
            tests.append(self._condition_of(test if is_true else Binary("=", subject, test), scope))
            values.append(self.formula(value, scope))
            tree = tree.when(tests[-1].tree, values[-1].tree)
        tree = tree.else_(rest[0].tree) if rest else tree
        return _combined((*tests, *values, *rest), tree, values[0].kind)

    def _coalesce(self, node: Call, scope: _Scope) -> Formula:
        values = [self.formula(each, scope) for each in node.arguments if each is not None]
        if not values:
            raise UnresolvedError("`COALESCE` has no arguments")
        zero = exp.Literal.number(0)
        trees = [exp.Nullif(this=each.tree, expression=zero.copy()) if each.counted else each.tree for each in values]
        return _combined(values, exp.Coalesce(this=trees[0], expressions=trees[1:]), values[0].kind)

    def _is_blank(self, node: Call, scope: _Scope) -> Formula:
        found = self.formula(self._argument(node, 0), scope)
        if found.counted:
            return replace(found, tree=exp.EQ(this=found.tree, expression=exp.Literal.number(0)), kind="boolean")
        return replace(found, tree=exp.Is(this=_wrapped(found.tree), expression=exp.Null()), kind="boolean")

    def _round(self, node: Call, scope: _Scope) -> Formula:
        found, digits = self.formula(self._argument(node, 0), scope), self.formula(self._argument(node, 1), scope)
        if not digits.constant:
            raise UnresolvedError("ktx only supports ROUND with a number of digits")
        return replace(found, tree=exp.Round(this=found.tree, decimals=digits.tree))

    def _abs(self, node: Call, scope: _Scope) -> Formula:
        found = self.formula(self._argument(node, 0), scope)
        return replace(found, tree=exp.Abs(this=found.tree))

    # CALCULATE.

    def _calculate(self, node: Call, scope: _Scope) -> Formula:
        expression = self._argument(node, 0)
        filters, periods = [], []
        for each in node.arguments[1:]:
            found = None if each is None else scope.resolve(each)
            if found is None:
                continue
            period = period_of(found, scope.resolve)
            if period is None:
                filters.append(found)
            else:
                periods.append(period)
        return self._with_filters(self.formula(expression, scope), filters, periods, scope)

    def _with_filters(self, formula: Formula, filters: list[Dax], periods: list[Period], scope: _Scope) -> Formula:
        """Return a formula whose rows meet the filters, at the periods."""
        if formula.varies:
            raise UnresolvedError("a variable is computed before CALCULATE, so the filters do not apply to it")
        if not filters and not periods:
            return formula
        if not formula.entities:
            raise UnresolvedError("it aggregates nothing")
        home = self._world.entities[formula.entities[0]]
        keys: dict[str, Any] = {}
        texts, columns, replaced = [], frozenset[tuple[str, str]](), frozenset[tuple[str, str]]()
        for each in filters:
            text, used, replaces = self._filter(each, home, formula, scope)
            texts.append(text)
            columns |= used
            replaced |= used if replaces else frozenset()
        if texts:
            keys["filter"] = drafts.all_of(texts)
        clash = sorted(columns & formula.filtered)
        if clash:
            name = f"{clash[0][0]}[{clash[0][1]}]"
            raise UnresolvedError(f"it filters `{name}`, and the measure inside replaces that filter")
        for period in periods:
            keys |= self._period(period, home, formula, keys, columns)
        if replaced:
            self.notes[REPLACES] = None
        if "filter" in keys and formula.counted:
            self.notes[ZERO] = None
        wrapped = self._placeholder(Wrapped(home, formula, keys))
        times = formula.periods | ({*keys} & {"offset", "cumulative", "semi_additive"})
        return replace(formula, tree=wrapped, filtered=formula.filtered | replaced, periods=frozenset(times))

    def _filter(self, node: Dax, home: Entity, formula: Formula, scope: _Scope) -> tuple[str, _Filtered, bool]:
        """Return a filter as a condition, its columns, and whether it replaces filters of the query on them."""
        replaces = True
        if isinstance(node, Call) and node.name == "KEEPFILTERS":
            node, replaces = self._argument(node, 0), False
        if isinstance(node, Call) and node.name == "FILTER":
            rows, condition = scope.resolve(self._argument(node, 0)), self._argument(node, 1)
            replaces = replaces and isinstance(rows, Call) and rows.name in _REMOVING
            if not (isinstance(rows, Name) or (isinstance(rows, Call) and rows.name in (*_REMOVING, "VALUES"))):
                raise UnresolvedError("ktx only supports FILTER of a table or of the values of a column")
            node = condition
        elif isinstance(node, Call) and node.name in (*_REMOVING, *_REASONS):
            raise UnresolvedError(_REASONS.get(node.name, _REMOVES.format(node.name)))
        if any(isinstance(each, Call) and each.name in (*_AGGREGATES, *_ITERATORS, "CALCULATE") for each in walk(node)):
            raise UnresolvedError("a filter compares with a value that depends on the query")
        text, columns = self._row_condition(home, node, scope)
        for name in formula.entities[1:]:
            self._row_condition(self._world.entities[name], node, scope)
        if len(formula.entities) > 1 and any(table == home.table.name for table, _ in columns):
            raise UnresolvedError(f"it filters `{home.table.name}`, but also aggregates other tables")
        return text, columns, replaces

    def _period(
        self, period: Period, home: Entity, formula: Formula, keys: Mapping[str, Any], columns: _Filtered
    ) -> dict[str, Any]:
        """Return the keys for a period."""
        if len(formula.entities) > 1:
            raise UnresolvedError("its periods apply to measures of several tables")
        date_table = str(period.date.table)
        others = {table for table, _ in (*columns, *formula.filtered)}
        if date_table in others and date_table != home.table.name:
            raise UnresolvedError(f"it combines a period with a filter on `{date_table}`")
        for key in period.keys:
            if key in keys or (key != "offset" and key in formula.periods):
                raise UnresolvedError("it combines several periods of the same kind")
        axis = self._world.axis(home, date_table, period.date.name)
        home.draft.require(axis.name, "time")
        if period.over:
            self.notes[LAST_DATE] = None
            return {key: {"over": axis.name, **value} for key, value in period.keys.items()}
        self.notes[NEEDS_TIME] = None
        return {**period.keys, "time": axis.name}


def _with_variables(node: Let, scope: _Scope) -> _Scope:
    result = _Scope(dict(scope.variables))
    for name, value in node.variables:
        result.variables[name.casefold()] = (value, _Scope(dict(result.variables)))
    return result


def _wrapped(tree: exp.Expr) -> exp.Expr:
    return exp.paren(tree) if isinstance(tree, exp.Binary | exp.Connector | exp.Case | exp.Neg) else tree


def _quotient(top: exp.Expr, bottom: exp.Expr) -> exp.Expr:
    return exp.Div(this=top, expression=bottom, typed=False, safe=False)


def _is_nonzero(formula: Formula) -> bool:
    return isinstance(formula.tree, exp.Literal) and not formula.tree.is_string and float(formula.tree.name) != 0


def _combined(formulas: Iterable[Formula], tree: exp.Expr, kind: str | None = "number") -> Formula:
    """Return the formula of a tree that combines others."""
    several = list(formulas)
    return Formula(
        tree, kind, constant=all(each.constant for each in several),
        entities=tuple(dict.fromkeys(name for each in several for name in each.entities)),
        filtered=frozenset().union(*(each.filtered for each in several)),
        periods=frozenset().union(*(each.periods for each in several)),
        varies=any(each.varies for each in several),
    )  # fmt: skip
