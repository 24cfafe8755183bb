"""Source deliveries: `raw-sources/<connection>/<kind>/manifest.yaml`, committed with the results of its files.

The next run compares with it, in any clone. A file whose work failed is listed with its status, and counts as new.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, Hint, Record, StorageError, yaml
from ktx_cli.documents import Changes, RawFile, Snapshot
from ktx_cli.project import DATABASE_SOURCE, RAW_NAME, Layout, StateDatabase, Tree, read_bytes, storage_error
from ktx_cli.semantic import is_shard_path

if TYPE_CHECKING:
    from ktx_cli.scan import ReviewedRelationship

NAME: Final = "manifest.yaml"
_HEADER: Final = "# Written by ktx: the files of this source as they were when the context was made from them.\n"
_FORMAT: Final = 1

Steps = tuple[str, ...]
"""The steps of a pointer to an item of a file; see `ktx_cli.sources.ownership`."""

ONLY_DECLARED: Final = ""
"""The digest of a join that a source declares but did not write."""


class FileStatus(StrEnum):
    """The status of a raw file.

    `failed`: its work was not committed, so it counts as new. `waiting`: no model has read it, so it counts as new once
    there is one. `skipped`: it was judged not worth processing.
    """

    DONE = "done"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FileState:
    """A processed raw file. `artifacts`: the results from it, such as `wiki:refunds`, sorted."""

    sha256: str
    status: FileStatus = FileStatus.DONE
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A source's files by path, and the items in project files that the source owns (see `sources.ownership`).

    `projected`: a digest of everything that the last projection read, empty if it must run again. `declared`: path of a
    shard -> pointers of the joins there that the source declares, although a scan inferred them.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    owned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    projected: str = ""
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """Return artifact -> the raw files that it comes from, sorted."""
        found: dict[str, list[str]] = {}
        for path, state in self.files.items():
            for artifact in state.artifacts:
                found.setdefault(artifact, []).append(path)
        return {artifact: tuple(sorted(paths)) for artifact, paths in sorted(found.items())}


def delivery_path(connection: str, kind: str) -> str:
    """Return the path of a source's delivery file."""
    return Layout.raw_path(connection, kind, NAME)


def parse_delivery(content: bytes | None, where: str) -> Delivery:
    """Return the delivery in a file, or an empty one for None. Raises `ConfigError` for an invalid file."""
    if content is None:
        return Delivery()
    document = yaml.load(content, where=where)
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        hint = f"restore it from an earlier commit, or delete {where} to read the whole source again"
        raise ConfigError(f"{where} is not a manifest that this version of ktx can read", hint=hint)
    files = document.get("files") or {}
    owned = document.get("owned") or {}
    try:
        states = {path: _state(value) for path, value in files.items()}
        declared = {path: tuple(map(str, pointers)) for path, pointers in (document.get("declared") or {}).items()}
        return Delivery(states, {**owned}, str(document.get("projected", "")), declared)
    except (AttributeError, KeyError, TypeError, ValueError):
        message = f"{where} contains an entry that is not a file state"
        raise ConfigError(message, hint=f"restore {where} from an earlier commit") from None


def delivery_digest(content: bytes | None) -> str:
    """Return what identifies the content of a delivery file, or its absence."""
    return "none" if content is None else hashlib.sha256(content).hexdigest()


def render_delivery(delivery: Delivery) -> bytes:
    """Return the content of a delivery file; equal states give equal content."""
    document: dict[str, Any] = {
        "version": _FORMAT,
        "files": {path: _entry(delivery.files[path]) for path in sorted(delivery.files)},
    }
    if delivery.owned:
        document["owned"] = {path: dict(sorted(items.items())) for path, items in sorted(delivery.owned.items())}
    if delivery.declared:
        document["declared"] = {path: sorted(pointers) for path, pointers in sorted(delivery.declared.items())}
    if delivery.projected:
        document["projected"] = delivery.projected
    return (_HEADER + yaml.dump(document)).encode()


def compare(delivery: Delivery, snapshot: Snapshot, *, model: bool) -> Changes:
    """Return the changes. `model`: whether a model reads the files. An incomplete snapshot deletes nothing."""
    found: dict[str, list[str]] = {each.name: [] for each in fields(Changes)}
    for path, file in snapshot.files.items():
        found[_change(delivery.files.get(path), file.sha256, model=model)].append(path)
    if snapshot.complete:
        found["deleted"] += [path for path in delivery.files if path not in snapshot.files]
    return Changes(**{name: tuple(sorted(paths)) for name, paths in found.items()})


def _change(state: FileState | None, sha256: str, *, model: bool) -> str:
    """Return the field of `Changes` that a file belongs in, given the state in which it was processed."""
    if state is None:
        return "added"
    if state.sha256 != sha256:
        return "modified"
    if state.status is FileStatus.FAILED:
        return "retried"
    return "unread" if model and state.status is FileStatus.WAITING else "unchanged"


def _state(value: Mapping[str, Any]) -> FileState:
    return FileState(str(value["sha256"]), FileStatus(value.get("status", "done")), tuple(value.get("artifacts") or ()))


def _entry(state: FileState) -> dict[str, Any]:
    entry: dict[str, Any] = {"sha256": state.sha256, "status": state.status.value}
    return entry | ({"artifacts": sorted(state.artifacts)} if state.artifacts else {})


SourceKey = tuple[str, str]
"""A source's connection and kind."""


@dataclass(frozen=True, slots=True)
class FetchState:
    """The cursor of the last committed fetch, and path -> sha256 of its files.

    `projected`: the digest of the last projection's input.
    """

    cursor: str | None = None
    files: Mapping[str, str] | None = None
    projected: str = ""


FetchStates = Mapping[SourceKey, FetchState]
"""(connection, kind) -> the state after its last fetch."""


def load_fetches(database: StateDatabase) -> dict[SourceKey, FetchState]:
    """Return the state of each source after its last fetch."""
    rows = database.execute("SELECT connection, kind, cursor, files, projected FROM fetches").fetchall()
    return {(row[0], row[1]): FetchState(row[2], json.loads(row[3]), row[4]) for row in rows}


@dataclass(frozen=True, slots=True)
class LastFetch(Record):
    """The facts about a source's last fetch that `ktx status` shows. `kind`: as in `raw-sources/`."""

    connection: str
    kind: str
    finished: str
    files: int

    json_keys = ("kind", "finished", "files")


def last_fetches(database: StateDatabase) -> dict[str, LastFetch]:
    """Return connection -> the last committed fetch of its context source, or of its query history."""
    rows = database.execute("SELECT connection, kind, finished, files FROM fetches ORDER BY connection")
    return {connection: LastFetch(connection, kind, at, len(json.loads(files))) for connection, kind, at, files in rows}


_GONE: Final = Hint("the next `{}` fetches it again", Command("ingest"))


class RawStore:
    """Files by sha256. Raises `StorageError` if the disk fails.

    Writes are not synced to disk: after a power cut, content that does not match its name counts as missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, path: str, content: bytes) -> RawFile:
        """Store a file's content and return the file."""
        digest = hashlib.sha256(content).hexdigest()
        place = self._place(digest)
        if self._content(digest) != content:
            self._write(place, content)
        return self._file(path, digest, len(content))

    def discard(self, sha256: str) -> None:
        """Delete stored content, if it exists."""
        place = self._place(sha256)
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(place, error) from error

    def find(self, path: str, sha256: str) -> RawFile | None:
        """Return a file whose content is stored, or None if it is not stored."""
        content = self._content(sha256)
        return None if content is None else self._file(path, sha256, len(content))

    def _file(self, path: str, digest: str, size: int) -> RawFile:
        return RawFile(path, digest, size, lambda: self._read(path, digest))

    def _read(self, path: str, digest: str) -> bytes:
        content = self._content(digest)
        if content is None:
            raise StorageError(f"the copy of {path} in {self._folder} is missing", hint=_GONE)
        return content

    def _content(self, digest: str) -> bytes | None:
        content = read_bytes(self._place(digest))
        return content if content is not None and hashlib.sha256(content).hexdigest() == digest else None

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    @staticmethod
    def _write(place: Path, content: bytes) -> None:
        temporary = place.with_name(f".{secrets.token_hex(8)}")
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            temporary.replace(place)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise storage_error(place, error) from error


def text_of(steps: Steps) -> str:
    """Return a pointer as a string."""
    return ".".join(_pointers_written(step) for step in steps)


def _pointers_written(step: str) -> str:
    return step if (bool(step) and "." not in step and '"' not in step) else '"' + step.replace('"', '""') + '"'


def join_step(join: Mapping[str, Any]) -> str:
    """Return the step that identifies a join among its source's joins."""
    alias = join.get("alias")
    return str(alias) if alias else f"{join.get('to')} on {' '.join(str(join.get('on')).split())}"


def written_items(blobs: Iterable[str], read: Callable[[str], bytes | None]) -> Mapping[str, Mapping[str, str]]:
    """Return path -> pointers and digests of items that sources such as dbt wrote without a model; see `wrote_join`.

    The digest of a join that a source only declares is empty. `blobs`: the paths below `raw-sources/`. Raises
    `ConfigError` for a manifest that cannot be read.
    """
    found: dict[str, dict[str, str]] = {}
    for path in blobs:
        parts = path.split("/")
        if len(parts) == 4 and parts[3] == NAME and parts[2] != DATABASE_SOURCE:
            delivery = parse_delivery(read(path), path)
            for shard, pointers in delivery.declared.items():
                found.setdefault(shard, {}).update(dict.fromkeys(pointers, ONLY_DECLARED))
            for written, items in delivery.owned.items():
                found.setdefault(written, {}).update(items)
    return found


def of_manifest(written: Mapping[str, Mapping[str, str]], connection: str) -> dict[str, str]:
    """Return the items that sources wrote into a connection's manifest, which a scan may have since moved."""
    folder = f"{Layout.schema_path(connection)}/"
    shards = [items for path, items in written.items() if path.startswith(folder)]
    return {pointer: digest for items in shards for pointer, digest in items.items()}


def declared_joins(
    blobs: Iterable[str], read: Callable[[str], bytes | None]
) -> Callable[[str, str, Mapping[str, Any]], str | None]:
    """Return a function that takes the path of a shard, a source and its join, and returns who declares the join.

    That is the connection of a context source such as dbt, or None. Raises the errors of `written_items`.
    """
    blobs = list(blobs)
    names = dict.fromkeys(path.split("/")[1] for path in blobs if path.count("/") == 3)
    written = {name: written_items((path for path in blobs if path.split("/")[1] == name), read) for name in names}

    @functools.cache
    def manifest_items(name: str, connection: str) -> Mapping[str, str]:
        return of_manifest(written[name], connection)

    def declared(shard: str, source: str, join: Mapping[str, Any]) -> str | None:
        pointer = text_of(("tables", source, "joins", join_step(join)))
        connection = shard.split("/")[1] if is_shard_path(shard) else ""
        return next((name for name in written if pointer in manifest_items(name, connection)), None)

    return declared


def without_declared(relationships: Iterable[ReviewedRelationship], tree: Tree) -> list[ReviewedRelationship]:
    """Return relationships without the joins that a scan did not accept, and that a source such as dbt declares."""
    found = list(relationships)
    overruled = [each for each in found if each.is_overruled]
    if not overruled:
        return found
    declared = declared_joins(tree.paths(f"{RAW_NAME}/"), tree.read)
    ends = ((each, each.joins[0]) for each in overruled)
    names = {each.name for each, end in ends if declared(end.shard or "", end.source, end.join) is not None}
    return [each for each in found if each.name not in names]
