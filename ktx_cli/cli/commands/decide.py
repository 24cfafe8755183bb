"""`ktx decide`: list the conventions that the data cannot settle, and record decisions about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands.completion import connection_ids, open_points
from ktx_cli.cli.contract import Result, Session, own_command
from ktx_cli.cli.help import own_group
from ktx_cli.cli.settings import WAIT
from ktx_cli.core import CancelledError, Command, Placeholder, UsageError, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.decide.decide import Choice, DecideReport
    from ktx_cli.jobs.decide.points import LoadedDecisions
    from ktx_cli.project import KtxConfig, Layout
    from ktx_cli.semantic import DecisionPoint

commands = own_group()

MOST_ASKED = 10
"""Maximum number of decision points per session, those with the largest effects."""


@own_command(commands, schema="decide")
def decide(
    session: Session,
    point: Annotated[
        str | None, Argument(metavar="POINT", help="ID of a decision point.", autocompletion=open_points)
    ] = None,
    reading: Annotated[
        str | None, Option("--as", metavar="READING", help="Choose this reading of POINT, by its ID or label.")
    ] = None,
    because: Annotated[str | None, Option("--because", metavar="TEXT", help="Reason for the decision.")] = None,
    by: Annotated[
        str | None,
        Option("--by", metavar="NAME", help="Name of the person who decides. Defaults to your git author name."),
    ] = None,
    undo: Annotated[bool, Option("--undo", help="Withdraw the decision about POINT.")] = False,
    no_commit: Annotated[bool, Option("--no-commit", help="Change the files without committing them.")] = False,
    all: Annotated[bool, Option("--all", help="Also list points that are settled or decided.")] = False,
    connection: Annotated[
        str | None,
        Option(
            "--connection",
            "-c",
            metavar="ID",
            help="Only list points of this connection.",
            autocompletion=connection_ids,
        ),
    ] = None,
    wait: WAIT = None,
) -> Result:
    """List and decide conventions that the data cannot settle.

    On a terminal, without POINT, ktx asks about the decisions with the largest effect and commits the answers
    together. A decision changes definitions, writes a wiki page and tests, and is recorded in decisions.yaml.

    Examples:
        ktx decide --all
        ktx decide payments.status.status
        ktx decide payments.status.status --as without_ended
    """
    from ktx_cli.jobs.decide.decide import Choice
    from ktx_cli.jobs.decide.points import find_point, read_all

    _check(point, reading, because, undo=undo)
    layout, config = session.load_project()
    loaded, warnings = read_all(layout, config, _database(config, connection))
    session.warn(*warnings)
    if point is None:
        interactive = session.settings.interactive and not (session.settings.json or all)
        return _asked(session, layout, config, loaded, by, no_commit, wait) if interactive else _list(loaded, all=all)
    found, chosen = find_point(loaded, point)
    name = f"{found.decisions.connection}/{chosen.id}"
    if reading is None and not undo:
        return _shown(layout, config, found, chosen)
    choice = Choice(name, None if undo else reading, because)
    return _decided(session, layout, config, [choice], by, no_commit, wait)


def _check(point: str | None, reading: str | None, because: str | None, *, undo: bool) -> None:
    """Raise `UsageError` for options that cannot be combined."""
    if undo and reading is not None:
        raise UsageError("--as and --undo cannot be used together", hint="remove one of them")
    if (undo or reading is not None) and point is None:
        raise UsageError("--as and --undo require a POINT", hint=Command("decide", "--all"))
    if because is not None and reading is None:
        example = Command("decide", Placeholder("POINT"), "--as", Placeholder("READING"), "--because", "TEXT")
        raise UsageError("--because requires a decision", hint=example)


def _database(config: KtxConfig, connection: str | None) -> str | None:
    from ktx_cli.semantic import database_of

    if connection is not None:
        database_of(config, connection)
    return connection


def _asked(
    session: Session,
    layout: Layout,
    config: KtxConfig,
    loaded: Sequence[LoadedDecisions],
    by: str | None,
    no_commit: bool,
    wait: float | None,
) -> Result:
    """Ask about the open points with the largest effects; answers given before an interrupt are kept."""
    from ktx_cli.cli.prompts import ask_decisions

    waiting = _open(loaded)[:MOST_ASKED]
    if not waiting:
        return _list(loaded, all=False)
    choices: list[Choice] = []
    stop: CancelledError | None = None
    try:
        ask_decisions([(each.decisions, point) for each, point in waiting], choices)
    except (KeyboardInterrupt, EOFError):
        streams.write_err("\n")
        kept = f"{plural(len(choices), 'decision')} kept" if choices else "nothing was changed"
        stop = CancelledError(f"the review was interrupted: {kept}", hint=Command("decide"))
        if not choices:
            raise stop from None
    if not choices:
        return Result(_data(loaded, [], None), [Fields((("decided", "nothing"),))])
    done = _decided(session, layout, config, choices, by, no_commit, wait)
    return Result(done.data, done.blocks, done.error or stop, done.next_steps)


def _open(loaded: Sequence[LoadedDecisions]) -> list[tuple[LoadedDecisions, DecisionPoint]]:
    """Return the unsettled points of all connections, those with the largest effect first."""
    found = [(each, point) for each in loaded for point in each.decisions.unsettled()]
    return sorted(found, key=lambda pair: -pair[1].spread)


def _list(loaded: Sequence[LoadedDecisions], *, all: bool) -> Result:
    from ktx_cli.semantic import open_decision

    shown = _open(loaded)
    if all:
        known = {(each.decisions.connection, point.id) for each, point in shown}
        rest = [(each, point) for each in loaded for point in each.decisions.points]
        shown += [pair for pair in rest if (pair[0].decisions.connection, pair[1].id) not in known]
    several = len(loaded) > 1
    rows = []
    for each, point in shown:
        open_one = open_decision(each.decisions, point)
        cells = (point.id, open_one.effect_text() if point.is_unsettled else "", point.question)
        rows.append((*([each.decisions.connection] if several else []), *cells, *([point.state.value] if all else [])))
    data = _data(loaded, shown, None)
    if not rows:
        return Result(data, [Fields((("open decisions", "none"),))])
    columns = (*(["connection"] if several else []), "point", "effect", "question", *(["state"] if all else []))
    first = shown[0][1]
    return Result(data, [Table(columns, tuple(rows))], next_steps=[Command("decide", first.id)])


def _data(
    loaded: Sequence[LoadedDecisions],
    shown: Sequence[tuple[LoadedDecisions, DecisionPoint]],
    report: DecideReport | None,
) -> dict[str, Any]:
    return {
        "points": [_point_data(each, point) for each, point in shown],
        "open": len(_open(loaded)),
        "report": None if report is None else report.to_json(),
    }


def _point_data(loaded: LoadedDecisions, point: DecisionPoint) -> dict[str, Any]:
    """Return a decision point in the form of the JSON envelope."""
    from ktx_cli.jobs.decide.decide import answer_json

    effects = loaded.decisions.effects_of(point)
    answer = next((each for each in loaded.decisions.answers if each.point == point.id), None)
    return {
        "connection": loaded.decisions.connection,
        "id": point.id,
        "kind": point.kind.value,
        "state": point.state.value,
        "source": point.source,
        "columns": list(point.columns),
        "question": point.question,
        "readings": [
            {"id": each.id, "label": each.label, "filter": each.filter, "expr": each.expr, "time": each.time}
            for each in point.alternatives
        ],
        "evidence": list(point.evidence),
        "statements": [{"text": each.text, "path": each.path, "line": each.line} for each in point.statements],
        "spread": point.spread if point.spreads else None,
        "spreads": dict(sorted(point.spreads.items())),
        "effects": [
            {
                "measure": each.measure,
                "period": each.period,
                "spread": each.spread,
                "values": {key: None if value is None else str(value) for key, value in each.values.items()},
            }
            for each in effects
        ],
        "answer": None if answer is None else answer_json(answer),
    }


def _shown(layout: Layout, config: KtxConfig, loaded: LoadedDecisions, point: DecisionPoint) -> Result:
    """Return everything about a point: evidence, statements, values under each reading, and what each answer
    changes.
    """
    from ktx_cli.jobs.decide.decide import preview
    from ktx_cli.semantic import percent, short_number

    facts = [("point", point.id), ("question", point.question), ("state", point.state.value)]
    facts += [("columns", ", ".join(f"{point.source}.{each}" for each in point.columns))]
    answer = next((each for each in loaded.decisions.answers if each.point == point.id), None)
    if answer is not None:
        facts.append(("decided", f"{answer.decision} ({answer.signature})"))
        facts += [("because", answer.reason)] if answer.reason else []
    previews = {} if answer is not None else preview(layout, config, loaded, point)
    blocks: list[Block] = [Fields(tuple(facts))]
    rows = tuple((each.id, each.label, previews.get(each.id, "")) for each in point.alternatives)
    blocks.append(Table(("reading", "meaning", "changes"), rows))
    effects = loaded.decisions.effects_of(point)
    if effects:
        readings = [each.id for each in point.alternatives]
        cells = tuple(
            (
                each.measure,
                each.period or "all rows",
                *(short_number(each.values.get(reading)) for reading in readings),
                percent(each.spread),
            )
            for each in effects
        )
        blocks.append(Table(("measure", "period", *readings, "difference"), cells))
    elif point.spreads:
        cells = tuple((measure, percent(spread)) for measure, spread in sorted(point.spreads.items()))
        blocks.append(Table(("measure", "difference"), cells))
    lines = [f"evidence: {one_line(each)}" for each in point.evidence]
    lines += [f"stated: {one_line(each.text)} ({each.path}:{each.line})" for each in point.statements]
    blocks += [Lines(tuple(lines))] if lines else []
    data = _point_data(loaded, point) | {"changes": previews}
    last = point.alternatives[-1].id
    undo = Command("decide", point.id, "--undo")
    step = Command("decide", point.id, "--as", last) if answer is None else undo
    return Result(_data([loaded], [], None) | {"points": [data]}, blocks, next_steps=[step])


def _decided(
    session: Session,
    layout: Layout,
    config: KtxConfig,
    choices: Sequence[Choice],
    by: str | None,
    no_commit: bool,
    wait: float | None,
) -> Result:
    from ktx_cli.jobs.decide.decide import DecideRequest, decide
    from ktx_cli.jobs.decide.points import read_all
    from ktx_cli.project import CONFIG_NAME

    request = DecideRequest(layout, config, choices, by, not no_commit, wait or 0.0, session.emitter())
    report = decide(request)
    session.warn(*report.warnings)
    loaded, _ = read_all(layout, config)
    touched = {(each.answer.connection, each.answer.point) for each in report.decided}
    touched |= {(each.connection, each.point) for each in report.taken_back}
    shown = [
        (each, point)
        for each in loaded
        for point in each.decisions.points
        if (each.decisions.connection, point.id) in touched
    ]
    blocks: list[Block] = []
    for each in report.decided:
        facts = [("decided", each.answer.decision), ("point", each.answer.point)]
        settings = each.answer.replaced.get(CONFIG_NAME, {})
        facts += [("setting", f"{setting}: {each.answer.alternative}") for setting in settings]
        if each.answer.measures or not settings:
            facts.append(("measures", ", ".join(each.answer.measures) or "none changes"))
        facts += [(f"not changed: {measure}", reason) for measure, reason in each.left.items()]
        facts += [("page", each.page)] if each.page else []
        facts += [("tests", ", ".join(each.tests))] if each.tests else []
        blocks.append(Fields(tuple(facts)))
    blocks += [Fields((("undone", each.point),)) for each in report.taken_back]
    committed = f"{report.commit[:10]} ({plural(len(report.files), 'file')})" if report.commit else "none"
    facts = [("commit", committed)]
    facts += [("changed", path) for path in report.files] if no_commit else []
    blocks.append(Fields(tuple(facts)))
    tests = any(each.tests for each in report.decided)
    steps = [Command("sl", "test")] if tests else []
    return Result(_data(loaded, shown, report), blocks, next_steps=[*steps, Command("index")])
