"""`ktx lint`: what in the files of a project a person should do something about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.commands.sl_question import project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import connection_ids
from ktx_cli.cli.unattended import annotation, repository_prefix
from ktx_cli.core import Diagnostic, Location, counted

if TYPE_CHECKING:
    from ktx_cli.jobs.check.lint.lint import LintReport


Codes = list[str] | None
Connection = Annotated[
    str | None,
    typer.Option(
        "--connection-id", "-c", metavar="ID", help="Only what is about this connection.", autocompletion=connection_ids
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "lint")
    def lint(
        session: Session,
        connection: Connection = None,
        min_coverage: Annotated[
            float | None,
            typer.Option(
                "--min-coverage", metavar="PERCENT", min=0, max=100, help="Fail when fewer have a description."
            ),
        ] = None,
        select: Annotated[Codes, typer.Option("--select", metavar="CODE", help="Only these: KTX2,KTX101.")] = None,
        ignore: Annotated[Codes, typer.Option("--ignore", metavar="CODE", help="All but these.")] = None,
        github: Annotated[
            bool, typer.Option("--github", help="Print annotations for GitHub Actions too, on stderr.")
        ] = False,
        limit: Annotated[
            int, typer.Option("--limit", min=0, help="Findings of one code that are printed; 0: all.")
        ] = 20,
    ) -> Result:
        """Look through the project's files: coverage of descriptions, stale pages, dangling references, definitions.

        Exits 1 when something is a warning or an error; what has no description is information, unless --min-coverage
        asks for more. No database is opened, no model is asked.
        """
        from ktx_cli.jobs.check.lint.lint import Selection, lint_project

        layout, config = project_of(session)
        selection = Selection.of(select or (), ignore or ())
        report, warnings = lint_project(
            layout, config, connection=connection, selection=selection, min_coverage=min_coverage
        )
        session.warn(*warnings)
        shown = _first(report.diagnostics, limit)
        if github:
            prefix = repository_prefix(layout.root)
            streams.write_err("".join(f"{_annotation(diagnostic, prefix)}\n" for diagnostic in shown))
        blocks = [*_tables(session, report, shown), _facts(report, len(report.diagnostics) - len(shown))]
        return Result(report.to_json(), blocks, report.error())


def _first(diagnostics: Iterable[Diagnostic], limit: int) -> list[Diagnostic]:
    """Return the diagnostics to print: of each code the first ones."""
    seen: Counter[str] = Counter()
    shown = []
    for diagnostic in diagnostics:
        seen[diagnostic.code] += 1
        if not limit or seen[diagnostic.code] <= limit:
            shown.append(diagnostic)
    return shown


def _annotation(diagnostic: Diagnostic, prefix: str) -> str:
    return annotation(replace(diagnostic, message=f"{diagnostic.message}\nfix: {diagnostic.hint}"), prefix)


def _tables(session: Session, report: LintReport, shown: Iterable[Diagnostic]) -> list[Block]:
    shares = [*report.coverage.items(), *([("all", report.total)] if len(report.coverage) > 1 else [])]
    covered = tuple(
        (name, each.tables.text, each.columns.text, each.measures.text, each.all.text) for name, each in shares
    )
    place = session.place
    rows = tuple(
        (each.severity.value, each.code, _shown_place(each.location), each.message, place.command(each.hint or ""))
        for each in shown
    )
    tables: list[Block] = []
    if covered:
        tables.append(Table(("described", "tables", "columns", "measures", "together"), covered))
    if rows:
        tables.append(Table(("level", "code", "place", "finding", "fix"), rows))
    return tables


def _shown_place(location: Location) -> str:
    return "" if location.path is None else f"{location.path}:{location.line}"


def _facts(report: LintReport, more: int) -> Fields:
    facts = [("wiki pages", str(report.pages)), ("findings", counted(report.counts()))]
    return Fields((*facts, *([("not shown", f"{more}; --limit 0 shows all")] if more else [])))
