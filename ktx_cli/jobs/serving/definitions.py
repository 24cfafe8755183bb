"""Sources of the semantic layer for agents: listed, and read as one definition or as their files have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.tools.sql_protection import is_protected
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import one_line
from ktx_cli.jobs.semantic.reading import Layers, find_source, read_layers, source_files
from ktx_cli.jobs.serving.entities import definition
from ktx_cli.jobs.serving.project import ServedProject

Form = Literal["composed", "files"]

MOST_NAMES: Final = 40
"""Measures, segments and columns that a list names of a source."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A source in writing. `paths`: the files it is made of."""

    connection: str
    name: str
    yaml: str
    paths: tuple[str, ...]


def listed(project: ServedProject, connection: str | None) -> tuple[list[dict[str, Any]], list[ResultWarning]]:
    """Return the sources of a connection, or of all, with the names of what they have; raises as `read_layers`."""
    from ktx_cli.context.semantic.planning.axis import time_of

    layers = _layers(project, connection)
    rows = []
    for each in layers.sources():
        shown = next(one for one in layers.shown if one.model.connection == each.connection)
        names = {
            "measures": [one.name for one in shown.measures(each.source)],
            "segments": list(each.source.segments),
            "columns": [one.name for one in shown.columns(each.source)],
        }
        facts, time = each.to_json(), time_of(each.source, None)
        rows.append(
            {key: facts[key] for key in ("connection", "name", "kind")}
            | {"grain": [one for one in facts["grain"] if one in names["columns"]]}
            | {"description": one_line(visible(facts["description"] or ""), 300)}
            | {"time": time.column if time is not None and time.column in names["columns"] else None}
            | {key: found[:MOST_NAMES] for key, found in names.items()}
            | {f"more_{key}": max(0, len(found) - MOST_NAMES) for key, found in names.items()}
        )
    return rows, layers.warnings()


def read_definition(
    project: ServedProject, name: str, connection: str | None, form: Form, *, privacy: bool
) -> Definition:
    """Return a source in writing; raises as `find_source`.

    The files of one that people hid something of are not shown, nor with `privacy`, for they may hold values of rows:
    `KtxError` (`hidden`).
    """
    layers = _layers(project, connection)
    try:
        shown, source = find_source(layers, name)
    except SemanticError as error:
        if error.code == "hidden":
            error.hint = "people keep it to themselves; look for another with discover_data"
        raise
    of, files = source_files(project.layout, Layers((shown,)), source.name)
    paths = tuple(path for path, _ in files)
    if form == "composed":
        return Definition(of, source.name, definition(shown, source, privacy=privacy), paths)
    if privacy or is_protected(source) or not _all_shown(shown, source):
        why = "this server was started with --privacy" if privacy else "something of it is hidden, or limited by policy"
        raise KtxError(f"the files of `{source.name}` are not shown: {why}", hint="form: composed", code="hidden")
    return Definition(of, source.name, "\n".join(f"# {path}\n{visible(text)}" for path, text in files), paths)


def _all_shown(shown: Shown, source: Source) -> bool:
    whole = len(shown.columns(source)) == len(source.columns)
    return whole and len(shown.measures(source)) == len(source.measures)


def _layers(project: ServedProject, connection: str | None) -> Layers:
    return read_layers(project.layout, project.config(), connection, load=project.load_layer)
