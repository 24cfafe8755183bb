"""The money of the demo company: payments, refunds and the sales plan.

Settled payments add up to the lines of every order that was not cancelled, to the cent; the tests hold the
generator to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta

from ktx_cli.jobs.demo.people import (
    DATE_KEYS,
    DAY_COUNT,
    LAST_DAY,
    REGIONS,
    Customer,
    Dice,
    Row,
    Weighted,
    date_key,
    day_at,
    month_starts,
)
from ktx_cli.jobs.demo.sales import Line, Order, euros

GUEST_CARDS = (900_001, 900_060)
"""First and last guest card: what a payment at a fair names instead of a customer when nobody shows an account."""

REFUND_REASONS = ("damaged", "wrong item", "arrived late", "changed mind")

_GUEST_CARD_SHARE = 0.25
_METHODS = Weighted([("card", 58.0), ("wallet", 27.0), ("bank transfer", 15.0)])
_FIRST_REFUND_ID = 400_001


def payment_rows(seed: int, orders: Sequence[Order]) -> list[Row]:
    """Return the rows of `finance.payments`, numbered in the order of the orders."""
    dice = Dice(seed, "payments")
    drafts = (draft for order in orders for draft in _payments_of(dice, order))
    return [(f"PAY-{number:06d}", *draft) for number, draft in enumerate(drafts, 1)]


def refund_rows(seed: int, orders: Sequence[Order]) -> list[Row]:
    """Return the rows of `finance.refunds`: full ones for returned orders, some single lines for delivered ones."""
    dice = Dice(seed, "refunds")
    drafts = (draft for order in orders for draft in _refunds_of(dice, order))
    return [(_FIRST_REFUND_ID + number, *draft) for number, draft in enumerate(drafts)]


def sales_target_rows(seed: int) -> list[Row]:
    """Return the rows of `finance.sales_targets`, one a month and region, whole hundreds of euros."""
    dice = Dice(seed, "targets")
    base = {region: dice.between(20, 60) for region in REGIONS}
    return [
        (date_key(month), region, euros((base[region] + place + dice.between(0, 8)) * 10_000))
        for place, month in enumerate(month_starts())
        for region in REGIONS
    ]


def _payments_of(dice: Dice, order: Order) -> Iterator[Row]:
    payer = order.customer_id
    if order.channel == "fair" and dice.chance(_GUEST_CARD_SHARE):
        payer = dice.between(*GUEST_CARDS)
    key = DATE_KEYS[order.day]
    if dice.chance(0.03):
        yield (order.id, payer, key, _METHODS.draw(dice), "failed", euros(order.total))
    if order.status == "cancelled":
        yield (order.id, payer, key, _METHODS.draw(dice), "voided", euros(order.total))
        return
    gift = min(2_500, order.total // 2) if dice.chance(0.07) else 0
    if gift:
        yield (order.id, payer, key, "gift card", "settled", euros(gift))
    yield (order.id, payer, key, _METHODS.draw(dice), "settled", euros(order.total - gift))


def _refunds_of(dice: Dice, order: Order) -> Iterator[Row]:
    if order.status == "returned":
        day = order.day + dice.between(12, 30)
        for line in order.lines:
            yield _refund(order, line, day, "changed mind", line.revenue)
    elif order.status == "delivered" and order.day < DAY_COUNT - 60 and dice.chance(0.05):
        line, reason = dice.pick(order.lines), dice.pick(REFUND_REASONS)
        day = order.day + dice.between(8, 30)
        if dice.chance(0.5):
            yield _refund(order, line, day, reason, line.revenue)
            return
        half = line.revenue // 2
        yield _refund(order, line, day, reason, half)
        if dice.chance(0.4):
            yield _refund(order, line, day + dice.between(3, 25), reason, half // 2)


def _refund(order: Order, line: Line, day: int, reason: str, amount: int) -> Row:
    return (order.id, line.number, DATE_KEYS[day], reason, euros(amount))


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
