"""Update a stored layer after file changes by reading only the affected sources again.

A source depends on more than its own files: its joins use the spelling of their targets, it may inherit columns, and
other sources can disable its joins. Cases that the store cannot follow (an unreadable file, a barred source, a file
outside the connection's folder) require reading all files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.project import Layout
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.load.load import Files, model_of, read_file
from ktx_cli.semantic.manifest import DISABLED, is_table_file
from ktx_cli.semantic.model import Model, Source
from ktx_cli.semantic.store.parts import DISABLES, INHERITS, JOINS, is_shard, needs_of, parts_of
from ktx_cli.semantic.store.reader import LayerStore, StoredSources

_USUAL: Final = frozenset((None, "{}", '{"tables": 0}'))
"""The content of a file besides source entries, which is usually nothing. None if there is no file."""

_MOST: Final = 2_000
"""Maximum number of sources to read again one by one; for more, reading all files takes no longer."""


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """The effect of changed files on a stored layer.

    `files`: path -> the parsed file, None for a removed one. `sources`: those that were read again, None for one that
    no longer exists. `subjects`: their names in lower case. `problems`: their problems.
    """

    files: Mapping[str, SourceFile | None] = field(default_factory=dict)
    sources: Mapping[str, Source | None] = field(default_factory=dict)
    subjects: frozenset[str] = frozenset()
    problems: Sequence[Diagnostic] = ()


def changes_of(
    store: LayerStore, changed: Mapping[str, bytes | None], connection: str, dialect: str
) -> LayerChanges | None:
    """Return the effect of changed files on a stored layer, or None if all files must be read to determine it."""
    if store.sealed is not None or store.barred or store.ask("SELECT 1 FROM files WHERE NOT plain LIMIT 1"):
        return None
    files = parsed_files(changed, connection)
    if files is None:
        return None
    reading = _Reading(store, files, connection, dialect)
    subjects = reading.changed_subjects()
    while subjects is not None and len(subjects) <= _MOST:
        model = reading.model(subjects)
        if model.sealed is not None or model.barred:
            return None
        more = subjects | reading.following(subjects, model)
        if more == subjects:
            return reading.result(subjects, model)
        subjects = more
    return None


class _Contents:
    """The contents of changed files, which can be read like a tree."""

    def __init__(self, contents: Mapping[str, bytes | None]) -> None:
        self._contents = contents

    def read(self, path: str) -> bytes | None:
        """Return the content of a file."""
        return self._contents.get(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with a prefix."""
        return [path for path in sorted(self._contents) if path.startswith(prefix)]


def parsed_files(changed: Mapping[str, bytes | None], connection: str) -> dict[str, SourceFile | None] | None:
    """Return path -> the parsed file, or None if it was removed; None instead if a file has a problem of its own."""
    folder = f"{Layout.context_paths(connection)[0]}/"
    found: dict[str, SourceFile | None] = {}
    for path, content in changed.items():
        files = Files()
        if not path.startswith(folder):
            return None
        if content is not None:
            read_file(_Contents(changed), path, connection, files)
        if files.problems:
            return None
        (found[path],) = (*files.shards, *files.own) or (None,)
    return found


@dataclass
class _Reading:
    """The part of a layer that must be read again."""

    store: LayerStore
    files: Mapping[str, SourceFile | None]
    connection: str
    dialect: str
    _new: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    """Lower-case name -> (path, document) of the entries in changed files."""
    _old: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    """Lower-case name -> the previous entries in the changed files."""

    def changed_subjects(self) -> set[str] | None:
        """Return the lower-case names whose entries changed, or None if anything around the entries changed."""
        subjects: set[str] = set()
        for path, file in self.files.items():
            rows = self.store.ask("SELECT number, rest FROM files WHERE path = ?", (path,))
            before = self._entries("file = ?", (rows[0][0],)) if rows else []
            rest, after = (None, []) if file is None else parts_of(file)
            old = rows[0][1] if rows else None
            if (file is not None and rest is None) or (rest != old and not {rest, old} <= _USUAL):
                return None
            texts = {name: text for name, text, _ in after}
            known = {name: text for _, name, text in before}
            subjects |= {name.casefold() for name in texts.keys() | known.keys() if texts.get(name) != known.get(name)}
            for name, _, document in after:
                self._new.setdefault(name.casefold(), []).append((path, document))
            for _, name, text in before:
                self._old.setdefault(name.casefold(), []).append((path, json.loads(text)))
        return subjects

    def following(self, subjects: set[str], model: Model) -> set[str]:
        """Return the names of sources that must be read again because the given ones changed."""
        found: set[str] = set()
        for subject in subjects:
            before, after = self._stored(subject), self._read(subject, model)
            spelled, respelled = ([(each.name, *each.columns) for each in sources] for sources in (before, after))
            if spelled != respelled:
                found |= self._needing(subject, JOINS)
            redeclared = self._declared(self._old, subject) != self._declared(self._new, subject)
            if self._mirrors and (spelled != respelled or redeclared):
                found |= self._needed_by(subject)
            names = {subject, *(each.table[-1].casefold() for each in (*before, *after) if each.table)}
            for name in names:
                found |= self._needing(name, INHERITS)
            if self._disabled(self._old.get(subject, ())) != self._disabled(self._new.get(subject, ())):
                found |= self._needed_by(subject)
        return found

    @functools.cached_property
    def _mirrors(self) -> bool:
        """Whether some joins are only in the file of one of their tables, so that the other depends on that file."""
        paths = (path for (path,) in self.store.ask("SELECT path FROM files"))
        return any(is_shard(path) and is_table_file(path) for path in (*paths, *self.files))

    def _declared(self, entries: Mapping[str, list[tuple[str, Any]]], subject: str) -> list[tuple[bool, Any]]:
        """Return a source's joins in the manifest, and whether it has its own manifest file."""
        found = entries.get(subject, ())
        return [(is_table_file(path), document.get("joins")) for path, document in found if is_shard(path)]

    def _disabled(self, entries: Iterable[tuple[str, Any]]) -> list[Any]:
        return [document.get(DISABLED) for _, document in entries if document.get(DISABLED)]

    def model(self, subjects: set[str]) -> Model:
        """Read the sources with these names, among all that they depend on."""
        around = set(subjects)
        for subject in subjects:
            around |= self._needed_by(subject)
            around |= self._needing(subject, JOINS) if self._mirrors else self._disabling(subject)
        tables: dict[str, dict[str, Any]] = {}
        own: dict[str, SourceFile] = {}
        for path, name, document in self._documents(around):
            if is_shard(path):
                tables.setdefault(path, {})[name] = document
            else:
                own[path] = self._file(path, document)
        shards = [self._file(path, {"tables": tables[path]}) for path in sorted(tables)]
        files = Files(shards, [own[path] for path in sorted(own)])
        return model_of(files, self.connection, self.dialect)

    def result(self, subjects: set[str], model: Model) -> LayerChanges | None:
        """Return the changes to the sources with these names, or None if one of them has an error."""
        problems = [each for each in model.problems if (each.location.object or "").casefold() in subjects]
        if any(each.severity is Severity.ERROR for each in problems):
            return None
        sources: dict[str, Source | None] = {}
        for subject in sorted(subjects):
            sources |= dict.fromkeys((each.name for each in self._stored(subject)), None)
            sources |= {each.name: each for each in self._read(subject, model)}
        stored = StoredSources(self.store)
        renamed = any((source is None) == (name in stored) for name, source in sources.items())
        if renamed and self.store.ask("SELECT 1 FROM problems WHERE is_error LIMIT 1"):
            return None  # the hint of an error may list the sources there are
        return LayerChanges(self.files, sources, frozenset(subjects), problems)

    def _file(self, path: str, document: Any) -> SourceFile:
        changed = self.files.get(path)
        if changed is not None:
            return SourceFile(path, changed.content, document)
        return self.store.paths.unread(path, document)

    def _documents(self, names: set[str]) -> Iterator[tuple[str, str, Any]]:
        """Yield (path, name, document) of the entries with some names, in file order."""
        found: list[tuple[str, int, str, Any]] = []
        numbers: dict[int, str] = dict(self.store.ask("SELECT number, path FROM files"))
        for subject in names:
            query = "SELECT file, number, name, document FROM entries WHERE folded = ?"
            for file, number, name, text in self.store.ask(query, (subject,)):
                if numbers[file] not in self.files:
                    found.append((numbers[file], number, name, json.loads(text)))
        for path, parsed in self.files.items():
            for number, (name, _, document) in enumerate([] if parsed is None else parts_of(parsed)[1]):
                if name.casefold() in names:
                    found.append((path, number, name, document))
        found.sort(key=lambda each: each[:2])
        return ((path, name, document) for path, _, name, document in found)

    def _entries(self, condition: str, values: Sequence[Any]) -> list[tuple[int, str, str]]:
        query = f"SELECT number, name, document FROM entries WHERE {condition} ORDER BY file, number"
        return [(number, name, text) for number, name, text in self.store.ask(query, values)]

    def _stored(self, subject: str) -> list[Source]:
        names = self.store.sources_of("SELECT name FROM sources WHERE folded = ? ORDER BY name", (subject,))
        sources = StoredSources(self.store)
        return [sources[name] for name in names]

    def _read(self, subject: str, model: Model) -> list[Source]:
        return [each for name, each in model.sources.items() if name.casefold() == subject]

    def _needing(self, subject: str, kind: str) -> set[str]:
        """Return the sources that need a source according to its unchanged and changed files."""
        found = set(self.store.sources_of("SELECT owner FROM needs WHERE folded = ? AND kind = ?", (subject, kind)))
        found |= {name for name, need in self._new_needs() if need == (subject, kind)}
        return found

    def _needed_by(self, subject: str) -> set[str]:
        """Return the sources that a source needs."""
        query = "SELECT folded FROM needs WHERE owner = ? AND kind IN (?, ?)"
        found = set(self.store.sources_of(query, (subject, JOINS, INHERITS)))
        found |= {need[0] for name, need in self._new_needs() if name == subject and need[1] in (JOINS, INHERITS)}
        relations = [self.store.sources_of("SELECT folded FROM sources WHERE relation = ?", (each,)) for each in found]
        return found.union(*relations)

    def _disabling(self, subject: str) -> set[str]:
        """Return the sources that join a source and disable some of their joins."""
        disabling = set(self.store.sources_of("SELECT owner FROM needs WHERE kind = ?", (DISABLES,)))
        disabling |= {name for name, need in self._new_needs() if need[1] == DISABLES}
        return {name for name in self._needing(subject, JOINS) if name in disabling}

    def _new_needs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, entries in self._new.items():
            for _, document in entries:
                yield from ((name, need) for need in needs_of(document))


def merged_problems(
    before: Iterable[Diagnostic], subjects: frozenset[str], new: Sequence[Diagnostic]
) -> Iterator[Diagnostic]:
    """Return the problems of a layer in order, with those of some subjects replaced by new ones.

    Lines are only looked up in the files of new problems, because the others are already in order.
    """
    kept = [each for each in before if (each.location.object or "").casefold() not in subjects]
    by_path = {path: list(group) for path, group in groupby(kept, key=lambda each: each.path)}
    for each in new:
        by_path.setdefault(each.path, []).append(each)
    changed = {each.path for each in new}
    for path in sorted(by_path):
        found = by_path[path]
        yield from sorted(found, key=lambda each: (each.line, each.code, each.message)) if path in changed else found
