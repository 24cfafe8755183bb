"""The outcome of a scan: changed files (shards, snapshot, records), its row in the state database, and warnings."""

from __future__ import annotations

import glob
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    Hint,
    ResultWarning,
    SettingPath,
    Severity,
    SourceError,
    isoformat,
    listing,
    now,
    one_line,
    plural,
)
from ktx_cli.privacy import ValueKind
from ktx_cli.project import StateDatabase, transaction
from ktx_cli.scan.committed import LinkedFiles, RemovedTexts, carried_over, has_comments, require_some_tables
from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Described, DescriptionReport, Source, mappings_in, updated_record
from ktx_cli.scan.profile.answers import ProfileCounts
from ktx_cli.scan.profile.profiler import Profiled, TableProfile, Unsampled
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.scan.removed_joins import CommittedJoins, GoneJoin, JoinChanges, gone_joins, gone_warnings
from ktx_cli.scan.review import ReviewedRelationship
from ktx_cli.scan.shards import (
    ManifestIndex,
    ShardPlan,
    SourceJoin,
    WrittenShards,
    declared_relationships,
    join_sides,
    plan_shards,
)
from ktx_cli.scan.snapshot import MANIFEST, SnapshotFile, StoredColumns, manifest_text, table_file, table_path
from ktx_cli.scan.stages import StageFailure, connection_warning
from ktx_cli.semantic import Entry, ManifestLayout, Shard, physical_name, source_names
from ktx_cli.warehouses import (
    Connector,
    DatabaseSchema,
    ObjectProblem,
    Scope,
    Table,
    TableRef,
    dialect_named,
    ref_order,
)

if TYPE_CHECKING:
    from ktx_cli.scan.committed import Committed, Records, Snapshot


def plan_manifest(
    driver: str,
    schema: DatabaseSchema,
    committed: Committed,
    joins: CommittedJoins,
    records: Records,
    texts: Sequence[Described],
    contents: Mapping[str, bytes],
    layout: ManifestLayout = ManifestLayout.PER_SCHEMA,
) -> ManifestPlan:
    """Return the files that change. `texts`: the descriptions of this scan. `contents`: the bytes of the `records`.

    `layout`: of the shards. Entries of shards with another layout move.

    Raises `SourceError` if a database that had tables now has none, `ConfigError` if a committed shard is broken.
    """
    last, shards = committed.snapshot, committed.shards
    require_some_tables(committed.connection, schema, last.tables or ())
    tables, kept = carried_over(schema, last.tables or ())
    by_ref = {table.ref: table for table in tables}
    snapshot = {file.path: file for file in map(table_file, tables)}
    refs = list(dict.fromkeys([*by_ref, *(table.ref for table in last.tables or ())]))
    index = ManifestIndex.of(shards, refs)
    adopted = adopted_texts(refs, committed.records.texts, shards, index)

    # The manifest also shows adopted texts that no text of a scan replaces.
    described = updated_record({**adopted, **committed.records.texts}, texts, tables)
    shown = replace(records.restricted(tables), described=described)
    changes = JoinChanges.of(shown.known, committed.records.known, by_ref, joins)
    if shown.relationships is not None:
        shown = replace(shown, relationships=changes.record)

    reserved = [name for _, name in index.custom]
    names = source_names(list(by_ref), index.names, reserved)
    old = None
    if last.tables is not None:
        old_names = source_names([table.ref for table in last.tables], index.names, reserved)
        before = replace(committed.records, described={**adopted, **committed.records.texts})
        entries = before.restricted(last.tables).entries(last.tables, old_names)
        old = changes.without_leaving({physical_name(ref): entry for ref, entry in entries.items()})
    at_parent: Mapping[SourceJoin, bool] = {}
    if layout is ManifestLayout.PER_TABLE or committed.manifest.mirrored:
        declared = declared_relationships(sorted(tables, key=lambda table: ref_order(table.ref)))
        found = (*shown.known.accepted(), *changes.returned, *shown.known.recorded(), *shown.known.gone)
        at_parent = join_sides((*declared, *found), names)
    plan = plan_shards(
        committed.connection,
        layout,
        committed.manifest,
        index,
        shown.entries(tables, names, changes.returned),
        names,
        old,
        at_parent,
    )
    reviewed = joins.after(shown.known, WrittenShards.of(plan.shards).shards, by_ref)
    written = _recorded(shown, records)
    return ManifestPlan(
        relationships=shown.known,
        files={
            **plan.files,
            **_raw_files(driver, committed, snapshot),
            **_record_files(written.contents(records, contents), committed),
        },
        shards=plan.shards,
        changes=_changes(last, snapshot, tables, kept, plan.removed),
        linked=_linked_files(driver, plan, committed, snapshot, written),
        removed_texts=_removed_texts(plan, committed),
        reviewed=reviewed,
        gone=gone_joins(joins.relationships, reviewed, by_ref, shards, plan.removed),
        warnings=last.warnings,
    )


def plan_record(
    driver: str,
    committed: Committed,
    relationships: RelationshipRecord,
    files: Mapping[str, bytes | None],
    reviewed: tuple[ReviewedRelationship, ...],
) -> ManifestPlan:
    """Return the plan of a scan that changes no other files than these records, on which no other file depends."""
    linked = LinkedFiles(committed.connection, driver, committed.raw_folder, {}, {}, {}) if files else None
    return ManifestPlan(relationships, files=files, linked=linked, reviewed=reviewed)


def adopted_texts(
    refs: Iterable[TableRef], recorded: Mapping[TableRef, Described], shards: Mapping[str, Shard], index: ManifestIndex
) -> dict[TableRef, Described]:
    """Return unrecorded texts under the scans' keys, which come from another program or a lost record.

    They count as generated, and are kept until a text of a scan replaces them. Their hash is empty.
    """
    adopted = {}
    for ref in refs:
        place = index.primary.get(physical_name(ref))
        if ref in recorded or place is None:
            continue
        path, name = place
        described = _described(ref, shards[path].tables[name])
        if described is not None:
            adopted[ref] = described
    return adopted


def _described(ref: TableRef, entry: Entry) -> Described | None:
    """Return the texts in an entry: those by the model, else those by rules."""
    sources: tuple[Source, ...] = ("ai", "rules")
    for source in sources:
        key = TEXT_KEYS[source]
        text = _text(entry, key)
        texts = {str(column.get("name")): _text(column, key) for column in mappings_in(entry, "columns")}
        columns = {name: text for name, text in texts.items() if text is not None}
        if text is not None or columns:
            return Described(ref, "", source, text, columns)
    return None


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    texts = fields.get("descriptions")
    text = texts.get(key) if isinstance(texts, dict) else None
    return text if isinstance(text, str) else None


def _recorded(shown: Records, records: Records) -> Records:
    """Return the records to write, except adopted texts and empty new records."""
    if records.described is None:
        return replace(shown, described=None)
    return replace(shown, described={ref: each for ref, each in shown.texts.items() if each.hash})


def _removed_texts(plan: ShardPlan, committed: Committed) -> RemovedTexts:
    rewritten = committed.base.read_many(path for path in plan.files if path in committed.shards)
    comments = (path for path, content in rewritten.items() if has_comments(content, path))
    return RemovedTexts(plan.lost, tuple(sorted(comments)))


def _linked_files(
    driver: str, plan: ShardPlan, committed: Committed, snapshot: Mapping[str, SnapshotFile], written: Records
) -> LinkedFiles:
    folder, last = committed.raw_folder, committed.snapshot
    shard_of = {f"{folder}/{table_path(ref)}": shard for ref, shard in plan.shard_of.items()}
    for table in last.tables or ():
        shard = plan.gone_from.get(physical_name(table.ref))
        if shard is not None:
            shard_of[f"{folder}/{table_path(table.ref)}"] = shard
    new = {path: file.sha256 for path, file in snapshot.items()}
    old_texts = committed.records.texts
    return LinkedFiles(
        committed.connection, driver, folder, shard_of, last.hashes, new, old_texts, written.texts, plan.moves
    )


def _raw_files(driver: str, committed: Committed, snapshot: Mapping[str, SnapshotFile]) -> dict[str, bytes | None]:
    folder, hashes, existing = committed.raw_folder, committed.snapshot.hashes, committed.files
    files: dict[str, bytes | None] = {
        f"{folder}/{path}": file.content
        for path, file in snapshot.items()
        if hashes.get(path) != file.sha256 or f"{folder}/{path}" not in existing
    }
    wanted = {f"{folder}/{path}" for path in snapshot}
    ours = (f"{folder}/{path}" for path in hashes)
    files.update({path: None for path in ours if path in existing and path not in wanted})
    if files or f"{folder}/{MANIFEST}" not in existing or set(hashes) != set(snapshot):
        text = manifest_text(committed.connection, driver, {p: f.sha256 for p, f in snapshot.items()})
        files[f"{folder}/{MANIFEST}"] = text.encode()
    return files


def _record_files(contents: Mapping[str, bytes], committed: Committed) -> dict[str, bytes | None]:
    """Return the records that change."""
    files = {f"{committed.raw_folder}/{name}": content for name, content in contents.items()}
    last = committed.base.read_many(path for path in files if path in committed.files)
    return {path: content for path, content in files.items() if last.get(path) != content}


def _changes(
    last: Snapshot,
    snapshot: Mapping[str, SnapshotFile],
    tables: Sequence[Table],
    kept: Sequence[Table],
    removed: tuple[str, ...],
) -> TableChanges:
    old = {table.ref: last.hashes[table_path(table.ref)] for table in last.tables or ()}
    new = {table.ref: snapshot[table_path(table.ref)].sha256 for table in tables}
    gone = {physical_name(ref) for ref in old if ref not in new} | set(removed)
    return TableChanges(
        added=_names(ref for ref in new if ref not in old),
        changed=_names(ref for ref in new if ref in old and old[ref] != new[ref]),
        removed=tuple(sorted(gone)),
        kept=_names(table.ref for table in kept),
    )


def _names(refs: Iterable[TableRef]) -> tuple[str, ...]:
    return tuple(sorted(physical_name(ref) for ref in refs))


@dataclass(frozen=True, slots=True)
class PreviousScan:
    """The last scan in the state database: the digest of the structure, and path -> committed blob ID."""

    digest: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The physical names of tables, by their change since the last snapshot."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Tables that could not be read and are carried over from the last scan."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The changes that a scan makes in the project. `files`: path -> new content, None for a removed file."""

    relationships: RelationshipRecord
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    shards: Mapping[str, Shard] = field(default_factory=dict)
    changes: TableChanges = field(default_factory=TableChanges)
    linked: LinkedFiles | None = None
    removed_texts: RemovedTexts = field(default_factory=RemovedTexts)
    reviewed: tuple[ReviewedRelationship, ...] = ()
    """Every relationship with its status after this scan."""
    gone: tuple[GoneJoin, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """The results of a scan and the files that it changes."""

    connection: str
    driver: str
    digest: str
    plan: ManifestPlan
    tables: int
    columns: int
    views: int = 0
    """The number of views among the tables."""
    declared: int = 0
    """The number of foreign keys that the database declares."""
    row_estimates: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[ObjectProblem, ...] = ()
    has_rows: bool = False
    """Whether rows were read. If not, the relationships are those of an earlier scan."""
    counts: ProfileCounts | None = None
    """How many tables were profiled; None if no rows were read."""
    reused: bool = False
    """Whether the results of the last scan were reused and no rows were read."""
    profiles: tuple[TableProfile, ...] = ()
    descriptions: DescriptionReport | None = None
    warnings: tuple[ResultWarning, ...] = ()
    failures: tuple[StageFailure, ...] = ()
    """The stages that failed. Their results are those of the last scan."""

    @property
    def files(self) -> Mapping[str, bytes | None]:
        """The files that change: path -> new content, None for a removed file."""
        return self.plan.files

    @property
    def unchanged(self) -> bool:
        """Whether no file changes."""
        return not self.plan.files

    def all_warnings(self) -> list[ResultWarning]:
        """Return all warnings, including those about descriptions and failed stages."""
        described = [] if self.descriptions is None else self.descriptions.warnings(self.connection)
        return [*described, *self.warnings, *(each.warning(self.connection) for each in self.failures)]

    def without(self, held: frozenset[str]) -> Mapping[str, bytes | None]:
        """Return the files that may change if the held paths keep their old content."""
        return self.files if self.plan.linked is None else self.plan.linked.without(self.files, held)

    def removals(self, held: frozenset[str], replaced: Mapping[str, str]) -> list[ResultWarning]:
        """Return warnings about removed user-written texts and removed joins, except for those in held shards.

        `replaced`: path -> where its previous text is kept, for files without a history.
        """
        removed = self.plan.removed_texts.warnings(self.connection, self.without(held), replaced)
        return [*removed, *gone_warnings(self.connection, self.plan.gone, held)]


def previous_scans(database: StateDatabase, connections: Iterable[str]) -> dict[str, PreviousScan]:
    """Return connection -> its last complete scan, if there is one."""
    wanted = set(connections)
    rows = database.execute("SELECT connection, digest, files FROM scans").fetchall()
    return {row[0]: PreviousScan(row[1], json.loads(row[2])) for row in rows if row[0] in wanted}


def record_scan(database: StateDatabase, run_id: str, outcome: ScanOutcome, files: dict[str, str] | None) -> None:
    """Record a scan. If `files` is None, not all of it was committed, and the next run compares everything again."""
    digest = outcome.digest if files is not None else ""
    counts = (outcome.tables, outcome.columns, json.dumps(outcome.row_estimates))
    row = (outcome.connection, run_id, isoformat(now()), digest, json.dumps(files or {}), *counts)
    with transaction(database):
        database.execute("INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def stored_warnings(
    connection: str, stored: StoredColumns, examples: Mapping[tuple[TableRef, str], str]
) -> list[ResultWarning]:
    """Return a warning about columns in which some values do not fit, and one about dates in an unclear order."""
    mixed, unclear = [], []
    for ref, columns in stored.items():
        for each in columns:
            name = f"`{ref}.{each.name}`"
            if each.stored_as is None:
                unclear.append(name)
            elif each.misfits:
                example = examples.get((ref, each.name))
                shown = "" if example is None else f", for example `{example}`"
                mixed.append(f"{name} ({each.evidence[:-1]}{shown})")
    return [*_mixed_values(connection, mixed), *_unclear_dates(connection, unclear)]


def _mixed_values(connection: str, columns: list[str]) -> Iterator[ResultWarning]:
    if columns:
        message = (
            f"{plural(len(columns), 'column')} not converted, because some values would be lost: {listing(columns, 3)}"
        )
        hint = "correct the values and scan again, or convert the column yourself in a computed column"
        yield connection_warning("mixed_values", connection, message, hint, columns=columns)


def _unclear_dates(connection: str, columns: list[str]) -> Iterator[ResultWarning]:
    if columns:
        message = (
            f"{plural(len(columns), 'column')} not converted, because the order of day and month is unclear, as in "
            f"03/04/2024: {listing(columns, 3)}"
        )
        hint = "define a computed column of type `time` that converts the text"
        yield connection_warning("unclear_dates", connection, message, hint, columns=columns)


OF_THE_SCOPE = frozenset({"scope", "schema"})
"""Problems with `include` or `exclude` patterns in `ktx.yaml` that match nothing."""


def problem_warnings(connection: str, problems: Iterable[ObjectProblem]) -> list[ResultWarning]:
    """Return a warning about objects that could not be read, and one about patterns that match nothing."""
    of_scope = {True: list[ObjectProblem](), False: list[ObjectProblem]()}
    for problem in problems:
        of_scope[problem.what in OF_THE_SCOPE].append(problem)
    warnings = [_unreadable(connection, of_scope[False])] if of_scope[False] else []
    return [*warnings, *([_unmatched(connection, of_scope[True])] if of_scope[True] else [])]


def field_notes(connection: str, notes: Iterable[ObjectProblem]) -> list[ResultWarning]:
    """Return a note about parts of tables that no column can represent."""
    found = list(notes)
    if not found:
        return []
    shown = listing((f"{each.message} (in `{each.ref}`)" for each in found), 3)
    message = f"connection `{connection}`: {plural(len(found), 'field')} skipped, the rest was read: {shown}"
    return [ResultWarning("fields_skipped", message, severity=Severity.INFO, connection=connection)]


_DECIMAL_COMMA: Final = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),(\d+)")


def decimal_comma_warnings(connection: str, profiles: Iterable[TableProfile]) -> list[ResultWarning]:
    """Return a warning about text columns whose values are numbers with a decimal comma: sums of them do not work."""
    names = [
        f"{physical_name(table.ref)}.{column.name}"
        for table in profiles
        for column in table.columns
        if column.kind is ValueKind.TEXT and _has_decimal_comma(value for value, _ in column.top)
    ]
    if not names:
        return []
    shown = listing((f"`{name}`" for name in names), 3)
    column = names[0].rpartition(".")[2]
    hint = (
        "add a column to the source, with type: number and "
        f"expr: CAST(REPLACE(REPLACE({column}, '.', ''), ',', '.') AS decimal(18, 2))"
    )
    return [connection_warning("decimal_comma", connection, f"numbers with a decimal comma are text: {shown}", hint)]


def _has_decimal_comma(values: Iterable[Any]) -> bool:
    """Return whether all values are numbers with a comma, and not all of them could have thousands behind it."""
    found = [_DECIMAL_COMMA.fullmatch(value.strip()) if isinstance(value, str) else None for value in values]
    decimals = [len(match[1]) for match in found if match is not None]
    return bool(decimals) and len(decimals) == len(found) and any(digits != 3 for digits in decimals)


def comment_warnings(connection: str, shards: Mapping[str, Shard], changes: TableChanges) -> list[ResultWarning]:
    """Return a warning if comments on new or changed tables contain instructions to agents."""
    objects = list(_instructing(shards, changes))
    if not objects:
        return []
    message = (
        f"comments in the database contain instructions to agents: {listing((f'`{name}`' for name in objects), 3)}"
    )
    hint = "review them and check who may write comments there; agents receive comments as data, not as instructions"
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
        f"{plural(len(problems), 'object')} could not be read completely: "
        f"{listing((_problem(problem) for problem in problems), 3)}"
    )
    hint = exclusion_hint(connection, objects) if objects else Command("connection", "test", connection)
    return connection_warning("object_unreadable", connection, message, hint, objects=objects)


def exclusion_hint(connection: str, objects: Iterable[str], limit: int = 5) -> Hint:
    """Return a hint for objects that ktx can never read in their current form."""
    entries = listing(map(_entry, objects), limit)
    place = SettingPath(f"connections.{connection}")
    return Hint("fix or drop them, or add this to `exclude` of {} in ktx.yaml: {}", place, entries)


def _entry(name: str) -> str:
    """Return the YAML for an `exclude` entry that matches only this object."""
    pattern = glob.escape(name)
    return pattern if re.fullmatch(r"\w[\w./-]*", pattern) else json.dumps(pattern, ensure_ascii=False)


def _problem(problem: ObjectProblem) -> str:
    name = problem.what if problem.ref is None else f"`{problem.ref}`"
    return f"{name} ({one_line(problem.message, 160)})"


def _unmatched(connection: str, problems: list[ObjectProblem]) -> ResultWarning:
    unmatched = listing((one_line(problem.message, 160) for problem in problems), 3)
    hint = Hint("correct {} in ktx.yaml, or the role's privileges", SettingPath(f"connections.{connection}"))
    return connection_warning("scope_unmatched", connection, unmatched, hint)


MOST_REASONS = 5
"""The number of reasons that get their own warning; the rest share one."""

NAMED_TABLES = 10
"""The maximum number of tables in a GRANT; beyond it, the GRANT lists their schemas."""

_FORBIDDEN: Final = re.compile(
    r"permission (was )?denied|access denied|command denied|not authori[sz]ed|insufficient privilege", re.IGNORECASE
)
_TEMPORARY: Final = re.compile(r"locked|was stopped after|the database is busy", re.IGNORECASE)
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")


@dataclass(frozen=True, slots=True)
class _Unread:
    """A table or column without a profile, and the database error."""

    ref: TableRef
    column: str | None
    reason: str

    def __str__(self) -> str:
        return str(self.ref) if self.column is None else f"{self.ref}.{self.column}"

    @property
    def kind(self) -> str:
        """The reason without names, values and positions, which differ from table to table."""
        if _FORBIDDEN.search(self.reason):
            return "forbidden"
        text = _VARYING.sub("?", self.reason)
        for name in (str(self.ref), self.ref.name, self.column):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "?", text) if name else text
        return text


def unprofiled_warnings(connection: str, connector: Connector, profiled: Profiled) -> list[ResultWarning]:
    """Return warnings about tables and columns without a profile, except empty ones."""
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
        message = (
            f"{plural(late, 'table')} of {total} not profiled within the time limit; the next run starts with them"
        )
        hint = Hint("raise {}, or restrict the connection with `include`", SettingPath("scan.budget.seconds"))
        yield connection_warning("profile_out_of_time", connection, message, hint, left=late)
    if profiled.over_budget:
        message = (
            f"{plural(profiled.over_budget, 'table')} of {len(profiled.tables)} not profiled because of "
            "`scan.budget.gigabytes`; the next run starts with them"
        )
        hint = Hint("raise {}, or restrict the connection with `include`", SettingPath("scan.budget.gigabytes"))
        yield connection_warning("profile_over_budget", connection, message, hint, left=profiled.over_budget)
    if views:
        always = Command("config", "set", "scan.views", "always")
        message = f"{plural(views, 'view')} not profiled because of `scan.views`"
        yield connection_warning("views_not_read", connection, message, always, views=views)


def _unread(profiles: Iterator[TableProfile]) -> Iterator[_Unread]:
    for profile in profiles:
        if profile.problem is None:
            yield from (_Unread(profile.ref, each.name, each.problem) for each in profile.columns if each.problem)
        elif profile.unsampled is Unsampled.ERROR:
            yield _Unread(profile.ref, None, profile.problem)


def _warning(connection: str, connector: Connector, group: Sequence[_Unread]) -> ResultWarning:
    tables = sum(each.column is None for each in group)
    parts = [(tables, "table"), (len(group) - tables, "column")]
    counted = " and ".join(plural(count, noun) for count, noun in parts if count)
    objects = list(map(str, group))
    message = f"could not read rows from {counted} ({listing(objects, 3)}): {group[0].reason}"
    hint = _hint(connection, connector, group)
    return connection_warning("not_profiled", connection, message, hint, objects=objects)


def _hint(connection: str, connector: Connector, group: Sequence[_Unread]) -> str:
    refs = sorted({each.ref for each in group}, key=str)
    if all(_FORBIDDEN.search(each.reason) for each in group):
        return _grant(connection, connector, refs, group[0].reason)
    if all(_TEMPORARY.search(each.reason) for each in group):
        return Hint("retry later with {}", Command("scan", connection))
    return exclusion_hint(connection, map(str, refs), NAMED_TABLES)


def _grant(connection: str, connector: Connector, refs: Sequence[TableRef], reason: str) -> str:
    """Return statements that grant the role access, or, for engines without GRANT, the command that shows the role."""
    dialect = dialect_named(connector.dialect)
    user = _user(connector) if dialect.has_grants else None
    if user is None:
        message = "grant the role SELECT on them; to see the role, run {}"
        return Hint(message, Command("connection", "test", connection))
    role = dialect.role(user)
    schemas = [dialect.quote(schema) for schema in sorted({ref.schema for ref in refs if ref.schema is not None})]
    by_name = len(refs) <= NAMED_TABLES or not schemas
    places = map(dialect.path, refs) if by_name else map(dialect.all_tables_form.format, schemas)
    usage = [f"GRANT USAGE ON SCHEMA {schema} TO {role}" for schema in schemas if "for schema" in reason]
    return (
        "run as the owner of the tables: "
        f"{'; '.join([*usage, *(f'GRANT SELECT ON {place} TO {role}' for place in places)])}"
    )


def _user(connector: Connector) -> str | None:
    try:
        return connector.test(Scope(enabled_tables=())).user
    except SourceError:  # The hint only names it.
        return None
