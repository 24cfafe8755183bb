"""Makes names of phrases in a style: translated, shortened, joined in a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.shortening import initials, shorten
from benchmarks.relationship_fixtures.styles import Style
from benchmarks.relationship_fixtures.tables import Table
from benchmarks.relationship_fixtures.words import plain, translate

_CASES: dict[str, Callable[[list[str]], str]] = {
    "snake": lambda tokens: "_".join(tokens),
    "upper_snake": lambda tokens: "_".join(tokens).upper(),
    "pascal": lambda tokens: "".join(token[:1].upper() + token[1:] for token in tokens),
    "camel": lambda tokens: tokens[0] + "".join(token[:1].upper() + token[1:] for token in tokens[1:]),
    "flat": lambda tokens: "".join(tokens),
    "upper_flat": lambda tokens: "".join(tokens).upper(),
    "pascal_snake": lambda tokens: "_".join(token[:1].upper() + token[1:] for token in tokens),
    "spaced": lambda tokens: " ".join(token[:1].upper() + token[1:] for token in tokens),
}


@dataclass(slots=True)
class Namer:
    """Names one database; `style` is the common one, `others` those of single tables."""

    dice: Dice
    knobs: Knobs
    style: Style
    layout: str
    others: dict[str, Style] = field(default_factory=dict)
    prefixes: dict[Table, str] = field(default_factory=dict)

    def style_of(self, table: Table) -> Style:
        """Return the style a table is named in."""
        return self.others.get(table.words, self.style)

    def tokens(self, words: str, style: Style, *, table: bool = False) -> list[str]:
        """Return the tokens of a phrase in the style's language, shortened in its way."""
        said = translate(words, style.language)
        if not style.accents:
            said = tuple(plain(token) for token in said)
        if style.abbreviation == "initials":
            return list(initials(said))
        if table and style.short_tables:
            said = said[-1:]
        return [shorten(token, style.abbreviation) for token in said]

    def join(self, tokens: list[str], case: str, style: Style) -> str:
        """Join tokens to a name in a case; `id` is written `ID` where the style says so."""
        if style.upper_id and case in ("pascal", "camel", "pascal_snake", "spaced") and len(tokens) > 1:
            tokens = [*tokens[:-1], tokens[-1].upper()] if tokens[-1] in ("id", "pk", "sk", "fk") else tokens
        return _CASES[case]([token for token in tokens if token])


def key_tokens(namer: Namer, table: Table, style: Style) -> list[str]:
    pattern = style.convention[0]
    return pattern_tokens(
        namer,
        pattern if not style.own_prefix else pattern.replace("{t}", "").strip() or "id",
        table.words,
        "",
        "",
        style,
    )


def pattern_tokens(namer: Namer, pattern: str, table: str, role: str, parent: str, style: Style) -> list[str]:
    """Return the tokens of a convention's pattern; its own words are said in the language too."""
    out: list[str] = []
    for word in pattern.split():
        phrase = {"{t}": table or role, "{r}": role or table, "{p}": parent}.get(word, word)
        if word == "{p}" and parent and role.endswith(parent):
            continue
        out += namer.tokens(phrase, style, table=word == "{t}") if phrase else []
    return out


def unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number behind it when `taken` (lower case) has it already."""
    found, number = name, 2
    while found.lower() in taken or not found:
        found, number = f"{name or 'x'}{number}", number + 1
    taken.add(found.lower())
    return found
