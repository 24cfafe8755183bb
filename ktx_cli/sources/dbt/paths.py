"""The files of a dbt project: those in the folders that its `dbt_project.yml` names, with dbt's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import ConfigError, yaml
from ktx_cli.sources.git import MAX_BYTES, Guided, Wanted

CREDENTIALS: Final = "profiles"
"""Stem of the file that may hold passwords of databases: it is never read."""

YAML: Final = (".yml", ".yaml")
DOCS: Final = ".md"

PROJECT_FILES: Final = ("dbt_project.yml", "dbt_project.yaml")
"""One of these makes a folder a dbt project."""

_README: Final = "README.md"
_DEFINITIONS: Final[Mapping[str, str]] = {
    "model-paths": "models",
    "seed-paths": "seeds",
    "snapshot-paths": "snapshots",
    "macro-paths": "macros",
    "analysis-paths": "analyses",
    "test-paths": "tests",
    "function-paths": "functions",
}
"""Setting -> dbt's default."""

_FORMER: Final[Mapping[str, str]] = {"model-paths": "source-paths", "seed-paths": "data-paths"}
"""Setting -> its name before dbt 1.0."""

_WRITTEN: Final[Mapping[str, str]] = {
    "target-path": "target",
    "packages-install-path": "dbt_packages",
    "log-path": "logs",
}
"""Setting -> default, of the folders dbt itself writes to."""


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """The folders of one dbt project. `root`: its own, in the source; all others are relative to it.

    `definitions`, `docs`: folders that hold YAML and Markdown; the empty one is the whole project. `written`: folders
    that dbt writes.
    """

    root: str
    definitions: tuple[str, ...] = ("",)
    docs: tuple[str, ...] = ()
    written: tuple[str, ...] = tuple(_WRITTEN.values())

    @classmethod
    def of(cls, path: str, content: bytes) -> ProjectPaths:
        """Return what a `dbt_project.yml` says; of one that cannot be read, the whole folder is the project."""
        root = _folder(path)
        try:
            settings = yaml.load(content, where=path)
        except ConfigError:  # reading the project reports it
            return cls(root)
        if not isinstance(settings, dict):
            return cls(root)
        definitions = tuple(
            each
            for key, default in _DEFINITIONS.items()
            for each in _paths(settings.get(key, settings.get(_FORMER.get(key, key))), default)
        )
        docs = _paths(settings.get("docs-paths"), None)
        written = tuple(each for key, default in _WRITTEN.items() for each in _paths(settings.get(key), default))
        return cls(root, definitions, docs, tuple(each for each in written if each))

    def inner(self, path: str) -> str | None:
        """Return a path as the project has it, None where it is not in the project."""
        if not self.root:
            return path
        return path.removeprefix(f"{self.root}/") if path.startswith(f"{self.root}/") else None

    def writes(self, inner: str) -> bool:
        """Whether dbt itself wrote a file."""
        return any(_is_below(inner, folder) for folder in self.written)

    def names(self, inner: str) -> bool:
        """Whether the settings name the folder of a file; the project's README explains it and belongs to it too."""
        folders = (*self.definitions, *self.docs) if inner.endswith(DOCS) else self.definitions
        return inner in (*PROJECT_FILES, _README) or any(_is_below(inner, folder) for folder in folders)


def project_files(suffixes: tuple[str, ...], limits: Mapping[str, int] | None = None) -> Guided:
    """Return how to choose the files of dbt projects: those of `suffixes`, and `limits` (path -> bytes).

    Hidden files are left out. A folder without a `dbt_project.yml` is taken whole.
    """

    def chosen(guides: Mapping[str, bytes]) -> Wanted:
        projects = _projects(guides)

        def wanted(path: str) -> int:
            if limits is not None and path in limits:
                return limits[path]
            place = PurePosixPath(path)
            if place.suffix not in suffixes or place.stem == CREDENTIALS or place.name.startswith("."):
                return 0
            return MAX_BYTES if _belongs(path, projects) else 0

        return wanted

    return Guided(lambda path: PurePosixPath(path).name in PROJECT_FILES, chosen)


def _projects(guides: Mapping[str, bytes]) -> list[ProjectPaths]:
    """Return the projects, the innermost first, without those of packages that dbt installed."""
    found = [ProjectPaths.of(path, content) for path, content in sorted(guides.items())]
    own = [
        each
        for each in found
        if not any(
            other is not each and (inner := other.inner(f"{each.root}/")) is not None and other.writes(inner)
            for other in found
        )
    ]
    return sorted(own, key=lambda each: (-each.root.count("/"), -len(each.root), each.root))


def _belongs(path: str, projects: list[ProjectPaths]) -> bool:
    if not projects:
        return not _is_below(path, "target")
    for project in projects:
        inner = project.inner(path)
        if inner is not None:
            return project.names(inner) and not project.writes(inner)
    return False


def _paths(value: Any, default: str | None) -> tuple[str, ...]:
    """Return folders in one form; what only dbt can work out (Jinja) may be any folder of the project."""
    if value is None:
        return () if default is None else (default,)
    listed = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    return tuple("" if "{{" in each else _plain(each) for each in listed)


def _plain(path: str) -> str:
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    return "/".join(parts)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
