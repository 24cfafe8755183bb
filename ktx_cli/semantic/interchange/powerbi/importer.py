"""Import Power BI models as ktx sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.semantic.interchange.drafts import TAKEN, SourceDraft, Sources, imported, on_text, reach
from ktx_cli.semantic.interchange.lookml.views import UNKNOWN_TABLE
from ktx_cli.semantic.interchange.powerbi.dax import parse_dax
from ktx_cli.semantic.interchange.powerbi.measures import TOOL, Measures
from ktx_cli.semantic.interchange.powerbi.model import Column, PowerBiModel, Relationship, Table, read_models
from ktx_cli.semantic.interchange.powerbi.mquery import TableOrigin, native_origin, origin_of
from ktx_cli.semantic.interchange.powerbi.rows import RowTranslator
from ktx_cli.semantic.interchange.powerbi.world import (
    COMPUTED,
    GENERATED,
    GROUPS,
    INACTIVE,
    LEVELS,
    NO_ROLES,
    ONE_WAY,
    SUMMARY,
    TOO_DEEP,
    TYPES,
    Entity,
    Field,
    World,
    slug,
)  # fmt: skip
from ktx_cli.semantic.interchange.report import Imported, Report, UnresolvedError
from ktx_cli.semantic.load.joins import Sides, parse_on
from ktx_cli.semantic.model import Model

_GENERATED: Final = ("LocalDateTable_", "DateTableTemplate_")


def import_powerbi(files: Mapping[str, str], model: Model | None, *, known_only: bool = False) -> Imported:
    """Return the ktx files for the models of Power BI.

    `files` maps paths to texts: TMDL, `model.bim`, and the model of a template (`report.pbit/DataModelSchema`). `model`
    is the semantic layer of the connection: sources of its manifest are changed, not repeated. If `known_only` is true,
    tables outside the manifest are dropped. Invalid content is listed in the report and raises nothing.
    """
    report = Report()
    sources = Sources(model, report)
    shared: dict[tuple[str, ...], SourceDraft] = {}
    for each in read_models(files, report):
        _ModelImport(World(each, sources, report), shared, known_only=known_only).run()
    return imported(sources.drafts.values(), report, TOOL)


def table_origin(table: Table, model: PowerBiModel, dialect: str = "") -> TableOrigin:
    """Return the table or query of the database behind a table. Raises `UnresolvedError` with the reason."""
    if table.name.startswith(_GENERATED):
        raise UnresolvedError(GENERATED)
    if not table.partitions:
        raise UnresolvedError("the table has no query")
    origins = []
    for partition in table.partitions:
        if partition.kind in ("calculated", "calculationgroup"):
            raise UnresolvedError(COMPUTED)
        if partition.entity:
            origins.append(TableOrigin(partition.entity))
        elif not partition.expression:
            raise UnresolvedError("the table has no query")
        elif partition.kind == "query":
            origins.append(native_origin(partition.expression, dialect))
        else:
            origins.append(origin_of(partition.expression, model.queries, dialect))
    if any((each.parts, each.sql) != (origins[0].parts, origins[0].sql) for each in origins):
        raise UnresolvedError("its partitions have different queries")
    if not origins[0].parts and origins[0].sql is None:
        raise UnresolvedError("its query does not name a table")
    return origins[0]


class _ModelImport:
    """Imports one model. `shared`: the drafts for tables that another model of the same import has, too."""

    def __init__(self, world: World, shared: dict[tuple[str, ...], SourceDraft], *, known_only: bool) -> None:
        self._world, self._model, self._report = world, world.model, world.report
        self._shared, self._known_only = shared, known_only
        self._own: set[str] = set()
        self._joins: list[Relationship] = []
        world.calculate = self._calculated

    def run(self) -> None:
        for table in self._model.tables.values():
            self._add_table(table)
        for relationship in self._model.relationships:
            self._add_join(relationship)
        reach(entity.draft for entity in self._world.entities.values())
        for entity in self._world.entities.values():
            for name, column in entity.table.columns.items():
                if column.expression is not None and name not in entity.fields:
                    entity.fields[name] = None
                    self._calculated(entity, name)
        Measures(self._world).add_all()
        self._report_directions()
        self._report_other()

    # Tables.

    def _add_table(self, table: Table) -> None:
        what = f"table `{table.name}`"
        try:
            entity = self._entity(table)
        except UnresolvedError as error:
            self._world.missing[table.name] = error.message
            if table.measures and all(column.hidden for column in table.columns.values()):
                self._report.kept(what, table.place, "(its measures)")
            else:
                self._report.dropped(what, error.message, table.place)
            return
        self._world.entities[table.name] = entity
        draft = entity.draft
        draft.description = draft.description or table.description
        if table.name != draft.name:
            draft.label = draft.label or table.name
        if table.hidden:
            draft.extra["visibility"] = "internal"
        for column in table.columns.values():
            if column.expression is None:
                self._add_column(entity, column)
        self._report.kept(what, table.place, draft.name)
        summed = [c.name for c in table.columns.values() if (c.summarize_by or "none").lower() != "none"]
        if summed:
            self._report.dropped(f"`summarizeBy` of columns of `{table.name}`", SUMMARY, table.place)

    def _entity(self, table: Table) -> Entity:
        origin = table_origin(table, self._model, self._world.dialect)
        key = tuple(part.casefold() for part in origin.parts) or (origin.sql or "",)
        known = self._shared.get(key)
        if known is not None and known.name not in self._own:
            self._own.add(known.name)
            return Entity(table, known, origin)
        sources, name = self._world.sources, slug(table.name)
        if origin.sql is not None:
            draft = sources.add(name, table.place, sql=origin.sql)
        else:
            text = ".".join('"' + part.replace('"', '""') + '"' for part in origin.parts)
            if self._known_only and not sources.knows(text):
                raise UnresolvedError(UNKNOWN_TABLE)
            draft = sources.add(sources.name_of(text) or name, table.place, table=text)
        self._own.add(draft.name)
        self._shared.setdefault(key, draft)
        return Entity(table, draft, origin)

    def _add_column(self, entity: Entity, column: Column) -> None:
        draft, name = entity.draft, entity.origin.column(column.source or column.name)
        kind = TYPES.get((column.type or "").lower())
        what = f"column `{entity.table.name}[{column.name}]`"
        entity.fields[column.name] = None
        if name is None:
            self._report.dropped(what, "Power Query computes its values", column.place)
            return
        found = draft.require(name, kind)
        if found is None:
            self._report.dropped(what, f"the table has no column `{name}`", column.place)
            return
        base = draft.base.columns.get(found) if draft.base is not None else None
        keys = draft.base.grain if draft.base is not None and draft.base.keyed else ()
        required = base is not None and (not base.nullable or found in keys)
        entity.fields[column.name] = Field(found, base.type.value if base is not None else kind, not required)
        own = draft.column(found)
        own.visibility = "internal" if column.hidden else None
        own.description = column.description or own.description
        own.label = column.name if column.name != found else own.label
        if column.key and draft.base is None:
            draft.grain = (found,)
        self._report.kept(what, column.place, f"{draft.name}.{found}")

    def _calculated(self, entity: Entity, name: str) -> Field | None:
        """Import a calculated column, and return it, or None if it was dropped."""
        column = entity.table.columns[name]
        what = f"calculated column `{entity.table.name}[{name}]`"
        with self._report.dropping(what, column.place):
            try:
                self._compute(entity, column, what)
            except RecursionError:
                raise UnresolvedError(TOO_DEEP) from None
        return entity.fields.get(name)

    def _compute(self, entity: Entity, column: Column, what: str) -> None:
        """Add a calculated column to its source."""
        name, draft = column.name, entity.draft
        translator = RowTranslator(self._world, entity)
        value = translator.value(parse_dax(column.expression or ""))
        kind = value.kind or TYPES.get((column.type or "").lower())
        added, renamed = draft.define(slug(name), value.tree.sql(self._world.dialect), kind)
        if column.hidden:
            added.visibility = "internal"
        added.description = column.description or added.description
        added.label = name if name != added.name else added.label
        target = f"{draft.name}.{added.name}"
        for note in translator.notes:
            self._report.approximated(what, note, column.place, target)
        if renamed:
            self._report.approximated(what, TAKEN, column.place, target)
        self._report.kept(what, column.place, target)
        entity.fields[name] = Field(added.name, kind, value.nullable)

    # Relationships.

    def _add_join(self, relationship: Relationship) -> None:
        what = _shown(relationship)
        with self._report.dropping(what, relationship.place):
            own, other = (self._world.entity(side[0]) for side in (relationship.own, relationship.other))
            if relationship.from_many and relationship.to_many:
                raise UnresolvedError("both sides have several rows; ktx needs a table between them")
            pair = (
                self._world.field(own, relationship.own[1]).name, self._world.field(other, relationship.other[1]).name
            )  # fmt: skip
            hop = other.draft.name if relationship.active else f"{other.draft.name}_{slug(pair[0])}"
            join: dict[str, Any] = {
                "to": other.draft.name, "on": on_text([pair], hop), "relationship": _cardinality(relationship),
            }  # fmt: skip
            alias = None if relationship.active else hop
            if alias is not None:
                join["alias"] = alias
            columns = {*own.draft.columns, *(own.draft.base.columns if own.draft.base else ())}
            parse_on(join["on"], Sides(own.draft.name, other.draft.name, alias, own.draft.dialect, columns))
            if join not in own.draft.joins:
                own.draft.joins.append(join)
            if not relationship.to_many and other.draft.base is None:
                other.draft.grain = other.draft.grain or (pair[1],)
            target = f"{own.draft.name} -> {hop}"
            if not relationship.active:
                _disable(own.draft, other.draft, pair)
                self._report.approximated(what, INACTIVE, relationship.place, target)
            self._report.kept(what, relationship.place, target)
            self._joins.append(relationship)

    def _report_directions(self) -> None:
        """Report the relationships that filter in one direction, if the other side has measures."""
        for each in self._joins:
            own, other = (self._world.entity(side[0]).draft for side in (each.own, each.other))
            if each.active and not each.both and other.measures:
                self._report.approximated(_shown(each), ONE_WAY, each.place, f"{own.name} -> {other.name}")

    def _report_other(self) -> None:
        for role in self._model.roles:
            what = f"role `{role.name}`"
            if role.tables:
                self._report.dropped(what, NO_ROLES, role.place)
        for table in self._model.tables.values():
            for kind, name, place in table.other:
                if kind == "hierarchy" and table.name not in self._world.entities:
                    continue
                words = {"hierarchy": ("hierarchy", LEVELS), "calculationGroup": ("calculation group", GROUPS)}
                word, why = words[kind]
                self._report.dropped(f"{word} `{table.name}[{name}]`", why, place)


def _disable(own: SourceDraft, other: SourceDraft, pair: tuple[str, str]) -> None:
    """Disable the manifest's join of an inactive relationship: as a second join to the same table, it would leave no
    default path.
    """
    for join in own.base.joins if own.base is not None else ():
        if join.alias is None and join.pairs == (pair,) and join.to == other.name:
            disabled = own.extra.setdefault("disable_joins", [])
            if join.on not in disabled:
                disabled.append(join.on)


def _shown(relationship: Relationship) -> str:
    own, other = relationship.own, relationship.other
    return f"relationship `{own[0]}[{own[1]}]` -> `{other[0]}[{other[1]}]`"


def _cardinality(relationship: Relationship) -> str:
    if relationship.to_many:
        return "one_to_many"
    return "many_to_one" if relationship.from_many else "one_to_one"
