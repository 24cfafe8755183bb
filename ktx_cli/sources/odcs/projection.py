"""Write data contracts without a model: texts, rules, values, tags and freshness in the manifest, names in overlays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import ConfigError, ResultWarning, listing, plural, yaml
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.semantic import Column, Fidelity, Item, Kind, Place, Report, Visibility
from ktx_cli.sources import ownership
from ktx_cli.sources.deliveries import Steps
from ktx_cli.sources.odcs.contracts import (
    TOOL,
    Contract,
    Object,
    Property,
    allows_none,
    metric_of,
    read_contracts,
    relationships_of,
    rules_of,
)
from ktx_cli.sources.port import ProjectContext, Projection
from ktx_cli.sources.table_texts import Labels, LayerTable, Tables, Wanted, manifest_models, write

NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables match it"
_DESCRIBED: Final = "another contract already describes this table"
_KNOWN: Final = "the database knows it"
_OPERATION: Final = "it is about operating the data, not about its meaning"
_VISIBILITY: Final = "only `visibility` in the semantic layer restricts who sees a column"
_EXAMPLES: Final = "ktx reads values from the database"
_HINT: Final = "scans use it as evidence for a join"
_NESTED: Final = "ktx describes columns, not the fields inside their values"
_PERSONAL: Final = "they look like personal data or a secret"
_RULE: Final = "ktx does not run the quality rules of contracts"

INERT: Final = frozenset(
    {NO_TABLE, SEVERAL_TABLES, _DESCRIBED, _KNOWN, _OPERATION, _VISIBILITY, _EXAMPLES, _HINT, _NESTED, _PERSONAL}
)
"""Reasons for a difference that agents cannot do anything about."""

_OPERATING: Final = (
    "price", "support", "roles", "servers", "contractCreatedTs", "tenant", "partitioned", "partitionKeyPosition",
    "partitionStatus", "clusterStatus", "clusterKeyPosition", "encryptedName", "criticalDataElement",
    "criticalDataElementStatus", "driver", "driverVersion", "server", "username", "password", "userConsumptionMode",
    "sourcePlatform", "sourceSystem", "productDl", "productSlackChannel", "productFeedbackUrl", "schedulerAppName",
)  # fmt: skip
_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OPERATING, _OPERATION),
    **dict.fromkeys(("logicalType", "logicalTypeOptions", "physicalType"), _KNOWN),
    **dict.fromkeys(("examples", "sampleValues"), _EXAMPLES),
    **dict.fromkeys(("properties", "items", "map"), _NESTED),
    "quality": _RULE,
    "team": "ktx has owners of definitions, not of data",
    "stakeholders": "ktx has owners of definitions, not of data",
}
_OF_COLUMNS: Final = (
    "name", "column", "physicalName", "id", "primaryKey", "primaryKeyPosition", "isPrimaryKey", "isPrimary", "required",
    "isNullable", "unique", "isUnique", "relationships", "tags", "enum", "quality",
)  # fmt: skip
_NAMED: Final = frozenset({"schema", "dataset", "properties", "columns"})
_NAMES: Final = ("name", "physicalName", "table", "column")
_FRESHNESS: Final = ("latency", "frequency", "freshness", "timeOfAvailability", "ly", "fr", "ta")

_LABEL_LENGTH: Final = 200
_MOST_MISSED: Final = 20


def projected(entry: Any, texts: Mapping[str, str], context: ProjectContext, *, complete: bool = True) -> Projection:
    """Write what the contracts state about tables of the project's databases.

    `complete`: whether all contracts are among `texts`; else everything that earlier runs wrote stays.
    """
    report, wanted = Report(), Wanted()
    warnings: list[ResultWarning] = list(_unknown_database(entry, context))
    models = manifest_models(context)
    if entry.database:
        models = {name: model for name, model in models.items() if name == entry.database}
    contracts, tables = read_contracts(texts, report), Tables(models)
    taken: set[tuple[str, str]] = set()
    names = Labels(context, TOOL, report, wanted, warnings)
    for contract in contracts:
        placed: list[tuple[Object, LayerTable]] = []
        for each in contract.objects:
            table = _table(each, tables, report, warnings)
            if table is None:
                continue
            if (table.connection, table.source.name) in taken:
                report.dropped(f"table `{each.name}`", _DESCRIBED, each.item.place)
                continue
            taken.add((table.connection, table.source.name))
            placed.append((each, table))
        writer = _Writer(contract, placed, report, wanted, names, warnings)
        writer.write()
        for found in relationships_of(contract, contracts, report if placed else Report()):
            if not any(each is found.child for each, _ in placed):
                continue
            place, owner = found.item.place, f"{found.child.name}.{', '.join(found.child_columns)}"
            target = f"{found.child.name} -> {found.parent.name}"
            report.approximated(f"relationship of `{owner}`", _HINT, place, target)
    names.write()
    if not complete and _keep(context, wanted):
        what = "a contract cannot be read, so what earlier runs wrote from contracts stays as it was"
        warnings.append(ResultWarning("not_written", what, hint="correct the file; the next run reads it again"))
    written = write(wanted, context, TOOL)
    items = report.sorted()
    open_files = losses(items)
    left = (f"{path}: {plural(len(lost), 'part')} that rules could not place" for path, lost in open_files.items())
    return Projection(
        {path: raw for path, raw in written.artifacts.items() if raw}, written.owned, items,
        frozenset(texts) - open_files.keys(), tuple(left), (*_bounded(warnings), *written.warnings),
    )  # fmt: skip


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return the parts that rules dropped but agents may use, by file."""
    found: dict[str, list[Fidelity]] = {}
    for each in report:
        if each.kind is Kind.DROPPED and each.why not in INERT:
            found.setdefault(each.place.path, []).append(each)
    return found


def _bounded(warnings: Iterable[ResultWarning]) -> Iterator[ResultWarning]:
    """Yield the warnings, but only some of those about tables that nobody scanned, and how many more there are."""
    missed = 0
    for each in warnings:
        missed += each.code == "no_table"
        if each.code != "no_table" or missed <= _MOST_MISSED:
            yield each
    if missed > _MOST_MISSED:
        what = f"and {plural(missed - _MOST_MISSED, 'more table')} of contracts that no scanned database has"
        yield ResultWarning("no_table", what, hint="the report lists them all")


def _keep(context: ProjectContext, wanted: Wanted) -> bool:
    """Add what earlier runs wrote, this run does not and nobody has edited. Returns whether there is any of it."""
    found = False
    for path, pointers in context.owned.items():
        content = context.workspace.read(path)
        if content is None:
            continue
        try:
            document = yaml.load(content, where=path)
        except ConfigError:  # `write` reports it.
            continue
        items = wanted.items.setdefault(path, {})
        wanted.origins.setdefault(path, set())
        for pointer, digest in pointers.items():
            steps = ownership.steps_of(pointer)
            value = ownership.get(document, steps)
            if steps not in items and value is not ownership.MISSING and ownership.digest_of(value) == digest:
                items[steps] = value
                found = True
    return found


def _unknown_database(entry: Any, context: ProjectContext) -> Iterator[ResultWarning]:
    if entry.database and entry.database not in context.models:
        setting = f"connections.{context.connection}.database"
        what = f"`{setting}` is `{entry.database}`, which is not a database of the project"
        yield ResultWarning("no_table", what, hint=f"use one of: {listing(context.models)}")


def _table(each: Object, tables: Tables, report: Report, warnings: list[ResultWarning]) -> LayerTable | None:
    """Return the table of the first name that any table has, or report that there is none or that there are several."""
    several = next((found for name in each.names if (found := tables.find(name))), [])
    if len(several) == 1:
        return several[0]
    what, place = f"table `{each.name}`", each.item.place
    report.dropped(what, SEVERAL_TABLES if several else NO_TABLE, place)
    kind = (each.item.text("physicalType") or "table").casefold()
    if not several and not any(word in kind for word in ("table", "view")):
        return None  # No scan finds a topic or a file.
    names = listing([f"{found.connection}: {found.text}" for found in several])
    why = f"{SEVERAL_TABLES}: {names}" if several else f"{NO_TABLE} `{each.names[0]}`"
    hint = "set `database` of the contracts' connection to one of them" if several else "scan its database first"
    warnings.append(ResultWarning("no_table", f"{place}: {what}: {why}", hint=hint, path=place.path, line=place.line))
    return None


class _Writer:
    """Converts one contract into items for the manifest."""

    def __init__(
        self,
        contract: Contract,
        placed: list[tuple[Object, LayerTable]],
        report: Report,
        wanted: Wanted,
        names: Labels,
        warnings: list[ResultWarning],
    ) -> None:
        self._contract, self._placed, self._report = contract, placed, report
        self._wanted, self._names, self._warnings = wanted, names, warnings

    def write(self) -> None:
        top, title = self._contract.item, f"contract `{self._contract.title}`"
        shared = self._shared_texts(title)
        freshness = self._freshness()
        tags = top.words("tags")
        for each, table in self._placed:
            self._write_table(each, table, shared, freshness.get(each.name, {}), tags)
        top.skip("schema", "dataset", "kind", "apiVersion", "id", "uuid", "name", "version", "status", "dataProduct",
                 "quantumName", "domain", "datasetDomain", "datasetName", "datasetProject", "database", "type",
                 "slaDefaultElement", "slaDefaultColumn")  # fmt: skip
        self._malformed(top, ("schema", "dataset"), title)
        if not self._contract.objects:
            self._report.dropped(title, "it describes no table", top.place)
        if not self._placed:
            top.skip(*top.values)
        top.report_rest(self._report, title, _REASONS)

    def _shared_texts(self, title: str) -> dict[str, str]:
        """Return the texts about the whole contract: `purpose`, `usage` and `limitations`, as far as it has them."""
        item = self._contract.item.item("description")
        if item is None or not self._placed:
            return {}
        target = _target(self._placed[0][1])
        found = {}
        for key in ("purpose", "usage", "limitations"):
            text = item.text(key)
            if text:
                found[key] = text
                self._report.kept(f"`{key}` of {title}", item.at(key), target)
        item.report_rest(self._report, f"the description of {title}", _REASONS)
        return found

    def _freshness(self) -> dict[str, dict[str, str]]:
        """Return what the service levels say about how fresh each table is."""
        found: dict[str, dict[str, str]] = {}
        top = self._contract.item
        default = top.text("slaDefaultElement") or top.text("slaDefaultColumn")
        for item in top.items("slaProperties"):
            name = item.text("property") or item.text("id") or "?"
            what = f"service level `{name}` of contract `{self._contract.title}`"
            element = item.text("element") or item.text("column") or default
            value = " ".join(filter(None, (item.text("value"), item.text("unit"))))
            tables = [each for each, _ in self._placed if element is None or _names_table(element, each)]
            if name not in _FRESHNESS or not value:
                self._report.dropped(what, "it does not say how fresh the data is", item.place)
            elif not tables:
                self._report.dropped(what, "no described table of the contract has the name of its element", item.place)
            else:
                for each in tables:
                    values = found.setdefault(each.name, {})
                    values[name] = f"{values[name]}; {value}" if name in values else value
                table = next(table for each, table in self._placed if each is tables[0])
                self._report.kept(what, item.place, _target(table))
        return found

    def _write_table(
        self, each: Object, table: LayerTable, shared: Mapping[str, str], freshness: Mapping[str, str], tags: list[str]
    ) -> None:
        item, what, target = each.item, f"table `{each.name}`", _target(table)
        text = self._describe(item, shared)
        if text:
            self._want(table, ("descriptions", TOOL), text, f"description of {what}", item.at("description"))
        all_tags = list(dict.fromkeys((*tags, *item.words("tags"))))
        if all_tags:
            self._want(table, ("tags", TOOL), all_tags, f"tags of {what}", item.at("tags"))
        if freshness:
            place = self._contract.item.at("slaProperties")
            self._want(table, ("freshness", TOOL), dict(freshness), f"freshness of {what}", place)
        self._label(item, table, None, what)
        guarded: list[str] = []
        for column in each.properties:
            self._write_column(each, column, table, guarded)
        if len(each.key) > 1:
            columns = listing([key.column for key in each.key])
            why = f"scans use {columns} together as a key"
            self._report.approximated(f"primary key of {what}", why, item.at("properties"), target)
        if guarded:
            self._warnings.append(_guarded(each, table, guarded))
        self._quality(item, what, {})
        self._malformed(item, ("properties", "columns", "relationships", "quality"), what)
        item.skip("name", "table", "physicalName", "id", "properties", "columns", "relationships", "priorTableName")
        item.report_rest(self._report, what, _REASONS)

    def _describe(self, item: Item, shared: Mapping[str, str]) -> str:
        grain = item.text("dataGranularityDescription") or item.text("dataGranularity")
        texts = (
            item.text("description") or shared.get("purpose"),
            f"Granularity: {grain}" if grain else None,
            *(f"{key.capitalize()}: {shared[key]}" for key in ("usage", "limitations") if key in shared),
        )
        return "\n".join(filter(None, texts))

    def _write_column(self, each: Object, column: Property, table: LayerTable, guarded: list[str]) -> None:
        item, what = column.item, f"column `{each.name}.{column.name}`"
        found = table.source.column(column.column)
        if found is None or found.expr is not None:
            self._report.dropped(what, f"the table `{_target(table)}` has no such column", item.place)
            return
        root, target = ("columns", found.name), f"{_target(table)}.{found.name}"
        text = item.text("description")
        if text:
            steps = (*root, "descriptions", TOOL)
            self._want(table, steps, text, f"description of {what}", item.at("description"), target)
        self._label(item, table, found.name, what)
        rules = self._rules(each, column)
        if rules:
            self._want(table, (*root, "constraints", TOOL), rules, f"rules of {what}", item.place, target)
        is_guarded = column.is_restricted
        if item.text("classification"):
            dropped = f"classification `{item.text('classification')}` of {what}"
            self._report.dropped(dropped, _VISIBILITY, item.at("classification"))
        if is_guarded and Visibility.PUBLIC is table.source.visibility is (found.visibility or Visibility.PUBLIC):
            guarded.append(found.name)
        self._quality(item, what, {index: rule for rule, index in rules_of(item).items()})
        if not is_guarded:
            self._values(item, table, found, what)
        for key in ("tags", "enum"):
            if item.has(key) and (key == "tags" or is_guarded):
                why = "ktx supports tags only on tables" if key == "tags" else _VISIBILITY
                self._report.dropped(f"`{key}` of {what}", why, item.at(key))
        self._malformed(item, ("relationships", "quality"), what)
        item.skip(*_OF_COLUMNS)
        item.report_rest(self._report, what, _REASONS)

    def _rules(self, each: Object, column: Property) -> dict[str, bool]:
        is_alone = column.is_key and len(each.key) == 1
        stated = {"not_null": column.is_filled or column.is_key, "unique": column.is_unique or is_alone}
        return {rule: True for rule, holds in stated.items() if holds}

    def _quality(self, item: Item, what: str, used: Mapping[int, str]) -> None:
        """Report the quality rules of a table or a column. `used`: index -> the rule that it states."""
        for index, rule in enumerate(item.listed("quality")):
            if index not in used and isinstance(rule, Mapping) and _valid_values(rule) is None:
                name = rule.get("name") or rule.get("metric") or rule.get("rule")
                self._report.dropped(f"quality rule `{name or index + 1}` of {what}", _RULE, item.at("quality", index))

    def _malformed(self, item: Item, keys: Iterable[str], what: str) -> None:
        """Report lists that are not lists of mappings, and tables and columns without a name."""
        for key in keys:
            value = item.values.get(key)
            if value is not None and not isinstance(value, list):
                self._report.dropped(f"`{key}` of {what}", "it is not a list", item.at(key))
            for index, each in enumerate(value if isinstance(value, list) else ()):
                if not isinstance(each, Mapping):
                    why = "it is not a mapping"
                elif key in _NAMED and not any(Item(each, item.at).text(name) for name in _NAMES):
                    why = "it has no name"
                else:
                    continue
                self._report.dropped(f"`{key}[{index}]` of {what}", why, item.at(key, index))

    def _values(self, item: Item, table: LayerTable, column: Column, what: str) -> None:
        """Write the values that a column may have, unless one of them looks like a secret or personal data."""
        listed = [each.get("value") if isinstance(each, Mapping) else each for each in item.listed("enum")]
        place = item.at("enum")
        for index, rule in enumerate(item.listed("quality")):
            if not listed and (found := _valid_values(rule)) is not None:
                listed, place = found, item.at("quality", index)
        values = list(dict.fromkeys(str(each) for each in listed if isinstance(each, str | int | float)))
        if any(True for each in values for _ in (*secrets(each), *personal_data(each))):
            self._report.dropped(f"values of {what}", _PERSONAL, place)
        elif values:
            target = f"{_target(table)}.{column.name}"
            self._want(table, ("columns", column.name, "enum_values", TOOL), values, f"values of {what}", place, target)

    def _label(self, item: Item, table: LayerTable, column: str | None, what: str) -> None:
        label = " ".join((item.text("businessName") or "").split())
        if len(label) > _LABEL_LENGTH:
            self._report.dropped(f"`businessName` of {what}", "it is too long for a label", item.at("businessName"))
        elif label and label.casefold() != (column or table.source.name).casefold():
            self._names.add(table, column, label, f"`businessName` of {what}", item.at("businessName"))

    def _want(
        self, table: LayerTable, steps: Steps, value: Any, what: str, place: Place, target: str | None = None
    ) -> None:
        self._wanted.add(table.shard, ("tables", table.source.name, *steps), value, place.path)
        self._report.kept(what, place, target or _target(table))


def _target(table: LayerTable) -> str:
    return f"{table.connection}/{table.source.name}"


def _names_table(element: str, table: Object) -> bool:
    """Return whether the element of a service level, such as `orders.placed_at`, is in a table."""
    known = {table.name, table.id, *(name.name for name in table.names)} - {""}
    parts = (each.strip() for each in element.split(","))
    return any(each == name or each.startswith((f"{name}.", f"schema/{name}/")) for each in parts for name in known)


def _valid_values(rule: Any) -> list[Any] | None:
    """Return the values that a quality rule allows, or None if it is of another kind."""
    if metric_of(rule) != "invalidvalues" or not allows_none(rule):
        return None
    arguments = rule.get("arguments")
    values = arguments.get("validValues") if isinstance(arguments, Mapping) else None
    return values if isinstance(values, list) and values else None


def _guarded(each: Object, table: LayerTable, columns: list[str]) -> ResultWarning:
    place, pronoun = each.item.place, "it" if len(columns) == 1 else "them"
    what = f"{place}: the contract restricts {listing(columns)} of `{_target(table)}`, but queries can read {pronoun}"
    hint = f"set `visibility: hidden` in `column_overrides` of an overlay file if agents must not read {pronoun}"
    return ResultWarning("classified", what, hint=hint, path=place.path, line=place.line)
