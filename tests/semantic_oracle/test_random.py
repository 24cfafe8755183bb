"""Random questions over random worlds: DuckDB through ktx and the oracle say the same."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.semantic_oracle.adapter import Adapter
from tests.semantic_oracle.cases.base import Case, World
from tests.semantic_oracle.clarity import is_clear
from tests.semantic_oracle.generating import Asker, Maker
from tests.semantic_oracle.judging import by_oracle, mismatch, shown
from tests.semantic_oracle.oracle.answer import Result
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.frames import fans_out
from tests.semantic_oracle.oracle.model import Model
from tests.semantic_oracle.oracle.paths import Router
from tests.semantic_oracle.shrinking import reproduction, shrunk

FULL = bool(os.environ.get("KTX_TEST_FULL"))
WORLDS, QUESTIONS = (400, 10) if FULL else (4, 5)
"""Random worlds, and the questions with one meaning that each is asked."""
ENGINES = ("duckdb", "sqlite") if FULL else ("duckdb",)
BATCHES = 4


def questions(world: World, seed: int) -> Iterator[Case]:
    """Yield the questions a world is asked: those with one meaning, out of at most six times as many."""
    made = (
        Case(f"seed {seed}, question {number}", world, Asker(world, seed * 1000 + number).query())
        for number in range(6 * QUESTIONS)
    )
    return islice(filter(is_clear, made), QUESTIONS)


def problem(case: Case, adapter: Adapter) -> str | None:
    """Return what is wrong with ktx's answer to a case, or None: rows, or a refusal where there is an answer.

    A case of more than one meaning, as the shrinker may make, is never wrong.
    """
    if not is_clear(case):
        return None
    expected, got = by_oracle(case), adapter.answer(case)
    if isinstance(expected, OracleError):
        return None if got.code else f"answered, where the oracle refuses: {expected}\n{shown(got)}"
    if got.code is not None:
        return f"refused: {got.code}: {got.message}\nexpected {shown(expected)}"
    wrong = mismatch(case, expected, got)
    return wrong and f"{wrong}\n{got.sql}\nexpected {shown(expected)}\ngot {shown(got)}"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_questions(batch: int, engine: str, tmp_path: Path) -> None:
    answered = 0
    for seed in range(batch, WORLDS, BATCHES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Adapter(engine, folder) as adapter:
            for case in questions(Maker(seed).world(), seed):
                if problem(case, adapter) is not None:
                    pytest.fail(smallest(case, engine, tmp_path))
                answered += isinstance(by_oracle(case), Result)
    assert answered > WORLDS * QUESTIONS / BATCHES / 2, "too few questions have an answer to say anything"


def test_groups_add_up_or_hold_details_of_a_row(tmp_path: Path) -> None:
    """Sums and counts by any column of another source: no row counts twice, unless it has several such rows itself."""
    seen: Counter[str] = Counter()
    for seed in range(WORLDS // 4 if FULL else WORLDS):
        world = Maker(seed).world()
        model, names = Model(world.sources), [each["name"] for each in world.sources]
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Adapter("duckdb", folder) as adapter:
            for fact, other in itertools.permutations(names, 2):
                measures = [f"{fact}.{fact}_sum", f"{fact}.{fact}_count"]
                query = {"measures": measures, "dimensions": [f"{other}.w"], "totals": True}
                got = adapter.answer(Case(f"seed {seed}", world, query))
                assert (got.code == "fan_out") in _may_fan_out(model, fact, other), f"{fact} by {other}: {got}"
                if got.code is None:
                    sums = tuple(sum(row[at] or 0 for row in got.rows) for at in (1, 2))
                    total = tuple(value or 0 for value in got.totals or ())
                    assert sums == total or got.overlapping == (fact,), f"{fact} by {other}: {got}"
                seen["refused" if got.code else "overlapping" if got.overlapping else "added"] += 1
    assert min(seen[kind] for kind in ("refused", "overlapping", "added")) > 0


def _may_fan_out(model: Model, fact: str, other: str) -> set[bool]:
    """Return whether the oracle's path leads down from a parent; both where it has none, or one of several."""
    try:
        return {fans_out(Router(model, {}).shortest(fact, other), model)}
    except OracleError:
        return {True, False}


def smallest(case: Case, engine: str, tmp_path: Path) -> str:
    """Return the smallest case with a mismatch, as text."""
    folders = (tmp_path / f"smaller{number}" for number in itertools.count())

    def asked(smaller: Case) -> str | None:
        folder = next(folders)
        folder.mkdir()
        with Adapter(engine, folder) as adapter:
            return problem(smaller, adapter)

    small = shrunk(case, lambda smaller: asked(smaller) is not None)
    return f"{asked(small)}\n\n{reproduction(small)}"
