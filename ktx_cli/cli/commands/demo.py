"""`ktx demo`: a complete small company in a new folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import current_folder
from ktx_cli.core.text import shell_words


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "demo")
    def demo(
        session: Session,
        folder: Annotated[str, typer.Argument(help="A new or empty folder.")] = "ktx-demo",
        seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another company's numbers.")] = 7,
    ) -> Result:
        """Build a small company (warehouse, dbt project, handbook) and its context, without any key."""
        from ktx_cli.jobs.demo.run import demo as build

        report = build(current_folder() / folder, seed, environ=os.environ, emit=session.emitter())
        scanned = report.ingest.connections[0]
        blocks: list[Block] = [
            Table(
                ("table", "rows"),
                tuple((name, f"{rows:,}") for name, rows in report.rows.items()),
                title="The company's warehouse",
            ),
            Fields(
                (
                    ("folder", str(report.folder)),
                    ("scanned", scanned.result),
                    ("commit", (report.ingest.commit or "")[:10]),
                )
            ),
            Table(
                ("join", "score", "why"),
                tuple((each.name, f"{each.edge.score:g}", each.edge.reason) for each in report.joins),
                title="Joins that no key declares, found in the rows",
            ),
            Lines((report.question.title,)),
            Table(report.answer.columns, tuple(tuple(_shown(cell) for cell in row) for row in report.answer.rows)),
            Lines(tuple(_receipt(report.answer.receipt))),
        ]
        steps = [
            f"cd {shell_words(folder)} && ktx sl query -m orders.late_share -d shipped.month_start",
            f"cd {shell_words(folder)} && ktx sl list",
            f"cd {shell_words(folder)} && ktx scan relationships",
            "less semantic-layer/warehouse/*.yaml",
            "less handbook/*.md",
        ]
        return Result(report.to_json(), blocks, next_steps=steps)


def _shown(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _receipt(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the answer is made of, a line a fact."""
    for fact in receipt["facts"]:
        yield f"{fact['rows']:,} rows of {fact['fact']}, by {'; '.join(path['path'] for path in fact['paths'])}"
    verified = receipt["verified"]
    yield f"computed a second way: {verified['rows']} of {verified['of']} rows, {len(verified['mismatches'])} differ"
