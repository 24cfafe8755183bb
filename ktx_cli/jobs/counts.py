"""How much context a connection has: its sources, columns, measures and joins, counted from files or as a run did.

A run keeps the counts in `.ktx/cache`, with the sizes and times of the files they came from: to count a warehouse of
thousands of tables takes longer than `ktx status` may. What was edited since is counted again, and never written here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, Record, ResultWarning
from ktx_cli.project import DATABASE_SOURCE, WorkingTree, hash_of, read_bytes, signatures_below, write_atomic
from ktx_cli.semantic import SUFFIXES, Manifest, load_manifest, quoted

if TYPE_CHECKING:
    from ktx_cli.jobs.health.model import CheckContext
    from ktx_cli.project import KtxConfig, Layout


FORMAT: Final = 1

Edge = frozenset[frozenset[str]]
"""Of a join the columns it equates."""


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """The contents of the files of one connection, counted.

    `sources`: the tables a scan found; `own_sources`: those people wrote; `columns` and `measures`: of both. `joins`:
    each once, from whichever of its two sources it is written. `relationships`: found joins by what holds for them,
    None where no scan looked at the rows.
    """

    sources: int = 0
    columns: int = 0
    own_sources: int = 0
    measures: int = 0
    joins: int = 0
    relationships: Mapping[str, int] | None = None


def counted_by_runs(layout: Layout) -> dict[str, tuple[str, Counts]]:
    """Return connection -> signature of its files and what the last run counted in them; disposable."""
    try:
        stored = json.loads(read_bytes(_path(layout)) or b"{}")
        kept = stored["connections"].items() if stored.get("format") == FORMAT else ()
        return {name: (counted["signature"], Counts(**counted["counts"])) for name, counted in kept}
    except (ValueError, TypeError, KeyError, AttributeError, KtxError):
        return {}


def counts_of(
    context: CheckContext, connection: str, kept: Mapping[str, tuple[str, Counts]]
) -> tuple[Counts, list[ResultWarning]]:
    """Return what is in the files of a connection, and what of them could not be read."""
    known = kept.get(connection)
    if known is not None and known[0] == _signature(context.layout, connection):
        return known[1], []
    return _counted(context.layout, connection, context.manifests[connection])


def keep_counts(layout: Layout, config: KtxConfig) -> None:
    """Count what changed since the last run, and keep it; for runs only, which hold the run lock."""
    kept = counted_by_runs(layout)
    wanted: dict[str, tuple[str, Counts]] = {}
    for connection in config.connections:
        signature = _signature(layout, connection)
        known = kept.get(connection)
        if known is not None and known[0] == signature:
            wanted[connection] = known
            continue
        counts, problems = _counted(layout, connection, load_manifest(layout, connection))
        if not problems:
            wanted[connection] = (signature, counts)
    if wanted != kept:
        stored = {
            name: {"signature": signature, "counts": counts.to_json()} for name, (signature, counts) in wanted.items()
        }
        write_atomic(_path(layout), json.dumps({"format": FORMAT, "connections": stored}).encode())


def _path(layout: Layout) -> Path:
    return layout.cache / "counts.json"


def _signature(layout: Layout, connection: str) -> str:
    """Return what tells one state of a connection's files from another: the manifest of raw tables names them all."""
    folder, _ = layout.context_paths(connection)
    signatures = signatures_below(layout.root, folder, SUFFIXES)
    raw = layout.raw_path(connection, DATABASE_SOURCE)
    try:
        with os.scandir(layout.root / raw) as entries:
            for entry in entries:
                if entry.is_file():
                    stat = entry.stat()
                    signatures[f"{raw}/{entry.name}"] = f"{stat.st_size} {stat.st_mtime_ns}"
    except OSError:
        pass
    return hash_of(f"{path} {signatures[path]}" for path in sorted(signatures))


def _counted(layout: Layout, connection: str, manifest: Manifest) -> tuple[Counts, list[ResultWarning]]:
    """Return the counts and the problems, of which those of the manifest are named first."""
    from ktx_cli.jobs.review import join_status_counts
    from ktx_cli.scan import AuthoredSources

    authored = AuthoredSources.read(WorkingTree(layout.root), connection)
    problems = [*manifest.problems, *authored.warnings]
    relationships = None if manifest.problems else join_status_counts(layout, connection, problems.append)
    files = [file for files in authored.files.values() for file in files]
    entries = [*manifest.tables.items(), *((str(file.document["name"]), file.document) for file in files)]
    disabled = {_edge(on, source) for source, files in authored.files.items() for file in files for on in file.disabled}
    counts = Counts(
        sources=len(manifest.tables),
        columns=len({(source, name) for source, fields in entries for name in _names(fields, "columns")}),
        own_sources=sum(not file.is_overlay for file in files),
        measures=len({(source, name) for source, fields in entries for name in _names(fields, "measures")}),
        joins=len(set(_joins(entries)) - disabled),
        relationships=relationships,
    )
    return counts, problems


def _joins(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Edge]:
    for source, entry in entries:
        for join in _listed(entry, "joins"):
            if isinstance(join, dict):
                yield _edge(str(join.get("on")), source)


def _edge(on: str, source: str) -> Edge:
    """Return the columns a join of a source equates: the same for the join as the other source has it."""
    return frozenset(frozenset(_full(side, source) for side in pair.split("=")) for pair in on.split(" and "))


def _full(side: str, source: str) -> str:
    name = side.strip()
    return name if "." in name else f"{quoted(source)}.{name}"


def _names(entry: Mapping[str, Any], key: str) -> Iterator[str]:
    return (str(item.get("name")) for item in _listed(entry, key) if isinstance(item, dict))


def _listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    items = entry.get(key)
    return items if isinstance(items, list) else []
