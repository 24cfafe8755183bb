"""Keys of a connection that was refused: what it was given by dotted key, and under which key it is wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ktx_cli.core.text import did_you_mean

if TYPE_CHECKING:
    from ktx_cli.project.config.base import Block, Setting


def flat(fields: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return dotted key -> value; what has keys that cannot be written with dots stays one value."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        inner = isinstance(value, dict) and value and all(re.fullmatch(r"[^.=\s]+", str(name)) for name in value)
        found |= flat(value, f"{above}{key}.") if inner else {f"{above}{key}": value}
    return found


def declared_of(driver: Any) -> dict[str, Setting]:
    """Return the settings of a driver by dotted key, blocks too; none for a driver there is none of."""
    from ktx_cli.project.config.drivers import DRIVERS, model_of

    return _declared(model_of(driver)) if driver in DRIVERS else {}


def _declared(model: type[Block], above: str = "") -> dict[str, Setting]:
    from ktx_cli.project.config.base import settings_of

    found: dict[str, Setting] = {}
    for key, setting in settings_of(model).items():
        found[f"{above}{key}"] = setting
        found |= {} if setting.block is None else _declared(setting.block, f"{above}{key}.")
    return found


def setting_at(path: str, declared: Mapping[str, Setting]) -> str:
    """Return the dotted key of the setting in which a path (`include.0`, `metricflow.repoUrl`) lies."""
    keys = path.split(".")
    found = [".".join(keys[:count]) for count in range(len(keys), 0, -1)]
    return next((key for key in found if key in declared), keys[0])


def required(key: str, declared: Mapping[str, Setting], given: Mapping[str, Any]) -> list[str]:
    """Return a key, or where a block is wanted of which nothing is given, the keys in it that must be."""
    if any(name == key or name.startswith(f"{key}.") for name in given):
        return [key]
    return [each for each, one in declared.items() if each.startswith(f"{key}.") and one.field.is_required()] or [key]


def renamed(given: Mapping[str, Any], wanted: list[str], declared: Mapping[str, Setting]) -> dict[str, Any]:
    """Return what was given, under the keys the driver has: `repo_url` as `repoUrl`, `url` as `base_url`.

    `wanted`: the keys one of which is missing. What fits no key stays under its own.
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        taken = {*given, *found}
        free = [each for each in declared if each not in taken and declared[each].block is None]
        found[_meant(key, free, wanted, declared) or key] = value
    return found


def _meant(key: str, free: list[str], wanted: list[str], declared: Mapping[str, Setting]) -> str | None:
    open_ = [each for each in wanted if each in free]
    if key == "path":  # of a repository it is a folder in it; where no repository is named it is the project's own
        folder = next((each for each in open_ if _leaf(each).endswith("_dir")), None)
        if folder is not None:
            return folder
    if key in declared:
        return None
    same = [each for each in free if _folded(_leaf(each)) == _folded(_leaf(key))]
    if same or not open_:
        return same[0] if same else None
    if key == "url":
        return next((each for each in open_ if _leaf(each).lower().endswith("url")), None)
    near = did_you_mean(_leaf(key), [_leaf(each) for each in open_])
    return next((each for each in open_ if _leaf(each) == near), None)


def placeholder(key: str) -> str:
    """Return the word that stands for a value: `REPO_URL` for `metricflow.repoUrl`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _leaf(key)).upper()


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
