"""`ktx check`, and its parts `ktx lint`, `ktx diff` and `ktx eval`."""

from __future__ import annotations

import json
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table, as_table, filled
from ktx_cli.cli.commands.completion import connection_option
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.reports import IDS
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import Command, Diagnostic, Location, Severity, counted, one_line, plural

if TYPE_CHECKING:
    from pathlib import Path

    from ktx_cli.cli.findings import JunitCase
    from ktx_cli.jobs.check.diff import Drift, SchemaChange
    from ktx_cli.jobs.check.eval.results import CaseResult, ComparedAnswers, EvalReport
    from ktx_cli.jobs.check.lint.lint import LintReport
    from ktx_cli.jobs.check.suite import CheckReport

commands = typer.Typer()


Codes = list[str] | None

_PER_CODE = 20
"""Maximum number of diagnostics of a code that `ktx lint` prints without `--limit` or `--verbose`."""
_FEW = 3
"""Maximum number of diagnostics at level info of a code that it prints rather than counts."""


@command(commands, "lint")
def lint(
    session: Session,
    connection: Annotated[str | None, connection_option("Only check this connection.")] = None,
    min_coverage: Annotated[
        float | None,
        Option(
            "--min-coverage",
            metavar="PERCENT",
            min=0,
            max=100,
            help="Fail if description coverage is below this share.",
        ),
    ] = None,
    select: Annotated[
        Codes, Option("--select", metavar="CODE", help="Only report these codes or prefixes, for example KTX2,KTX101.")
    ] = None,
    ignore: Annotated[Codes, Option("--ignore", metavar="CODE", help="Do not report these codes or prefixes.")] = None,
    github: Annotated[bool, Option("--github", help="Also print annotations for GitHub Actions on stderr.")] = False,
    limit: Annotated[
        int | None,
        Option(
            "--limit",
            min=0,
            help=f"Maximum number of diagnostics to print per code, or 0 for all. Defaults to {_PER_CODE}.",
        ),
    ] = None,
) -> Result:
    """Check the project's files for errors and missing descriptions.

    Finds invalid definitions, broken references, stale pages and plaintext secrets. Exits 1 if there is a warning or
    an error. A missing description is only information unless --min-coverage is given, and many are only counted unless
    --verbose, --select or --limit is given. Does not connect to databases or call models.

    Examples:
        ktx lint
        ktx lint --select KTX2,KTX101 --limit 0
        ktx lint --min-coverage 80 --github
    """
    from ktx_cli.jobs.check.lint.lint import Selection

    options = {"min_coverage": min_coverage, "selection": Selection.of(select or (), ignore or ())}
    root = session.find_project() if github else None
    return session.run_each(connection, lambda session, own: _linted(session, own, root, limit=limit, **options))


def _linted(
    session: Session, connection: str | None, root: Path | None, *, limit: int | None, **options: Any
) -> Result:
    """`root`: the project of the command line, where the findings are printed for GitHub too."""
    from ktx_cli.jobs.check.lint.lint import lint_project

    layout, config = session.load_project(with_mounts=True)
    report, warnings = lint_project(layout, config, connection=connection, **options)
    session.warn(*warnings)
    verbose = session.settings.verbose
    most = (0 if verbose else _PER_CODE) if limit is None else limit
    shown = _first(report.diagnostics, most)
    if root is not None:
        from ktx_cli.cli.findings import repository_prefix

        prefix = repository_prefix(root)
        streams.write_err("".join(f"{_annotation(session, diagnostic, prefix)}\n" for diagnostic in shown))
    summarizes = limit is None and not verbose and not options["selection"].select
    counted_only = _only_counted(report) if summarizes else frozenset()
    listed = [each for each in shown if each.code not in counted_only]
    blocks = [
        *_findings(session, report, listed, counted_only),
        *_coverage(report),
        _facts(report, len(report.diagnostics) - len(listed), summarized=bool(counted_only)),
    ]
    return Result(report.to_json(), blocks, report.error(), is_report=True)


def _only_counted(report: LintReport) -> frozenset[str]:
    """Return the codes that are printed as a count: information, and too much of it to read."""
    found = Counter(each.code for each in report.diagnostics if each.severity is Severity.INFO)
    worse = {each.code for each in report.diagnostics if each.severity is not Severity.INFO}
    return frozenset(code for code, count in found.items() if count > _FEW and code not in worse)


def _first(diagnostics: Iterable[Diagnostic], limit: int) -> list[Diagnostic]:
    """Return the diagnostics to print: the first ones of each code."""

    seen: Counter[str] = Counter()
    shown = []
    for diagnostic in diagnostics:
        seen[diagnostic.code] += 1
        if not limit or seen[diagnostic.code] <= limit:
            shown.append(diagnostic)
    return shown


def _annotation(session: Session, diagnostic: Diagnostic, prefix: str) -> str:
    """Return the annotation of a diagnostic; a file outside of the repository is named by the text alone."""
    from ktx_cli.cli.findings import annotation

    path, message = diagnostic.location.path, f"{diagnostic.message}\nfix: {diagnostic.hint}"
    if path is not None:
        path = posixpath.normpath(posixpath.join(prefix, session.shown_path(path)))
    location = Location(path, diagnostic.location.line)
    if path is not None and path.startswith(("/", "../")):
        message, location = f"{location}: {message}", Location()
    return annotation(replace(diagnostic, message=message, location=location))


def _findings(
    session: Session, report: LintReport, listed: Iterable[Diagnostic], only_counted: frozenset[str]
) -> list[Block]:
    """Return a line for each diagnostic to list, and a row for each code to count."""
    from ktx_cli.cli.reports import finding_lines
    from ktx_cli.jobs.check.lint.lint import all_rules

    lines = finding_lines(session, listed)
    blocks: list[Block] = [Lines(tuple(lines), hanging=True)] if lines else []
    counts = report.by_code()
    first = {each.code: session.shown_path(str(each.location)) for each in reversed(report.diagnostics)}
    rows = [(code, f"{counts[code]:,}", all_rules()[code].summary, first[code]) for code in sorted(only_counted)]
    return [*blocks, *filled(("info", "count", "meaning", "first"), rows)]


def _coverage(report: LintReport) -> list[Block]:
    shares = [*report.coverage.items(), *([("all", report.total)] if len(report.coverage) > 1 else [])]
    rows = [(name, each.tables.text, each.columns.text, each.measures.text, each.all.text) for name, each in shares]
    return [*filled(("described", "tables", "columns", "measures", "together"), rows)]


def _facts(report: LintReport, more: int, *, summarized: bool) -> Fields:
    facts = [("wiki pages", str(report.pages)), ("diagnostics", counted(report.counts()))]
    option = "--verbose" if summarized else "--limit 0"
    return Fields((*facts, *([("not shown", f"{more:,}; {option} shows all")] if more else [])))


_MOST_USES = 5
"""Maximum number of parts that refer to a change that are printed without `--verbose`."""


@command(commands, "diff")
def diff(
    session: Session,
    ids: IDS = None,
    breaking: Annotated[
        bool, Option("--breaking", help="Exit 1 only for changes that break a reference or change a column type.")
    ] = False,
) -> Result:
    """Compare databases with their last scan.

    Lists changed tables, columns, types and keys, and the context that refers to them. Exits 1 if anything changed.
    Reads the structure of the databases and writes nothing.

    Examples:
        ktx diff
        ktx diff warehouse --breaking
    """
    from ktx_cli.jobs.check.diff import find_drift

    layout, config = session.load_project()
    found, warnings = find_drift(layout, config, ids or (), environ=os.environ)
    session.warn(*warnings)
    return Result(found.to_json(), _blocks(session, found), found.error(breaking=breaking), is_report=True)


def _blocks(session: Session, found: Drift) -> list[Block]:
    from ktx_cli.cli.reports import finding_lines

    results = tuple((each.connection, each.status, each.result) for each in found.connections)
    blocks: list[Block] = [Table(("connection", "status", "result"), results)]
    changes = dict(found.diagnostics())
    verbose = session.settings.verbose
    lines = finding_lines(session, changes, lambda diagnostic: _uses(changes[diagnostic], verbose))
    blocks += [Lines(tuple(lines), hanging=True)] if lines else []
    counts = found.counts()
    summary = f"{counts['changes']}, {counts['breaking']} breaking" if counts["changes"] else "none"
    compared = any(each.error is None for each in found.connections)
    return [*blocks, Fields((("changes", summary),))] if compared else blocks


def _uses(change: SchemaChange, verbose: bool) -> list[str]:
    shown = change.uses if verbose else change.uses[:_MOST_USES]
    lines = [f"  used by {use}" + ("" if use.part.place is None else f" ({use.part.place})") for use in shown]
    more = len(change.uses) - len(shown)
    return [*lines, *([f"  used by {plural(more, 'other')}; --verbose lists all"] if more else [])]


@command(commands, "check")
def check(
    session: Session,
    connection: Annotated[str | None, connection_option("Only check this connection.")] = None,
    only: Annotated[
        Codes, Option("--only", metavar="NAME", help="Only run this check: lint, validate, diff, tests or evals.")
    ] = None,
    skip: Annotated[Codes, Option("--skip", metavar="NAME", help="Skip this check. Can be repeated.")] = None,
    strict: Annotated[bool, Option("--strict", help="Treat `validate` warnings as failures.")] = False,
    github: Annotated[bool, Option("--github", help="Also print annotations for GitHub Actions on stderr.")] = False,
    junit: Annotated[str | None, Option("--junit", metavar="FILE", help="Also write a JUnit XML report.")] = None,
) -> Result:
    """Run all checks of the context: lint, validate, diff, tests and evals.

    Exits 1 if a check fails, and 7 if no check fails but one could not be run. Each check has a command of its own:
    `ktx lint`, `ktx sl validate`, `ktx diff`, `ktx sl test` and `ktx eval`.

    Examples:
        ktx check
        ktx check --skip evals --strict
        ktx check --github --junit ktx.xml
    """
    options = {"only": tuple(only or ()), "skip": tuple(skip or ()), "strict": strict}
    if junit is not None:
        from ktx_cli.cli.findings import require_report

        require_report(current_folder() / junit)
    return session.run_each(
        connection, lambda session, own: _checked(session, own, github=github, junit=junit, **options)
    )


def _checked(session: Session, connection: str | None, *, github: bool, junit: str | None, **options: Any) -> Result:
    from ktx_cli.cli.findings import annotation, repository_prefix
    from ktx_cli.cli.reports import finding_lines
    from ktx_cli.jobs.check.suite import CheckRequest, run_checks

    layout, config = session.load_project(with_mounts=True)
    request = CheckRequest(
        *(layout, config, os.environ, connection), **options, emit=session.emitter(), warn=session.warn
    )
    report = run_checks(request)
    findings = [each.diagnostic for each in report.findings]
    if github:
        prefix = repository_prefix(layout.root)
        streams.write_err("".join(f"{annotation(each, prefix)}\n" for each in findings))
    if junit is not None and not session.mount:
        from ktx_cli.cli.findings import junit_xml
        from ktx_cli.project import write_atomic

        write_atomic(current_folder() / junit, junit_xml("ktx check", _check_cases(report)))
    lines = finding_lines(session, findings)
    rows = tuple((each.check, each.status.value, each.summary) for each in report.checks)
    blocks: list[Block] = [Table(("check", "status", "result"), rows)]
    blocks += [Lines(tuple(lines), hanging=True)] if lines else []
    blocks.append(Fields((("diagnostics", counted(report.counts())),)))
    return Result(report.to_json(), blocks, report.error(), is_report=True)


def _check_cases(report: CheckReport) -> list[JunitCase]:
    """Return each check without findings as a test, and each finding as one."""
    from ktx_cli.cli.findings import JunitCase

    cases = []
    statuses: dict[str, Any] = {"pass": "ok"}
    for each in report.checks:
        if not each.findings:
            status = statuses.get(each.status, each.status)
            cases.append(JunitCase(each.check, "check", each.seconds, status, each.summary))
        for finding in each.findings:
            diagnostic = finding.diagnostic
            name = f"{diagnostic.location or each.check}: {diagnostic.code}"
            fix = f"fix: {diagnostic.hint}" if diagnostic.hint else ""
            cases.append(
                JunitCase(
                    name, f"check.{each.check}", 0.0, "fail" if finding.fails else "skip", diagnostic.message, fix
                )
            )
    return cases


_SHOWN = 10
"""Maximum number of rows of an answer or a difference that are printed without `--verbose`."""
_WIDEST = 2_000
"""Maximum length of a line that quotes values, which may contain anything, including line breaks."""


@command(commands, "eval")
def evaluate(
    session: Session,
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", help="Cases in evals/ to run, as FILE, FILE/ID or ID. Defaults to all."),
    ] = None,
    accept: Annotated[
        bool, Option("--accept", help="Save the answers of new cases as their expected results.")
    ] = False,
    save: Annotated[
        bool, Option("--save/--no-save", help="Record the results, so that the next run can detect regressions.")
    ] = True,
    github: Annotated[bool, Option("--github", help="Also print annotations for GitHub Actions on stderr.")] = False,
    junit: Annotated[str | None, Option("--junit", metavar="FILE", help="Also write a JUnit XML report.")] = None,
) -> Result:
    """Run the golden questions in evals/ and compare the answers.

    Exits 1 if an answer differs from the expected one.

    Examples:
        ktx eval
        ktx eval company/net-revenue --verbose
        ktx eval --github --junit evals.xml
    """
    from ktx_cli.cli.findings import repository_prefix, require_report
    from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals

    if junit is not None:
        require_report(current_folder() / junit)
    layout, config = session.load_project()
    request = EvalRequest(
        layout=layout,
        config=config,
        environ=os.environ,
        names=tuple(names or ()),
        accept=accept,
        save=save,
        emit=session.emitter(),
        warn=session.warn,
    )
    report = run_evals(request)
    if junit is not None:
        _write_junit(current_folder() / junit, report)
    if github:
        streams.write_err("".join(f"{line}\n" for line in _annotations(report, repository_prefix(layout.root))))
    blocks = list(_eval_blocks(session, report))
    return Result(report.to_json(), blocks, report.error(), _next_steps(report), is_report=True)


def _eval_blocks(session: Session, report: EvalReport) -> Iterator[Block]:
    from ktx_cli.cli.reports import finding_lines

    verbose = session.settings.verbose
    rows = [(each.case.name, each.status, f"{each.milliseconds:,}") for each in report.results]
    if rows:
        yield Table(("eval", "status", "ms"), tuple(rows))
    diagnostics = [diagnostic for each in report.results if (diagnostic := each.diagnostic) is not None]
    if diagnostics:
        yield Lines(tuple(finding_lines(session, diagnostics)), hanging=True)
    for each in report.results:
        yield from _details(each, None if verbose else _SHOWN)
    facts = [("evals", report.summary), ("took", f"{report.seconds:.1f} s")]
    if report.tokens:
        price = "price unknown" if report.usd is None else f"${report.usd:.4f} at list prices"
        facts.append(("model usage", f"{report.tokens:,} tokens, {price}"))
    yield Fields(tuple(facts))


def _details(result: CaseResult, most: int | None) -> Iterator[Block]:
    """Yield the rows of a new answer, or the rows that differ from the expected answer."""
    found = result.difference
    if result.status == "new" and result.answer is not None and not result.accepted:
        yield Lines((f"{result.case.name}: {_of(len(result.answer.rows), most)}",))
        yield as_table(result.answer.columns, result.answer.rows[:most], result.answer.formats)
    elif found is not None and (found.missing or found.unexpected):
        (before, after), missing, unexpected = found.sides, found.missing[:most], found.unexpected[:most]
        signed = [(before, row) for row in missing] + [(after, row) for row in unexpected]
        yield Lines((f"{result.case.name}: {one_line(found.message, _WIDEST)}",))
        yield as_table(("is", *found.columns), [(sign, *row) for sign, row in signed])
    if found is not None and result.compared is not None and found.sides[0] == "sql":
        yield Lines(tuple(_receipts(result.case.name, result.compared)))
    if result.query is not None and result.status != "pass":
        asked = one_line(json.dumps(result.query, ensure_ascii=False), _WIDEST)
        yield Lines((f"{result.case.name}: query written by the model: {asked}",))


def _receipts(name: str, compared: ComparedAnswers) -> Iterator[str]:
    """Yield the receipts for the answers to a query and to its SQL."""
    from ktx_cli.jobs.semantic.explain import fact_lines

    yield f"{name}: receipt of the query"
    yield from fact_lines(compared.receipt)
    yield from (f"  {line}" for line in compared.query_sql.splitlines())
    yield f"{name}: receipt of the SQL"
    yield from (f"  {line}" for line in compared.sql.splitlines())


def _of(count: int, most: int | None) -> str:
    return f"the first {most} of {count:,} rows" if most is not None and count > most else "the answer"


def _next_steps(report: EvalReport) -> list[str]:
    new = [each.case.name for each in report.results if each.status == "new" and not each.accepted]
    return [Command("eval", *new[:_SHOWN], "--accept")] if new else []


def _annotations(report: EvalReport, prefix: str) -> Iterator[str]:
    from ktx_cli.cli.findings import annotation

    for each in report.results:
        diagnostic = each.diagnostic
        if diagnostic is not None and diagnostic.severity is Severity.ERROR:
            title = f"ktx eval: {each.case.name} ({each.status})"
            yield annotation(replace(diagnostic, message=each.what), prefix, title=title)


def _write_junit(path: Path, report: EvalReport) -> None:
    from ktx_cli.cli.findings import junit_xml
    from ktx_cli.project import write_atomic

    write_atomic(path, junit_xml("ktx eval", [_junit(each) for each in report.results]))


def _junit(result: CaseResult) -> JunitCase:
    from ktx_cli.cli.findings import JunitCase

    statuses: dict[str, Any] = {"regress": "fail", "pass": "ok", "new": "skip"}
    found = result.difference
    signed = [] if found is None else [("-", found.missing), ("+", found.unexpected)]
    rows = [f"{sign} {json.dumps(list(row), ensure_ascii=False)}" for sign, rows in signed for row in rows]
    return JunitCase(
        name=result.case.asked.id,
        classname=f"evals.{result.case.file}",
        seconds=result.seconds,
        status=statuses.get(result.status, result.status),
        message=result.what,
        detail="\n".join(rows),
    )
