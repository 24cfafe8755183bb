"""Context sources within reach: what their kinds detect in the folder, and services that the environment names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import one_line
from ktx_cli.jobs.setup.detect.files import folders_in, free_id
from ktx_cli.project import SOURCES, KtxConfig, SourceConnection, has_password
from ktx_cli.sources import Folder, SourceKind, detected

_HERE: Final = PurePosixPath(".")
_ADDRESSES: Final = ("api_url", "base_url")


@dataclass(frozen=True, slots=True)
class SourceOffer:
    """A context source that could be connected. `fields`: by `ktx.yaml` key, `driver` left out. `id`: a free one."""

    driver: str
    label: str
    fields: Mapping[str, Any]
    id: str


def source_offers(folder: Path, environ: Mapping[str, str], config: KtxConfig) -> list[SourceOffer]:
    """Return the context sources that `ktx.yaml` does not have yet; nothing is reached, and no file is read."""
    folders = list(folders_in(folder))
    known = [_local(entry, folder) for entry in config.sources().values()]
    services = {entry.driver for entry in config.sources().values()}
    offers: list[SourceOffer] = []
    for offer in _offers(folders, environ):
        path = next((offer.fields[key] for key in ("source_dir", "repoUrl", "path") if key in offer.fields), None)
        if offer.driver in services if path is None else (offer.driver, (folder / path).resolve()) in known:
            continue
        taken = [*config.connections, *(each.id for each in offers)]
        offers.append(SourceOffer(offer.driver, offer.label, offer.fields, free_id(offer.id, taken)))
    return offers


def _local(entry: SourceConnection, folder: Path) -> tuple[str, Path] | None:
    """Return the driver and the folder on this disk that a configured source reads."""
    keys = ("source_dir", "repo_url", "path")
    given = [str(value) for key in keys if (value := getattr(entry, key, None))]
    if not given:
        return None
    try:
        return entry.driver, folder.joinpath(*(Path(each).expanduser() for each in given[:1])).resolve()
    except (OSError, RuntimeError):
        return None


def _offers(folders: list[Folder], environ: Mapping[str, str]) -> Iterator[SourceOffer]:
    """Yield what is in the folders, then what the environment names."""
    kinds: tuple[SourceKind, ...] = SOURCES.all()
    for kind in kinds:
        yield from _in_folders(kind, folders)
    for kind in kinds:
        yield from _of_environment(kind, environ)


def _in_folders(kind: SourceKind, folders: list[Folder]) -> Iterator[SourceOffer]:
    for found in detected(kind, folders):
        place = "in this folder" if found.path == _HERE else f"in {found.path}/"
        label = f"{kind.noun or kind.driver} {place}" + (f", {found.label}" if found.label else "")
        yield SourceOffer(kind.driver, label, found.settings, kind.driver if found.path == _HERE else found.path.name)


def _of_environment(kind: SourceKind, environ: Mapping[str, str]) -> Iterator[SourceOffer]:
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
    yield SourceOffer(kind.driver, label, {**fields, **kind.presets}, kind.driver)


def _is_address(url: str) -> bool:
    """Whether a URL may stand in `ktx.yaml` as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_password(url)
