"""`ktx proof`: measure whether the context helps agents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.captures import MAX_TOKENS, MAX_USD
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import WAIT, current_folder
from ktx_cli.core import KtxError, UsageError, listing, plural

if TYPE_CHECKING:
    from pathlib import Path

    from ktx_cli.jobs.proof.report import Conditions, ProofReport
    from ktx_cli.jobs.proof.run import ProofEstimate

commands = typer.Typer()

NAMES = Annotated[
    list[str] | None, Argument(metavar="NAME", help="Cases in evals/ to use, as FILE, FILE/ID or ID. Defaults to all.")
]
RUNS = Annotated[int, Option("--runs", metavar="N", min=1, max=100, help="Ask each question N times.")]
COMPANY = Annotated[
    int | None,
    Option(
        "--company",
        metavar="SEED",
        min=0,
        help="Use a generated company with its own questions and context instead of evals/.",
    ),
]
ABLATE = Annotated[
    list[str] | None,
    Option(
        "--ablate",
        metavar="NAME",
        help="Also measure without one page, measure, source or decision, or without each of `pages`, `measures`, "
        "`decisions` or `all`. Can be repeated.",
    ),
]
BASELINE = Annotated[
    bool, Option("--baseline/--no-baseline", help="Compare with an agent that only has the database schema and SQL.")
]
SHOW_VALUES = Annotated[
    bool,
    Option(
        "--show-values", help="Let the agent see row values, as clients of `ktx mcp` do, regardless of scan.privacy."
    ),
]
MODEL = Annotated[
    str | None,
    Option("--model", metavar="MODEL", help="Use this model instead of the default: MODEL or BACKEND:MODEL."),
]
EFFORT = Annotated[
    str | None, Option("--effort", metavar="LEVEL", help="Reasoning effort of the model, for example high.")
]
DRY_RUN = Annotated[bool, Option("--dry-run", help="Print the plan and its estimated cost without calling a model.")]
REPLAY = Annotated[
    str | None, Option("--replay", metavar="RUN", help="Score a recorded run again, without a model or database.")
]
MARKDOWN = Annotated[str | None, Option("--markdown", metavar="FILE", help="Also write the tables to a Markdown file.")]
REQUIRE_LIFT = Annotated[
    float | None,
    Option(
        "--require-lift",
        metavar="SHARE",
        min=-1,
        max=1,
        help="Exit 1 if the lift may be below this share, for example 0.05.",
    ),
]
MAX_HARM = Annotated[
    float | None,
    Option(
        "--max-harm", metavar="SHARE", min=0, max=1, help="Exit 1 if the harm exceeds this share, for example 0.02."
    ),
]


@command(commands, "proof")
def proof(
    session: Session,
    names: NAMES = None,
    runs: RUNS = 3,
    company: COMPANY = None,
    ablate: ABLATE = None,
    baseline: BASELINE = True,
    show_values: SHOW_VALUES = False,
    model: MODEL = None,
    effort: EFFORT = None,
    max_usd: MAX_USD = None,
    max_tokens: MAX_TOKENS = None,
    dry_run: DRY_RUN = False,
    replay: REPLAY = None,
    markdown: MARKDOWN = None,
    require_lift: REQUIRE_LIFT = None,
    max_harm: MAX_HARM = None,
    wait: WAIT = None,
) -> Result:
    """Measure whether the context helps agents answer questions.

    An agent answers the questions in evals/ with and without the context, and ktx compares the results.

    Examples:
        ktx proof --dry-run
        ktx proof --runs 5 --max-usd 10 --markdown README.md
        ktx proof --ablate measures --require-lift 0.05
    """
    from ktx_cli.jobs.proof.report import Conditions

    conditions = Conditions(require_lift, max_harm)
    if markdown is not None:
        _place(current_folder() / markdown)
    if replay is not None:
        asks = {"NAME": names, "--company": company, "--ablate": ablate, "--model": model, "--effort": effort}
        given = [option for option, value in asks.items() if value is not None]
        if given or dry_run:
            message = f"--replay and {[*given, '--dry-run'][0]} cannot be used together"
            raise UsageError(message, hint="remove one of them")
        from ktx_cli.jobs.proof.run import replay as replayed
        from ktx_cli.project import Layout

        return _result(session, replayed(Layout(session.require_project()), replay), conditions, markdown)
    from ktx_cli.jobs.proof.run import ProofRequest, estimate, prove
    from ktx_cli.mcp.loop import ServerToolbox

    layout, config = session.load_project()
    request = ProofRequest(
        *(layout, config, os.environ, ServerToolbox(), tuple(names or ())),
        company=company,
        model=model,
        effort=effort,
        runs=runs,
        ablate=tuple(ablate or ()),
        baseline=baseline,
        show_values=show_values,
        max_usd=max_usd,
        max_tokens=max_tokens,
        wait_seconds=wait or 0.0,
        emit=session.emitter(),
    )
    if dry_run:
        planned, warnings = estimate(request)
        session.warn(*warnings)
        return Result(planned.to_json(), [_plan_fields(planned)])
    report, warnings = prove(request)
    session.warn(*warnings)
    return _result(session, report, conditions, markdown)


def _plan_fields(found: ProofEstimate) -> Block:
    plan = found.plan
    more = f", plus at most {found.most_ablated:,} without an artifact" if found.most_ablated else ""
    model = plan.model or "no model configured"
    facts = [
        ("would ask", f"{plural(len(plan.questions), 'question')}, {plural(plan.runs, 'run')} each, {model}"),
        ("attempts", f"{found.attempts:,}{more}"),
    ]
    facts += [("would omit", listing((each.id for each in plan.ablated), 20))] if plan.ablated else []
    if found.tokens is None:
        steps = plural(found.most_steps, "step")
        facts.append(("cost", f"unknown without an earlier proof; at most {steps} of the model"))
    else:
        price = "price unknown" if found.usd is None else f"about ${found.usd:.2f} at list prices"
        facts.append(("cost", f"{price}, {found.tokens:,} tokens, based on run {found.by_run}"))
    return Fields((*facts, ("asked", "nothing (dry run)")))


def _place(path: Path) -> tuple[str, str]:
    """Return a file's text before and after the report; raises `UsageError` if the file has no place for a report."""
    from ktx_cli.jobs.proof.report import place_in
    from ktx_cli.project import read_bytes

    content = read_bytes(path)
    return place_in(None if content is None else content.decode("utf-8", "replace"), path)


def _result(session: Session, report: ProofReport, conditions: Conditions, file: str | None) -> Result:
    from ktx_cli.jobs.proof.report import markdown

    if file is not None:
        from ktx_cli.project import write_atomic

        path = current_folder() / file
        before, after = _place(path)
        write_atomic(path, f"{before}{markdown(report)}{after}".encode())
    error: KtxError | None = report.stopped or report.failure() or conditions.error(report)
    return Result(report.to_json(), list(_blocks(report, verbose=session.settings.verbose)), error)


def _blocks(report: ProofReport, *, verbose: bool) -> Iterator[Block]:
    from ktx_cli.jobs.proof.report import (
        ABLATION_COLUMNS,
        GROUP_COLUMNS,
        ablation_rows,
        arm_table,
        facts_of,
        group_rows,
    )

    columns, figures = arm_table(report)
    yield Table(tuple(columns), tuple(figures), right=frozenset(range(1, len(columns))))
    if rows := group_rows(report):
        yield Table((*GROUP_COLUMNS, *(each.arm for each in report.arms)), tuple(rows))
    if rows := ablation_rows(report):
        yield Table(ABLATION_COLUMNS, tuple(rows))
    if verbose:
        yield from _questions(report)
    yield Fields(tuple(facts_of(report)))


def _questions(report: ProofReport) -> Iterator[Block]:
    rows = [
        (each.question.id, arm, ", ".join(one.reading or one.word for one in outcomes))
        for each in report.questions
        for arm, outcomes in each.outcomes.items()
    ]
    yield Table(("question", "arm", "runs"), tuple(rows))
