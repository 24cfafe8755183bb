"""`ktx eval`: golden questions, asked anew and compared with what was accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table, as_table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import current_folder
from ktx_cli.cli.unattended import annotation, repository_prefix
from ktx_cli.core import Command, Diagnostic, Location, Severity, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ktx_cli.cli.junit import JunitCase
    from ktx_cli.jobs.check.eval.results import CaseResult, EvalReport


_SHOWN = 10
"""How many rows of an answer or a difference are drawn without `--verbose`."""
_WIDEST = 2_000
"""Letters of a line that quotes values: they may hold anything, line breaks too."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "eval")
    def evaluate(
        session: Session,
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="[NAME]...", help="FILE, FILE/ID or ID of cases in evals/; none: all."),
        ] = None,
        accept: Annotated[
            bool, typer.Option("--accept", help="Write the answers of new cases into their files as expected.")
        ] = False,
        save: Annotated[
            bool, typer.Option("--save/--no-save", help="Keep how cases ended, to tell regressions the next time.")
        ] = True,
        github: Annotated[
            bool, typer.Option("--github", help="Print annotations for GitHub Actions too, on stderr.")
        ] = False,
        junit: Annotated[
            str | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit XML report too.")
        ] = None,
    ) -> Result:
        """Ask the golden questions of evals/*.yaml and compare: exit 1 where an answer is not the expected one."""
        from ktx_cli.cli.junit import require_report
        from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
        from ktx_cli.project import Layout, load_config

        if junit is not None:
            require_report(current_folder() / junit)
        layout = Layout(session.require_project())
        loaded = load_config(layout.config)
        session.warn(*loaded.notices())
        request = EvalRequest(
            layout=layout,
            config=loaded.config,
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
        verbose = session.settings.verbose
        return Result(report.to_json(), list(_blocks(report, verbose)), report.error(), _next_steps(report))


def _blocks(report: EvalReport, verbose: bool) -> Iterator[Block]:
    rows = [
        (each.case.name, each.status, f"{each.milliseconds:,}", one_line(each.what, 200)) for each in report.results
    ]
    if rows:
        yield Table(("eval", "status", "ms", "what"), tuple(rows))
    for each in report.results:
        yield from _details(each, None if verbose else _SHOWN)
    counts = ", ".join(f"{count:,} {status}" for status, count in report.counts.items() if count) or "none"
    facts = [("evals", counts), ("took", f"{report.seconds:.1f} s")]
    if report.tokens:
        price = "no price is known" if report.usd is None else f"${report.usd:.4f} at list prices"
        facts.append(("models took", f"{report.tokens:,} tokens, {price}"))
    yield Fields(tuple(facts))


def _details(result: CaseResult, most: int | None) -> Iterator[Block]:
    """Yield the rows of an answer that is new, and those by which another differs from what is expected."""
    found = result.difference
    if result.status == "new" and result.answer is not None and not result.accepted:
        yield Lines((f"{result.case.name}: {_of(len(result.answer.rows), most)}",))
        yield as_table(result.answer.columns, result.answer.rows[:most], result.answer.formats)
    elif found is not None and (found.missing or found.unexpected):
        signed = [("expected", row) for row in found.missing[:most]] + [("got", row) for row in found.unexpected[:most]]
        yield Lines((f"{result.case.name}: {one_line(found.message, _WIDEST)}",))
        yield as_table(("is", *found.columns), [(sign, *row) for sign, row in signed])
    if result.query is not None and result.status != "pass":
        asked = one_line(json.dumps(result.query, ensure_ascii=False), _WIDEST)
        yield Lines((f"{result.case.name}: the model asked: {asked}",))
    if result.error is not None and result.error.hint:
        yield Lines((f"{result.case.name}: hint: {one_line(result.error.hint, _WIDEST)}",))


def _of(count: int, most: int | None) -> str:
    return f"the first {most} of {count:,} rows" if most is not None and count > most else "the answer"


def _next_steps(report: EvalReport) -> list[str]:
    new = [each.case.name for each in report.results if each.status == "new" and not each.accepted]
    return [Command("eval", *new[:_SHOWN], "--accept")] if new else []


def _annotations(report: EvalReport, prefix: str) -> Iterator[str]:
    from ktx_cli.jobs.check.eval.results import WRONG

    for each in report.results:
        if each.status in WRONG:
            place = Location(each.case.path, each.case.line)
            title = f"ktx eval: {each.case.name} ({each.status})"
            yield annotation(Diagnostic(title, Severity.ERROR, each.what, place), prefix)


def _write_junit(path: Path, report: EvalReport) -> None:
    from ktx_cli.cli.junit import junit_xml
    from ktx_cli.project import write_atomic

    write_atomic(path, junit_xml("ktx eval", [_junit(each) for each in report.results]))


def _junit(result: CaseResult) -> JunitCase:
    from ktx_cli.cli.junit import JunitCase

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
