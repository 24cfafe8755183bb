"""Random questions about time: what runs, rolls or lies earlier, by any grains in any order, against the rows."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.semantic_oracle.adapter import Adapter
from tests.semantic_oracle.cases.axes import EXTRACTED, MONTH_OF, OWN_YEAR, TRUNCATED, WEEKDAY
from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.visits import NUMBERS, SHOP, case, cut, of_calendar
from tests.semantic_oracle.judging import RIGHT, judged
from tests.semantic_oracle.timelines import Calendar, Category, Label

FULL = bool(os.environ.get("KTX_TEST_FULL"))
QUESTIONS = 2000 if FULL else 15
ENGINES = ("duckdb", "sqlite") if FULL else ("duckdb",)

BESIDE: dict[str, tuple[str, ...]] = {
    "day": ("week", "month", "quarter", "year", "fiscal_quarter", "fiscal_year"),
    "week": (),
    "month": ("quarter", "year", "fiscal_quarter", "fiscal_year"),
    "quarter": ("year",),
    "year": (),
    "fiscal_quarter": ("fiscal_year",),
    "fiscal_year": (),
}
"""Which coarser grains have one value in each period of an axis, whatever month fiscal years begin in."""


def question(seed: int) -> Case:
    """Return a random question with its answer."""
    dice = random.Random(seed)
    settings: dict[str, Any] = {"fiscal_year_start": dice.choice((1, 2, 4, 7, 12))}
    settings |= {"week_start": "sunday"} if dice.random() < 0.3 else {}
    years = Calendar("week_start" in settings, settings["fiscal_year_start"])
    axis = dice.choice([*BESIDE])
    columns: list[Label | Category] = [cut(axis, years)]
    columns += [cut(grain, years) for grain in dice.sample(BESIDE[axis], dice.randint(0, min(2, len(BESIDE[axis]))))]
    if axis in ("day", "month"):
        columns += dice.sample([EXTRACTED, MONTH_OF], dice.randint(0, 1))
    if axis in ("day", "month", "quarter", "year"):
        columns += dice.sample([OWN_YEAR, TRUNCATED], dice.randint(0, 1)) if len(columns) < 3 else []
    if axis == "day":
        columns += dice.sample([WEEKDAY, of_calendar("ym"), of_calendar("kind")], dice.randint(0, 2))
    names = [each.name for each in columns]
    columns = [each for each in columns if names.count(each.name) == 1]
    columns += [SHOP] if dice.random() < 0.4 else []
    dice.shuffle(columns)
    numbers = " ".join(dice.sample([*NUMBERS], dice.randint(1, 4)))
    rest = _narrowed(dice)
    return case(f"seed {seed}", "a random question", axis, columns, numbers, calendar=settings, **rest)


def _narrowed(dice: random.Random) -> dict[str, Any]:
    """Return a time range, as a range or as filters, a condition on rows, fill."""
    start = datetime(2020, 12, 20) + timedelta(days=dice.randint(0, 1500))
    end = start + timedelta(days=dice.randint(1, 700))
    asked = (start if dice.random() < 0.7 else None, end if dice.random() < 0.7 else None)
    rest: dict[str, Any] = {"asked": asked} if asked != (None, None) else {}
    filters = []
    if dice.random() < 0.5 and rest:
        first, last = asked
        filters += [] if first is None else [dice.choice(_STARTS).format(first.date(), first.date() - _DAY)]
        filters += [] if last is None else [dice.choice(_ENDS).format(last.date(), last.date() - _DAY)]
    if dice.random() < 0.3:
        filters.append("visits.shop <> 'b'")
        rest["kept"] = lambda row: row["shop"] != "b"
    if filters:
        rest["query"] = {"filters": filters}
        ends = {key: str(each.date()) for key, each in zip(("start", "end"), asked, strict=True) if each is not None}
        if not any("day" in each for each in filters) and ends:
            rest["query"]["time_range"] = {"field": "visits.day"} | ends
    elif None not in asked and dice.random() < 0.3:
        rest["fill"] = True
    return rest


_DAY = timedelta(days=1)
_STARTS = ("visits.day >= '{0}'", "visits.day > '{1}'", "DATE '{0}' <= visits.day", "metric_time >= '{0}'")
_ENDS = (
    "visits.day < '{0}'",
    "visits.day <= '{1}'",
    "DATE '{0}' > visits.day",
    "NOT visits.day IS NULL AND visits.day < '{0}'",
)


@pytest.mark.parametrize("engine", ENGINES)
def test_random_questions_about_time(engine: str, tmp_path: Path) -> None:
    with Adapter(engine, tmp_path) as adapter:
        for seed in range(QUESTIONS):
            verdict = judged(question(seed), adapter)
            assert verdict.kind == RIGHT, verdict.text
