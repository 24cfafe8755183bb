"""Databases within reach: files in the folder, and those that environment variables lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import KtxError, one_line
from ktx_cli.jobs.setup.detect.files import Found, file_databases, free_id
from ktx_cli.project import (
    WAREHOUSES,
    Connection,
    Database,
    KtxConfig,
    driver_of,
    parse_connection,
    redact_url,
    resolve_options,
)
from ktx_cli.warehouses import ConnectionSpec, source_path, warehouse_of

_Place = tuple[str, ...]
"""What tells two databases apart, however their settings are written."""


@dataclass(frozen=True, slots=True)
class DatabaseOffer:
    """A database that could be connected. `fields`: by `ktx.yaml` key, `driver` left out. `id`: a free one for it."""

    driver: str
    label: str
    fields: Mapping[str, Any]
    id: str


def database_offers(folder: Path, environ: Mapping[str, str], config: KtxConfig) -> list[DatabaseOffer]:
    """Return the databases that `ktx.yaml` does not have yet: those in the folder, then those of the environment.

    None is opened or reached; of files the first bytes are read.
    """
    known = {_place(entry, folder, environ) for entry in config.databases().values()}
    offers: list[DatabaseOffer] = []
    for offer in _found(folder, environ):
        entry = _entry(offer)
        place = None if entry is None else _place(entry, folder, environ)
        if place is None or place in known or not _is_there(place):
            continue
        known.add(place)
        taken = [*config.connections, *(each.id for each in offers)]
        offers.append(DatabaseOffer(offer.driver, offer.label, offer.fields, free_id(offer.id, taken)))
    return offers


def _found(folder: Path, environ: Mapping[str, str]) -> Iterator[DatabaseOffer]:
    for found in (*file_databases(folder), *variable_databases(environ)):
        yield DatabaseOffer(found.driver, found.label, found.fields, found.name)


def _entry(offer: DatabaseOffer) -> Connection | None:
    """Return the connection an offer would become; None where a variable holds what `ktx.yaml` does not take."""
    try:
        return parse_connection({"driver": offer.driver, **offer.fields})
    except ValueError:
        return None


def _place(entry: Connection, folder: Path, environ: Mapping[str, str]) -> _Place | None:
    """Return which database a connection is to; no secret but those of the environment is looked up."""
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


def _is_there(place: _Place) -> bool:
    return place[0] != "file" or Path(place[1]).exists()


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S")
_SHOWABLE: Final = re.compile(r"[\w./-]*")
_PURPOSE: Final = re.compile(r"(.+?)_?(?:DATABASE|DB|DWH)?_?(?:URL|URI|DSN|CONN|CONNECTION|CONNECTION_STRING)", re.I)
_GENERIC: Final = frozenset({"database", "db", "pg", "sqlalchemy"})
"""First words of variables that say nothing of what is in the database; neither do drivers and their schemes."""

_SECRETS: Final = ("password", "token")


def variable_databases(environ: Mapping[str, str]) -> list[Found]:
    """Return the databases, by variable; a URL and its password stay in their variable."""
    return [*_by_url(environ), *_by_parts(environ)]


def server_place(options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return host, port and database that resolved options lead to; None where that is not to be told."""
    address = options.get("host") or options.get("account")
    if options.get("url"):
        scheme, host, port, database = _taken_apart(str(options["url"]))
        return ("server", host, port, database) if host else ("url", scheme, str(options["url"]).strip())
    if not address:
        return None
    port, database = options.get("port") or "", options.get("database") or options.get("http_path") or ""
    return ("server", str(address).lower(), str(port), str(database))


def _by_url(environ: Mapping[str, str]) -> Iterator[Found]:
    for name in sorted(environ):
        value = environ[name].strip()
        found = _URL.match(value)
        if found is None or not _NAME.fullmatch(name):
            continue
        scheme, host, _, database = _taken_apart(value)
        driver = driver_of(scheme)
        if driver is None or scheme == "file":
            continue
        driver = _by_host(scheme, host) or driver
        if value.count("@") > 1 or not _SHOWABLE.fullmatch(host + database):
            host = database = ""  # what is taken for them may be a part of the password
        place = one_line("/".join(filter(None, (host, database))), 80)
        label = f"{driver}: {place} ({name})" if place else f"{driver}: {name}"
        yield Found(driver, label, {"url": f"env:{name}"}, _purpose(name) or _stem(host, database) or driver)


def _by_host(scheme: str, host: str) -> str | None:
    """Return the driver that takes this scheme and is known by the name of the host."""
    named = (each for each in WAREHOUSES.all() if scheme in each.schemes and each.hosts and host.endswith(each.hosts))
    return next((warehouse.driver for warehouse in named), None)


def _by_parts(environ: Mapping[str, str]) -> Iterator[Found]:
    for warehouse in WAREHOUSES.all():
        driver, needed = warehouse.driver, warehouse.variables_needed
        given = {key: name for key, name in warehouse.variables.items() if environ.get(name, "").strip()}
        if not needed or not all(key in given for key in needed):
            continue
        fields = {key: f"env:{name}" if key in _SECRETS else environ[name].strip() for key, name in given.items()}
        place = one_line("/".join(filter(None, (fields[needed[0]], fields.get("database")))), 80)
        yield Found(driver, f"{driver}: {place} ({given[needed[0]]})", fields, fields.get("database") or driver)


def _taken_apart(url: str) -> tuple[str, str, str, str]:
    """Return scheme, host, port and database of a URL, each empty where it has none; its password is nowhere."""
    try:
        parts = urlsplit(redact_url(url.strip()))
        scheme = parts.scheme.lower().partition("+")[0]
        return scheme, (parts.hostname or "").lower(), str(parts.port or ""), parts.path.strip("/")
    except ValueError:
        return url.partition(":")[0].lower().partition("+")[0], "", "", ""


def _stem(host: str, database: str) -> str:
    """Return the name of a database: on a server the first part of its path, else that of the file."""
    return database.partition("/")[0] if host else PurePosixPath(database).stem


def _purpose(name: str) -> str | None:
    """Return what a variable says its database is for: `ANALYTICS_DATABASE_URL` is for analytics."""
    found = _PURPOSE.fullmatch(name)
    word = found[1].lower() if found else ""
    generic = _GENERIC.union(*((each.driver, *each.schemes) for each in WAREHOUSES.all()))
    return None if word in generic else word or None
