"""Sources as an agent is shown them: everything their files say, nothing hidden, and values seen in their columns."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.scan.profiling.dictionary import ColumnValues
from ktx_cli.context.scan.profiling.store import load_lists
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.search.values import is_of, listed_columns
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.tools.discovery import miss_told, resolved
from ktx_cli.context.tools.relations import read_relations
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core import yaml
from ktx_cli.core.text import one_line
from ktx_cli.jobs.semantic.described import described
from ktx_cli.jobs.semantic.layers import the_layer
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state
from ktx_cli.project.tree import WorkingTree

AT_ONCE: Final = 40
"""Columns (or measures, joins, segments) in one piece of a source: a large one comes in several."""

MOST_VALUES: Final = 10
_LONGEST: Final = 400
_NOT_SHOWN: Final = "(not shown)"
_DEFAULTS: Final = (("visibility", "public"), ("nullable", True), ("role", "default"))
_PARTS: Final = ("columns", "measures", "joins", "segments", "policies", "parameters")


@dataclass(frozen=True, slots=True)
class Entities:
    """What names stand for: pieces of sources in order, and a line for each name nothing has."""

    connection: str
    pieces: tuple[dict[str, Any], ...]
    missed: tuple[tuple[str, str], ...]


def entities(project: ServedProject, connection: str | None, targets: Sequence[str], *, privacy: bool) -> Entities:
    """Return the sources, tables and columns of these names; raises as `the_layer`."""
    config = project.config()
    chosen = the_layer(project.layout, config, connection)
    shown = Shown(project.load_layer(project.layout, config, chosen))
    wanted, missed = resolved(shown, targets)
    told = privacy or config.scan.privacy == "strict"
    pieces = [
        piece
        for name, only in wanted.items()
        for piece in _pieces(shown, shown.model.sources[name], only, None if told else project.layout)
    ]
    return Entities(chosen, tuple(pieces), tuple((each, visible(miss_told(shown, each))) for each in missed))


def definition(shown: Shown, source: Source, *, privacy: bool) -> str:
    """Return a source as YAML: what its files and the scan say put together, nothing hidden in it."""
    facts = _plain(_open_facts(shown, source, privacy))
    return visible(yaml.dump(facts))


def _pieces(
    shown: Shown, source: Source, only: Sequence[str] | None, values_of: Layout | None
) -> Iterator[dict[str, Any]]:
    """Yield a source in pieces of bounded size, the first with all that is said of it as a whole."""
    facts = _plain(_open_facts(shown, source, values_of is None))
    if only is not None:
        facts = {key: facts[key] for key in ("connection", "name", "kind", "table", "columns") if key in facts}
        facts["columns"] = [each for each in facts["columns"] if each["name"] in only]
    if values_of is not None:
        _add_values(facts.get("columns", []), shown, source, values_of)
    head = {key: _short(value) for key, value in facts.items() if key not in _PARTS}
    left = [(part, _short(item)) for part in _PARTS for item in facts.get(part) or ()]
    for begun in range(0, max(len(left), 1), AT_ONCE):
        piece: dict[str, Any] = dict(head) if begun == 0 else {"connection": head["connection"], "name": head["name"]}
        for part, item in left[begun : begun + AT_ONCE]:
            piece.setdefault(part, []).append(item)
        yield {**piece, "continues": begun + AT_ONCE < len(left)}


def _open_facts(shown: Shown, source: Source, privacy: bool) -> dict[str, Any]:
    """Return what may be told of a source: no expression that names what is not shown, with `privacy` no values."""
    facts = described(shown, source)
    for part in ("columns", "measures", "segments"):
        for each in facts[part]:
            for key in ("expr", "filter"):
                if isinstance(each.get(key), str) and not shown.tells(source, each[key]):
                    each[key] = _NOT_SHOWN
    for join, each in zip(source.joins, facts["joins"], strict=True):
        target = shown.model.sources.get(join.to)
        if not shown.tells(source, each["on"]) or (target is not None and not shown.tells(target, each["on"])):
            each["on"] = _NOT_SHOWN
    names = {each["name"] for each in facts["columns"]}
    facts["grain"] = [each for each in facts["grain"] if each in names]
    facts["time"] = facts["time"] if facts["time"] in names else None
    if privacy:
        for each in facts["columns"]:
            each["values"] = []
    if source.sql is not None and len(shown.columns(source)) < len(source.columns):
        facts["sql"] = _NOT_SHOWN
    for key in ("problems", "tests"):
        facts.pop(key)
    facts["not_shown"] = {key: count for key, count in facts["not_shown"].items() if count}
    return facts


def _plain(value: Any) -> Any:
    """Return facts without those that say nothing: None, empty, public."""
    if isinstance(value, Mapping):
        kept = {key: _plain(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if not _says_nothing(key, each)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _says_nothing(key: str, value: Any) -> bool:
    return value is None or value in ([], {}, "") or (key, value) in _DEFAULTS


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value) if len(value) <= _LONGEST else one_line(visible(value), _LONGEST)
    if isinstance(value, Mapping):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value[:50]] if isinstance(value, list) else value


def _add_values(columns: list[dict[str, Any]], shown: Shown, source: Source, layout: Layout) -> None:
    """Give columns that name no values those a scan saw, where it may keep them."""
    if not source.table:
        return
    read = functools.partial(load_lists, connection=shown.model.connection, table=source.table[-1])
    lists: tuple[ColumnValues, ...] = read_state(layout, read) or ()
    relations = functools.partial(read_relations, WorkingTree(layout.root), shown.model.connection)
    listed = listed_columns(shown, source, relations) if lists else ()
    seen = {
        each.column.casefold(): each for each in lists if is_of(source, each.ref) and each.column.casefold() in listed
    }
    for column in columns:
        found = seen.get(column["name"].casefold())
        if found is not None and not column.get("values") and not column.get("expr"):
            column["values"] = [value for value, _ in found.values[:MOST_VALUES]]
            column["more_values"] = len(found.values) > MOST_VALUES or not found.complete
