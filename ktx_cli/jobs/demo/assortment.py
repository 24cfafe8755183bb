"""What the demo company sells: categories, products, tags, and the weekly stock count."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ktx_cli.jobs.demo.days import DATE_KEYS, DAY_COUNT, Row, day_at
from ktx_cli.jobs.demo.dice import Dice

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

TAGS = (
    "pet safe",
    "low light",
    "bright light",
    "easy care",
    "fragrant",
    "edible",
    "air humidity",
    "gift",
    "new",
    "handmade",
    "outdoor",
    "slow growing",
)
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
