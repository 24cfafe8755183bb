"""Which columns, measures and segments the shown lines of a definition say something of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError

_LISTS: Final = frozenset({"columns", "column_overrides", "measures", "segments"})


def defined_names(text: str, lines: range) -> frozenset[str]:
    """Return the names that entries of a definition have on these lines (counted from 0), in lower case.

    Only an entry's own `name` counts: what stands in a description, a value or an expression is no definition of it.
    A text that cannot be read defines nothing.
    """
    try:
        root = yaml.compose(text, where="")
    except ConfigError:
        return frozenset()
    return frozenset(name.value.casefold() for name in _names(root) if name.line in lines)


def _names(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the names of the entries of a file of one source, or of a source's part of a manifest."""
    sources = [] if root is None else [root, *(value for _, value in root.pairs)]
    for source in sources:
        for key, listed in source.pairs:
            if key.value in _LISTS:
                yield from (name for entry in listed.items if (name := _name(entry)) is not None)


def _name(entry: yaml.Node) -> yaml.Node | None:
    found = (value for key, value in entry.pairs if key.value == "name" and isinstance(value.value, str))
    return next(found, None)
