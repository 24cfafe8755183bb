"""The fields of a connection as `ktx.yaml` has them, from the words a person answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import listing
from ktx_cli.jobs.setup.words import Word
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.drivers import model_of


def declared(driver: str, dotted: str) -> Setting | None:
    """Return the setting a dotted key of a driver names, None where it has none."""
    block: type[Block] | None = model_of(driver)
    found: Setting | None = None
    for key in dotted.split("."):
        found = None if block is None else settings_of(block).get(key)
        if found is None:
            return None
        block = found.block
    return found


def key_of(word: Word, driver: str) -> str | None:
    """Return the dotted key of a word with a driver, None where the driver has nothing of the kind."""
    return next((key for key in word.keys if declared(driver, key) is not None), None)


def fields_of(driver: str, given: Mapping[str, Any], words: tuple[Word, ...], *, flag: str) -> dict[str, Any]:
    """Return a connection's fields as `ktx.yaml` has them, from the values by word.

    `flag`: how the words begin on the command line. Raises `UsageError` for a word that the driver has nothing for.
    """
    fields: dict[str, Any] = {"driver": driver}
    for word in words:
        value = given.get(word.name)
        if value is None or value == []:
            continue
        key = key_of(word, driver)
        if key is None:
            usable = [f"{flag}{each.name}" for each in words if key_of(each, driver) is not None]
            raise UsageError(
                f"the driver `{driver}` takes no {flag}{word.name}", hint=f"it takes {listing(usable, len(usable))}"
            )
        put(fields, key, typed(driver, key, value))
    return fields


def put(fields: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key in nested mappings."""
    *above, name = dotted.split(".")
    for each in above:
        fields = fields.setdefault(each, {})
    fields[name] = value


def typed(driver: str, dotted: str, value: Any) -> Any:
    """Return what a person typed as the setting wants it: a port as a number, TLS as true or false."""
    if dotted == "port" and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if dotted in ("ssl", "encrypt") and value in ("true", "false"):
        return value == "true"
    return value
