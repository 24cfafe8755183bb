"""The check that the last scan reached everything: what a budget, a privilege or a failure left out."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Iterable, Iterator

from ktx_cli.connectors.port import TableRef
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, one_line, plural
from ktx_cli.jobs.ingest.ledger import LastScan, last_scans
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.project.files import read_bytes
from ktx_cli.project.state import read_state

CHECK = "profiles"

Unread = list[tuple[TableRef, str]]
"""Tables without a profile, and why."""


def check_profiles(context: CheckContext) -> list[Finding]:
    """The last scan of every database could read all of it, and looked at the rows of all tables."""
    findings: list[Finding] = []
    try:
        scans = read_state(context.layout, last_scans) or {}
        for connection in context.loaded.config.databases():
            found = read_state(context.layout, functools.partial(unread_tables, connection=connection))
            findings += _left_out(connection, found or [], context.loaded.config.scan.budget.seconds)
            if connection in scans:
                findings += _unreadable(context, scans[connection])
    except KtxError as error:
        return [Finding(CHECK, Level.SKIP, error.message, error.hint)]
    return findings or [Finding(CHECK, Level.OK, "the last scans left nothing out")]


def unread_tables(database: sqlite3.Connection, connection: str) -> Unread:
    """Return the tables of a connection whose rows the last look did not reach, by schema and name."""
    rows = database.execute(
        "SELECT schema_name, table_name, json_extract(profile, '$.problem') FROM profiles"
        " WHERE connection = ? AND json_extract(profile, '$.problem') IS NOT NULL ORDER BY 1, 2",
        (connection,),
    )
    return [(TableRef(schema, name), why) for schema, name, why in rows]


def _unreadable(context: CheckContext, scan: LastScan) -> list[Finding]:
    """Name the objects that the last scan could not read at all, from its report; without one nothing is known."""
    text = read_bytes(context.layout.runs / f"{scan.run_id}.json")
    if text is None:
        return []
    try:
        reports = [each for each in json.loads(text)["connections"] if each["connection"] == scan.connection]
        objects = [str(problem["object"] or problem["what"]) for each in reports for problem in each["problems"]]
    except (ValueError, KeyError, TypeError):  # reports are disposable
        return []
    if not objects:
        return []
    said = f"{plural(len(objects), 'object')} could not be read, or not in full: {listing(objects)}"
    names = [str(problem["object"]) for each in reports for problem in each["problems"] if problem["object"]]
    hint = f"ktx connection test {scan.connection} && ktx scan {scan.connection}"
    if names:
        from ktx_cli.jobs.ingest.problems import exclusion_hint

        hint = exclusion_hint(scan.connection, dict.fromkeys(names))
    return [Finding(CHECK, Level.WARN, f"connection `{scan.connection}`: {said}", hint)]


def _left_out(connection: str, found: Unread, seconds: int) -> Iterator[Finding]:
    """Yield what failed, and apart from it what the settings leave out."""
    if not found:
        return
    from ktx_cli.context.scan.profiling.model import NOT_READ
    from ktx_cli.context.scan.profiling.profiler import OUT_OF_TIME

    meant = [str(ref) for ref, why in found if why == NOT_READ]
    failed = [each for each in found if each[1] != NOT_READ]
    if failed:
        tables = listing(_grouped(failed), 3)
        message = f"connection `{connection}`: the rows of {plural(len(failed), 'table')} were not looked at: {tables}"
        late = any(why == OUT_OF_TIME for _, why in failed)
        hint = f"ktx config set scan.budget.seconds {seconds * 2}" if late else f"ktx connection test {connection}"
        yield Finding(CHECK, Level.WARN, message, f"{hint} && ktx scan {connection}")
    if meant:
        message = (
            f"connection `{connection}`: {plural(len(meant), 'view')} not read, as scan.views says: {listing(meant)}"
        )
        yield Finding(CHECK, Level.OK, message, f"ktx config set scan.views always && ktx scan {connection}")


def _grouped(found: Unread) -> Iterable[str]:
    """Yield each reason once, with the tables it is about."""
    for why in dict.fromkeys(why for _, why in found):
        tables = listing(str(ref) for ref, reason in found if reason == why)
        yield f"{tables} ({one_line(why, 160)})"
