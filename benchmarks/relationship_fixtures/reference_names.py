"""Names the column of a reference: by convention, by its role alone, or as the key it refers to."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.namer import Namer, key_tokens, pattern_tokens
from benchmarks.relationship_fixtures.styles import Style
from benchmarks.relationship_fixtures.tables import Column, Table

_AS_THE_KEY = 0.7
_TELLING = 5


def reference_name(namer: Namer, child: Table, column: Column, style: Style, taken: set[str]) -> str:
    """Return the name of a reference whose target has its name already; `taken` holds names in lower case."""
    assert column.target is not None
    prefix = [namer.prefixes[child]] if style.own_prefix else []
    if _as_the_key(namer, child, column, style) and column.target.name.lower() not in taken:
        return column.target.name
    return namer.join(prefix + _tokens(namer, child, column, style), style.column_case, style)


def _as_the_key(namer: Namer, child: Table, column: Column, style: Style) -> bool:
    """Return whether the column takes its target's very name."""
    target, parent = column.target, column.target_table
    if target is None or parent is None or column.words != parent.words:
        return False
    if style.own_prefix or _is_surrogate(target) or (len(parent.key) == 1 and target.part == "reference"):
        return style.own_prefix == "parent" or style.convention == ("{t} id", "{t} id")
    return (len(target.name) >= _TELLING or parent is child) and namer.dice.chance(_AS_THE_KEY)


def _tokens(namer: Namer, child: Table, column: Column, style: Style) -> list[str]:
    target, parent, role = column.target, column.target_table, column.words
    assert target is not None
    if child.form is Form.SUB and column in child.key and style.own_shared_key:
        return key_tokens(namer, child, style)
    same = parent is not None and role == parent.words
    if same and style.short_roles and "_" in role:
        role = role.split("_")[-1] if style.short_roles == "last" else role.rsplit("_", 1)[0]
    if namer.dice.chance(style.bare_roles * (0.5 if same else 1.0)):
        return namer.tokens(role, style)
    if _is_surrogate(target) or (parent is not None and len(parent.key) == 1 and target.part == "reference"):
        return pattern_tokens(namer, style.convention[1], "", role, parent.words if parent else "", style)
    said = namer.tokens(role, replace(style, short_tables=False))
    return said + [token for token in namer.tokens(target.words or "id", style) if token not in said]


def _is_surrogate(target: Column) -> bool:
    return target.part == "key" and not target.words
