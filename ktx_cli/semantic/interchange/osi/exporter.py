"""Export a ktx model as an OSI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from ktx_cli.core import KtxError, yaml
from ktx_cli.semantic.expressions.fragments import counts_rows, is_aggregate, parse, with_condition
from ktx_cli.semantic.interchange.drafts import filled
from ktx_cli.semantic.interchange.osi.importer import ANSI, VERSION, extension
from ktx_cli.semantic.interchange.report import Fidelity, Report, UnresolvedError
from ktx_cli.semantic.model import Column, Join, Measure, Model, Place, Relationship, Source, Visibility
from ktx_cli.semantic.plan.measures import exact_divisions
from ktx_cli.warehouses import SemanticType, dialect_named

_ONLY_KTX: Final = "stored in an extension that only ktx reads"
_HIDDEN: Final = "it is hidden, and OSI does not support visibility"


def export_osi(model: Model) -> tuple[str, tuple[Fidelity, ...]]:
    """Return the YAML of an OSI document (version 0.1.1) for a model, and a report on every part of the model.

    Measures that OSI cannot express are dropped, never approximated. Measures with `status: proposed` are dropped too,
    because other tools could not tell them from reviewed ones.
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
                self.report.dropped(f"source `{source.name}`", _HIDDEN, _place(source))
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
        return yaml.dump({"version": VERSION, "semantic_model": [content]}), self.report.sorted()

    def _dataset(self, source: Source) -> dict[str, Any]:
        what, place = f"source `{source.name}`", _place(source)
        unique = [[column.name] for column in source.columns.values() if column.unique]
        fields = [entry for column in source.columns.values() if (entry := self._field(source, column)) is not None]
        facts = {
            "label": source.label,
            "time": source.time_column,
            "visibility": _other(source.visibility, Visibility.PUBLIC),
        }
        for key, held in (("segment", source.segments), ("parameter", source.parameters)):
            for name in held:
                why = f"OSI does not support {key}s"
                self.report.dropped(f"{key} `{source.name}.{name}`", why, held[name].place or place)
        for policy in source.policies:
            why = "OSI does not support row policies: readers of the document see all rows of the dataset"
            self.report.dropped(f"policy `{source.name}.{policy.name}`", why, policy.place or place)
        for test in source.tests:
            self.report.dropped(f"test `{source.name}.{test.name}`", "OSI does not support tests", test.place or place)
        if source.search:
            self.report.dropped(f"tags and usage of `{source.name}`", "not supported by OSI", place)
        self._report_extended(what, facts, place, source.name)
        return filled({
            "name": source.name, "source": source.sql or ".".join(source.table or ()),
            "primary_key": list(source.grain) if source.keyed else None, "unique_keys": unique,
            "description": source.description, "ai_context": _search_context(source), "fields": fields,
            "custom_extensions": extension(facts),
        })  # fmt: skip

    def _field(self, source: Source, column: Column) -> dict[str, Any] | None:
        what, place = f"column `{source.name}.{column.name}`", column.place or _place(source)
        if column.visibility is Visibility.HIDDEN and (source.name, column.name) not in self.needed:
            self.report.dropped(what, _HIDDEN, place)
            return None
        try:
            expression = self._expression(self._own(source, column))
        except KtxError as error:
            self.report.dropped(what, error.message, place)
            return None
        if column.mask is not None:
            why = "OSI does not support masks: readers of the document see the values of the column"
            self.report.dropped(f"mask of {what}", why, place)
        visibility = _other(column.visibility or Visibility.PUBLIC, Visibility.PUBLIC)
        facts = {
            "type": column.type.value, "visibility": visibility, "natural_granularity": column.natural_granularity,
            "timezone": column.timezone, "unit": column.unit, "values": list(column.values),
            "role": _other(column.role, "default"),
        }  # fmt: skip
        self._report_extended(what, {**facts, "type": None, "role": None}, place, f"{source.name}.{column.name}")
        return filled({
            "name": column.name, "expression": expression,
            "dimension": {"is_time": column.type is SemanticType.TIME}, "label": column.label,
            "description": column.description, "ai_context": _search_context(column),
            "custom_extensions": extension(facts),
        })  # fmt: skip

    def _own(self, source: Source, column: Column) -> exp.Expr:
        """Return a field's expression, without the prefix of its own dataset."""
        if column.expr is None:
            return exp.column(column.name)
        tree = exp.Paren(this=self.expander.row(source, column.expr))
        for node in list(tree.find_all(exp.Column)):
            if node.table != source.name:
                raise UnresolvedError(f"it reads `{node.table}`, but OSI fields only read their own dataset")
            node.set("table", None)
        return tree.this  # type: ignore[no-any-return]

    def _report_extended(self, what: str, facts: Mapping[str, Any], place: Place, target: str) -> None:
        held = [key for key, value in facts.items() if value not in (None, [], False)]
        self.report.kept(what, place, target, f"{', '.join(held)}: {_ONLY_KTX}" if held else "")

    def _relationship(self, source: Source, join: Join, shown: set[str]) -> None:
        what = f"join `{source.name} -> {join.alias or join.to}`"
        place = join.place or _place(source)
        if join.to not in shown or join.conditions:
            why = "it has a constant condition" if join.conditions else "the joined source is not exported"
            self.report.dropped(what, why, place)
            return
        own, other = [pair[0] for pair in join.pairs], [pair[1] for pair in join.pairs]
        entry: dict[str, Any] = {"from": source.name, "to": join.to, "from_columns": own, "to_columns": other}
        if join.relationship is Relationship.ONE_TO_MANY:
            entry = {"from": join.to, "to": source.name, "from_columns": other, "to_columns": own}
        if join.alias is None and entry in self.plain:
            self.report.kept(what, place, "(exported as the reverse join)")
            return
        self.needed |= {(entry["from"], name) for name in entry["from_columns"]}
        self.needed |= {(entry["to"], name) for name in entry["to_columns"]}
        facts = {"alias": join.alias, "relationship": _other(join.relationship, Relationship.MANY_TO_ONE)}
        if join.relationship is Relationship.ONE_TO_MANY:
            facts["relationship"] = None
            if join.alias is not None:
                self.report.dropped(what, "OSI does not support one-to-many joins with an alias", place)
                return
        if join.alias is None:
            self.plain.append(entry)
        name = self._free_name(join.alias or f"{entry['from']}_to_{entry['to']}")
        self._report_extended(what, facts, place, name)
        held = {**facts, "relationship": facts["relationship"] or Relationship.MANY_TO_ONE.value}
        self.relationships.append({"name": name, **entry, "custom_extensions": extension(held)})

    def _free_name(self, name: str) -> str:
        names = {relationship["name"] for relationship in self.relationships}
        free, number = name, 2
        while free in names:
            free, number = f"{name}_{number}", number + 1
        return free

    def _metric(self, source: Source, measure: Measure) -> None:
        what, place = f"measure `{source.name}.{measure.name}`", measure.place or _place(source)
        if measure.visibility is not Visibility.PUBLIC:
            self.report.dropped(
                what, f"it is {measure.visibility.value}; measures that use it include its expression", place
            )
            return
        if measure.is_proposed:
            self.report.dropped(what, "its status is proposed; only accepted measures are exported", place)
            return
        try:
            expression = self._expression(self.expander.expand(source, measure))
        except KtxError as error:
            self.report.dropped(what, error.message, place)
            return
        self.needed |= self.expander.columns
        facts = {
            "source": source.name, "name": measure.name, "label": measure.label, "unit": measure.unit,
            "format": measure.format, "time": measure.time,
        }  # fmt: skip
        taken = {metric["name"] for metric in self.metrics}
        name = measure.name if measure.name not in taken else f"{source.name}_{measure.name}"
        self._report_metric(what, measure, name, place)
        self.metrics.append(filled({
            "name": name, "expression": expression, "description": measure.description,
            "ai_context": _search_context(measure), "custom_extensions": extension(facts),
        }))  # fmt: skip

    def _report_metric(self, what: str, measure: Measure, name: str, place: Place) -> None:
        why = []
        if name != measure.name:
            why.append("renamed, because another measure has the same name")
        held = [key for key in ("unit", "format", "time") if getattr(measure, key) is not None]
        if held:
            why.append(f"{', '.join(held)}: {_ONLY_KTX}")
        if len(self.expander.facts) > 1:
            why.append("it combines datasets: without rows, a sum or count is 0 in ktx and may be null elsewhere")
        self.report.kept(what, place, name, "; ".join(why))

    def _expression(self, tree: exp.Expr) -> dict[str, Any]:
        """Return an expression in ANSI SQL, and in the model's own dialect if OSI knows that dialect."""
        own = dialect_named(self.model.dialect).osi_name
        dialects = [{"dialect": ANSI, "expression": tree.sql()}]
        if own:
            dialects.append({"dialect": own, "expression": tree.sql(self.model.dialect)})
        return {"dialects": dialects}


def _search_context(entity: Source | Measure | Column) -> dict[str, Any]:
    """Return a source's or measure's search terms as an OSI `ai_context`."""
    questions = () if isinstance(entity, Column) else entity.questions
    return filled({"synonyms": list(entity.synonyms), "examples": list(questions)})


def _place(source: Source) -> Place:
    return source.place or Place(f"{source.name}.yaml")


def _other(value: Any, usual: Any) -> Any:
    """Return a value, or None if it is the default."""
    return None if value == usual else str(value)


_SPECIAL: Final = ("semi_additive", "cumulative", "offset", "percent_of", "per")


class Expander:
    """Expands the measures in one model.

    `facts` are the sources whose rows the last expansion aggregated.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.facts: set[str] = set()
        self.columns: set[tuple[str, str]] = set()

    def expand(self, source: Source, measure: Measure) -> exp.Expr:
        """Return a measure's expression with columns as `source.column`.

        Raises `KtxError` if OSI cannot express the measure.
        """
        self.facts, self.columns = set(), set()
        return exact_divisions(self._measure(source, measure, (), ()))

    def row(self, source: Source, text: str) -> exp.Expr:
        """Return an expression over the rows of a source with columns as `source.column`."""
        return self._changed(self._parse(text), lambda column: self._column(source, column))

    def _parse(self, text: str) -> exp.Expr:
        if "{{" in text:
            raise UnresolvedError("it uses a parameter, which OSI does not support")
        return parse(text, self._model.dialect, what="the expression").copy()

    def _measure(
        self, source: Source, measure: Measure, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        ref = f"{source.name}.{measure.name}"
        special = next((key for key in _SPECIAL if getattr(measure, key) not in (None, ())), None)
        if measure.percent_of == ():
            special = special or "percent_of"
        if special is not None:
            raise UnresolvedError(f"OSI does not support `{special}`")
        if ref in above:
            raise UnresolvedError("it refers to itself")
        own = [measure.filter] if measure.filter else []
        own += [source.segments[name].expr for name in measure.segments if name in source.segments]
        conditions = [*conditions, *(self.row(source, each) for each in own)]
        return self._formula(source, self._parse(measure.expr), conditions, (*above, ref))

    def _formula(
        self, source: Source, tree: exp.Expr, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        """Return a formula with its aggregates and measures expanded."""
        root = exp.Paren(this=tree)
        nodes = [node for node in root.walk(prune=is_aggregate) if is_aggregate(node) or isinstance(node, exp.Column)]
        for node in nodes:
            if is_aggregate(node):
                node.replace(self._aggregate(source, node, conditions))
            else:
                node.replace(exp.Paren(this=self._operand(source, node, conditions, above)))
        return root.this  # type: ignore[no-any-return]

    def _operand(
        self, source: Source, column: exp.Expr, conditions: Sequence[exp.Expr], above: tuple[str, ...]
    ) -> exp.Expr:
        parts = _parts(column)
        owner = source if len(parts) == 1 else self._model.sources.get(parts[-2])
        measure = owner.measures.get(parts[-1]) if owner is not None else None
        if owner is None or measure is None:
            raise UnresolvedError(f"`{'.'.join(parts)}` is not a measure")
        return self._measure(owner, measure, conditions, above)

    def _aggregate(self, source: Source, aggregate: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
        """Return an aggregate that includes the conditions. A row count becomes a count of the key of the source."""
        if counts_rows(aggregate):
            aggregate = exp.Count(this=self._key(source), big_int=True)
        else:
            aggregate = self._changed(aggregate.copy(), lambda column: self._column(source, column))
        self.facts.add(source.name)
        condition = exp.and_(*(each.copy() for each in conditions), copy=False) if conditions else None
        return with_condition(aggregate, condition, self._model.dialect)

    def _key(self, source: Source) -> exp.Expr:
        if not source.keyed or not source.grain:
            raise UnresolvedError(f"it counts rows, but `{source.name}` has no key to count in OSI")
        self.columns.add((source.name, source.grain[0]))
        return exp.column(source.grain[0], table=source.name)

    def _column(self, source: Source, column: exp.Expr) -> exp.Expr:
        """Return a column in the form `dataset.field`."""
        parts = _parts(column)
        owner = source if len(parts) == 1 else self._model.sources.get(parts[-2])
        found = owner.column(parts[-1]) if owner is not None else None
        if owner is None or found is None:
            raise UnresolvedError(f"`{'.'.join(parts)}` uses a join alias, which OSI does not support")
        self.columns.add((owner.name, found.name))
        return exp.column(found.name, table=owner.name)

    def _changed(self, tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        root = exp.Paren(this=tree)
        for column in list(root.find_all(exp.Column)):
            if not isinstance(column.this, exp.Star):
                column.replace(change(column))
        return root.this  # type: ignore[no-any-return]


def _parts(column: exp.Expr) -> tuple[str, ...]:
    """Return the parts of a qualified column name, outermost first."""
    return tuple(part.name for part in column.parts) if isinstance(column, exp.Column) else (column.name,)
