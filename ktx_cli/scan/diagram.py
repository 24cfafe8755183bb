"""Draw the entity-relationship diagram of a connection from its manifest.

A join that both of its tables define is one edge of the diagram, from the many side to the one side.
"""

from __future__ import annotations

import fnmatch
import html
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, KtxError, NotReadyError, UsageError, did_you_mean, listing, one_line
from ktx_cli.project import find_program
from ktx_cli.scan.descriptions.facts import mappings_in
from ktx_cli.semantic import Entry

MOST_COLUMNS = 20
"""The number of columns drawn per table, in addition to keys and join columns."""

_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\W\d]\w*)'
_PATH: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_EQUAL: Final = re.compile(rf"\s*({_PATH})\s*=\s*({_PATH})\s*")
_AND: Final = re.compile(r"and\b", re.IGNORECASE)
_ORIGINS: Final = ("formal", "manual", "inferred")
"""The sources of joins, most reliable first."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of an entity. `joins`: whether a join uses it on the many side."""

    name: str
    type: str
    key: bool = False
    joins: bool = False
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Entity:
    """A source: the columns to draw, and the number of omitted columns."""

    name: str
    attributes: tuple[Attribute, ...]
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """A join. `pairs[i]` are equal columns of `many` and `one`; empty if the condition is more complex.

    The ends of `one_to_one` and `many_to_many` are sorted by name. `optional`: a column on the many side may be NULL.
    `origin`: `formal` (a declared key), `manual` or `inferred`.
    """

    many: str
    one: str
    pairs: tuple[tuple[str, str], ...]
    relationship: str
    origin: str
    optional: bool = True


@dataclass(frozen=True, slots=True)
class Diagram:
    """Entities sorted by name, and edges sorted by their endpoints."""

    entities: tuple[Entity, ...]
    edges: tuple[Edge, ...]

    @property
    def hidden(self) -> int:
        """The number of omitted columns."""
        return sum(entity.hidden for entity in self.entities)


def diagram_of(
    tables: Mapping[str, Entry],
    *,
    patterns: Sequence[str] = (),
    keys_only: bool = False,
    most_columns: int = MOST_COLUMNS,
) -> Diagram:
    """Return the diagram of the sources whose source name or `schema.table` matches a pattern, or of all sources.

    Raises `UsageError` for a pattern without a match.
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
    hint = f"did you mean `--tables {near}`?" if near else f"known: {listing(known)}" if known else Command("scan")
    return UsageError(f"no table matches `{pattern}`", hint=hint)


def _edges(tables: Mapping[str, Entry]) -> list[Edge]:
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], Edge] = {}
    for name, entry in tables.items():
        for join in mappings_in(entry, "joins"):
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
    """Return (own column, column of `to`) for `a = to.b AND c = to.d`, or nothing for other conditions."""
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
    found = [column for column in mappings_in(entry, "columns") if column.get("name") in own]
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
        for column in mappings_in(entry, "columns")
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


MOST_TEXT = 50_000
"""Mermaid's default character limit (`maxTextSize`)."""

MOST_EDGES = 500
"""Mermaid's default limit on relationships (`maxEdges`)."""

_ENDS: Final = {"many_to_one": ("}o", "||"), "one_to_one": ("|o", "||"), "many_to_many": ("}o", "o{")}
_ENTITIES: Final = {"#": "#35;", '"': "#quot;", "%": "#37;", "\\": "#92;", "<": "#lt;", ">": "#gt;", "~": "#126;"}
_DIRECTION: Final = re.compile(r"(direction)\s+(?=TB|BT|RL|LR)", re.IGNORECASE)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_\u00C0-\uFFFF-]")
_KEY_WORD: Final = re.compile(r"(?:PK|FK|UK)(?![A-Za-z0-9_])", re.IGNORECASE)
_NAME_LENGTH: Final = 80


def mermaid(diagram: Diagram) -> str:
    """Return an `erDiagram` as text: entities, then relationships. Solid lines are declared keys."""
    names = _entity_names(entity.name for entity in diagram.entities)
    lines = ["erDiagram"]
    for entity in diagram.entities:
        lines += _mermaid_entity(names[entity.name], entity)
    lines += [_mermaid_edge(names, edge) for edge in diagram.edges]
    return "\n".join(lines) + "\n"


def _entity_names(names: Iterable[str]) -> dict[str, str]:
    """Return name -> quoted entity name. Names that differ only in unsupported characters get a number."""
    written: dict[str, str] = {}
    for name in names:
        text = _quoted(name)
        number = 2
        while text in written.values():
            text = _quoted(f"{one_line(name, _NAME_LENGTH)} ({number})")
            number += 1
        written[name] = text
    return written


def _mermaid_entity(name: str, entity: Entity) -> list[str]:
    if not entity.attributes and not entity.hidden:
        return [f"    {name}"]
    more = [f"        … and_{entity.hidden}_more"] if entity.hidden else []
    words = _words(attribute.name for attribute in entity.attributes)
    lines = [_attribute(attribute, word) for attribute, word in zip(entity.attributes, words, strict=True)]
    return [f"    {name} {{", *lines, *more, "    }"]


def _words(names: Iterable[str]) -> list[str]:
    """Return an entity's columns as words. If several become the same word, later ones get a number."""
    columns = list(names)
    taken = {name for name in columns if _word(name) == name}
    words = []
    for name in columns:
        word, number = _word(name), 2
        while word != name and word in taken:
            word, number = f"{_word(name)}_{number}", number + 1
        taken.add(word)
        words.append(word)
    return words


def _attribute(attribute: Attribute, word: str) -> str:
    keys = [label for label, true in (("PK", attribute.key), ("FK", attribute.joins)) if true]
    comment = [] if word == attribute.name else [_quoted(attribute.name)]
    parts = [_word(attribute.type), word, *([", ".join(keys)] if keys else []), *comment]
    return "        " + " ".join(parts)


def _mermaid_edge(names: dict[str, str], edge: Edge) -> str:
    left, right = _ENDS.get(edge.relationship, _ENDS["many_to_one"])
    if edge.optional and edge.relationship in ("many_to_one", "one_to_one"):
        right = "o|"
    line = "--" if edge.origin == "formal" else ".."
    return f"    {names[edge.many]} {left}{line}{right} {names[edge.one]} : {_quoted(edge_label(edge))}"


def edge_label(edge: Edge) -> str:
    """Return a join's columns, and its origin in parentheses unless a foreign key declares it."""
    columns = ", ".join(mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in edge.pairs)
    origin = "" if edge.origin == "formal" else f"({edge.origin})"
    return f"{columns} {origin}".strip() or "joined"


def _quoted(text: str) -> str:
    """Return the text in double quotes, with entity codes for special characters."""
    flat = _DIRECTION.sub(r"\1_", visible(one_line(text, _NAME_LENGTH))) or "_"
    return '"' + "".join(_ENTITIES.get(character, character) for character in flat) + '"'


def visible(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Return the text without unprintable characters: direction marks, lone surrogates, noncharacters."""
    return "".join(character if character.isprintable() else instead for character in text)


def _word(name: str) -> str:
    word = visible(_UNFIT.sub("_", name), "_")[:_NAME_LENGTH] or "_"
    return f"_{word}" if re.match(r"[0-9-]", word) or _KEY_WORD.match(word) else word


DRAWING_SECONDS = 60.0
"""The time limit for `dot`, which takes seconds for a few hundred tables."""

_LONGEST_NAME: Final = 60
_COLOURS: Final = {"formal": "#2f4f6f", "manual": "#2e7d32", "inferred": "#b26a00"}
_HEADER: Final = [
    "digraph ktx {",
    '  graph [rankdir=LR, nodesep=0.35, ranksep=1.1, pad=0.3, bgcolor=white, fontname="Helvetica"];',
    '  node [shape=plain, fontname="Helvetica", fontsize=11];',
    '  edge [fontname="Helvetica", fontsize=9, fontcolor="#555555", dir=both, arrowsize=0.8];',
]
_ARROWS: Final = {
    "many_to_one": ("crowodot", "teetee"),
    "one_to_one": ("teeodot", "teetee"),
    "many_to_many": ("crowodot", "crowodot"),
}


def dot(diagram: Diagram) -> str:
    """Return a `digraph` as text: one table per entity, and one column-to-column edge per join.

    Solid lines are declared keys; dashed lines are not.
    """
    nodes = {entity.name: f"t{number}" for number, entity in enumerate(diagram.entities)}
    ports = {
        entity.name: {attribute.name: f"c{number}" for number, attribute in enumerate(entity.attributes)}
        for entity in diagram.entities
    }
    lines = [*_HEADER]
    lines += [f"  {nodes[entity.name]} [label=<{_table(entity)}>];" for entity in diagram.entities]
    lines += [_dot_edge(nodes, ports, edge) for edge in diagram.edges]
    return "\n".join([*lines, "}"]) + "\n"


def draw_svg(text: str, *, seconds: float = DRAWING_SECONDS, project_dir: Path | None = None) -> str:
    """Return the SVG for a DOT graph. No program in `project_dir` is run (default: the project of the current folder).

    Raises `NotReadyError` if Graphviz is not installed, `KtxError` if `dot` fails or takes too long.
    """
    program, passed = find_program("dot", project_dir=project_dir)
    if program is None and passed is not None:
        message = f"the only `dot` on the PATH is {passed}, which is inside the project and therefore not trusted"
        raise NotReadyError(message, hint="install Graphviz elsewhere: apt-get install graphviz")
    if program is None:
        message = "SVG output needs the Graphviz program `dot`, which is not installed"
        raise NotReadyError(message, hint="apt-get install graphviz")
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=text.encode("utf-8", "replace"), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        message = f"`dot` did not finish within {seconds:g} seconds"
        raise KtxError(
            message, hint="draw fewer elements with `--keys-only` or `--tables PATTERN`", code="timeout"
        ) from error
    except OSError as error:
        raise KtxError(f"`{program}` cannot be run: {error.strerror or error}", hint="dot -V") from error
    if done.returncode != 0 or not done.stdout:
        why = one_line(done.stderr.decode("utf-8", "replace")) or f"exit status {done.returncode}"
        raise KtxError(
            f"`dot` could not draw the diagram: {why}", hint="use `--format mermaid`, which needs no other program"
        )
    return done.stdout.decode("utf-8")


def _table(entity: Entity) -> str:
    rows = [f'<tr><td colspan="3" bgcolor="#2f4f6f"><font color="white"><b>{_text(entity.name)}</b></font></td></tr>']
    rows += [_row(number, attribute) for number, attribute in enumerate(entity.attributes)]
    if entity.hidden:
        rows.append(f'<tr><td></td><td align="left" colspan="2"><i>... {entity.hidden} more</i></td></tr>')
    style = 'border="1" cellborder="0" cellspacing="0" cellpadding="3" color="#2f4f6f" bgcolor="#f7f9fb"'
    return f"<table {style}>{''.join(rows)}</table>"


def _row(number: int, attribute: Attribute) -> str:
    key = ", ".join(label for label, true in (("PK", attribute.key), ("FK", attribute.joins)) if true)
    name = f"<b>{_text(attribute.name)}</b>" if attribute.key else _text(attribute.name)
    return (
        f'<tr><td align="left" port="c{number}_in">{_small(key)}</td>'
        f'<td align="left">{name}</td>'
        f'<td align="right" port="c{number}_out">{_small(_text(attribute.type))}</td></tr>'
    )


def _small(text: str) -> str:
    """Return the text in small grey type. An empty text stays empty, because `<font>` must not be empty."""
    return f'<font color="#888888" point-size="9">{text}</font>' if text else ""


def _dot_edge(nodes: dict[str, str], ports: dict[str, dict[str, str]], edge: Edge) -> str:
    tail, head = nodes[edge.many], nodes[edge.one]
    if edge.pairs:
        mine, theirs = edge.pairs[0]
        tail += _port(ports[edge.many].get(mine), "out:e")
        head += _port(ports[edge.one].get(theirs), "in:w")
    ends = _ARROWS.get(edge.relationship, _ARROWS["many_to_one"])
    arrow = "teeodot" if edge.optional and edge.relationship != "many_to_many" else ends[1]
    style = "solid" if edge.origin == "formal" else "dashed"
    colour = _COLOURS.get(edge.origin, _COLOURS["manual"])
    text = edge_label(edge) if len(edge.pairs) != 1 else "" if edge.origin == "formal" else edge.origin
    label = f", label={_string(text)}" if text else ""
    return f'  {tail} -> {head} [arrowtail={ends[0]}, arrowhead={arrow}, style={style}, color="{colour}"{label}];'


def _port(port: str | None, side: str) -> str:
    return "" if port is None else f":{port}_{side}"


def _text(text: str) -> str:
    """Return text for an HTML-like label, which must not be empty."""
    return html.escape(visible(one_line(text, _LONGEST_NAME)), quote=True) or " "


def _string(text: str) -> str:
    flat = visible(one_line(text, _LONGEST_NAME)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{flat}"'


DIAGRAM_WRITERS: Final[Mapping[str, Callable[[Diagram, Path], str]]] = {
    "mermaid": lambda diagram, _: mermaid(diagram),
    "svg": lambda diagram, project_dir: draw_svg(dot(diagram), project_dir=project_dir),
    "dot": lambda diagram, _: dot(diagram),
}
"""Format -> the function that writes a given diagram in this format, with the project folder."""
