"""What a source says of tables and columns, written under its own key into the entries of the manifest.

`descriptions.<tool>` of a table's entry and of its columns: found by the table's name, and only where there is such an
entry. What the database's own comment says already is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.context.scan.shards import SUFFIXES, parse_shard
from ktx_cli.context.semantic.interchange.result import Fidelity, Report
from ktx_cli.context.semantic.loading.names import table_parts
from ktx_cli.context.semantic.model import Place
from ktx_cli.context.sources import owned
from ktx_cli.context.sources.pointers import Pointer
from ktx_cli.context.sources.port import ProjectContext
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.layout import Layout
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class TableText:
    """What is said of one table. `parts`: its name, outermost first, without the parts the source does not know.

    `columns`: name -> text. `raw`: the raw file that says it.
    """

    parts: tuple[str, ...]
    raw: str
    description: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The table's name for people."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Described:
    """What was written: as in `Projection`."""

    artifacts: Mapping[str, tuple[str, ...]]
    owned: Mapping[str, Mapping[str, str]]
    report: tuple[Fidelity, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A table's entry: the shard it is in, its name there, the parts of the table's name, and what stands in it."""

    path: str
    name: str
    parts: tuple[str, ...]
    values: Mapping[str, Any]

    def column(self, name: str) -> Mapping[str, Any] | None:
        """Return the column of that name, else the only one that differs in case alone."""
        columns = [each for each in self.values.get("columns") or [] if isinstance(each.get("name"), str)]
        exact = [each for each in columns if each["name"] == name]
        alike = exact or [each for each in columns if each["name"].casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None


class Entries:
    """The entries of a connection's manifest, to be found by the names of their tables."""

    def __init__(self, workspace: Workspace, connection: str) -> None:
        self._by_tail: dict[tuple[str, ...], list[Entry]] = {}
        for path in workspace.paths(f"{Layout.schema_path(connection)}/"):
            content = workspace.read(path) if path.endswith(SUFFIXES) else None
            for name, values in parse_shard(content, path).tables.items() if content is not None else ():
                self._add(path, name, values)

    def _add(self, path: str, name: str, values: Mapping[str, Any]) -> None:
        table = values.get("table")
        try:
            parts = table_parts(table) if isinstance(table, str) else ()
        except ConfigError:
            parts = ()  # `ktx sl validate` says so
        entry = Entry(path, name, parts, values)
        for start in range(len(parts)):
            self._by_tail.setdefault(_folded(parts[start:]), []).append(entry)

    def find(self, parts: Sequence[str]) -> Entry | None:
        """Return the only entry of a table, by as many parts of its name as both sides know; None for none or several.

        A catalog that the manifest leaves out, and a schema that the source leaves out, do not matter. Of several the
        one of exactly that name counts.
        """
        for start in range(len(parts)):
            tail = tuple(parts[start:])
            alike = self._by_tail.get(_folded(tail), [])
            known = [each for each in alike if start == 0 or len(each.parts) == len(tail)]
            spelled = [each for each in known if each.parts[-len(tail) :] == tail] or known
            found = [each for each in spelled if len(each.parts) == len(tail)] or spelled
            if alike:
                return found[0] if len(found) == 1 else None
        return None


def write_texts(context: ProjectContext, tool: str, texts: Mapping[str, Iterable[TableText]]) -> Described:
    """Write what is said of the tables of each connection, and take out what is no longer said.

    The first text of a table, or of a column, is the one that counts.
    """
    report = Report()
    wanted: dict[str, dict[Pointer, str]] = {path: {} for path in context.owned}
    origins: dict[str, set[str]] = {}
    for connection, said in texts.items():
        entries = Entries(context.workspace, connection)
        for text in said:
            _place(entries.find(text.parts), text, tool, connection, report, wanted, origins)
    now_owned: dict[str, Mapping[str, str]] = {}
    for path, items in sorted(wanted.items()):
        applied = owned.apply(context.workspace.read(path), items, context.owned.get(path, {}), where=path)
        _store(context.workspace, path, applied.text)
        if applied.owned:
            now_owned[path] = applied.owned
    artifacts = {path: tuple(sorted(origins[path])) for path in sorted(origins)}
    return Described(artifacts, now_owned, report.sorted())


def _store(workspace: Workspace, path: str, text: bytes | None) -> None:
    if text != workspace.read(path):
        workspace.delete(path) if text is None else workspace.write(path, text)


def _place(
    entry: Entry | None,
    text: TableText,
    tool: str,
    connection: str,
    report: Report,
    wanted: dict[str, dict[Pointer, str]],
    origins: dict[str, set[str]],
) -> None:
    """Note what is wanted of an entry, and what becomes of the text."""
    what, place = f"descriptions of `{text.shown}`", Place(text.raw)
    if entry is None:
        report.dropped(what, f"`{connection}` has no such table, or several", place)
        return
    items: dict[Pointer, str] = {}
    if text.description and not _is_said(entry.values, text.description):
        items["tables", entry.name, "descriptions", tool] = text.description
    for name, said in text.columns.items():
        column = entry.column(name)
        if column is None:
            report.dropped(f"description of `{text.shown}.{name}`", "the table has no such column", place)
        elif not _is_said(column, said):
            items["tables", entry.name, "columns", column["name"], "descriptions", tool] = said
    if items:
        of_file = wanted.setdefault(entry.path, {})
        of_file.update({steps: value for steps, value in items.items() if steps not in of_file})
        origins.setdefault(entry.path, set()).add(text.raw)
        report.kept(what, place, f"{connection}/{entry.name}")


def _is_said(values: Mapping[str, Any], text: str) -> bool:
    """Say whether the database's own comment is this text."""
    said = values.get("descriptions")
    return isinstance(said, Mapping) and str(said.get("db") or "").split() == text.split()


def _folded(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)
