"""How long an answer may be, and how one that is longer is cut: whole items, with the offset of the next page."""

from __future__ import annotations

import json
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.mcp.tool import Output, Paged, shown

LONGEST: Final = 24_000
"""Characters of an answer as JSON: about 7,000 tokens."""

_LINE_WARNINGS: Final = 2_000


def fitted(output: Output, offset: int = 0) -> dict[str, Any]:
    """Return an answer as JSON, cut to the budget; `offset`: where its page begins.

    Raises `KtxError` where what cannot be cut is too long alone.
    """
    dumps = output.model_dump(mode="json", by_alias=True)
    data = {name: each if name in output.verbatim else shown(each) for name, each in dumps.items()}
    data["warnings"] = _short(data["warnings"])
    over = len(dumped(data)) - LONGEST
    if over <= 0:
        return data
    if not isinstance(output, Paged):
        raise _too_long(len(dumped(data)))
    whole = data[output.part]
    kept = _most(data, output.part, whole)
    if kept == 0:
        raise _too_long(len(dumped(data)))
    data[output.part] = whole[:kept]
    data["truncated"], data["next_offset"] = True, offset + kept
    return data


def dumped(data: Any) -> str:
    """Return an answer as the text an agent reads."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _most(data: dict[str, Any], part: str, whole: Any) -> int:
    """Return how many items (or characters) from the beginning fit."""
    room = LONGEST - len(dumped({**data, part: whole[:0]})) - 40
    if isinstance(whole, str):
        return _most_text(whole, room)
    kept = 0
    for item in whole:
        room -= len(dumped(item)) + 1
        if room < 0:
            break
        kept += 1
    return kept


def _most_text(whole: str, room: int) -> int:
    """Return how many characters fit as JSON has them, to the end of a line where there is one."""
    kept = min(len(whole), max(room, 0))
    while kept and len(dumped(whole[:kept])) > room + 2:
        kept = min(kept - 1, int(kept * (room + 2) / len(dumped(whole[:kept]))))
    line = whole.rfind("\n", 0, kept) + 1
    return line if line > kept // 2 else kept


def _short(warnings: list[str]) -> list[str]:
    room = _LINE_WARNINGS
    kept: list[str] = []
    for each in warnings:
        room -= len(each)
        if room < 0:
            return [*kept, f"and {len(warnings) - len(kept)} more warnings"]
        kept.append(each)
    return kept


def _too_long(length: int) -> KtxError:
    return KtxError(
        f"the answer has {length:,} characters, {LONGEST:,} are allowed",
        hint="ask for less at once: fewer columns, names or values",
        code="context",
    )
