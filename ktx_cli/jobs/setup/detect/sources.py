"""Context sources within reach: dbt projects, LookML and documents in the folder, BI tools of the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import one_line, plural
from ktx_cli.jobs.setup.detect.files import DBT_FILES, Folder, folders_in, free_id, topmost
from ktx_cli.project import KtxConfig, Source, has_password
from ktx_cli.sources import is_lookml

_HERE: Final = PurePosixPath(".")
_LOOKML_ROOTS: Final = ("manifest.lkml", "manifest.lookml")

DOCUMENT_FOLDERS: Final = (
    "docs", "doc", "documentation", "handbook", "handbooks", "guide", "guides", "manual", "manuals", "wiki", "kb",
    "knowledge", "knowledge-base", "knowledge_base", "notes", "policies", "playbooks", "runbooks", "glossary",
)  # fmt: skip
"""Names of folders that people keep documents in."""

SEVERAL: Final = 2
"""How many pages make a folder one of documents."""

_MARKDOWN: Final = (".md", ".markdown")
_OF_SOFTWARE: Final = (
    "readme", "changelog", "contributing", "license", "code_of_conduct", "security", "agents", "claude",
)  # fmt: skip
"""Pages about a repository, not about a business."""

_SERVICES: Final[tuple[tuple[str, Mapping[str, tuple[str, ...]], Mapping[str, str]], ...]] = (
    ("metabase", {"api_url": ("METABASE_URL",), "api_key": ("METABASE_API_KEY",)}, {}),
    (
        "looker",
        {
            "base_url": ("LOOKERSDK_BASE_URL", "LOOKER_BASE_URL"),
            "client_id": ("LOOKERSDK_CLIENT_ID", "LOOKER_CLIENT_ID"),
            "client_secret": ("LOOKERSDK_CLIENT_SECRET", "LOOKER_CLIENT_SECRET"),
        },
        {},
    ),
    ("notion", {"auth_token": ("NOTION_TOKEN", "NOTION_API_KEY")}, {"crawl_mode": "all_accessible"}),
)
"""Driver, the variables of each field it cannot do without, and what else its connection needs to read anything."""

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
    for offer in (*_dbt(folders), *_lookml(folders), *_documents(folders), *_services(environ)):
        path = next((offer.fields[key] for key in ("source_dir", "repoUrl", "path") if key in offer.fields), None)
        if offer.driver in services if path is None else (offer.driver, (folder / path).resolve()) in known:
            continue
        taken = [*config.connections, *(each.id for each in offers)]
        offers.append(SourceOffer(offer.driver, offer.label, offer.fields, free_id(offer.id, taken)))
    return offers


def _local(entry: Source, folder: Path) -> tuple[str, Path] | None:
    """Return the driver and the folder on this disk that a configured source reads."""
    keys = ("source_dir", "repo_url", "path")
    given = [str(value) for key in keys if (value := getattr(entry, key, None))]
    if not given:
        return None
    try:
        return entry.driver, folder.joinpath(*(Path(each).expanduser() for each in given[:1])).resolve()
    except (OSError, RuntimeError):
        return None


def _dbt(folders: list[Folder]) -> Iterator[SourceOffer]:
    projects = [folder.path for folder in folders if any(name in folder.files for name in DBT_FILES)]
    for path in topmost(projects):
        yield SourceOffer("dbt", f"dbt project {_shown(path)}", {"source_dir": str(path)}, _id(path, "dbt"))


def _lookml(folders: list[Folder]) -> Iterator[SourceOffer]:
    counts = {folder.path: sum(map(is_lookml, folder.files)) for folder in folders}
    having = [path for path, count in counts.items() if count]
    if not having:
        return
    roots = [folder.path for folder in folders if any(name in folder.files for name in _LOOKML_ROOTS)]
    for path in topmost(roots) or [_common(having)]:
        count = sum(count for each, count in counts.items() if each.is_relative_to(path))
        label = f"LookML {_shown(path)}, {plural(count, 'file')}"
        yield SourceOffer("lookml", label, {"repoUrl": str(path)}, _id(path, "lookml"))


def _documents(folders: list[Folder]) -> Iterator[SourceOffer]:
    pages = {folder.path: sum(map(_is_page, folder.files)) for folder in folders}
    named = [path for path in pages if path.name.lower() in DOCUMENT_FOLDERS]
    for path in topmost(named):
        count = sum(count for each, count in pages.items() if each.is_relative_to(path))
        if count >= SEVERAL:
            label = f"documents {_shown(path)}, {plural(count, 'Markdown file')}"
            yield SourceOffer("documents", label, {"path": str(path)}, path.name)


def _services(environ: Mapping[str, str]) -> Iterator[SourceOffer]:
    for driver, variables, more in _SERVICES:
        given = {
            key: next((name for name in names if environ.get(name, "").strip()), "") for key, names in variables.items()
        }
        if not all(given.values()):
            continue
        fields = {key: environ[name].strip() if key in _ADDRESSES else f"env:{name}" for key, name in given.items()}
        address = next((fields[key] for key in _ADDRESSES if key in fields), None)
        if address is not None and not _is_address(address):
            continue
        place = f" {one_line(address, 80)}" if address else ""
        yield SourceOffer(
            driver, f"{driver.title()}{place} ({next(reversed(given.values()))})", {**fields, **more}, driver
        )


def _is_address(url: str) -> bool:
    """Whether a URL may stand in `ktx.yaml` as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_password(url)


def _is_page(name: str) -> bool:
    path = PurePosixPath(name.lower())
    return path.suffix in _MARKDOWN and path.stem not in _OF_SOFTWARE


def _common(paths: list[PurePosixPath]) -> PurePosixPath:
    """Return the folder that all are in."""
    return next(each for each in (paths[0], *paths[0].parents) if all(path.is_relative_to(each) for path in paths))


def _id(path: PurePosixPath, driver: str) -> str:
    return driver if path == _HERE else path.name


def _shown(path: PurePosixPath) -> str:
    return "in this folder" if path == _HERE else f"in {path}/"
