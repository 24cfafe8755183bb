"""The text of `ktx.example.yaml`: every setting that has or will have an effect, once, with its comment."""

from __future__ import annotations

import textwrap
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.connections import Database
from ktx_cli.project.config.drivers import DATABASE_DRIVERS, DRIVERS, model_of
from ktx_cli.project.config.root import KtxConfig

WIDTH = 110

_HEADER = """\
# Every setting of ktx.yaml once, with its meaning and an example or its default. Written by `make docs`.
# A real ktx.yaml is short: copy from here what you need. `(later)`: without effect in this version.
# A text may be a secret reference: env:NAME, file:PATH, keyring:SERVICE/NAME.
"""


def example_yaml() -> str:
    """Return the example; it loads without an error. Settings of other versions (no effect) are left out."""
    return _Example().text()


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
            self._lines.append(f"{margin}{declared.key}: {yaml.flow(_value(declared))}")
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


def _value(declared: Setting) -> Any:
    examples = declared.field.examples
    return examples[0] if examples else declared.default
