"""Semantic models and metrics of dbt, brought into the connection whose manifest has their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktx_cli.context.semantic.interchange.dbt.importing import Relation, import_dbt
from ktx_cli.context.semantic.interchange.result import Fidelity, Kind
from ktx_cli.context.sources.port import ProjectContext
from ktx_cli.context.sources.semantic_files import Wanted, best_of, leave_broken, model_without_ours, want_files
from ktx_cli.context.sources.tables import Table
from ktx_cli.core.errors import ResultWarning


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
