"""Git's configuration as it holds for a repository: the few settings the store has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktx_cli.project.git import Git
from ktx_cli.project.repository.paths import decode


@dataclass(frozen=True, slots=True)
class GitConfig:
    """All settings by their canonical names; `None` is a key without a value, which git reads as true."""

    values: Mapping[str, tuple[str | None, ...]]

    def last(self, name: str) -> str | None:
        """Return the value that counts, or None when it is not set (or has no value)."""
        return self.values.get(name, (None,))[-1]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting; a value that is not boolean counts as the default."""
        if name not in self.values:
            return default
        word = self.values[name][-1]
        if word is None or word.casefold() in ("true", "yes", "on", "1"):
            return True
        if word.casefold() in ("false", "no", "off", "0", ""):
            return False
        return default

    def filters(self) -> frozenset[str]:
        """Return the names of the filter drivers that do anything."""
        names = set()
        for key, values in self.values.items():
            section, _, rest = key.partition(".")
            name, _, setting = rest.rpartition(".")
            if section == "filter" and setting in ("clean", "smudge", "process", "required") and values[-1] != "":
                names.add(name)
        return frozenset(names)


def read_config(git: Git) -> GitConfig:
    """Read the whole configuration: system, global, repository, working tree."""
    values: dict[str, tuple[str | None, ...]] = {}
    for record in git.read("config", "--null", "--list").out.split(b"\0"):
        if record:
            key, line_break, value = record.partition(b"\n")
            name = decode(key)
            values[name] = (*values.get(name, ()), decode(value) if line_break else None)
    return GitConfig(values)
