"""`ktx runs`: list and show runs with the transcripts of their agents, and replay their progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ktx_cli.cli.blocks import USAGE_COLUMNS, Block, Fields, Lines, Table, cost_cell, usage_cells
from ktx_cli.cli.contract import Result, Session, command, harmless
from ktx_cli.cli.help import group
from ktx_cli.core import age, listing, now, plural

if TYPE_CHECKING:
    from ktx_cli.project import Layout
    from ktx_cli.runs import RunDetails, RunRecord

commands = group("Inspect past runs and the transcripts of their agents.")


RUN = Annotated[str, Argument(metavar="RUN", help="ID of a run, a unique prefix of it, or `latest`.")]
FASTER = 8.0
"""Default speed-up of a replay on a terminal with live progress."""


@command(commands, "list", schema="runs-list")
def list_runs(
    session: Session, limit: Annotated[int, Option("--limit", "-n", min=1, help="Maximum number of runs to list.")] = 20
) -> Result:
    """List the runs of this project, newest first.

    Examples:
        ktx runs list
        ktx runs list --limit 5 --json
    """
    from ktx_cli.jobs.setup.request import first_step
    from ktx_cli.runs import list_runs

    layout, config = session.load_project()
    found, warnings = list_runs(layout, limit)
    session.warn(*warnings)
    columns = ("run", "command", "status", "started", "seconds", "units", "tokens", "cost", "commit")
    pretty = session.settings.pretty
    rows = tuple(_row(each, pretty=pretty) for each in found)
    empty = frozenset(name for place, name in enumerate(columns) if not any(row[place] for row in rows))
    table = Table(columns, rows, optional=empty)
    hint = [] if found else [first_step(layout.root, config)]
    return Result({"runs": [each.to_json() for each in found]}, [table], next_steps=hint)


def _row(run: RunRecord, *, pretty: bool) -> tuple[str, ...]:
    """Return the cells of a run; `pretty`: how long ago it started, instead of when."""
    units = ", ".join(f"{count} {status}" for status, count in sorted(run.units.items()))
    return (
        run.run_id,
        run.command,
        run.status,
        age(max(0, int((now() - datetime.fromisoformat(run.started)).total_seconds()))) if pretty else run.started,
        "" if run.seconds is None else f"{run.seconds:.1f}",
        units,
        f"{run.tokens:,}" if run.tokens else "",
        cost(run),
        (run.commit or "")[:10],
    )


@command(commands, "show", schema="runs-show")
def show(
    session: Session,
    run: RUN,
    transcript: Annotated[
        str | None,
        Option(
            "--transcript",
            metavar="UNIT",
            help="Show the transcript of this unit's agent; with --verbose, include its system prompt.",
        ),
    ] = None,
) -> Result:
    """Show the results, work units and cost of a run.

    Lists work units with their reasons, artifacts with their raw files, conflicts, and the usage of models.

    Examples:
        ktx runs show latest
        ktx runs show latest --verbose
        ktx runs show latest --transcript dbt:orders
    """
    layout, _ = session.load_project()
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


@command(commands, "replay", schema="runs-replay")
def replay(
    session: Session,
    run: RUN,
    speed: Annotated[
        float | None,
        Option(
            "--speed",
            min=0,
            metavar="FACTOR",
            help=f"Speed-up factor, or 0 for no pauses. Defaults to {FASTER:g} on a terminal.",
        ),
    ] = None,
) -> Result:
    """Replay the progress of a run.

    Shows the recorded events as the run showed them, in any --progress mode.

    Examples:
        ktx runs replay latest
        ktx runs replay latest --speed 0 --progress jsonl
    """
    from ktx_cli.runs import find_run, stored_events

    layout, _ = session.load_project()
    record, warnings = find_run(layout, run)
    session.warn(*warnings)
    documents = stored_events(layout, record.run_id)
    notes = _draw(session, documents, speed)
    data = {"run": record.to_json(), "events": documents}
    rows = (("run", record.run_id), ("status", record.status), ("events", ", ".join([f"{len(documents):,}", *notes])))
    blocks: list[Block] = [Fields(rows)]
    return Result(data, blocks)


def _draw(session: Session, documents: list[dict[str, Any]], speed: float | None) -> list[str]:
    """Draw the events, and return notes about those that are not drawn."""
    from ktx_cli.cli.progress import drawing
    from ktx_cli.runs import Replay

    replay = Replay(documents)
    shown = drawing(session.settings, replay.now)
    session.ending.callback(shown.close)
    replay.speed = speed if speed is not None else FASTER if shown.is_live else 0.0
    for event in replay:
        shown.emit(event)
    notes = ["truncated at the maximum size"] if replay.is_cut else []
    return notes + ([f"{plural(replay.unknown, 'event')} of another version skipped"] if replay.unknown else [])


MOST_RAW = 5
"""Maximum number of raw files listed per artifact without `--verbose`."""


def cost(run: RunRecord) -> str:
    """Return the cost of a run at list prices, or an empty string if it called no model."""
    if not run.tokens:
        return ""
    return cost_cell(run.usd, partial=run.unpriced > 0)


def details_blocks(found: RunDetails, *, verbose: bool) -> list[Block]:
    """Return all details of a run as blocks."""
    report = found.report or {}
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = [
        (("connection", "status", "result"), list(_parts(report))),
        (("group", "verdict", "reason"), list(map(_group, report.get("groups") or ()))),
        (("unit", "status", "steps", "tool calls", "reason"), list(map(_unit, found.units))),
        (("artifact", "from"), [(name, _raw(raw, verbose)) for name, raw in found.artifacts.items()]),
        (("note", "by", "about", "details"), list(map(_noted, found.records))),
        (("role", "model", *USAGE_COLUMNS), list(map(usage_cells, found.usage))),
    ]
    blocks: list[Block] = [Fields(tuple(_facts(found)))]
    return blocks + [Table(columns, tuple(rows)) for columns, rows in tables if rows]


def _facts(found: RunDetails) -> Iterator[tuple[str, str]]:
    run, report = found.record, found.report or {}
    yield from (("run", run.run_id), ("command", run.command), ("status", run.status), ("started", run.started))
    if run.seconds is not None:
        yield "seconds", f"{run.seconds:.1f}"
    if run.tokens:
        yield "model usage", f"{run.tokens:,} tokens, {cost(run)}"
    yield "commit", run.commit or "none"
    branch = report.get("proposed") or report.get("named_branch")
    if branch:
        yield "branch", str(branch)
    if report.get("uncommitted"):
        yield "written", f"{plural(len(report['uncommitted']), 'file')}, not committed"
    for name in ("failure", "stopped"):
        if report.get(name):
            yield ("ended by" if name == "failure" else "agents stopped by"), str(report[name].get("message"))
    if found.report is None:
        yield "report", "none (shown from its events)"
    for held in report.get("held") or ():
        yield "skipped", f"{held.get('path')} ({held.get('reason')})"
    for repaired in report.get("repaired") or ():
        yield "repaired", str(repaired)
    if found.transcripts:
        yield "transcripts", listing(dict.fromkeys(each.label for each in found.transcripts))


def _parts(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for each in report.get("connections") or ():
        yield str(each.get("connection")), str(each.get("status")), str(each.get("result") or "")
    for each in report.get("sources") or ():
        yield f"{each.get('connection')} ({each.get('kind')})", str(each.get("status")), str(each.get("result") or "")


def _group(group: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(group.get("id")), str(group.get("verdict")), str(group.get("reason") or "")


def _unit(unit: Mapping[str, Any]) -> tuple[str, ...]:
    notes = [str(unit.get("reason") or "")]
    notes += ["reused from an earlier run"] if unit.get("replayed") else []
    notes += ["resumed from an earlier run"] if unit.get("resumed") else []
    notes += ["reached the step limit"] if unit.get("budget_used") else []
    name = f"{unit.get('connection')}:{unit.get('unit')}"
    counts = (str(unit.get("steps") or 0), str(unit.get("tool_calls") or 0))
    return name, str(unit.get("status")), *counts, "; ".join(filter(None, notes))


def _raw(raw: tuple[str, ...], verbose: bool) -> str:
    return listing(raw, len(raw) if verbose else MOST_RAW)


def noted_text(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the kind, subject and details of an agent's record."""
    match record.get("record"):
        case "contradictions":
            from ktx_cli.wiki import Contradiction

            return "contradiction", str(record.get("topic")), Contradiction.from_json(record).summary
        case "conflicts":
            flagged = "conflict to review" if record.get("flagged") else "conflict"
            return flagged, str(record.get("artifact")), f"{record.get('kind')}: {record.get('detail')}"
        case "evictions":
            detail = f"{record.get('action')}: {record.get('reason')} ({record.get('raw_path')} was removed)"
            return "eviction", str(record.get("artifact")), detail
        case "resolutions":
            detail = f"{record.get('kind')} into {record.get('into')}: {record.get('reason')}"
            return "resolution", str(record.get("artifact")), detail
    about = " ".join(filter(None, (str(record.get("raw_path")), str(record.get("table_ref") or ""))))
    detail = "; ".join(filter(None, (str(record.get("detail")), str(record.get("clarification") or ""))))
    return "not mapped", about, f"{detail} ({record.get('fallback')})"


def _noted(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    what, about, detail = noted_text(record)
    return what, str(record.get("by")), about, detail


def transcript_lines(lines: Iterable[Mapping[str, Any]], *, verbose: bool) -> Iterator[str]:
    """Yield a transcript as lines that are safe for a terminal; `verbose` includes the system prompt."""
    for line in lines:
        for text in _line_texts(line, verbose=verbose):
            yield from map(harmless, text.splitlines() or [""])


def _line_texts(line: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    match line.get("event"):
        case "loop_started":
            role, label = line.get("role"), line.get("label")
            yield f"== {label or role}: {role}, {line.get('model')}, {line.get('at')}"
            yield from (("-- system", str(line.get("system"))) if verbose else ())
            yield from ("-- prompt", str(line.get("prompt")))
        case "resumed":
            yield f"-- resumed after step {line.get('steps')} of an interrupted run"
        case "text":
            yield from ("-- text", str(line.get("text")))
        case "tool_started":
            yield f"-- call {line.get('name')} {json.dumps(line.get('arguments'), ensure_ascii=False)}"
        case "tool_finished":
            yield f"-- {line.get('name')} {'failed' if line.get('is_error') else 'returned'}"
            yield str(line.get("result"))
        case "step_finished":
            yield f"-- finished step {line.get('index')} of at most {line.get('budget')}"
        case "rate_limit_wait" if line.get("state") == "started":
            yield f"-- waiting: {line.get('reason')}"
        case "final":
            yield f"== ended: {line.get('stop_reason')}"
        case "failed":
            yield f"== failed: {line.get('error_code')} ({(line.get('details') or {}).get('code')})"
        case "cut":
            yield "== the rest was not recorded"
