"""Reads a folder of CSV files and writes what they say into the descriptions of tables and columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from ktx_cli.core import SourceError
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.sources import FetchContext, ProjectContext, Projection, Source, TableText, read_folder, write_texts
from ktx_source_example.settings import DictionaryConnection

HEADER = ["column", "description"]


class DictionarySource(Source):
    """A file `orders.csv` describes the table `orders`: a row for each column, and one without a column for itself."""

    kind: ClassVar[str] = "dictionary"

    def fetch(self, entry: DictionaryConnection, context: FetchContext) -> Snapshot:
        """Read and hash the files; they stay where they are."""
        folder = context.layout.root / entry.path
        if not folder.is_dir():
            raise SourceError(
                f"connection `{context.connection}`: folder {folder} does not exist",
                hint=f"set connections.{context.connection}.path to the folder of the CSV files",
            )
        found = read_folder(folder, (".csv",), stopped=context.stopped)
        changed = sum(context.previous.get(path) != file.sha256 for path, file in found.files.items())
        return Snapshot(
            found.files, complete=found.complete, origin=entry.path, fetched=changed, skipped=tuple(found.skipped)
        )

    def folders(self, entry: DictionaryConnection, root: Path) -> Iterable[Path]:
        """Return the folder itself: its files are not copied."""
        return (root / entry.path,)

    def project(self, entry: DictionaryConnection, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write the descriptions under `descriptions.dictionary`, and take out those that are no longer there."""
        texts = [table_text(file) for file in snapshot.files.values()]
        written = write_texts(context, self.kind, {entry.database: texts})
        return Projection(written.artifacts, written.owned, written.report, handled=frozenset(snapshot.files))

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return nothing: the files leave no work for an agent."""
        return ()


def table_text(file: RawFile) -> TableText:
    """Return what a file says; raises `SourceError` for one that is not a data dictionary."""
    header, *rows = list(csv.reader(file.text().splitlines())) or [[]]
    if header != HEADER or any(len(row) != len(HEADER) for row in rows):
        raise SourceError(
            f"{file.path} is not a data dictionary",
            hint=f"the first line is `{','.join(HEADER)}`, and each line has two values",
        )
    texts = {column.strip(): text.strip() for column, text in rows if text.strip()}
    table = tuple(PurePosixPath(file.path).with_suffix("").parts)
    return TableText(table, file.path, texts.pop("", None), texts)
