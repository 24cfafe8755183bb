"""Kinds of connections by name: the warehouses and sources built into ktx, and those added by installed packages.

A kind is a folder with one object that describes everything ktx must know before it connects:
`ktx_cli/warehouses/postgres/__init__.py` has `WAREHOUSE = Warehouse(driver="postgres", ...)`. The package above the
folders lists its own kinds in `BUILT_IN`. An installed distribution adds one with an entry point:

    [project.entry-points."ktx.warehouses"]
    quackbase = "ktx_warehouse_example:WAREHOUSE"

`WAREHOUSES` and `SOURCES` find both by name and import a kind only when it is used: a lower package reaches the
settings model of a driver without importing upwards, and a command only imports the kinds in `ktx.yaml`. Objects that
only an open connection needs are given as text, `package.module:Name`, which `imported` resolves.

Entry points are read once per process, and only if a name is not built in or all kinds are listed: reading them costs
about 20 ms. A plug-in that cannot be loaded raises `PluginError` when it is used and is omitted from lists; a plug-in
with the name of a built-in kind is never used. `Registry.problems` lists both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from ktx_cli.core import Command, ConfigError, Hint, ResultWarning, listing, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel

NAME_PATTERN: Final = r"[a-z][a-z0-9_-]{0,39}"
"""Valid names of plug-ins."""


@dataclass(frozen=True, slots=True)
class Question:
    """A setting that `ktx setup` asks for.

    `word`: the name of the question, and of its flag if ktx has one (`host` for `--database-host`). For a question that
    ktx does not know, the plug-in provides `key` (the dotted key in `ktx.yaml`), `text` and, for a value that is typed
    unseen and kept out of `ktx.yaml`, `secret`. `text` of a question that ktx knows replaces its words. `unless`: an
    earlier question; if it was answered, the wizard skips this one.
    """

    word: str
    required: bool = False
    default: str = ""
    key: str = ""
    text: str = ""
    secret: bool = False
    unless: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What every kind of connection declares: its `driver` in `ktx.yaml`, its settings model, and its setup questions.

    `settings`: the pydantic model, or its location as `package.module:Name`. `schemes`: its URL schemes, the usual one
    first.
    """

    driver: str
    settings: str | type[BaseModel]
    schemes: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()


KindT = TypeVar("KindT", bound=Kind)


class PluginError(ConfigError):
    """An installed plug-in cannot be used; the message names its distribution."""


def imported(reference: Any) -> Any:
    """Return the object that `package.module:Name` refers to; anything but text is the object itself."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


class Registry(Generic[KindT]):
    """The kinds of one group, by driver.

    `name`: the package with `BUILT_IN` and one folder per kind, and the entry point group. `attribute`: the name of the
    kind in its folder. `base` and `model`: the base classes of kinds and of their settings.
    """

    def __init__(self, name: str, *, attribute: str, base: str, model: str) -> None:
        self.group, self._package = f"ktx.{name}", f"ktx_cli.{name}"
        self._attribute, self._base, self._model = attribute, f"{self._package}:{base}", f"ktx_cli.project:{model}"
        self._loaded: dict[str, KindT | PluginError] = {}

    @property
    def built_in(self) -> tuple[str, ...]:
        """Return the names of the built-in kinds, in the order of all lists."""
        return cast(tuple[str, ...], import_module(self._package).BUILT_IN)

    def names(self) -> tuple[str, ...]:
        """Return all names: the built-in ones, then those of plug-ins, sorted."""
        return (*self.built_in, *sorted(self._plugins()))

    def __contains__(self, name: object) -> bool:
        return name in self.built_in if _is_built_in(name) else name in self._plugins()

    def find(self, name: str) -> KindT | None:
        """Return the kind with this name, or None if it is unknown; raises `PluginError` for an unusable plug-in."""
        if name not in self._loaded and name in self:
            self._loaded[name] = self._load(name)
        kind = self._loaded.get(name)
        if isinstance(kind, PluginError):
            raise kind
        return kind

    def all(self) -> tuple[KindT, ...]:
        """Return all usable kinds, in the order of `names`."""
        return tuple(kind for name in self.names() if (kind := self._usable(name)) is not None)

    def refer(self, name: str, field: str) -> Any:
        """Return the object behind a kind's reference: `refer("postgres", "settings")` is its settings model.

        Raises `PluginError` if it cannot be imported from a plug-in.
        """
        reference = getattr(self.find(name), field)
        try:
            return imported(reference)
        except Exception as error:
            if name in self.built_in:
                raise
            raise _broken(self._plugins()[name][0], f"`{field}` refers to {reference}: {_why(error)}") from error

    def problems(self) -> list[ResultWarning]:
        """Return why installed plug-ins are not used: their names are taken, or their packages cannot be loaded."""
        warnings = [
            ResultWarning("plugin", message, hint=_remove(entry))
            for entry in self._entries()
            if (message := _refusal(entry)) is not None
        ]
        for name in sorted(self._plugins()):
            if self._usable(name) is None:
                error = cast(PluginError, self._loaded[name])
                warnings.append(ResultWarning("plugin", error.message, hint=error.hint))
        return warnings

    def _usable(self, name: str) -> KindT | None:
        try:
            return self.find(name)
        except PluginError:
            return None

    def _load(self, name: str) -> KindT | PluginError:
        if name in self.built_in:
            return cast(KindT, imported(f"{self._package}.{name.replace('-', '_')}:{self._attribute}"))
        first, *others = self._plugins()[name]
        if others:
            packages = listing([f"`{_distribution(entry)}`" for entry in (first, *others)])
            return PluginError(f"more than one package adds the driver `{name}`: {packages}", hint=_remove(others[0]))
        try:
            kind = first.load()
            model = imported(kind.settings) if isinstance(kind, Kind) else None
        except Exception as error:  # noqa: BLE001 - whatever a third party's module raises costs its driver alone
            return _broken(first, _why(error))
        if not isinstance(kind, imported(self._base)):
            return _broken(first, f"{first.value} is a {type(kind).__name__}, not a {self._base.replace(':', '.')}")
        if kind.driver != name:
            return _broken(first, f"{first.value} has the driver `{kind.driver}`")
        if not (isinstance(model, type) and issubclass(model, imported(self._model))):
            return _broken(first, f"{kind.settings} is not a subclass of {self._model.replace(':', '.')}")
        return cast(KindT, kind)

    def _entries(self) -> Iterator[EntryPoint]:
        yield from (entry for entry in _entry_points() if entry.group == self.group)

    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """Return the usable entry points by name."""
        plugins: dict[str, list[EntryPoint]] = {}
        for entry in self._entries():
            if _refusal(entry) is None:
                plugins.setdefault(entry.name, []).append(entry)
        return plugins


def _is_built_in(name: object) -> bool:
    return any(name in registry.built_in for registry in (WAREHOUSES, SOURCES))


def _refusal(entry: EntryPoint) -> str | None:
    """Return why a plug-in's name cannot be used, regardless of its code."""
    owner = f"the package `{_distribution(entry)}` adds a driver `{one_line(entry.name, 60)}`"
    if _is_built_in(entry.name):
        return f"{owner}, which is built into ktx; ktx uses the built-in driver"
    if re.fullmatch(NAME_PATTERN, entry.name) is None:
        return f"{owner}, which is not a valid driver name (lowercase letters, digits, `_` and `-`); ktx ignores it"
    return None


@functools.cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of both groups, sorted. They are read once per process."""
    from importlib.metadata import entry_points

    installed = entry_points()
    entries = [*installed.select(group=WAREHOUSES.group), *installed.select(group=SOURCES.group)]
    return tuple(sorted(entries, key=lambda entry: (entry.group, entry.name, _distribution(entry))))


def forget_plugins() -> None:
    """Discard the cached entry points, for a process in which a package was installed."""
    _entry_points.cache_clear()
    for registry in (WAREHOUSES, SOURCES):
        registry._loaded.clear()


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _remove(entry: EntryPoint) -> Command:
    return Command("uninstall", entry.dist.name if entry.dist is not None else entry.value, program="pip")


def _broken(entry: EntryPoint, why: str) -> PluginError:
    message = f"the driver `{entry.name}` of the package `{_distribution(entry)}` cannot be loaded: {why}"
    return PluginError(message, hint=Hint("update the package, or remove it: {}", _remove(entry)))


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {one_line(str(error), 200)}".removesuffix(": ")


WAREHOUSES: Final[Registry[Any]] = Registry("warehouses", attribute="WAREHOUSE", base="Warehouse", model="Database")
"""Databases and folders of data files, each a `ktx_cli.warehouses.Warehouse`."""

SOURCES: Final[Registry[Any]] = Registry("sources", attribute="SOURCE", base="SourceKind", model="SourceConnection")
"""Context sources, each a `ktx_cli.sources.SourceKind`."""
