"""Count the context of a connection: its sources, columns, measures and joins.

A run stores the counts in `.ktx/cache` with the sizes and times of the counted files, because counting a warehouse with
thousands of tables takes too long for `ktx status`. If files have changed since, they are counted again without writing
the cache.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ktx_cli.core import KtxError, Record, ResultWarning
from ktx_cli.project import DATABASE_SOURCE, Layout, WorkingTree, hash_of, read_bytes, signatures_below, write_atomic
from ktx_cli.semantic import SUFFIXES, DeclaredEntry, Manifest, declared_entries, declared_names, load_manifest, quoted

if TYPE_CHECKING:
    from ktx_cli.jobs.health.model import CheckContext
    from ktx_cli.project import KtxConfig


FORMAT: Final = 1

Edge = frozenset[frozenset[str]]
"""The columns that a join compares."""


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """The counts for one connection.

    `sources` are scanned tables, `own_sources` are written by people, and `columns` and `measures` belong to both.
    `joins` counts a join once even if both sources declare it. `relationships` counts inferred joins by status, or is
    None if no scan has profiled the rows.
    """

    sources: int = 0
    columns: int = 0
    own_sources: int = 0
    measures: int = 0
    joins: int = 0
    relationships: Mapping[str, int] | None = None


def counted_by_runs(layout: Layout) -> dict[str, tuple[str, Counts]]:
    """Return the counts from the last run by connection, with the signature of the counted files."""
    try:
        stored = json.loads(read_bytes(_path(layout)) or b"{}")
        kept = stored["connections"].items() if stored.get("format") == FORMAT else ()
        return {name: (counted["signature"], Counts(**counted["counts"])) for name, counted in kept}
    except (ValueError, TypeError, KeyError, AttributeError, KtxError):
        return {}


def counts_of(
    context: CheckContext, connection: str, kept: Mapping[str, tuple[str, Counts]]
) -> tuple[Counts, list[ResultWarning]]:
    """Return the counts for a connection, and warnings about unreadable files."""
    known = kept.get(connection)
    if known is not None and known[0] == _signature(context.layout, connection):
        return known[1], []
    return _counted(context.layout, connection, lambda: context.manifests[connection])


def keep_counts(layout: Layout, config: KtxConfig) -> None:
    """Count changed connections and store the counts. Only for runs, which hold the run lock."""
    kept = counted_by_runs(layout)
    wanted: dict[str, tuple[str, Counts]] = {}
    for connection in config.connections:
        signature = _signature(layout, connection)
        known = kept.get(connection)
        if known is not None and known[0] == signature:
            wanted[connection] = known
            continue
        counts, problems = _counted(layout, connection, functools.partial(load_manifest, layout, connection))
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
    """Return a signature of the state of a connection's files, except decision points, which are not counted."""
    from ktx_cli.scan import DECISIONS

    folder, _ = layout.context_paths(connection)
    signatures = signatures_below(layout.root, folder, SUFFIXES)
    raw = layout.raw_path(connection, DATABASE_SOURCE)
    try:
        with os.scandir(layout.root / raw) as entries:
            for entry in entries:
                if entry.is_file() and entry.name != DECISIONS:
                    stat = entry.stat()
                    signatures[f"{raw}/{entry.name}"] = f"{stat.st_size} {stat.st_mtime_ns}"
    except OSError:
        pass
    return hash_of(f"{path} {signatures[path]}" for path in sorted(signatures))


def _counted(layout: Layout, connection: str, manifest: Callable[[], Manifest]) -> tuple[Counts, list[ResultWarning]]:
    """Return the counts and the warnings, starting with those for the manifest.

    The counts come from the stored layer if it has all files. Otherwise all files are read, starting with `manifest`.
    """
    from ktx_cli.jobs.review import join_status_counts

    problems: list[ResultWarning] = []
    entries = declared_entries(layout, connection)
    if entries is None:
        entries, problems = _read(layout, connection, manifest())
    is_broken = any(each.code == "broken_shard" for each in problems)
    relationships = None if is_broken else join_status_counts(layout, connection, problems.append)
    readable = [each for each in entries if each.path.endswith(SUFFIXES)]
    tables = {each.source: each for each in readable if each.is_generated}
    own = [each for each in readable if not each.is_generated]
    by_source: dict[str, list[DeclaredEntry]] = {}
    for each in (*tables.values(), *own):
        by_source.setdefault(each.source, []).append(each)
    disabled = {_edge(on, each.source) for each in own for on in each.facts.disabled}
    generated = {_edge(on, each.source) for each in tables.values() for on in each.facts.joins}
    declared = {_edge(on, each.source) for each in own for on in each.facts.joins}
    counts = Counts(
        sources=len(tables),
        columns=sum(_different(found, "columns") for found in by_source.values()),
        own_sources=sum(not each.facts.is_overlay for each in own),
        measures=sum(_different(found, "measures") for found in by_source.values()),
        joins=len(generated - disabled | declared),
        relationships=relationships,
    )
    return counts, problems


def _read(layout: Layout, connection: str, manifest: Manifest) -> tuple[list[DeclaredEntry], list[ResultWarning]]:
    """Return the entries in all readable files of a connection, and warnings about the others."""
    from ktx_cli.scan import AuthoredSources

    authored = AuthoredSources.read(WorkingTree(layout.root), connection)
    shard = f"{Layout.schema_path(connection)}/{SUFFIXES[0]}"
    found = [DeclaredEntry.of(shard, source, entry) for source, entry in manifest.tables.items()]
    for source, files in authored.files.items():
        found += [DeclaredEntry.of(file.path, source, file.document) for file in files]
    return found, [*manifest.problems, *authored.warnings]


def _different(entries: Sequence[DeclaredEntry], key: Literal["columns", "measures"]) -> int:
    """Return the number of distinct columns or measures in the entries of one source."""
    naming = [each for each in entries if getattr(each.facts, key)]
    if len(naming) < 2:
        return sum(getattr(each.facts, key) for each in naming)
    return len({name for each in naming for name in declared_names(each.read(), key)})


_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)


def _edge(on: str, source: str) -> Edge:
    """Return the columns that a join compares, in a form that is the same for both directions."""
    return frozenset(frozenset(_full(side, source) for side in pair.split("=")) for pair in _AND.split(on))


def _full(side: str, source: str) -> str:
    name = side.strip()
    return name if "." in name else f"{quoted(source)}.{name}"
