"""LookML as the files of ktx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktx_cli.context.semantic.interchange.drafts import Sources, described
from ktx_cli.context.semantic.interchange.lookml.dimensions import SCREEN, Dimensions
from ktx_cli.context.semantic.interchange.lookml.explores import Explores
from ktx_cli.context.semantic.interchange.lookml.measures import Measures
from ktx_cli.context.semantic.interchange.lookml.project import read_project
from ktx_cli.context.semantic.interchange.lookml.world import View, World
from ktx_cli.context.semantic.interchange.result import Imported, Report
from ktx_cli.context.semantic.interchange.writing import imported
from ktx_cli.context.semantic.model import Model

DEFAULT_DIALECT: Final = "duckdb"
_TOPS: Final = {
    "week_start_day": "set semantic.week_start in ktx.yaml",
    "fiscal_month_offset": "set semantic.fiscal_year_start in ktx.yaml",
    "access_grant": "who has it is not asked here: fields that need it are hidden",
    "datagroup": "ktx keeps no results",
    "persist_with": "ktx keeps no results",
    "persist_for": "ktx keeps no results",
    "named_value_format": SCREEN,
    "map_layer": SCREEN,
    "label": SCREEN,
    "case_sensitive": "the database compares texts as it does",
    "test": "a data test of Looker asks an explore; write it under `tests:` of the source",
    "connection": "an import is for the connection it is asked for",
}
_VIEWS: Final = {
    "filter": "its value goes into Liquid alone",
    "parameter": "its value goes into Liquid alone",
    "set": SCREEN,
    "drill_fields": SCREEN,
    "suggestions": SCREEN,
    "view_label": SCREEN,
    "label": SCREEN,
    "required_access_grants": "who has the access grant is not asked here: write a policy instead",
    "fields_hidden_by_default": SCREEN,
}
_USED: Final = (
    "dimension", "dimension_group", "measure", "sql_table_name", "derived_table", "extends", "extension", "description",
    "label",
)  # fmt: skip


def import_lookml(
    files: Mapping[str, str], model: Model | None, *, dialect: str | None = None, known_only: bool = False
) -> Imported:
    """Return ktx's files for the views and explores of a LookML project.

    `files`: path -> text; all but `.lkml` and `.lookml` are left out. `model`: the connection's semantic layer, whose
    manifest's sources are then changed, not repeated. `dialect`: sqlglot's name for the SQL of the fields; the
    model's, else DuckDB's. `known_only`: a view of a table the manifest does not have is dropped. Raises nothing for
    what the files hold: it is in the report.
    """
    report = Report()
    project = read_project(files, report)
    sources = Sources(model, dialect or (model.dialect if model else DEFAULT_DIALECT), report)
    world = World(project, sources, report, known_only=known_only)
    dimensions = Dimensions(world)
    explores = Explores(world, dimensions)
    explores.add_joins()
    for view in world.views.values():
        dimensions.add_all(view)
    measures = Measures(world, dimensions)
    for view in world.views.values():
        measures.add_all(view)
        _add_view(view, report)
    explores.add_rules()
    for top in project.tops:
        item = top.item
        item.skip("view", "explore", "include")
        item.report_rest(report, top.place.path, _TOPS)
    return imported(sources.drafts.values(), report, "lookml")


def _add_view(view: View, report: Report) -> None:
    """Add what a view says of itself, and report the rest."""
    item = view.block.item
    text = described(item.text("description"), item.text("label"))
    view.draft.description = text or view.draft.description
    item.skip(*_USED)
    if view.block.values.get("required_access_grants"):
        view.draft.extra["visibility"] = "hidden"
        item.skip("required_access_grants")
        why = "who has the access grant is not asked here: no question may use it"
        what = f"`required_access_grants` of view `{view.block.name}`"
        report.approximated(what, why, view.block.place, view.draft.name)
    for table in view.block.below("derived_table"):
        below = table.item
        below.skip("sql")
        below.report_rest(report, f"derived table of `{view.block.name}`")
    item.report_rest(report, f"view `{view.block.name}`", _VIEWS)
