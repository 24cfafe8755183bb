"""Compares eval answers with the expected results, and stores the outcomes to detect regressions.

Values must be equal except for the given tolerance. Numbers are compared as decimals (`1` equals `1.0`), and floats to
15 significant digits (`0.30000000000000004` equals `0.3`). A text that is a number equals that number, because
databases return decimals as texts. Two texts are compared literally or as timestamps. `true` equals `1`, for databases
without booleans. NULL equals only `null`. The order of rows counts if the question sorts them.

The state database stores the outcome of each case: a case that passed before and fails now has regressed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from ktx_cli.core import (
    EXIT_LIMIT,
    EXIT_NOT_READY,
    EXIT_UNREACHABLE,
    Command,
    Diagnostic,
    KtxError,
    Location,
    NumberFormat,
    Record,
    Severity,
    listing,
    plain_number,
    plural,
)
from ktx_cli.jobs.check.eval.cases import Case, Expectation
from ktx_cli.project import (
    Layout,
    StateDatabase,
    Warn,
    ignore_warning,
    open_for_writing,
    read_state,
    transaction,
    translated,
)

Row = Sequence[Any]

MOST_TOO_MANY: Final = 1_000
"""The maximum number of surplus rows for a row-by-row comparison."""

_NULL, _NUMERIC, _TEXT, _NESTED = range(4)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([+-]\d\d(:?\d\d)?|Z)?)?")
_NUMBER: Final = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,4})?")


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """The answer to a case as JSON values.

    `ordered` is true if the question sorts the rows. `formats` are the number formats of the columns, if requested.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    ordered: bool = False
    formats: tuple[NumberFormat | None, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the first rows for the envelope."""
        rows = [list(row) for row in self.rows[:SHOWN_ROWS]]
        return {"columns": list(self.columns), "rows": rows, "row_count": len(self.rows)}


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """The difference between an answer and the expected result: a sentence, and the missing and unexpected rows.

    `sides` are the names of the sides with the missing and with the unexpected rows.
    """

    message: str
    columns: tuple[str, ...] = ()
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    sides: tuple[str, str] = ("expected", "got")

    json_keys = ("message", "columns", "missing", "unexpected")


def difference(expect: Expectation, answer: CaseAnswer) -> Difference | None:
    """Return the difference between an answer and the expected result, or None if they are equal."""
    tolerance = Decimal(repr(expect.tolerance))
    if expect.has_value:
        return _of_value(expect.to_json()["value"], answer, tolerance)
    if expect.table is not None:
        columns, rows = expect.table
        return _of_rows(columns, rows, answer, tolerance)
    if len(answer.rows) == expect.rows:
        return None
    return Difference(f"expected {plural(expect.rows, 'row')}, got {len(answer.rows):,}")


def comparison(sql: CaseAnswer, query: CaseAnswer, tolerance: float) -> Difference | None:
    """Return the difference between the answers of a query and its SQL, or None if they are equal.

    The case of column names does not matter, nor does the name of a single column. The order of rows counts if both
    sides sort them.
    """
    allowed, sides = Decimal(repr(tolerance)), ("sql", "query")
    if len(sql.columns) != len(query.columns):
        message = f"the SQL has {plural(len(sql.columns), 'column')}, the query has {len(query.columns):,}"
        return Difference(f"{message}: {listing(sql.columns, 10)} and {listing(query.columns, 10)}", sides=sides)
    names = {name.casefold(): name for name in query.columns}
    columns = [names.get(name.casefold(), name) for name in sql.columns]
    if len(columns) == 1:
        columns = list(query.columns)
    if sorted(columns) != sorted(query.columns):
        both = f"{listing(sql.columns, 10)} and {listing(query.columns, 10)}"
        return Difference(f"the columns of the SQL and of the query have different names: {both}", sides=sides)
    asked = replace(query, ordered=sql.ordered and query.ordered)
    found = _of_rows(columns, sql.rows, asked, allowed)
    if found is None:
        return None
    parts = ((found.missing, "the SQL"), (found.unexpected, "the query"))
    only = [f"{plural(len(rows), 'row')} only in {where}" for rows, where in parts if rows]
    message = f"the query and the SQL differ: {', '.join(only)}"
    if not only and len(sql.rows) != len(query.rows):
        message = f"the SQL has {plural(len(sql.rows), 'row')}, the query has {len(query.rows):,}"
    elif not only:
        message = "the query returns the rows of the SQL in a different order"
    return replace(found, message=message, sides=sides)


def _of_value(expected: Any, answer: CaseAnswer, tolerance: Decimal) -> Difference | None:
    if len(answer.rows) != 1 or len(answer.columns) != 1:
        size = f"{plural(len(answer.rows), 'row')} of {plural(len(answer.columns), 'column')}"
        return Difference(f"expected one value, got {size}")
    ((value,),) = answer.rows
    if same_value(expected, value, tolerance):
        return None
    message = f"expected {_value_text(expected)}, got {_value_text(value)}"
    return Difference(message, answer.columns, ((expected,),), ((value,),))


def _of_rows(columns: Sequence[str], rows: Sequence[Row], answer: CaseAnswer, tolerance: Decimal) -> Difference | None:
    if not rows and not answer.rows:
        return None
    if rows and sorted(columns) != sorted(answer.columns):
        return Difference(f"expected the columns {listing(columns, 10)}, got {listing(answer.columns, 10)}")
    wanted = _reordered(columns, rows, answer.columns)
    if _same_in_order(wanted, answer.rows, tolerance):
        return None
    if _same_in_order(_sorted(wanted), _sorted(answer.rows), tolerance):
        return _of_order(answer)
    if len(answer.rows) > len(rows) + MOST_TOO_MANY:
        return Difference(f"expected {plural(len(rows), 'row')}, got {len(answer.rows):,}")
    missing, unexpected = _unmatched(wanted, answer.rows, tolerance)
    if not missing and not unexpected:  # values that compare equal, such as [] and {}, were sorted differently
        return _of_order(answer)
    return _row_difference(answer.columns, missing, unexpected)


def _of_order(answer: CaseAnswer) -> Difference | None:
    """Return the difference if only the order of the rows differs, or None if the question does not sort them."""
    return Difference("the rows are in the wrong order", answer.columns) if answer.ordered else None


def _row_difference(columns: tuple[str, ...], missing: Sequence[Row], unexpected: Sequence[Row]) -> Difference:
    parts = [f"{plural(len(missing), 'row')} missing"] if missing else []
    parts += [f"{plural(len(unexpected), 'unexpected row')}"] if unexpected else []
    return Difference(", ".join(parts), columns, tuple(missing), tuple(unexpected))


def _reordered(columns: Sequence[str], rows: Sequence[Row], wanted: Sequence[str]) -> list[Row]:
    """Return the rows with their columns reordered. Columns with the same name keep their order."""
    if list(columns) == list(wanted) or not rows or len(set(columns)) < len(columns):
        return list(rows)
    places = [list(columns).index(name) for name in wanted]
    return [[row[place] for place in places] for row in rows]


def _same_in_order(expected: Sequence[Row], got: Sequence[Row], tolerance: Decimal) -> bool:
    return len(expected) == len(got) and all(
        _same_row(one, two, tolerance) for one, two in zip(expected, got, strict=True)
    )


def _same_row(expected: Row, got: Row, tolerance: Decimal) -> bool:
    return all(same_value(one, two, tolerance) for one, two in zip(expected, got, strict=True))


def _unmatched(expected: Sequence[Row], got: Sequence[Row], tolerance: Decimal) -> tuple[list[Row], list[Row]]:
    """Return the rows on each side that match no row on the other."""
    alike: dict[Any, list[int]] = defaultdict(list)
    for place, row in enumerate(got):
        alike[_bucket(row, tolerance)].append(place)
    missing, taken = [], set()
    for row in expected:
        candidates = alike[_bucket(row, tolerance)]
        match = next((place for place in candidates if _same_row(row, got[place], tolerance)), None)
        if match is None:
            missing.append(row)
        else:
            candidates.remove(match)
            taken.add(match)
    return missing, [row for place, row in enumerate(got) if place not in taken]


def _bucket(row: Row, tolerance: Decimal) -> tuple[Any, ...]:
    """Return a key shared by equal rows. With a tolerance, it ignores numbers."""
    ranks = map(_rank, row)
    return tuple(rank[:1] if tolerance and rank[0] in (_NUMERIC, _NESTED) else rank for rank in ranks)


def same_value(expected: Any, got: Any, tolerance: Decimal = Decimal(0)) -> bool:
    """Return whether a JSON value equals the expected one."""
    if expected is None or got is None:
        return expected is got
    if isinstance(expected, str) and isinstance(got, str):
        return expected == got or (_moment(expected) is not None and _moment(expected) == _moment(got))
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and _same_row(expected, got, tolerance)
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return expected.keys() == got.keys() and all(same_value(expected[key], got[key], tolerance) for key in got)
    one, two = _number(expected), _number(got)
    return one is not None and two is not None and abs(one - two) <= tolerance


def _number(value: Any) -> Decimal | None:
    """Return the exact number in a value or text, with floats rounded, or None if it is not a number."""
    if isinstance(value, bool):
        return Decimal(int(value))
    text = plain_number(value) if isinstance(value, int | float) else value
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _moment(text: str) -> datetime | None:
    """Parse an ISO date or timestamp. A date is its midnight."""
    if _MOMENT.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [_rank(value) for value in row])


def _rank(value: Any) -> tuple[int, Decimal, str]:
    """Return a sort key that is the same for equal values."""
    number = _number(value)
    if number is not None:
        return _NUMERIC, number, ""
    if isinstance(value, str):
        moment = _moment(value)
        return _TEXT, Decimal(0), value if moment is None else _utc(moment).isoformat()
    return (_NULL if value is None else _NESTED), Decimal(0), "" if value is None else repr(_ranks(value))


def _ranks(value: Any) -> Any:
    """Return the sort key of a nested value."""
    if isinstance(value, list):
        return [_ranks(item) for item in value]
    if isinstance(value, Mapping):
        return [(key, _ranks(value[key])) for key in sorted(value)]
    kind, number, text = _rank(value)
    return kind, str(number.normalize()), text


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def _value_text(value: Any) -> str:
    return "NULL" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Past(Record):
    """The stored outcome of a case.

    `digest` identifies the question and expected result; `passed` is the time when the case last passed, if ever.
    """

    digest: str
    status: str
    finished: str
    passed: str | None
    milliseconds: int

    json_keys = ("status", "finished", "passed", "milliseconds")


def read_history(layout: Layout) -> dict[str, Past]:
    """Return the last outcomes by case name. Raises `StorageError`."""

    def ask(database: StateDatabase) -> dict[str, Past]:
        rows = database.execute("SELECT name, digest, status, finished, passed, milliseconds FROM evals")
        return {name: Past(*rest) for name, *rest in rows}

    with translated(layout.state):
        return read_state(layout, ask) or {}


def write_history(
    layout: Layout, ended: Mapping[str, Past], known: Collection[str], warn: Warn = ignore_warning
) -> None:
    """Store the outcomes of cases, and delete those of cases that are not in `known`. Raises `StorageError`."""
    rows = [(name, p.digest, p.status, p.finished, p.passed, p.milliseconds) for name, p in ended.items()]
    with open_for_writing(layout, warn) as database, translated(layout.state), transaction(database):
        gone = [(name,) for (name,) in database.execute("SELECT name FROM evals") if name not in known]
        database.executemany("DELETE FROM evals WHERE name = ?", gone)
        database.executemany("INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?, ?, ?)", rows)


Status = Literal["pass", "regress", "fail", "new", "error", "skip"]

STATUSES: Final[tuple[Status, ...]] = ("pass", "regress", "fail", "error", "new", "skip")
WRONG: Final = frozenset({"regress", "fail", "error"})
"""The statuses that make the command fail."""

SHOWN_ROWS: Final = 100
"""The maximum number of rows in the envelope, for an answer and for each side of a difference."""

_NAMED: Final = 5
_ABOUT_THE_WAY: Final = frozenset({EXIT_NOT_READY, EXIT_UNREACHABLE, EXIT_LIMIT})


@dataclass(frozen=True, slots=True)
class Taken(Record):
    """The model usage: tokens, and their price in dollars, or None if the price is unknown."""

    model: str
    tokens: int
    usd: float | None

    json_keys = ("model", "tokens", "cost_usd=usd")


@dataclass(frozen=True, slots=True)
class ComparedAnswers(Record):
    """The details of a case with `query` and `sql`: the answer of the SQL, both statements and the receipt."""

    answer: CaseAnswer = field(repr=False)
    sql: str
    query_sql: str
    receipt: Mapping[str, Any]

    json_keys = ("answer", "sql", "query_sql", "receipt")


@dataclass(slots=True)
class CaseResult(Record):
    """The result of one case.

    `reason` explains why it was skipped, `query` is the query of the model, and `before` is the previous outcome.
    `compared` is set for a case with `query` and `sql`: the answer of its SQL, the SQL of its query and the receipt.
    """

    case: Case
    status: Status
    seconds: float = 0.0
    answer: CaseAnswer | None = None
    difference: Difference | None = None
    error: KtxError | None = None
    reason: str = ""
    query: Mapping[str, Any] | None = None
    taken: Taken | None = None
    before: Past | None = None
    accepted: bool = False
    compared: ComparedAnswers | None = None

    @property
    def milliseconds(self) -> int:
        """The duration in milliseconds."""
        return round(self.seconds * 1000)

    @property
    def what(self) -> str:
        """A one-line summary."""
        if self.error is not None:
            return f"{self.error.code}: {self.error.message}"
        if self.difference is not None:
            return self.difference.message
        if self.status == "new" and self.answer is not None:
            done = "accepted: " if self.accepted else ""
            return f"{done}{plural(len(self.answer.rows), 'row')}"
        return self.reason

    @property
    def diagnostic(self) -> Diagnostic | None:
        """The result as a diagnostic, or None if the case passed."""
        severity = Severity.ERROR if self.status in WRONG else Severity.INFO
        if self.status == "pass":
            return None
        place = Location(self.case.path, self.case.line)
        hint = self.error.hint if self.error is not None else None
        return Diagnostic(f"eval_{self.status}", severity, f"{self.case.name}: {self.what}", place, hint)

    @property
    def shown_difference(self) -> Difference | None:
        """The difference, with the rows limited for the envelope."""
        found = self.difference
        if found is None:
            return None
        return replace(found, missing=found.missing[:SHOWN_ROWS], unexpected=found.unexpected[:SHOWN_ROWS])

    json_keys = (
        *("name=case.name", "path=case.path", "line=case.line", "question=case.asked.question", "kind=case.asked.kind"),
        *("connection=case.connection", "status", "message=what", "milliseconds", "expected=case.asked.expect"),
        *("answer", "difference=shown_difference", "compared", "query", "model=taken", "previous=before", "accepted"),
        "error",
    )


@dataclass(slots=True)
class EvalReport(Record):
    """The results of all cases in order. `seconds` is the total duration, including shared work."""

    results: list[CaseResult] = field(default_factory=list)
    seconds: float = 0.0
    saved: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The number of cases with each status."""
        return {status: sum(result.status == status for result in self.results) for status in STATUSES}

    @property
    def summary(self) -> str:
        """The number of cases by how they ended, such as `3 passed, 1 failed`; `none` without cases."""
        counts = self.counts
        return ", ".join(f"{counts[status]:,} {_WORDS[status]}" for status in STATUSES if counts[status]) or "none"

    @property
    def tokens(self) -> int:
        """The total number of tokens."""
        return sum(result.taken.tokens for result in self.results if result.taken is not None)

    @property
    def usd(self) -> float | None:
        """The total price, or None if any price is unknown."""
        prices = [result.taken.usd for result in self.results if result.taken is not None]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    @property
    def milliseconds(self) -> int:
        """The duration in milliseconds."""
        return round(self.seconds * 1000)

    json_keys = ("cases=results", "counts", "milliseconds", "tokens", "cost_usd=usd", "saved")

    def error(self) -> KtxError | None:
        """Return the error of the command, if any. If no case could run for the same reason, it is that reason."""
        wrong = [result for result in self.results if result.status in WRONG]
        if not wrong:
            return None
        codes = {result.error.exit_code if result.error is not None else None for result in self.results}
        first = wrong[0].error
        if len(codes) == 1 and first is not None and first.exit_code in _ABOUT_THE_WAY:
            return first
        counts = self.counts
        parts = [f"{counts[status]:,} {_WORDS[status]}" for status in STATUSES if status in WRONG and counts[status]]
        names = [result.case.name for result in wrong]
        return KtxError(
            f"{len(wrong):,} of {plural(len(self.results), 'eval')} did not pass: {', '.join(parts)}",
            hint=Command("eval", *names[:_NAMED], "--verbose"),
            details={"names": names, **counts},
            code="evals_failed",
        )


_WORDS: Final[Mapping[Status, str]] = {
    "pass": "passed",
    "regress": "regressed",
    "fail": "failed",
    "error": "could not be run",
    "new": "new",
    "skip": "skipped",
}
