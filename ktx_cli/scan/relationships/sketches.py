"""Sketches of columns of large tables: read with one statement for a table, and compared on this machine.

A sketch has all hashes of a column's distinct values below a threshold, and the number of rows with each. As equal
values have equal hashes, the hashes below the thresholds of two sketches are a random sample of the values of one
column, and each of them shows whether the other column has the value. (Beyer and others, "On synopses for
distinct-value estimation under multiset operations", 2007.)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import SourceError
from ktx_cli.scan.relationships.record import Check
from ktx_cli.telemetry import in_this_operation
from ktx_cli.warehouses import (
    HASHES,
    SKETCH_SIZE,
    Connector,
    ForwardingConnector,
    HashedKind,
    SketchedColumn,
    dialect_named,
    estimate_statement,
    hashed_kind,
    may_ask,
    samples_itself,
    sketch_statement,
)

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import ColumnFacts, TableFacts

LEAST_COMPARED: Final = 100
"""With fewer comparable hashes, two sketches say less than the values that were looked up, and nothing is known."""

STEADY_VALUES: Final = 400
"""The number of equally frequent values from which shares of rows are estimated."""

CERTAINTY: Final = 0.99
"""The probability with which a share is within its bounds."""

OVERDRAW: Final = 16
"""How many times more hashes a statement looks at than a sketch has, because the number of values is a guess."""

REFUTING_ERRORS: Final = 5
"""By how many standard errors the distinct values have to be fewer than the rows for a column to repeat values."""

COLUMNS_PER_STATEMENT: Final = 32
"""The maximum number of columns that one statement sketches."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """The hashes of a column's values below a threshold, with the number of rows of each.

    `filled`: the number of rows with a value.
    """

    hashes: Mapping[int, int]
    threshold: int
    filled: int

    @property
    def share(self) -> float:
        """The share of all hashes that are below the threshold."""
        return self.threshold / HASHES

    @property
    def complete(self) -> bool:
        """Whether it has the hashes of all values."""
        return self.threshold == HASHES

    @property
    def distinct(self) -> float:
        """The estimated number of distinct values."""
        return len(self.hashes) / self.share

    @property
    def error(self) -> float:
        """The standard error of `distinct`, as a share."""
        return 0.0 if self.complete else 1 / math.sqrt(max(1, len(self.hashes)))


@dataclass(frozen=True, slots=True)
class Containment:
    """How many of a column's values are in a key, by their sketches: of `compared` values, `missing` are not.

    `rows` and `missing_rows`: the rows with these values. `share`: the share of all hashes that are compared.
    `evenness`: the number of equally frequent values that would say as much about rows. `filled`: the column's rows.
    """

    compared: int
    missing: int
    rows: int
    missing_rows: int
    share: float
    evenness: float
    filled: int

    @property
    def complete(self) -> bool:
        """Whether all values were compared."""
        return self.share == 1

    @property
    def is_typical(self) -> bool:
        """Whether the compared values stand for the rows.

        If a few values have most rows, their hashes are either among the compared ones or not, and the rows of these
        do not add up to those of the column.
        """
        if self.evenness < STEADY_VALUES:
            return False
        return abs(self.rows / (self.share * self.filled) - 1) <= 3 / math.sqrt(self.evenness)

    def value_bounds(self) -> tuple[float, float]:
        """Return the bounds of the share of distinct values that are missing from the key."""
        return self._bounds(self.missing / self.compared, self.compared)

    def row_bounds(self) -> tuple[float, float]:
        """Return the bounds of the share of rows without a match, if the compared values are typical."""
        return self._bounds(self.missing_rows / self.rows, self.evenness)

    def _bounds(self, share: float, count: float) -> tuple[float, float]:
        return (share, share) if self.complete else share_bounds(share, count)

    def check(self, sampled: Check | None) -> Check | None:
        """Return the check of a relationship, or None if too few values are comparable.

        If the compared values are not typical, a value that many rows have may be missing from them, but not from the
        sample. The check is then the less favorable one of both.
        """
        if self.complete:
            return Check(self.rows, self.missing_rows, exact=True) if self.rows else None
        if self.compared < LEAST_COMPARED:
            return None
        if self.is_typical:
            return Check(self.rows, self.missing_rows, False, self.compared, round(self.row_bounds()[1], 4))
        check = Check(self.compared, self.missing, False, self.compared, round(self.value_bounds()[1], 4))
        return check if sampled is None or check.violations >= sampled.violations else sampled


def share_bounds(share: float, count: float) -> tuple[float, float]:
    """Return the bounds of the share in all values, by the share in `count` random ones.

    They are those of Chernoff and Hoeffding, which hold for any share and number, also without replacement.
    """
    most = math.log(2 / (1 - CERTAINTY)) / count
    return _furthest(share, 0.0, most), _furthest(share, 1.0, most)


def _furthest(share: float, end: float, most: float) -> float:
    """Return the share nearest to `end` whose divergence from another share is at most `most`."""
    inside, outside = share, end
    if _divergence(share, end) <= most:
        return end
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _divergence(share, middle) <= most else (inside, middle)
    return outside


def _divergence(share: float, other: float) -> float:
    parts = ((share, other), (1 - share, 1 - other))
    return sum(mine * math.log(mine / theirs) if theirs else math.inf for mine, theirs in parts if mine)


def containment(child: Sketch, key: Sketch) -> Containment | None:
    """Return how many of a column's values are in a key, or None if no hashes are comparable."""
    limit = min(child.threshold, key.threshold)
    compared = {hash_: rows for hash_, rows in child.hashes.items() if hash_ < limit}
    if not compared:
        return None
    missing = [rows for hash_, rows in compared.items() if hash_ not in key.hashes]
    rows = sum(compared.values())
    evenness = rows**2 / sum(count**2 for count in compared.values())
    return Containment(len(compared), len(missing), rows, sum(missing), limit / HASHES, evenness, child.filled)


def sketches_of(rows: Iterable[Sequence[Any]], columns: Sequence[SketchedColumn]) -> list[Sketch]:
    """Return the sketches in the answer to a `sketch_statement`."""
    hashes: dict[int, Counter[int]] = defaultdict(Counter)
    returned: Counter[int] = Counter()
    filled: Counter[int] = Counter()
    for position, written, count, total in rows:
        number = int(position)
        returned[number] += 1
        filled[number] = int(total)
        hash_ = int(written or "0", 16) if isinstance(written, str) else int(written)
        if hash_:
            hashes[number][hash_] += int(count)
    sketches = []
    for number, column in enumerate(columns):
        found, threshold = hashes[number], column.limit
        if returned[number] > SKETCH_SIZE:  # There may be more, and the largest of these is the first that is not kept.
            threshold = max(found)
            del found[threshold]
        sketches.append(Sketch(dict(found), threshold, filled[number]))
    return sketches


def kind_of(column: ColumnFacts, dialect: str) -> tuple[HashedKind, bool] | None:
    """Return the kind of a column's hashes and whether it ignores case, or None if they cannot be compared."""
    kind = hashed_kind(column.column, dialect)
    if kind is None:
        return None
    folds = kind is HashedKind.TEXT and dialect_named(dialect).folds_texts
    return kind, folds and column.name not in column.table.sampled.exact


def likely_distinct(column: ColumnFacts) -> float:
    """Return a cautious estimate of the distinct values in all rows, from those in the sample that are there once and
    twice (Chao, 1984). It is at most the number of rows.
    """
    once = twice = 0
    for count in column.counts.values():
        once += count == 1
        twice += count == 2
    unseen = once * (once - 1) / (2 * (twice + 1))
    filled = column.table.rows * column.filled / max(1, column.profile.rows)
    return min(column.distinct + unseen, filled)


Wanted = tuple["ColumnFacts", Any]
"""A column to sketch, and a value that counts as NULL, or None for none."""


@dataclass(slots=True)
class SketchReader:
    """Reads the sketches of columns, each at most once.

    `is_out_of_time` returns whether no statement may be sent any more. `note` records which statement failed, and why.
    `late`: the columns that were not sketched because time was up.
    """

    connector: Connector
    concurrency: int
    is_out_of_time: Callable[[], bool]
    note: Callable[[str, SourceError], None]
    statements: int = 0
    late: set[ColumnFacts] = field(default_factory=set)
    _sketches: dict[Wanted, Sketch | None] = field(default_factory=dict)
    _estimates: dict[ColumnFacts, tuple[float, float]] = field(default_factory=dict)
    _estimated: set[TableFacts] = field(default_factory=set)
    _is_broken: bool = False
    _lock: Lock = field(default_factory=Lock)

    def can_compare(self, child: ColumnFacts, key: ColumnFacts) -> bool:
        """Return whether equal values of two columns have equal hashes.

        A connector that reads all rows to run SQL on them has no sketches.
        """
        kind = None if samples_itself(self.connector) else kind_of(child, self.connector.dialect)
        return kind is not None and kind == kind_of(key, self.connector.dialect)

    def read(self, wanted: Iterable[Wanted]) -> None:
        """Read the sketches that are not known yet."""
        by_table: dict[TableFacts, list[Wanted]] = defaultdict(list)
        for each in dict.fromkeys(wanted):
            if each not in self._sketches and each[0] not in self.late:
                by_table[each[0].table].append(each)
        groups = []
        for own in by_table.values():
            own.sort(key=lambda each: (each[0].position, repr(each[1])))  # The statement is the same in the next scan.
            starts = range(0, len(own), COLUMNS_PER_STATEMENT)
            groups += [own[start : start + COLUMNS_PER_STATEMENT] for start in starts]
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="ktx-sketch") as pool:
            for _ in pool.map(in_this_operation(self._read), groups):
                pass

    def containment(self, child: ColumnFacts, key: ColumnFacts, excluded: Any = None) -> Containment | None:
        """Return how many of a column's values are in a key, or None if one of the two has no sketch.

        `excluded`: the value of the column that counts as NULL.
        """
        mine, theirs = self._sketches.get((child, excluded)), self._sketches.get((key, None))
        return None if mine is None or theirs is None else containment(mine, theirs)

    def repeats(self, column: ColumnFacts, others: Sequence[ColumnFacts]) -> bool:
        """Return whether a column certainly repeats values. `others`: columns of its table to estimate as well."""
        if column.table not in self._estimated and not samples_itself(self.connector):
            self._estimated.add(column.table)
            self._estimate(list(dict.fromkeys([column, *others])))
        if column not in self._estimates:
            return False
        repeated, error = self._estimates[column]
        return repeated > REFUTING_ERRORS * error

    def _estimate(self, columns: Sequence[ColumnFacts]) -> None:
        """Estimate the distinct values of columns of one table, by sketches if the database has no aggregate for it."""
        if self._estimate_in_database(columns):
            return
        hashed = [column for column in columns if kind_of(column, self.connector.dialect) is not None]
        self.read([(column, None) for column in hashed])
        for column in hashed:
            sketch = self._sketches.get((column, None))
            if sketch is not None and sketch.filled:
                self._estimates[column] = 1 - sketch.distinct / sketch.filled, sketch.error

    def _estimate_in_database(self, columns: Sequence[ColumnFacts]) -> bool:
        """Return whether the database estimated the distinct values. An older version may lack the aggregate."""
        dialect, table = self.connector.dialect, columns[0].table.table
        statement = estimate_statement(table, [column.column for column in columns], dialect)
        if statement is None:
            return False
        if not may_ask(self.connector, statement, max_rows=1, is_late=self.is_out_of_time()):
            return True
        self.statements += 1
        try:
            ((*counts,),) = self.connector.query(statement, max_rows=1).rows
        except SourceError as error:
            if error.code == "connection":
                raise
            return False
        deviation = dialect_named(dialect).distinct_error
        for column, filled, distinct in zip(columns, counts[::2], counts[1::2], strict=True):
            if filled:
                self._estimates[column] = 1 - int(distinct) / int(filled), deviation
        return True

    def _read(self, wanted: Sequence[Wanted]) -> None:
        """Read the sketches of columns of one table, one by one if the common statement fails.

        It may take too long, or one of the columns makes it fail. If a single column takes too long, so would the
        others. If no column has a sketch yet, the database has none, and is asked no more. Columns that an earlier scan
        read one by one are not sent again with others.
        """
        together = list(wanted)
        if not self._is_recalled(wanted):
            together = [each for each in wanted if not self._is_recalled([each])]
        singly = [each for each in wanted if len(together) < 2 or each not in together]
        if len(together) > 1:
            try:
                self._send(together)
            except SourceError as error:
                if error.code == "connection":
                    raise
                singly = list(wanted)
        for each in singly:
            if self._is_broken:
                return
            try:
                self._send([each])
            except SourceError as error:
                self._sketches[each] = None
                self.note(f"could not sketch {each[0]}", error)
                self._is_broken = error.code != "timeout" and not any(self._sketches.values())
                if error.code == "timeout":
                    return

    def _send(self, wanted: Sequence[Wanted]) -> None:
        """Read sketches with one statement, if there is time. Raises `SourceError`."""
        statement, most = self._statement(wanted), len(wanted) * (SKETCH_SIZE + 1)
        with self._lock:
            if not may_ask(self.connector, statement, max_rows=most, is_late=self.is_out_of_time()):
                self.late.update(column for column, _ in wanted)
                return
            self.statements += 1
        result = self.connector.query(statement, max_rows=most)
        if result.truncated:  # By the size of the answer.
            self._sketches.update(dict.fromkeys(wanted))
            return
        sketched = [self._sketched(*each) for each in wanted]
        self._sketches.update(zip(wanted, sketches_of(result.rows, sketched), strict=True))

    def _is_recalled(self, wanted: Sequence[Wanted]) -> bool:
        """Return whether the answer of an earlier scan is used for these sketches together."""
        statement, most = self._statement(wanted), len(wanted) * (SKETCH_SIZE + 1)
        return isinstance(self.connector, ForwardingConnector) and self.connector.recalls(statement, max_rows=most)

    def _statement(self, wanted: Sequence[Wanted]) -> str:
        sketched = [self._sketched(*each) for each in wanted]
        return sketch_statement(wanted[0][0].table.table, sketched, self.connector.dialect)

    def _sketched(self, column: ColumnFacts, excluded: Any) -> SketchedColumn:
        kind = kind_of(column, self.connector.dialect)
        share = min(1.0, OVERDRAW * SKETCH_SIZE / max(1.0, likely_distinct(column)))
        return SketchedColumn(column.column, share, kind is not None and kind[1], excluded)
