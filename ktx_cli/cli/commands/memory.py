"""`ktx memory`: capture knowledge from text, list and show captures, and revert them."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ktx_cli.cli import captures
from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands.completion import connection_option
from ktx_cli.cli.contract import Result, Session, command, harmless
from ktx_cli.cli.help import group
from ktx_cli.cli.settings import WAIT
from ktx_cli.core import CancelledError, Command, Placeholder, UsageError, listing

if TYPE_CHECKING:
    from ktx_cli.jobs.capture.capture import CaptureDetails

commands = group("Capture knowledge from text into the wiki and semantic layer.")


RUN = Annotated[str, Argument(metavar="RUN", help="ID of a capture, a unique prefix of it, or `latest`.")]


TypeOfText = StrEnum("TypeOfText", ("RESEARCH", "BACKFILL", "EXTERNAL_INGEST"))
"""The type of a text; see `ktx_cli.jobs.capture.records.SourceType`."""


CaptureStatus = StrEnum(
    "CaptureStatus", ("QUEUED", "RUNNING", "DONE", "NOTHING_TO_CAPTURE", "CONFLICT", "FAILED", "INTERRUPTED")
)
"""The state of a capture; see `ktx_cli.jobs.capture.records.Status`."""


@command(commands, "capture", schema="memory-capture")
def capture(
    session: Session,
    words: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="Text to capture, or `-` to read it from stdin.")
    ] = None,
    text: captures.TEXTS = None,
    file: captures.FILES = None,
    connection: Annotated[str | None, connection_option("Database that the text is about.")] = None,
    user: Annotated[
        str | None, Option("--user", metavar="ID", help="Only write wiki pages of this user, and no definitions.")
    ] = None,
    source_type: Annotated[
        TypeOfText, Option("--source-type", help="Kind of the text, which determines how much of it is captured.")
    ] = TypeOfText.EXTERNAL_INGEST,
    propose: Annotated[
        bool, Option("--propose", help="Commit the change to a branch for review instead of the current branch.")
    ] = False,
    replace: Annotated[
        bool, Option("--replace", help="Allow changes to accepted context that the text contradicts.")
    ] = False,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop after the first text that fails.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show the planned work without calling a model or writing anything.")
    ] = False,
    max_usd: captures.MAX_USD = None,
    max_tokens: captures.MAX_TOKENS = None,
    wait: WAIT = None,
) -> Result:
    """Capture text as wiki pages, measures and segments.

    An agent reads the text and writes the changes. Each text gets its own run and commit.

    Examples:
        ktx memory capture "Net revenue excludes tax and cancelled orders."
        ktx memory capture --file notes.md --propose
        ktx memory capture --file notes.md --dry-run
    """
    from ktx_cli.jobs.capture.records import CaptureRequest, SourceType

    options = captures.options_of(session, wait=wait, max_usd=max_usd, max_tokens=max_tokens)
    kind = SourceType(source_type.value)
    requests = [
        CaptureRequest(given, name, connection, user, kind, propose, replace)
        for given, name in captures.texts_of(text, file, words)
    ]
    if not requests:
        example = Command("memory", "capture", "--text", Placeholder('"Revenue is net."'))
        raise UsageError("there is no text to capture", hint=example)
    return captures.run_captures(session, requests, options, dry_run=dry_run, fail_fast=fail_fast)


@command(commands, "list", schema="memory-list")
def list_captures(
    session: Session,
    status: Annotated[CaptureStatus | None, Option("--status", help="Only list captures with this status.")] = None,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="Maximum number of captures to list.")] = 20,
) -> Result:
    """List captures, newest first.

    A capture whose process was killed is listed as interrupted.

    Examples:
        ktx memory list
        ktx memory list --status failed --limit 5
    """
    from ktx_cli.jobs.capture.queue import listed
    from ktx_cli.jobs.capture.records import Status

    layout, _ = session.load_project()
    wanted = None if status is None else Status(status.value)
    records, warnings = listed(layout, status=wanted, limit=limit)
    session.warn(*warnings)
    shown = [each.to_json() for each in records]
    return Result({"captures": shown}, captures.blocks_of(shown))


@command(commands, "show", schema="memory-show")
def show(session: Session, run: RUN) -> Result:
    """Show a capture, its diff, and how to review it.

    Also shows contradictions with accepted context, and in verbose mode the captured text.

    Examples:
        ktx memory show latest
        ktx memory show latest --verbose
    """
    from ktx_cli.jobs.capture.capture import show

    layout, _ = session.load_project()
    found = show(layout, run)
    return Result(found.to_json(), _shown_blocks(found, verbose=session.settings.verbose), next_steps=found.review)


def _shown_blocks(found: CaptureDetails, *, verbose: bool) -> list[Block]:
    record = found.record
    facts = [("capture", record.run_id), ("text", record.label), ("status", record.status.value)]
    facts += [("why", record.reason)] if record.reason else []
    facts += [("wrote", listing(record.artifacts, 20))] if record.artifacts else []
    facts += [("commit", str(record.commit))] if record.commit else []
    facts += [("branch", record.branch)] if record.branch else []
    facts += [("reverted", f"by {record.reverted['run_id']}")] if record.reverted else []
    facts += [("hint", str(record.error["hint"]))] if record.error and record.error.get("hint") else []
    facts += [("transcript", each) for each in found.transcripts]
    facts += [("report", found.report)] if found.report else []
    blocks: list[Block] = [Fields(tuple(facts))]
    if record.conflicts:
        rows = (
            tuple(str(each.get(name) or "") for name in ("artifact", "accepted", "captured", "detail"))
            for each in record.conflicts
        )
        blocks.append(Table(("contradicts", "accepted", "captured", "why"), tuple(rows)))
    texts = [found.diff, *([record.content] if verbose else [])]
    return blocks + [Lines(tuple(map(harmless, text.splitlines()))) for text in texts if text]


@command(commands, "revert", schema="memory-revert")
def revert(session: Session, run: RUN, wait: WAIT = None) -> Result:
    """Revert the changes of a capture in a new commit.

    Later changes are kept. If they conflict with the revert, nothing is changed.

    Examples:
        ktx memory revert latest
        ktx memory revert latest --wait 60
    """
    from ktx_cli.jobs.capture.records import find
    from ktx_cli.jobs.capture.revert import revert

    layout, _ = session.load_project()
    done = revert(find(layout, run), captures.options_of(session, wait=wait))
    session.warn(*done.warnings)
    facts = (
        ("reverted", f"{done.record.run_id} ({done.record.label})"),
        ("run", done.run_id),
        ("commit", str(done.commit)),
        ("files", listing(done.files, 20)),
    )
    data = {"capture": done.record.to_json(), "run_id": done.run_id, "commit": done.commit, "files": done.files}
    return Result(data, [Fields(facts)])


@command(commands, "retry", schema="memory-retry")
def retry(
    session: Session,
    run: RUN,
    max_usd: captures.MAX_USD = None,
    max_tokens: captures.MAX_TOKENS = None,
    wait: WAIT = None,
) -> Result:
    """Resume a capture that failed or was interrupted.

    Recorded model answers are reused.

    Examples:
        ktx memory retry latest
        ktx memory retry latest --max-usd 1
    """
    from ktx_cli.jobs.capture.capture import capture
    from ktx_cli.jobs.capture.queue import again

    layout, _ = session.load_project()
    record = again(layout, run)
    options = captures.options_of(session, wait=wait, max_usd=max_usd, max_tokens=max_tokens)
    return captures.result_of(session, capture(record, options))


@command(commands, "work", schema="memory-work", hidden=True)
def work(session: Session) -> Result:
    """Work through the queue; stdin is a pipe from the server that started this process
    (`ktx_cli.jobs.capture.queue`).
    """
    import dataclasses

    from ktx_cli.jobs.capture.queue import Tether, drain

    session.load_project()
    options = dataclasses.replace(captures.options_of(session, wait=None), patient=False)
    shown = []
    with Tether(sys.stdin.fileno()) as tether:
        try:
            for captured in drain(options):
                session.warn(*captured.warnings)
                shown.append(captured.record.to_json())
        except KeyboardInterrupt:
            if not tether.was_cut:
                raise
            message = "the server that started this process is no longer running"
            raise CancelledError(message, hint=Command("memory", "list")) from None
    return Result({"captures": shown}, captures.blocks_of(shown))
