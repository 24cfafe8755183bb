"""A query history's raw files: one for each table, the patterns on several tables, and a manifest.

They contain no searched values, and nothing volatile: counts and times are stored as buckets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, SettingPath, file_stem, listing, plural
from ktx_cli.sources.query_history import model
from ktx_cli.sources.query_history.model import History, HistoryScope
from ktx_cli.sources.query_history.tables import NamedTable
from ktx_cli.sources.query_history.templates import Template, TemplateRules, TemplateSet, in_scope

CLAUSES: Final = ("select", "where", "groupBy", "join")
MAX_STATEMENTS: Final = 5
MAX_VALUES: Final = 20
MAX_PROGRAMS: Final = 10
MAX_STATEMENT: Final = 8_000
"""The maximum length of a statement listed as an example of a table's use."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Path -> content of every raw file, and warnings about the files."""

    files: Mapping[str, bytes]
    warnings: tuple[ResultWarning, ...]


def stage(history: History, rules: TemplateRules, connection: str, now: datetime) -> Staged:
    """Return a history's raw files."""
    gathered = rules.select(history)
    templates = sorted(gathered.templates.values(), key=_order)
    uses = _uses(templates, rules.scope)
    busiest = max((use.executions for use in uses.values()), default=0)
    files = {_path(table): _table_file(use, busiest, rules.scope, now) for table, use in uses.items()}
    shards, omitted = pattern_files([_pattern(each, now) for each in templates if _is_pattern(each, rules.scope)])
    manifest = _manifest(history, rules, connection, omitted)
    warnings = [*history.warnings, *_warnings(history, gathered, omitted, connection)]
    warnings += _programs(history, rules, connection)
    if not uses:
        warnings.append(_nothing(gathered, connection))
    return Staged({**files, **shards, MANIFEST: rendered(manifest)}, tuple(warnings))


@dataclass(slots=True)
class _Use:
    """A table and the statements that read it."""

    table: NamedTable
    templates: list[Template]

    @property
    def executions(self) -> int:
        return sum(each.executions for each in self.templates)

    def counts(self, items: Iterable[tuple[Template, Any]]) -> Counter[Any]:
        """Return the total executions of the statements with each item."""
        found: Counter[Any] = Counter()
        for template, item in items:
            found[item] += template.executions
        return found


def _uses(templates: Sequence[Template], scope: HistoryScope) -> dict[NamedTable, _Use]:
    uses: dict[NamedTable, _Use] = {}
    for template in templates:
        for table in in_scope(template.statement, scope):
            uses.setdefault(table, _Use(table, [])).templates.append(template)
    return uses


def _order(template: Template) -> tuple[int, str]:
    """The sort key: frequency bucket, then values that do not change."""
    return -model.executions_rank(template.executions), template.statement.id


def _path(table: NamedTable) -> str:
    return f"tables/{file_stem(table.display)}.json"


def _is_pattern(template: Template, scope: HistoryScope) -> bool:
    """Return whether a statement counts as a pattern: it reads several tables, all of them in scope."""
    tables = template.statement.tables
    return len(tables) > 1 and all(table in scope for table in tables)


def _table_file(use: _Use, busiest: int, scope: HistoryScope, now: datetime) -> bytes:
    columns = _columns(use)
    filters, groups = _texts(use, "filters"), _texts(use, "groupings")
    joins = _joins(use, scope)
    statements = [_example(each) for each in _examples(use, scope)]

    def make(cap: int) -> dict[str, Any]:
        return {
            "table": use.table.display,
            "source": use.table.source,
            "frequency": model.tier(use.executions, busiest),
            "stats": _stats(use.templates, now),
            "columns": {clause: columns[clause][:cap] for clause in CLAUSES if columns[clause]},
            "filters": filters[:cap],
            "group_bys": groups[:cap],
            "joins": joins[:cap],
            "statements": statements[: min(cap, MAX_STATEMENTS)],
        }

    return fitted(make)


def _texts(use: _Use, part: str) -> list[list[str]]:
    """Return a table's filters or groupings with their frequency tiers."""
    counts: Counter[str] = Counter()
    for template in use.templates:
        for (owner, text), executions in getattr(template, part).items():
            if owner == use.table:
                counts[text] += executions
    return _tiers(use, counts)


def _columns(use: _Use) -> dict[str, list[list[str]]]:
    named = (
        (t, (clause, column)) for t in use.templates for o, clause, column in t.statement.columns if o == use.table
    )
    counts = use.counts(named)
    return {
        clause: _tiers(use, Counter({column: count for (where, column), count in counts.items() if where == clause}))
        for clause in CLAUSES
    }


def _tiers(use: _Use, counts: Counter[str]) -> list[list[str]]:
    """Return (item, tier), the most frequent tier first and sorted by name within it."""
    tiers = [[item, model.tier(count, use.executions)] for item, count in counts.items()]
    return sorted(tiers, key=lambda each: (model.TIERS.index(each[1]), each[0]))


def _joins(use: _Use, scope: HistoryScope) -> list[dict[str, Any]]:
    """Return a table's joins to other tables in scope, with its own column first."""
    found = []
    for template in use.templates:
        for join in template.statement.joins:
            if join.left == use.table and join.right in scope:
                found.append((template, (join.right, join.pairs)))
            elif join.right == use.table and join.left in scope:
                found.append((template, (join.left, tuple(sorted((theirs, own) for own, theirs in join.pairs)))))
    rows = [
        {"with": other.display, "source": other.source, "on": [list(pair) for pair in pairs],
         "frequency": model.tier(count, use.executions)}
        for (other, pairs), count in use.counts(dict.fromkeys(found)).items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (model.TIERS.index(str(row["frequency"])), row["with"], row["on"]))


def _examples(use: _Use, scope: HistoryScope) -> list[Template]:
    visible = (each for each in use.templates if all(table in scope for table in each.statement.tables))
    return [each for each in visible if len(each.text) <= MAX_STATEMENT][:MAX_STATEMENTS]


def _example(template: Template) -> dict[str, Any]:
    return {
        "id": template.statement.id,
        "sql": template.text,
        **({"values": values} if (values := _values(template)) else {}),
        "executions": model.executions(template.executions),
        "users": model.users(len(template.known_users)),
        **({"marks": sorted(template.marks)} if template.marks else {}),
    }


def _values(template: Template) -> dict[str, list[list[str]]]:
    """Return column -> (value, tier) for columns that the statement compares with several values."""
    by_column: dict[str, Counter[str]] = {}
    for (column, value), count in template.values.items():
        by_column.setdefault(column, Counter())[value] += count
    return {
        column: sorted(
            ([value, model.tier(count, template.executions)] for value, count in counts.items()),
            key=lambda each: (model.TIERS.index(each[1]), each[0]),
        )[:MAX_VALUES]
        for column, counts in sorted(by_column.items())
        if len(counts) > 1
    }


def _pattern(template: Template, now: datetime) -> dict[str, Any]:
    tables = template.statement.tables
    return {
        **_example(template),
        "tables": [table.display for table in tables],
        "sources": [table.source for table in tables if table.source],
        "runtime": model.runtime(template.slow_ms),
        "errors": model.errors(template.failed / template.executions if template.executions else 0.0),
        "recency": model.recency(template.last_seen, now),
    }


def _stats(templates: Sequence[Template], now: datetime) -> dict[str, str]:
    executions = sum(each.executions for each in templates)
    failed = sum(each.failed for each in templates)
    slow = [each.slow_ms for each in templates if each.slow_ms is not None]
    seen = [each.last_seen for each in templates if each.last_seen is not None]
    return {
        "executions": model.executions(executions),
        "users": model.users(len({user for each in templates for user in each.known_users})),
        "runtime": model.runtime(max(slow, default=None)),
        "errors": model.errors(failed / executions if executions else 0.0),
        "recency": model.recency(max(seen, default=None), now),
    }


def _manifest(history: History, rules: TemplateRules, connection: str, omitted: Sequence[str]) -> dict[str, Any]:
    """Return the input of the files, without times and counts."""
    settings = rules.settings
    return {
        "format": FORMAT,
        "connection": connection,
        "dialect": rules.dialect,
        "origin": history.origin,
        "coverage": history.coverage.value,
        "window_days": settings.window_days,
        "min_executions": settings.min_executions,
        "scope": {"kind": rules.scope.kind, "names": sorted(rules.scope.names)},
        "omitted_patterns": list(omitted),
    }


def _warnings(
    history: History, gathered: TemplateSet, omitted: Sequence[str], connection: str
) -> Iterator[ResultWarning]:
    where, unread = f"query history of `{connection}`", len(gathered.unread)
    if unread:
        named = listing((f"{name}: {why}" for name, why in sorted(gathered.unread.items())), 3)
        what = f"{where}: {plural(unread, 'statement')} could not be parsed ({named})"
        yield ResultWarning("query_history_unread", what, statements=unread)
    if history.unread:
        what = f"{where}: the database did not show the text of {plural(history.unread, 'statement')}"
        yield ResultWarning("query_history_hidden", what, statements=history.unread)
    if omitted:
        what = f"{where}: {plural(len(omitted), 'pattern')} too large for a file: {listing(omitted)}"
        yield ResultWarning("query_history_too_large", what, patterns=list(omitted))


_SERVICE = re.compile(
    r"(?:^|[_.@-])(?:svc|service|etl|elt|dbt|airflow|dagster|prefect|fivetran|airbyte|stitch|looker|metabase|tableau|"
    r"superset|powerbi|loader|batch|cron|bot|sync|pipeline)(?:[_.@0-9-]|$)|\.gserviceaccount\.com$",
    re.IGNORECASE,
)
"""Names of users that are probably programs."""


def _programs(history: History, rules: TemplateRules, connection: str) -> Iterator[ResultWarning]:
    """Suggest patterns for users that are probably programs, unless some are configured."""
    accounts = rules.settings.filters.service_accounts
    if accounts.patterns or accounts.mode == "include":
        return
    runs: Counter[str] = Counter()
    for each in history:
        name = str(each.user or "")
        if _SERVICE.search(name):
            runs[name] += each.executions
    names = sorted(runs, key=lambda name: (-runs[name], name))[:MAX_PROGRAMS]
    if names:
        patterns = json.dumps([f"^{re.escape(name)}$" for name in names])
        key = f"connections.{connection}.context.queryHistory.filters.serviceAccounts.patterns"
        what = f"query history of `{connection}`: some users are probably programs: {listing(names)}"
        yield ResultWarning(
            "query_history_programs",
            what,
            hint=Hint("to leave out queries that only they run: {}", Command("config", "set", key, patterns)),
            users=names,
        )


def _nothing(gathered: TemplateSet, connection: str) -> ResultWarning:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(gathered.dropped.counts.items()))
    return ResultWarning(
        "query_history_empty",
        f"query history of `{connection}`: no query qualifies ({reasons or 'none was sent'})",
        hint=Hint(
            "lower {}, or add schemas to enabledSchemas",
            SettingPath(f"connections.{connection}.context.queryHistory.minExecutions"),
        ),
    )


MAX_BYTES: Final = 110_000
"""The maximum size of a raw file: slightly less than an agent can read at once."""

FORMAT: Final = 2
MANIFEST: Final = "manifest.json"
_CAPS: Final = (500, 200, 100, 50, 20, 10, 5, 1, 0)


def rendered(document: Mapping[str, Any]) -> bytes:
    """Return a document's bytes: sorted keys, and one line for each item."""
    return (json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode("utf-8", "surrogatepass")


def fitted(make: Callable[[int], Mapping[str, Any]]) -> bytes:
    """Return a document shortened to the maximum size. `make` returns it with a maximum number of items per list."""
    content = b""
    for cap in _CAPS:
        content = rendered(make(cap))
        if len(content) <= MAX_BYTES:
            break
    return content


def parsed(content: bytes, path: str) -> dict[str, Any]:
    """Return the document in a raw file. Raises `KtxError` for a damaged file."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(document, dict):
        raise _damaged(path)
    return document


def _damaged(path: str) -> KtxError:
    message = f"the raw file {path} of the query history is damaged"
    return KtxError(message, hint=Hint("{} fetches it again", Command("ingest")))


DIGITS: Final = 4
"""The number of digits in a file's name; more are used only if a file would be too large."""

Pattern = Mapping[str, Any]


def pattern_files(patterns: Sequence[Pattern]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return path -> content of `patterns/<nnnn>.json`, and the ids of patterns that are too large for a file.

    A pattern's key is the hash of its tables, then of its ID, so that patterns on the same tables are together. A file
    contains all keys with one prefix; a file larger than `MAX_BYTES` is split by the next digit.
    """
    sized = [(_key(each), len(_content([each])), each) for each in patterns]
    keyed = sorted((item for item in sized if item[1] <= MAX_BYTES), key=lambda item: item[0])
    too_large = tuple(sorted(str(each["id"]) for _, size, each in sized if size > MAX_BYTES))
    files: dict[str, bytes] = {}
    for digit in "0123456789abcdef":
        _cut(digit, [item for item in keyed if item[0].startswith(digit)], files)
    return files, too_large


def _cut(beginning: str, keyed: Sequence[tuple[str, int, Pattern]], files: dict[str, bytes]) -> None:
    if not keyed:
        return
    if _size(size for _, size, _ in keyed) <= MAX_BYTES:
        files[f"patterns/{beginning.ljust(DIGITS, '0')}.json"] = _content([each for *_, each in keyed])
        return
    for digit in "0123456789abcdef":
        _cut(beginning + digit, [item for item in keyed if item[0].startswith(beginning + digit)], files)


def _size(alone: Iterable[int]) -> int:
    """Return the size of a pattern file, given the sizes of files with one pattern each, joined by `,\n`."""
    sizes = list(alone)
    return _AROUND + sum(size - _AROUND for size in sizes) + 2 * (len(sizes) - 1)


def _key(pattern: Pattern) -> str:
    return _hash("\n".join(pattern["tables"]))[:DIGITS] + _hash(str(pattern["id"]))


def _content(patterns: Sequence[Pattern]) -> bytes:
    return rendered({"patterns": sorted(patterns, key=lambda each: str(each["id"]))})


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_AROUND: Final = len(rendered({"patterns": [0]})) - len("  0")
"""The size of a pattern file without its patterns."""
