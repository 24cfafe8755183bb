"""The work a LookML project leaves to agents: a unit a model, one for what no model includes, one a dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ktx_cli.context.semantic.interchange.lookml.dimensions import SCREEN
from ktx_cli.context.semantic.interchange.lookml.world import UNKNOWN_TABLE
from ktx_cli.context.semantic.interchange.result import Fidelity, Kind
from ktx_cli.context.sources.lookml.files import ProjectFiles
from ktx_cli.context.sources.model import Changes, WorkUnit
from ktx_cli.core.text import one_line, plural

_MOST_NOTES: Final = 40
INERT: Final = frozenset(
    {
        SCREEN,
        UNKNOWN_TABLE,
        "ktx keeps no results",
        "the database compares texts as it does",
        "an import is for the connection it is asked for",
    }
)
"""Reasons for leaving something out that no agent can do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return what the rules could not keep, by file, as far as an agent may do better."""
    found: dict[str, list[Fidelity]] = {}
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT:
            found.setdefault(each.place.path, []).append(each)
    return found


def units(
    files: ProjectFiles, changes: Changes, done: frozenset[str], report: Iterable[Fidelity], foreign: Mapping[str, str]
) -> tuple[WorkUnit, ...]:
    """Return the units of what changed; `foreign`: path of a model of another database -> why it may define nothing."""
    notes = losses(report)
    made: list[WorkUnit] = []

    def add(key: str, label: str, own: Iterable[str], others: Iterable[str], why: str = "") -> None:
        open_files = tuple(path for path in own if path in changes.touched and path not in done)
        if open_files:
            rest = tuple(sorted({*own, *others} - {*open_files}))
            said = _notes({path: notes[path] for path in open_files if path in notes})
            made.append(WorkUnit(key, label, open_files, rest, notes=said, semantic=not why, why_not=why))

    for model in files.models:
        why = foreign.get(model.path, "")
        add(f"lookml-{model.path}", f"model {model.path}", files.owned[model.path], model.files, why)
    add("lookml-orphans", f"{plural(len(files.orphans), 'file')} of no model", files.orphans, ())
    for path in files.dashboards:
        add(f"lookml-{path}", f"dashboard {path}", (path,), ())
    return tuple(made)


def _notes(lost: Mapping[str, list[Fidelity]]) -> str:
    lines = [f"- {each.place}: {each.what}: {one_line(each.why, 160)}" for several in lost.values() for each in several]
    if not lines:
        return ""
    rest = [f"- and {len(lines) - _MOST_NOTES} more"] if len(lines) > _MOST_NOTES else []
    return "\n".join(["Already written by rules: all but this:", *lines[:_MOST_NOTES], *rest])
