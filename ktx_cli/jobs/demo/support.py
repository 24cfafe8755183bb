"""The support desk of the demo company: tickets, most about an order, some about nothing in particular."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta

from ktx_cli.jobs.demo.days import DAY_COUNT, LAST_DAY, Row, day_at
from ktx_cli.jobs.demo.dice import Dice
from ktx_cli.jobs.demo.orders import Order
from ktx_cli.jobs.demo.people import Customer

MESSAGES: dict[str, tuple[str, ...]] = {
    "delivery": (
        "The parcel should have been here on {day}, and nothing has come yet.",
        "Tracking has not moved since {day}. Can you look?",
        "The driver left the box in the rain, please be more careful next time.",
    ),
    "damage": (
        "The pot arrived in two pieces; the plant itself looks fine.",
        "Three leaves were broken off. I have photos from {day}.",
        "The soil was all over the box and the roots were dry.",
    ),
    "care": (
        "The lower leaves turn yellow. Do I water too much?",
        "How much light does it need in winter? It stands two metres from a window.",
        "There are small flies in the soil since {day}.",
    ),
    "billing": (
        "I was charged twice on {day}, please check.",
        "Please send the invoice to our office address.",
        "My gift card was not accepted.",
    ),
}
"""Message texts by topic."""

_FIRST_TICKET_ID = 700_001


def ticket_rows(seed: int, orders: Sequence[Order], customers: Sequence[Customer], agents: Sequence[int]) -> list[Row]:
    """Return the rows of `shop.support_tickets`, by the time they were opened."""
    dice = Dice(seed, "tickets")
    drafts = [_about_order(dice, order) for order in orders if dice.chance(0.16)]
    # Only people who had signed up by the first day, so that nobody writes before they are a customer.
    early = [customer.id for customer in customers if customer.signup <= 0]
    drafts += [_about_nothing(dice, dice.pick(early)) for _ in range(dice.between(500, 800))]
    drafts.sort(key=lambda draft: draft[2])
    return [
        (_FIRST_TICKET_ID + number, *_answered(dice, draft, dice.pick(agents))) for number, draft in enumerate(drafts)
    ]


Draft = tuple[int, int | None, datetime, str]
"""Customer id, order id, when it was opened, topic."""


def _about_order(dice: Dice, order: Order) -> Draft:
    day = min(DAY_COUNT - 1, order.day + dice.between(0, 14))
    return (order.customer_id, order.id, _moment(dice, day), dice.pick(tuple(MESSAGES)))


def _about_nothing(dice: Dice, customer_id: int) -> Draft:
    topic = "care" if dice.chance(0.7) else "billing"
    return (customer_id, None, _moment(dice, dice.between(0, DAY_COUNT - 1)), topic)


def _answered(dice: Dice, draft: Draft, agent: int) -> Row:
    customer_id, order_id, opened, topic = draft
    message = dice.pick(MESSAGES[topic]).format(day=f"{opened - timedelta(days=2):%d.%m.}")
    closed: datetime | None = opened + timedelta(minutes=dice.between(9, 7_000))
    if closed is not None and closed.date() > LAST_DAY:
        closed = None
    status = "closed" if closed else dice.pick(("open", "waiting"))
    return (customer_id, order_id, agent, opened, closed, status, topic, message)


def _moment(dice: Dice, day: int) -> datetime:
    return datetime.combine(day_at(day), time(dice.between(7, 21), dice.between(0, 59), dice.between(0, 59)))
