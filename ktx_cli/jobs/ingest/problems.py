"""The warnings of a scan's problems: a run that could not look at something says so beside its report."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ktx_cli.connectors.port import ObjectProblem
from ktx_cli.context.scan.outcome import ScanOutcome
from ktx_cli.context.wiki.instructions import instructions
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import listing, one_line, plural

OF_THE_SCOPE = frozenset({"scope", "schema"})
"""Problems of what `ktx.yaml` asks for: an entry that matches nothing."""


def problem_warnings(outcome: ScanOutcome) -> list[ResultWarning]:
    """Return at most three warnings.

    Of what could not be read (`object_unreadable`), of a scope without a match (`scope_unmatched`), of comments of
    tables added or changed that speak to agents (`comment_instructions`).
    """
    unread = [problem for problem in outcome.problems if problem.what not in OF_THE_SCOPE]
    scope = [problem for problem in outcome.problems if problem.what in OF_THE_SCOPE]
    warnings = [_unreadable(outcome.connection, unread)] if unread else []
    warnings += [_unmatched(outcome.connection, scope)] if scope else []
    speaking = list(_speaking(outcome))
    return [*warnings, *([_told_agents(outcome.connection, speaking)] if speaking else [])]


def _speaking(outcome: ScanOutcome) -> Iterator[str]:
    """Yield the objects of tables that are new or changed whose comments speak to agents."""
    touched = {*outcome.difference.added, *outcome.difference.changed}
    entries = (entry for shard in outcome.shards.values() for entry in shard.tables.values())
    for entry in (each for each in entries if each.get("table") in touched):
        columns = ((f"{entry['table']}.{column.get('name')}", column) for column in entry.get("columns") or ())
        for name, fields in ((entry["table"], entry), *columns):
            text = _comment(fields)
            if text and any(instructions(text)):
                yield name


def _comment(fields: Mapping[str, Any]) -> str:
    texts = fields.get("descriptions")
    return str(texts.get("db") or "") if isinstance(texts, Mapping) else ""


def _told_agents(connection: str, objects: list[str]) -> ResultWarning:
    named = listing((f"`{name}`" for name in objects), 3)
    return ResultWarning(
        "comment_instructions",
        f"connection `{connection}`: comments in the database speak to agents: {named}",
        hint="look at them, and at who may write there; agents get comments as data",
        connection=connection,
        objects=objects,
    )


def _unreadable(connection: str, problems: list[ObjectProblem]) -> ResultWarning:
    objects = list(dict.fromkeys(str(problem.ref) for problem in problems if problem.ref is not None))
    message = (
        f"connection `{connection}`: {plural(len(problems), 'object')} could not be read, or not in full: "
        f"{listing((_described(problem) for problem in problems), 3)}"
    )
    hint = f"ktx connection test {connection}"
    if objects:
        hint = exclusion_hint(connection, objects)
    return ResultWarning("object_unreadable", message, hint=hint, connection=connection, objects=objects)


def exclusion_hint(connection: str, objects: Iterable[str], limit: int = 5) -> str:
    """Return what can be done about objects that can never be read as they are."""
    entries = listing(map(_entry, objects), limit)
    return f"repair or drop them, or add to `exclude` of connections.{connection} in ktx.yaml: {entries}"


def _entry(name: str) -> str:
    """Return the entry of `exclude` that covers this object and no other, as it is written in YAML."""
    pattern = glob.escape(name)
    return pattern if re.fullmatch(r"\w[\w./-]*", pattern) else json.dumps(pattern, ensure_ascii=False)


def _described(problem: ObjectProblem) -> str:
    name = problem.what if problem.ref is None else f"`{problem.ref}`"
    return f"{name} ({one_line(problem.message, 160)})"


def _unmatched(connection: str, problems: list[ObjectProblem]) -> ResultWarning:
    said = listing((one_line(problem.message, 160) for problem in problems), 3)
    return ResultWarning(
        "scope_unmatched",
        f"connection `{connection}`: {said}",
        hint=f"correct connections.{connection} in ktx.yaml, or the role's privileges",
        connection=connection,
    )
