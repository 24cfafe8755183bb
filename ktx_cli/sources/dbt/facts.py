"""A dbt project's descriptions, tests and constraints as items in the manifest's shards, and its tests as joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ResultWarning
from ktx_cli.scan import counted_entity, outcome_rates
from ktx_cli.semantic import (
    PROPOSED_MEASURES,
    STEERS,
    Kind,
    UnresolvedError,
    import_dbt,
    is_table_file,
    quoted,
    relation_of,
)
from ktx_cli.sources.dbt.project import Node, Project
from ktx_cli.sources.deliveries import Steps, join_step, text_of
from ktx_cli.sources.port import ProjectContext
from ktx_cli.sources.table_texts import (
    LayerTable,
    Wanted,
    best_of,
    leave_broken,
    model_without_ours,
    proposed_measures,
    want_files,
)
from ktx_cli.warehouses import SemanticType, dialect_named

if TYPE_CHECKING:
    from ktx_cli.semantic import Column, Fidelity, Item, Place, Relation, Report, Source

TOOL: Final = "dbt"
KNOWN_TYPES: Final = "the database knows the types of its columns"
_RULES: Final = {"not_null": ("not_null",), "unique": ("unique",), "primary_key": ("not_null", "unique")}
_STEERING: Final = (
    "config", "docs", "access", "group", "latest_version", "deprecation_date", "loader", "quoting", "quote", "contract",
    "time_spine", "external", "overrides", "policy_tags", "strategy", "unique_key", "check_cols", "updated_at",
)  # fmt: skip
_REASONS: Final = {
    **dict.fromkeys(_STEERING, STEERS),
    "data_type": KNOWN_TYPES,
    "versions": "every version has its own table; the description is written to the latest one",
    "tags": "ktx supports tags only on tables",
}
_TIME_SPINE: Final = "metricflow_time_spine"
_TEST_SETTINGS: Final = frozenset({"where", "limit", "enabled"})


@dataclass(frozen=True, slots=True)
class Facts:
    """Converts nodes into items for the shards, and collects in `references` the columns that their tests refer to."""

    project: Project
    context: ProjectContext
    report: Report
    wanted: Wanted
    references: list[Reference]

    def add(self, node: Node, table: LayerTable) -> None:
        """Add the items for a table and its columns."""
        _Reader(self, node, table).read()


class _Reader:
    def __init__(self, facts: Facts, node: Node, table: LayerTable) -> None:
        self._node, self._table, self._facts, self._report = node, table, facts, facts.report
        self._root: Steps = ("tables", table.source.name)
        self._target = f"{table.connection}/{table.source.name}"

    def read(self) -> None:
        item = self._node.item
        self._describe(item, self._root, f"{self._node.kind} `{self._node.shown}`", self._target)
        self._tags()
        self._freshness()
        self._time_spine()
        for column in item.items("columns"):
            self._column(column)
        for key in ("tests", "data_tests"):
            for index, test in enumerate(item.listed(key)):
                why = "table-level tests contain nothing that questions can use"
                self._report.dropped(f"test `{test_parts(test)[0]}` of `{self._node.shown}`", why, item.at(key, index))
        self._constraints()
        item.skip("name", "identifier", "semantic_model", "agg_time_dimension", "primary_entity", "metrics",
                  "derived_semantics")  # fmt: skip
        item.report_rest(self._report, f"{self._node.kind} `{self._node.shown}`", _REASONS)

    def _want(self, steps: Steps, value: Any, what: str, place: Place, target: str) -> None:
        self._facts.wanted.add(self._table.shard, (*self._root, *steps), value, place.path)
        self._report.kept(what, place, target)

    def _describe(self, item: Item, root: Steps, what: str, target: str) -> None:
        text = item.text("description")
        if not text:
            return
        place = item.at("description")
        try:
            text = self._facts.project.texts.rendered(text)
        except UnresolvedError as error:
            text = self._compiled(root)
            if not text:
                self._report.dropped(f"description of {what}", error.message, place)
                return
        if text:
            self._want((*root[2:], "descriptions", TOOL), text, f"description of {what}", place, target)

    def _compiled(self, root: Steps) -> str:
        known = self._node.known
        if known is None:
            return ""
        return known.description if len(root) == 2 else known.columns.get(root[3], "")

    def _tags(self) -> None:
        """Write the tags from an entry, its configuration and its group."""
        found: list[str] = []
        for item in filter(None, (self._node.group, self._node.item)):
            config = item.item("config")
            found += [*item.words("tags"), *(config.words("tags") if config else ())]
        if found:
            tags = list(dict.fromkeys(found))
            what = f"tags of `{self._node.shown}`"
            self._want(("tags", TOOL), tags, what, self._node.item.at("tags"), self._target)

    def _freshness(self) -> None:
        """Write how fresh a source must be, according to the table or else its group. Null disables the check."""
        values: dict[str, Any] = {}
        for item in filter(None, (self._node.group, self._node.item)):
            for each in filter(None, (item, item.item("config"))):
                values |= {key: each.value(key) for key in ("freshness", "loaded_at_field") if key in each.values}
        freshness, field = values.get("freshness"), values.get("loaded_at_field")
        values = {"raw": freshness, "loaded_at_field": field}
        values = {key: value for key, value in values.items() if value}
        if freshness:
            place = self._node.item.at("freshness")
            self._want(("freshness", TOOL), values, f"freshness of `{self._node.shown}`", place, self._target)
        elif field:
            what = f"`loaded_at_field` of `{self._node.shown}`"
            self._report.dropped(what, "the table has no freshness requirement", self._node.item.place)

    def _time_spine(self) -> None:
        """Hide a table of MetricFlow that contains only days, because ktx computes periods without a table."""
        item, columns = self._node.item, self._table.source.columns.values()
        named = self._node.relation[-1].lower().startswith(_TIME_SPINE)
        if (named or item.values.get("time_spine")) and all(each.type is SemanticType.TIME for each in columns):
            steps = (*self._root, "visibility")
            self._facts.wanted.add(self._table.shard, steps, "internal", item.place.path, soft=True)

    def _column(self, item: Item) -> None:
        name = item.text("name") or ""
        found = self._table.source.column(name)
        what = f"column `{self._node.shown}.{name or '?'}`"
        if found is None or found.expr is not None:
            self._report.dropped(what, f"the table `{self._target}` has no such column", item.place)
            return
        root = (*self._root, "columns", found.name)
        target = f"{self._target}.{found.name}"
        self._describe(item, root, what, target)
        rules: list[tuple[str, Place]] = []
        for key in ("tests", "data_tests"):
            for index, test in enumerate(item.listed(key)):
                rules += self._column_test(test, found, root, what, item.at(key, index), target)
        for index, constraint in enumerate(item.listed("constraints")):
            rules += self._column_constraint(constraint, found, what, item.at("constraints", index))
        self._write_rules(rules, found, what, target)
        item.skip("entity", "dimension", "granularity")
        item.report_rest(self._report, what, _REASONS)

    def _write_rules(self, rules: Iterable[tuple[str, Place]], column: Column, what: str, target: str) -> None:
        places = dict(reversed([*rules]))
        value = {rule: True for rule in ("not_null", "unique") if rule in places}
        for rule in value:
            self._report.kept(f"`{rule}` of {what}", places[rule], target)
        if value:
            steps = (*self._root, "columns", column.name, "constraints", TOOL)
            self._facts.wanted.add(self._table.shard, steps, value, next(iter(places.values())).path)

    def _column_test(
        self, test: Any, column: Column, root: Steps, what: str, place: Place, target: str
    ) -> Iterator[tuple[str, Place]]:
        """Yield the rules in a test, and write or record its other contents."""
        name, arguments = test_parts(test)
        label, why = f"test `{name}` of {what}", limits_of(test, arguments)
        if why is not None:
            self._report.dropped(label, why, place)
        elif name in ("not_null", "unique"):
            yield name, place
        elif name == "accepted_values" and (values := _values(arguments)):
            self._want((*root[2:], "enum_values", TOOL), values, label, place, target)
            self._want_rates(column, values, place)
        elif name == "relationships":
            self._refer(arguments.get("to"), arguments.get("field"), column, label, place)
        else:
            self._report.dropped(label, "it contains nothing that questions can use", place)

    def _want_rates(self, column: Column, values: list[str], place: Place) -> None:
        """Propose rates for outcomes among a status column's values, if a scan proposes to count the rows."""
        shard, source, context = self._table.shard, self._table.source, self._facts.context
        proposed = proposed_measures(context, shard, source.name)
        entity = counted_entity(proposed)
        if entity is None:
            return
        dialect = dialect_named(context.models[self._table.connection].dialect)
        for rate in outcome_rates(source.name, entity, {column.name: values}, TOOL, dialect):
            steps = (*self._root, PROPOSED_MEASURES, rate.name)
            if rate.name not in proposed or text_of(steps) in context.owned.get(shard, {}):
                self._facts.wanted.add(shard, steps, rate.to_entry(), place.path, soft=True)

    def _refer(self, to: Any, field: Any, column: Column, what: str, place: Place) -> None:
        relation: Relation | None = relation_of(to) if isinstance(to, str) else None
        if relation is None or not isinstance(field, str):
            self._report.dropped(
                what, "it does not contain `ref('model')` or `source('schema', 'table')` and a field", place
            )
        else:
            self._facts.references.append(Reference(self._table, column.name, relation, field, what, place))

    def _column_constraint(
        self, constraint: Any, column: Column, what: str, place: Place
    ) -> Iterator[tuple[str, Place]]:
        kind = str(constraint.get("type")) if isinstance(constraint, Mapping) else ""
        label = f"constraint `{kind or '?'}` of {what}"
        if kind in _RULES:
            yield from ((rule, place) for rule in _RULES[kind])
        elif kind == "foreign_key" and constraint.get("to"):
            columns = constraint.get("to_columns")
            field = columns[0] if isinstance(columns, list) and len(columns) == 1 else None
            self._refer(constraint["to"], field, column, label, place)
        else:
            self._report.dropped(label, "it contains nothing that questions can use", place)

    def _constraints(self) -> None:
        """Read the constraints of the whole table. Constraints on one column count as column constraints."""
        item = self._node.item
        for index, constraint in enumerate(item.listed("constraints")):
            columns = constraint.get("columns") if isinstance(constraint, Mapping) else None
            place = item.at("constraints", index)
            found = (
                self._table.source.column(str(columns[0])) if isinstance(columns, list) and len(columns) == 1 else None
            )
            what = f"`{self._node.shown}`"
            if found is None:
                self._report.dropped(f"a constraint of {what}", "it does not concern exactly one column", place)
                continue
            what = f"column `{self._node.shown}.{found.name}`"
            rules = list(self._column_constraint(constraint, found, what, place))
            self._write_rules(rules, found, what, f"{self._target}.{found.name}")


def test_parts(test: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a test's name and arguments, in any of the forms that dbt has used."""
    if not isinstance(test, Mapping):
        return str(test), {}
    name = test.get("test_name") or next((key for key in test if key not in ("name", "config", "tags")), "")
    below = test.get(name, test)
    arguments = below.get("arguments", below) if isinstance(below, Mapping) else {}
    return str(name), arguments if isinstance(arguments, Mapping) else {}


def unique_columns(item: Item) -> Iterator[str]:
    """Yield the columns that a test or a constraint declares to be unique."""
    for column in item.items("columns"):
        tests = [*column.listed("tests"), *column.listed("data_tests")]
        constraints = [each for each in column.listed("constraints") if isinstance(each, Mapping)]
        is_tested = any(
            test_parts(each)[0] == "unique" and limits_of(each, test_parts(each)[1]) is None for each in tests
        )
        is_key = any("unique" in _RULES.get(str(each.get("type")), ()) for each in constraints)
        if (name := column.text("name")) and (is_tested or is_key):
            yield name


def limits_of(test: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return why a test does not hold for every row, or None if it applies to all rows."""
    settings: dict[Any, Any] = {}
    blocks = [test, *test.values()] if isinstance(test, Mapping) else []
    for block in (*blocks, arguments):
        if isinstance(block, Mapping):
            config = block.get("config")
            settings |= {**block, **(config if isinstance(config, Mapping) else {})}
    if settings.get("enabled") is False:
        return "it is disabled"
    stated = sorted(_TEST_SETTINGS & settings.keys() - {"enabled"})
    return f"it does not check all rows because it has `{stated[0]}`" if stated else None


def _values(arguments: Mapping[str, Any]) -> list[str]:
    values = arguments.get("values")
    found = values if isinstance(values, list) else []
    return [
        str(each).lower() if isinstance(each, bool) else str(each)
        for each in found
        if isinstance(each, str | int | float)
    ]


MANY, ONE, BACK = "many_to_one", "one_to_one", "one_to_many"
MANUAL: Final = "manual"
"""The `source` of such a join: of the three values that every version reads, the one for declared joins."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values come from `field` in the relation `to`."""

    table: LayerTable
    column: str
    to: Relation
    field: str
    what: str
    place: Place


def add_joins(
    references: Iterable[Reference],
    tables: Mapping[Relation, LayerTable],
    owned: Mapping[str, Mapping[str, str]],
    wanted: Wanted,
    report: Report,
) -> None:
    """Add the joins for references: to both tables, as a scan does, or once in a file for one table."""
    for each in references:
        target = tables.get(each.to)
        why = _why_not(each, target, wanted)
        if target is None or why is not None:
            report.dropped(each.what, why or "", each.place)
            continue
        field = target.source.column(each.field)
        assert field is not None
        own, other = each.table.source, target.source
        if not _is_there(each, field.name, target, owned):
            is_unique = _is_unique(each.table, each.column, wanted)
            _want(each.table, other, (each.column, field.name), ONE if is_unique else MANY, each, wanted)
            is_written_once = is_table_file(each.table.shard) or is_table_file(target.shard)
            if other.name != own.name and not is_written_once:
                _want(target, own, (field.name, each.column), ONE if is_unique else BACK, each, wanted)
        else:
            pointer = text_of(_steps(each.table, other, (each.column, field.name)))
            wanted.declared.setdefault(each.table.shard, set()).add(pointer)
        report.kept(each.what, each.place, f"{each.table.connection}/{own.name} -> {other.name}")


def _why_not(each: Reference, target: LayerTable | None, wanted: Wanted) -> str | None:
    if target is None:
        return f"`{'.'.join(each.to[1:])}` is not a table of the scan"
    if target.connection != each.table.connection:
        return f"its table is in another connection, `{target.connection}`"
    field = target.source.column(each.field)
    if field is None or field.expr is not None:
        return f"`{target.source.name}` has no column `{each.field}`"
    if not _is_unique(target, field.name, wanted):
        return f"no key or test declares `{field.name}` unique in `{target.source.name}`"
    return None


def _is_unique(table: LayerTable, column: str, wanted: Wanted) -> bool:
    """Return whether a database key or a test declares a column unique."""
    source = table.source
    if source.keyed and source.grain == (column,):
        return True
    steps = ("tables", source.name, "columns", column, "constraints", "dbt")
    tested = wanted.items.get(table.shard, {}).get(steps)
    return bool(tested and tested.get("unique"))


def _is_there(each: Reference, field: str, target: LayerTable, owned: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether another join connects the two tables on these columns, from either side and with any alias."""
    sides = ((each.table, target.source, (each.column, field)), (target, each.table.source, (field, each.column)))
    for table, other, pair in sides:
        is_ours = text_of(_steps(table, other, pair)) in owned.get(table.shard, {})
        declared = (join for join in table.source.joins if not join.mirrored)
        found = (join for join in declared if join.to == other.name and join.pairs == (pair,))
        if any(join.alias or not is_ours for join in found if not join.conditions):
            return True
    return False


def _want(
    table: LayerTable, other: Source, pair: tuple[str, str], relationship: str, each: Reference, wanted: Wanted
) -> None:
    join = _join(other, pair, relationship)
    wanted.add(table.shard, _steps(table, other, pair), join, each.place.path, soft=True)


def _steps(table: LayerTable, other: Source, pair: tuple[str, str]) -> Steps:
    return "tables", table.source.name, "joins", join_step(_join(other, pair, MANY))


def _join(other: Source, pair: tuple[str, str], relationship: str) -> dict[str, Any]:
    on = f"{quoted(pair[0])} = {quoted(other.name)}.{quoted(pair[1])}"
    return {"to": other.name, "on": on, "relationship": relationship, "source": MANUAL}


def want_semantics(
    files: Mapping[str, str],
    tables: Mapping[Relation, LayerTable],
    context: ProjectContext,
    wanted: Wanted,
    warnings: list[ResultWarning],
) -> list[Fidelity]:
    """Add the sources imported from each connection's semantic models, and return the outcome."""
    reports: list[tuple[Fidelity, ...]] = []
    used = sorted({table.connection for table in tables.values()})
    if not files or not used:
        return list(import_dbt(files, None, tables={}, properties=False).report)
    for connection in used:
        here = {relation: table.text for relation, table in tables.items() if table.connection == connection}
        broken = leave_broken(context, connection, wanted)
        imported = import_dbt(files, model_without_ours(context, connection), tables=here, properties=False)
        if broken is None:
            want_files(imported.files, imported.report, connection, context.workspace, "dbt", wanted)
            reports.append(imported.report)
        elif imported.report:
            warnings.append(broken)
            reports.append(tuple(_not_written(each, broken) for each in imported.report))
    return best_of(reports)


def _not_written(item: Fidelity, broken: ResultWarning) -> Fidelity:
    return item if item.kind is Kind.DROPPED else replace(item, kind=Kind.DROPPED, why=broken.message, target=None)
