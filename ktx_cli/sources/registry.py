"""The kinds of context sources: facts about each that are known without reading it, and a connection's sources.

A kind is the object `SOURCE` in its folder, `ktx_cli/sources/<driver>/__init__.py`, or in an installed package with the
entry point group `ktx.sources`. Only the needed parts are imported: its settings, its detector, its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import WithJsonSchema

from ktx_cli import project
from ktx_cli.core import Command, NotSupportedError, Placeholder, did_you_mean, listing

if TYPE_CHECKING:
    from ktx_cli.sources.port import Source

GIT_TOKEN: Final = "Token for a private repository, as a secret reference."
"""The description of the setting for a git token."""


def _is_web_address(value: str) -> bool:
    return project.is_reference(value) or re.match(r"https?://[^/\s]+", value) is not None


WebAddress = Annotated[
    str,
    project.checked(
        _is_web_address,
        "must be a URL that begins with https:// or http://",
        hint="for example https://bi.example.com",
        of_value=True,
    ),
    WithJsonSchema({"type": "string", "pattern": f"^(?:https?://|{project.REFERENCE_PATTERN})"}),
]


def page_creates() -> Any:
    """Return the setting that limits how many wiki pages a run creates."""
    return project.setting(
        25,
        ("Maximum number of wiki pages that a run may create from this source. The next run continues with the rest."),
        ge=0,
        le=25,
    )


def page_updates() -> Any:
    """Return the setting that limits how many wiki pages a run changes."""
    return project.setting(
        20,
        ("Maximum number of wiki pages that a run may change from this source. The next run continues with the rest."),
        ge=0,
        le=100,
    )


OF_DATABASES: Final = ("query_history",)
"""The folders of sources without a driver, which belong to database connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind(project.Kind):
    """A kind of context source.

    `source`: its class, as `package.module:Name`. `kind`: the name of its raw files, if it differs from the driver.
    `documents`: whether it reads documents, which are searchable. `of_database`: for a source without its own driver,
    returns whether a database connection has it. `package`: the optional module that it needs, which `requirement`
    installs.
    """

    source: str
    kind: str = ""
    documents: bool = False
    of_database: Callable[[project.Database], bool] | None = None
    package: str = ""
    requirement: str = ""

    # What setup detects.
    noun: str = ""
    """The name for what the detector finds, such as `dbt project`."""
    detector: str = ""
    """A function as `package.module:Name` that takes the folders near a project and yields `Detected` objects."""
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Setting -> the environment variables that may contain its value. The source is offered if each has one."""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """Additional settings for a connection offered this way."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder near a project. `path`: relative to the start folder, which is `.`. `files`: the names of its files."""

    path: PurePosixPath
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Detected:
    """A source that a detector found in a folder. `settings`: the settings for a connection to it."""

    path: PurePosixPath
    label: str
    settings: Mapping[str, Any]


def topmost(paths: Sequence[PurePosixPath]) -> list[PurePosixPath]:
    """Return the paths that are not inside another path, in order."""
    return [path for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]


def detected(kind: SourceKind, folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the sources of a kind in folders near a project."""
    if kind.detector:
        yield from project.imported(kind.detector)(folders)


def source_for(driver: str) -> Source:
    """Return the source for a driver.

    Raises `NotSupportedError` for a driver without a source, and `PluginError` for a plug-in that cannot be loaded.
    """
    if driver not in project.SOURCES:
        names = project.SOURCES.names()
        near = did_you_mean(driver, names)
        hint = f"did you mean `{near}`?" if near else f"sources: {listing(names, len(names))}"
        raise NotSupportedError(f"`{driver}` is not a context source that ktx can read", hint=hint)
    source: Source = project.SOURCES.refer(driver, "source")()
    return source


def missing_source_package(driver: str) -> str | None:
    """Return the command that installs the package that a source needs, or None if nothing is missing."""
    from ktx_cli.warehouses import is_installed

    kind: SourceKind | None = project.SOURCES.find(driver) if driver in project.SOURCES else None
    if kind is None or not kind.package or is_installed(kind.package):
        return None
    return Command("install", Placeholder(f"'{kind.requirement}'"), program="pip")


def sources_of(entry: project.Connection) -> tuple[Source, ...]:
    """Return a connection's sources: its driver's source, or those of a database. Raises the errors of `source_for`."""
    if not isinstance(entry, project.Database):
        return (source_for(entry.driver),)
    return tuple(project.imported(kind.source)() for kind in _kinds_of(entry))


def has_source(entry: project.Connection) -> bool:
    """Return whether a connection is a context source, or a database with one, such as its query history."""
    return not isinstance(entry, project.Database) or any(_kinds_of(entry))


def _kinds_of(entry: project.Database) -> Iterator[SourceKind]:
    for name in OF_DATABASES:
        kind: SourceKind = project.imported(f"ktx_cli.sources.{name}:SOURCE")
        if kind.of_database is not None and kind.of_database(entry):
            yield kind
