"""Sentences that speak to an agent rather than about the business."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from ktx_cli.context.wiki.hidden import without_hidden
from ktx_cli.context.wiki.instruction_rules import RULES
from ktx_cli.context.wiki.spots import Spot, line_start

_LOOKALIKES: Final = str.maketrans("аеорсухіјѕԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "aeopcyxijsdqwABEZHIKMNOPTYXo")
"""Letters of other alphabets that look like Latin ones."""

_EMPHASIS: Final = str.maketrans({"*": None, "`": None, "~": None})


def instructions(text: str) -> Iterator[Spot]:
    """Yield sentences that speak to an agent: one for each rule, where it fits first."""
    plain = _plain(text)
    readings = (plain,) if plain.isascii() else (plain, plain.translate(_LOOKALIKES))
    for reading in readings:
        folded = reading.casefold()
        for rule in RULES:
            if not any(word in folded for word in rule.words):
                continue
            found = rule.pattern.search(reading)
            if found is not None:
                begun = found.start() + len(found[0]) - len(found[0].lstrip())
                at = line_start(text, reading.count("\n", 0, begun))
                yield Spot(at, "instruction", f"the text {rule.what}", "delete the sentence, or say it of the business")


def _plain(text: str) -> str:
    """Return a text as it reads, line by line: compatible forms folded, nothing hidden, no emphasis."""
    if not text.isascii():
        lines = without_hidden(text).split("\n")
        text = "\n".join(unicodedata.normalize("NFKC", line) for line in lines)
    return text.translate(_EMPHASIS)
