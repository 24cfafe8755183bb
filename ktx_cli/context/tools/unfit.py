"""What no file may hold that an agent writes, whatever it is: characters people do not see, and secrets."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.context.wiki.hidden import hidden_characters
from ktx_cli.context.wiki.secret_texts import secrets

_COLUMN: Final = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\b(?![\w.-])")
"""What a join compares a column called `token` with."""

_MOST_TOLD: Final = 30


def unfit_lines(text: str, before: bytes | None) -> list[str]:
    """Return what of a text may not be saved, a line each; lines the file had `before` are not held against it."""
    known = frozenset() if before is None else frozenset(before.decode("utf-8", "replace").split("\n"))
    lines = text.split("\n")
    keys = (each for each in secrets(text) if not _COLUMN.match(text, each.at))
    told = []
    for spot in (*hidden_characters(text), *keys):
        number = text.count("\n", 0, spot.at)
        if lines[number] not in known:
            told.append(f"- line {number + 1}: {spot.message}: {spot.hint}")
    return told[:_MOST_TOLD]
