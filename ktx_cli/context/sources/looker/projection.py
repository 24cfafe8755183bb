"""What of Looker is certain without a model: descriptions of fields that are columns, and of explores of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ktx_cli.context.sources.looker.columns import column_of
from ktx_cli.context.sources.looker.documents import FOLDERS_PATH, USAGE_PATH
from ktx_cli.context.sources.looker.target import Target
from ktx_cli.context.sources.model import Snapshot
from ktx_cli.context.sources.port import ProjectContext, Projection
from ktx_cli.context.sources.table_texts import TableText, write_texts
from ktx_cli.core.text import plural


def project(snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write the texts; what measures, dashboards and looks mean is left to a model."""
    texts: dict[str, list[TableText]] = {}
    explores = [path for path in snapshot.files if path.startswith("explores/")]
    for path in explores:
        for connection, text in _texts(json.loads(snapshot.files[path].read()), path):
            texts.setdefault(connection, []).append(text)
    described = write_texts(context, "looker", texts)
    return Projection(
        artifacts=described.artifacts,
        owned=described.owned,
        report=described.report,
        handled=frozenset((FOLDERS_PATH, USAGE_PATH)) & frozenset(snapshot.files),
        left=tuple(_left(snapshot)),
    )


def _texts(explore: Mapping[str, Any], raw: str) -> Iterator[tuple[str, TableText]]:
    """Yield connection and texts of the tables of an explore: its own first, then those of its joins."""
    own = str(explore.get("view_name") or explore["name"])
    targets = {own: Target.stored(explore.get("target"))}
    for join in explore["joins"]:
        targets.setdefault(str(join.get("name")), Target.stored(join.get("target")))
    for view, target in targets.items():
        if target.why is not None or target.connection is None:
            continue
        description = explore.get("description") if view == own and not explore["joins"] else None
        columns = _columns(explore, view)
        if description or columns:
            yield target.connection, TableText(target.parts, raw, description, columns)


def _columns(explore: Mapping[str, Any], view: str) -> dict[str, str]:
    """Return column -> description; of several fields that are one column the first counts."""
    found: dict[str, str] = {}
    for field in explore["dimensions"]:
        said, column = field.get("description"), column_of(field.get("sql"))
        if column and isinstance(said, str) and said.strip() and str(field.get("name")).partition(".")[0] == view:
            found.setdefault(column, said.strip())
    return found


def _left(snapshot: Snapshot) -> Iterator[str]:
    for folder, what in (
        ("explores", "measures and joins"),
        ("dashboards", "measures and pages"),
        ("looks", "measures and pages"),
    ):
        count = sum(path.startswith(f"{folder}/") for path in snapshot.files)
        if count:
            yield f"Looker: {plural(count, folder.removesuffix('s'))} as {what}"
