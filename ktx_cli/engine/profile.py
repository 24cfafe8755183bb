"""The warnings of a scan's problems: a run that could not look at something says so beside its report."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli import __version__
from ktx_cli.core import (
    Command,
    Emit,
    Hint,
    ResultWarning,
    SettingPath,
    SourceError,
    StepFinished,
    StepProgress,
    StepStarted,
    isoformat,
    listing,
    monotonic,
    now,
    one_line,
    plural,
)
from ktx_cli.engine.report import Enrichment
from ktx_cli.project import Privacy, Scan, translated
from ktx_cli.scan import (
    FAILED,
    NOT_READ,
    OUT_OF_TIME,
    Budget,
    Cardinality,
    Check,
    Dictionary,
    DictionaryLimits,
    Discovery,
    Edge,
    EdgeStatus,
    Failures,
    Findings,
    GivenHints,
    HintSource,
    KeyChoice,
    Knowledge,
    Profiled,
    SampledTable,
    ScanOutcome,
    SparingConnector,
    Stage,
    StoredLook,
    TableProfile,
    ViewJoins,
    bare,
    build_dictionary,
    comes_back_equal,
    discover,
    load_lists,
    load_look,
    load_profiles,
    load_turns,
    profile_tables,
    recorded_hints,
    save_values,
    unsampled,
    with_failed_parts,
    without_private,
    without_values,
)
from ktx_cli.warehouses import Connector, Evident, ObjectProblem, Scope, Table, TableKind, TableRef, quote, table_path
from ktx_cli.wiki import instructions

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
    hint = exclusion_hint(connection, objects) if objects else Command("connection", "test", connection)
    return ResultWarning("object_unreadable", message, hint=hint, connection=connection, objects=objects)


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
    said = listing((one_line(problem.message, 160) for problem in problems), 3)
    return ResultWarning(
        "scope_unmatched",
        f"connection `{connection}`: {said}",
        hint=Hint("correct {} in ktx.yaml, or the role's privileges", SettingPath(f"connections.{connection}")),
        connection=connection,
    )


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
            hint=Hint("raise {}, or narrow the connection by `include`", SettingPath("scan.budget.seconds")),
            connection=connection,
            left=late,
        )


def _views(connection: str, profiled: Profiled) -> Iterator[ResultWarning]:
    if profiled.not_read:
        yield ResultWarning(
            "views_not_read",
            f"connection `{connection}`: {plural(profiled.not_read, 'view')} not read: scan.views",
            hint=Command("config", "set", "scan.views", "always"),
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
        return Hint("try again later: {}", Command("scan", connection))
    return exclusion_hint(connection, map(str, refs), NAMED_TABLES)


def _grant(connection: str, connector: Connector, refs: Sequence[TableRef], reason: str) -> str:
    """Return the statements that let the role read; of engines that grant otherwise, the command that names it."""
    user = _user(connector) if connector.dialect in _GRANTING else None
    if user is None:
        return Hint(
            "let the role SELECT from them; to see which one it is: {}", Command("connection", "test", connection)
        )
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A look that may stand for the next one. `holds`: whether its proof is what it was before the rows were read."""

    look: StoredLook
    holds: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class ValueKeeper:
    """Lists the values of columns of few values and stores them with the profiles; `privacy` says which may be.

    Every method raises `StorageError` where the state database does not work.
    """

    database: sqlite3.Connection
    state: Path
    connection: str
    privacy: Privacy
    seconds: float
    emit: Emit

    def __call__(
        self,
        connector: Connector,
        tables: Sequence[Table],
        profiled: Profiled,
        candidate: Candidate | None = None,
        failures: Failures | None = None,
    ) -> list[ResultWarning]:
        """Store them, and return what to say of columns whose list could not be read.

        The candidate is kept where all was read, within the time and from the same data. A table whose lists fail
        unexpectedly keeps those it has, and is noted in `failures`; None: the error is raised.
        """
        self.emit(StepStarted("values", self.connection))
        started = monotonic()
        failed = failures or Failures(strict=True)
        dictionary = build_dictionary(
            connector,
            tables,
            profiled.tables,
            privacy=self.privacy,
            limits=DictionaryLimits(),
            deadline=started + self.seconds,
            failures=failed,
        )
        without = {each.table for each in failed.noted if each.stage is Stage.VALUES}
        without |= {each.profile.ref for each in profiled.tables if each.profile.problem == FAILED}
        dictionary = self._with_earlier(dictionary, without)
        in_time = monotonic() < started + self.seconds
        whole = in_time and not without and not dictionary.problems and self._comes_back(profiled.tables)
        look = candidate.look if candidate is not None and whole and candidate.holds() else None
        self._save(profiled, dictionary, look)
        summary = f"{plural(len(dictionary.columns), 'list')}, {len(dictionary.withheld)} withheld"
        self.emit(StepFinished("values", summary, monotonic() - started, self.connection))
        return self._unread(dictionary)

    def _with_earlier(self, dictionary: Dictionary, without: Collection[TableRef | None]) -> Dictionary:
        """Return the lists with those that are stored of the tables `without` new ones."""
        if not without:
            return dictionary
        with translated(self.state):
            stored = load_lists(self.database, self.connection)
        kept = tuple(each for each in stored if each.ref in without)
        return replace(dictionary, columns=(*dictionary.columns, *kept))

    def turns(self) -> Mapping[TableRef, str]:
        """Return table -> when it was profiled last."""
        with translated(self.state):
            return load_turns(self.database, self.connection)

    def earlier(self, proof: str) -> EarlierLook | None:
        """Return what the last look found, None where it was one at other data or with other settings."""
        with translated(self.state):
            stored = load_look(self.database, self.connection)
            if stored is None or stored.proof != proof:
                return None
            profiles = load_profiles(self.database, self.connection)
        told = profiles if self.privacy == "off" else tuple(map(bare, profiles))
        return EarlierLook(stored.hints, found_from_json(stored.found), told)

    def _save(self, profiled: Profiled, dictionary: Dictionary, look: StoredLook | None) -> None:
        turns, moment = dict(self.turns()), isoformat(now())
        # What the time did not reach keeps its turn, so that it comes before what was reached now.
        reached = (each.profile for each in profiled.tables if each.profile.problem not in (OUT_OF_TIME, NOT_READ))
        turns.update((profile.ref, moment) for profile in reached)
        with translated(self.state):
            save_values(
                self.database,
                self.connection,
                profiled.tables,
                dictionary,
                privacy=self.privacy,
                turns=turns,
                look=look,
            )

    def _comes_back(self, sampled: Sequence[SampledTable]) -> bool:
        """Whether the profiles as a model may see them can be read back as they are."""
        told = without_private if self.privacy == "off" else without_values
        return all(comes_back_equal(told(each)) for each in sampled)

    def _unread(self, dictionary: Dictionary) -> list[ResultWarning]:
        if not dictionary.problems:
            return []
        unread = listing(f"{problem.ref}: {problem.message}" for problem in dictionary.problems)
        message = f"connection `{self.connection}`: some lists of values could not be read: {unread}"
        return [ResultWarning("values_not_listed", message, connection=self.connection)]


@dataclass(frozen=True, slots=True)
class RowsLook:
    """Profiles the tables of a connection and finds its keys and joins, also those `enrichment` proposes.

    `keep` stores values, and what was found for a second look at the same data; without it (a dry run) no values are
    looked for, and every look begins anew.
    """

    connection: str
    scan: Scan
    emit: Emit
    enrichment: Enrichment | None = None
    keep: ValueKeeper | None = None
    failures: Failures = field(default_factory=Failures)

    def __call__(self, connector: Connector, tables: Sequence[Table], record: Knowledge) -> Findings:
        """Return what was found, of a stage that failed what `record` has. Raises `SourceError`: the source is gone."""
        proof, earlier = None, None
        with self.failures.stage(Stage.REUSE):
            proof = None if self.keep is None else proof_of(connector, tables, self.scan)
            earlier = None if self.keep is None or proof is None else self.keep.earlier(proof)
        findings, hints = None, None
        if earlier is not None:
            told = earlier.profiles if self.enrichment is not None else ()
            hints = self._hints(tables, told, record)
            if digest_of_hints(hints) == earlier.hints:
                findings = self._again(earlier, told, connector, record)
        findings = findings or self._anew(connector, tables, record, proof, hints)
        return replace(findings, failures=self.failures.found())

    def _again(
        self, earlier: EarlierLook, told: tuple[TableProfile, ...], connector: Connector, record: Knowledge
    ) -> Findings:
        """Return what the last look found in the same data."""
        self.emit(StepStarted("profile", self.connection))
        count = plural(len(earlier.profiles), "table")
        self.emit(StepFinished("profile", f"{count}, nothing changed since the last look", 0.0, self.connection))
        profiled = Profiled(tuple(map(SampledTable, earlier.profiles)), 0, 0, not_read=_not_read(earlier.profiles))
        return self._findings(connector, profiled, earlier.knowledge, record, told)

    def _anew(
        self,
        connector: Connector,
        tables: Sequence[Table],
        record: Knowledge,
        proof: str | None,
        hints: GivenHints | None,
    ) -> Findings:
        until = monotonic() + self.scan.budget.seconds
        profiled = self._profile(connector, tables)
        told = tuple(self._told(profiled.tables)) if self.enrichment is not None else ()
        hints = hints or self._hints(tables, told, record)
        unread = [each.profile.ref for each in profiled.tables if each.profile.problem == NOT_READ]
        sparing: Connector = SparingConnector(connector, unread) if unread else connector
        found = Discovery(dict(record.keys), record.edges)
        with self.failures.stage(Stage.RELATIONSHIPS):
            found = self._discover(sparing, tables, profiled, hints, until)
        in_time = monotonic() < until
        knowledge = with_failed_parts(Knowledge(found.keys, found.edges), record, self.failures.found())
        findings = self._findings(connector, profiled, knowledge, record, told)
        checks = _check_warnings(self.connection, found)
        kept: list[ResultWarning] = []
        if self.keep is not None:
            candidate = None
            if proof is not None and in_time and not checks and not self.failures.noted and _is_whole(profiled):
                with self.failures.stage(Stage.REUSE):
                    candidate = self._candidate(connector, tables, proof, hints, knowledge)
            with self.failures.stage(Stage.STORE):
                kept = self.keep(sparing, tables, profiled, candidate, self.failures)
        return replace(findings, warnings=(*findings.warnings, *checks, *kept))

    def _candidate(
        self, connector: Connector, tables: Sequence[Table], proof: str, hints: GivenHints, knowledge: Knowledge
    ) -> Candidate | None:
        """Return what the next look may take as it is."""
        found = found_to_json(knowledge)
        if found is None:
            return None
        look = StoredLook(proof, digest_of_hints(hints), found)
        return Candidate(look, lambda: proof_of(connector, tables, self.scan) == proof)

    def _findings(
        self,
        connector: Connector,
        profiled: Profiled,
        knowledge: Knowledge,
        record: Knowledge,
        told: tuple[TableProfile, ...],
    ) -> Findings:
        profiles = tuple(each.profile for each in profiled.tables)
        warnings: tuple[ResultWarning, ...] = ()
        with self.failures.stage(Stage.DIAGNOSTICS):
            warnings = tuple(left_out_warnings(self.connection, connector, profiled))
        unread = frozenset(each.ref for each in profiles if each.problem == NOT_READ)
        return Findings(
            knowledge=with_earlier(knowledge, record, unread),
            unseen=(frozenset(each.ref for each in profiles if each.problem is not None) - unread) | self._undiscovered,
            warnings=warnings,
            profiles=profiles,
            told=told,
        )

    @property
    def _undiscovered(self) -> frozenset[TableRef]:
        """The tables that took no part in the discovery of joins because of a failure."""
        failed = (each.table for each in self.failures.found() if each.stage is Stage.RELATIONSHIPS)
        return frozenset(ref for ref in failed if ref is not None)

    def _told(self, sampled: Iterable[SampledTable]) -> Iterable[TableProfile]:
        """Return the profiles as a model may see them: values of rows only where `scan.privacy` is `off`."""
        return map(without_private if self.scan.privacy == "off" else without_values, sampled)

    def _hints(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        if self.enrichment is None or not self.scan.relationships.enabled:
            return GivenHints(recorded_hints(record))
        with self.failures.stage(Stage.PROPOSALS):
            return self.enrichment.propose(tables, told, record)
        return GivenHints(recorded_hints(record))

    def _profile(self, connector: Connector, tables: Sequence[Table]) -> Profiled:
        self.emit(StepStarted("profile", self.connection))
        started = monotonic()
        profiled = Profiled(tuple(unsampled(table, FAILED) for table in tables), 0, 0)
        with self.failures.stage(Stage.PROFILE):
            profiled = profile_tables(
                connector,
                tables,
                self._budget(),
                lambda done, total: self.emit(StepProgress("profile", done, total, self.connection)),
                last=None if self.keep is None else self.keep.turns(),
                failures=self.failures,
            )
        summary = f"{plural(len(tables), 'table')}, {plural(profiled.statements, 'statement')}"
        self.emit(StepFinished("profile", summary, monotonic() - started, self.connection))
        return profiled

    def _budget(self) -> Budget:
        return Budget(
            rows=self.scan.relationships.profile_sample_rows,
            bytes=self.scan.budget.megabytes * 1024 * 1024,
            seconds=float(self.scan.budget.seconds),
            concurrency=self.scan.relationships.profile_concurrency,
            views=self.scan.views,
        )

    def _discover(
        self, connector: Connector, tables: Sequence[Table], profiled: Profiled, hints: GivenHints, until: float
    ) -> Discovery:
        """Find keys and joins; what cannot be checked `until` then is put up for review."""
        if not self.scan.relationships.enabled:
            return Discovery({}, ())
        self.emit(StepStarted("relationships", self.connection))
        started = monotonic()
        sources: list[HintSource] = [ViewJoins(connector.dialect), hints]
        left = max(0.0, until - started)
        settings = self.scan.relationships
        found = discover(connector, tables, profiled.tables, settings, sources, seconds=left, failures=self.failures)
        summary = f"{plural(len(found.accepted()), 'join')} among {plural(len(found.edges), 'candidate')}"
        self.emit(StepFinished("relationships", summary, monotonic() - started, self.connection))
        # That a spared table was not asked is said once, for all of them.
        return replace(found, problems=tuple(each for each in found.problems if NOT_READ not in each))


def with_earlier(new: Knowledge, old: Knowledge, unread: Collection[TableRef]) -> Knowledge:
    """Return what is new, with what rows said of tables that are not read any more.

    An edge that was accepted or rejected, and a key that was confirmed, rest on rows.
    """
    if not unread:
        return new
    decided = {
        _ends(edge): edge
        for edge in old.edges
        if {edge.child, edge.parent} & set(unread) and edge.status is not EdgeStatus.REVIEW
    }
    edges = (*(edge for edge in new.edges if _ends(edge) not in decided), *decided.values())
    keys = {ref: choice for ref, choice in old.keys.items() if ref in unread and choice.confirmed}
    return Knowledge({**new.keys, **keys}, edges)


def _ends(edge: Edge) -> tuple[object, ...]:
    return edge.child, edge.child_columns, edge.parent, edge.parent_columns, edge.condition


def _is_whole(profiled: Profiled) -> bool:
    """Whether all was read that was to be read."""
    profiles = [each.profile for each in profiled.tables]
    columns = (column.problem for each in profiles for column in each.columns)
    return all(each.problem in (None, NOT_READ) for each in profiles) and not any(columns)


def _not_read(profiles: Iterable[TableProfile]) -> int:
    return sum(each.problem == NOT_READ for each in profiles)


def _check_warnings(connection: str, found: Discovery) -> list[ResultWarning]:
    if not found.problems:
        return []
    message = f"connection `{connection}`: some joins could not be checked: {listing(found.problems)}"
    return [ResultWarning("not_checked", message, connection=connection)]


_CODE: Final = ("warehouses/sampling", "scan/profile", "scan/relationships")
_BODY: Final = re.compile(r"\bas\b\s*\(?\s*((?:select|with|values|from)\b.*)", re.IGNORECASE | re.DOTALL)
_CALL: Final = re.compile(r'(\w+|"|\])\s*\(')
_OF_THE_MOMENT: Final = re.compile(
    r"\b(now|today|yesterday|tomorrow|current_\w+|localtime\w*|\w*sample|random\w*|user)\b", re.IGNORECASE
)
_PURE: Final = frozenset(
    re.findall(
        r"\w+",
        "select from where and or not in as on using over by union all exists values join distinct partition case when"
        " then else between like is with abs avg cast coalesce concat count dense_rank extract first_value greatest"
        " group_concat ifnull iif instr lag last_value lead least length lower ltrim max min nullif rank replace round"
        " row_number rtrim string_agg substr substring sum total trim upper char decimal numeric varchar",
    )
)
"""Words a view may have before a parenthesis and still give the same rows every time."""


@dataclass(frozen=True, slots=True)
class EarlierLook:
    """What the last look at the same data found: `hints` it was given (`digest_of_hints`), profiles without values."""

    hints: str
    knowledge: Knowledge
    profiles: tuple[TableProfile, ...]


def proof_of(connector: Connector, tables: Sequence[Table], scan: Scan) -> str | None:
    """Return a text that differs whenever a look could find something else; None where nothing is sure.

    It covers the data, the structure, the settings and ktx itself. A view whose text may give other rows at another
    moment, or a generated column that may, leaves nothing sure.
    """
    evidence = connector.evidence() if isinstance(connector, Evident) else None
    if evidence is None or not all(_is_steady(table, connector.dialect) for table in tables):
        return None
    return _digest([evidence, __version__, _code(), scan.model_dump_json(), *map(repr, tables)])


def digest_of_hints(hints: GivenHints) -> str:
    """Return a text that differs when somebody proposes other joins; what views say is part of the structure."""
    return _digest(map(repr, hints.given))


def found_to_json(knowledge: Knowledge) -> str | None:
    """Return what was found as JSON; None where it would not come back equal (a condition on a value without JSON)."""
    document = {
        "keys": [[_parts(ref), asdict(choice)] for ref, choice in knowledge.keys.items()],
        "edges": [{**asdict(edge), "features": {}} for edge in knowledge.edges],
    }
    try:
        text = json.dumps(document)
    except TypeError:
        return None
    return text if found_from_json(text) == knowledge else None


def found_from_json(text: str) -> Knowledge:
    """Return what was found."""
    document = json.loads(text)
    keys = {TableRef(*parts): _key(fields) for parts, fields in document["keys"]}
    return Knowledge(keys, tuple(map(_edge, document["edges"])))


def _is_steady(table: Table, dialect: str) -> bool:
    if dialect == "duckdb" and any(column.generated for column in table.columns):
        return False  # unlike SQLite, DuckDB lets one call now() or random()
    return table.kind is not TableKind.VIEW or _is_pure(table.view_sql or "")


def _is_pure(view_sql: str) -> bool:
    body = _BODY.search(view_sql)
    if body is None or _OF_THE_MOMENT.search(body[1]):
        return False
    return all(name.lower() in _PURE for name in _CALL.findall(body[1]))


@functools.cache
def _code() -> str:
    """Return a digest of the code and data a look rests on: an edited checkout keeps its version."""
    package = Path(__file__).parents[1]
    files = sorted(
        path for folder in _CODE for path in (package / folder).rglob("*") if path.suffix in (".py", ".json")
    )
    return _digest(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _parts(ref: TableRef) -> list[str | None]:
    return [ref.schema, ref.name]


def _key(fields: dict[str, Any]) -> KeyChoice:
    alternates = tuple(map(tuple, fields.pop("alternates")))
    return KeyChoice(primary=tuple(fields.pop("primary")), alternates=alternates, **fields)


def _edge(fields: dict[str, Any]) -> Edge:
    check, condition = fields["check"], fields["condition"]
    return Edge(
        child=TableRef(**fields["child"]),
        child_columns=tuple(fields["child_columns"]),
        parent=TableRef(**fields["parent"]),
        parent_columns=tuple(fields["parent_columns"]),
        status=EdgeStatus(fields["status"]),
        score=fields["score"],
        reason=fields["reason"],
        cardinality=Cardinality(fields["cardinality"]),
        sources=tuple(fields["sources"]),
        check=None if check is None else Check(**check),
        condition=None if condition is None else (condition[0], condition[1]),
    )
