"""Sentences that speak to an agent rather than about the business."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from ktx_cli.context.wiki.hidden import without_hidden
from ktx_cli.context.wiki.instruction_rules import RULES
from ktx_cli.context.wiki.spots import Spot, line_start

_LOOKALIKES: Final = str.maketrans("аеорсухіјѕԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνıɪɡ", "aeopcyxijsdqwABEZHIKMNOPTYXopviig")
"""Letters of other alphabets that look like Latin ones."""

_EMPHASIS: Final = str.maketrans({"*": None, "`": None, "~": None})
_UNDERSCORES: Final = re.compile(r"(?<!\w)_{1,3}(?=\w)|(?<=[^\W_])_{1,3}(?!\w)")
_ESCAPED: Final = re.compile(r"\\(?=[^\w\s]|\n)")
_INLINE_TAG: Final = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|tt|u|var|wbr)"
    r"\b[^<>\n]{0,200}>",
    re.IGNORECASE,
)
_LINKED: Final = re.compile(r"!?\[([^\[\]\n]{1,200})\](?:\([^()\n]{0,500}\)|\[[^\[\]\n]{0,200}\])")
_WIKI_LINKED: Final = re.compile(r"!?\[\[(?:[^\[\]|\n]{0,200}\|)?([^\[\]|\n]{1,200})\]\]")
_NOTED: Final = re.compile(r"\[\^[^\[\]\s]{1,50}\](?!:)")
_BRACKETED: Final = re.compile(r"\[([^\[\]\n]{1,200})\]")
_MARKED: Final = re.compile(r"(?<!=)==(?!=)")
_ANY_TAG: Final = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")
_RULER: Final = re.compile(r"^[ \t|:>-]*$", re.MULTILINE)
"""The line between the head of a table and its rows."""
_ITEM: Final = re.compile(r"^[ \t]*(?:(?:[-+>#]|[0-9]{1,9}[.)]|#{2,6})[ \t]+)+(?:\[[ xX]?\][ \t]+)?", re.MULTILINE)
_QUOTED: Final = re.compile(r"(?<=\n)[ \t]{0,3}(?:>[ \t]?)+")


def instructions(text: str) -> Iterator[Spot]:
    """Yield sentences that speak to an agent: one for each rule, where it fits first."""
    plain = _plain(text)
    told = set()
    for reading, items in _readings(plain):
        folded = reading.casefold()
        for rule in RULES:
            if rule.what in told or (items and not rule.items) or not any(word in folded for word in rule.words):
                continue
            found = rule.pattern.search(reading)
            if found is not None:
                told.add(rule.what)
                begun = found.start() + len(found[0]) - len(found[0].lstrip())
                at = line_start(text, reading.count("\n", 0, begun))
                yield Spot(at, "instruction", f"the text {rule.what}", "delete the sentence, or say it of the business")


def _readings(plain: str) -> Iterator[tuple[str, bool]]:
    """Yield a text as it stands, then as a reader has it before them, each line where it was.

    True: as a reader who goes from item to item and from cell to cell.
    """
    yield plain, False
    drawn = _drawn(plain)
    if drawn != plain:
        yield drawn, False
    texts = [drawn]
    if not drawn.isascii():
        letters = unicodedata.normalize("NFKD", drawn.translate(_LOOKALIKES))
        texts.append("".join(letter for letter in letters if not unicodedata.combining(letter)))
        yield texts[-1], False
    for text in texts:
        if (items := _ITEM.sub("", text)) != text:
            yield items, True
        if (joined := _joined(items)) != items:
            yield joined, True


def _joined(text: str) -> str:
    """Return a text without what parts it: cells and rows of tables, tags, brackets."""
    text = _ANY_TAG.sub(" ", text) if "<" in text else text
    text = _RULER.sub("", text).replace("|", " ") if "|" in text else text
    return _BRACKETED.sub(r"\1", text) if "[" in text else text


def _drawn(text: str) -> str:
    """Return a text without what Markdown and HTML take away: escapes, marks of emphasis, quotes, links."""
    if "&" in text:
        text = "\n".join(html.unescape(line).replace("\n", " ") for line in text.split("\n"))
    text = _INLINE_TAG.sub("", text) if "<" in text else text
    text = _WIKI_LINKED.sub(r"\1", text) if "[[" in text else text
    text = _LINKED.sub(r"\1", text) if "](" in text or "][" in text else text
    text = _NOTED.sub("", text) if "[^" in text else text
    text = _MARKED.sub("", text) if "==" in text else text
    text = _QUOTED.sub("", text) if ">" in text else text
    text = _ESCAPED.sub("", text) if "\\" in text else text
    return _UNDERSCORES.sub("", text) if "_" in text else text


def _plain(text: str) -> str:
    """Return a text as it reads, line by line: compatible forms folded, nothing hidden, no emphasis."""
    if not text.isascii():
        lines = without_hidden(text).split("\n")
        text = "\n".join(unicodedata.normalize("NFKC", line) for line in lines)
    return text.translate(_EMPHASIS)
