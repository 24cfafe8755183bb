"""`ktx demo`: create the demo project of a small company in a new folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Lines, Table, as_table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import runnable
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import Command, Hint, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.demo.demo import DemoAnswer, SecondHalf

commands = typer.Typer()


_KNOWN: Final = {
    "descriptions": "descriptions of tables and columns",
    "rules": "column rules: unique, not null, allowed values",
    "joins": "joins",
    "measures": "measures",
    "pages": "wiki pages",
}

_SET_UP: Final = Command("setup", "--llm-backend", "claude-code")
_READ: Final = Command("ingest", "dbt", "handbook")
"""The commands with which a model reads the sources, too."""


_NEXT: Final = (
    Command("sl", "query", "-m", "order_revenue.net_revenue", "-d", "customer_value.is_active"),
    Command("wiki", "read", "revenue"),
    Command("search", "guest", "card"),
    Command("scan", "relationships"),
    Command("sl", "read", "order_lines"),
    Command("status"),
)


@command(commands, "demo")
def demo(
    session: Session,
    folder: Annotated[str, Argument(help="New or empty folder to create the project in.")] = "ktx-demo",
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the generated data.")] = 7,
) -> Result:
    """Create a demo project: a warehouse, a dbt project and docs.

    Builds the data of a small company and its context. Needs no API key and no account.

    Examples:
        ktx demo
        ktx demo my-demo --seed 11
    """
    from ktx_cli.jobs.demo.demo import demo as build

    report = build(current_folder() / folder, seed, environ=os.environ, emit=session.emitter())
    scanned = report.ingest.connections[0]
    verbose = session.settings.verbose
    warehouse = Table(
        ("table", "rows"),
        tuple((name, f"{rows:,}") for name, rows in report.rows.items()),
        title="The company's warehouse",
    )
    blocks: list[Block] = [
        *([warehouse] if verbose else []),
        Fields(
            (("folder", str(report.folder)), ("scanned", scanned.result), ("commit", (report.ingest.commit or "")[:10]))
        ),
        Table(
            ("join", "score", "why"),
            tuple((each.name, f"{each.relationship.probability:g}", each.relationship.reason) for each in report.joins),
            title="Inferred joins, which no foreign key declares",
        ),
        *_asked(report.asked),
        *_second_half(report.second, verbose=verbose),
    ]
    return Result(report.to_json(), blocks, next_steps=[Command(folder, program="cd"), *_NEXT])


def _second_half(half: SecondHalf, *, verbose: bool) -> list[Block]:
    """Return the results of the context sources, a question they made possible, and the work left for a model."""
    left = Table(("source", "with a model"), tuple(half.to_add), title="What ktx can add with a model")
    statement = Hint(
        "A model can also read {} and turn them into pages and measures: run {} and {} in the project{}.",
        plural(len(half.to_add), "more file or folder", "more files and folders"),
        Hint("`{}`", _SET_UP),
        Hint("`{}`", _READ),
        "" if verbose else "; --verbose lists them",
    )
    known = tuple(
        (words, str(getattr(half.before, name)), str(getattr(half.after, name))) for name, words in _KNOWN.items()
    )
    return [
        Table(
            ("context", "before", "after"),
            known,
            title="Context after ingesting the dbt project and the handbook, without a model",
        ),
        Fields(
            (*((work.name, work.result) for work in half.ingest.sources), ("commit", (half.ingest.commit or "")[:10]))
        ),
        *_asked(half.asked, before=half.refused),
        *([left] if verbose else []),
        Lines((runnable(statement),)),
    ]


def _asked(asked: DemoAnswer, *, before: str = "") -> list[Block]:
    """Return a question with its answer; `before`: the earlier result."""
    answer = asked.answer
    refused = (f"before: {before}",) if before else ()
    return [
        Lines((asked.question.title, *refused)),
        as_table(answer.columns, answer.rows, answer.formats),
        Lines(tuple(_receipt(answer.receipt))),
    ]


def _receipt(receipt: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts that the answer is computed from, one per line."""
    for fact in receipt["facts"]:
        paths = "; ".join(path["path"] for path in fact["paths"])
        yield f"{fact['rows']:,} rows of {fact['fact']}" + (f", by {paths}" if paths else "")
    verified = receipt["verified"]
    yield f"recomputed from raw rows: {verified['rows']} of {verified['of']} rows, {len(verified['mismatches'])} differ"
