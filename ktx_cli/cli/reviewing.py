"""The questions of `ktx scan relationships --review`: an edge with its facts, and what a person types about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktx_cli.cli import streams
from ktx_cli.core.text import one_line

if TYPE_CHECKING:
    from ktx_cli.context.scan.review import ReviewedEdge
    from ktx_cli.jobs.decided import Choice


def ask(edges: Sequence[ReviewedEdge], choices: list[Choice]) -> None:
    """Ask about each edge until one answer is to quit, and add what was decided to `choices`.

    Raises `EOFError` when the input is at its end, `KeyboardInterrupt` on Ctrl-C; what was added stays.
    """
    from ktx_cli.context.scan.decisions import Decision
    from ktx_cli.jobs.decided import Choice

    decisions = {"a": Decision.ACCEPT, "r": Decision.REJECT}
    for number, edge in enumerate(edges, start=1):
        streams.write_err(_shown(edge, f"{number} of {len(edges)}"))
        answer = _answer(edge.missing)
        if answer == "q":
            break
        if answer in decisions:
            choices.append(Choice(edge.name, decisions[answer], edge.connection))


def _shown(reviewed: ReviewedEdge, position: str) -> str:
    edge = reviewed.edge
    facts = f"{reviewed.standing.value}, score {edge.score:g}, {edge.cardinality.value}"
    found = f"{facts}, from {', '.join(edge.sources)}" if edge.sources else facts
    title = f"{position}: {reviewed.name} ({reviewed.connection})"
    return f"{one_line(title, 400)}\n  {one_line(found)}\n  {one_line(edge.reason)}\n"


def _answer(missing: str | None) -> str:
    """Return a, r, s or q, and no a for an edge of which something is `missing`; asks again for anything else.

    Raises `EOFError` when the input is at its end.
    """
    while True:
        streams.write_err("[a]ccept  [r]eject  [s]kip  [q]uit: ")
        typed = sys.stdin.readline()
        if not typed:
            raise EOFError
        word = typed.strip().casefold()
        if word == "" or not any(full.startswith(word) for full in ("accept", "reject", "skip", "quit")):
            streams.write_err("type a, r, s or q, then Enter\n")
        elif word[0] == "a" and missing is not None:
            streams.write_err(f"it cannot be accepted: {one_line(missing)}\n")
        else:
            return word[0]
