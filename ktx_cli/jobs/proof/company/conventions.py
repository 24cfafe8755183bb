"""Conventions: what a company's figures depend on, how it shows in the data, and what settles it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ktx_cli.jobs.demo.people import Dice
from ktx_cli.jobs.proof.company.core import company_domain
from ktx_cli.jobs.proof.company.warehouse import MadeUpCompany, resolve
from ktx_cli.semantic import Alternative, DecisionKind


class SettledBy(StrEnum):
    """What settles which reading of a convention is correct."""

    DOCUMENT = "document"
    """The handbook states it."""
    SQL = "sql"
    """The dbt project follows the convention, and nothing states it."""
    DATA = "data"
    """Nothing states the convention; the data shows that there is a question, and the expected reading is correct."""
    NOTHING = "nothing"
    """Nothing states the convention, and either reading may be correct, so a person has to decide."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a convention, as SQL templates in the concepts of its table (see `warehouse.resolve`).

    `filter`: a condition on rows. `value`: what is aggregated, in place of the measure's own. `time`: the date that a
    row belongs to; `$time` is the date left by the other conventions. `$name` is a part of the drawn form.
    `sentence`: how the handbook states it. `in_sql`: whether a model can follow it so that a reader notices.
    """

    id: str
    label: str
    sentence: str
    filter: str = ""
    value: str = ""
    time: str = ""
    in_sql: bool = True


@dataclass(frozen=True, slots=True)
class Form:
    """How a convention shows in the data: `columns`, lines as in `core.CORE`, and `rows`, a statement that adds rows.

    `parts`: pieces of SQL by the name that readings use. `<a|b>` in any of them: the seed chooses, once for a form.
    """

    columns: tuple[str, ...]
    rows: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)

    def drawn(self, dice: Dice) -> Form:
        """Return the form with its choices made."""
        made: dict[str, str] = {}

        def choose(match: re.Match[str]) -> str:
            return made.setdefault(match[1], dice.pick(match[1].split("|")))

        columns = tuple(_CHOICE.sub(choose, each) for each in self.columns)
        parts = {name: _CHOICE.sub(choose, each) for name, each in self.parts.items()}
        return Form(columns, self.rows, parts)


_PART: Final = re.compile(r"\$(\w+)")
_CHOICE: Final = re.compile(r"<([^<>=]*\|[^<>=]*)>")


@dataclass(frozen=True, slots=True)
class ConventionPlan:
    """A convention in the catalog. `table`: a concept. `measures`: those it is about; empty: all of the table.

    `reaches`: whether it also applies to what belongs to the rows, such as an account's orders. `expected`: the reading
    that any reader would expect; empty if there is none. `aggregate`: the aggregate of the readings' values. `needs`: a
    table that exists only for such conventions.
    """

    id: str
    kind: DecisionKind
    table: str
    question: str
    forms: tuple[Form, ...]
    readings: tuple[Reading, ...]
    expected: str = ""
    measures: tuple[str, ...] = ()
    reaches: bool = False
    aggregate: str = "sum({})"
    needs: str = ""

    @property
    def settled_by(self) -> tuple[SettledBy, ...]:
        """What may settle it."""
        found = [SettledBy.DOCUMENT, SettledBy.SQL]
        if self.expected:
            found.append(SettledBy.DATA)
        if self.kind not in (DecisionKind.DUPLICATES, DecisionKind.UNIT):
            found.append(SettledBy.NOTHING)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Convention:
    """A convention in a seed's company, in terms of its table names.

    `table`: `schema.name`; `columns`: those that show it; none if it is not on. `alternatives`: its readings. `truth`:
    the id of the correct alternative. `statement`: the sentence of the handbook, or the SQL that a model
    follows, whichever settles it; empty if nothing does. `place`: the path of the file with the statement. `plan`,
    `readings`: what questions are made from.
    """

    id: str
    kind: DecisionKind
    is_on: bool
    table: str
    columns: tuple[str, ...]
    question: str
    alternatives: tuple[Alternative, ...]
    truth: str
    settled_by: SettledBy
    statement: str
    plan: ConventionPlan
    readings: Mapping[str, Reading]
    place: str = ""

    @property
    def wrong(self) -> tuple[str, ...]:
        """The ids of the incorrect alternatives."""
        return tuple(each for each in self.readings if each != self.truth)


@dataclass(frozen=True, slots=True)
class Switched:
    """A catalog convention as the seed drew it, before there is a plan of tables."""

    plan: ConventionPlan
    is_on: bool
    form: Form
    settled_by: SettledBy
    truth: str


def switch(
    seed: int,
    catalog: Sequence[ConventionPlan],
    wanted: Collection[str] | None,
    count: int,
    truths: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Switched, ...]:
    """Return the catalog as drawn by the seed.

    `wanted`: the ids that are on; None: the seed chooses `count` of them. The ways to settle them are dealt in turns,
    so that each class has about the same number. `truths`: convention id -> id of the correct reading, if it is not the
    one that the seed draws. Raises `ValueError` for an unknown id.
    """
    dice = Dice(seed, "conventions")
    ids = [each.id for each in catalog]
    chosen = set(dice.sample(ids, count) if wanted is None else wanted)
    unknown = {*chosen, *truths}.difference(ids)
    if unknown:
        raise ValueError(f"unknown conventions: {', '.join(sorted(unknown))}")
    for plan in catalog:
        if plan.id in truths and truths[plan.id] not in {each.id for each in plan.readings}:
            raise ValueError(f"unknown reading of {plan.id}: {truths[plan.id]}")
    dealt = dict.fromkeys(SettledBy, 0)
    settled: dict[str, SettledBy] = {}
    # Those with the fewest classes choose first, so that the deal comes out even.
    for plan in sorted(dice.sample(list(catalog), len(catalog)), key=lambda each: len(each.settled_by)):
        settled[plan.id] = min(plan.settled_by, key=lambda each: dealt[each])
        dealt[settled[plan.id]] += plan.id in chosen
    drawn = (_switched(seed, plan, plan.id in chosen, settled[plan.id]) for plan in catalog)
    return tuple(replace(each, truth=truths.get(each.plan.id, each.truth)) for each in drawn)


def _switched(seed: int, plan: ConventionPlan, is_on: bool, settled_by: SettledBy) -> Switched:
    dice = Dice(seed, f"convention {plan.id}")
    form = dice.pick(plan.forms).drawn(dice)
    candidates = [each.id for each in plan.readings if settled_by is not SettledBy.SQL or each.in_sql]
    if settled_by is SettledBy.DATA or (plan.expected and settled_by is SettledBy.DOCUMENT and dice.chance(0.7)):
        candidates = [plan.expected]
    return Switched(plan, is_on, form, settled_by, dice.pick(candidates))


def read(company: MadeUpCompany, switched: Switched) -> Convention:
    """Return a convention in terms of the company's table names."""
    plan, parts = switched.plan, switched.form.parts
    table = next((each for each in company.tables if each.concept == plan.table), None)

    def filled(text: str) -> str:
        text = _PART.sub(lambda match: parts.get(match[1], match[0]), text)
        return text.replace("DOMAIN", company_domain(company.seed))

    def sql(text: str, form: str = "{}") -> str | None:
        return form.format(resolve(text, company, table, salt=plan.id)) if text and table else None

    texts = [
        replace(
            each,
            label=filled(each.label),
            sentence=filled(each.sentence),
            filter=filled(each.filter),
            value=filled(each.value),
            time=filled(each.time),
        )
        for each in plan.readings
    ]
    readings = {each.id: each for each in texts}
    if not switched.is_on or table is None:
        alternatives: tuple[Alternative, ...] = ()
        columns: tuple[str, ...] = ()
        statement = ""
    else:
        alternatives = tuple(
            Alternative(
                *(each.id, each.label, sql(each.filter), sql(each.value, plan.aggregate)),
                time=None if "$time" in each.time else sql(each.time),
            )
            for each in texts
        )
        columns = tuple(getattr(table.names, line.split()[0].split("|")[0]) for line in switched.form.columns)
        right = next(each for each in alternatives if each.id == switched.truth)
        statement = {
            SettledBy.DOCUMENT: readings[switched.truth].sentence,
            SettledBy.SQL: right.filter or right.expr or right.time or readings[switched.truth].time,
        }.get(switched.settled_by, "")
    return Convention(
        id=plan.id,
        kind=plan.kind,
        is_on=switched.is_on,
        table=str(table or ""),
        columns=columns,
        question=plan.question,
        alternatives=alternatives,
        truth=switched.truth,
        settled_by=switched.settled_by,
        statement=statement,
        plan=plan,
        readings=readings,
    )
