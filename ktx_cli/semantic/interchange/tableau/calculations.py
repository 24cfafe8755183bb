"""Turn the calculated fields of a data source into computed columns and measures of ktx sources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.core import KtxError, one_line
from ktx_cli.faces import exp
from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.formula import Constant, Field, Lod, formula_text, parse_formula
from ktx_cli.semantic.interchange.tableau.formula import Node as Tree
from ktx_cli.semantic.interchange.tableau.levels import DEEPEST, TOO_DEEP, Levels
from ktx_cli.semantic.interchange.tableau.tables import MEASURE, TYPES, Node, Shared, Tables, column_of, keys_in, slug
from ktx_cli.semantic.interchange.tableau.translation import translated
from ktx_cli.semantic.interchange.tableau.values import AGGREGATE, CONSTANT, ROW, Value, alike, grouped, together
from ktx_cli.semantic.interchange.tableau.workbook import PARAMETERS, ROWS, Bin, Column, Parameter, Selection

_SHADOWED: Final = "a column of the source has this name"
_TEMPLATE: Final = "ktx_tableau_parameter_"
_WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


@dataclass(frozen=True, slots=True)
class Placed:
    """An expression as the text of a source's file: its source, and what it reads.

    `text` has templates for parameters; `plain` has their defaults instead. `measures` are the measures that it uses.
    """

    node: Node
    tree: exp.Expr
    text: str
    plain: str
    measures: tuple[str, ...]


class Calculations:
    """The fields of one data source as parts of expressions. Calculated fields are added when first used."""

    def __init__(self, tables: Tables, shared: Shared) -> None:
        self.tables, self._shared, self._report = tables, shared, shared.report
        self._source = tables.source
        self.dialect = shared.sources.dialect
        start = self._source.week_start.lower()
        self.knows_week_start = start in _WEEKDAYS
        self.week_start = _WEEKDAYS.index(start) if self.knows_week_start else 0
        self._levels = Levels(tables, shared)
        self._found: dict[str, Value | str] = {}
        self._per: tuple[str, ...] = ()
        self._open = 0
        self._used_parameters: dict[int, Parameter] = {}

    # What the names in a formula stand for.

    def field(self, field: Field) -> Value:
        """Implements `Scope`."""
        name = self._own_name(field)
        if field.parts[0] == PARAMETERS and len(field.parts) == 2:
            return self._parameter(field.parts[1])
        column = self._source.columns.get(name)
        if column is not None and column.kind != "column":
            found = self.calculated(column)
            if isinstance(found, str):
                raise UnresolvedError(f"it uses `{column.title}`, which was not imported")
            return found
        return self._physical(name, column)

    def _own_name(self, field: Field) -> str:
        if len(field.parts) == 1 or field.parts[0] in (PARAMETERS, ROWS):
            return field.parts[-1]
        if len(field.parts) == 2 and field.parts[0] in (self._source.name, self._source.caption):
            return field.parts[1]
        raise UnresolvedError(f"it uses a field of another data source, `{field.parts[0]}`")

    def _physical(self, name: str, column: Column | None) -> Value:
        found = self.tables.column(name)
        if found is None:
            titled = [each for each in self._source.columns.values() if each.caption == name and each.name != name]
            if len(titled) == 1:
                return self.field(Field((titled[0].name,)))
            raise UnresolvedError(f"the data source has no field `{name}`")
        node, remote, kind = found
        kind = (column.datatype if column is not None else "") or kind
        spelled = node.draft.require(remote, TYPES.get(kind))
        if spelled is None:
            raise UnresolvedError(f"`{node.draft.name}` has no column `{remote}`")
        known = node.draft.base.columns.get(spelled) if node.draft.base is not None else None
        is_nullable = known is None or known.nullable is not False
        return Value(column_of(spelled, node.key), kind, ROW, is_nullable)

    def _parameter(self, name: str) -> Value:
        found = self._source.parameters.get(name)
        found = found or next((each for each in self._source.parameters.values() if each.caption == name), None)
        if found is None:
            raise UnresolvedError(f"it uses the parameter `{name}`, which is not in the file")
        default = _literal(found.value, found.datatype)
        if default.type not in ("string", "integer", "real", "boolean"):
            raise UnresolvedError(f"ktx does not support parameters of type {found.datatype}")
        number = next((at for at, each in self._used_parameters.items() if each is found), len(self._used_parameters))
        self._used_parameters[number] = found
        return Value(exp.column(f"{_TEMPLATE}{number}"), default.type, CONSTANT, is_nullable=False)

    def rows(self, field: Field) -> Value | None:
        """Implements `Scope`."""
        if field.parts[0] != ROWS or len(field.parts) != 2:
            return None
        title = field.parts[1].rpartition("_")[0] or field.parts[1]
        column = self._source.columns.get(f"{ROWS}.{field.parts[1]}")
        names = {title, field.parts[1], column.caption if column is not None else title}
        found = [node for name, node in self.tables.nodes.items() if name in names]
        if len(found) != 1:
            raise UnresolvedError(f"the data source has no table `{title}`")
        return Value(exp.Count(this=exp.column("*", table=found[0].key)), "integer", AGGREGATE, is_nullable=False)

    def members(self, field: Field) -> Value | None:
        """Implements `Scope`."""
        found = self._source.sets.get(field.parts[-1])
        if found is None or (len(field.parts) > 1 and field.parts[0] == PARAMETERS):
            return None
        return self.selection(found)

    def selection(self, selection: Selection) -> Value:
        """Return the condition for a set or filter. Raises `UnresolvedError` if ktx cannot list its members."""
        if selection.why_not:
            raise UnresolvedError(selection.why_not)
        value = self.field(Field((selection.field,)))
        if value.level == AGGREGATE:
            raise UnresolvedError("it selects by an aggregate")
        if selection.bounds is not None:
            return self._range(value, selection.bounds)
        members = selection.members or ()
        constants = [alike(_literal(each, value.type), value) for each in members if each != "%null%"]
        tests: list[exp.Expr] = []
        if constants:
            tests.append(exp.In(this=value.sql.copy(), expressions=[each.sql for each in constants]))
        if len(constants) < len(members):
            tests.append(exp.Is(this=value.sql.copy(), expression=exp.null()))
        test = tests[0] if len(tests) == 1 else exp.paren(exp.or_(*tests), copy=False)
        if selection.excludes:  # a set of all but some members contains the rows without a value
            test = exp.Not(this=grouped(exp.Coalesce(this=test, expressions=[exp.false()])))
        return together(test, "boolean", value)

    def _range(self, value: Value, bounds: tuple[str, str]) -> Value:
        tests: list[exp.Expr] = []
        for kind, bound in zip((exp.GTE, exp.LTE), bounds, strict=True):
            if bound:
                limit = alike(_literal(bound, value.type), value)
                tests.append(kind(this=value.sql.copy(), expression=limit.sql))
        return together(exp.and_(*tests), "boolean", value)

    # Level of detail expressions.

    def fixed(self, node: Lod) -> Value:
        """Implements `Scope`."""
        title = formula_text(node.value, lambda field: f"[{self._title(field)}]")
        return self._levels.fixed(node, self, title)

    def included(self, node: Lod) -> Value:
        """Implements `Scope`: the inner aggregate becomes a measure, and the outer one a measure with two levels."""
        value = translated(node.value, self)
        if value.level != AGGREGATE or not node.dimensions:
            raise UnresolvedError("its INCLUDE expression is not an aggregate for dimensions")
        inner = self._placed(value)
        reached = self.tables.reached(inner.node)
        keys = []
        for each in node.dimensions:
            column = translated(each, self).sql
            if not isinstance(column, exp.Column) or column.table not in reached:
                raise UnresolvedError("a dimension of its INCLUDE expression is not a column of the same rows")
            keys.append(_qualified(column, reached).sql(self.dialect))
        if self._per and self._per != tuple(keys):
            raise UnresolvedError("its INCLUDE expressions have different dimensions")
        self._per = tuple(keys)
        name = slug(formula_text(node.value, lambda field: f"[{self._title(field)}]"))[:60].strip("_")
        entry = {"name": name, "expr": inner.text, "visibility": "internal"}
        written = self._add_measure(inner, entry)
        return Value(column_of(written, MEASURE + inner.node.key), value.type, ROW, notes=value.notes)

    # Calculated fields.

    def calculated(self, column: Column) -> Value | str:
        """Return a calculated field, or the reason why it was dropped. Adds it when it is first used."""
        if column.name not in self._found:
            self._found[column.name] = "it refers to itself"
            per, self._per = self._per, ()
            self._open += 1
            try:
                self._found[column.name] = self._add(column)
            except KtxError as error:
                self._found[column.name] = error.message
            finally:
                self._per = per
                self._open -= 1
        return self._found[column.name]

    def tree_of(self, column: Column) -> Tree:
        """Return the formula of a calculated field. Raises `FormulaError`, or `UnresolvedError` for another kind."""
        if column.kind == "tableau":
            return parse_formula(column.formula)
        raise UnresolvedError(f"ktx does not support calculations of the class {column.kind}")

    def value_of(self, column: Column, scope: Any) -> Value:
        """Return the value of a calculated field, a group or a bin."""
        if column.kind == "group":
            return _group(scope.field(Field((column.of,))), column.bins)
        if column.kind == "bin":
            return self._bin(scope.field(Field((column.of,))), column)
        return translated(self.tree_of(column), scope)

    def _bin(self, value: Value, column: Column) -> Value:
        if value.type not in ("integer", "real"):
            raise UnresolvedError("ktx does not support bins of values that are not numbers")
        size = self._parameter(column.size.rpartition("[")[2].strip("]")).sql if "[" in column.size else None
        if size is None:
            try:
                size = exp.Literal.number(f"{float(column.size):g}")
            except ValueError:
                raise UnresolvedError("the size of its bins is not a number") from None
        peg = float(column.peg or 0)
        start = grouped(value.sql)
        if peg:
            start = exp.paren(exp.Sub(this=start, expression=exp.Literal.number(f"{peg:g}")), copy=False)
        number = exp.Floor(this=exp.Div(this=exp.cast(start, "double"), expression=size, typed=True))
        low: exp.Expr = exp.Mul(this=number, expression=size.copy())
        low = exp.Add(this=low, expression=exp.Literal.number(f"{peg:g}")) if peg else low
        return together(low, "real", value)

    def _add(self, column: Column) -> Value:
        if self._open > DEEPEST:
            raise UnresolvedError(TOO_DEEP)
        value = self.value_of(column, self)
        if self._per:
            _require_two_levels(value.sql)
        name = slug(column.title)
        if value.level == AGGREGATE:
            placed = self._placed(value)
            entry = self._measure_entry(column, name, placed.text)
            if self._per:
                entry["per"] = list(self._per)
            written = self._add_measure(placed, entry, column)
            self._kept(column, f"{placed.node.draft.name}.{written}", value.notes)
            return Value(
                column_of(written, MEASURE + placed.node.key), value.type or column.datatype, AGGREGATE,
                value.is_nullable, value.is_sum and not self._per, value.notes,
            )  # fmt: skip
        placed = self._placed(value)
        kind = value.type if value.type not in ("", "null") else column.datatype
        spelled = self._add_column(placed, name, kind, column)
        self._kept(column, f"{placed.node.draft.name}.{spelled}", value.notes)
        return Value(column_of(spelled, placed.node.key), kind, ROW, value.is_nullable, notes=value.notes)

    def _add_column(self, placed: Placed, name: str, kind: str, column: Column) -> str:
        draft = placed.node.draft
        found = drafts.checked(draft, placed.plain, aggregate=False)
        for known in draft.columns.values():
            if known.expr == placed.text and known.name.startswith(name):
                return known.name
        made = draft.compute(name, placed.text, TYPES.get(kind, "string"), found.columns)
        if made.name != name:
            target = f"{draft.name}.{made.name}"
            self._report.approximated(f"the name of {self.what(column)}", drafts.TAKEN, column.place, target)
        made.label = column.title if slug(column.title) != column.title else None
        made.description = column.description or None
        return made.name

    def _measure_entry(self, column: Column, name: str, text: str) -> dict[str, Any]:
        return drafts.filled({
            "name": name, "expr": text, "label": column.title if name != column.title else None,
            "descriptions": {"tableau": column.description} if column.description else None,
            "format": number_format(column.format),
        })  # fmt: skip

    def _add_measure(self, placed: Placed, entry: dict[str, Any], column: Column | None = None) -> str:
        """Add a measure to the source of its rows, renamed if the source has a different one, and return its name."""
        draft = placed.node.draft
        if not entry.get("per"):
            drafts.checked(draft, placed.plain, aggregate=True, measures=placed.measures)
        name, number = str(entry["name"]), 2
        if column is None and (same := _same_measure(draft, placed.text)):
            return same
        if column is not None and draft.find(name) is not None:
            name = f"total_{name}" if isinstance(placed.tree, exp.Sum) else f"{name}_measure"
            target = f"{draft.name}.{name}"
            self._report.approximated(f"the name of {self.what(column)}", _SHADOWED, column.place, target)
            entry["name"] = name
        while name in draft.measures and not _is_same(draft.measures[name], entry):
            name, number = f"{entry['name']}_{number}", number + 1
        if name != entry["name"] and column is not None:
            why = "another field with this name has a different formula"
            self._report.approximated(f"the name of {self.what(column)}", why, column.place, f"{draft.name}.{name}")
        draft.measures.setdefault(name, {**entry, "name": name})
        return name

    def add_measure_of(self, column: Column, function: str, value: Value) -> str:
        """Add the measure that aggregates a column as Tableau does by default, and return its target."""
        sql = exp.Count(this=exp.Distinct(expressions=[value.sql])) if function == "countd" else None
        sql = sql or getattr(exp, function.capitalize())(this=value.sql)
        placed = self._placed(Value(sql, "real", AGGREGATE))
        same = _same_measure(placed.node.draft, placed.text)
        if same:
            return f"{placed.node.draft.name}.{same}"
        name = slug(f"{_WORDS[function]} {column.title}")
        entry = self._measure_entry(
            replace_title(column, f"{_WORDS[function].capitalize()} {column.title}"), name, placed.text
        )
        return f"{placed.node.draft.name}.{self._add_measure(placed, entry, column)}"

    def add_segment(self, selection: Selection, name: str) -> tuple[str, tuple[str, ...]]:
        """Add the segment for a set or filter, and return its target and how it differs."""
        value = self.selection(selection)
        placed = self._placed(value)
        drafts.checked(placed.node.draft, placed.plain, aggregate=False)
        entry = drafts.filled({"name": slug(name), "expr": placed.text, "label": name if slug(name) != name else None})
        placed.node.draft.segments.setdefault(entry["name"], entry)
        return f"{placed.node.draft.name}.{entry['name']}", value.notes

    # Where an expression belongs.

    def _placed(self, value: Value) -> Placed:
        """Return the source for an expression and its text there. Raises `UnresolvedError` if no table has its rows."""
        tree = value.sql.copy()
        if value.level == AGGREGATE:
            host, tree = self._aggregate_host(tree)
        else:
            host = self._row_host(tree, is_nullable=value.is_nullable)
        if host is None:
            raise UnresolvedError(f"no table has at most one row of each of: {', '.join(self._names(keys_in(tree)))}")
        reached, measures = self.tables.reached(host), list[str]()

        def put(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Count) and isinstance(node.this, exp.Column) and node.this.name == "*":
                return exp.Count(this=exp.Star())
            if not isinstance(node, exp.Column):
                return node
            made = self._of_measure(node, host) if node.table.startswith(MEASURE) else _qualified(node, reached)
            if node.table.startswith(MEASURE):
                measures.append(".".join(part.name for part in made.parts))
            return made

        text = tree.transform(put).sql(self.dialect)
        self._declare_parameters(host.draft, text)
        return Placed(host, tree, self._templated(text), self._templated(text, defaults=True), tuple(measures))

    def _of_measure(self, column: exp.Column, host: Node) -> exp.Column:
        key = column.table.removeprefix(MEASURE)
        if key == host.key:
            return column_of(column.name)
        owner = next(node for node in self.tables.nodes.values() if node.key == key)
        if owner.draft is host.draft:
            return column_of(column.name)
        return column_of(column.name, owner.draft.name)

    def _row_host(self, tree: exp.Expr, *, is_nullable: bool) -> Node | None:
        """Return the table whose rows have a value. Joined rows without a match have one, too, if it is never NULL."""
        keys, base = keys_in(tree), self.tables.base
        if not keys:
            return base
        is_joined = self.tables.is_joined and not is_nullable
        return base if is_joined and base and keys.issubset(self.tables.reached(base)) else self.tables.host(keys)

    def _rows_of(self, keys: set[str]) -> Node:
        """Return the table whose rows an aggregate counts: the joined rows, or the finest of related tables."""
        base = self.tables.base
        is_joined = self.tables.is_joined and not any(self.tables.is_fixed(key) for key in keys)
        if base is not None and is_joined and keys.issubset(self.tables.reached(base)):
            return base
        found = self.tables.host(keys)
        if found is None:
            raise UnresolvedError(f"no table has at most one row of each of: {', '.join(self._names(keys))}")
        return found

    def _names(self, keys: set[str]) -> list[str]:
        return sorted({node.draft.name for node in self.tables.nodes.values() if node.key in keys})

    def _aggregate_host(self, tree: exp.Expr) -> tuple[Node | None, exp.Expr]:
        """Return the source for a formula of aggregates, and the formula.

        Aggregates over the rows of other tables become measures of these tables, because an aggregate in a measure
        counts the rows of the measure's own source.
        """
        host: list[Node] = []

        def part(node: exp.Expr) -> exp.Expr:
            if not _is_aggregate(node):
                return node
            keys = keys_in(node)
            if not keys:
                return node
            owner = self._rows_of(keys)
            if owner is (host[0] if host else owner):
                host.append(owner)
                return node
            placed = self._placed(Value(node, "", AGGREGATE))
            name = slug(placed.plain)[:60].strip("_")
            written = self._add_measure(placed, {"name": name, "expr": placed.text, "visibility": "internal"})
            return column_of(written, MEASURE + placed.node.key)

        made = tree.transform(part)
        if host:
            return host[0], made
        measures = [each.table.removeprefix(MEASURE) for each in made.find_all(exp.Column) if each.table]
        known = {node.key: node for node in self.tables.nodes.values()}
        return (known[measures[0]] if measures else self.tables.base), made

    # Parameters.

    def _templated(self, text: str, *, defaults: bool = False) -> str:
        def fill(found: re.Match[str]) -> str:
            parameter = self._used_parameters[int(found[1])]
            if defaults:
                return str(_literal(parameter.value, parameter.datatype).sql.sql(self.dialect))
            return f"{{{{ param.{slug(parameter.caption or parameter.name)} }}}}"

        return re.sub(rf"{_TEMPLATE}(\d+)", fill, text)

    def _declare_parameters(self, draft: drafts.SourceDraft, text: str) -> None:
        for number in re.findall(rf"{_TEMPLATE}(\d+)", text):
            parameter = self._used_parameters[int(number)]
            default, name = _plain_value(parameter.value, parameter.datatype), slug(parameter.caption or parameter.name)
            values = [_plain_value(each, parameter.datatype) for each in parameter.values]
            entry = {"name": name, "type": TYPES[parameter.datatype], "default": default}
            if values and default in values:
                entry["values"] = values
            known = draft.extra.setdefault("parameters", [])
            if all(each["name"] != name for each in known):
                known.append(entry)

    # Words.

    def what(self, column: Column) -> str:
        """Return how reports name a field."""
        word = {"group": "group", "bin": "bins", "column": "field"}.get(column.kind, "calculated field")
        return f"{word} `{column.title}` of `{self._source.title}`"

    def shown(self, column: Column) -> str:
        """Return the formula of a calculated field for reports, with the names that people see."""
        if column.kind != "tableau":
            return ""
        try:
            text = formula_text(parse_formula(column.formula), lambda field: f"[{self._title(field)}]")
        except KtxError:
            text = column.formula
        return one_line(text, 300)

    def _title(self, field: Field) -> str:
        if field.parts[0] == PARAMETERS and len(field.parts) == 2:
            parameter = self._source.parameters.get(field.parts[1])
            return parameter.caption or parameter.name if parameter is not None else field.parts[1]
        column = self._source.columns.get(field.parts[-1])
        return column.title if column is not None else field.parts[-1]

    def _kept(self, column: Column, target: str, notes: Iterable[str]) -> None:
        self._report.kept(self.what(column), column.place, target, "; ".join(dict.fromkeys(notes)))


_WORDS: Final = {
    "sum": "total", "avg": "average", "min": "lowest", "max": "highest", "median": "median", "count": "number of",
    "countd": "distinct",
}  # fmt: skip
DEFAULT_AGGREGATES: Final = frozenset(_WORDS)
"""The default aggregations of fields that become measures, in lower case."""


def _qualified(column: exp.Column, reached: dict[str, str]) -> exp.Column:
    """Return a column with the name by which the source of an expression reaches its table."""
    if column.table not in reached:
        return column
    return exp.column(column.this.copy(), table=reached[column.table] or None)


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "percentile")


def _require_two_levels(tree: exp.Expr) -> None:
    """Raise `UnresolvedError` if a formula also has aggregates of rows, which a measure with two levels cannot have."""
    several = [node for node in tree.walk() if _is_aggregate(node)]
    of_measures = [[each for each in node.find_all(exp.Column) if each.table.startswith(MEASURE)] for node in several]
    inside = {id(each) for found in of_measures for each in found}
    is_plain = all(of_measures) and not keys_in(tree)
    if not is_plain or any(each.table and id(each) not in inside for each in tree.find_all(exp.Column)):
        raise UnresolvedError("it combines an INCLUDE expression with other aggregates")


def _same_measure(draft: drafts.SourceDraft, text: str) -> str:
    """Return the name of a measure with the same expression, or an empty string."""
    several = (each for each in draft.measures.values() if each["expr"] == text and not each.get("per"))
    return str(next(several, {}).get("name", ""))


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("expr", "per"))


def replace_title(column: Column, title: str) -> Column:
    """Return a field with another title."""
    return replace(column, caption=title)


def _literal(text: str, kind: str) -> Value:
    """Return a constant that an attribute contains as in formulas."""
    if kind in ("string", "") and not text.startswith(('"', "'")):
        return translated(Constant("string", text), None)  # type: ignore[arg-type]
    if kind in ("date", "datetime") and not text.startswith("#"):
        return translated(Constant("date", text.strip("\"'")), None)  # type: ignore[arg-type]
    return translated(parse_formula(text), None)  # type: ignore[arg-type]


def _plain_value(text: str, kind: str) -> Any:
    sql = _literal(text, kind).sql
    if kind == "string":
        return str(sql.this)
    if kind == "boolean":
        return bool(sql.this)
    return int(text) if kind == "integer" else float(text)


def _group(value: Value, bins: tuple[Bin, ...]) -> Value:
    """Return a group: the label of each bin, and other values unchanged."""
    case, labels = exp.Case(), list[Value]()
    for each in bins:
        label = _literal(each.label, "string")
        members = [alike(_literal(member, value.type), value) for member in each.values if member != "%null%"]
        tests: list[exp.Expr] = []
        if members:
            tests.append(exp.In(this=value.sql.copy(), expressions=[member.sql for member in members]))
        if len(members) < len(each.values) or not tests:
            tests.append(exp.Is(this=value.sql.copy(), expression=exp.null()))
        case = case.when(exp.or_(*tests), label.sql, copy=False)
        labels.append(label)
    other = value.sql.copy() if value.type == "string" else exp.cast(value.sql.copy(), "varchar")
    return together(case.else_(other, copy=False), "string", value)


def number_format(text: str) -> str | None:
    """Return a number format of Tableau, such as `p0.0%` or `c"$"#,##0.00;-...`, as a pattern, or None."""
    section = re.sub(r'"[^"]*"', "", text).split(";")[0]
    found = re.search(r"[#0][#0,]*(?:\.[#0]+)?%?", section)
    return found[0] if found is not None and text[:1] in ("p", "n", "c", "*") else None
