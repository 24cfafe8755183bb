"""The reference of every setting, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.project.config.base import settings_of
from ktx_cli.project.config.connections import Database
from ktx_cli.project.config.drivers import DATABASE_DRIVERS, SOURCE_DRIVERS, model_of
from ktx_cli.project.config.reference import Entry, driver_entries, root_entries
from ktx_cli.project.config.schema import block_properties

_INTRO = """\
# `ktx.yaml`

Every setting is optional unless it says required. A text may be a secret reference: `env:NAME`, `file:PATH` (`~`, or
relative to the project), `keyring:SERVICE/NAME`. Keys that ktx does not know are kept and warned about.

The file is YAML 1.2. An alias (`*name`) may stand for any whole value. There are no merge keys: a `<<` is refused.

Status: *used*, *later* (parsed, without effect in this version), *no effect* (a setting of other versions).
"""

_STATUS = {"used": "used", "later": "later", "dead": "no effect"}


def settings_table() -> str:
    """Return the reference: a table for each block and for each driver."""
    lines = [_INTRO]
    for block, entries in groupby(root_entries(), key=lambda entry: entry.keys[0]):
        lines += [f"## `{block}`", "", *_table(entries), ""]
    lines += ["## `connections.<id>`", ""]
    lines += [
        "An id begins with a letter or a digit and has letters, digits, `_` and `-`. It is no subcommand's name, and"
    ]
    lines += ["two ids differ in more than case. `driver` is required.", ""]
    lines += ["### Every database", "", *_table(_shared()), ""]
    for heading, drivers in (("Databases", DATABASE_DRIVERS), ("Context sources", SOURCE_DRIVERS)):
        lines += [f"## {heading}", ""]
        for driver in drivers:
            lines += _driver_section(driver)
    return "\n".join(lines).rstrip() + "\n"


def _driver_section(driver: str) -> list[str]:
    shared = settings_of(Database) if driver in DATABASE_DRIVERS else {}
    own = (entry for entry in driver_entries(driver) if entry.keys[0] == "driver" or entry.keys[0] not in shared)
    return [f"### `{driver}`", "", model_of(driver).__doc__ or "", "", *_table(own), ""]


def _shared() -> Iterator[Entry]:
    shared = settings_of(Database)
    return (entry for entry in driver_entries("sqlite") if entry.keys[0] in shared and entry.keys != ("driver",))


def _table(entries: Iterable[Entry]) -> list[str]:
    rows = ["| key | type | default | meaning | status |", "|---|---|---|---|---|"]
    for entry in entries:
        says = entry.setting.description + (" A secret." if entry.setting.secret else "")
        cells = (f"`{entry.path}`", type_text(entry), default_text(entry), says, _STATUS[entry.status])
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def type_text(entry: Entry) -> str:
    """Return what values a setting takes, for a person."""
    return _type(block_properties()[entry.model.__name__][entry.setting.key])


def default_text(entry: Entry) -> str:
    """Return a setting's default as it would stand in the file; empty when there is none."""
    if entry.setting.field.is_required():
        return "required"
    return "" if entry.setting.default is None else f"`{yaml.flow(entry.setting.default)}`"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return "list of " + _type(schema["items"]).replace("text", "texts") if schema["items"] else "list"
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    return {**names, "object": "mapping"}.get(kind or "", "any") + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low:g} to {high:g}"
    if "exclusiveMinimum" in schema:
        return f", more than {schema['exclusiveMinimum']:g}"
    return "" if low is None else f", at least {low:g}"
