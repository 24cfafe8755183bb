"""Drawing the tables and joins of a connection, from the manifest in the project's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ktx_cli.core import Command, NotReadyError, ResultWarning, UsageError, listing
from ktx_cli.jobs.review.relationships import WorkingFiles
from ktx_cli.project import KtxConfig, Layout, connection_of, load_config, write_atomic
from ktx_cli.scan import MOST_EDGES, MOST_TEXT, Diagram, Overlays, diagram_of, dot, draw_svg, mermaid
from ktx_cli.semantic import Entry, load_manifest, plain_on, shard_files

WRITERS: Mapping[str, Callable[[Diagram, Path], str]] = MappingProxyType(
    {
        "mermaid": lambda diagram, _: mermaid(diagram),
        "svg": lambda diagram, project_dir: draw_svg(dot(diagram), project_dir=project_dir),
        "dot": lambda diagram, _: dot(diagram),
    }
)
"""Format -> what writes it; it is given the project's folder, whose programs are not run."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A diagram as text, and what is in it."""

    connection: str
    format: str
    text: str
    tables: int
    joins: int
    hidden_columns: int

    def to_json(self, output: Path | None = None) -> dict[str, Any]:
        """Return the JSON-able answer: the text, or the file it was written to."""
        return {
            "connection": self.connection,
            "format": self.format,
            "tables": self.tables,
            "joins": self.joins,
            "hidden_columns": self.hidden_columns,
            "output": None if output is None else str(output),
            "diagram": self.text if output is None else None,
        }


def draw(
    layout: Layout,
    connection: str | None = None,
    *,
    format: str = "mermaid",
    patterns: Sequence[str] = (),
    keys_only: bool = False,
) -> tuple[Drawing, list[ResultWarning]]:
    """Draw a connection's tables as one of `WRITERS`; without an id the only one that was scanned.

    Raises `UsageError` for an unknown id or pattern, `NotReadyError` before the first scan and where Graphviz is
    needed and missing, `KtxError` when it fails.
    """
    loaded = load_config(layout.config)
    chosen = _chosen(layout, loaded.config, connection)
    manifest = load_manifest(layout, chosen)
    overlays = Overlays.read(WorkingFiles(layout.root), chosen)
    tables = {name: _without_disabled(name, entry, overlays) for name, entry in manifest.tables.items()}
    diagram = diagram_of(tables, patterns=patterns, keys_only=keys_only)
    text = WRITERS[format](diagram, layout.root)
    drawing = Drawing(chosen, format, text, len(diagram.entities), len(diagram.edges), diagram.hidden)
    warnings = [*loaded.notices(), *manifest.problems, *overlays.warnings]
    if format == "mermaid":
        warnings += _too_large(drawing)
    return drawing, warnings


def _without_disabled(name: str, entry: Entry, overlays: Overlays) -> Entry:
    """Return the source without the joins that its overlays disable."""
    disabled = {on for file in overlays.of(name) for on in file.disabled}
    joins = entry.get("joins")
    if not disabled or not isinstance(joins, list):
        return entry
    return {**entry, "joins": [join for join in joins if plain_on(join.get("on")) not in disabled]}


def save(drawing: Drawing, path: Path) -> None:
    """Write a drawing into a file, in place of what is there; `StorageError` when that cannot be."""
    write_atomic(path, drawing.text.encode("utf-8", "replace"))


def _chosen(layout: Layout, config: KtxConfig, wanted: str | None) -> str:
    candidates = config.databases()
    if wanted is not None:
        connection_of(config, wanted)
        if wanted not in candidates:
            raise UsageError(
                f"connection `{wanted}` is a context source, not a database", hint=Command("connection", "list")
            )
    scanned = [each for each in ([wanted] if wanted else sorted(candidates)) if shard_files(layout, each)]
    if not scanned:
        message = f"connection `{wanted}` was not scanned yet" if wanted else "no database was scanned yet"
        raise NotReadyError(message, hint=Command("scan", *([wanted] if wanted else [])))
    if len(scanned) > 1:
        raise UsageError(f"which connection: {listing(scanned)}", hint=Command("scan", "diagram", scanned[0]))
    return scanned[0]


def _too_large(drawing: Drawing) -> list[ResultWarning]:
    if len(drawing.text) <= MOST_TEXT and drawing.joins <= MOST_EDGES:
        return []
    size = f"{len(drawing.text):,} characters and {drawing.joins:,} joins"
    limits = f"{MOST_TEXT:,} characters and {MOST_EDGES:,} joins"
    hint = "add --keys-only or --tables PATTERN, or draw it with --format svg"
    return [ResultWarning("large_diagram", f"Mermaid draws at most {limits}, this diagram has {size}", hint=hint)]
