"""Writes how well the probabilities of the shipped ranker hold into `docs/concepts/relationships.md`."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "concepts" / "relationships.md"
BEGIN, END = "<!-- calibration: written by `make docs` -->\n", "<!-- end of calibration -->"


def page() -> str:
    """Return the page with the table as it should be."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + table(_ranker()) + END + rest.partition(END)[2]


def table(ranker: dict[str, Any]) -> str:
    """Return what a ranker was learned from, and how often its probabilities were right."""
    learned = ranker["learned_from"]
    lines = [
        f"Learned from {learned['databases']:,} generated databases: {learned['pairs']:,} pairs of columns, "
        f"{learned['references']:,} of them references.",
        "",
        "| said | columns | mean of what was said | true |",
        "|---|---:|---:|---:|",
    ]
    for low, high, count, said, true in ranker["reliability"]:
        lines.append(f"| {low:.2f} to {high:.2f} | {count:,} | {said:.3f} | {true:.3f} |")
    return "\n".join([*lines, ""])


def _ranker() -> dict[str, Any]:
    text = files("ktx_cli.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return dict(json.loads(text))
