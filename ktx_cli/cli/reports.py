"""The report of `ktx ingest` and `ktx scan`, their shared options, and diagnostics as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from ktx_cli.cli.blocks import (
    TOKEN_COLUMNS,
    USAGE_COLUMNS,
    Block,
    Fields,
    Line,
    Styled,
    Table,
    cost_cell,
    filled,
    token_cells,
    usage_cells,
)
from ktx_cli.cli.commands.completion import connection_ids
from ktx_cli.cli.contract import Result, Session
from ktx_cli.cli.help import runnable
from ktx_cli.core import Command, Diagnostic, Severity, UsageError, listing, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.engine import ConnectionReport, IngestReport
    from ktx_cli.jobs.ingest.plan import IngestRequest
    from ktx_cli.project import Destination
    from ktx_cli.semantic import Fidelity


IDS = Annotated[
    list[str] | None,
    Argument(metavar="ID", help="Connection IDs. Defaults to all connections.", autocompletion=connection_ids),
]
NO_COMMIT = Annotated[bool, Option("--no-commit", help="Write the result to the working files without committing it.")]
BRANCH = Annotated[
    str | None,
    Option(
        "--branch",
        metavar="NAME",
        help="Commit to this branch instead of the current one. ktx creates it if necessary and does not check it out.",
    ),
]
NO_LLM = Annotated[bool, Option("--no-llm", help="Only do the work that needs no model, even if one is configured.")]

MOST_JOINS = 10
"""Maximum number of joins listed per connection without `--verbose`, highest score first."""

MOST_NAMES = 20
"""Maximum number of tables or files of each kind that a dry run lists without `--verbose`."""


def destination_of(branch: str | None, *, no_commit: bool) -> Destination:
    """Return where the options put the changes; raises `UsageError` if they name two places."""
    from ktx_cli.project import Destination

    if branch is not None and no_commit:
        raise UsageError("--no-commit and --branch cannot be used together", hint="omit one of them")
    return Destination(branch, commits=not no_commit)


def ingest_result(session: Session, request: IngestRequest) -> Result:
    """Run the job and return its report as the result of the command."""
    from ktx_cli.engine import PLANNED
    from ktx_cli.jobs.ingest.run import ingest

    report, warnings = ingest(request)
    session.warn(*warnings)
    blocks = _plan_blocks if report.dry_run else _blocks
    again = request.command.with_words(*request.connections, *request.destination.words)
    review = [c.connection for c in report.connections if c.to_review and not report.dry_run]
    steps = [again] if report.status == PLANNED else []
    if report.to_scan:
        steps.append(Command("scan", *report.to_scan))
    if review:
        steps.append(Command("scan", "relationships", *(review if len(review) > 1 else ()), "--review"))
    if report.open_decisions:
        steps.append(Command("decide"))
    return Result(
        report.to_json(),
        blocks(report, verbose=session.settings.verbose),
        report.error(),
        next_steps=steps,
        is_report=not report.dry_run,
    )


def _plan_blocks(report: IngestReport, *, verbose: bool) -> list[Block]:
    """Return the blocks of a dry run: the results, the planned changes, and the estimate."""
    rows = [
        (connection.connection, would, name)
        for connection in report.connections
        for would, names in _planned(connection)
        for name in (names if verbose else _capped(names))
    ]
    rows += _planned_of_sources(report, verbose=verbose)
    blocks = [_result_table(report)]
    blocks += filled(("connection", "would", "what"), rows)
    problems = [*_problem_rows(report), *_source_rows(report, verbose=verbose)]
    blocks += filled(("connection", "what", "object"), problems)
    written, removed = len(report.files.written), len(report.files.removed)
    would = f"write {plural(written, 'file')}, remove {removed}" if written or removed else "change nothing"
    facts = [("would", would)]
    if report.forecast is not None:
        facts.append(("agent work", report.forecast.summary))
        estimates = (
            (each.role, each.work, *token_cells(each.usage), cost_cell(each.usd)) for each in report.forecast.roles
        )
        blocks += filled(("role", "work", *TOKEN_COLUMNS, "cost"), list(estimates))
    return [*blocks, Fields((*facts, ("written", "nothing (dry run)")))]


def _planned_of_sources(report: IngestReport, *, verbose: bool) -> list[tuple[str, str, str]]:
    """Return the work units of each source, and the files that no database names."""
    units = []
    for work in report.sources:
        count = len(work.agent_units)
        digests = len(work.units) - count
        units += [(work.name, "run agents on", plural(count, "work unit"))] if count else []
        units += [(work.name, "describe", plural(digests, "table"))] if digests else []
    own = {path for each in report.connections for path in (*each.files.written, *each.files.removed)}
    files = [
        ("", would, path)
        for would, paths in (("write file", report.files.written), ("remove file", report.files.removed))
        for path in paths
        if path not in own
    ]
    more = len(files) - MOST_NAMES
    if verbose or more <= 0:
        return [*units, *files]
    return [*units, *files[:MOST_NAMES], ("", "...", f"and {more:,} more; use --verbose to list all")]


def _planned(connection: ConnectionReport) -> list[tuple[str, tuple[str, ...]]]:
    changes, files = connection.changes, connection.files
    return [
        ("add table", changes.added),
        ("change table", changes.changed),
        ("remove table", changes.removed),
        ("keep table that could not be read", changes.kept),
        ("write file", files.written),
        ("remove file", files.removed),
    ]


def _capped(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) <= MOST_NAMES:
        return names
    return (*names[:MOST_NAMES], f"... and {len(names) - MOST_NAMES:,} more; use --verbose to list all")


def _result_table(report: IngestReport) -> Block:
    rows = [(c.connection, c.status, c.result) for c in report.connections]
    rows += [(work.name, work.status, work.result) for work in report.sources]
    return Table(("connection", "status", "result"), tuple(rows))


def _source_rows(report: IngestReport, *, verbose: bool) -> list[tuple[str, str, str]]:
    """Return notes about sources: parts that were not read, not merged or dropped, and parts that a model would add."""
    rows: list[tuple[str, str, str]] = []
    for work in report.sources:
        notes = [("not read", f"{each.what}: {each.reason}") for each in work.snapshot.skipped if not each.retry]
        notes += [("skipped", each) for each in work.left_out]
        notes += [("skipped", _dropped(each)) for each in work.fidelity if each.kind.value == "dropped"]
        notes += [("needs a model", each) for each in work.left_for_a_model]
        shown = notes if verbose else notes[:MOST_NAMES]
        rows += [(work.name, what, text) for what, text in shown]
        if len(notes) > len(shown):
            rows.append((work.name, "...", f"and {len(notes) - len(shown):,} more; use --verbose to list all"))
    return rows


def _dropped(item: Fidelity) -> str:
    return f"{item.place.path}:{item.place.line}: {item.what}: {item.why}"


def _join_tables(report: IngestReport, *, verbose: bool) -> list[Block]:
    """Draw the inferred joins of connections where something changed, and the removed ones."""
    found = [row for c in report.connections if c.status != "unchanged" for row in _join_rows(c, verbose=verbose)]
    gone = [(c.connection, each.name, each.reason) for c in report.connections for each in c.gone]
    tables: list[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]] = [
        (("inferred join", "score", "reason"), found),
        (("removed join", "reason"), gone),
    ]
    several = len(report.connections) > 1
    return [
        Table(("connection", *columns), tuple(rows)) if several else Table(columns, tuple(row[1:] for row in rows))
        for columns, rows in tables
        if rows
    ]


def _join_rows(connection: ConnectionReport, *, verbose: bool) -> list[tuple[str, ...]]:
    name = connection.connection
    shown = connection.joins if verbose else connection.joins[:MOST_JOINS]
    rows: list[tuple[str, ...]] = [
        (name, e.name, f"{e.relationship.probability:g}", e.relationship.reason) for e in shown
    ]
    more = len(connection.joins) - len(shown)
    if more:
        rows.append((name, f"... and {more:,} more", "", Command("scan", "relationships", name)))
    return rows


def _problem_rows(report: IngestReport) -> list[tuple[str, str, str]]:
    return [
        (c.connection, problem["what"] or "problem", ": ".join(filter(None, (problem["object"], problem["message"]))))
        for c in report.connections
        for problem in c.problems
    ]


def _blocks(report: IngestReport, *, verbose: bool) -> list[Block]:
    from ktx_cli.project import CONTRADICTIONS_NAME
    from ktx_cli.runs import records_in

    blocks = [_result_table(report), *_join_tables(report, verbose=verbose)]
    names = [
        (c.connection, what, name)
        for c in report.connections
        for what, listed in (
            ("removed", c.changes.removed),
            ("not read, kept", c.changes.kept),
            *((("added", c.changes.added), ("changed", c.changes.changed)) if verbose else ()),
        )
        for name in listed
    ]
    names += [*_problem_rows(report), *_source_rows(report, verbose=verbose)]
    blocks += filled(("connection", "what", "object"), names)
    noted = [_noted(each) for each in records_in(report.to_json()) if verbose or _is_shown(each)]
    blocks += filled(("note", "by", "about", "details"), noted)
    usage = [usage_cells(row) for _, row in sorted(report.spending.roles.items())]
    blocks += filled(("role", *USAGE_COLUMNS), usage)
    facts = [("run", report.run_id), ("status", report.status)]
    if report.commit and report.named_branch:
        facts.append(("branch", report.named_branch))
    if report.commit:
        facts.append(("commit", f"{report.commit[:10]} ({plural(len(report.committed), 'file')})"))
    elif report.uncommitted:
        facts.append(("written", f"{plural(len(report.uncommitted), 'file')}, not committed"))
    else:
        facts.append(("commit", "none (no changes)" if report.status == "unchanged" else "none"))
    facts += [("skipped", f"{path} ({reason})") for path, reason in report.held]
    facts += [("not committed", path) for path in report.ignored]
    if report.contradictions:
        topics = listing(each.topic for each in report.contradictions)
        count = plural(len(report.contradictions), "contradiction")
        facts.append(("contradictions", f"{count} to review in {CONTRADICTIONS_NAME}: {topics}"))
    if report.open_decisions:
        largest = report.open_decisions[0]
        effect = f", the largest: {largest.effect_text()} ({largest.point.question})"
        facts.append(("open decisions", f"{len(report.open_decisions)}{effect}"))
    if report.to_scan:
        shown = listing(f"`{each}`" for each in report.to_scan)
        facts.append(("declared keys and joins", f"changed; they take effect in the next scan of {shown}"))
    facts += _model_facts(report)
    blocks.append(Fields(tuple(facts)))
    return blocks


def _is_shown(record: Mapping[str, Any]) -> bool:
    """Return whether an agent's record concerns every reader: to review, removed or skipped."""
    return bool(record.get("flagged")) if record["record"] == "conflicts" else record["record"] != "resolutions"


def _noted(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    from ktx_cli.cli.commands.runs import noted_text

    what, about, notes = noted_text(record)
    return what, str(record["by"]), about, notes


def _model_facts(report: IngestReport) -> list[tuple[str, str]]:
    """Return the usage of models, and the work they did not finish."""
    from ktx_cli.engine import usage_words

    facts: list[tuple[str, str]] = []
    spent = report.spending
    if spent.tokens:
        unpriced = f", excluding {plural(spent.unpriced, 'call')} without a known price" if spent.unpriced else ""
        most = [f"${spent.most_usd:.2f}"] if spent.most_usd is not None else []
        most += [f"{spent.most_tokens:,} tokens"] if spent.most_tokens is not None else []
        of = f" (limit: {' and '.join(most)})" if most else ""
        facts.append(("model usage", f"{usage_words(spent.usage)}, ${spent.usd:.4f} at list prices{unpriced}{of}"))
    if report.stopped is not None:
        facts.append(("agents stopped", report.stopped.message))
    worn = [each.unit.key for work in report.sources for each in work.outcomes if each.budget_used]
    if worn:
        facts.append(("reached the step limit", listing(worn)))
    reconciled = report.reconciled
    if reconciled is not None and reconciled.problem:
        facts.append(("not reconciled", reconciled.problem))
    facts += [("repaired", each) for each in report.repaired]
    return facts


_STYLES: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "dim"}


def finding_lines(
    session: Session,
    diagnostics: Iterable[Diagnostic],
    details: Callable[[Diagnostic], Sequence[Line]] = lambda diagnostic: (),
) -> list[Line]:
    """Return `path:line: CODE severity: message` for each diagnostic, grouped by file, each with its fix below it.

    Paths are relative to the project of the command line. `details`: more lines below the message of a diagnostic.
    """
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        by_file.setdefault(diagnostic.location.path or "", []).append(diagnostic)
    lines: list[Line] = []
    for each in (diagnostic for group in by_file.values() for diagnostic in group):
        where = f"{session.shown_path(str(each.location))}: " if each.location.path else ""
        severity = Styled(each.severity.value, _STYLES[each.severity])
        lines.append((where, f"{each.code} ", severity, f": {one_line(each.message, 2000)}"))
        lines += details(each)
        if each.hint:
            lines.append(f"  fix: {runnable(session.place.command(each.hint))}")
    return lines
