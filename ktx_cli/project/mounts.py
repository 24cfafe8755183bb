"""Mounts: other projects that a root project reads under its own names, with their own settings and files.

A mounted project keeps its own settings, secrets, row policies, state and git repository; nothing is copied. The root
only adds a name: `finance/warehouse` is the connection `warehouse` of the mount `finance`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core import Command, ConfigError, Hint, KtxError, ResultWarning, SettingPath
from ktx_cli.project.config.file import LoadedConfig, load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import CONFIG_NAME, OWN_NAMES, Layout, boundary

SEPARATOR: Final = "/"
"""Separates a mount name from an id or a key in its project."""


def qualified(mount: Mount | None, name: str) -> str:
    """Return an id or a key as the root names it; the root's own (mount None) are unchanged."""
    return name if mount is None else mount.qualified(name)


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted project that can be read.

    `name`: its name in the root. `path`: its folder, relative to the root's folder. `typed`: its folder, relative to
    the folder in which commands are typed.
    """

    name: str
    path: str
    typed: str
    layout: Layout
    loaded: LoadedConfig

    @property
    def config(self) -> KtxConfig:
        """The settings of the mounted project."""
        return self.loaded.config

    def qualified(self, name: str) -> str:
        """Return an id or a key in this project as the root names it."""
        return f"{self.name}{SEPARATOR}{name}"

    def shown_path(self, path: str) -> str:
        """Return the path of a file in this project, relative to the root's folder."""
        return f"{self.path}/{path}"

    def placed(self, hint: str) -> Hint:
        """Return a hint from this project with commands that run on it."""

        def place(part: str) -> str:
            if isinstance(part, Command) and part.program == "ktx" and "--project-dir" not in part.words:
                return part.with_words("--project-dir", self.typed)
            return part

        return Hint(hint).rewrite(place)

    def warning(self, warning: ResultWarning) -> ResultWarning:
        """Return a warning from this project as the root reports it."""
        hint = None if warning.hint is None else self.placed(warning.hint)
        details = {"mount": self.name, **warning.details}
        message = f"mount `{self.name}`: {warning.message}"
        return ResultWarning(warning.code, message, hint=hint, problem=warning.problem, cause=warning.cause, **details)


@dataclass(frozen=True, slots=True)
class Mounts:
    """A root's mounts, in the order of its `ktx.yaml`. `broken`: name -> why the mount cannot be read."""

    root: Layout
    config: KtxConfig
    usable: Mapping[str, Mount]
    broken: Mapping[str, KtxError]

    def projects(self) -> list[tuple[Mount | None, Layout, KtxConfig]]:
        """Return the root (None) and every readable mount, with their paths and settings."""
        own = (None, self.root, self.config)
        return [own, *((each, each.layout, each.config) for each in self.usable.values())]

    def warnings(self) -> list[ResultWarning]:
        """Return a warning for each mount that cannot be read and is therefore missing from an answer."""
        return [
            ResultWarning("mount_broken", error.message, hint=error.hint, mount=name)
            for name, error in self.broken.items()
        ]

    def split(self, reference: str) -> tuple[Mount | None, str]:
        """Return the mount and the id or key that `finance/warehouse` names; the id is empty for `finance` alone.

        The mount is None for the root itself. Raises the error of a mount that cannot be read.
        """
        name, _, rest = reference.partition(SEPARATOR)
        return (self.find(name), rest) if name in self.config.mounts else (None, reference)

    def split_page(self, key: str) -> tuple[Mount | None, str]:
        """Return the mount and the key of a page or a passage within it; a key without a mount belongs to the root."""
        return self.split(key) if SEPARATOR in key else (None, key)

    def find(self, name: str) -> Mount:
        """Return the mount with a name; raises the error of a mount that cannot be read."""
        if name in self.broken:
            raise self.broken[name]
        return self.usable[name]


def load_mounts(layout: Layout, config: KtxConfig) -> Mounts:
    """Return the projects that a root mounts; an unreadable project does not affect the others."""
    usable: dict[str, Mount] = {}
    broken: dict[str, KtxError] = {}
    taken: dict[str, str] = {}
    for name, path in config.mounts.items():
        try:
            folder = _folder(layout.root, name, path, taken)
            taken[os.path.realpath(folder)] = name
            relative = os.path.normpath(path)
            usable[name] = Mount(name, relative, relative, Layout(folder), _loaded(folder))
        except KtxError as error:
            details = {**error.details, "mount": name}
            broken[name] = ConfigError(f"mount `{name}`: {error.message}", hint=error.hint, details=details)
    return Mounts(layout, config, usable, broken)


def _loaded(folder: Path) -> LoadedConfig:
    try:
        return load_config(folder / CONFIG_NAME)
    except KtxError as error:  # the fix belongs in the mounted project
        error.hint = Command("config", "validate", "--project-dir", folder)
        raise


def mount_folder(root: Path, path: str) -> Path:
    """Return the folder of a mount in the project at `root`; links are not followed."""
    return Path(os.path.normpath(root / path))


def _folder(root: Path, name: str, path: str, taken: Mapping[str, str]) -> Path:
    """Return the folder of a mount; raises `ConfigError` if it cannot be a project beside or below this one."""
    folder = mount_folder(root, path)
    real, own, within = (Path(os.path.realpath(each)) for each in (folder, root, boundary(root)))
    setting = SettingPath(f"mounts.{name}")
    if own == real or own.is_relative_to(real):
        what = "is this project itself" if own == real else "contains this project"
        raise ConfigError(f"{folder} {what}", hint=Hint("correct {}: a mount must be a separate project", setting))
    if real.is_relative_to(own) and real.relative_to(own).parts[0] in OWN_NAMES:
        kept = real.relative_to(own).parts[0]
        hint = Hint("move it, for example to domains/{}, and correct {}", name, setting)
        raise ConfigError(f"{folder} is inside `{kept}`, which contains files of this project", hint=hint)
    if folder.is_relative_to(root) and not real.is_relative_to(within):
        message = f"{folder} goes through a link that points outside the project, to {real}"
        raise ConfigError(message, hint=Hint("set {} to the folder that it points to", setting))
    if str(real) in taken:
        hint = Hint("remove {}", setting)
        raise ConfigError(f"{folder} is already mounted as `{taken[str(real)]}`", hint=hint)
    if not (real / CONFIG_NAME).is_file():
        what = f"{folder} contains no {CONFIG_NAME}" if real.is_dir() else f"the folder {folder} does not exist"
        raise ConfigError(what, hint=Hint("clone the project there, or correct {}", setting))
    return folder
