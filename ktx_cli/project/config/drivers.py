"""Settings models by driver: those of the registries, and how an entry of `connections` becomes its model."""

from __future__ import annotations

from typing import Any, Final

from ktx_cli.core import Hint, SettingPath, Suggestion, did_you_mean, one_line
from ktx_cli.project.config.base import wrong
from ktx_cli.project.config.connections import Connection
from ktx_cli.project.plugins import SOURCES, WAREHOUSES, PluginError

FOREIGN_DRIVERS: Final = ("athena", "gdrive", "hologres", "jira", "mongodb", "sharepoint", "sigma", "tableau")
"""Drivers of the TypeScript ktx that this program does not have; a connection of one is disabled with a warning."""


def drivers() -> tuple[str, ...]:
    """Return the names of all drivers, those of databases first."""
    return (*WAREHOUSES.names(), *SOURCES.names())


def is_driver(name: str) -> bool:
    """Say whether there is a driver of this name."""
    return name in WAREHOUSES or name in SOURCES


def models() -> dict[str, type[Connection]]:
    """Return the settings models of all drivers that can be used, in the order of `drivers`."""
    return {name: model for name in drivers() if (model := find_model(name)) is not None}


def model_of(driver: str) -> type[Connection]:
    """Return the settings model of one of `drivers`; `PluginError` where a plug-in cannot be used."""
    registry = WAREHOUSES if driver in WAREHOUSES else SOURCES
    model: type[Connection] = registry.refer(driver, "settings")
    return model


def find_model(driver: object) -> type[Connection] | None:
    """Return the settings model of a driver, None for one that is unknown or cannot be used."""
    try:
        return model_of(driver) if isinstance(driver, str) and is_driver(driver) else None
    except PluginError:
        return None


def parse_connection(value: Any) -> Connection:
    """Return the connection by the model of its `driver`.

    A union of all models would build every one of them, a tenth of a second, for files that use two. Raises
    pydantic's errors, which keep their place when raised inside a validator.
    """
    if isinstance(value, Connection):
        return value
    if not isinstance(value, dict):
        raise wrong("must be a mapping with a `driver`", of_value=True)
    driver = value.get("driver")
    if driver is None:
        raise wrong(
            "has no `driver`", hint=Hint("add `{}:` with one of {}", SettingPath("driver"), ", ".join(drivers()))
        )
    if not isinstance(driver, str):
        raise wrong("must be the name of a driver", hint=f"one of {', '.join(drivers())}", key="driver")
    if is_driver(driver):
        try:
            return model_of(driver).model_validate(value)
        except PluginError as error:
            raise wrong(f"cannot be used: {error.message}", hint=error.hint, key="driver") from None
    if driver in FOREIGN_DRIVERS:
        raise wrong(
            f"is `{driver}`, a driver of the TypeScript ktx that this ktx does not support",
            hint="nothing here reads the connection; it may stay in ktx.yaml for the TypeScript ktx",
            key="driver",
        )
    near = did_you_mean(driver, drivers())
    known = f"known: {', '.join(drivers())}"
    raise wrong(
        f"is `{one_line(driver, 60)}`, which is not a driver that ktx knows",
        hint=Hint("did you mean `{}`? {}", Suggestion(near), known) if near else known,
        key="driver",
    )
