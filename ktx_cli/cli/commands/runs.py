"""`ktx runs`: what runs did, what their agents said, and how it went, shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import group
from ktx_cli.cli.runs_view import cost, details_blocks, transcript_lines
from ktx_cli.core import plural

if TYPE_CHECKING:
    from ktx_cli.project import Layout
    from ktx_cli.runs import RunRecord


RUN = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its unique beginning, or `latest`.")]
FASTER = 8.0
"""How much faster a run is shown again on a terminal that can draw it moving."""


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    commands = group(app, "runs", "What runs did: reports, transcripts of agents, events. Changes nothing.")
    _register_list(commands)
    _register_show(commands)
    _register_replay(commands)


def _layout(session: Session) -> Layout:
    from ktx_cli.project import Layout, load_config

    layout = Layout(session.require_project())
    session.warn(*load_config(layout.config).notices())
    return layout


def _register_list(commands: typer.Typer) -> None:
    @command(commands, "list", schema="runs-list")
    def list_runs(
        session: Session,
        limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest first.")] = 20,
    ) -> Result:
        """List the runs of this project, the newest first; one that was killed says so."""
        from ktx_cli.cli.commands.sl_question import project_of
        from ktx_cli.jobs.setup.request import first_step
        from ktx_cli.runs import list_runs

        layout, config = project_of(session)
        found, warnings = list_runs(layout, limit)
        session.warn(*warnings)
        columns = ("run", "command", "status", "started", "seconds", "units", "tokens", "cost", "commit")
        table = Table(columns, tuple(map(_row, found)))
        hint = [] if found else [first_step(layout.root, config)]
        return Result({"runs": [each.to_json() for each in found]}, [table], next_steps=hint)


def _row(run: RunRecord) -> tuple[str, ...]:
    units = ", ".join(f"{count} {status}" for status, count in sorted(run.units.items()))
    return (
        run.run_id,
        run.command,
        run.status,
        run.started,
        "" if run.seconds is None else f"{run.seconds:.1f}",
        units,
        f"{run.tokens:,}" if run.tokens else "",
        cost(run),
        (run.commit or "")[:10],
    )


def _register_show(commands: typer.Typer) -> None:
    @command(commands, "show", schema="runs-show")
    def show(
        session: Session,
        run: RUN,
        transcript: Annotated[
            str | None,
            typer.Option(
                "--transcript", metavar="UNIT", help="What a unit's agent said and did; --verbose: all it was told."
            ),
        ] = None,
    ) -> Result:
        """Show what a run read, wrote and took: units with their reasons, artifacts with their raw files, conflicts."""
        layout = _layout(session)
        if transcript is not None:
            return _transcript(session, layout, run, transcript)
        from ktx_cli.runs import run_details

        found = run_details(layout, run)
        session.warn(*found.warnings)
        return Result(found.to_json(), details_blocks(found, verbose=session.settings.verbose))


def _transcript(session: Session, layout: Layout, run: str, unit: str) -> Result:
    from ktx_cli.runs import chosen_transcripts, find_run

    record, warnings = find_run(layout, run)
    session.warn(*warnings)
    chosen = [(each, list(each.lines())) for each in chosen_transcripts(layout, record.run_id, unit)]
    shown = [line for _, lines in chosen for line in transcript_lines(lines, verbose=session.settings.verbose)]
    data = [{**each.to_json(), "lines": lines} for each, lines in chosen]
    return Result({"run_id": record.run_id, "transcripts": data}, [Lines(tuple(shown))])


def _register_replay(commands: typer.Typer) -> None:
    @command(commands, "replay", schema="runs-replay")
    def replay(
        session: Session,
        run: RUN,
        speed: Annotated[
            float | None,
            typer.Option(
                "--speed", min=0, help=f"How many times as fast; 0: no pauses ({FASTER:g} where the view moves)."
            ),
        ] = None,
    ) -> Result:
        """Draw the events of a run again as it drew them, with --progress jsonl too."""
        from ktx_cli.runs import find_run, stored_events

        layout = _layout(session)
        record, warnings = find_run(layout, run)
        session.warn(*warnings)
        documents = stored_events(layout, record.run_id)
        notes = _draw(session, documents, speed)
        data = {"run": record.to_json(), "events": documents}
        rows = (
            ("run", record.run_id),
            ("status", record.status),
            ("events", ", ".join([f"{len(documents):,}", *notes])),
        )
        blocks: list[Block] = [Fields(rows)]
        return Result(data, blocks)


def _draw(session: Session, documents: list[dict[str, Any]], speed: float | None) -> list[str]:
    """Draw the events, and return what there is to say of those that are not drawn."""
    from ktx_cli.cli.progress import drawing
    from ktx_cli.runs import Replay

    replay = Replay(documents, 0.0)
    shown = drawing(session.settings, replay.now)
    session.ending.callback(shown.close)
    replay.speed = speed if speed is not None else FASTER if shown.is_live else 0.0
    for event in replay:
        shown.emit(event)
    notes = ["cut at their largest size"] if replay.is_cut else []
    return notes + ([f"{plural(replay.unknown, 'event')} of another version"] if replay.unknown else [])
