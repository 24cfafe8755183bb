"""Recompute an answer's numbers from raw rows and compare them. `cells` contains the computation.

Only the resolution of names and paths is shared with the compiler. Every row is checked on request, and a sample within
a short time whenever a number counts rows outside its period.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from ktx_cli.core import SourceError, monotonic
from ktx_cli.semantic.compile.build import Build
from ktx_cli.semantic.expressions.names import placeholders
from ktx_cli.semantic.plan.plan import Output, Plan
from ktx_cli.semantic.probes import is_over_time
from ktx_cli.warehouses import Connector, QueryResult, ended_at, is_interruptible

SECONDS: Final = 30.0
"""Time limit in seconds for checking every row."""

SAMPLE: Final = 10
"""Maximum rows of a sample: the first, the last, and others evenly between them."""

LEAST_SECONDS: Final = 0.05
SHARE: Final = 0.2
"""Time limit of a sample: 50 ms or a fifth of the statement's duration, whichever is longer."""

_TOLERANCE: Final = 1e-9
_FLOAT_NOISE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A number that differs: the dimensions of its row, its column and both values."""

    row: tuple[Any, ...]
    column: str
    answered: Any
    verified: Any


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: how many `rows` and `numbers` were checked, and the mismatches.

    `sampled` means that only a sample was requested. `skipped` maps columns that were not recomputed to the reason.
    `stopped` explains why fewer rows were checked than requested.
    """

    rows: int
    of: int
    skipped: dict[str, str]
    mismatches: tuple[Mismatch, ...]
    numbers: int = 0
    sampled: bool = False
    stopped: str | None = None
    milliseconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the data for the receipt."""
        return {
            "sampled": self.sampled,
            "rows": self.rows,
            "of": self.of,
            "numbers": self.numbers,
            "skipped": dict(self.skipped),
            "stopped": self.stopped,
            "mismatches": [
                {"row": list(map(_plain, mismatch.row)), "column": mismatch.column}
                | {"answered": _plain(mismatch.answered), "verified": _plain(mismatch.verified)}
                for mismatch in self.mismatches
            ],
        }


AskAgain = Callable[[], Sequence[Sequence[Any]]]
"""Runs the answer's statement again and returns its rows."""


def verify(
    build: Build,
    rows: Sequence[Sequence[Any]],
    connector: Connector,
    *,
    seconds: float = SECONDS,
    ask_again: AskAgain | None = None,
) -> Verified:
    """Recompute every row of an answer within `seconds`, and compare them. Numbers may differ by a relative 1e-9.

    `ask_again` detects rows that have changed in the meantime. Raises database errors, except for timeouts.
    """
    found = _Verification(build, connector, build.plan.outputs, seconds).run(rows, len(rows))
    return _without_changed(found, build.plan, ask_again)


def verify_sample(
    build: Build,
    rows: Sequence[Sequence[Any]],
    connector: Connector,
    *,
    statement_seconds: float,
    ask_again: AskAgain | None = None,
) -> Verified | None:
    """Recompute a sample of rows if numbers count rows outside their periods. Otherwise returns None.

    `statement_seconds` is the duration of the statement, which determines the time limit. If the database rejects a
    statement of the verification, the result reports it and the answer stays valid.
    """
    over_time = [output for output in build.plan.outputs if _is_over_time(build.plan, output)]
    if not over_time:
        return None
    from ktx_cli.semantic.cells import leaf_of

    # Spend the time on more rows instead of columns that are computed from other columns.
    bare = {leaf_of(output) for output in build.plan.outputs}
    outputs = [each for each in over_time if leaf_of(each) is not None or not _numbers(each) <= bare]
    seconds = max(LEAST_SECONDS, SHARE * statement_seconds)
    run = _Verification(build, connector, outputs, seconds, sampled=True, expected=statement_seconds)
    return _without_changed(run.run(rows, SAMPLE), build.plan, ask_again)


def _without_changed(found: Verified, plan: Plan, ask_again: AskAgain | None) -> Verified:
    """Return a result without mismatches in rows that changed when the query ran again."""
    if not found.mismatches or ask_again is None:
        return found
    width = len(plan.dimensions)
    now = {tuple(row[:width]): row[width:] for row in ask_again()}
    places = {output.name: index for index, output in enumerate(plan.outputs)}
    kept = tuple(
        mismatch
        for mismatch in found.mismatches
        if (row := now.get(mismatch.row)) is not None and _equal(row[places[mismatch.column]], mismatch.answered, 0.0)
    )
    if len(kept) == len(found.mismatches):
        return found
    changed = "rows changed during the check"
    return replace(found, mismatches=kept, stopped=found.stopped or changed)


def _numbers(output: Output) -> set[int]:
    return {int(place.name) for place in placeholders(output.formula)}


def _is_over_time(plan: Plan, output: Output) -> bool:
    leaves = [plan.leaves[int(place.name)] for place in placeholders(output.formula)]
    inside = [
        plan.leaves[int(place.name)]
        for leaf in leaves
        if leaf.nested
        for formula in leaf.nested.formulas
        for place in placeholders(formula)
    ]
    return any(is_over_time(each) for each in [*leaves, *inside])


class _StoppedError(Exception):
    """Raised if the verification has to stop. The message is the reason."""


class _Verification:
    """One pass over the rows of an answer within a time limit."""

    def __init__(
        self,
        build: Build,
        connector: Connector,
        outputs: Sequence[Output],
        seconds: float,
        *,
        sampled: bool = False,
        expected: float = 0.0,
    ) -> None:
        from ktx_cli.semantic.cells import Cells, unsupported

        self._started = monotonic()
        self._build = build
        self._connector = connector
        self._seconds = seconds
        self._sampled = sampled
        self._expected = 0.0 if is_interruptible(connector) else expected
        self._cells = Cells(build, self._query)
        self._skipped = {
            output.name: why for output in outputs if (why := unsupported(build, output.formula)) is not None
        }
        self._outputs = [output for output in outputs if output.name not in self._skipped]

    def run(self, rows: Sequence[Sequence[Any]], most: int) -> Verified:
        """Check up to `most` rows, spread evenly."""
        done, numbers, stopped = 0, 0, None
        wrong: list[tuple[int, Mismatch]] = []
        width = len(self._build.plan.dimensions)
        places = {output.name: width + index for index, output in enumerate(self._build.plan.outputs)}
        try:
            for number in _spread(len(rows), most):
                if not self._outputs:
                    break
                began = monotonic()
                keys = tuple(rows[number][:width])
                values, noise = self._recomputed(keys)
                for name, value in values.items():
                    numbers += 1
                    answered = rows[number][places[name]]
                    if not _equal(answered, value, noise.get(name, 0.0)) and not self._is_unseen(keys, name, answered):
                        wrong.append((number, Mismatch(keys, name, answered, value)))
                done += 1
                self._expected = monotonic() - began if self._sampled else 0.0
        except _StoppedError as error:
            stopped = str(error)
        mismatches = tuple(each for _, each in sorted(wrong, key=lambda pair: pair[0]))
        took = (monotonic() - self._started) * 1000
        return Verified(
            done if numbers else 0, len(rows), self._skipped, mismatches, numbers, self._sampled, stopped, took
        )

    def _recomputed(self, keys: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, float]]:
        """Return a row's recomputed values, and the floating-point noise of each.

        Outputs without a known time range are skipped from here on.
        """
        found, aggregates = self._cells.row(keys, self._outputs)
        for output in self._outputs:
            why = self._cells.reason(output)
            if why is not None:
                self._skipped[output.name] = why
        self._outputs = [output for output in self._outputs if output.name not in self._skipped]
        return found, {output.name: _noise(output, aggregates) for output in self._outputs}

    def _is_unseen(self, keys: tuple[Any, ...], name: str, answered: Any) -> bool:
        """Return whether a number is missing because the period has no rows of its own."""
        output = next(each for each in self._outputs if each.name == name)
        return answered is None and self._cells.is_unseen(keys, output)

    def _query(self, sql: str) -> QueryResult:
        """Run one statement within the remaining time."""
        end = self._started + self._seconds
        if monotonic() + self._expected > end:
            raise _StoppedError(self._out_of_time())
        with ended_at(self._connector, end) as deadline:
            try:
                return self._connector.query(sql, max_rows=1)
            except SourceError as error:
                if deadline.passed or error.code == "timeout":
                    raise _StoppedError(self._out_of_time()) from error
                if not self._sampled:
                    raise
                raise _StoppedError(error.message) from error

    def _out_of_time(self) -> str:
        length = f"{self._seconds:g} seconds" if self._seconds >= 1 else f"{self._seconds * 1000:.0f} ms"
        return f"the time limit of {length} was reached"


def _spread(count: int, most: int) -> Iterator[int]:
    """Yield up to `most` numbers below `count`: first, last, the middle, the middles of the halves, and so on."""
    found = list(dict.fromkeys((0, count - 1)))[: max(0, min(count, most))]
    yield from found
    left = most - len(found)
    ahead = deque([(0, count - 1)])
    while ahead and left > 0:
        low, high = ahead.popleft()
        middle = (low + high) // 2
        if middle > low:
            yield middle
            left -= 1
            ahead += ((low, middle), (middle, high))


def _noise(output: Output, aggregates: Mapping[int, Any]) -> float:
    """Return the possible error of floating-point sums, whose last digits depend on the order of rows."""
    values = [aggregates.get(int(place.name)) for place in placeholders(output.formula)]
    floats = [abs(value) for value in values if isinstance(value, float) and value]
    if not floats or not output.formula.find(exp.Sub, exp.Add):
        return 0.0
    noise = _FLOAT_NOISE * max(floats)
    return 100 * noise / min(floats) if output.formula.find(exp.Div) else noise


def _equal(one: Any, two: Any, noise: float) -> bool:
    if one is None or two is None:
        return one is two
    if isinstance(one, int | float | Decimal) and isinstance(two, int | float | Decimal):
        first, second = float(one), float(two)
        if math.isnan(first) or math.isnan(second):
            return math.isnan(first) and math.isnan(second)
        return first == second or abs(first - second) <= noise + _TOLERANCE * max(1.0, abs(first), abs(second))
    return bool(one == two)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
