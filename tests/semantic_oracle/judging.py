"""What to make of an answer: right, wrong, a refusal that is right, or one that is needless."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.comparing import difference
from tests.semantic_oracle.oracle.answer import Result, Setting, answer
from tests.semantic_oracle.oracle.errors import OracleError

RIGHT, REFUSED, NEEDLESS, WRONG = "right", "refused", "needless refusal", "wrong"
_NO_TOPICS = {"__init__", "base", "shop", "visits"}


class Answered(Protocol):
    """What an engine answered through ktx."""

    @property
    def columns(self) -> list[str]: ...
    @property
    def rows(self) -> list[tuple[Any, ...]]: ...
    @property
    def totals(self) -> tuple[Any, ...] | None: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def sql(self) -> str: ...
    @property
    def code(self) -> str | None: ...
    @property
    def message(self) -> str: ...


class Asks(Protocol):
    """Something that answers cases on one engine."""

    engine: str

    def answer(self, case: Case) -> Answered: ...


@dataclass(frozen=True)
class Verdict:
    """The judgement of one case on one engine; `text` says why it is not simply right."""

    case: Case
    kind: str
    text: str = ""


TOPICS = sorted({path.stem for path in (Path(__file__).parent / "cases").glob("*.py")} - _NO_TOPICS)


def cases_of(topic: str) -> list[Case]:
    """Return the cases of a topic, which are those of a module; some work out their answers when it is imported."""
    cases: list[Case] = importlib.import_module(f"tests.semantic_oracle.cases.{topic}").CASES
    return cases


def topics() -> dict[str, list[Case]]:
    """Return all cases by topic."""
    return {topic: cases_of(topic) for topic in TOPICS}


def by_oracle(case: Case) -> Result | OracleError:
    """Return what the oracle says of a case, or what the case says of itself."""
    if case.columns and case.rows is not None:
        return Result(list(case.columns), [tuple(row) for row in case.rows])
    if case.settled:
        return OracleError(case.error.split("|")[0], case.why)
    try:
        setting = Setting(case.attributes, case.calendar, case.now)
        return answer(case.world.sources, case.world.behind(), case.query, setting)
    except OracleError as error:
        return error


def judged(case: Case, asks: Asks) -> Verdict:
    """Put a case to an engine and compare; a crash of ktx is a wrong answer."""
    try:
        got = asks.answer(case)
    except Exception as error:  # noqa: BLE001 - it is the case's result, and shown with the others
        return Verdict(case, WRONG, _told(case, f"{type(error).__name__}: {error}", "", "an answer"))
    if case.error:
        return _refusal(case, got)
    if got.code is not None:
        return _unwanted(case, got, asks.engine)
    expected = by_oracle(case)
    assert isinstance(expected, Result), f"{case.id}: {expected}"
    problem = mismatch(case, expected, got)
    if problem is None:
        return Verdict(case, RIGHT)
    return Verdict(case, WRONG, _told(case, problem, got.sql, shown(expected), shown(got)))


def _refusal(case: Case, got: Answered) -> Verdict:
    if got.code in case.error.split("|"):
        return Verdict(case, REFUSED, f"{got.code}: {case.why}")
    said = f"{got.code}: {got.message}" if got.code else shown(got)
    return Verdict(case, WRONG, _told(case, "no such refusal", got.sql, f"error {case.error}", said))


def _unwanted(case: Case, got: Answered, engine: str) -> Verdict:
    if got.code in case.may_refuse.split("|"):
        return Verdict(case, REFUSED, f"{got.code}: {case.why}")
    if engine in case.refused_on:
        return Verdict(case, REFUSED, case.refused_on[engine])
    return Verdict(case, NEEDLESS, _told(case, f"{got.code}: {got.message}", got.sql, "rows"))


def mismatch(case: Case, expected: Result, got: Answered) -> str | None:
    """Return what is wrong with an answer, or None: columns, rows, totals, truncation."""
    compares = "comparison" in case.query
    if sorted(expected.columns) != sorted(got.columns) or (not compares and expected.columns != got.columns):
        return f"columns {got.columns}, not {expected.columns}"
    order = [expected.columns.index(name) for name in got.columns]
    rows: Sequence[Sequence[Any]] = expected.rows if case.rows is None else case.rows
    problem = difference([[row[at] for at in order] for row in rows], got.rows, ordered=case.is_ordered)
    if problem is not None:
        return problem
    if expected.totals is not None and not _same_totals(expected, got):
        return f"totals {got.totals}, not {expected.totals}"
    return None if expected.truncated == got.truncated else f"truncated is {got.truncated}"


def _same_totals(expected: Result, got: Answered) -> bool:
    assert expected.totals is not None
    return got.totals is not None and difference([expected.totals], [got.totals], ordered=True) is None


def shown(result: Any) -> str:
    """Return columns and rows as text."""
    lines = [" | ".join(str(value) for value in row) for row in result.rows]
    return "\n    ".join([" | ".join(result.columns), *lines])


def _told(case: Case, problem: str, sql: str, expected: str, got: str = "") -> str:
    parts = [f"{case.id}: {problem}", f"  query {dict(case.query)}"]
    parts += [f"  why {case.why}"] if case.why else []
    parts += [f"  sql {sql}"] if sql else []
    return "\n".join([*parts, f"  expected {expected}", *([f"  got {got}"] if got else [])])
