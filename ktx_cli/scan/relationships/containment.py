"""Whether the values of a column are among those of a key: in memory where all rows are there, else in the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import SourceError
from ktx_cli.scan.profile.counts import comparable, fold_of
from ktx_cli.scan.relationships.facts import ColumnFacts
from ktx_cli.scan.relationships.model import Check
from ktx_cli.warehouses import Connector, SampleLimits, Table, column_list, quote, table_path, value_list, value_of

PROBED_VALUES = 60
"""How many values of a column are looked up in a key that is larger than its sample."""

VALUES_A_STATEMENT = 1500
"""How many values one statement looks up, for all columns together."""

EXACT_ROWS = 5_000_000
"""Tables with more rows are not joined to confirm an edge; what the sample says stands."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How the values of a column meet those of a key.

    `rows`, `missing`: rows of the child's sample (or of the probed values) with a value, and those that find none.
    `hits`: different values that are found. `exact`: both tables were looked at whole. `blank`: the value that stands
    for NULL, and counts as it; `blank_rows` of the child's sample have it.
    """

    rows: int
    missing: int
    distinct: int
    hits: int
    exact: bool
    blank: Any = None
    blank_rows: int = 0

    @property
    def violations(self) -> float:
        """The share of rows that find nothing."""
        return self.missing / self.rows if self.rows else 0.0


SENTINELS: Final = frozenset(
    {0, -1, 999, 9999, 99999, 999999, 9999999, 99999999, 999999999, 2147483647}
    | {"", "0", "-1", "-", "?", "n/a", "none", "null", "unknown"}
)
"""What programs write where there is no reference; no orphan where no key has it."""


def overlap_in_memory(child: ColumnFacts, key: ColumnFacts) -> Overlap:
    """Compare a column with a key whose rows are all in the sample; a sentinel counts as NULL."""
    mine, theirs = child.counts, key.counts
    rows = child.profile.filled
    if mine.keys() <= theirs.keys():
        return Overlap(rows, 0, len(mine), len(mine), child.table.complete)
    lost = mine.keys() - theirs.keys()
    hits = len(mine) - len(lost)
    blank = _blank_of(lost) if hits else None
    if blank is not None:
        rows -= mine[blank]
        lost = lost - {blank}
    missing = sum(mine[value] for value in lost)
    blank_rows = child.profile.filled - rows
    return Overlap(rows, missing, hits + len(lost), hits, child.table.complete, blank, blank_rows)


def _blank_of(lost: Iterable[Any]) -> Any:
    """Return the value among those not found that stands for NULL; None where there is none, or several."""
    blanks = [value for value in lost if _is_sentinel(value)]
    return blanks[0] if len(blanks) == 1 else None


def _is_sentinel(value: Any) -> bool:
    return (value.strip().lower() if isinstance(value, str) else value) in SENTINELS


class Prober:
    """Looks up values of columns in keys that are larger than their samples; one statement for many columns.

    `is_over` says when nothing is looked up any more; `late`: the keys that was too late for.
    """

    def __init__(self, connector: Connector, is_over: Callable[[], bool] = lambda: False) -> None:
        self._connector = connector
        self._is_over = is_over
        self.late: set[ColumnFacts] = set()
        self.statements = 0
        self.problems: list[str] = []

    def overlaps(
        self, pairs: Iterable[tuple[ColumnFacts, ColumnFacts]]
    ) -> dict[tuple[ColumnFacts, ColumnFacts], Overlap]:
        """Return what was found out; a pair whose lookup failed is left out, and `problems` says why."""
        by_key: dict[ColumnFacts, list[ColumnFacts]] = defaultdict(list)
        for child, key in pairs:
            by_key[key].append(child)
        found = {}
        for key, children in by_key.items():
            if self._is_over():
                self.late.add(key)
                continue
            for child, overlap in self._look_up(key, children).items():
                found[child, key] = overlap
        return found

    def _look_up(self, key: ColumnFacts, children: Sequence[ColumnFacts]) -> dict[ColumnFacts, Overlap]:
        wanted = {child: _spread(child.counts, PROBED_VALUES) for child in children}
        known = set(key.counts)
        unknown = sorted({value for values in wanted.values() for value in values} - known, key=repr)
        try:
            present = known | self._existing(key, unknown)
        except (SourceError, ValueError) as error:
            if isinstance(error, SourceError) and error.code == "connection":
                raise
            return self._one_by_one(key, children, error)
        return {child: _probed(child, values, present) for child, values in wanted.items()}

    def _one_by_one(
        self, key: ColumnFacts, children: Sequence[ColumnFacts], error: Exception
    ) -> dict[ColumnFacts, Overlap]:
        """Look up each column alone, because the values of one made the statement of all fail."""
        if len(children) == 1:
            self.problems.append(f"values of {children[0]} could not be looked up in {key}: {error}")
            return {}
        return {child: overlap for each in children for child, overlap in self._look_up(key, [each]).items()}

    def _existing(self, key: ColumnFacts, values: Sequence[Any]) -> set[Any]:
        """Return those of the values that the key has, spelled as the counts of samples are."""
        present: set[Any] = set()
        for start in range(0, len(values), VALUES_A_STATEMENT):
            present |= self._found(key, values[start : start + VALUES_A_STATEMENT])
        return present

    def _found(self, key: ColumnFacts, values: Sequence[Any]) -> set[Any]:
        dialect = self._connector.dialect
        read = value_of(key.column, dialect, SampleLimits().text)
        path = table_path(key.table.table.ref, dialect)
        listed = value_list(values, dialect)
        statement = f"SELECT DISTINCT {read} FROM {path} WHERE {quote(key.name, dialect)} IN ({listed})"
        self.statements += 1
        rows = self._connector.query(statement, max_rows=2 * len(values)).rows
        fold = fold_of(dialect, exact=key.name in key.table.sampled.exact)
        return {comparable(row[0], fold) for row in rows}


def check_in_database(
    connector: Connector, child: Table, columns: Sequence[str], parent: Table, keys: Sequence[str], *, blank: Any = None
) -> Check:
    """Count the child's rows with a value in all columns, and those that find no row of the parent.

    `blank`: a value that stands for NULL. Raises `SourceError`, also when the two cannot be compared.
    """
    dialect = connector.dialect
    own = [f"c.{quote(column, dialect)}" for column in columns]
    join = " AND ".join(f"{mine} = p.{quote(key, dialect)}" for mine, key in zip(own, keys, strict=True))
    given = " AND ".join(f"{mine} IS NOT NULL" for mine in own)
    if blank is not None:
        given += "".join(f" AND {mine} <> {value_list([blank], dialect)}" for mine in own)
    mark = _unused(keys)
    # ClickHouse fills a row that finds nothing with zeros, not with NULL: the mark tells either.
    statement = (
        f"SELECT count(*), sum(CASE WHEN p.{mark} = 1 THEN 0 ELSE 1 END) "
        f"FROM {table_path(child.ref, dialect)} AS c LEFT JOIN "
        f"(SELECT DISTINCT {column_list(keys, dialect)}, 1 AS {mark} FROM {table_path(parent.ref, dialect)}) AS p "
        f"ON {join} WHERE {given}"
    )
    ((rows, missing),) = connector.query(statement, max_rows=1).rows
    return Check(int(rows), int(missing or 0), exact=True)


def is_unique_in_database(connector: Connector, table: Table, columns: Sequence[str]) -> bool:
    """Whether no combination of values of these columns stands twice in the whole table. Raises `SourceError`."""
    dialect = connector.dialect
    listed = column_list(columns, dialect)
    given = " AND ".join(f"{quote(column, dialect)} IS NOT NULL" for column in columns)
    statement = (
        f"SELECT count(*) FROM (SELECT {listed} FROM {table_path(table.ref, dialect)} WHERE {given} "
        f"GROUP BY {listed} HAVING count(*) > 1) AS repeated"
    )
    ((repeated,),) = connector.query(statement, max_rows=1).rows
    return int(repeated) == 0


def _spread(counts: Mapping[Any, int], count: int) -> list[Any]:
    values = list(counts)
    return values[:: max(1, len(values) // count)][:count]


def _probed(child: ColumnFacts, values: Sequence[Any], present: set[Any]) -> Overlap:
    lost = [value for value in values if value not in present]
    hits = len(values) - len(lost)
    blank = _blank_of(lost) if hits else None
    kept = [value for value in values if value != blank or blank is None]
    missing = sum(child.counts[value] for value in lost if value != blank or blank is None)
    rows = sum(child.counts[value] for value in kept)
    blank_rows = 0 if blank is None else child.counts[blank]
    return Overlap(rows, missing, len(kept), hits, exact=False, blank=blank, blank_rows=blank_rows)


def _unused(names: Sequence[str]) -> str:
    """Return a name that is none of these."""
    taken, mark = {name.lower() for name in names}, "found"
    while mark in taken:
        mark += "_"
    return mark
