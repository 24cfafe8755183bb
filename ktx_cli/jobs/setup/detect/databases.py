"""Detects databases and context sources in the folder and in environment variables."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import KtxError, is_device_name, monotonic, one_line, plural
from ktx_cli.project import (
    CONFIG_NAME,
    RAW_NAME,
    RESERVED_IDS,
    SEMANTIC_NAME,
    SOURCES,
    WAREHOUSES,
    WIKI_NAME,
    Connection,
    Database,
    KtxConfig,
    SourceConnection,
    driver_of,
    has_password,
    parse_connection,
    redact_url,
    resolve_options,
)
from ktx_cli.sources import LEFT_OUT, PROJECT_FILES, Folder, SourceKind, detected, topmost
from ktx_cli.warehouses import READERS, ConnectionSpec, source_path, warehouse_of

MAX_DEPTH: Final = 3
"""The depth to which folders are searched."""

MAX_ENTRIES: Final = 10_000
MAX_SECONDS: Final = 0.5
"""Limit for the search in a home folder or on a slow disk; databases beyond the limit are not offered."""

_OWN: Final = frozenset({RAW_NAME, SEMANTIC_NAME, WIKI_NAME})
_OF_DBT: Final = frozenset({"target", "seeds"})
_ENVIRONMENT: Final = "pyvenv.cfg"


def folders_in(root: Path) -> Iterator[Folder]:
    """Yield a folder and its subfolders, nearest first; nothing if it cannot be listed."""
    ends, left = monotonic() + MAX_SECONDS, MAX_ENTRIES
    waiting = deque([PurePosixPath(".")])
    while waiting and left > 0 and monotonic() < ends:
        path = waiting.popleft()
        files, inner = _listed(root / path)
        left -= len(files) + len(inner)
        if _ENVIRONMENT in files:
            continue
        yield Folder(path, tuple(files))
        if len(path.parts) < MAX_DEPTH:
            passed = _passed_over(path, files)
            waiting += [path / name for name in inner if name not in passed]


def _passed_over(path: PurePosixPath, files: list[str]) -> frozenset[str]:
    """Return the names of folders without user data: tool folders, and folders that ktx writes."""
    passed = LEFT_OUT
    if path == PurePosixPath(".") or CONFIG_NAME in files:
        passed |= _OWN
    if any(name in files for name in PROJECT_FILES):
        passed |= _OF_DBT
    return passed


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, sorted; links to folders are not followed."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    except OSError:
        return [], []
    return sorted(files), sorted(folders)


HEAD_BYTES: Final = 64
"""Number of bytes read from a file to detect its database."""
CATALOG_BYTES: Final = 65_536
"""Number of bytes read from a database file to detect whether it is only a catalog."""
MOST_FILES: Final = 20
"""Maximum number of databases to offer; a folder with more of them is some program's cache."""

SEVERAL: Final = 2
"""Minimum number of data files that make a folder a database."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A database to connect. `fields`: by `ktx.yaml` key, without `driver`. `id`: a suggested id."""

    driver: str
    label: str
    fields: Mapping[str, Any]
    id: str


def file_databases(root: Path) -> list[Offer]:
    """Return the databases in a folder, nearest first, then the folders of tables and of data files."""
    folders = list(folders_in(root))
    catalogs = {
        folder.path / name for folder in folders for name in folder.files if _is_catalog(root / folder.path / name)
    }
    single = [
        found for folder in folders for found in _single(root, folder)
        if PurePosixPath(found.fields["path"]) not in catalogs
    ]  # fmt: skip
    lakes, folders = _lakes(root, folders, {path.parent for path in catalogs})
    return [*single[:MOST_FILES], *lakes, *_of_data_files(root, folders)]


def _is_catalog(path: Path) -> bool:
    """Return whether a database file is only a catalog of the tables of another kind of database."""
    if _is_data(path.name) or _kind(path) is None:
        return False
    try:
        with path.open("rb") as stream:
            head = stream.read(CATALOG_BYTES)
    except OSError:
        return False
    return any(each.catalog_mark in head for each in WAREHOUSES.all() if each.catalog_mark)


def _lakes(root: Path, folders: list[Folder], catalogs: Collection[PurePosixPath]) -> tuple[list[Offer], list[Folder]]:
    """Return the folders of tables, and the other folders: files of a table also contain deleted rows.

    `catalogs`: the folders with a catalog of such tables, which therefore contain all of them.
    """
    offers: list[Offer] = []
    tables: set[PurePosixPath] = set()
    for warehouse in WAREHOUSES.all():
        mark = warehouse.table_mark
        if not mark:
            continue
        own = [each.path for each in folders if next((root / each.path).glob(mark), None) is not None]
        deepest = [each.path for each in folders if len(each.path.parts) == MAX_DEPTH and each.path not in own]
        depth = len(PurePosixPath(mark).parts)
        own += [
            PurePosixPath(path.relative_to(root)).parents[depth - 1]
            for each in deepest
            for path in islice((root / each).glob(f"*/{mark}"), MOST_FILES)
        ]
        own = list(dict.fromkeys(own))
        tables.update(own)
        if own:
            path = PurePosixPath(os.path.commonpath([each.parent for each in own]) or ".")
            path = next((each for each in reversed(path.parents) if each in catalogs), path)
            shown = "." if path == PurePosixPath(".") else f"{path}/"
            label = f"folder {shown} with {plural(len(own), f'{warehouse.driver.title()} table')}"
            offers.append(Offer(warehouse.driver, label, {"path": str(path)}, path.name or root.resolve().name))
    return offers, [each for each in folders if tables.isdisjoint([each.path, *each.path.parents])]


def _single(root: Path, folder: Folder) -> Iterator[Offer]:
    for name in folder.files:
        path = folder.path / name
        kind = None if _is_data(name) else _kind(root / path)
        if kind is not None:
            yield Offer(kind[0], f"{kind[1]} file {path}", {"path": str(path)}, path.stem)


def _kind(path: Path) -> tuple[str, str] | None:
    """Return the driver and name of a file's format, according to its first bytes."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError:
        return None
    for warehouse in WAREHOUSES.all():
        signature = warehouse.signature
        if signature is not None and head[signature.offset :].startswith(signature.head):
            return warehouse.driver, signature.name
    return None


def _of_data_files(root: Path, folders: list[Folder]) -> Iterator[Offer]:
    counts = {}
    for folder in folders:  # JSON alone is not data: settings of programs are JSON too
        names = [name for name in folder.files if _is_data(name)]
        if len(names) >= SEVERAL and any(".json" not in Path(name).suffixes for name in names):
            counts[folder.path] = len(names)
    for path in topmost(list(counts)):
        shown = "." if path == PurePosixPath(".") else f"{path}/"
        label = f"folder {shown} with {counts[path]} data files, each a table"
        yield Offer("files", label, {"path": str(path)}, path.name or root.resolve().name)


def _is_data(name: str) -> bool:
    return name.lower().endswith(tuple(READERS))


_LONGEST: Final = 60


def free_id(wanted: str, taken: Collection[str]) -> str:
    """Return a valid, free connection id, as close to `wanted` as possible."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower())[:_LONGEST].strip("-_") or "warehouse"
    if stem in RESERVED_IDS or is_device_name(stem):
        stem = f"{stem}-db"
    used = {each.lower() for each in taken}
    number, name = 2, stem
    while name in used:
        name, number = f"{stem}-{number}", number + 1
    return name


_Place = tuple[str, ...]
"""The identity of a database, regardless of how its settings are written."""


def database_offers(folder: Path, environ: Mapping[str, str], config: KtxConfig) -> list[Offer]:
    """Return the databases that are not in `ktx.yaml` yet: those in the folder, then those in the environment.

    None is opened or reached; only the first bytes of files are read.
    """
    known = {_place(entry, folder, environ) for entry in config.databases().values()}
    offers: list[Offer] = []
    for offer in (*file_databases(folder), *variable_databases(environ)):
        try:
            entry = parse_connection({"driver": offer.driver, **offer.fields})
        except ValueError:  # a variable contains a value that `ktx.yaml` does not accept
            continue
        place = _place(entry, folder, environ)
        if place is None or place in known or (place[0] == "file" and not Path(place[1]).exists()):
            continue
        known.add(place)
        offers.append(_with_free_id(offer, config, offers))
    return offers


def _with_free_id(offer: Offer, config: KtxConfig, offers: list[Offer]) -> Offer:
    return replace(offer, id=free_id(offer.id, [*config.connections, *(each.id for each in offers)]))


def _place(entry: Connection, folder: Path, environ: Mapping[str, str]) -> _Place | None:
    """Return a connection's database; only secrets in the environment are looked up."""
    if not isinstance(entry, Database):
        return None
    try:
        options = resolve_options(entry, project_dir=folder, environ=environ, kinds=("env",))
        warehouse = warehouse_of(entry.driver)
        if warehouse is not None and warehouse.location != "server":
            spec = ConnectionSpec(entry.id, entry.driver, {**options, "project_dir": str(folder)})
            return ("file", str(source_path(spec).resolve()))
    except (KtxError, OSError, RuntimeError):
        return None
    return server_place(options)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S")
_SHOWABLE: Final = re.compile(r"[\w./-]*")
_PURPOSE: Final = re.compile(r"(.+?)_?(?:DATABASE|DB|DWH)?_?(?:URL|URI|DSN|CONN|CONNECTION|CONNECTION_STRING)", re.I)
_GENERIC: Final = frozenset({"database", "db", "pg", "sqlalchemy"})
"""First words of variable names that say nothing about the content; nor do drivers and their schemes."""

_SECRETS: Final = ("password", "token")


def variable_databases(environ: Mapping[str, str]) -> list[Offer]:
    """Return the databases, by variable; a URL and its password stay in their variable."""
    return [*_by_url(environ), *_by_parts(environ)]


def server_place(options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the host, port and database in resolved options; None if that is unclear."""
    address = options.get("host") or options.get("account")
    if options.get("url"):
        scheme, host, port, database = _taken_apart(str(options["url"]))
        return ("server", host, port, database) if host else ("url", scheme, str(options["url"]).strip())
    if not address:
        return None
    port, database = options.get("port") or "", options.get("database") or options.get("http_path") or ""
    return ("server", str(address).lower(), str(port), str(database))


def _by_url(environ: Mapping[str, str]) -> Iterator[Offer]:
    for name in sorted(environ):
        value = environ[name].strip()
        found = _URL.match(value)
        if found is None or not _NAME.fullmatch(name):
            continue
        scheme, host, _, database = _taken_apart(value)
        driver = driver_of(scheme)
        if driver is None or scheme == "file":
            continue
        named = (each for each in WAREHOUSES.all() if scheme in each.schemes and each.hosts)
        driver = next((each.driver for each in named if host.endswith(each.hosts)), driver)
        if value.count("@") > 1 or not _SHOWABLE.fullmatch(host + database):
            host = database = ""  # what looks like them may be part of the password
        stem = database.partition("/")[0] if host else PurePosixPath(database).stem
        place = one_line("/".join(filter(None, (host, database))), 80)
        label = f"{driver}: {place} ({name})" if place else f"{driver}: {name}"
        yield Offer(driver, label, {"url": f"env:{name}"}, _purpose(name) or stem or driver)


def _by_parts(environ: Mapping[str, str]) -> Iterator[Offer]:
    for warehouse in WAREHOUSES.all():
        driver, needed = warehouse.driver, warehouse.variables_needed
        given = {key: name for key, name in warehouse.variables.items() if environ.get(name, "").strip()}
        if not needed or not all(key in given for key in needed):
            continue
        fields = {key: f"env:{name}" if key in _SECRETS else environ[name].strip() for key, name in given.items()}
        place = one_line("/".join(filter(None, (fields[needed[0]], fields.get("database")))), 80)
        yield Offer(driver, f"{driver}: {place} ({given[needed[0]]})", fields, fields.get("database") or driver)


def _taken_apart(url: str) -> tuple[str, str, str, str]:
    """Return the scheme, host, port and database of a URL, each empty if missing, without its password."""
    try:
        parts = urlsplit(redact_url(url.strip()))
        scheme = parts.scheme.lower().partition("+")[0]
        return scheme, (parts.hostname or "").lower(), str(parts.port or ""), parts.path.strip("/")
    except ValueError:
        return url.partition(":")[0].lower().partition("+")[0], "", "", ""


def _purpose(name: str) -> str | None:
    """Return the purpose in a variable name: `ANALYTICS_DATABASE_URL` is for analytics."""
    found = _PURPOSE.fullmatch(name)
    word = found[1].lower() if found else ""
    generic = _GENERIC.union(*((each.driver, *each.schemes) for each in WAREHOUSES.all()))
    return None if word in generic else word or None


_HERE: Final = PurePosixPath(".")
_ADDRESSES: Final = ("api_url", "base_url")


def source_offers(folder: Path, environ: Mapping[str, str], config: KtxConfig) -> list[Offer]:
    """Return the context sources that are not in `ktx.yaml` yet; sends no request and reads no file."""
    folders = list(folders_in(folder))
    known = [_local(entry, folder) for entry in config.sources().values()]
    services = {entry.driver for entry in config.sources().values()}
    offers: list[Offer] = []
    for offer in _offers(folders, environ):
        path = next((offer.fields[key] for key in ("source_dir", "repoUrl", "path") if key in offer.fields), None)
        if offer.driver in services if path is None else (offer.driver, (folder / path).resolve()) in known:
            continue
        offers.append(_with_free_id(offer, config, offers))
    return offers


def _local(entry: SourceConnection, folder: Path) -> tuple[str, Path] | None:
    """Return the driver and the local folder that a configured source reads."""
    keys = ("source_dir", "repo_url", "path")
    given = [str(value) for key in keys if (value := getattr(entry, key, None))]
    if not given:
        return None
    try:
        return entry.driver, folder.joinpath(*(Path(each).expanduser() for each in given[:1])).resolve()
    except (OSError, RuntimeError):
        return None


def _offers(folders: list[Folder], environ: Mapping[str, str]) -> Iterator[Offer]:
    """Yield the finds in the folders, then those in the environment."""
    kinds: tuple[SourceKind, ...] = SOURCES.all()
    for kind in kinds:
        yield from _in_folders(kind, folders)
    for kind in kinds:
        yield from _of_environment(kind, environ)


def _in_folders(kind: SourceKind, folders: list[Folder]) -> Iterator[Offer]:
    for found in detected(kind, folders):
        place = "in this folder" if found.path == _HERE else f"in {found.path}/"
        label = f"{kind.noun or kind.driver} {place}" + (f", {found.label}" if found.label else "")
        yield Offer(kind.driver, label, found.settings, kind.driver if found.path == _HERE else found.path.name)


def _of_environment(kind: SourceKind, environ: Mapping[str, str]) -> Iterator[Offer]:
    given = {
        key: next((name for name in names if environ.get(name, "").strip()), "")
        for key, names in kind.variables.items()
    }
    if not given or not all(given.values()):
        return
    fields = {key: environ[name].strip() if key in _ADDRESSES else f"env:{name}" for key, name in given.items()}
    address = next((fields[key] for key in _ADDRESSES if key in fields), None)
    if address is not None and not _is_address(address):
        return
    place = f" {one_line(address, 80)}" if address else ""
    label = f"{kind.driver.title()}{place} ({next(reversed(given.values()))})"
    yield Offer(kind.driver, label, {**fields, **kind.presets}, kind.driver)


def _is_address(url: str) -> bool:
    """Return whether a URL may be written to `ktx.yaml` unchanged."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_password(url)
