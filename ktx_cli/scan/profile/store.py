"""Profiles and value lists in the state database: disposable, local to this machine, never committed.

The state database also stores the results that a scan of unchanged data reuses (`StoredResults`), and the evidence on
which the decisions about relationships are based.

Everything of a connection is replaced at once, so that values that are now hidden are deleted. The functions take an
open state database; `project.state.translated` around them names the file in errors.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import isoformat, now, plain_value
from ktx_cli.privacy import ValueKind
from ktx_cli.project import LOOK, Privacy, StateDatabase, transaction, translated
from ktx_cli.scan.profile.answers import forget_answers
from ktx_cli.scan.profile.profiler import ColumnProfile, SampledTable, TableProfile, Unsampled, is_private
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.semantic import ColumnValues, load_lists
from ktx_cli.warehouses import SampleMethod, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.evidence import ChildEvidence
    from ktx_cli.scan.relationships.record import Evidence


class MatchKind(StrEnum):
    """How a value matches the search text, from best to worst."""

    EXACT = "exact"
    CASE = "case"
    BEGINS = "begins"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class ValueMatch:
    """A matching value with its number of rows (None if not counted). `complete`: whether its list is complete."""

    connection: str
    ref: TableRef
    column: str
    value: Any
    count: int | None
    complete: bool
    kind: MatchKind


@dataclass(frozen=True, slots=True)
class SearchedLists:
    """The value lists of a connection that a search covers.

    `columns`: the number of lists, `incomplete` of which do not have all values. `hidden`: the number of columns
    without a list because their values are private. Columns with many values are not counted.
    """

    connection: str
    privacy: str
    finished: str
    tables: int
    columns: int
    incomplete: int
    hidden: int


@dataclass(frozen=True, slots=True)
class ValueMatches:
    """Matches, best first, and the lists that were searched. `more`: whether there are others beyond the limit."""

    matches: tuple[ValueMatch, ...]
    searched: tuple[SearchedLists, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results that a scan leaves for the next one: everything derived from row values.

    `fingerprint`: of data and settings. `hints`: their digest. `relationships`: the inferred ones as JSON. `known`: the
    digest of the record that they became. `measures` and `decisions`: the proposals with this record, and
    `stored_columns`: the recognized columns, in the format of their files; stored profiles lack the values to make them
    again.
    """

    fingerprint: str
    hints: str
    relationships: str
    known: str
    measures: str = ""
    decisions: str = ""
    stored_columns: str = ""


_FIELDS: Final = ("nulls", "distinct", "shortest", "longest", "problem", "is_restricted")
_RANK: Final = (
    "CASE WHEN shown = :text THEN 0 WHEN folded = :folded THEN 1 WHEN instr(folded, :folded) = 1 THEN 2 ELSE 3 END"
)
_FIND: Final = f"""
    SELECT connection, schema_name, table_name, column_name, value, count, complete, {_RANK} AS rank
    FROM dictionary_values JOIN dictionary_columns ON id = column_id
    WHERE instr(folded, :folded) > 0 AND (:connection IS NULL OR connection = :connection)
    ORDER BY rank, count IS NULL, count DESC, connection, schema_name, table_name, column_name, shown LIMIT :most
"""
_KINDS: Final = tuple(MatchKind)


def save_values(
    database: StateDatabase,
    connection: str,
    sampled: Sequence[SampledTable],
    dictionary: Dictionary,
    *,
    privacy: Privacy,
    profiled_at: Mapping[TableRef, str] | None = None,
    evidence: Iterable[Evidence] = (),
) -> None:
    """Replace everything stored for a connection in one transaction. `strict` stores counts and lengths but no values.

    `profiled_at`: as `load_profile_times` returns it.
    """
    stamps = profiled_at or {}
    hidden = [[ref.schema, ref.name, column, str(why)] for ref, column, why in dictionary.hidden]
    with transaction(database):
        _forget_tables(database, connection)
        database.execute(
            "INSERT INTO value_scans VALUES (?, ?, ?, ?)",
            (connection, privacy, isoformat(now()), json.dumps(hidden if privacy != "strict" else [])),
        )
        profiles = (without_values(each.profile) if privacy == "strict" else without_private(each) for each in sampled)
        database.executemany(
            "INSERT INTO profiles VALUES (?, ?, ?, ?)",
            ((connection, each.ref.schema, each.ref.name, _profile_text(each, stamps)) for each in profiles),
        )
        _replace_lists(database, connection, dictionary.columns if privacy != "strict" else ())
        known = (each.without_values() for each in evidence) if privacy == "strict" else evidence
        database.executemany(
            "INSERT INTO relationship_evidence VALUES (?, ?, ?, ?, ?)",
            ((connection, e.child.schema, e.child.name, json.dumps(e.columns), e.to_json()) for e in known),
        )


def save_results(database: StateDatabase, connection: str, results: StoredResults) -> None:
    """Store the results that belong to the stored profiles, which are deleted together."""
    with transaction(database):
        database.execute(
            "INSERT OR REPLACE INTO enrichment VALUES (?, ?, ?, ?)",
            (LOOK, connection, json.dumps(asdict(results)), isoformat(now())),
        )


def forget_values(database: StateDatabase, connection: str) -> None:
    """Delete everything stored for a connection."""
    with transaction(database):
        _forget(database, connection)
        forget_answers(database, connection)


def load_profiles(database: StateDatabase, connection: str) -> tuple[TableProfile, ...]:
    """Return a connection's profiles, by schema and name. Values have the form of `plain_value`."""
    rows = database.execute(
        "SELECT schema_name, table_name, profile FROM profiles WHERE connection = ? ORDER BY 1 NULLS FIRST, 2",
        (connection,),
    )
    return tuple(_from_json(TableRef(schema, name), json.loads(text)) for schema, name, text in rows)


def load_profiles_of(database: StateDatabase, connection: str, tables: Iterable[TableRef]) -> tuple[TableProfile, ...]:
    """Return the profiles of tables, each once."""
    rows = (
        (ref, text)
        for ref in dict.fromkeys(tables)
        for (text,) in database.execute(
            "SELECT profile FROM profiles WHERE connection = ? AND schema_name IS ? AND table_name = ?",
            (connection, ref.schema, ref.name),
        )
    )
    return tuple(_from_json(ref, json.loads(text)) for ref, text in rows)


def scanned_at(database: StateDatabase, connection: str) -> str | None:
    """Return when the rows of a connection were last read, in ISO 8601."""
    row = database.execute("SELECT finished FROM value_scans WHERE connection = ?", (connection,)).fetchone()
    return None if row is None else str(row[0])


def load_profile_times(database: StateDatabase, connection: str) -> dict[TableRef, str]:
    """Return table -> the time of its last profile, in ISO 8601."""
    rows = database.execute(
        "SELECT schema_name, table_name, json_extract(profile, '$.profiled') FROM profiles"
        " WHERE connection = ? AND json_extract(profile, '$.profiled') IS NOT NULL",
        (connection,),
    )
    return {TableRef(schema, name): at for schema, name, at in rows}


def load_results(database: StateDatabase, connection: str) -> StoredResults | None:
    """Return the results of a connection's last scan, or None if there are none or a different version stored them."""
    row = database.execute("SELECT value FROM enrichment WHERE kind = ? AND key = ?", (LOOK, connection)).fetchone()
    stored = {} if row is None else json.loads(row[0])
    names = {each.name for each in fields(StoredResults)}
    return StoredResults(**stored) if isinstance(stored, dict) and stored.keys() == names else None


def load_evidence(database: StateDatabase, connection: str, tables: Iterable[TableRef]) -> tuple[ChildEvidence, ...]:
    """Return the evidence about the references of tables. Evidence that another version stored is skipped."""
    from ktx_cli.scan.relationships.evidence import ChildEvidence

    found = []
    for ref in tables:
        rows = database.execute(
            "SELECT columns, evidence FROM relationship_evidence"
            " WHERE connection = ? AND schema_name IS ? AND table_name = ? ORDER BY columns",
            (connection, ref.schema, ref.name),
        )
        for columns, text in rows:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                found.append(ChildEvidence.from_json(ref, json.loads(columns), text))
    return tuple(found)


def comes_back_equal(profile: TableProfile) -> bool:
    """Return whether a profile survives storage unchanged: dates, decimals and large numbers come back as text."""
    values = (
        value
        for column in profile.columns
        for value in (column.minimum, column.maximum, *(value for value, _ in column.top))
    )
    return all(plain_value(value) == value for value in values)


def find_values(
    database: StateDatabase,
    text: str,
    connection: str | None = None,
    limit: int = 50,
    keep: Callable[[ValueMatch], bool] = lambda match: True,
) -> ValueMatches:
    """Search the value lists for a text: exact, ignoring letter case, as a prefix, or anywhere.

    `keep`: the matches that exist for whoever asks; others neither count nor take the place of a match.
    """
    wanted = {"text": text.strip(), "folded": text.strip().casefold(), "connection": connection}
    searched = tuple(_searched(database, connection))
    if not wanted["text"]:
        return ValueMatches((), searched)
    most = limit + 1
    while True:  # A database on another host sends all rows that it is asked for.
        rows = database.execute(_FIND, {**wanted, "most": most}).fetchall()
        found = tuple(itertools.islice(filter(keep, map(_match, rows)), limit + 1))
        if len(found) > limit or len(rows) < most:
            return ValueMatches(found[:limit], searched, more=len(found) > limit)
        most *= 8


def without_private(sampled: SampledTable) -> TableProfile:
    """Return the profile without the values of columns whose values may not be stored."""
    columns = (
        _column_without_values(each)
        if is_private(sampled, each)
        else each  # Its comparable values are all in `counts`.
        for each in sampled.profile.columns
    )
    return replace(sampled.profile, columns=tuple(columns))


def with_restrictions(sampled: SampledTable, columns: Collection[str]) -> SampledTable:
    """Return a profile in which columns are marked as restricted. `columns`: their names in any case."""
    names = {each.casefold() for each in columns}
    marked = (
        replace(each, is_restricted=True) if each.name.casefold() in names else each for each in sampled.profile.columns
    )
    return replace(sampled, profile=replace(sampled.profile, columns=tuple(marked))) if names else sampled


def without_restricted(profile: TableProfile) -> TableProfile:
    """Return a profile without the values of columns that a context source restricts."""
    if not any(each.is_restricted for each in profile.columns):
        return profile
    columns = (_column_without_values(each) if each.is_restricted else each for each in profile.columns)
    return replace(profile, columns=tuple(columns))


def without_values(profile: TableProfile) -> TableProfile:
    """Return a profile without values."""
    return replace(profile, columns=tuple(map(_column_without_values, profile.columns)))


def _column_without_values(column: ColumnProfile) -> ColumnProfile:
    return replace(column, minimum=None, maximum=None, top=())


def _forget(database: StateDatabase, connection: str) -> None:
    _replace_lists(database, connection, ())
    _forget_tables(database, connection)


def _forget_tables(database: StateDatabase, connection: str) -> None:
    database.execute(_SECURELY)
    for table in ("profiles", "value_scans", "relationship_evidence"):
        database.execute(f"DELETE FROM {table} WHERE connection = ?", (connection,))
    database.execute("DELETE FROM enrichment WHERE kind = ? AND key = ?", (LOOK, connection))


_SECURELY: Final = "PRAGMA secure_delete = ON"
"""Without it, deleted values remain in the free pages of the file."""


def _replace_lists(database: StateDatabase, connection: str, lists: Sequence[ColumnValues]) -> None:
    """Replace the value lists; call it in a transaction, where nobody else takes the same ids.

    Lists with the same values, which are nearly all of them on most nights, are not written again.
    """
    wanted = {
        (each.ref.schema, each.ref.name, each.column): (
            each.complete,
            [(json.dumps(value), count) for value, count in each.values],
        )
        for each in lists
    }
    stored, gone = _stored_lists(database, connection), []
    for id, key, content in stored:
        if wanted.get(key) == content:
            del wanted[key]
        else:
            gone.append((id,))
    database.execute(_SECURELY)
    database.executemany("DELETE FROM dictionary_values WHERE column_id = ?", gone)
    database.executemany("DELETE FROM dictionary_columns WHERE id = ?", gone)
    last = int(database.execute("SELECT coalesce(max(id), 0) FROM dictionary_columns").fetchone()[0])
    numbered = list(enumerate(wanted.items(), start=last + 1))
    database.executemany(
        "INSERT INTO dictionary_columns (id, connection, schema_name, table_name, column_name, complete)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        ((id, connection, *key, complete) for id, (key, (complete, _)) in numbered),
    )
    written = ((id, text, json.loads(text), count) for id, (_, (_, values)) in numbered for text, count in values)
    shown = ((id, text, value if isinstance(value, str) else text, count) for id, text, value, count in written)
    database.executemany(
        "INSERT INTO dictionary_values VALUES (?, ?, ?, ?, ?)",
        ((id, text, plain, plain.casefold(), count) for id, text, plain, count in shown),
    )


_ListKey = tuple[str | None, str, str]
_ListContent = tuple[bool, list[tuple[str, int | None]]]


def _stored_lists(database: StateDatabase, connection: str) -> list[tuple[int, _ListKey, _ListContent]]:
    """Return the id of every value list, its schema, table and column, and whether it is complete with its values."""
    rows = database.execute(
        "SELECT c.id, c.schema_name, c.table_name, c.column_name, c.complete, v.value, v.count"
        " FROM dictionary_columns AS c LEFT JOIN dictionary_values AS v ON v.column_id = c.id"
        " WHERE c.connection = ? ORDER BY c.id, v.rowid",
        (connection,),
    )
    return [
        (id, (schema, name, column), (bool(complete), [(row[5], row[6]) for row in group if row[5] is not None]))
        for (id, schema, name, column, complete), group in itertools.groupby(rows, key=lambda row: row[:5])
    ]


def _match(row: Sequence[Any]) -> ValueMatch:
    connection, schema, name, column, value, count, complete, rank = row
    return ValueMatch(
        connection, TableRef(schema, name), column, json.loads(value), count, bool(complete), _KINDS[rank]
    )


def _searched(database: StateDatabase, connection: str | None) -> Iterable[SearchedLists]:
    rows = database.execute(
        "SELECT s.connection, s.privacy, s.finished, s.hidden,"
        " (SELECT COUNT(*) FROM profiles WHERE connection = s.connection),"
        " (SELECT COUNT(*) FROM dictionary_columns WHERE connection = s.connection),"
        " (SELECT COUNT(*) FROM dictionary_columns WHERE connection = s.connection AND complete = 0)"
        " FROM value_scans AS s WHERE ?1 IS NULL OR s.connection = ?1 ORDER BY 1",
        (connection,),
    ).fetchall()
    for name, privacy, finished, hidden, tables, columns, incomplete in rows:
        yield SearchedLists(name, privacy, finished, tables, columns, incomplete, len(json.loads(hidden)))


def _profile_text(profile: TableProfile, profiled_at: Mapping[TableRef, str]) -> str:
    return json.dumps({**_to_json(profile), "profiled": profiled_at.get(profile.ref)})


def _to_json(profile: TableProfile) -> dict[str, Any]:
    return {
        "method": profile.method.value,
        "rows": profile.rows,
        "row_count": profile.row_count,
        "exact_count": profile.exact_count,
        "cut_by_bytes": profile.cut_by_bytes,
        "problem": profile.problem,
        "unsampled": profile.unsampled,
        "columns": [_column_to_json(column) for column in profile.columns],
    }


def _column_to_json(column: ColumnProfile) -> dict[str, Any]:
    counted = {name: getattr(column, name) for name in _FIELDS}
    values = {
        "minimum": plain_value(column.minimum),
        "maximum": plain_value(column.maximum),
        "top": [[plain_value(value), count] for value, count in column.top],
    }
    return {"name": column.name, "kind": column.kind.value, "rows": column.rows, **counted, **values}


def _from_json(ref: TableRef, stored: dict[str, Any]) -> TableProfile:
    stored.pop("profiled", None)
    columns = tuple(_column_from_json(column) for column in stored.pop("columns"))
    method, why = SampleMethod(stored.pop("method")), stored.pop("unsampled", None)
    unsampled = None if why is None else Unsampled(why)
    return TableProfile(ref=ref, method=method, columns=columns, unsampled=unsampled, **stored)


def _column_from_json(stored: dict[str, Any]) -> ColumnProfile:
    kind, top = ValueKind(stored.pop("kind")), tuple((value, count) for value, count in stored.pop("top"))
    return ColumnProfile(kind=kind, top=top, **stored)


@dataclass(frozen=True, slots=True)
class ProfileStore:
    """The profiles and value lists of one connection. `privacy` decides which values may be kept.

    Every method raises `StorageError` if the state database does not work.
    """

    database: StateDatabase
    state: Path
    connection: str
    privacy: Privacy

    def profiled_at(self) -> Mapping[TableRef, str]:
        """Return table -> the time of its last profile."""
        with translated(self.state):
            return load_profile_times(self.database, self.connection)

    def lists(self) -> tuple[ColumnValues, ...]:
        """Return the value lists."""
        with translated(self.state):
            return load_lists(self.database, self.connection)

    def last(self, fingerprint: str) -> tuple[StoredResults, tuple[TableProfile, ...]] | None:
        """Return the results and profiles of the last scan, or None if data or settings changed.

        The profiles are those that a model may see: they lack values, unless `privacy` is `off`.
        """
        with translated(self.state):
            stored = load_results(self.database, self.connection)
            if stored is None or stored.fingerprint != fingerprint:
                return None
            profiles = load_profiles(self.database, self.connection)
        return stored, profiles if self.privacy == "off" else tuple(map(without_values, profiles))

    def save(
        self,
        sampled: Sequence[SampledTable],
        dictionary: Dictionary,
        evidence: Sequence[Evidence] | None = None,
        waiting: Collection[TableRef] = (),
    ) -> None:
        """Replace everything stored for the connection, including the last results.

        `waiting`: tables that were not read, and have the profile of an earlier scan.
        Tables that were not read keep the old evidence about their references, without values. So do all tables if
        there is no new evidence.
        """
        profiled_at, moment = dict(self.profiled_at()), isoformat(now())
        late = (Unsampled.OUT_OF_TIME, Unsampled.OVER_BUDGET, Unsampled.NOT_READ, Unsampled.NOT_USED)
        # A table that was not reached keeps its old time, so that it comes first in the next run.
        reached = (
            each.profile for each in sampled if each.profile.unsampled not in late and each.profile.ref not in waiting
        )
        profiled_at.update((profile.ref, moment) for profile in reached)
        new = evidence or ()
        known = {(each.child, each.columns) for each in new}
        unread = [each.profile.ref for each in sampled if evidence is None or each.profile.unsampled is not None]
        with translated(self.state):
            old = load_evidence(self.database, self.connection, unread) if unread else ()
            kept = [each.without_values() for each in old if (each.child, each.columns) not in known]
            save_values(
                self.database,
                self.connection,
                sampled,
                dictionary,
                privacy=self.privacy,
                profiled_at=profiled_at,
                evidence=[*new, *kept],
            )

    def keep(self, results: StoredResults) -> None:
        """Store the results of the saved profiles for the next scan."""
        with translated(self.state):
            save_results(self.database, self.connection, results)


def shown_to_models(sampled: Iterable[SampledTable], privacy: Privacy) -> tuple[TableProfile, ...]:
    """Return the profiles as a model may see them: with row values only if `scan.privacy` is `off`."""
    return tuple(without_private(each) if privacy == "off" else without_values(each.profile) for each in sampled)
