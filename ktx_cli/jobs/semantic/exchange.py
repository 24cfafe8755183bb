"""Reads other tools' semantic models into a project, and writes a project's as OSI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.core import KtxError, PartialError, listing, plural
from ktx_cli.jobs.semantic.choice import the_layer
from ktx_cli.jobs.sql import only_database
from ktx_cli.project import KtxConfig, Layout, connection_of, write_atomic
from ktx_cli.semantic import Fidelity, Kind, Placed, export_osi, import_path, load_layer, place


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an import or export did: every part of the input or the model, and what became of it.

    `placed`: the files of an import, None for an export and for one that was only looked at; `files` are their names.
    `text`: of an export.
    """

    connection: str
    report: Sequence[Fidelity]
    files: Sequence[str] = ()
    placed: Placed | None = None
    text: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many parts were kept, approximated and dropped."""
        found = Counter(item.kind for item in self.report)
        return {kind.value: found[kind] for kind in Kind}

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in an envelope."""
        placed = self.placed
        return {
            "connection": self.connection,
            "counts": self.counts,
            "report": [item.to_json() for item in self.report],
            "files": list(self.files),
            "written": [] if placed is None else list(placed.written),
            "unchanged": [] if placed is None else list(placed.same),
            "left_alone": [] if placed is None else sorted(placed.kept),
            "text": self.text,
        }

    def error(self) -> KtxError | None:
        """Return the error for files of people's own that were left alone."""
        if self.placed is None or not self.placed.kept:
            return None
        kept = sorted(self.placed.kept)
        return PartialError(
            f"{plural(len(kept), 'file')} of yours left alone: {listing(kept)}",
            hint="take the texts from error.details.left_alone of --json, or move the files away and import again",
            details={"left_alone": dict(self.placed.kept)},
        )


def import_model(
    layout: Layout, config: KtxConfig, kind: str, path: Path, *, connection: str | None, dry_run: bool
) -> Exchange:
    """Read a semantic model of another tool into the files of a connection; `dry_run` writes nothing.

    Raises `UsageError` (which connection, no such files), `ConfigError` for files that cannot be read, `StorageError`.
    """
    chosen = connection or only_database(layout, config)
    connection_of(config, chosen)
    imported = import_path(kind, path, load_layer(layout, config, chosen))
    placed = None if dry_run else place(imported, layout, chosen)
    folder = Layout.context_paths(chosen)[0]
    return Exchange(chosen, imported.report, [f"{folder}/{name}" for name in imported.files], placed)


def export_model(layout: Layout, config: KtxConfig, *, connection: str | None, output: Path | None) -> Exchange:
    """Write the semantic layer of a connection as OSI, to a file where one is named.

    Raises `UsageError` (which connection) and `StorageError`.
    """
    chosen = the_layer(layout, config, connection)
    text, report = export_osi(load_layer(layout, config, chosen))
    if output is not None:
        write_atomic(output, text.encode())
    return Exchange(chosen, report, [] if output is None else [str(output)], text=text)
