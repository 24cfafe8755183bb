"""`relationships` tests as joins of the manifest: where both sides are tables of one connection, and never twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.core import ResultWarning
from ktx_cli.semantic import Fidelity, Kind, Place, Relation, Report, Source, import_dbt, quoted
from ktx_cli.sources.ownership import Steps, join_step, text_of
from ktx_cli.sources.port import ProjectContext
from ktx_cli.sources.semantic_files import Wanted, best_of, leave_broken, model_without_ours, want_files
from ktx_cli.sources.table_texts import Table

MANY, ONE, BACK = "many_to_one", "one_to_one", "one_to_many"
MANUAL: Final = "manual"
"""The `source` of such a join, of the three words that every version reads: somebody says it.

A scan renews what is `formal`, a key of the database, and looks again at what is `inferred`; it would take either away.
That it is dbt's, and goes with its test, stands in `owned` of the manifest of the raw files.
"""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values are those of `field` of the relation `to`."""

    table: Table
    column: str
    to: Relation
    field: str
    what: str
    place: Place


def add_joins(
    references: Iterable[Reference],
    tables: Mapping[Relation, Table],
    owned: Mapping[str, Mapping[str, str]],
    wanted: Wanted,
    report: Report,
) -> None:
    """Want the joins that references make, on both tables as a scan writes them.

    `tables`: the table of each relation that has one. `owned`: what the source wrote last; a join that is there and is
    not among it is somebody else's.
    """
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
            if other.name != own.name:
                _want(target, own, (field.name, each.column), ONE if is_unique else BACK, each, wanted)
        report.kept(each.what, each.place, f"{each.table.connection}/{own.name} -> {other.name}")


def _why_not(each: Reference, target: Table | None, wanted: Wanted) -> str | None:
    if target is None:
        return f"`{'.'.join(each.to[1:])}` is no table that was found"
    if target.connection != each.table.connection:
        return f"its table is in another connection, `{target.connection}`"
    field = target.source.column(each.field)
    if field is None or field.expr is not None:
        return f"`{target.source.name}` has no column `{each.field}`"
    if not _is_unique(target, field.name, wanted):
        return f"nothing says that `{field.name}` is unique in `{target.source.name}`"
    return None


def _is_unique(table: Table, column: str, wanted: Wanted) -> bool:
    """Say whether a key of the database or a test says that no two rows have the same value."""
    source = table.source
    if source.keyed and source.grain == (column,):
        return True
    steps = ("tables", source.name, "columns", column, "constraints", "dbt")
    tested = wanted.items.get(table.shard, {}).get(steps)
    return bool(tested and tested.get("unique"))


def _is_there(each: Reference, field: str, target: Table, owned: Mapping[str, Mapping[str, str]]) -> bool:
    """Say whether somebody else joins the two by these columns, from either side, under whatever alias."""
    sides = ((each.table, target.source, (each.column, field)), (target, each.table.source, (field, each.column)))
    for table, other, pair in sides:
        steps = ("tables", table.source.name, "joins", join_step(_join(other, pair, MANY)))
        is_ours = text_of(steps) in owned.get(table.shard, {})
        found = (join for join in table.source.joins if join.to == other.name and join.pairs == (pair,))
        if any(join.alias or not is_ours for join in found if not join.conditions):
            return True
    return False


def _want(
    table: Table, other: Source, pair: tuple[str, str], relationship: str, each: Reference, wanted: Wanted
) -> None:
    join = _join(other, pair, relationship)
    steps: Steps = ("tables", table.source.name, "joins", join_step(join))
    wanted.add(table.shard, steps, join, each.place.path, soft=True)


def _join(other: Source, pair: tuple[str, str], relationship: str) -> dict[str, Any]:
    on = f"{quoted(pair[0])} = {quoted(other.name)}.{quoted(pair[1])}"
    return {"to": other.name, "on": on, "relationship": relationship, "source": MANUAL}


def want_semantics(
    files: Mapping[str, str],
    tables: Mapping[Relation, Table],
    context: ProjectContext,
    wanted: Wanted,
    warnings: list[ResultWarning],
) -> list[Fidelity]:
    """Want what the importer makes of each connection's semantic models; return what became of them.

    `tables`: the table of each relation that has one; a semantic model of another one is dropped.
    """
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
