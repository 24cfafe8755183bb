"""Keys and joins of LookML views and explores as declarations, which scans read before they infer keys and joins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ktx_cli.core import ConfigError
from ktx_cli.documents import Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.semantic import Block, Report, read_project, table_parts

TOOL: Final = "lookml"
_COLUMN: Final = re.compile(r"""(?:\$\{TABLE\}\s*\.\s*)?["`\[]?(\w+)["`\]]?""")
_SIDE: Final = r"\$\{\s*(\w+)\.(\w+)\s*\}"
_EQUALITY: Final = re.compile(rf"{_SIDE}\s*=\s*{_SIDE}")
_EQUALITIES: Final = re.compile(rf"\s*\(?\s*{_EQUALITY.pattern}(\s+AND\s+{_EQUALITY.pattern})*\s*\)?\s*", re.IGNORECASE)


def declarations_of(snapshot: Snapshot) -> Declarations:
    """Return the primary keys of views that are tables, and the joins of explores on equal columns, in both directions.

    The IDs of the tables are the names of the views.
    """
    project = read_project({path: file.text() for path, file in snapshot.files.items()}, Report())
    tables = {name: table for name, view in project.views.items() if (table := _table(name, view)) is not None}
    joins: dict[DeclaredJoin, None] = {}
    for name, explore in project.explores.items():
        for join in _joins(name, explore, project.views):
            if join.child in tables and join.parent in tables:
                joins[join] = None
                joins[DeclaredJoin(join.parent, join.parent_columns, join.child, join.child_columns)] = None
    return Declarations(TOOL, tables, tuple(joins))


def _table(name: str, view: Block) -> DeclaredTable | None:
    """Return the table of a view, or None for a query or a name that depends on the user."""
    if view.below("derived_table"):
        return None
    try:
        parts = table_parts(str(view.values.get("sql_table_name") or name))
    except ConfigError:
        return None
    keys = [each for each in view.below("dimension") if each.values.get("primary_key") == "yes" and each.name]
    columns = [_column(view, str(each.name)) for each in keys]
    return DeclaredTable(
        parts[-1],
        parts[-2] if len(parts) > 1 else "",
        keys=((columns[0],),) if len(columns) == 1 and columns[0] else (),
    )


def _column(view: Block, dimension: str) -> str:
    """Return the column that a dimension shows as it is, or an empty string if it computes a value."""
    block = next((each for each in view.below("dimension") if each.name == dimension), None)
    if block is None:
        return ""
    sql = block.values.get("sql")
    found = _COLUMN.fullmatch(sql.strip()) if isinstance(sql, str) else None
    return dimension if sql is None else found[1] if found is not None else ""


def _joins(name: str, explore: Block, views: Mapping[str, Block]) -> Iterator[DeclaredJoin]:
    base = str(explore.values.get("from") or explore.values.get("view_name") or name)
    names = {str(explore.values.get("view_name") or name): base}
    names |= {str(each.name): str(each.values.get("from") or each.name) for each in explore.below("join")}
    for block in explore.below("join"):
        pairs = _pairs(block, next(iter(names)), views.get(names.get(str(block.name), "")))
        sides = {(one, other) for (one, _), (other, _) in pairs}
        if len(sides) != 1:
            continue
        ((child, parent),) = ((names.get(one), names.get(other)) for one, other in sides)
        if child is None or parent is None or child not in views or parent not in views:
            continue
        own = tuple(_column(views[child], field) for (_, field), _ in pairs)
        theirs = tuple(_column(views[parent], field) for _, (_, field) in pairs)
        if all((*own, *theirs)) and (child, own) != (parent, theirs):
            yield DeclaredJoin(child, own, parent, theirs)


_Field = tuple[str, str]
"""The name of a view in an explore, and a dimension."""


def _pairs(join: Block, base: str, view: Block | None) -> list[tuple[_Field, _Field]]:
    """Return the equal dimensions that a join requires, with the joined view on the right."""
    name, key = str(join.name), join.values.get("foreign_key")
    if isinstance(key, str) and view is not None:
        side, _, field = key.rpartition(".")
        keys = [str(each.name) for each in view.below("dimension") if each.values.get("primary_key") == "yes"]
        return [((side or base, field), (name, keys[0]))] if len(keys) == 1 else []
    sql = join.values.get("sql_on")
    is_plain = isinstance(sql, str) and _EQUALITIES.fullmatch(sql) and join.values.get("relationship") != "many_to_many"
    found = _EQUALITY.findall(sql) if isinstance(sql, str) and is_plain else []
    pairs = [((a, b), (c, d)) if c == name else ((c, d), (a, b)) for a, b, c, d in found]
    return pairs if all(right[0] == name != left[0] for left, right in pairs) else []
