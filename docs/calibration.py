"""Writes the accuracy of the shipped ranker's probabilities into `docs/concepts/relationships.md`."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "concepts" / "relationships.md"
BEGIN, END = "<!-- calibration: written by `make docs` -->\n", "<!-- end of calibration -->"


def page() -> str:
    """Return the page with an up-to-date table."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + table(_ranker()) + END + rest.partition(END)[2]


def table(ranker: dict[str, Any]) -> str:
    """Return the size of a ranker's training data and a table of its predicted and actual probabilities."""
    learned = ranker["learned_from"]
    lines = [
        f"Trained on {learned['databases']:,} generated databases with {learned['pairs']:,} pairs of columns. "
        f"Of these pairs, {learned['references']:,} are references."
    ]
    for group in ranker["reliability"]:
        error = f", with an expected calibration error of {group['error']:.3f} from 0.5 on" if "error" in group else ""
        lines += ["", f"{_columns(group)}{error}:", ""]
        lines += ["| predicted probability | columns | mean prediction | actual share |", "|---|---:|---:|---:|"]
        lines += [
            f"| {low:.2f} to {high:.2f} | {count:,} | {said:.3f} | {true:.3f} |"
            for low, high, count, said, true in group["bins"]
        ]
    return "\n".join([*lines, ""])


def _columns(group: dict[str, Any]) -> str:
    least, most = group["least"], group["most"]
    if least and most:
        return f"Columns with {least} to {most} distinct values"
    if most:
        return f"Columns with at most {most} distinct values"
    return f"Columns with {least} or more distinct values" if least else "All columns"


def _ranker() -> dict[str, Any]:
    text = files("ktx_cli.scan.relationships").joinpath("ranker.json").read_text("utf-8")
    return dict(json.loads(text))
