"""A model of ktx as an OSI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.interchange.drafts import filled
from ktx_cli.context.semantic.interchange.osi.expanding import Expander
from ktx_cli.context.semantic.interchange.osi.format import ANSI, DIALECTS, VERSION, extension
from ktx_cli.context.semantic.interchange.result import Fidelity, Report
from ktx_cli.context.semantic.model import Column, Join, Measure, Model, Place, Relationship, Source, Visibility
from ktx_cli.core import yaml

if TYPE_CHECKING:
    from sqlglot import exp

_ONLY_KTX: Final = "it stands in an extension that only ktx reads"


def export_osi(model: Model) -> tuple[str, tuple[Fidelity, ...]]:
    """Return the YAML of an OSI document (version 0.1.1) for a model, and what became of everything in the model.

    A measure whose meaning OSI cannot say is left out, never written as something else.
    """
    return _Export(model).run()


class _Export:
    def __init__(self, model: Model) -> None:
        self.model, self.report, self.expander = model, Report(), Expander(model)
        self.metrics: list[dict[str, Any]] = []
        self.relationships: list[dict[str, Any]] = []
        self.plain: list[dict[str, Any]] = []
        self.needed: set[tuple[str, str]] = set()

    def run(self) -> tuple[str, tuple[Fidelity, ...]]:
        shown = [source for source in self.model.sources.values() if source.visibility is not Visibility.HIDDEN]
        for source in self.model.sources.values():
            if source not in shown:
                self.report.dropped(f"source `{source.name}`", "it is hidden, and OSI hides nothing", _place(source))
        for source in shown:
            for measure in source.measures.values():
                self._metric(source, measure)
        for source in shown:
            for join in source.joins:
                self._relationship(source, join, {each.name for each in shown})
        datasets = [self._dataset(source) for source in shown]
        content = filled({
            "name": self.model.connection, "datasets": datasets,
             "relationships": sorted(self.relationships, key=lambda each: str(each["name"])),
            "metrics": self.metrics,
        })  # fmt: skip
        document = {"version": VERSION, "semantic_model": [content]}
        return yaml.dump(document), self.report.sorted()

    def _dataset(self, source: Source) -> dict[str, Any]:
        what, place = f"source `{source.name}`", _place(source)
        unique = [[column.name] for column in source.columns.values() if column.unique]
        fields = [entry for column in source.columns.values() if (entry := self._field(source, column)) is not None]
        facts = {"time": source.time_column, "visibility": _other(source.visibility, Visibility.PUBLIC)}
        for key, held in (("segment", source.segments), ("parameter", source.parameters)):
            for name in held:
                self.report.dropped(f"{key} `{source.name}.{name}`", f"OSI has no {key}s", held[name].place or place)
        for policy in source.policies:
            why = "OSI restricts no rows: who reads the document sees the dataset without it"
            self.report.dropped(f"policy `{source.name}.{policy.name}`", why, policy.place or place)
        for test in source.tests:
            self.report.dropped(f"test `{source.name}.{test.name}`", "OSI has no tests", test.place or place)
        if source.search:
            self.report.dropped(f"tags and usage of `{source.name}`", "OSI has no place for them", place)
        self._report_extended(what, facts, place, source.name)
        return filled({
            "name": source.name, "source": source.sql or ".".join(source.table or ()),
            "primary_key": list(source.grain) if source.keyed else None, "unique_keys": unique,
            "description": source.description, "fields": fields, "custom_extensions": extension(facts),
        })  # fmt: skip

    def _field(self, source: Source, column: Column) -> dict[str, Any] | None:
        what, place = f"column `{source.name}.{column.name}`", column.place or _place(source)
        if column.visibility is Visibility.HIDDEN and (source.name, column.name) not in self.needed:
            self.report.dropped(what, "it is hidden, and OSI hides nothing", place)
            return None
        try:
            expression = self._expression(self._own(source, column))
        except SemanticError as error:
            self.report.dropped(what, error.message, place)
            return None
        visibility = _other(column.visibility or Visibility.PUBLIC, Visibility.PUBLIC)
        facts = {
            "type": column.type.value, "visibility": visibility, "natural_granularity": column.natural_granularity,
            "timezone": column.timezone, "unit": column.unit, "values": list(column.values),
            "role": _other(column.role, "default"),
        }  # fmt: skip
        self._report_extended(what, {**facts, "type": None, "role": None}, place, f"{source.name}.{column.name}")
        return filled({
            "name": column.name, "expression": expression,
            "dimension": {"is_time": column.type is SemanticType.TIME}, "description": column.description,
            "custom_extensions": extension(facts),
        })  # fmt: skip

    def _own(self, source: Source, column: Column) -> exp.Expr:
        """Return what a field is: names of its own dataset bare."""
        from sqlglot import exp

        if column.expr is None:
            return exp.column(column.name)
        tree = exp.Paren(this=self.expander.row(source, column.expr))
        for each in list(tree.find_all(exp.Column)):
            if each.table != source.name:
                raise SemanticError(f"it reads `{each.table}`; a field of OSI is of one dataset", hint="leave it out",
                                    code="definition")  # fmt: skip
            each.set("table", None)
        return tree.this  # type: ignore[no-any-return]

    def _report_extended(self, what: str, facts: Mapping[str, Any], place: Place, target: str) -> None:
        held = [key for key, value in facts.items() if value not in (None, [], False)]
        if held:
            self.report.approximated(what, f"{', '.join(held)}: {_ONLY_KTX}", place, target)
        else:
            self.report.kept(what, place, target)

    def _relationship(self, source: Source, join: Join, shown: set[str]) -> None:
        what = f"join `{source.name} -> {join.alias or join.to}`"
        place = join.place or _place(source)
        if join.to not in shown or join.conditions:
            why = "it has a constant condition" if join.conditions else "its source is not exported"
            self.report.dropped(what, why, place)
            return
        own, other = [pair[0] for pair in join.pairs], [pair[1] for pair in join.pairs]
        entry: dict[str, Any] = {"from": source.name, "to": join.to, "from_columns": own, "to_columns": other}
        if join.relationship is Relationship.ONE_TO_MANY:
            entry = {"from": join.to, "to": source.name, "from_columns": other, "to_columns": own}
        if join.alias is None and entry in self.plain:
            self.report.kept(what, place, "(its other direction)")
            return
        self.needed |= {(entry["from"], name) for name in entry["from_columns"]}
        self.needed |= {(entry["to"], name) for name in entry["to_columns"]}
        facts = {"alias": join.alias, "relationship": _other(join.relationship, Relationship.MANY_TO_ONE)}
        if join.relationship is Relationship.ONE_TO_MANY:
            facts["relationship"] = None
            if join.alias is not None:
                self.report.dropped(what, "it is one to many with an alias, which OSI cannot name", place)
                return
        if join.alias is None:
            self.plain.append(entry)
        name = self._free_name(join.alias or f"{entry['from']}_to_{entry['to']}")
        self._report_extended(what, facts, place, name)
        held = {**facts, "relationship": facts["relationship"] or Relationship.MANY_TO_ONE.value}
        self.relationships.append({"name": name, **entry, "custom_extensions": extension(held)})

    def _free_name(self, name: str) -> str:
        names = {each["name"] for each in self.relationships}
        free, number = name, 2
        while free in names:
            free, number = f"{name}_{number}", number + 1
        return free

    def _metric(self, source: Source, measure: Measure) -> None:
        what, place = f"measure `{source.name}.{measure.name}`", measure.place or _place(source)
        if measure.visibility is not Visibility.PUBLIC:
            self.report.dropped(
                what, f"it is {measure.visibility.value}; measures that use it have it written out", place
            )
            return
        try:
            tree = self.expander.expand(source, measure)
            expression = self._expression(tree)
        except SemanticError as error:
            self.report.dropped(what, error.message, place)
            return
        self.needed |= self.expander.columns
        facts = {"source": source.name, "name": measure.name, "unit": measure.unit, "format": measure.format,
                 "time": measure.time}  # fmt: skip
        taken = {each["name"] for each in self.metrics}
        name = measure.name if measure.name not in taken else f"{source.name}_{measure.name}"
        self._report_metric(what, measure, name, place)
        self.metrics.append(filled({
            "name": name, "expression": expression, "description": measure.description,
            "custom_extensions": extension(facts),
        }))  # fmt: skip

    def _report_metric(self, what: str, measure: Measure, name: str, place: Place) -> None:
        why = []
        if name != measure.name:
            why.append("another measure has the name")
        held = [key for key in ("unit", "format", "time") if getattr(measure, key) is not None]
        if held:
            why.append(f"{', '.join(held)}: {_ONLY_KTX}")
        if len(self.expander.facts) > 1:
            why.append("it is of several datasets: where one has no rows, a sum or count is 0 in ktx and may be empty")
        if why:
            self.report.approximated(what, "; ".join(why), place, name)
        else:
            self.report.kept(what, place, name)

    def _expression(self, tree: exp.Expr) -> dict[str, Any]:
        """Return an expression in ANSI SQL, and in the model's own dialect where OSI knows it."""
        own = DIALECTS.get(self.model.dialect)
        dialects = [{"dialect": ANSI, "expression": tree.sql()}]
        if own:
            dialects.append({"dialect": own, "expression": tree.sql(self.model.dialect)})
        return {"dialects": dialects}


def _place(source: Source) -> Place:
    return source.place or Place(f"{source.name}.yaml")


def _other(value: Any, usual: Any) -> Any:
    """Return a value where it is not the usual one."""
    return None if value == usual else str(value)
