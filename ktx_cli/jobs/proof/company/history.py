"""A company's query history: what people asked the warehouse, and when.

It follows what models and documents settle. If nothing settles a convention, people only query its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from ktx_cli.jobs.demo.people import FIRST_NAMES, Dice
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy
from ktx_cli.jobs.proof.company.questions import Question, candidates
from ktx_cli.jobs.proof.company.warehouse import Kind, MadeUpCompany, Role

FILE: Final = "queries/history.sql"
_END: Final = datetime(2025, 6, 20, 17)
_SETTLED: Final = (SettledBy.DOCUMENT, SettledBy.SQL)
_FIGURES: Final = 15
"""The maximum number of figures in the history."""

_LOOKED_UP: Final = 14
"""The number of tables around the core that people query."""


def write_history(company: MadeUpCompany, conventions: Sequence[Convention], questions: Sequence[Question]) -> str:
    """Return the history as an SQL file: each statement with its user, its executions and when it last ran."""
    dice = Dice(company.seed, "history")
    users = [f"{each.lower()}" for each in dice.sample(FIRST_NAMES, 6)]
    lines = []
    figures = _figures(company, conventions, questions)
    for sql in (
        *dice.sample(figures, min(_FIGURES, len(figures))),
        *_glances(company, conventions),
        *_backdrop(company, dice),
    ):
        moment = _END - timedelta(minutes=dice.between(0, 90 * 24 * 60))
        about = (
            f"-- user: {dice.pick(users)} executions: {dice.between(1, 40)} at: {moment.isoformat(timespec='minutes')}"
        )
        lines.append(f"{about}\n{sql};\n")
    return "\n".join(lines)


def _figures(company: MadeUpCompany, conventions: Sequence[Convention], questions: Sequence[Question]) -> list[str]:
    """Return statements for figures as documents and models settle them, other than those in the questions."""
    settled = {each.id for each in conventions if each.is_on and each.settled_by in _SETTLED}
    asked = {each.truth for each in questions}
    others = (each for each in candidates(company, conventions) if each.truth not in asked)
    return [each.truth for each in others if settled.issuperset(each.conventions)]


def _glances(company: MadeUpCompany, conventions: Sequence[Convention]) -> Iterator[str]:
    """Yield statements that count the rows for each value of a column, without stating a purpose."""
    for each in conventions:
        if each.is_on and each.settled_by not in _SETTLED and each.columns:
            table = company.of(each.plan.table)
            kinds = {column.name: column.kind for column in table.columns}
            if kinds[each.columns[0]] in (Kind.STATUS, Kind.FLAG, Kind.CURRENCY):
                yield f"SELECT {each.columns[0]}, count(*) AS number_of_rows\nFROM {table}\nGROUP BY {each.columns[0]}"
            else:
                yield f"SELECT *\nFROM {table}\nLIMIT 50"


def _backdrop(company: MadeUpCompany, dice: Dice) -> Iterator[str]:
    """Yield statements about tables that no convention is about."""
    facts = [
        table
        for table in company.tables
        if table.role is Role.FACT and not any(column.derived for column in table.columns)
    ]
    for table in dice.sample(facts, min(_LOOKED_UP, len(facts))):
        group = next((each for each in table.columns if each.kind in (Kind.STATUS, Kind.ENUM, Kind.REF)), None)
        if group is not None:
            yield f"SELECT {group.name}, count(*) AS number_of_rows\nFROM {table}\nGROUP BY 1\nORDER BY 2 DESC"
