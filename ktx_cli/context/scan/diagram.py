"""The entities and relationships of a connection, for drawing: what its manifest says and nothing else.

A join that stands on both of its tables is one edge here, from the many to the one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.context.scan.manifest import Entry
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, listing

MOST_COLUMNS = 20
"""How many columns of a table are drawn: keys and columns of joins first, as many as there are of those."""

_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\W\d]\w*)'
_PATH: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_EQUAL: Final = re.compile(rf"\s*({_PATH})\s*=\s*({_PATH})\s*")
_AND: Final = re.compile(r"and\b", re.IGNORECASE)
_ORIGINS: Final = ("formal", "manual", "inferred")
"""Where a join comes from, the more certain first."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of an entity; `joins`: it is what a join on the many side goes by."""

    name: str
    type: str
    key: bool = False
    joins: bool = False
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Entity:
    """A source: the columns that are drawn, and how many are not."""

    name: str
    attributes: tuple[Attribute, ...]
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """A join: `pairs[i]` are columns of `many` and `one` that are equal; none where the condition is not that simple.

    `one_to_one`, `many_to_many`: then the ends are in the order of their names. `optional`: a column on the many side
    may be NULL. `origin`: `formal` (a declared key), `manual`, `inferred`.
    """

    many: str
    one: str
    pairs: tuple[tuple[str, str], ...]
    relationship: str
    origin: str
    optional: bool = True


@dataclass(frozen=True, slots=True)
class Diagram:
    """Entities by name, edges by their ends; the same manifest gives the same diagram."""

    entities: tuple[Entity, ...]
    edges: tuple[Edge, ...]

    @property
    def hidden(self) -> int:
        """How many columns are not drawn."""
        return sum(entity.hidden for entity in self.entities)


def diagram_of(
    tables: Mapping[str, Entry],
    *,
    patterns: Sequence[str] = (),
    keys_only: bool = False,
    most_columns: int = MOST_COLUMNS,
) -> Diagram:
    """Return the diagram of the sources a pattern covers (by source name or `schema.table`; none: all of them).

    Raises `UsageError` for a pattern that covers nothing.
    """
    chosen = {name: tables[name] for name in sorted(_chosen(tables, patterns))}
    edges = _edges(chosen)
    entities = [_entity(name, entry, edges) for name, entry in chosen.items()]
    bounded = (_bounded(entity, edges, keys_only=keys_only, most=most_columns) for entity in entities)
    return Diagram(tuple(bounded), tuple(edges))


def _chosen(tables: Mapping[str, Entry], patterns: Sequence[str]) -> set[str]:
    if not patterns:
        return set(tables)
    names = {name: (name, str(entry.get("table", "")).replace('"', "")) for name, entry in tables.items()}
    chosen: set[str] = set()
    for pattern in patterns:
        hits = {
            name
            for name, known in names.items()
            if pattern in known or any(fnmatch.fnmatchcase(n, pattern) for n in known)
        }
        if not hits:
            raise _no_table(pattern, tables)
        chosen |= hits
    return chosen


def _no_table(pattern: str, tables: Iterable[str]) -> UsageError:
    known = sorted(tables)
    near = did_you_mean(pattern, known)
    hint = f"did you mean --tables {near}?" if near else f"known: {listing(known)}" if known else "ktx scan"
    return UsageError(f"no table is covered by `{pattern}`", hint=hint)


def _edges(tables: Mapping[str, Entry]) -> list[Edge]:
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], Edge] = {}
    for name, entry in tables.items():
        for join in _dicts(entry.get("joins")):
            edge = _edge(name, join)
            if edge is None or {edge.many, edge.one} - tables.keys():
                continue
            edge = replace(edge, optional=_optional(tables[edge.many], edge))
            key = (edge.many, edge.one, edge.pairs)
            known = found.get(key)
            if known is None or _rank(edge) < _rank(known):
                found[key] = edge
    return [found[key] for key in sorted(found)]


def _rank(edge: Edge) -> int:
    return _ORIGINS.index(edge.origin) if edge.origin in _ORIGINS else len(_ORIGINS)


def _edge(name: str, join: Mapping[str, Any]) -> Edge | None:
    to = join.get("to")
    if not isinstance(to, str):
        return None
    relationship = str(join.get("relationship", "many_to_one"))
    pairs = tuple(sorted(_pairs(str(join.get("on", "")), to)))
    turned = relationship == "one_to_many" or (relationship in ("one_to_one", "many_to_many") and to < name)
    if turned:
        pairs = tuple(sorted((theirs, mine) for mine, theirs in pairs))
    many, one = (to, name) if turned else (name, to)
    shown = "many_to_one" if relationship == "one_to_many" else relationship
    return Edge(many, one, pairs, shown, str(join.get("source", "manual")))


def _pairs(on: str, to: str) -> list[tuple[str, str]]:
    """Return (own column, column of `to`) for `a = to.b AND c = to.d`; nothing for any other condition."""
    pairs: list[tuple[str, str]] = []
    place = 0
    while found := _EQUAL.match(on, place):
        left, right = (re.findall(_NAME, side) for side in found.groups())
        if _owner(left) == to and _owner(right) != to:
            left, right = right, left
        pairs.append((_bare(left[-1]), _bare(right[-1])))
        place = found.end()
        if place == len(on):
            return pairs
        following = _AND.match(on, place)
        if following is None:
            return []
        place = following.end()
    return []


def _owner(path: Sequence[str]) -> str | None:
    return _bare(path[-2]) if len(path) > 1 else None


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _optional(entry: Entry, edge: Edge) -> bool:
    own = {mine for mine, _ in edge.pairs}
    found = [column for column in _dicts(entry.get("columns")) if column.get("name") in own]
    return not found or any(column.get("nullable", True) and not column.get("pk") for column in found)


def _entity(name: str, entry: Entry, edges: Sequence[Edge]) -> Entity:
    joins = {mine for edge in edges if edge.many == name for mine, _ in edge.pairs}
    attributes = (
        Attribute(
            str(column.get("name", "")),
            str(column.get("type", "")),
            key=bool(column.get("pk")),
            joins=column.get("name") in joins,
            nullable=bool(column.get("nullable", True)),
        )
        for column in _dicts(entry.get("columns"))
    )
    return Entity(name, tuple(attributes))


def _bounded(entity: Entity, edges: Sequence[Edge], *, keys_only: bool, most: int) -> Entity:
    aimed_at = {theirs for edge in edges if edge.one == entity.name for _, theirs in edge.pairs}
    important = [each for each in entity.attributes if each.key or each.joins or each.name in aimed_at]
    if keys_only:
        return replace(entity, attributes=tuple(important))
    if len(entity.attributes) <= most:
        return entity
    others = [each for each in entity.attributes if each not in important]
    drawn = important + others[: max(0, most - len(important))]
    return replace(entity, attributes=tuple(drawn), hidden=len(entity.attributes) - len(drawn))


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; people edit shards, so anything may stand there."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
