"""Writes a diagram as Mermaid's `erDiagram`, valid whatever its names are made of.

Grammar: `erDiagram.jison` of Mermaid 11. An entity stands in quotes, without quote, percent sign and backslash; a
column is one word of letters, digits, `_` and `-` that begins with a letter or `_` and not with `PK`, `FK` or `UK`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ktx_cli.context.scan.diagram import Attribute, Diagram, Edge, Entity
from ktx_cli.core.text import one_line

MOST_TEXT = 50_000
"""How many characters Mermaid draws unless it is configured otherwise (`maxTextSize`)."""

MOST_EDGES = 500
"""How many relationships Mermaid draws unless it is configured otherwise (`maxEdges`)."""

_ENDS: Final = {"many_to_one": ("}o", "||"), "one_to_one": ("|o", "||"), "many_to_many": ("}o", "o{")}
_ENTITIES: Final = {"#": "#35;", '"': "#quot;", "%": "#37;", "\\": "#92;", "<": "#lt;", ">": "#gt;", "~": "#126;"}
_DIRECTION: Final = re.compile(r"(direction)\s+(?=TB|BT|RL|LR)", re.IGNORECASE)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_\u00C0-\uFFFF-]")
_KEY_WORD: Final = re.compile(r"(?:PK|FK|UK)(?![A-Za-z0-9_])", re.IGNORECASE)
_NAME_LENGTH: Final = 80


def mermaid(diagram: Diagram) -> str:
    """Return the text of an `erDiagram`: entities, then relationships; solid lines are declared keys."""
    names = _entity_names(entity.name for entity in diagram.entities)
    lines = ["erDiagram"]
    for entity in diagram.entities:
        lines += _entity(names[entity.name], entity)
    lines += [_edge(names, edge) for edge in diagram.edges]
    return "\n".join(lines) + "\n"


def _entity_names(names: Iterable[str]) -> dict[str, str]:
    """Return name -> quoted entity name; names that differ only in what cannot be written get a number."""
    written: dict[str, str] = {}
    for name in names:
        text = _quoted(name)
        number = 2
        while text in written.values():
            text = _quoted(f"{one_line(name, _NAME_LENGTH)} ({number})")
            number += 1
        written[name] = text
    return written


def _entity(name: str, entity: Entity) -> list[str]:
    if not entity.attributes and not entity.hidden:
        return [f"    {name}"]
    more = [f"        … and_{entity.hidden}_more"] if entity.hidden else []
    words = _words(attribute.name for attribute in entity.attributes)
    lines = [_attribute(attribute, word) for attribute, word in zip(entity.attributes, words, strict=True)]
    return [f"    {name} {{", *lines, *more, "    }"]


def _words(names: Iterable[str]) -> list[str]:
    """Return the columns of an entity as words; of several that become one word the later ones get a number."""
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


def _edge(names: dict[str, str], edge: Edge) -> str:
    left, right = _ENDS.get(edge.relationship, _ENDS["many_to_one"])
    if edge.optional and edge.relationship in ("many_to_one", "one_to_one"):
        right = "o|"
    line = "--" if edge.origin == "formal" else ".."
    return f"    {names[edge.many]} {left}{line}{right} {names[edge.one]} : {_quoted(edge_label(edge))}"


def edge_label(edge: Edge) -> str:
    """Return what a join goes by, and in brackets where it comes from unless a key declares it."""
    columns = ", ".join(mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in edge.pairs)
    origin = "" if edge.origin == "formal" else f"({edge.origin})"
    return f"{columns} {origin}".strip() or "joined"


def _quoted(text: str) -> str:
    """Return the text in quotes; what would end it, or mean something there, becomes an entity code."""
    flat = _DIRECTION.sub(r"\1_", visible(one_line(text, _NAME_LENGTH))) or "_"
    return '"' + "".join(_ENTITIES.get(character, character) for character in flat) + '"'


def visible(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Return text without what nobody sees or no file can hold: marks of direction, lone surrogates, no characters."""
    return "".join(character if character.isprintable() else instead for character in text)


def _word(name: str) -> str:
    word = visible(_UNFIT.sub("_", name), "_")[:_NAME_LENGTH] or "_"
    return f"_{word}" if re.match(r"[0-9-]", word) or _KEY_WORD.match(word) else word
