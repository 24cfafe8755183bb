"""Finds failed requests from agents in the `ktx mcp` audit log and in the transcripts of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from ktx_cli.core import listing, one_line
from ktx_cli.jobs.evolve.findings import LONGEST, Finding, FindingKind, KnownContext, references_of, shown_text
from ktx_cli.jobs.serve.audit import audit_lines
from ktx_cli.project import Layout
from ktx_cli.runs import list_runs, transcripts_of

_SEARCHES: Final = frozenset(("discover_data", "wiki_search"))
_QUERIES: Final = frozenset(("sl_query", "sl_explain"))
_SQL: Final = "sql_execution"
_QUERY_KEYS: Final = ("measures", "dimensions", "filters", "segments", "having", "order_by", "via", "time_range")
_ELSEWHERE: Final = frozenset(
    ("cancelled", "connection", "not_ready", "auth", "budget", "busy", "internal", "storage", "hidden", "policy")
)
"""Outcomes that no change to the context could improve."""

_SOON: Final = timedelta(minutes=10)
"""How long after a refused query or failed search an answer in the same session counts as a correction."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A tool call. `outcome` is `ok` or an error code. `hits` is the number of search results, or None if unknown.

    `session` identifies the conversation, and `place` is the origin of the record. `arguments` is empty if only their
    hash is recorded.
    """

    at: str
    session: str
    tool: str
    outcome: str
    place: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    hits: int | None = None


def audited(layout: Layout) -> Iterator[Asking]:
    """Yield the calls in the audit log, including rotated files, oldest first."""
    for line in audit_lines(layout):
        tool, arguments = line.get("tool"), line.get("arguments")
        if line.get("method") != "tools/call" or not isinstance(tool, str):
            continue
        yield Asking(
            str(line.get("at") or ""),
            str(line.get("session") or ""),
            tool,
            str(line.get("outcome") or ""),
            "mcp audit log",
            arguments if isinstance(arguments, Mapping) else {},
            line["hits"] if isinstance(line.get("hits"), int) else None,
        )


def transcribed(layout: Layout) -> Iterator[Asking]:
    """Yield the calls in the transcripts of proofs and captures, oldest run first."""
    records, _ = list_runs(layout)
    for record in reversed(records):
        if not record.command.startswith(("ktx proof", "ktx memory")):
            continue
        for transcript in transcripts_of(layout, record.run_id):
            begun: Mapping[str, Any] = {}
            for line in transcript.lines():
                if line.get("event") == "tool_started":
                    begun = line
                elif line.get("event") == "tool_finished" and begun.get("name") == line.get("name"):
                    yield _of_transcript(begun, line, f"run {record.run_id}, {transcript.label}")


def _of_transcript(begun: Mapping[str, Any], ended: Mapping[str, Any], place: str) -> Asking:
    try:
        result = json.loads(str(ended.get("result")))
    except ValueError:  # tools of captures return plain text
        result = {}
    result = result if isinstance(result, Mapping) else {}
    error = result.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    outcome = str(code or "refused") if ended.get("is_error") else "ok"
    arguments, total = begun.get("arguments"), result.get("total")
    return Asking(
        str(begun.get("at") or ""),
        place,
        str(begun.get("name")),
        outcome,
        place,
        arguments if isinstance(arguments, Mapping) else {},
        total if isinstance(total, int) else None,
    )


Hits = Callable[[str], int]
"""Takes a query and returns the current number of search results."""


def findings_of_askings(
    known: KnownContext, askings: Iterable[Asking], hits: Hits, since: str | None = None
) -> Iterator[Finding]:
    """Yield the failed agent requests that would still fail now.

    `since` is the first day to consider (YYYY-MM-DD).
    """
    sessions: dict[str, list[Asking]] = {}
    for each in askings:
        if since is None or each.at[:10] >= since:
            sessions.setdefault(each.session, []).append(each)
    for asked in sessions.values():
        for place, each in enumerate(asked):
            later = [other for other in asked[place + 1 :] if _follows(each, other)]
            if each.tool in _QUERIES and each.outcome != "ok" and each.arguments:
                yield from _of_query(known, each, later)
            elif each.tool in _SEARCHES and each.outcome == "ok" and each.hits == 0:
                yield from _of_search(known, each, later, hits)


def _follows(first: Asking, later: Asking) -> bool:
    try:
        return datetime.fromisoformat(later.at) - datetime.fromisoformat(first.at) <= _SOON
    except ValueError:  # a line without a timestamp cannot follow another one
        return False


def _of_query(known: KnownContext, asked: Asking, later: Sequence[Asking]) -> Iterator[Finding]:
    if asked.outcome in _ELSEWHERE or asked.outcome.startswith("protocol"):
        return
    query = {key: asked.arguments[key] for key in _QUERY_KEYS if asked.arguments.get(key)}
    names = references_of(query)
    given = asked.arguments.get("connection")
    connection = known.connection_of(given if isinstance(given, str) else None, names)
    if not names or connection not in known.layers.dialects:
        return
    error = known.refusal(connection, query)
    if error is None:
        return
    finding = Finding(
        FindingKind.REFUSED_QUERY,
        connection,
        names[0],
        shown_text(error.message),
        names,
        known.missing(connection, names),
        shown_text(listing(names, 10)),
        last=asked.at,
        places=(asked.place,),
    )
    yield finding
    corrected = next((each for each in later if each.tool == _SQL and each.outcome == "ok"), None)
    sql = None if corrected is None else corrected.arguments.get("sql")
    if isinstance(sql, str) and (sources := known.sources_in(connection, sql)):
        yield Finding(
            FindingKind.CORRECTED_ANSWER,
            connection,
            names[0],
            f"the agent used SQL on {listing(sources, 5)} instead",
            (*names, *sources),
            finding.missing,
            finding.text,
            last=asked.at,
            places=(asked.place,),
        )


def _of_search(known: KnownContext, asked: Asking, later: Sequence[Asking], hits: Hits) -> Iterator[Finding]:
    words = asked.arguments.get("query")
    if not isinstance(words, str) or not words.strip():
        return
    if hits(words):
        return
    text = shown_text(words)
    text = text if text == one_line(words, LONGEST) else ""  # show screened text completely or not at all
    means = _meant(known, later)
    yield Finding(
        FindingKind.MISSED_SEARCH,
        means[0] if means else "",
        text.casefold() or "(not shown)",
        "no results" if text else "no results; the words are hidden",
        (means[1],) if means else (),
        text=text,
        means=means[1] if means and text else "",
        last=asked.at,
        places=(asked.place,),
    )


def _meant(known: KnownContext, later: Sequence[Asking]) -> tuple[str, str] | None:
    """Return the only measure that answered afterwards, with its connection, or None."""
    for each in later:
        if each.tool != "sl_query" or each.outcome != "ok":
            continue
        measures = each.arguments.get("measures")
        if not isinstance(measures, list) or len(measures) != 1 or not isinstance(measures[0], str):
            return None
        given = each.arguments.get("connection")
        connection = known.connection_of(given if isinstance(given, str) else None, measures)
        source, _, name = measures[0].partition(".")
        found = known.model(connection).sources.get(source) if connection in known.layers.dialects else None
        return (connection, measures[0]) if found is not None and name in found.measures else None
    return None
