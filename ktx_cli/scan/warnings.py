"""The warnings of a scan: what could not be read, what the scope does not match, comments that instruct agents."""

from __future__ import annotations

import glob
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import Command, Hint, ResultWarning, SettingPath, SourceError, listing, one_line, plural
from ktx_cli.scan.manifest import TableChanges
from ktx_cli.scan.profile.counts import FAILED, NOT_READ, TableProfile
from ktx_cli.scan.profile.profiler import OUT_OF_TIME, Profiled
from ktx_cli.scan.stages import connection_warning
from ktx_cli.semantic import Shard
from ktx_cli.warehouses import Connector, ObjectProblem, Scope, TableRef, dialect_named

OF_THE_SCOPE = frozenset({"scope", "schema"})
"""Problems of what `ktx.yaml` asks for: an entry that matches nothing."""


def problem_warnings(connection: str, problems: Iterable[ObjectProblem]) -> list[ResultWarning]:
    """Return a warning of objects that could not be read, and one of a scope without a match."""
    of_scope = {True: list[ObjectProblem](), False: list[ObjectProblem]()}
    for problem in problems:
        of_scope[problem.what in OF_THE_SCOPE].append(problem)
    warnings = [_unreadable(connection, of_scope[False])] if of_scope[False] else []
    return [*warnings, *([_unmatched(connection, of_scope[True])] if of_scope[True] else [])]


def comment_warnings(connection: str, shards: Mapping[str, Shard], changes: TableChanges) -> list[ResultWarning]:
    """Return a warning where comments of tables that are new or changed instruct agents."""
    objects = list(_instructing(shards, changes))
    if not objects:
        return []
    message = f"comments in the database speak to agents: {listing((f'`{name}`' for name in objects), 3)}"
    hint = "look at them, and at who may write there; agents get comments as data"
    return [connection_warning("comment_instructions", connection, message, hint, objects=objects)]


def _instructing(shards: Mapping[str, Shard], changes: TableChanges) -> Iterator[str]:
    touched = {*changes.added, *changes.changed}
    entries = (entry for shard in shards.values() for entry in shard.tables.values())
    for entry in (each for each in entries if each.get("table") in touched):
        columns = ((f"{entry['table']}.{column.get('name')}", column) for column in entry.get("columns") or ())
        for name, fields in ((entry["table"], entry), *columns):
            text = _comment(fields)
            if text and _instructs(text):
                yield name


def _instructs(text: str) -> bool:
    from ktx_cli.wiki import instructions

    return any(instructions(text))


def _comment(fields: Mapping[str, Any]) -> str:
    texts = fields.get("descriptions")
    return str(texts.get("db") or "") if isinstance(texts, Mapping) else ""


def _unreadable(connection: str, problems: list[ObjectProblem]) -> ResultWarning:
    objects = list(dict.fromkeys(str(problem.ref) for problem in problems if problem.ref is not None))
    message = (
        f"{plural(len(problems), 'object')} could not be read, or not in full: "
        f"{listing((_described(problem) for problem in problems), 3)}"
    )
    hint = exclusion_hint(connection, objects) if objects else Command("connection", "test", connection)
    return connection_warning("object_unreadable", connection, message, hint, objects=objects)


def exclusion_hint(connection: str, objects: Iterable[str], limit: int = 5) -> Hint:
    """Return what can be done about objects that can never be read as they are."""
    entries = listing(map(_entry, objects), limit)
    place = SettingPath(f"connections.{connection}")
    return Hint("repair or drop them, or add to `exclude` of {} in ktx.yaml: {}", place, entries)


def _entry(name: str) -> str:
    """Return the entry of `exclude` that covers this object and no other, as it is written in YAML."""
    pattern = glob.escape(name)
    return pattern if re.fullmatch(r"\w[\w./-]*", pattern) else json.dumps(pattern, ensure_ascii=False)


def _described(problem: ObjectProblem) -> str:
    name = problem.what if problem.ref is None else f"`{problem.ref}`"
    return f"{name} ({one_line(problem.message, 160)})"


def _unmatched(connection: str, problems: list[ObjectProblem]) -> ResultWarning:
    unmatched = listing((one_line(problem.message, 160) for problem in problems), 3)
    hint = Hint("correct {} in ktx.yaml, or the role's privileges", SettingPath(f"connections.{connection}"))
    return connection_warning("scope_unmatched", connection, unmatched, hint)


MOST_REASONS = 5
"""So many reasons have a warning of their own; the rest share one."""

NAMED_TABLES = 10
"""A GRANT names the tables up to this number, beyond it their schemas."""

_FORBIDDEN: Final = re.compile(
    r"permission (was )?denied|access denied|command denied|not authori[sz]ed|insufficient privilege", re.IGNORECASE
)
_PASSES: Final = re.compile(r"locked|was stopped after|the database is busy", re.IGNORECASE)
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")


@dataclass(frozen=True, slots=True)
class _Unread:
    """A table or a column of it, and what the database said."""

    ref: TableRef
    column: str | None
    reason: str

    def __str__(self) -> str:
        return str(self.ref) if self.column is None else f"{self.ref}.{self.column}"

    @property
    def kind(self) -> str:
        """The reason without the names, values and places that differ from table to table."""
        if _FORBIDDEN.search(self.reason):
            return "forbidden"
        text = _VARYING.sub("?", self.reason)
        for name in (str(self.ref), self.ref.name, self.column):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "?", text) if name else text
        return text


def unprofiled_warnings(connection: str, connector: Connector, profiled: Profiled) -> list[ResultWarning]:
    """Return the warnings of tables and columns without a profile, which are not empty ones."""
    found = list(_left_out(connection, profiled))
    groups: dict[str, list[_Unread]] = defaultdict(list)
    for each in _unread(each.profile for each in profiled.tables):
        groups[each.kind].append(each)
    largest = sorted(groups.values(), key=lambda group: -len(group))
    shown, rest = largest[:MOST_REASONS], [each for group in largest[MOST_REASONS:] for each in group]
    return found + [_warning(connection, connector, group) for group in [*shown, rest] if group]


def _left_out(connection: str, profiled: Profiled) -> Iterator[ResultWarning]:
    late, views = profiled.out_of_time, profiled.not_read
    if late:
        total = len(profiled.tables)
        message = f"{plural(late, 'table')} of {total} not looked at, the time was up; the next run begins with them"
        hint = Hint("raise {}, or narrow the connection by `include`", SettingPath("scan.budget.seconds"))
        yield connection_warning("profile_out_of_time", connection, message, hint, left=late)
    if views:
        always = Command("config", "set", "scan.views", "always")
        message = f"{plural(views, 'view')} not read: scan.views"
        yield connection_warning("views_not_read", connection, message, always, views=views)


def _unread(profiles: Iterator[TableProfile]) -> Iterator[_Unread]:
    for profile in profiles:
        if profile.problem is None:
            yield from (_Unread(profile.ref, each.name, each.problem) for each in profile.columns if each.problem)
        elif profile.problem not in (OUT_OF_TIME, NOT_READ, FAILED):
            yield _Unread(profile.ref, None, profile.problem)


def _warning(connection: str, connector: Connector, group: Sequence[_Unread]) -> ResultWarning:
    tables = sum(each.column is None for each in group)
    parts = [(tables, "table"), (len(group) - tables, "column")]
    counted = " and ".join(plural(count, noun) for count, noun in parts if count)
    objects = list(map(str, group))
    message = f"the rows of {counted} could not be read ({listing(objects, 3)}): {group[0].reason}"
    hint = _hint(connection, connector, group)
    return connection_warning("not_profiled", connection, message, hint, objects=objects)


def _hint(connection: str, connector: Connector, group: Sequence[_Unread]) -> str:
    refs = sorted({each.ref for each in group}, key=str)
    if all(_FORBIDDEN.search(each.reason) for each in group):
        return _grant(connection, connector, refs, group[0].reason)
    if all(_PASSES.search(each.reason) for each in group):
        return Hint("try again later: {}", Command("scan", connection))
    return exclusion_hint(connection, map(str, refs), NAMED_TABLES)


def _grant(connection: str, connector: Connector, refs: Sequence[TableRef], reason: str) -> str:
    """Return the statements that let the role read; of engines that grant otherwise, the command that names it."""
    dialect = dialect_named(connector.dialect)
    user = _user(connector) if dialect.has_grants else None
    if user is None:
        message = "let the role SELECT from them; to see which one it is: {}"
        return Hint(message, Command("connection", "test", connection))
    role = dialect.role(user)
    schemas = [dialect.quote(schema) for schema in sorted({ref.schema for ref in refs if ref.schema is not None})]
    by_name = len(refs) <= NAMED_TABLES or not schemas
    places = map(dialect.path, refs) if by_name else map(dialect.all_tables_form.format, schemas)
    usage = [f"GRANT USAGE ON SCHEMA {schema} TO {role}" for schema in schemas if "for schema" in reason]
    return f"as the tables' owner: {'; '.join([*usage, *(f'GRANT SELECT ON {place} TO {role}' for place in places)])}"


def _user(connector: Connector) -> str | None:
    try:
        return connector.test(Scope(enabled_tables=())).user
    except SourceError:  # the hint only names it
        return None
