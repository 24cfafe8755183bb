"""Questions in business words, with the truth as SQL and the readings that are tempting and wrong."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from ktx_cli.jobs.demo.people import Dice
from ktx_cli.jobs.proof.company.conventions import Convention, Reading, SettledBy
from ktx_cli.jobs.proof.company.warehouse import MadeUpCompany, resolve
from ktx_cli.semantic import DecisionKind


@dataclass(frozen=True, slots=True)
class Measure:
    """What a question asks about a fact. `now`, `then`: how a question about all rows and one about a period begin.

    `aggregate`: SQL around the `value`, a template in the concepts of the table.
    """

    id: str
    now: str
    then: str
    aggregate: str
    value: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A table that questions are about. `time`: the date of its rows, empty where it has none.

    `path`: the reference to each table that it reaches, in the order of joins.

    `groups`: the words behind `by`, with the column: of the fact itself, or `table.column`.
    """

    table: str
    time: str
    measures: tuple[Measure, ...]
    groups: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrongReading:
    """A tempting reading that is wrong: another alternative of a convention."""

    convention: str
    alternative: str
    sql: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question in business words. `columns`: of the answer. `truth`: the SQL that answers it.

    `conventions`: the ids of those that the answer depends on. `settled_by`: what the least settled of them needs.
    """

    id: str
    text: str
    columns: tuple[str, ...]
    truth: str
    wrong: tuple[WrongReading, ...]
    conventions: tuple[str, ...]
    settled_by: SettledBy


def _counted(id: str, noun: str, key: str, verb: str) -> Measure:
    return Measure(id, f"How many {noun} do we have", f"How many {noun} {verb}", "count(DISTINCT {})", f"{{{key}}}")


def _amount(id: str, noun: str, column: str, aggregate: str = "sum({})") -> Measure:
    return Measure(id, f"What is {noun}", f"What was {noun}", aggregate, f"{{{column}}}")


def _average(id: str, noun: str, column: str) -> Measure:
    return _amount(id, f"the average {noun} (to four decimals)", column, "round(avg({}), 4)")


_COUNTRY: Final = ("country of the customer", "accounts.country")
_OF_ORDERS: Final = {"orders": "order_id", "accounts": "account_id"}
_OF_SUBSCRIPTIONS: Final = {"subscriptions": "subscription_id", "accounts": "account_id"}
_OF_CONTACTS: Final = {"contacts": "contact_id"}

FACTS: Final[tuple[Fact, ...]] = (
    Fact(
        "accounts",
        "created_on",
        (_counted("customers", "customers", "account_id", "did we win"),),
        {"country": "country", "industry": "industry"},
    ),
    Fact(
        "contacts",
        "joined_on",
        (_counted("users", "users", "contact_id", "joined"),),
        {"access level": "access", "country": "country"},
    ),
    Fact("products", "launched_on", (_counted("products", "products", "product_id", "did we launch"),), {}),
    Fact(
        "orders",
        "ordered_on",
        (
            _counted("orders", "orders", "order_id", "did we get"),
            _amount("revenue", "our revenue from orders", "amount"),
            _average("average_order", "value of an order", "amount"),
        ),
        {"sales channel": "channel", _COUNTRY[0]: _COUNTRY[1]},
        {"accounts": "account_id"},
    ),
    Fact(
        "order_items",
        "",
        (
            _amount("product_sales", "the value of the products that we sold", "line_amount"),
            Measure("units_sold", "How many units have we sold", "", "sum({})", "{quantity}"),
        ),
        {_COUNTRY[0]: _COUNTRY[1], "sales channel": "orders.channel"},
        _OF_ORDERS,
    ),
    Fact(
        "returns",
        "returned_on",
        (
            _counted("returns", "returns", "return_id", "came in"),
            _amount("refunds", "the amount of refunds", "refund_amount"),
        ),
        {"reason": "reason"},
    ),
    Fact(
        "payments",
        "paid_on",
        (
            _counted("payments", "payments", "payment_id", "came in"),
            _amount("payments_received", "the amount of payments that we received in euros", "amount"),
        ),
        {"payment method": "method"},
    ),
    Fact(
        "subscriptions",
        "started_on",
        (
            _counted("subscriptions", "subscriptions", "subscription_id", "began"),
            Measure(
                "monthly_revenue",
                "What is our monthly revenue from subscriptions",
                "What is the monthly revenue from subscriptions that began",
                "sum({})",
                "{monthly_amount}",
            ),
        ),
        {_COUNTRY[0]: _COUNTRY[1]},
        {"accounts": "account_id"},
    ),
    Fact(
        "invoices",
        "issued_on",
        (
            _counted("invoices", "invoices", "invoice_id", "did we write"),
            _amount("billings", "the amount that we billed", "amount"),
        ),
        {_COUNTRY[0]: _COUNTRY[1]},
        _OF_SUBSCRIPTIONS,
    ),
    Fact(
        "usage_records",
        "used_on",
        (_amount("usage", "the number of units that our customers used", "units"),),
        {_COUNTRY[0]: _COUNTRY[1]},
        _OF_SUBSCRIPTIONS,
    ),
    Fact(
        "opportunities",
        "created_on",
        (
            _counted("deals", "deals", "opportunity_id", "did we have"),
            _amount("pipeline", "the value of our deals", "amount"),
        ),
        {"type of deal": "deal_type", _COUNTRY[0]: _COUNTRY[1]},
        {"accounts": "account_id"},
    ),
    Fact("leads", "created_on", (_counted("leads", "leads", "lead_id", "did we get"),), {}),
    Fact(
        "tickets",
        "opened_on",
        (
            _counted("tickets", "support tickets", "ticket_id", "did we get"),
            _average("satisfaction", "satisfaction with support", "satisfaction"),
        ),
        {"topic": "category", "country of the user": "contacts.country"},
        _OF_CONTACTS,
    ),
    Fact(
        "sessions",
        "started_on",
        (
            _counted("visits", "visits to our site", "session_id", "did we have"),
            Measure(
                "page_views", "How many pages were viewed", "How many pages were viewed", "sum({})", "{page_views}"
            ),
        ),
        {"device": "device", "country of the user": "contacts.country"},
        _OF_CONTACTS,
    ),
    Fact(
        "employees",
        "hired_on",
        (
            Measure(
                "headcount",
                "What is our headcount",
                "How many people of our headcount joined us",
                "count(DISTINCT {})",
                "{employee_id}",
            ),
        ),
        {},
    ),
    Fact(
        "expenses",
        "spent_on",
        (
            _counted("claims", "expense claims", "expense_id", "did we get"),
            _amount("expenses", "the amount of employee expenses in euros", "amount"),
        ),
        {"category": "category"},
    ),
    Fact(
        "shipments",
        "shipped_on",
        (
            _counted("shipments", "shipments", "shipment_id", "were there"),
            _average("average_freight", "freight cost of a shipment", "freight_cost"),
        ),
        {"warehouse": "warehouse_id"},
    ),
    Fact(
        "purchase_orders",
        "ordered_on",
        (
            _counted("purchase_orders", "purchase orders", "purchase_order_id", "did we place"),
            _amount("purchases", "the value of our purchase orders in euros", "order_value"),
        ),
        {},
    ),
    Fact("ad_spend", "day", (_amount("ad_costs", "the cost of our ads in euros", "spend"),), {}),
)

_YEARS: Final = (2023, 2024)
_FISCAL: Final = ("orders", "invoices", "expenses", "purchase_orders")
"""The tables whose questions use fiscal years."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a question asks about a measure: a `group` by words and column, the `year`, or the time steps."""

    group: tuple[str, str] | None = None
    year: int | None = None
    by: str = ""
    is_fiscal: bool = False


def _shapes(fact: Fact) -> Iterator[Shape]:
    groups = [None, *fact.groups.items()]
    if not fact.time:
        yield from (Shape(group) for group in groups)
        return
    yield from (Shape(group, year) for group, year in product(groups, (None, *_YEARS)))
    yield from (Shape(by="year"), Shape(year=2024, by="month"))
    if fact.table in _FISCAL:
        yield from (Shape(group, year, is_fiscal=True) for group, year in product(groups, _YEARS))


def candidates(company: MadeUpCompany, conventions: Sequence[Convention]) -> Iterator[Question]:
    """Yield the questions for which a company's conventions are tempting, those about each fact in turn."""
    on = [each for each in conventions if each.is_on]
    dice = Dice(company.seed, "questions")
    asked = [(fact, measure, shape) for fact in FACTS for measure in fact.measures for shape in _shapes(fact)]
    for fact, measure, shape in dice.sample(asked, len(asked)):
        touching = [each for each in on if touches(each, fact, measure, shape)]
        if not touching or (shape.is_fiscal and not any(each.kind is DecisionKind.FISCAL_START for each in touching)):
            continue
        right = {each.id: each.truth for each in touching}
        ask = functools.partial(statement, company, fact, measure, shape, touching)
        yield Question(
            f"{measure.id}{_suffix(shape)}",
            _text(measure, shape),
            (*((_group_name(shape),) if _group_name(shape) else ()), measure.id),
            ask(right),
            tuple(
                WrongReading(each.id, other, ask(right | {each.id: other})) for each in touching for other in each.wrong
            ),
            tuple(right),
            max((each.settled_by for each in touching), key=list(SettledBy).index),
        )


def answer_under(
    company: MadeUpCompany, conventions: Sequence[Convention], question: str, chosen: Mapping[str, str]
) -> str:
    """Return the statement that answers the question with an id, under a reading of each convention it depends on.

    Raises `LookupError` if no question has the id, or a convention has no reading.
    """
    for fact in FACTS:
        for measure in fact.measures:
            for shape in _shapes(fact):
                if f"{measure.id}{_suffix(shape)}" == question:
                    touching = [each for each in conventions if each.is_on and touches(each, fact, measure, shape)]
                    return statement(company, fact, measure, shape, touching, chosen)
    raise LookupError(question)


def touches(convention: Convention, fact: Fact, measure: Measure, shape: Shape) -> bool:
    """Return whether the answer to a question depends on a convention."""
    plan = convention.plan
    if plan.kind is DecisionKind.FISCAL_START:
        return shape.is_fiscal
    if plan.kind is DecisionKind.DATE and shape.year is None and not shape.by:
        return False
    if plan.table == fact.table:
        return not plan.measures or measure.id in plan.measures
    return plan.reaches and plan.table in fact.path


def _group_name(shape: Shape) -> str:
    return shape.by or (shape.group[1].rpartition(".")[2] if shape.group else "")


def _suffix(shape: Shape) -> str:
    parts = [_group_name(shape), "fiscal" if shape.is_fiscal else "", str(shape.year or "")]
    return "".join(f"-{each}" for each in parts if each)


def _text(measure: Measure, shape: Shape) -> str:
    words = measure.then if shape.year or shape.by else measure.now
    if shape.year:
        words += f" in {'the fiscal year ' if shape.is_fiscal else ''}{shape.year}"
    steps = {"year": "year", "month": "number of the month"}
    by = steps[shape.by] if shape.by else shape.group[0] if shape.group else ""
    return f"{words}, by {by}?" if by else f"{words}?"


def statement(
    company: MadeUpCompany,
    fact: Fact,
    measure: Measure,
    shape: Shape,
    conventions: Sequence[Convention],
    chosen: Mapping[str, str],
) -> str:
    """Return the statement that answers a question, under a reading of each convention."""
    filters, value, time, joined = [], measure.value, f"{{{fact.time}}}", []
    times = []
    for each in conventions:
        reading: Reading = each.readings[chosen[each.id]]
        if reading.filter:
            filters.append(resolve(reading.filter, company, company.of(each.plan.table), prefix=f"{each.plan.table}."))
            joined.append(each.plan.table)
        value = reading.value or value
        times += [reading.time] if reading.time else []
    for each_time in sorted(times, key=lambda text: "$time" in text):
        time = each_time.replace("$time", time)
    table = company.of(fact.table)

    def own(text: str) -> str:
        return resolve(text, company, table, prefix=f"{fact.table}.")

    if shape.group and "." in shape.group[1]:
        joined.append(shape.group[1].partition(".")[0])
    if shape.year:
        filters.append(f"extract(year FROM {own(time)}) = {shape.year}")
    group = ""
    if shape.by:
        group = f"extract({shape.by} FROM {own(time)})"
    elif shape.group:
        concept, _, column = shape.group[1].rpartition(".")
        concept = concept or fact.table
        group = f"{concept}.{getattr(company.of(concept).names, column)}"
    lines = [f"SELECT {group} AS {_group_name(shape)}, " if group else "SELECT "]
    lines[0] += f"{measure.aggregate.format(own(value))} AS {measure.id}"
    lines.append(f"FROM {table} AS {fact.table}")
    lines += _joins(company, fact, set(joined) - {fact.table})
    lines += [f"{'AND' if place else 'WHERE'} {each}" for place, each in enumerate(filters)]
    return "\n".join([*lines, *(["GROUP BY 1", "ORDER BY 1"] if group else [])])


def _joins(company: MadeUpCompany, fact: Fact, wanted: set[str]) -> Iterator[str]:
    """Yield the joins up to the last table that is needed."""
    if not wanted:
        return
    before = fact.table
    for concept, reference in fact.path.items():
        table = company.of(concept)
        column = getattr(company.of(before).names, reference)
        key = table.key.name if table.key else ""
        yield f"LEFT JOIN {table} AS {concept} ON {concept}.{key} = {before}.{column}"
        before = concept
        wanted = wanted - {concept}
        if not wanted:
            return
