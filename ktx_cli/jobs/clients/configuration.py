"""A client's configuration file: its text, its entries, and the editor of its format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.core import ConfigError, KtxError
from ktx_cli.jobs.clients import json_edit, toml_edit
from ktx_cli.jobs.clients.json_edit import Editor, taken_back
from ktx_cli.jobs.clients.manifest import (
    Entry,
    Install,
    Manifest,
    Placed,
    digest,
    folder_of,
    is_ktx,
    is_of,
    load_manifest,
    written,
)
from ktx_cli.jobs.clients.staging import Staging
from ktx_cli.jobs.clients.targets import CLIENTS, Client, Scope, Target, Where
from ktx_cli.project import Layout


@dataclass(slots=True)
class Configuration:
    """A configuration file as it will be. `shown`: its path in the manifest. `text`: None where it is not there."""

    path: Path
    shown: str
    target: Target
    scope: Scope
    container: tuple[str, ...]
    text: str | None

    @property
    def client(self) -> Client:
        """The client the file is of."""
        return CLIENTS[self.target]

    @property
    def editor(self) -> Editor:
        """The editor of the file's format."""
        return toml_edit if self.client.toml else json_edit

    @property
    def entries(self) -> dict[str, Any]:
        """The servers the file names; `ConfigError` where it cannot be read."""
        return self.editor.entries(self.text or "", self.container, str(self.path))

    def put(self, name: str, value: dict[str, Any]) -> Entry:
        """Add an entry, and return what takes it out again."""
        before = self.text
        edited = self.editor.add(before or "", self.container, name, value, str(self.path))
        self.text = edited.text
        return Entry(
            path=self.shown,
            container=list(self.container),
            name=name,
            value=value,
            there=edited.there,
            created=before is None,
            before=None if before is None else digest(before),
            after=digest(self.text),
            placed=[Placed(at=each.at, text=each.text) for each in edited.insertions],
        )

    def take(self, entry: Entry) -> None:
        """Take an entry out: the file as it was before, where nothing else changed since; else the entry alone."""
        if self.text is None:
            return
        if digest(self.text) == entry.after:
            text = taken_back(self.text, entry.insertions)
            if text is not None and (entry.before is None or digest(text) == entry.before):
                self.text = None if entry.created and not self.path.is_symlink() and not text else text
                return
        self._cut(entry)

    def _cut(self, entry: Entry) -> None:
        text = self.editor.remove(self.text or "", tuple(entry.container), entry.name, entry.there, str(self.path))
        self.text = None if entry.created and not self.path.is_symlink() and self.editor.is_blank(text) else text

    def peers(self, project: Path) -> Iterator[tuple[Install, list[str]]]:
        """Yield what other projects of this user have installed into the same file, with the folders they made."""
        if self.scope is not Scope.USER:
            return
        for value in self.entries.values():
            folder = folder_of(value) if is_ktx(value) else None
            manifest = None if folder is None or is_of(value, self.scope, project) else _manifest_of(folder)
            install = manifest.of(self.target, self.scope) if manifest else None
            if manifest and install and install.entry and install.entry.path == self.shown:
                yield install, manifest.folders


def _manifest_of(project: Path) -> Manifest | None:
    """Return what another project has installed, None where that is not known: its files are left alone then."""
    try:
        return load_manifest(Layout(project))
    except KtxError:
        return None


def read_configuration(
    target: Target, scope: Scope, where: Where, staging: Staging, recorded: Entry | None = None
) -> Configuration | None:
    """Return a client's configuration, None for one that has no such file; `ConfigError` for what is not UTF-8.

    `recorded`: the file that has this entry, among those the client looks at.
    """
    place = CLIENTS[target].places[scope]
    candidates = {written(path, where.project): path for path in where.configs(place)}
    path = where.config(place) if recorded is None else candidates.get(recorded.path)
    if path is None:
        return None
    content = staging.read(path)
    text = None if content is None else _decoded(path, content)
    found = Configuration(path, written(path, where.project), target, scope, place.container, text)
    if recorded is not None:
        found.container = tuple(recorded.container)
        return found
    if target is Target.OPENCODE and _has_inner_servers(found):
        found.container = (*place.container, "servers")
    return found


def _has_inner_servers(configuration: Configuration) -> bool:
    """Say whether an opencode file has its servers one level deeper, as its version 2 writes them."""
    inner = configuration.entries.get("servers")
    return isinstance(inner, dict) and "type" not in inner and all(isinstance(each, dict) for each in inner.values())


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text",
            hint=f"save {path} as UTF-8, then run the command again; nothing was written",
            details={"path": str(path)},
        ) from error
