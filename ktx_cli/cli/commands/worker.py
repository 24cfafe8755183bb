"""`ktx worker`: process work units of runs that are coordinated elsewhere."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer import Option

from ktx_cli.cli.blocks import Fields
from ktx_cli.cli.contract import Result, Session, command

commands = typer.Typer()


@command(commands, "worker")
def worker(
    session: Session,
    concurrency: Annotated[
        int | None,
        Option(
            "--concurrency",
            metavar="N",
            min=1,
            help="Number of work units to process at the same time. Defaults to ingest.workUnits.maxConcurrency.",
        ),
    ] = None,
    once: Annotated[bool, Option("--once", help="Exit as soon as no work unit is waiting.")] = False,
) -> Result:
    """Process work units of runs on other hosts.

    Requires `storage.state: postgres` and `ingest.executor: postgres`. Stop the worker with SIGTERM (exit code 0) or
    Ctrl-C (130): ktx keeps the finished steps, and another worker continues. With `--once`, both exit with 130.

    A worker needs a model only while it processes a unit, so you can try the setup without one: if no work unit is
    waiting, `ktx worker --once` checks the settings, connects to the database, and exits.

    Examples:
        ktx worker
        ktx worker --concurrency 8
        ktx worker --once
    """
    from ktx_cli.jobs.worker import WorkerRequest, work

    request = WorkerRequest(
        session.require_own_project(), os.environ, concurrency, once, emit=session.emitter(), warn=session.warn
    )
    report = work(request)
    facts = (("work units", str(report.units)), ("runs", str(len(report.runs))))
    return Result(report.to_json(), [Fields(facts)])
