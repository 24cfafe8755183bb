"""`ktx lint`: what in the files of a project a person should do something about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.commands.sl_question import project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import connection_ids
from ktx_cli.cli.unattended import annotation, repository_prefix
from ktx_cli.core import counted

if TYPE_CHECKING:
    from ktx_cli.jobs.check.lint.registry import Finding, Linted


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
        from ktx_cli.jobs.check.lint.lint import lint_project
        from ktx_cli.jobs.check.lint.registry import Selection

        layout, config = project_of(session)
        selection = Selection.of(select or (), ignore or ())
        found, warnings = lint_project(
            layout, config, connection=connection, selection=selection, min_coverage=min_coverage
        )
        session.warn(*warnings)
        shown = _first(found.findings, limit)
        if github:
            streams.write_err("".join(f"{line}\n" for line in _annotations(shown, repository_prefix(layout.root))))
        blocks = [*_tables(session, found, shown), _facts(found, len(found.findings) - len(shown))]
        return Result(found.to_json(), blocks, found.error())


def _first(findings: Sequence[Finding], limit: int) -> list[Finding]:
    """Return the findings to print: of each code the first ones."""
    seen: Counter[str] = Counter()
    shown = []
    for each in findings:
        seen[each.code] += 1
        if not limit or seen[each.code] <= limit:
            shown.append(each)
    return shown


def _annotations(findings: Sequence[Finding], prefix: str) -> Iterator[str]:
    for each in findings:
        path = None if each.path is None else prefix + each.path
        yield annotation(each.level.value, each.code, f"{each.message}\nfix: {each.fix}", path, each.line)


def _tables(session: Session, found: Linted, shown: Sequence[Finding]) -> list[Block]:
    shares = [*found.coverage.items(), *([("all", found.total)] if len(found.coverage) > 1 else [])]
    covered = tuple(
        (name, each.tables.shown, each.columns.shown, each.measures.shown, each.all.shown) for name, each in shares
    )
    place = session.place
    rows = tuple((each.level.value, each.code, each.place, each.message, place.command(each.fix)) for each in shown)
    tables: list[Block] = []
    if covered:
        tables.append(Table(("described", "tables", "columns", "measures", "together"), covered))
    if rows:
        tables.append(Table(("level", "code", "place", "finding", "fix"), rows))
    return tables


def _facts(found: Linted, more: int) -> Fields:
    facts = [("wiki pages", str(found.pages)), ("findings", counted(found.counts()))]
    return Fields((*facts, *([("not shown", f"{more}; --limit 0 shows all")] if more else [])))
