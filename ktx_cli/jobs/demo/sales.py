"""The orders of the demo company and their lines: who ordered what when, and how far each order got."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from math import log

from ktx_cli.jobs.demo.people import (
    DATE_KEYS,
    DAY_COUNT,
    LAST_DAY,
    REGIONS,
    Clientele,
    Customer,
    Dice,
    Row,
    Weighted,
    date_key,
    day_at,
    month_starts,
)

STATUSES = ("placed", "packed", "shipped", "delivered", "returned", "cancelled")
CHANNELS = Weighted([("web", 62.0), ("app", 22.0), ("phone", 8.0), ("fair", 8.0)])
COUPONS = ("SPRING10", "WELCOME10", "ROOTS10")

_SHIP_LAG = Weighted([(0, 30.0), (1, 40.0), (2, 21.0), (3, 5.0), (4, 2.0), (6, 2.0)])
_LINE_COUNT = Weighted([(1, 34.0), (2, 28.0), (3, 20.0), (4, 12.0), (5, 6.0)])
_SEASON = (0.55, 0.65, 0.85, 1.0, 1.0, 0.8, 0.6, 0.55, 0.7, 0.7, 0.8, 0.95)
"""The probability that a purchase intent becomes an order, January to December."""

_PRICE_LEVEL = {2023: 92, 2024: 96, 2025: 100}
"""Selling price as a percentage of today's list price, by year."""

_FIRST_ORDER_ID = 200_001
_DUE_AFTER_DAYS = 2
_DELIVERED_AFTER_DAYS = 7
_RETURNS_AFTER_DAYS = 35


@dataclass(frozen=True, slots=True)
class Line:
    """One order line; `revenue` in cents, after discount."""

    number: int
    revenue: int


@dataclass(frozen=True, slots=True)
class Order:
    """The facts of an order that payments, refunds and tickets need; `day` is a day offset, `total` in cents."""

    id: int
    customer_id: int
    day: int
    status: str
    channel: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> int:
        """The revenue of all lines, in cents."""
        return sum(line.revenue for line in self.lines)


@dataclass(slots=True)
class OrderBook:
    """The orders in the order they came in, with the rows of `shop.orders` and `shop.order_lines`."""

    orders: list[Order] = field(default_factory=list)
    order_rows: list[Row] = field(default_factory=list)
    line_rows: list[Row] = field(default_factory=list)


class _Shelf:
    """Draws products that are on sale on a day, the popular ones more often."""

    def __init__(self, assortment: Assortment, dice: Dice) -> None:
        self._dice = dice
        self._products = Weighted([(product, 0.1 + product.popularity) for product in assortment.products])

    def pick(self, day: int) -> Product:
        """Return a product on sale on this day."""
        while True:
            product = self._products.draw(self._dice)
            if product.launched <= day <= product.withdrawn:
                return product


def make_orders(seed: int, clientele: Clientele, assortment: Assortment, sales_ids: list[int]) -> OrderBook:
    """Return the orders of all customers, numbered by day."""
    wishes = Dice(seed, "wishes")
    planned = [
        (day, place, customer)
        for place, customer in enumerate(clientele.customers)
        for day in _order_days(wishes, customer)
    ]
    planned.sort(key=lambda plan: plan[:2])
    dice, book = Dice(seed, "orders"), OrderBook()
    shelf = _Shelf(assortment, Dice(seed, "shelf"))
    for day, _, customer in planned:
        _place_order(book, dice, shelf, customer, day, sales_ids)
    return book


def _order_days(dice: Dice, customer: Customer) -> Iterator[int]:
    """Yield the days on which a customer orders: gaps around a personal mean, until they lose interest."""
    if dice.chance(0.1):
        return
    mean_gap = 25 + 190 * dice.unit()
    mean_gap *= 0.5 if customer.segment == "business" else 1.0
    last = min(DAY_COUNT - 1, customer.signup + int(80 + 1_500 * dice.unit() ** 2))
    day = customer.signup + dice.between(0, 6)
    while day <= last:
        if day >= 0 and dice.chance(_SEASON[day_at(day).month - 1]):
            yield day
        day += 1 + int(-log(1 - dice.unit()) * mean_gap)


def _place_order(
    book: OrderBook, dice: Dice, shelf: _Shelf, customer: Customer, day: int, sales_ids: list[int]
) -> None:
    order_id = _FIRST_ORDER_ID + len(book.orders)
    channel = CHANNELS.draw(dice)
    lag = _SHIP_LAG.draw(dice)
    status = _status(dice, DAY_COUNT - 1 - day, lag)
    coupon = dice.pick(COUPONS) if dice.chance(0.14) else None
    lines = _add_lines(book, dice, shelf, order_id, day, coupon is not None)
    shipping = dice.pick(customer.addresses) if dice.chance(0.6) else customer.addresses[0]
    book.orders.append(Order(order_id, customer.id, day, status, channel, lines))
    book.order_rows.append(
        (
            order_id,
            customer.id,
            DATE_KEYS[day],
            DATE_KEYS[day + _DUE_AFTER_DAYS],
            DATE_KEYS[day + lag] if status in ("shipped", "delivered", "returned") else None,
            customer.addresses[0],
            shipping,
            dice.pick(sales_ids) if channel in ("phone", "fair") else None,
            channel,
            status,
            coupon,
        )
    )


def _status(dice: Dice, age: int, lag: int) -> str:
    """Return how far an order of this age in days has progressed if it takes `lag` days to ship."""
    draw = dice.unit()
    if draw < 0.045:
        return "cancelled"
    if age < lag:
        return "placed" if age == 0 else "packed"
    if age < _DELIVERED_AFTER_DAYS:
        return "shipped"
    return "returned" if draw < 0.07 and age >= _RETURNS_AFTER_DAYS else "delivered"


def _add_lines(
    book: OrderBook, dice: Dice, shelf: _Shelf, order_id: int, day: int, discounted: bool
) -> tuple[Line, ...]:
    level = _PRICE_LEVEL[day_at(day).year]
    lines = []
    for number in range(1, _LINE_COUNT.draw(dice) + 1):
        product = shelf.pick(day)
        quantity = 1 if dice.chance(0.7) else dice.between(2, 6)
        price = product.price * level // 100
        discount = quantity * price // 10 if discounted else 0
        lines.append(Line(number, quantity * price - discount))
        book.line_rows.append((order_id, number, product.id, quantity, euros(price), euros(discount)))
    return tuple(lines)


CATEGORIES: tuple[tuple[str, str, int, int, str], ...] = (
    ("Leafy plants", "Plants", 12, 65, "Velvet fern|Slit-leaf climber|Coin plant|Silver vine|Prayer plant|Rubber tree"),
    ("Flowering plants", "Plants", 10, 48, "Peace flower|Winter cactus bloom|Moth orchid|Wax flower|Cape primrose"),
    ("Succulents", "Plants", 5, 30, "Jade cushion|Zebra rosette|String of beads|Stone plant|Desert star"),
    ("Kitchen herbs", "Plants", 4, 11, "Basil|Thyme|Garden mint|Lemon balm|Chives"),
    ("Small trees", "Plants", 45, 190, "Olive tree|Dwarf lemon|Fiddle fig|Umbrella tree"),
    ("Pots", "Hardware", 6, 70, "Clay pot|Glazed bowl|Hanging basket|Self-watering pot|Zinc tub"),
    ("Soil and feed", "Hardware", 5, 24, "Potting mix|Cactus grit|Leaf feed|Bark chips"),
    ("Tools", "Hardware", 7, 45, "Hand trowel|Pruning snips|Mister|Watering can|Soil probe"),
    ("Gift boxes", "Gifts", 25, 85, "First plant box|Herb window box|Desert box"),
)
"""Name, department, lowest and highest price in euros, product names."""

_TAGS = "pet safe|low light|bright light|easy care|fragrant|edible|air humidity|gift|new|handmade|outdoor|slow growing"
TAGS = _TAGS.split("|")
_VARIANTS = ("mini", "small", "classic", "large", "duo", "white", "sage", "terracotta")
_FIRST_PRODUCT_ID = 101


@dataclass(frozen=True, slots=True)
class Product:
    """A product on sale from day offset `launched` to `withdrawn`, both included; prices in cents."""

    id: int
    price: int
    launched: int
    withdrawn: int
    popularity: float


@dataclass(slots=True)
class Assortment:
    """The products, with the rows of the product tables."""

    products: list[Product] = field(default_factory=list)
    product_rows: list[Row] = field(default_factory=list)
    product_tag_rows: list[Row] = field(default_factory=list)


def euros(cents: int) -> str:
    """Return a non-negative amount as the text of a decimal: 1205 is `12.05`."""
    return f"{cents // 100}.{cents % 100:02d}"


def category_rows() -> list[Row]:
    """Return the rows of `shop.categories`."""
    return [(number, name, department) for number, (name, department, *_) in enumerate(CATEGORIES, 1)]


def tag_rows() -> list[Row]:
    """Return the rows of `shop.tags`."""
    return list(enumerate(TAGS, 1))


def make_assortment(seed: int) -> Assortment:
    """Return about 120 products with two to four tags each."""
    dice = Dice(seed, "assortment")
    assortment = Assortment()
    for category, (_, _, low, high, names) in enumerate(CATEGORIES, 1):
        for base in names.split("|"):
            for variant in dice.sample(_VARIANTS, 3 if dice.chance(0.85) else 2):
                _add_product(assortment, dice, category, f"{base}, {variant}", dice.between(low, high) * 100 - 10)
    return assortment


def inventory_rows(seed: int, assortment: Assortment) -> list[Row]:
    """Return the rows of `shop.inventory_snapshots`: every product on sale, counted on Sundays."""
    dice = Dice(seed, "inventory")
    stock = {product.id: dice.between(15, 120) for product in assortment.products}
    # The first day is a Sunday.
    return [
        _count_stock(dice, stock, product, day)
        for day in range(0, DAY_COUNT, 7)
        for product in assortment.products
        if product.launched <= day <= product.withdrawn
    ]


def _count_stock(dice: Dice, stock: dict[int, int], product: Product, day: int) -> Row:
    left = max(0, stock[product.id] - dice.between(0, int(6 + 18 * product.popularity)))
    delivered = dice.between(40, 90) if left < 12 and dice.chance(0.7) else 0
    stock[product.id] = left + delivered
    return (DATE_KEYS[day], product.id, stock[product.id], min(stock[product.id], dice.between(0, 9)))


def _add_product(assortment: Assortment, dice: Dice, category: int, name: str, price: int) -> None:
    number = len(assortment.products)
    launched = -dice.between(30, 900) if dice.chance(0.72) else dice.between(20, DAY_COUNT - 120)
    withdrawn = dice.between(max(launched, 0) + 100, DAY_COUNT - 60) if launched < 400 and dice.chance(0.1) else None
    product = Product(
        _FIRST_PRODUCT_ID + number, price, launched, DAY_COUNT if withdrawn is None else withdrawn, dice.unit() ** 2
    )
    assortment.products.append(product)
    assortment.product_rows.append(
        (
            product.id,
            f"PF-{category}{number:03d}",
            name,
            category,
            euros(price),
            euros(price * dice.between(38, 62) // 100),
            day_at(launched),
            None if withdrawn is None else day_at(withdrawn),
            json.dumps({"weight_g": dice.between(1, 90) * 50, "fragile": dice.chance(0.3)}),
        )
    )
    tags = dice.sample(range(1, len(TAGS) + 1), dice.between(2, 4))
    assortment.product_tag_rows.extend((product.id, tag) for tag in sorted(tags))


GUEST_CARDS = (900_001, 900_060)
"""First and last guest card: named in a payment at a fair, instead of a customer, if nobody shows an account."""

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
    """Return the rows of `finance.refunds`: full refunds for returned orders, single lines for delivered ones."""
    dice = Dice(seed, "refunds")
    drafts = (draft for order in orders for draft in _refunds_of(dice, order))
    return [(_FIRST_REFUND_ID + number, *draft) for number, draft in enumerate(drafts)]


def sales_target_rows(seed: int) -> list[Row]:
    """Return the rows of `finance.sales_targets`, one per month and region, in whole hundreds of euros."""
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
    drafts: list[Draft] = []
    for order in orders:
        if dice.chance(0.16):
            day = min(DAY_COUNT - 1, order.day + dice.between(0, 14))
            drafts.append((order.customer_id, order.id, _moment(dice, day), dice.pick(tuple(MESSAGES))))
    # Only people who had signed up by the first day, so that nobody writes before they are a customer.
    early = [customer.id for customer in customers if customer.signup <= 0]
    for _ in range(dice.between(500, 800)):
        customer_id, topic = dice.pick(early), "care" if dice.chance(0.7) else "billing"
        drafts.append((customer_id, None, _moment(dice, dice.between(0, DAY_COUNT - 1)), topic))
    drafts.sort(key=lambda draft: draft[2])
    numbered = enumerate(drafts, _FIRST_TICKET_ID)
    return [(number, *_answered(dice, draft, dice.pick(agents))) for number, draft in numbered]


Draft = tuple[int, int | None, datetime, str]
"""Customer id, order id, when it was opened, topic."""


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
