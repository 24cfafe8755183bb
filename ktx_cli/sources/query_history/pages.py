"""The output of a query history: agents' evidence, `usage` of tables in the manifest, and wiki pages about patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ktx_cli.core import Record, ResultWarning
from ktx_cli.documents import WorkUnit
from ktx_cli.project import Workspace
from ktx_cli.semantic import PROPOSED_SEGMENTS, Model, Source, parse_shard, quoted
from ktx_cli.sources import ownership as owned
from ktx_cli.sources.deliveries import Steps, text_of
from ktx_cli.sources.ownership import Pointer, steps_of
from ktx_cli.sources.port import DigestForm, EvidenceForm
from ktx_cli.sources.query_history import model as buckets
from ktx_cli.sources.query_history.model import KIND, Coverage
from ktx_cli.sources.query_history.raw_files import parsed
from ktx_cli.sources.query_history.segments import proposed_segments
from ktx_cli.wiki import Page, changed, new_page

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]


class _Evidence(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableUsage(_Evidence):
    """A description of how people use one table. Frequency, users and other facts are known without a model."""

    kind: Literal["table_usage"] = "table_usage"
    table: str = Field(description="The table, as `table` in the raw file.")
    narrative: str = Field(
        min_length=1, max_length=2000, description="What people use the table for: two or three plain sentences."
    )


class QueryPattern(_Evidence):
    """A question that people ask repeatedly, with the statements that ask it."""

    kind: Literal["pattern"] = "pattern"
    slug: Slug = Field(description="A short name for the page: lower-case words with `-` between them.")
    title: str = Field(min_length=1, max_length=200, description="The question in one sentence.")
    narrative: str = Field(min_length=1, max_length=4000, description="What the question is for, and how it is asked.")
    fingerprints: tuple[str, ...] = Field(
        min_length=1, max_length=50, description="`id` of every statement in the raw file that asks it."
    )
    sl_refs: tuple[str, ...] = Field(
        (), max_length=50, description="Sources and measures of the semantic layer that answer it."
    )


Evidence = Annotated[TableUsage | QueryPattern, Field(discriminator="kind")]
"""One piece of evidence, whose kind is in `kind`."""


@dataclass(frozen=True, slots=True)
class PatternFacts:
    """Facts from the raw files about one statement on several tables."""

    id: str
    sql: str
    tables: tuple[str, ...]
    executions: str


def table_documents(files: Mapping[str, bytes]) -> tuple[dict[str, Any], ...]:
    """Return the documents in the tables' raw files, by path. `files`: path -> content of a snapshot."""
    return tuple(parsed(files[path], path) for path in sorted(files) if path.startswith("tables/"))


def pattern_facts(files: Mapping[str, bytes]) -> dict[str, PatternFacts]:
    """Return ID -> facts for every pattern in a snapshot."""
    documents = (parsed(files[path], path) for path in sorted(files) if path.startswith("patterns/"))
    found = (each for document in documents for each in document["patterns"])
    return {
        each["id"]: PatternFacts(each["id"], each["sql"], tuple(each["tables"]), each["executions"]) for each in found
    }


def problems(evidence: TableUsage | QueryPattern, path: str, content: bytes) -> tuple[str, ...]:
    """Return the errors in a piece of evidence about a raw file, worded for the agent; empty if there are none.

    A table's evidence concerns the table of its file; a pattern may only name statements in its file.
    """
    document = parsed(content, path)
    if isinstance(evidence, TableUsage):
        wanted = document.get("table")
        if wanted is None:
            return (f"{path} contains patterns: give `pattern` evidence",)
        return () if evidence.table == wanted else (f"{path} is about the table {wanted}, not {evidence.table}",)
    if "patterns" not in document:
        return (f"{path} is about one table: give `table_usage` evidence",)
    known = {each["id"] for each in document["patterns"]}
    return tuple(f"{path} contains no statement {each}" for each in evidence.fingerprints if each not in known)


EVIDENCE: Final = EvidenceForm(
    "emit_historic_sql_evidence",
    "Say what a table is used for, or which question a file's statements ask. Pages are written from it later.",
    Evidence,
    "`table_usage` for a table file, `pattern` for a pattern file.",
    problems,
)


_BRIEF_ITEMS: Final = 15
_BRIEF_STATEMENTS: Final = 3
_BRIEF_STATEMENT: Final = 1_500


def _is_of_table(unit: WorkUnit) -> bool:
    return len(unit.files) == 1 and unit.files[0].startswith("tables/")


def table_brief(content: bytes) -> dict[str, Any]:
    """Return the part of a table's raw file for a model: the most frequent items, and short statements."""
    document = parsed(content, "tables/")
    columns = {clause: items[:_BRIEF_ITEMS] for clause, items in document.get("columns", {}).items()}
    statements = [
        {name: value for name, value in each.items() if name in ("sql", "values", "executions", "users")}
        for each in document.get("statements", ())
        if len(each["sql"]) <= _BRIEF_STATEMENT
    ]
    lists = {name: document.get(name, [])[:_BRIEF_ITEMS] for name in ("filters", "group_bys", "joins")}
    facts: dict[str, Any] = {
        name: document[name] for name in ("table", "source", "frequency", "stats") if name in document
    }
    return {**facts, "columns": columns, **lists, "statements": statements[:_BRIEF_STATEMENTS]}


def _table_evidence(table: str, narrative: str) -> dict[str, Any]:
    return TableUsage(table=table, narrative=narrative).model_dump(mode="json")


DIGEST: Final = DigestForm("digest_tables", _is_of_table, table_brief, _table_evidence)


def narratives(evidence: Iterable[TableUsage], tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return source name -> the last narrative, except for tables that are not in the semantic layer."""
    sources = {table["table"]: table["source"] for table in tables if table.get("source")}
    return {sources[each.table]: each.narrative.strip() for each in evidence if each.table in sources}


def most_executed(facts: Iterable[PatternFacts]) -> PatternFacts:
    """Return the most frequent statement; among equals, the one with the first ID."""
    return min(facts, key=lambda each: (-buckets.EXECUTION_BUCKETS.index(each.executions), each.id))


@dataclass(frozen=True, slots=True, order=True)
class JoinHint(Record):
    """Two sources that queries join by equal columns. `frequency`: `high`, `mid` or `low` within either source."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    frequency: str

    def __str__(self) -> str:
        terms = (f"{quoted(self.left)}.{quoted(a)} = {quoted(self.right)}.{quoted(b)}" for a, b in self.pairs)
        return f"{' AND '.join(terms)} ({self.frequency} frequency)"

    json_keys = ("left", "right", "on=pairs", "frequency")


def missing_joins(tables: Iterable[Mapping[str, Any]], model: Model) -> tuple[JoinHint, ...]:
    """Return the observed joins that no source in the model has in either direction, without duplicates, sorted.

    `tables`: documents of raw files. The higher of the two tables' frequencies counts.
    """
    best: dict[tuple[str, str, tuple[tuple[str, str], ...]], str] = {}
    for table in tables:
        for join in table.get("joins", ()):
            found = _oriented(table.get("source"), join)
            if found is None or _is_known(model, *found):
                continue
            tiers = (join["frequency"], best.get(found, buckets.LOW))
            best[found] = min(tiers, key=buckets.TIERS.index)
    return tuple(sorted(JoinHint(*found, frequency) for found, frequency in best.items()))


def _oriented(source: str | None, join: Mapping[str, Any]) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Return a join with its sources sorted by name, or None if one of them is not in the semantic layer."""
    other = join["source"]
    if not source or not other:
        return None
    pairs = tuple(sorted((str(own), str(theirs)) for own, theirs in join["on"]))
    if (source, pairs) <= (other, _swapped(pairs)):
        return source, other, pairs
    return other, source, _swapped(pairs)


def _is_known(model: Model, left: str, right: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the model has a join that only uses these columns."""
    return _declares(model, left, right, pairs) or _declares(model, right, left, _swapped(pairs))


def _declares(model: Model, source: str, to: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    declared = model.sources.get(source)
    if declared is None:
        return False
    return any(join.to == to and join.pairs and set(join.pairs) <= set(pairs) for join in declared.joins)


def _swapped(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((theirs, own) for own, theirs in pairs))


MAX_ITEMS: Final = 10
"""The maximum number of filters, groupings and joins listed per table."""

TIER: Final = "frequencyTier"
STALE_SINCE: Final = "staleSince"
NARRATIVE: Final = "narrative"

Owned = Mapping[str, Mapping[str, str]]
"""File -> the items that the source owns in it; see `ktx_cli.sources.ownership`."""


@dataclass(frozen=True, slots=True)
class UsageWritten:
    """The result of updating the manifest's files. `kept`: edited items, as `file: pointer`."""

    changed: frozenset[str] = frozenset()
    owned: Owned = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    def warnings(self, connection: str) -> tuple[ResultWarning, ...]:
        """Return the warnings about edited items."""
        if not self.kept:
            return ()
        return (
            ResultWarning(
                "query_history_kept",
                (f"query history of `{connection}`: {len(self.kept)} `usage` items were edited by hand and are kept"),
                items=list(self.kept),
            ),
        )


@dataclass(frozen=True, slots=True)
class Absence:
    """The content to write for tables that no query reads. `in_scope`: names of the sources whose queries count."""

    coverage: Coverage
    in_scope: frozenset[str]
    today: date


def usage_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's `usage` from its raw file, without the part that needs a model."""
    usage: dict[str, Any] = {TIER: table["frequency"]}
    lists = {
        "commonFilters": _often(table.get("filters", ())),
        "commonGroupBys": _often(table.get("group_bys", ())),
        "commonJoins": [_join(join) for join in table.get("joins", ()) if _is_often(join["frequency"])][:MAX_ITEMS],
    }
    return usage | {key: items for key, items in lists.items() if items}


def _often(items: Iterable[tuple[str, str]]) -> list[str]:
    return [text for text, tier in items if _is_often(tier)][:MAX_ITEMS]


def _is_often(tier: str) -> bool:
    return tier in (buckets.HIGH, buckets.MID)


def _join(join: Mapping[str, Any]) -> dict[str, Any]:
    other = join["source"] or join["with"]
    place = quoted(other) if join["source"] else other
    return {"table": other, "on": [f"{quoted(own)} = {place}.{quoted(theirs)}" for own, theirs in join["on"]]}


def write_usage(
    workspace: Workspace, model: Model, tables: Iterable[Mapping[str, Any]], owned_before: Owned, absence: Absence
) -> UsageWritten:
    """Update the `usage` and proposed segments of every source in the manifest from the tables' raw files.

    A table that no query reads is `unused` since the first day without queries; its narrative is kept. If absence does
    not prove anything, the previous `usage` is kept.
    """
    seen = {str(table["source"]): usage_of(table) for table in tables if table.get("source")}
    by_file: dict[str, list[Source]] = {path: [] for path in owned_before}
    for source in model.sources.values():
        if source.generated and source.place is not None:
            by_file.setdefault(source.place.path, []).append(source)
    files = ((path, sources, owned_before.get(path, {})) for path, sources in sorted(by_file.items()))
    return _written(workspace, _wanted_usage(workspace, files, seen, absence, model.dialect))


def write_narratives(
    workspace: Workspace, model: Model, narratives: Mapping[str, str], owned_before: Owned
) -> UsageWritten:
    """Write only the agents' narratives (source name -> text) into the manifest."""
    by_file: dict[str, dict[Pointer, Any]] = {}
    for name, text in sorted(narratives.items()):
        source = model.sources.get(name)
        if source is not None and source.generated and source.place is not None:
            by_file.setdefault(source.place.path, {})[("tables", name, "usage", NARRATIVE)] = text
    items = []
    for path, wanted in by_file.items():
        pointers, known = [text_of(steps_of(pointer)) for pointer in wanted], owned_before.get(path, {})
        items.append((path, wanted, {pointer: known[pointer] for pointer in pointers if pointer in known}))
    written = _written(workspace, items)
    now = {path: {**owned_before.get(path, {}), **mine} for path, mine in written.owned.items()}
    return replace(written, owned={**owned_before, **now})


def _written(
    workspace: Workspace, items: Iterable[tuple[str, Mapping[Pointer, Any], Mapping[str, str]]]
) -> UsageWritten:
    """Write (file, wanted items, previously owned items) into the overlay."""
    done = {path: owned.write(workspace, path, wanted, known) for path, wanted, known in items}
    return UsageWritten(
        frozenset(path for path, each in done.items() if each.is_changed),
        {path: each.owned for path, each in done.items()},
        tuple(f"{path}: {pointer}" for path, each in done.items() for pointer in each.kept),
    )


def _wanted_usage(
    workspace: Workspace,
    files: Iterable[tuple[str, Iterable[Source], Mapping[str, str]]],
    seen: Mapping[str, Mapping[str, Any]],
    absence: Absence,
    dialect: str,
) -> Iterator[tuple[str, Mapping[Pointer, Any], Mapping[str, str]]]:
    usage = _Usage(seen, absence)
    for path, sources, known in files:
        content = workspace.read(path)
        if content is None:
            continue
        entries = parse_shard(content, path).tables
        wanted: dict[Pointer, Any] = {}
        for source in sources:
            entry = entries.get(source.name, {})
            present = entry.get("usage")
            wanted |= usage.wanted(source.name, present if isinstance(present, dict) else {}, known)
            segments, pointer = entry.get(PROPOSED_SEGMENTS), ("tables", source.name, PROPOSED_SEGMENTS)
            if source.name in seen:
                segments = proposed_segments(source, seen[source.name].get("commonFilters", ()), dialect)
            elif text_of(pointer) not in known or ("tables", source.name, "usage", TIER) not in wanted:
                continue
            if segments:
                wanted[pointer] = segments
        if wanted or known:
            yield path, wanted, known


@dataclass(frozen=True, slots=True)
class _Usage:
    seen: Mapping[str, Mapping[str, Any]]
    absence: Absence

    def wanted(self, name: str, present: Mapping[str, Any], known: Mapping[str, str]) -> dict[Pointer, Any]:
        base: Steps = ("tables", name, "usage")
        mine = {steps[3] for pointer in known if (steps := steps_of(pointer))[:3] == base and len(steps) == 4}
        usage = self._of(name, present, mine)
        if NARRATIVE in mine and NARRATIVE in present:
            usage = {NARRATIVE: present[NARRATIVE], **usage}
        return {(*base, key): value for key, value in usage.items()}

    def _of(self, name: str, present: Mapping[str, Any], mine: set[str]) -> dict[str, Any]:
        if name in self.seen:
            return dict(self.seen[name])
        coverage = self.absence.coverage if self.seen else Coverage.PART
        if coverage is Coverage.PART:
            return {key: present[key] for key in mine if key in present}
        if name not in self.absence.in_scope or (coverage is Coverage.LISTED and TIER not in mine):
            return {}
        since = present.get(STALE_SINCE)
        return {TIER: buckets.UNUSED, STALE_SINCE: since if isinstance(since, str) else self.absence.today.isoformat()}


PREFIX: Final = "queries-"
FORMER_PREFIX: Final = "historic-sql-"
"""Current and former prefixes for page keys. A page keeps its key, so that references to it stay valid."""

TAGS: Final = ("historic-sql", "pattern")
STALE, ARCHIVED = "stale", "archived"
REUSE: Final = 0.6
"""The share of common tables and statements at or above which two patterns become one page."""


@dataclass(frozen=True, slots=True)
class PageChange:
    """A page to write. `reason`: `created`, `updated`, `asked again`, `stale` or `archived`."""

    page: Page
    reason: str


def pattern_pages(
    pages: Iterable[Page],
    evidence: Sequence[QueryPattern],
    current: Mapping[str, PatternFacts],
    *,
    connection: str,
    today: date,
    archive_after_days: int,
    complete: bool = True,
) -> tuple[PageChange, ...]:
    """Return the pages that change, sorted by key.

    `pages`: the wiki's pages. Those with `source: query-history` of this `connection` are considered; all pages' keys
    are taken. `current`: the patterns of this snapshot, from changed and unchanged files. A page without any remaining
    statement is marked `stale_since` today, once; it is archived `archive_after_days` later. If `complete` is False, it
    is unknown what is missing.
    """
    book = _Book(pages, connection)
    for pattern in evidence:
        facts = [current[each] for each in pattern.fingerprints if each in current]
        if facts:
            book.write(pattern, facts)
    for page in book.others():
        fate = _fate(page, current, today, archive_after_days, complete=complete)
        if fate is not None:
            book.put(changed(page, fate[0]), fate[1])
    return book.changes()


class _Book:
    """The pages while they are being written."""

    def __init__(self, pages: Iterable[Page], connection: str) -> None:
        self._connection = connection
        self._taken = {page.key: page for page in pages}
        self._own = {key: page for key, page in self._taken.items() if _is_of(page, connection)}
        self._new: dict[str, PageChange] = {}
        self._written: set[str] = set()

    def write(self, pattern: QueryPattern, facts: Sequence[PatternFacts]) -> None:
        """Write a pattern to the page that is most similar to it, else to a new one."""
        fields = _fields(pattern, facts, self._connection)
        before = self._alike(fields)
        if before is None:
            self.put(new_page(self._free_key(pattern.slug), fields, pattern.narrative), "created")
            return
        page = changed(before, {**_merged(before, fields), **_revived(before)}, pattern.narrative)
        self._written.add(page.key)
        if page.text != before.text:
            self.put(page, "updated")

    def put(self, page: Page, reason: str) -> None:
        """Set the new content of a page."""
        first = self._new.get(page.key)
        self._new[page.key] = PageChange(page, first.reason if first is not None else reason)
        self._taken[page.key] = self._own[page.key] = page
        self._written.add(page.key)

    def others(self) -> list[Page]:
        """Return the source's pages without new evidence."""
        return [page for key, page in sorted(self._own.items()) if key not in self._written]

    def changes(self) -> tuple[PageChange, ...]:
        """Return the changes."""
        return tuple(self._new[key] for key in sorted(self._new))

    def _alike(self, fields: Mapping[str, Any]) -> Page | None:
        wanted = {*fields["tables"], *fields["fingerprints"]}
        found = [(_overlap(wanted, page), key) for key, page in self._own.items()]
        found.sort(key=lambda each: (-each[0], each[1]))
        return self._own[found[0][1]] if found and found[0][0] >= REUSE else None

    def _free_key(self, slug: str) -> str:
        key, number = PREFIX + slug, 2
        while key in self._taken:
            key, number = f"{PREFIX}{slug}-{number}", number + 1
        return key


def _overlap(wanted: set[str], page: Page) -> float:
    there = {*page.texts("tables"), *page.texts("fingerprints")}
    return len(wanted & there) / len(wanted | there)


def _is_of(page: Page, connection: str) -> bool:
    return page.fields.get("source") == KIND and page.fields.get("connection", connection) == connection


def _fields(pattern: QueryPattern, facts: Sequence[PatternFacts], connection: str) -> dict[str, Any]:
    return {
        "summary": pattern.title,
        "tags": list(TAGS),
        "sl_refs": list(dict.fromkeys(pattern.sl_refs)) or None,
        "source": KIND,
        "connection": connection,
        "tables": sorted({table for each in facts for table in each.tables}),
        "representative_sql": most_executed(facts).sql,
        "fingerprints": sorted({each.id for each in facts}),
    }


def _merged(before: Page, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the tags that people added to the page."""
    return {**fields, "tags": _tags(before, add=TAGS)}


def _revived(page: Page) -> dict[str, Any]:
    return {name: None for name in ("stale_since", "archived_since") if name in page.fields}


def _tags(page: Page, add: Iterable[str] = ()) -> list[str]:
    return list(dict.fromkeys((*[tag for tag in page.tags if tag not in (STALE, ARCHIVED)], *add)))


def _fate(
    page: Page, current: Mapping[str, PatternFacts], today: date, archive_after_days: int, *, complete: bool
) -> tuple[dict[str, Any], str] | None:
    """Return the changed fields of a page without evidence in this run, and the reason; None if unchanged."""
    if any(each in current for each in page.texts("fingerprints")):
        return ({**_revived(page), "tags": _tags(page)}, "asked again") if page.is_stale else None
    if not complete or page.fields.get("archived_since") is not None:
        return None
    since = _day(page.fields.get("stale_since"))
    if since is None:
        return {"stale_since": today.isoformat(), "tags": _tags(page, (STALE,))}, STALE
    if (today - since).days < archive_after_days:
        return None
    return {"archived_since": today.isoformat(), "tags": _tags(page, (STALE, ARCHIVED))}, ARCHIVED


def _day(value: Any) -> date | None:
    """Return the day of a date or time, or None for other values."""
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None
