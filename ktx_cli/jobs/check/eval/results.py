"""How each eval ended the last time, in the state database: what passed once and fails now has regressed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ktx_cli.core import EXIT_LIMIT, EXIT_NOT_READY, EXIT_UNREACHABLE, Command, KtxError, Record, plural
from ktx_cli.jobs.check.eval.cases import Case
from ktx_cli.jobs.check.eval.compare import Answer, Difference
from ktx_cli.project import Layout, Warn, open_for_writing, read_state, transaction, translated, unheard


@dataclass(frozen=True, slots=True)
class Past:
    """How a case ended. `digest`: of what was asked and expected; `passed`: when that was last fulfilled, if ever."""

    digest: str
    status: str
    finished: str
    passed: str | None
    milliseconds: int

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        fields = {"status": self.status, "finished": self.finished, "passed": self.passed}
        return fields | {"milliseconds": self.milliseconds}


def read_history(layout: Layout) -> dict[str, Past]:
    """Return how the cases ended the last time, by name; nothing is written. Raises `StorageError`."""

    def ask(database: sqlite3.Connection) -> dict[str, Past]:
        rows = database.execute("SELECT name, digest, status, finished, passed, milliseconds FROM evals")
        return {name: Past(*rest) for name, *rest in rows}

    with translated(layout.state):
        return read_state(layout, ask) or {}


def write_history(layout: Layout, ended: Mapping[str, Past], known: Collection[str], warn: Warn = unheard) -> None:
    """Keep how cases ended, and forget those that are in no file any more (`known`); raises `StorageError`."""
    rows = [(name, p.digest, p.status, p.finished, p.passed, p.milliseconds) for name, p in ended.items()]
    with open_for_writing(layout, warn) as database, translated(layout.state), transaction(database):
        gone = [(name,) for (name,) in database.execute("SELECT name FROM evals") if name not in known]
        database.executemany("DELETE FROM evals WHERE name = ?", gone)
        database.executemany("INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?, ?, ?)", rows)


Status = Literal["pass", "regress", "fail", "new", "error", "skip"]

STATUSES: Final[tuple[Status, ...]] = ("pass", "regress", "fail", "error", "new", "skip")
WRONG: Final = frozenset({"regress", "fail", "error"})
"""What a command does not end with 0 for."""

SHOWN_ROWS: Final = 100
"""How many rows of an answer, and of each side of a difference, stand in the envelope."""

_NAMED: Final = 5
_ABOUT_THE_WAY: Final = frozenset({EXIT_NOT_READY, EXIT_UNREACHABLE, EXIT_LIMIT})


@dataclass(frozen=True, slots=True)
class Taken(Record):
    """What the model took that was asked: its tokens, and their price in dollars, None where it is not known."""

    model: str
    tokens: int
    usd: float | None

    json_keys = ("model", "tokens", "cost_usd=usd")


@dataclass(slots=True)
class CaseResult:
    """How one case ended. `reason`: why it was skipped; `query`: what the model asked; `before`: the last time."""

    case: Case
    status: Status
    seconds: float = 0.0
    answer: Answer | None = None
    difference: Difference | None = None
    error: KtxError | None = None
    reason: str = ""
    query: Mapping[str, Any] | None = None
    taken: Taken | None = None
    before: Past | None = None
    accepted: bool = False

    @property
    def milliseconds(self) -> int:
        """How long it took."""
        return round(self.seconds * 1000)

    @property
    def what(self) -> str:
        """One line about it."""
        if self.error is not None:
            return f"{self.error.code}: {self.error.message}"
        if self.difference is not None:
            return self.difference.message
        if self.status == "new" and self.answer is not None:
            done = "accepted: " if self.accepted else ""
            return f"{done}{plural(len(self.answer.rows), 'row')}"
        return self.reason

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        asked = self.case.asked
        return {
            "name": self.case.name,
            "path": self.case.path,
            "line": self.case.line,
            "question": asked.question,
            "kind": asked.kind,
            "connection": self.case.connection,
            "status": self.status,
            "message": self.what,
            "milliseconds": self.milliseconds,
            "expected": None if asked.expect is None else asked.expect.to_json(),
            "answer": None if self.answer is None else _answer(self.answer),
            "difference": None if self.difference is None else _cut(self.difference).to_json(),
            "query": self.query,
            "model": None if self.taken is None else self.taken.to_json(),
            "previous": None if self.before is None else self.before.to_json(),
            "accepted": self.accepted,
            "error": None if self.error is None else self.error.to_json(),
        }


def _answer(answer: Answer) -> dict[str, Any]:
    rows = [list(row) for row in answer.rows[:SHOWN_ROWS]]
    return {"columns": list(answer.columns), "rows": rows, "row_count": len(answer.rows)}


def _cut(difference: Difference) -> Difference:
    return Difference(
        difference.message, difference.columns, difference.missing[:SHOWN_ROWS], difference.unexpected[:SHOWN_ROWS]
    )


@dataclass(slots=True)
class EvalReport:
    """How all cases that were run ended, in their order. `seconds`: all together, with what they share."""

    results: list[CaseResult] = field(default_factory=list)
    seconds: float = 0.0
    saved: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many ended how."""
        return {status: sum(result.status == status for result in self.results) for status in STATUSES}

    @property
    def tokens(self) -> int:
        """What models took, all together."""
        return sum(result.taken.tokens for result in self.results if result.taken is not None)

    @property
    def usd(self) -> float | None:
        """The price of it, None where not all of it is known."""
        prices = [result.taken.usd for result in self.results if result.taken is not None]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "cases": [result.to_json() for result in self.results],
            "counts": self.counts,
            "milliseconds": round(self.seconds * 1000),
            "tokens": self.tokens,
            "cost_usd": self.usd,
            "saved": self.saved,
        }

    def error(self) -> KtxError | None:
        """Return the error to end with; where no case could be run for one reason of the way there, that reason."""
        wrong = [result for result in self.results if result.status in WRONG]
        if not wrong:
            return None
        codes = {result.error.exit_code if result.error is not None else None for result in self.results}
        first = wrong[0].error
        if len(codes) == 1 and first is not None and first.exit_code in _ABOUT_THE_WAY:
            return first
        counts = self.counts
        parts = [f"{counts[status]:,} {word}" for status, word in _WORDS.items() if counts[status]]
        names = [result.case.name for result in wrong]
        return KtxError(
            f"{len(wrong):,} of {plural(len(self.results), 'eval')} did not come out as expected: {', '.join(parts)}",
            hint=Command("eval", *names[:_NAMED], "--verbose"),
            details={"names": names, **counts},
            code="evals_failed",
        )


_WORDS: Final = {"regress": "regressed", "fail": "failed", "error": "could not be run"}
