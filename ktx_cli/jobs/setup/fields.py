"""The fields of a connection as `ktx.yaml` has them, from the words a person answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import listing
from ktx_cli.jobs.setup.words import DATABASE_WORDS, SOURCE_WORDS, Word
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.drivers import DATABASE_DRIVERS, DRIVERS, model_of


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


def ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection's fields in the one order they are written in, however they were answered: as they are asked.

    What is not asked for comes behind, as the driver's settings have it, and unknown keys as they were given.
    """
    driver = fields["driver"]
    if driver not in DRIVERS:
        return dict(fields)
    words = DATABASE_WORDS if driver in DATABASE_DRIVERS else SOURCE_WORDS
    asked = ["driver", *(key for word in words if (key := key_of(word, driver)) is not None)]
    return _ordered(model_of(driver), fields, asked)


def _ordered(
    block: type[Block] | None, fields: Mapping[str, Any], asked: Sequence[str], above: str = ""
) -> dict[str, Any]:
    declared = {} if block is None else settings_of(block)
    known = [*declared]

    def rank(key: str) -> tuple[int, int]:
        dotted = f"{above}{key}."
        first = next((place for place, each in enumerate(asked) if f"{each}.".startswith(dotted)), len(asked))
        return first, known.index(key) if key in declared else len(known)

    found = {}
    for key in sorted(fields, key=rank):
        value, below = fields[key], declared[key].block if key in declared else None
        nested = isinstance(value, Mapping) and below is not None
        found[key] = _ordered(below, value, asked, f"{above}{key}.") if nested else value
    return found


def put(fields: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key in nested mappings; raises `UsageError` where a key above it is set to something else."""
    *above, name = dotted.split(".")
    for each in above:
        inner = fields.setdefault(each, {})
        if not isinstance(inner, dict):
            raise UsageError(f"`{dotted}` has no place: `{each}` is no mapping", hint="leave one of the two out")
        fields = inner
    fields[name] = value


def read_value(driver: str, dotted: str, text: str, *, where: str) -> Any:
    """Return the value of KEY=VALUE: a secret is the text as it stands, everything else YAML; raises `ConfigError`."""
    setting = declared(driver, dotted) if driver in DRIVERS else None
    return text if setting is not None and setting.secret else yaml.load(text, where=where)


def typed(driver: str, dotted: str, value: Any) -> Any:
    """Return what a person typed as the setting wants it: a port as a number, TLS as true or false."""
    if dotted == "port" and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if dotted in ("ssl", "encrypt") and value in ("true", "false"):
        return value == "true"
    return value
