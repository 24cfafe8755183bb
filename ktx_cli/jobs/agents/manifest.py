"""What was put into the files of clients, with enough to take it out again; nothing that was there before is copied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ktx_cli.core.errors import StorageError
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.agents.edits import Insertion
from ktx_cli.jobs.agents.entries import is_address, is_ktx
from ktx_cli.jobs.agents.staging import remove_empty
from ktx_cli.jobs.agents.targets import CLIENTS, Scope, Target
from ktx_cli.project.files import read_bytes, storage_error, write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import prepare_private_folder


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Placed(_Record):
    """Characters of ours in a file, and where."""

    at: int
    text: str


class Entry(_Record):
    """Our entry in a configuration file.

    `there`: how many of the keys in `container` were there before. `created`: the file is ours. `before`, `after`:
    sha256 of the file without and with the entry; while it has the latter, taking out `placed` restores it.
    """

    path: str
    container: list[str]
    name: str
    value: dict[str, Any]
    there: int
    created: bool
    before: str | None = None
    after: str | None = None
    placed: list[Placed] = []

    @property
    def insertions(self) -> list[Insertion]:
        """What was put in, as the editors have it."""
        return [Insertion(each.at, each.text) for each in self.placed]


class Install(_Record):
    """A client, in one scope. `skills`: the files of its skills, with the sha256 of what was written."""

    target: Target
    scope: Scope
    entry: Entry | None = None
    skills: dict[str, str] = {}

    @model_validator(mode="after")
    def _is_of_ktx(self) -> Self:
        """Refuse an entry that ktx never writes: whoever planted it would have people's own taken out."""
        place = CLIENTS[self.target].places.get(self.scope)
        if self.entry is None or place is None:
            return self
        own = self.entry.container[: len(place.container)] == list(place.container)
        if not own or not (is_ktx(self.entry.value) or is_address(self.entry.value)):
            raise ValueError("the entry is none of ktx's")
        return self


class Manifest(_Record):
    """Everything that is installed from a project. `folders` were made for it, and go when they are empty."""

    version: Literal[1] = 1
    installs: list[Install] = []
    folders: list[str] = []

    def of(self, target: Target, scope: Scope) -> Install | None:
        """Return what is installed of a client in a scope."""
        return next((each for each in self.installs if (each.target, each.scope) == (target, scope)), None)

    def put(self, install: Install) -> None:
        """Keep what is installed now, in the place of what was before."""
        for index, each in enumerate(self.installs):
            if (each.target, each.scope) == (install.target, install.scope):
                self.installs[index] = install
                return
        self.installs.append(install)

    def drop(self, target: Target, scope: Scope) -> None:
        """Forget a client in a scope."""
        self.installs = [each for each in self.installs if (each.target, each.scope) != (target, scope)]

    def skill_files(self) -> Iterator[str]:
        """Yield the files of skills that somebody uses."""
        for install in self.installs:
            yield from install.skills


def load_manifest(layout: Layout) -> Manifest:
    """Return what a project has installed; `StorageError` for a file that is none of ours."""
    path = layout.agents_manifest
    for each in (layout.private, path.parent, path):
        if each.is_symlink():
            raise StorageError(f"{each} is a symbolic link", hint=shell_words("rm", each), details={"path": str(each)})
    content = read_bytes(path)
    if content is None:
        return Manifest()
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise StorageError(
            f"{path} cannot be read: a newer ktx wrote it, or somebody edited it",
            hint=f"upgrade ktx, or move it away: {shell_words('mv', path, path.with_suffix('.old'))}",
            details={"path": str(path)},
        ) from error


def save_manifest(layout: Layout, manifest: Manifest) -> None:
    """Write what is installed; a manifest of nothing is no file."""
    if manifest.installs or manifest.folders:
        prepare_private_folder(layout)
        write_atomic(layout.agents_manifest, manifest.model_dump_json(indent=2).encode() + b"\n", mode=0o600)
    elif layout.agents_manifest.exists():
        try:
            layout.agents_manifest.unlink()
        except OSError as error:
            raise storage_error(layout.agents_manifest, error, "remove") from error
        remove_empty([layout.agents_manifest.parent])


def written(path: Path, project: Path) -> str:
    """Return a path as the manifest has it: relative in the project, which may move, else absolute."""
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def digest(content: bytes | str) -> str:
    """Return the sha256 of a file's contents."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
