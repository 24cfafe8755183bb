"""The files people write about a connection's sources, beside the generated ones: which joins they disable or make.

An overlay (`name:` of a generated source, neither `table` nor `sql`) takes joins out by `disable_joins`, a list of
their `on`, compared without regard to blanks. A file is known by the `name:` in it, not by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import ConfigError, ResultWarning, file_stem, listing, yaml
from ktx_cli.project import Layout
from ktx_cli.scan.committed import Base
from ktx_cli.semantic import DISABLED, SUFFIXES, plain_on

JoinKey = tuple[str, str]
"""What makes two joins of a source the same: `to`, and `on` with single blanks."""


def join_key(join: Mapping[str, Any]) -> JoinKey:
    """Return what makes a join the same as another one of its source."""
    return str(join.get("to")), plain_on(join.get("on"))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file about a source; `document` is a mapping with a `name`."""

    path: str
    content: bytes
    document: Mapping[str, Any]

    @property
    def is_overlay(self) -> bool:
        """Whether it changes a generated source; else it is a source of its own."""
        return "table" not in self.document and "sql" not in self.document

    @property
    def disabled(self) -> frozenset[str]:
        """The `on` of the joins it disables."""
        listed = self.document.get(DISABLED)
        return frozenset(map(plain_on, listed)) if isinstance(listed, list) else frozenset()

    @property
    def joins(self) -> frozenset[JoinKey]:
        """The joins it makes."""
        listed = self.document.get("joins")
        return frozenset(join_key(each) for each in (listed if isinstance(listed, list) else ()) if _is_join(each))


@dataclass(frozen=True, slots=True)
class Overlays:
    """The files about a connection's sources, by the name of the source; `broken`: path -> why it cannot be read."""

    connection: str
    files: Mapping[str, tuple[SourceFile, ...]]
    broken: Mapping[str, ConfigError]

    @classmethod
    def read(cls, base: Base, connection: str) -> Overlays:
        """Read all of them; one that is no valid YAML is `broken`, one without a name is nobody's."""
        folder, generated = Layout.context_paths(connection)[0], f"{Layout.schema_path(connection)}/"
        below = sorted(base.blobs(folder))
        paths = [path for path in below if path.endswith(SUFFIXES) and not path.startswith(generated)]
        files: dict[str, list[SourceFile]] = {}
        broken: dict[str, ConfigError] = {}
        for path, content in base.read_many(paths).items():
            try:
                document = yaml.load(content, where=path)
            except ConfigError as error:
                broken[path] = error
                continue
            if isinstance(document, dict) and "name" in document:
                files.setdefault(str(document["name"]), []).append(SourceFile(path, content, document))
        return cls(connection, {name: tuple(found) for name, found in files.items()}, broken)

    @property
    def warnings(self) -> list[ResultWarning]:
        """A warning for each file that cannot be read."""
        return [ResultWarning("broken_source", e.message, hint=e.hint, path=path) for path, e in self.broken.items()]

    def of(self, source: str) -> list[SourceFile]:
        """Return the overlays of a source."""
        return [file for file in self.files.get(source, ()) if file.is_overlay]

    def place(self, source: str) -> tuple[str, bytes | None]:
        """Return path and content of a source's overlay, or the path a new one gets, and None.

        Raises `ConfigError` where there is no one file to edit: a source of its own has that name, several overlays
        have, the overlay is broken, or another source's file stands at its path.
        """
        found = self.files.get(source, ())
        for file in found:
            if not file.is_overlay:
                raise _standalone(source, file.path)
        if len(found) > 1:
            paths = listing(file.path for file in found)
            raise ConfigError(f"several files are named `{source}`: {paths}", hint=f"move all into {found[0].path}")
        if found:
            return found[0].path, found[0].content
        path = f"{Layout.context_paths(self.connection)[0]}/{file_stem(source)}.yaml"
        if path in self.broken:
            raise self.broken[path]
        if any(file.path == path for files in self.files.values() for file in files):
            raise ConfigError(
                f"{path} is not about `{source}`, whose overlay it would be",
                hint=f"rename {path}; the `name:` in it decides, not the file's own",
            )
        return path, None


def empty_overlay(source: str) -> bytes:
    """Return an overlay that changes nothing."""
    return yaml.dump({"name": source}).encode()


def disabling(content: bytes | None, source: str, joins: Iterable[Mapping[str, Any]], where: str) -> bytes:
    """Return the overlay that takes joins out of its source: they are disabled, and no longer made by it."""
    from ktx_cli.project import edit

    if content is None:
        content = empty_overlay(source)
    for join in joins:
        content = _without(
            content, ("joins",), [i for i, key in _joins(content, where) if key == join_key(join)], where
        )
        if plain_on(join["on"]) not in {on for _, on in _disabled(content, where)}:
            content = edit.append_value(content, (DISABLED,), str(join["on"]), where=where)
    return content


def enabling(content: bytes, joins: Iterable[Mapping[str, Any]], where: str) -> bytes | None:
    """Return the overlay that leaves joins in; None when nothing is left to say in it."""
    before = content
    for join in joins:
        found = [index for index, on in _disabled(content, where) if on == plain_on(join["on"])]
        content = _without(content, (DISABLED,), found, where)
    if content == before:
        return content
    return None if content == empty_overlay(yaml.load(content, where=where)["name"]) else content


def _without(content: bytes, path: tuple[str | int, ...], indexes: list[int], where: str) -> bytes:
    """Return the text without those items of a list, and without the list when it has no other."""
    if not indexes:
        return content
    from ktx_cli.project import edit, lookup

    _, items = lookup(yaml.load(content, where=where), path)
    if len(items) == len(indexes):
        return edit.delete_value(content, path, where=where)
    return edit.apply(content, [edit.Edit("delete", (*path, i)) for i in sorted(indexes, reverse=True)], where=where)


def _disabled(content: bytes, where: str) -> list[tuple[int, str]]:
    return [(index, plain_on(on)) for index, on in enumerate(_list(content, DISABLED, where))]


def _joins(content: bytes, where: str) -> list[tuple[int, JoinKey]]:
    return [(index, join_key(join)) for index, join in enumerate(_list(content, "joins", where)) if _is_join(join)]


def _list(content: bytes, key: str, where: str) -> list[Any]:
    items = yaml.load(content, where=where).get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        line, column = yaml.locate(content, (key,)) or (1, 1)
        raise ConfigError(f"{where}:{line}:{column}: `{key}` must be a list", hint=f"write {key}: [] there")
    return items


def _is_join(value: Any) -> bool:
    return isinstance(value, dict)


def _standalone(source: str, path: str) -> ConfigError:
    return ConfigError(
        f"{path} is a source of its own named `{source}`, so there is no overlay to disable its joins in",
        hint=f"edit the `joins` in {path} by hand, or rename that source",
    )
