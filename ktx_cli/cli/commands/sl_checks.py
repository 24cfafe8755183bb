"""`ktx sl validate` and `ktx sl test`: is the semantic layer right, and do its numbers come out as expected."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.commands.sl_names import source_names
from ktx_cli.cli.commands.sl_options import Connection, UserAttributes, project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.core.errors import EXIT_UNREACHABLE, ResultWarning
from ktx_cli.core.text import counted, one_line

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.metric_tests import TestReport
    from ktx_cli.jobs.semantic.validating import Validation

_CELL = 200

Sources = Annotated[
    list[str] | None,
    typer.Argument(metavar="SOURCE", help="Only these sources.", autocompletion=source_names),
]


def register(commands: typer.Typer) -> None:
    """Add the commands to the group."""
    _register_validate(commands)
    _register_test(commands)


def _register_validate(commands: typer.Typer) -> None:
    @command(commands, "validate", schema="sl-validate")
    def validate(
        session: Session,
        sources: Sources = None,
        connection: Connection = None,
        data: Annotated[
            bool, typer.Option("--data/--no-data", help="Look at the rows too, or at the files alone.")
        ] = True,
        budget: Annotated[
            float, typer.Option("--budget", metavar="SECONDS", min=0, help="How long checks on the data are begun.")
        ] = 60.0,
        strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too.")] = False,
    ) -> Result:
        """Check the semantic layer: its files, its definitions, and whether tables, keys and joins are as they say."""
        from ktx_cli.jobs.semantic.validating import validate_layers

        layout, config = project_of(session)
        found = validate_layers(
            *(layout, config, sources or ()), environ=os.environ, connection=connection, data=data, seconds=budget
        )
        error = found.error(strict=strict)
        session.warn(*found.warnings(), *_unread(found, error))
        if error is not None and error.exit_code == EXIT_UNREACHABLE:
            error.hint = f"{error.hint}; or leave the data out: --no-data" if error.hint else "add --no-data"
        return Result(found.to_json(), _validation_blocks(found), error)


def _register_test(commands: typer.Typer) -> None:
    @command(commands, "test", schema="sl-test")
    def test(
        session: Session,
        sources: Sources = None,
        connection: Connection = None,
        user_attribute: UserAttributes = None,
    ) -> Result:
        """Run the tests in the files of sources: a question each, and what must come out."""
        from ktx_cli.jobs.semantic.metric_tests import run_tests
        from ktx_cli.jobs.serving.attributes import read_attributes

        layout, config = project_of(session)
        attributes = read_attributes(user_attribute)
        report = run_tests(
            *(layout, config, sources or ()), environ=os.environ, connection=connection, attributes=attributes
        )
        return Result(report.to_json(), _test_blocks(report), report.error())


def _unread(found: Validation, error: object) -> list[ResultWarning]:
    """Return warnings for connections whose data was not looked at, but for the one the command ends with."""
    others = [each for each in found.unread.values() if each is not error]
    return [
        ResultWarning("not_checked", f"the data was not looked at: {each.message}", hint=each.hint) for each in others
    ]


def _validation_blocks(found: Validation) -> list[Block]:
    blocks: list[Block] = []
    if found.problems:
        rows = tuple((each.severity, str(each.place), each.message, each.hint or "") for _, each in found.problems)
        blocks.append(Table(("severity", "place", "problem", "hint"), rows))
    facts = [("sources", str(len(found.sources)))]
    if found.checks:
        by_status = [sum(check.status == status for _, check in found.checks) for status in _STATUSES]
        facts.append(("checks on the data", ", ".join(f"{n} {s}" for n, s in zip(by_status, _STATUSES, strict=True))))
    facts.append(("problems", counted(found.counts())))
    return [*blocks, Fields(tuple(facts))]


_STATUSES = ("passed", "failed", "skipped")


def _test_blocks(report: TestReport) -> list[Block]:
    if not report.results:
        return [Fields((("tests", "none"),))]
    rows = []
    for _, result in report.results:
        name = f"{result.source}.{result.test.name}"
        if result.passed:
            rows.append((name, "passed", "", ""))
        else:
            got = result.error.message if result.error is not None else _shown(result.got)
            rows.append((name, "failed", _shown(result.expected), one_line(got, _CELL)))
    counts = f"{len(report.results) - report.failed} passed, {report.failed} failed"
    return [Table(("test", "status", "expected", "got"), tuple(rows)), Fields((("tests", counts),))]


def _shown(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), _CELL)
