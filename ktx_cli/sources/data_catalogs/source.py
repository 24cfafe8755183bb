"""A data catalog's exports as a context source: fetch, declarations, projection, and units for glossary terms."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from ktx_cli.core import CancelledError, ConfigError, Hint, SettingPath, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.sources.data_catalogs.entities import (
    TERM,
    Concept,
    Entities,
    Entity,
    declarations_of,
    entity_in,
    raw_files,
)
from ktx_cli.sources.git import Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

FORMAT: Final = 1
"""Increased when the raw files of the same exports change."""

MAX_EXPORT: Final = 512_000_000
"""The maximum size of an export, in bytes."""

_MOST_BROKEN: Final = 100
"""The maximum number of broken records of an export that a report lists."""
_MOST_OTHERS: Final = 20
"""The maximum number of files with other data that a report lists."""
_MOST_TERMS: Final = 12
"""The maximum number of glossary terms in a unit."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of an export. `problem`: why it cannot be read; `value` is then None. `line`: where it begins."""

    line: int
    value: Any = None
    problem: str = ""


class Reader(Protocol):
    """Collects the entities of a catalog from the records of its exports."""

    def add(self, value: Any) -> bool:
        """Add a record. Return whether it is one of the catalog. Raises `ConfigError` for one that cannot be used."""

    def add_rows(self, path: str, text: str) -> bool:
        """Add a CSV file. Return whether it is one of the catalog. Raises `ConfigError` if it cannot be used."""

    def entities(self) -> Iterable[Entity]:
        """Return the tables, terms and domains of all records."""

    def omitted(self) -> Iterable[Skipped]:
        """Return what is in the records but not among the entities."""


_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = re.compile(r"[\s,]*")


def records(text: str) -> Iterator[Record]:
    """Yield the records of an export: a list, the list of a page (`data`), one record for each line, or a single one.

    After a record that is not valid JSON, the next one begins at the line with the same indentation as the first.
    """
    at = _end_of(_BETWEEN, text, 0)
    is_list = text[at : at + 1] == "["
    at = _end_of(_BETWEEN, text, at + is_list)
    indent = at - text.rfind("\n", 0, at) - 1
    following = re.compile(rf"^[ \t]{{{max(indent, 0)}}}\{{", re.MULTILINE)
    line, counted = 1, 0
    while at < len(text) and text[at] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            problem = "it is nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                place = line + text.count("\n", counted, error.pos)
                problem = f"it is not valid JSON (line {place}: {error.msg})"
            yield Record(line, problem=problem)
            found = following.search(text, at + 1)
            at = len(text) if found is None else found.end() - 1
            continue
        inner = value.get("data") if isinstance(value, dict) else None
        if isinstance(inner, list):
            yield from (Record(line, each) for each in inner)
        else:
            yield Record(line, value)
        at = _end_of(_BETWEEN, text, at)
    if is_list and at >= len(text):
        yield Record(line + text.count("\n", counted), problem="the list has no end: the file is incomplete")


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


@dataclass(frozen=True, slots=True)
class _Read:
    """The number of records of the catalog in a file, its broken records, and whether it has any."""

    count: int
    skipped: Sequence[Skipped] = ()
    is_broken: bool = False


class CatalogSource(Source):
    """The exports of a data catalog in a folder or a git repository. `noun`: the name of the catalog."""

    declares_first: ClassVar[bool] = True
    noun: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")

    @abstractmethod
    def reader(self, entry: Any) -> Reader:
        """Return a reader without records."""

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read all exports, and write a raw file for each entity.

        Raises the errors of `fetch_files`, and `ConfigError` if no file is an export. Broken records are skipped and
        listed. While there are any, the raw files of the last fetch stay, because nothing shows which ones are missing.
        """
        origin = _origin(entry, context)
        exports = fetch_files(origin, context, lambda path: MAX_EXPORT if self._is_export(path) else 0)
        cursor = self._cursor(entry, exports)
        known = _known(context) if cursor == context.cursor else None
        if known:
            return replace(exports, files=known, cursor=cursor, fetched=0)
        reader, skipped, is_whole = self.reader(entry), list(exports.skipped), not exports.skipped
        has_any, broken = False, ""
        for path, file in exports.files.items():
            found = self._read(reader, path, file.read(), context)
            has_any = has_any or bool(found.count)
            skipped += found.skipped
            is_whole = is_whole and not found.is_broken
            if found.is_broken and found.skipped:
                broken = broken or f"{found.skipped[0].what}: {found.skipped[0].reason}"
        if not has_any:
            raise self._lack(origin, exports.origin, broken)
        files: dict[str, RawFile] = {}
        for path, content in raw_files(reader.entities()):
            _check_stopped(context)
            files[path] = context.raw.put(path, content)
        if origin.url:  # The copies of exports in the raw store, which nothing reads.
            for file in exports.files.values():
                context.raw.discard(file.sha256)
        if not is_whole:
            files = _with_known(files, _known(context, partly=True))
        files = dict(sorted(files.items()))
        fetched = sum(context.previous.get(path) != file.sha256 for path, file in files.items())
        return replace(
            exports,
            files=files,
            complete=is_whole,
            cursor=cursor if is_whole else None,
            fetched=fetched,
            skipped=(*_bounded(skipped, f"it contains no metadata of {self.noun}"), *reader.omitted()),
        )

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        origin = _origin(entry, context)

        def lack(place: str, paths: Iterable[str]) -> ConfigError | None:
            reader, broken = self.reader(entry), ""
            for path in filter(self._is_export, paths):
                with (Path(place) / path).open("rb") as file:
                    found = self._read(reader, path, file.read(MAX_EXPORT), context)
                if found.count:
                    return None
                if found.is_broken and found.skipped:
                    broken = broken or f"{found.skipped[0].what}: {found.skipped[0].reason}"
            return self._lack(origin, place, broken)

        return check_files(origin, context, lack)

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the keys, foreign keys and lineage of tables, and the columns that are restricted."""
        return declarations_of(self.kind, _entities(snapshot), entry.databases, entry.restricted_tags)

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write texts, tags, rules and labels of tables, and a page for each glossary term and domain."""
        from ktx_cli.sources.data_catalogs.projection import projected

        return projected(self.kind, self.noun, entry, _entities(snapshot), context)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for the changed terms of each part of the glossary."""
        groups: dict[str, list[str]] = {}
        notes: dict[str, list[str]] = {}
        pages = {raw: path for path, raws in projection.artifacts.items() if path.endswith(".md") for raw in raws}
        for path, file in snapshot.files.items():
            if path not in changes.touched or path in projection.handled:
                continue
            term = entity_in(file.read())
            if isinstance(term, Concept) and term.kind == TERM:
                group = ".".join(term.path)
                groups.setdefault(group, []).append(path)
                page = PurePosixPath(pages[path]).stem if path in pages else ""
                notes.setdefault(group, []).append(
                    f"- {path}: the term `{term.name}`" + (f", page `{page}`" * bool(page))
                )
        return tuple(
            WorkUnit(
                f"{self.kind}-{group or 'glossary'}-{number}" if number else f"{self.kind}-{group or 'glossary'}",
                f"glossary {group}".strip(),
                tuple(paths[start : start + _MOST_TERMS]),
                notes="\n".join(notes[group][start : start + _MOST_TERMS]),
            )
            for group, paths in sorted(groups.items())
            for number, start in enumerate(range(0, len(paths), _MOST_TERMS))
        )

    def _is_export(self, path: str) -> bool:
        return path.lower().endswith(self.suffixes)

    def _cursor(self, entry: Any, exports: Snapshot) -> str:
        """Return a digest of the exports and settings, which raw files depend on."""
        found = hashlib.sha256(f"{FORMAT}\n{self.kind}\n{entry.model_dump_json()}\n".encode())
        found.update("".join(f"{path}\0{file.sha256}\n" for path, file in exports.files.items()).encode())
        found.update(repr([(each.what, each.reason) for each in exports.skipped]).encode())
        return found.hexdigest()

    def _read(self, reader: Reader, path: str, content: bytes, context: FetchContext) -> _Read:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return _Read(0, [Skipped(path, "it is not UTF-8 text")], is_broken=True)
        if path.lower().endswith(".csv"):
            return self._read_rows(reader, path, text)
        count = 0
        broken: list[Skipped] = []
        is_broken = False
        for number, record in enumerate(records(text), start=1):
            _check_stopped(context)
            problem = record.problem
            is_broken = is_broken or bool(problem)
            if not problem:
                try:
                    count += reader.add(record.value)
                except ConfigError as error:
                    problem = error.message
            if problem:
                broken.append(Skipped(f"{path}:{record.line}", f"record {number}: {problem}"))
        if not count and not broken:
            return _Read(0, [Skipped(path, f"it contains no metadata of {self.noun}")])
        if len(broken) > _MOST_BROKEN:
            rest = plural(len(broken) - _MOST_BROKEN, "more record")
            broken = [*broken[:_MOST_BROKEN], Skipped(path, f"{rest} cannot be read")]
        return _Read(count, broken, is_broken or bool(broken))

    def _read_rows(self, reader: Reader, path: str, text: str) -> _Read:
        try:
            found = reader.add_rows(path, text)
        except ConfigError as error:
            return _Read(0, [Skipped(path, error.message)], is_broken=True)
        return _Read(1) if found else _Read(0, [Skipped(path, f"it contains no metadata of {self.noun}")])

    def _lack(self, origin: Origin, place: str, broken: str = "") -> ConfigError:
        """Return the error for a folder without an export. `broken`: the first record that cannot be read, if any."""
        if broken:
            message, hint = f"no export of {self.noun} at {place} can be read: {broken}", "export the metadata again"
            return ConfigError(message, hint=hint)
        message = f"no export of {self.noun} at {place}: it contains no file with metadata of {self.noun}"
        key = "path" if origin.path or not origin.folder else "source_dir"
        return ConfigError(
            message, hint=Hint("set {} to the folder of the exports", SettingPath(f"{origin.where}.{key}"))
        )


def _origin(entry: Any, context: FetchContext) -> Origin:
    return Origin(
        f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
        path=entry.path, token=entry.auth_token_ref,
    )  # fmt: skip


def _known(context: FetchContext, *, partly: bool = False) -> dict[str, RawFile]:
    """Return the raw files of the last fetch, or none if some are no longer stored, unless `partly`."""
    found = {path: context.raw.find(path, sha256) for path, sha256 in context.previous.items()}
    files = {path: file for path, file in found.items() if file is not None}
    return files if partly or len(files) == len(found) else {}


def _with_known(files: Mapping[str, RawFile], known: Mapping[str, RawFile]) -> dict[str, RawFile]:
    """Return the raw files with those of the last fetch that are missing now, or that had more of an entity.

    A record that cannot be read may be the one with the columns of a table.
    """
    found = {**known, **files}
    for path, before in known.items():
        if path in files and files[path].sha256 != before.sha256:
            old, new = json.loads(before.read()), json.loads(files[path].read())
            if old.keys() - new.keys() or len(old.get("columns", ())) > len(new.get("columns", ())):
                found[path] = before
    return found


def _bounded(skipped: Iterable[Skipped], reason: str) -> Iterator[Skipped]:
    """Yield what was skipped, but only some of the files that are skipped for a reason, and how many more there are."""
    count = 0
    for each in skipped:
        count += each.reason == reason
        if each.reason != reason or count <= _MOST_OTHERS:
            yield each
    if count > _MOST_OTHERS:
        yield Skipped(plural(count - _MOST_OTHERS, "more file"), reason)


def _check_stopped(context: FetchContext) -> None:
    if context.stopped():
        raise CancelledError("stopped while reading the source")


def _entities(snapshot: Snapshot) -> Entities:
    return Entities.read((path, file.read()) for path, file in snapshot.files.items())


def detected_exports(folders: Iterable[Folder], signs: re.Pattern[str]) -> Iterator[Detected]:
    """Yield each folder near a project with files whose names look like exports of a catalog."""
    for folder in folders:
        count = sum(signs.search(name.lower()) is not None for name in folder.files)
        if count:
            path = folder.path
            yield Detected(path, plural(count, "file"), {"source_dir": str(path)})


def texts(values: Any) -> list[str]:
    """Return the texts in a list, without repetitions and empty ones; anything else counts as an empty list."""
    found = (str(each).strip() for each in values if isinstance(each, str)) if isinstance(values, list) else ()
    return list(dict.fromkeys(each for each in found if each))
