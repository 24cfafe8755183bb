"""The text of `ktx.example.yaml`: every setting that has or will have an effect, once, and `llm` for each backend."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.core import yaml
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.connections import Database
from ktx_cli.project.config.drivers import DATABASE_DRIVERS, DRIVERS, model_of
from ktx_cli.project.config.llm import Llm
from ktx_cli.project.config.root import KtxConfig

WIDTH = 110
BLOCK_FROM: Final = 3
"""Entries from which a mapping is written line by line."""

_API_MODELS: Final = {"default": "claude-sonnet-5-5", "triage": "claude-haiku-4-5"}

_HEADER = """\
# Every setting of ktx.yaml once, with its meaning and an example or its default. Written by `make docs`.
# A real ktx.yaml is short: copy from here what you need. `(later)`: without effect in this version.
# A text may be a secret reference: env:NAME, file:PATH, keyring:SERVICE/NAME.
"""


_BACKENDS_HEADER = """\
# The `llm` block of each backend, alone: take one, and take the marks off its lines.
"""


def example_yaml() -> str:
    """Return the example; it loads without an error. Settings of other versions (no effect) are left out."""
    blocks = [textwrap.indent(text, "# ") for text in llm_blocks().values()]
    return "\n".join([_Example().text(), _BACKENDS_HEADER, *blocks])


def llm_blocks() -> dict[str, str]:
    """Return by backend a whole `llm` block, as it would stand in a file with nothing else."""
    roles = _value(settings_of(Llm)["models"])
    return {
        "claude-code": _llm("claude-code", {}, roles),
        "claude-cli": _llm("claude-cli", {}, {"default": "sonnet"}),
        "anthropic": _llm("anthropic", {"api_key": "env:ANTHROPIC_API_KEY"}, _API_MODELS),
        "vertex": _llm("vertex", {"project": "my-project", "location": "europe-west1"}, _API_MODELS),
        "gateway": _llm(
            "gateway",
            {"base_url": "https://gateway.example.com", "api_key": "env:GATEWAY_API_KEY", "auth": "bearer"},
            {"default": "qwen3:8b"},
        ),
        "none": _llm("none", {}, {}),
    }


def _llm(backend: str, access: Mapping[str, str], models: Mapping[str, str]) -> str:
    provider = {"backend": backend, **({backend: dict(access)} if access else {})}
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
        for driver in DRIVERS:
            self._connection(driver)
            self._lines.append("")

    def _connection(self, driver: str) -> None:
        """Write one connection; what every database takes stands in the first alone."""
        model = model_of(driver)
        shared = settings_of(Database) if driver in DATABASE_DRIVERS else {}
        is_first = Database not in self._shown
        self._comment(model.__doc__ or "", 2)
        self._lines += [f"  my-{driver}:", f"    driver: {driver}"]
        if shared and is_first:
            self._shown.add(Database)
            self._comment("The next five: for every database.", 4)
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
