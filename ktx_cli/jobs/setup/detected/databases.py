"""Databases within reach: files in the folder, and what variables of the environment lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.connectors.paths import source_path
from ktx_cli.connectors.port import ConnectionSpec
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.setup.detected.data_files import file_databases
from ktx_cli.jobs.setup.detected.ids import free_id
from ktx_cli.jobs.setup.detected.variables import server_place, variable_databases
from ktx_cli.project.config import Connection, Database, KtxConfig, resolve_options
from ktx_cli.project.config.drivers import parse_connection

_OF_FILES = ("sqlite", "duckdb", "files")

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
        if entry.driver in _OF_FILES:
            spec = ConnectionSpec(entry.id, entry.driver, {**options, "project_dir": str(folder)})
            return ("file", str(source_path(spec).resolve()))
    except (KtxError, OSError, RuntimeError):
        return None
    return server_place(options)


def _is_there(place: _Place) -> bool:
    return place[0] != "file" or Path(place[1]).exists()
