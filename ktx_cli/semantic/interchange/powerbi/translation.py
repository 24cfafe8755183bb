"""Translate DAX that is computed for the rows of a query into formulas.

A measure becomes a formula over parts: aggregates of a table, other measures, and parts with conditions or periods of
their own (`CALCULATE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.powerbi.dax import Binary, Call, Column, Dax, Let, Name, Number, Text, Unary, walk
from ktx_cli.semantic.interchange.powerbi.formulas import (
    AGGREGATES,
    COUNTS,
    GUARDS,
    ITERATORS,
    REASONS,
    REMOVES,
    REMOVING,
    Filtered,
    Formula,
    Known,
    Leaf,
    Scope,
    Wrapped,
    combined,
    is_nonzero,
    quotient,
    with_variables,
    wrapped,
)
from ktx_cli.semantic.interchange.powerbi.periods import Period, period_of, total_to_date
from ktx_cli.semantic.interchange.powerbi.rows import RowTranslator, Value, zero_of
from ktx_cli.semantic.interchange.powerbi.world import (
    BLANK_ROW,
    GUARDED,
    IGNORES_CASE,
    INFINITE,
    LAST_DATE,
    NEEDS_TIME,
    REPLACES,
    REPLACES_TABLE,
    ZERO,
    Entity,
    World,
    column_tree,
)
from ktx_cli.semantic.interchange.report import UnresolvedError


class Translation:
    """Translates the expression of one measure. `parts` are what placeholders in formulas stand for.

    `known` returns an imported measure by its name, or None if the model has none; it raises `UnresolvedError` for one
    that could not be imported. `notes` collects the differences to Power BI.
    """

    def __init__(self, world: World, known: Callable[[str], Known | None]) -> None:
        self._world, self._known = world, known
        self.parts: list[Leaf | Known | Wrapped] = []
        self.notes: dict[str, None] = {}

    def only_part(self, formula: Formula) -> Leaf | Known | Wrapped | None:
        """Return the part that a formula consists of, or None if it combines several."""
        tree = formula.tree
        return self.parts[int(tree.name)] if isinstance(tree, exp.Placeholder) else None

    def leaf_formula(self, leaf: Leaf) -> Formula:
        """Return the formula of a single aggregate."""
        return Formula(self._placeholder(leaf), entities=(leaf.entity.table.name,))

    def _placeholder(self, part: Leaf | Known | Wrapped) -> exp.Expr:
        self.parts.append(part)
        return exp.Placeholder(this=str(len(self.parts) - 1))

    # Expressions.

    def formula(self, node: Dax, scope: Scope) -> Formula:
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
            return self.formula(node.body, with_variables(node, scope))
        if isinstance(node, Unary) and node.operator in "+-":
            found = self.formula(node.operand, scope)
            return found if node.operator == "+" else replace(found, tree=exp.Neg(this=wrapped(found.tree)))
        if isinstance(node, Binary) and node.operator in "+-*/":
            return self._arithmetic(node.operator, self.formula(node.left, scope), self.formula(node.right, scope))
        if isinstance(node, Call):
            return self._call(node, scope)
        return self._condition(node, scope)

    def _reference(self, node: Column) -> Formula:
        known = self._known(node.name) if self._is_measure(node) else None
        if known is None:
            raise UnresolvedError(f"the column `{node.table or ''}[{node.name}]` is used without an aggregate")
        return replace(known.formula, tree=self._placeholder(known), constant=False, varies=False)

    def _is_measure(self, node: Column) -> bool:
        table = self._world.model.table(node.table) if node.table is not None else None
        return table is None or table.column(node.name) is None

    def _variable(self, node: Name, scope: Scope) -> Formula:
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
            if not is_nonzero(right):
                self.notes[INFINITE] = None
            tree: exp.Expr = quotient(*operands)
        else:
            tree = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}[sign](this=operands[0], expression=operands[1])
        adds_measures = sign in "+-" and not (left.constant or right.constant)
        if adds_measures or (sign in "*/" and (left.summed or right.summed)):
            self.notes[ZERO] = None
        return combined((left, right), tree)

    def _operand(self, sign: str, formula: Formula) -> exp.Expr:
        """Return an operand. In a sum, blank counts as 0, which ktx only does for sums and counts."""
        if sign in "+-" and not (formula.summed or formula.constant):
            return exp.Coalesce(this=formula.tree, expressions=[exp.Literal.number(0)])
        return wrapped(formula.tree)

    def _condition(self, node: Dax, scope: Scope) -> Formula:
        """Return a condition on values of measures."""
        if isinstance(node, Unary):
            found = self._condition_of(node.operand, scope)
            return replace(found, tree=exp.not_(exp.Coalesce(this=found.tree, expressions=[exp.false()])))
        if not isinstance(node, Binary):
            raise UnresolvedError("ktx does not support this part of the expression in a measure")
        if node.operator in ("&&", "||"):
            both = [self._condition_of(each, scope) for each in (node.left, node.right)]
            trees = [each.tree for each in both]
            return combined(both, exp.and_(*trees) if node.operator == "&&" else exp.or_(*trees), "boolean")
        signs = {
            "=": exp.EQ, "==": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
        }  # fmt: skip
        if node.operator not in signs:
            raise UnresolvedError(f"ktx does not support `{node.operator}` in a measure")
        both = [self.formula(each, scope) for each in (node.left, node.right)]
        if any(isinstance(each.tree, exp.Null) for each in both):
            return self._against_blank(node.operator, both)
        kind = both[0].kind or both[1].kind
        if kind == "string":
            self.notes[IGNORES_CASE] = None
        trees = [
            wrapped(each.tree) if each.constant or each.counted or node.operator == "=="
            else exp.Coalesce(this=each.tree, expressions=[zero_of(kind)])
            for each in both
        ]  # fmt: skip
        return combined(both, signs[node.operator](this=trees[0], expression=trees[1]), "boolean")

    def _against_blank(self, sign: str, both: list[Formula]) -> Formula:
        """Return a comparison with blank, which equals 0 and the empty text unless the comparison is strict."""
        found = both[1] if isinstance(both[0].tree, exp.Null) else both[0]
        if sign not in ("=", "==", "<>"):
            raise UnresolvedError("it compares the order of a value and blank")
        if sign == "==" and not found.counted:
            tree: exp.Expr = exp.Is(this=wrapped(found.tree), expression=exp.Null())
        else:
            value = exp.Coalesce(this=found.tree, expressions=[zero_of(found.kind)])
            tree = (exp.NEQ if sign == "<>" else exp.EQ)(this=value, expression=zero_of(found.kind))
        return combined(both, tree, "boolean")

    def _condition_of(self, node: Dax, scope: Scope) -> Formula:
        found = self.formula(node, scope)
        if found.kind != "boolean":
            raise UnresolvedError("a condition of the measure is not a comparison")
        return found

    # Functions.

    def _call(self, node: Call, scope: Scope) -> Formula:
        name = node.name
        handlers: dict[str, Callable[[Call, Scope], Formula]] = {
            "CALCULATE": self._calculate, "DIVIDE": self._divide, "IF": self._if, "SWITCH": self._switch,
            "COALESCE": self._coalesce, "COUNTROWS": self._count_rows, "DISTINCTCOUNT": self._distinct,
            "COUNTBLANK": self._count_blank, "ROUND": self._round, "ABS": self._abs, "ISBLANK": self._is_blank,
            "PERCENTILE.INC": self._percentile, "AND": self._connected, "OR": self._connected,
        }  # fmt: skip
        if name in AGGREGATES and len(node.arguments) == 1:
            return self._aggregate(node)
        if name in ITERATORS:
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
        if name in REMOVING:
            raise UnresolvedError(REMOVES.format(name))
        raise UnresolvedError(REASONS.get(name, f"ktx does not support the DAX function `{name}`"))

    def _argument(self, node: Call, index: int) -> Dax:
        found = node.arguments[index] if len(node.arguments) > index else None
        if found is None:
            raise UnresolvedError(f"`{node.name}` has too few arguments")
        return found

    def _connected(self, node: Call, scope: Scope) -> Formula:
        sign = "&&" if node.name == "AND" else "||"
        return self._condition(Binary(sign, self._argument(node, 0), self._argument(node, 1)), scope)

    def _aggregate(self, node: Call) -> Formula:
        column = self._argument(node, 0)
        if not isinstance(column, Column) or column.table is None:
            raise UnresolvedError(f"`{node.name}` is not applied to a column")
        return self._leaf_of(self._world.entity(column.table), node.name, column)

    def _leaf_of(self, entity: Entity, function: str, row: Dax, scope: Scope | None = None) -> Formula:
        """Return the aggregate of a row expression."""
        translator = RowTranslator(self._world, entity, self._constants(scope or Scope()))
        value = translator.value(row)
        self.notes |= translator.notes
        if function in ("SUM", "AVERAGE") and value.kind not in ("number", None):
            raise UnresolvedError(f"`{function}` is applied to values of the type {value.kind}")
        counted = function in COUNTS
        if counted:
            self.notes[ZERO] = None
        tree = self._placeholder(Leaf(entity, AGGREGATES[function](value.tree)))
        kind = value.kind if function in ("MIN", "MAX") else "number"
        return Formula(tree, kind, counted or function == "SUM", counted, entities=(entity.table.name,))

    def _constants(self, scope: Scope) -> dict[str, Value]:
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

    def _iterate(self, node: Call, scope: Scope) -> Formula:
        rows, row = self._argument(node, 0), self._argument(node, 1)
        function = ITERATORS[node.name]
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

    def _per_value(self, column: Column, function: str, row: Dax, scope: Scope) -> Formula:
        """Return the aggregate of a measure over the values of a column: a measure with two levels."""
        inner = self.formula(row, scope)
        part = self.only_part(inner)
        if not isinstance(part, Known) or function not in ("SUM", "AVERAGE", "MIN", "MAX"):
            raise UnresolvedError("ktx only supports iterators over values of a column with a measure")
        entity = part.entity
        if entity.table.name.casefold() != str(column.table).casefold():
            raise UnresolvedError(f"`{part.name}` aggregates another table than that of `[{column.name}]`")
        key = self._world.field(entity, column.name)
        leaf = Leaf(entity, AGGREGATES[function](column_tree(part.name, self._world.dialect)))
        formula = replace(self.leaf_formula(leaf), filtered=inner.filtered, periods=inner.periods)
        wrapped = Wrapped(entity, formula, {"per": [key.name]})
        return replace(formula, tree=self._placeholder(wrapped))

    def _rows(self, rows: Dax, scope: Scope) -> tuple[Entity, list[Dax]]:
        """Return the table whose rows an expression iterates, and the conditions that they meet."""
        found = scope.resolve(rows)
        if isinstance(found, Name):
            return self._world.entity(found.name), []
        if isinstance(found, Call) and found.name == "FILTER":
            entity, filters = self._rows(self._argument(found, 0), scope)
            return entity, [*filters, self._argument(found, 1)]
        if isinstance(found, Call) and found.name in REMOVING:
            raise UnresolvedError(REMOVES.format(found.name))
        name = found.name if isinstance(found, Call) else type(found).__name__
        raise UnresolvedError(REASONS.get(name, f"ktx cannot aggregate the rows of `{name}`"))

    def _kept_rows(self, formula: Formula, entity: Entity, filters: Iterable[Dax], scope: Scope) -> Formula:
        """Return an aggregate of the rows that meet conditions, which no other filter replaces."""
        texts = [self._row_condition(entity, each, scope)[0] for each in filters]
        if not texts:
            return formula
        return replace(formula, tree=self._placeholder(Wrapped(entity, formula, {"filter": drafts.all_of(texts)})))

    def _row_condition(self, entity: Entity, node: Dax, scope: Scope) -> tuple[str, Filtered]:
        """Return a condition on the rows of a table, and the columns that it uses."""
        translator = RowTranslator(self._world, entity, self._constants(scope))
        text = str(translator.condition(node).sql(self._world.dialect))
        drafts.checked(entity.draft, text, aggregate=False)
        self.notes |= translator.notes
        return text, frozenset(translator.columns)

    def _count_rows(self, node: Call, scope: Scope) -> Formula:
        rows = self._argument(node, 0)
        column = self._distinct_column(scope.resolve(rows))
        if column is not None:
            if any(each.other[0] == column.table for each in self._world.model.relationships):
                self.notes[BLANK_ROW] = None
            return self._distinct(Call("DISTINCTCOUNT", (column,)), scope)
        entity, filters = self._rows(rows, scope)
        self.notes[ZERO] = None
        tree = self._placeholder(Leaf(entity, exp.Count(this=exp.Star())))
        formula = Formula(tree, "number", summed=True, counted=True, entities=(entity.table.name,))
        return self._kept_rows(formula, entity, filters, scope)

    def _distinct(self, node: Call, scope: Scope) -> Formula:
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

    def _count_blank(self, node: Call, scope: Scope) -> Formula:
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

    def _percentile(self, node: Call, scope: Scope) -> Formula:
        column, share = self._argument(node, 0), scope.resolve(self._argument(node, 1))
        if not isinstance(column, Column) or column.table is None or not isinstance(share, Number):
            raise UnresolvedError("ktx only supports PERCENTILE.INC with a column and a number")
        entity = self._world.entity(column.table)
        value = RowTranslator(self._world, entity).value(column)
        tree = exp.Anonymous(this="percentile", expressions=[value.tree, exp.Literal.number(share.text)])
        return Formula(self._placeholder(Leaf(entity, tree)), entities=(entity.table.name,))

    def _divide(self, node: Call, scope: Scope) -> Formula:
        share = self._share_of_selected(node, scope)
        if share is not None:
            return share
        top, bottom = (self.formula(self._argument(node, index), scope) for index in (0, 1))
        if top.summed:
            self.notes[ZERO] = None
        ratio = quotient(wrapped(top.tree), wrapped(bottom.tree))
        if len(node.arguments) < 3 or node.arguments[2] == Call("BLANK", ()):
            return combined((top, bottom), ratio)
        other = self.formula(self._argument(node, 2), scope)
        is_zero = exp.EQ(this=exp.Coalesce(this=bottom.tree.copy(), expressions=[exp.Literal.number(0)]),
                         expression=exp.Literal.number(0))  # fmt: skip
        tree = exp.Case().when(is_zero, other.tree).else_(ratio)
        return combined((top, bottom, other), tree)

    def _share_of_selected(self, node: Call, scope: Scope) -> Formula | None:
        """Return the share of `DIVIDE(x, CALCULATE(x, ALLSELECTED()))` in the total of the query."""
        part, whole = scope.resolve(self._argument(node, 0)), scope.resolve(self._argument(node, 1))
        if not isinstance(whole, Call) or whole.arguments != (part, Call("ALLSELECTED", ())):
            return None
        top = self.formula(part, scope)
        entity = self._world.entities[top.entities[0]]
        wrapped = Wrapped(entity, top, {"percent_of": "total"})
        return replace(
            top, tree=quotient(self._placeholder(wrapped), exp.Literal.number(100)), summed=False, counted=False
        )

    def _if(self, node: Call, scope: Scope) -> Formula:
        test_node, *branches = node.arguments or (None,)
        is_guard = isinstance(test_node, Call) and test_node.name in GUARDS
        if is_guard and branches and branches[0] is not None and branches[1:] in ([], [Call("BLANK", ())]):
            self.notes[GUARDED] = None
            return self.formula(branches[0], scope)
        test = self._condition_of(self._argument(node, 0), scope)
        values = [self.formula(each, scope) for each in node.arguments[1:3] if each is not None]
        if not values:
            raise UnresolvedError("`IF` has too few arguments")
        tree = exp.Case().when(test.tree, values[0].tree)
        return combined((test, *values), tree.else_(values[1].tree) if len(values) > 1 else tree, values[0].kind)

    def _switch(self, node: Call, scope: Scope) -> Formula:
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
        return combined((*tests, *values, *rest), tree, values[0].kind)

    def _coalesce(self, node: Call, scope: Scope) -> Formula:
        values = [self.formula(each, scope) for each in node.arguments if each is not None]
        if not values:
            raise UnresolvedError("`COALESCE` has no arguments")
        zero = exp.Literal.number(0)
        trees = [exp.Nullif(this=each.tree, expression=zero.copy()) if each.counted else each.tree for each in values]
        return combined(values, exp.Coalesce(this=trees[0], expressions=trees[1:]), values[0].kind)

    def _is_blank(self, node: Call, scope: Scope) -> Formula:
        found = self.formula(self._argument(node, 0), scope)
        if found.counted:
            return replace(found, tree=exp.EQ(this=found.tree, expression=exp.Literal.number(0)), kind="boolean")
        return replace(found, tree=exp.Is(this=wrapped(found.tree), expression=exp.Null()), kind="boolean")

    def _round(self, node: Call, scope: Scope) -> Formula:
        found, digits = self.formula(self._argument(node, 0), scope), self.formula(self._argument(node, 1), scope)
        if not digits.constant:
            raise UnresolvedError("ktx only supports ROUND with a number of digits")
        return replace(found, tree=exp.Round(this=found.tree, decimals=digits.tree))

    def _abs(self, node: Call, scope: Scope) -> Formula:
        found = self.formula(self._argument(node, 0), scope)
        return replace(found, tree=exp.Abs(this=found.tree))

    # CALCULATE.

    def _calculate(self, node: Call, scope: Scope) -> Formula:
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

    def _with_filters(self, formula: Formula, filters: list[Dax], periods: list[Period], scope: Scope) -> Formula:
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
        if replaced and REPLACES_TABLE not in self.notes:
            self.notes[REPLACES] = None
        if "filter" in keys and formula.counted:
            self.notes[ZERO] = None
        tree = self._placeholder(Wrapped(home, formula, keys))
        times = formula.periods | ({*keys} & {"offset", "cumulative", "semi_additive"})
        return replace(formula, tree=tree, filtered=formula.filtered | replaced, periods=frozenset(times))

    def _filter(self, node: Dax, home: Entity, formula: Formula, scope: Scope) -> tuple[str, Filtered, bool]:
        """Return a filter as a condition, its columns, and whether it replaces filters of the query on them."""
        replaces, whole = True, None
        if isinstance(node, Call) and node.name == "KEEPFILTERS":
            node, replaces = self._argument(node, 0), False
        if isinstance(node, Call) and node.name == "FILTER":
            rows, node = scope.resolve(self._argument(node, 0)), self._argument(node, 1)
            whole = self._all_rows(rows, home) if replaces else None
            replaces = replaces and isinstance(rows, Call) and rows.name == "ALL" and whole is None
        elif isinstance(node, Call) and node.name in (*REMOVING, *REASONS):
            raise UnresolvedError(REASONS.get(node.name, REMOVES.format(node.name)))
        if any(isinstance(each, Call) and each.name in (*AGGREGATES, *ITERATORS, "CALCULATE") for each in walk(node)):
            raise UnresolvedError("a filter compares with a value that depends on the query")
        text, columns = self._row_condition(home, node, scope)
        for name in formula.entities[1:]:
            self._row_condition(self._world.entities[name], node, scope)
        if len(formula.entities) > 1 and any(table == home.table.name for table, _ in columns):
            raise UnresolvedError(f"it filters `{home.table.name}`, but also aggregates other tables")
        if whole is not None:
            self.notes[REPLACES_TABLE] = None
            columns |= {(whole.table.name, name) for name in whole.table.columns}
        return text, columns, replaces or whole is not None

    def _all_rows(self, rows: Dax, home: Entity) -> Entity | None:
        """Return the table of `ALL(T)`, or None for rows that a filter keeps: `T`, `VALUES(T[c])`, `ALL(T[c])`."""
        if isinstance(rows, Name):
            return None
        inside = rows.arguments if isinstance(rows, Call) and rows.name in ("ALL", "VALUES") else ()
        if inside and all(isinstance(each, Column) for each in inside):
            return None
        table = inside[0] if len(inside) == 1 and isinstance(rows, Call) and rows.name == "ALL" else None
        entity = self._world.entity(table.name) if isinstance(table, Name) else None
        if entity is None or entity is home:
            raise UnresolvedError("ktx only supports FILTER of a table or of the values of a column")
        return entity

    def _period(
        self, period: Period, home: Entity, formula: Formula, keys: Mapping[str, Any], columns: Filtered
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
