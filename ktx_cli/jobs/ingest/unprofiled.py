"""The warnings of what a look at the rows left out: one for each reason, with what changes it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.connectors.identifiers import quote, table_path
from ktx_cli.connectors.port import Connector, Scope, TableRef
from ktx_cli.context.scan.profiling.model import FAILED, NOT_READ, TableProfile
from ktx_cli.context.scan.profiling.profiler import OUT_OF_TIME, Profiled
from ktx_cli.core.errors import ResultWarning, SourceError
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.ingest.problems import exclusion_hint

MOST_REASONS = 5
"""So many reasons have a warning of their own; the rest share one."""

NAMED_TABLES = 10
"""A GRANT names the tables up to this number, beyond it their schemas."""

_FORBIDDEN: Final = re.compile(
    r"permission (was )?denied|access denied|command denied|not authori[sz]ed|insufficient privilege", re.IGNORECASE
)
_PASSES: Final = re.compile(r"locked|was stopped after|the database is busy", re.IGNORECASE)
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
_GRANTING: Final = frozenset({"postgres", "redshift", "mysql", "tsql", "clickhouse", "trino"})


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


def left_out_warnings(connection: str, connector: Connector, profiled: Profiled) -> list[ResultWarning]:
    """Return what to say of tables and columns without a profile: one of these is not an empty one."""
    found = [*_out_of_time(connection, profiled), *_views(connection, profiled)]
    groups: dict[str, list[_Unread]] = defaultdict(list)
    for each in _unread(each.profile for each in profiled.tables):
        groups[each.kind].append(each)
    largest = sorted(groups.values(), key=lambda group: -len(group))
    shown, rest = largest[:MOST_REASONS], [each for group in largest[MOST_REASONS:] for each in group]
    return found + [_warning(connection, connector, group) for group in [*shown, rest] if group]


def _out_of_time(connection: str, profiled: Profiled) -> Iterator[ResultWarning]:
    late = profiled.out_of_time
    if late:
        yield ResultWarning(
            "profile_out_of_time",
            f"connection `{connection}`: {plural(late, 'table')} of {len(profiled.tables)} not looked at, the time was"
            " up; the next run begins with them",
            hint="raise scan.budget.seconds, or narrow the connection by `include`",
            connection=connection,
            left=late,
        )


def _views(connection: str, profiled: Profiled) -> Iterator[ResultWarning]:
    if profiled.not_read:
        yield ResultWarning(
            "views_not_read",
            f"connection `{connection}`: {plural(profiled.not_read, 'view')} not read: scan.views",
            hint="ktx config set scan.views always",
            connection=connection,
            views=profiled.not_read,
        )


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
    return ResultWarning(
        "not_profiled",
        f"connection `{connection}`: the rows of {counted} could not be read ({listing(map(str, group), 3)}): "
        f"{group[0].reason}",
        hint=_hint(connection, connector, group),
        connection=connection,
        objects=list(map(str, group)),
    )


def _hint(connection: str, connector: Connector, group: Sequence[_Unread]) -> str:
    refs = sorted({each.ref for each in group}, key=str)
    if all(_FORBIDDEN.search(each.reason) for each in group):
        return _grant(connection, connector, refs, group[0].reason)
    if all(_PASSES.search(each.reason) for each in group):
        return f"try again later: ktx scan {connection}"
    return exclusion_hint(connection, map(str, refs), NAMED_TABLES)


def _grant(connection: str, connector: Connector, refs: Sequence[TableRef], reason: str) -> str:
    """Return the statements that let the role read; of engines that grant otherwise, the command that names it."""
    user = _user(connector) if connector.dialect in _GRANTING else None
    if user is None:
        return f"let the role SELECT from them; to see which one it is: ktx connection test {connection}"
    role = _role(user, connector.dialect)
    schemas = sorted({ref.schema for ref in refs if ref.schema is not None})
    usage = [f"GRANT USAGE ON SCHEMA {quote(each, connector.dialect)} TO {role}" for each in schemas]
    selects = [f"GRANT SELECT ON {place} TO {role}" for place in _places(refs, schemas, connector.dialect)]
    return f"as the tables' owner: {'; '.join([*(usage if 'for schema' in reason else ()), *selects])}"


def _places(refs: Sequence[TableRef], schemas: Sequence[str], dialect: str) -> list[str]:
    if len(refs) <= NAMED_TABLES or not schemas:
        return [table_path(ref, dialect) for ref in refs]
    form = {"mysql": "{}.*", "clickhouse": "{}.*", "tsql": "SCHEMA::{}"}.get(dialect, "ALL TABLES IN SCHEMA {}")
    return [form.format(quote(schema, dialect)) for schema in schemas]


def _user(connector: Connector) -> str | None:
    try:
        return connector.test(Scope(enabled_tables=())).user
    except SourceError:  # the hint only names it
        return None


def _role(user: str, dialect: str) -> str:
    if dialect != "mysql":
        return quote(user, dialect)
    name, _, host = user.rpartition("@")
    return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (name, host))
