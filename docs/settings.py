"""Generates the Markdown reference of every setting of `ktx.yaml`, and an example file that shows each setting once."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from ktx_cli.core import yaml
from ktx_cli.project.config.base import Block, Setting, Status, settings_of
from ktx_cli.project.config.blocks import Llm
from ktx_cli.project.config.connections import Database, SourceConnection, model_of, models
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.config.settings import definitions


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting in its place. `keys` lead to it from the root, or from the connection; `model` declares it."""

    keys: tuple[str, ...]
    model: type[Block]
    setting: Setting
    status: Status

    @property
    def path(self) -> str:
        """Return the path, dotted."""
        return ".".join(self.keys)


def block_entries(model: type[Block], status: Status | None = None, at: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Yield the settings of a block and of the blocks in it, without the blocks themselves, in declared order.

    `status`, of a block that is not read, stands over the declared one.
    """
    for declared in settings_of(model).values():
        own = declared.status if status is None or declared.status == "dead" else status
        keys = (*at, declared.key)
        if declared.block is None:
            yield Entry(keys, model, declared, own)
        else:
            yield from block_entries(declared.block, None if own == "used" else own, keys)


def root_entries() -> Iterator[Entry]:
    """Yield every setting outside `connections`."""
    return (entry for entry in block_entries(KtxConfig) if entry.keys != ("connections",))


def driver_entries(driver: str) -> Iterator[Entry]:
    """Yield every setting of a connection with this driver."""
    return block_entries(model_of(driver))


_INTRO = """\
# `ktx.yaml`

Every setting is optional unless marked as required. A text can be a secret reference: `env:NAME`, `file:PATH` (with
`~`, or relative to the project), or `keyring:SERVICE/NAME`. ktx keeps keys that it does not know, and warns about them.

The file is YAML 1.2. An alias (`*name`) can replace any whole value. Merge keys (`<<`) are not supported and cause an
error.

The status of a setting is *used*, *later* (parsed, but without effect in this version) or *no effect* (a setting of
other versions).
"""

_STATUS = {"used": "used", "later": "later", "dead": "no effect"}


def settings_table() -> str:
    """Return the reference: a table for each block and for each driver."""
    lines = [_INTRO]
    for block, entries in groupby(root_entries(), key=lambda entry: entry.keys[0]):
        lines += [f"## `{block}`", "", *_table(entries), ""]
    lines += ["## `connections.<id>`", ""]
    lines += [
        "An id begins with a letter or a digit and consists of letters, digits, `_` and `-`. It cannot be the name of a"
    ]
    lines += ["subcommand, and two ids must not differ only in case. `driver` is required.", ""]
    lines += ["### Every database", "", *_table(_shared()), ""]
    for heading, kind in (("Databases", Database), ("Context sources", SourceConnection)):
        lines += [f"## {heading}", ""]
        for driver, model in models().items():
            lines += _driver_section(driver) if issubclass(model, kind) else []
    return "\n".join(lines).rstrip() + "\n"


def _driver_section(driver: str) -> list[str]:
    shared = settings_of(Database) if issubclass(model_of(driver), Database) else {}
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
    """Return a setting's default as it would appear in the file; empty if there is none."""
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


WIDTH = 110
BLOCK_FROM: Final = 3
"""Entries from which a mapping is written line by line."""

_API_MODELS: Final = {"default": "claude-sonnet-5-5", "triage": "claude-haiku-4-5"}
_BEDROCK_MODELS: Final = {"default": "global.anthropic.claude-sonnet-4-6"}
_CODEX_MODELS: Final = {"default": "gpt-6.1-sol", "triage": "gpt-6-luna"}
_GEMINI_MODELS: Final = {"default": "gemini-3.8-flash", "triage": "gemini-3.5-flash-lite"}
_OPENAI_MODELS: Final = {"default": "gpt-6.2-sol", "triage": "gpt-6-luna"}

_HEADER = """\
# Every setting of ktx.yaml once, with its meaning and an example or its default. Written by `make docs`.
# A real ktx.yaml is short: copy the settings you need. Settings marked `(later)` have no effect in this version.
# A text can be a secret reference: env:NAME, file:PATH, keyring:SERVICE/NAME.
"""


_BACKENDS_HEADER = """\
# The `llm` block of each backend: choose one and uncomment its lines.
"""


def example_yaml() -> str:
    """Return the example; it loads without an error. Settings of other versions (no effect) are omitted."""
    blocks = [textwrap.indent(text, "# ") for text in llm_blocks().values()]
    return "\n".join([_Example().text(), _BACKENDS_HEADER, *blocks])


def llm_blocks() -> dict[str, str]:
    """Return by backend a whole `llm` block, as it would appear in a file with nothing else."""
    roles = _value(settings_of(Llm)["models"])
    return {
        "claude-code": _llm("claude-code", {}, roles),
        "claude-cli": _llm("claude-cli", {}, {"default": "sonnet"}),
        "codex": _llm("codex", {}, _CODEX_MODELS),
        "anthropic": _llm("anthropic", {"api_key": "env:ANTHROPIC_API_KEY"}, _API_MODELS),
        "vertex": _llm("vertex", {"project": "my-project", "location": "europe-west1"}, _API_MODELS),
        "bedrock": _llm("bedrock", {"region": "us-east-1", "profile": "my-profile"}, _BEDROCK_MODELS),
        "gateway": _llm(
            "gateway",
            {"base_url": "https://gateway.example.com", "api_key": "env:GATEWAY_API_KEY", "auth": "bearer"},
            {"default": "qwen3:8b"},
        ),
        "openai": _llm("openai", {"api_key": "env:OPENAI_API_KEY"}, _OPENAI_MODELS),
        "openai-compatible": _llm(
            "openai-compatible", {"base_url": "http://127.0.0.1:11434/v1"}, {"default": "qwen3:8b"}
        ),
        "gemini": _llm("gemini", {"api_key": "env:GEMINI_API_KEY"}, _GEMINI_MODELS),
        "none": _llm("none", {}, {}),
    }


def _llm(backend: str, access: Mapping[str, str], models: Mapping[str, str]) -> str:
    provider = {"backend": backend, **({backend.replace("-", "_"): dict(access)} if access else {})}
    return yaml.dump({"llm": {"provider": provider, **({"models": dict(models)} if models else {})}})


class _Example:
    def __init__(self) -> None:
        self._lines = [_HEADER]
        self._shown: set[type[Block]] = set()

    def text(self) -> str:
        """Return the whole file."""
        for declared in settings_of(KtxConfig).values():
            if declared.key == "connections":
                self._connections(declared)
            elif declared.status != "dead":
                self._setting(declared, 0)
                self._lines.append("")
        return "\n".join(self._lines).rstrip() + "\n"

    def _connections(self, declared: Setting) -> None:
        self._comment(declared.description, 0)
        self._lines.append("connections:")
        for driver in models():
            self._connection(driver)
            self._lines.append("")

    def _connection(self, driver: str) -> None:
        """Write one connection; what every database takes stands in the first alone."""
        model = model_of(driver)
        shared = settings_of(Database) if issubclass(model, Database) else {}
        is_first = Database not in self._shown
        self._comment(model.__doc__ or "", 2)
        self._lines += [f"  my-{driver}:", f"    driver: {driver}"]
        if shared and is_first:
            self._shown.add(Database)
            self._comment("The next five settings apply to every database.", 4)
        for key, declared in settings_of(model).items():
            if key != "driver" and declared.status != "dead" and (is_first or key not in shared):
                self._setting(declared, 4)

    def _setting(self, declared: Setting, indent: int, *, marked: bool = True) -> None:
        """Write a setting or a block, a block that was shown before as a comment.

        `marked`: say that it is for later, where nothing above it says so.
        """
        later = marked and declared.status == "later"
        says, margin = declared.description + (" (later)" if later else ""), " " * indent
        block = declared.block
        if block is None:
            self._comment(says, indent)
            self._lines += _written(declared.key, _value(declared), margin)
        elif block in self._shown:
            self._comment(f"`{declared.key}`: {says} The same settings as above.", indent)
        else:
            self._shown.add(block)
            self._comment(says, indent)
            self._lines.append(f"{margin}{declared.key}:")
            for inner in settings_of(block).values():
                if inner.status != "dead":
                    self._setting(inner, indent + 2, marked=marked and not later)

    def _comment(self, text: str, indent: int) -> None:
        margin = " " * indent + "# "
        self._lines += textwrap.wrap(
            text, WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False, break_long_words=False
        )


def _written(key: str, value: Any, margin: str) -> list[str]:
    if isinstance(value, dict) and len(value) >= BLOCK_FROM:
        return [f"{margin}{key}:", *(f"{margin}  {name}: {yaml.flow(inner)}" for name, inner in value.items())]
    return [f"{margin}{key}: {yaml.flow(value)}"]


def _value(declared: Setting) -> Any:
    examples = declared.field.examples
    return examples[0] if examples else declared.default


@functools.cache
def block_properties() -> dict[str, dict[str, Any]]:
    """Return the schema of every setting: class name of its block -> key -> schema."""
    return {name: definition["properties"] for name, definition in definitions().items()}
