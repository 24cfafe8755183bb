"""The eight tables of TPC-H with its keys, ranges and words, about scale 0.002, the same rows every time.

Made here of random numbers from one seed; the shape is that of the TPC-H specification (revision 3, clause 4.2). There
are five times as many suppliers as at that scale, so that every nation has some.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb

_SUPPLIERS, _PARTS, _CUSTOMERS, _ORDERS = 50, 400, 300, 3000
_SUPPLIERS_OF_A_PART: Final = 4
_FIRST_DAY: Final = date(1992, 1, 1)
_LAST_ORDER: Final = (date(1998, 8, 2) - _FIRST_DAY).days
_CURRENT: Final = date(1995, 6, 17)

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    *(("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3)),
    *(("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4)),
    *(("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3)),
    *(("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)),
)
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
_INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
_TYPES = (
    ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"),
    ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"),
    ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN"),
)
_CONTAINERS = (("JUMBO", "LG", "MED", "SM", "WRAP"), ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"))
_COLOURS = ("almond", "azure", "forest", "green", "ivory", "lime", "navy", "rose", "sienna", "tan")

_MONEY = "DECIMAL(15, 2)"
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "region": {"r_regionkey": "INTEGER", "r_name": "VARCHAR"},
    "nation": {"n_nationkey": "INTEGER", "n_name": "VARCHAR", "n_regionkey": "INTEGER"},
    "supplier": {
        "s_suppkey": "INTEGER",
        "s_name": "VARCHAR",
        "s_nationkey": "INTEGER",
        "s_phone": "VARCHAR",
        "s_acctbal": _MONEY,
        "s_comment": "VARCHAR",
    },
    "part": {
        "p_partkey": "INTEGER",
        "p_name": "VARCHAR",
        "p_mfgr": "VARCHAR",
        "p_brand": "VARCHAR",
        "p_type": "VARCHAR",
        "p_size": "INTEGER",
        "p_container": "VARCHAR",
        "p_retailprice": _MONEY,
    },
    "partsupp": {"ps_partkey": "INTEGER", "ps_suppkey": "INTEGER", "ps_availqty": "INTEGER", "ps_supplycost": _MONEY},
    "customer": {
        "c_custkey": "INTEGER",
        "c_name": "VARCHAR",
        "c_nationkey": "INTEGER",
        "c_phone": "VARCHAR",
        "c_acctbal": _MONEY,
        "c_mktsegment": "VARCHAR",
    },
    "orders": {
        "o_orderkey": "INTEGER",
        "o_custkey": "INTEGER",
        "o_orderstatus": "VARCHAR",
        "o_orderdate": "DATE",
        "o_orderpriority": "VARCHAR",
        "o_shippriority": "INTEGER",
        "o_comment": "VARCHAR",
    },
    "lineitem": {
        "l_orderkey": "INTEGER",
        "l_linenumber": "INTEGER",
        "l_partkey": "INTEGER",
        "l_suppkey": "INTEGER",
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": "VARCHAR",
        "l_linestatus": "VARCHAR",
        "l_shipdate": "DATE",
        "l_commitdate": "DATE",
        "l_receiptdate": "DATE",
        "l_shipinstruct": "VARCHAR",
        "l_shipmode": "VARCHAR",
    },
}

Row = tuple[Any, ...]


def make_database(path: Path, scratch: Path) -> None:
    """Write the tables to a new DuckDB file; `scratch` is an empty folder for what is loaded."""
    with duckdb.connect(str(path)) as session:
        for name, rows in _tables().items():
            columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS[name].items())
            session.execute(f"CREATE TABLE {name} ({columns})")
            with (scratch / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(rows)
            session.execute(f"COPY {name} FROM '{file.name}' (HEADER false, AUTO_DETECT false)")


def _tables() -> dict[str, list[Row]]:
    chance = random.Random(1992)
    parts = list(_parts(chance))
    orders, lines = _orders(chance, {row[0]: row[-1] for row in parts})
    return {
        "region": list(enumerate(_REGIONS)),
        "nation": [(key, name, region) for key, (name, region) in enumerate(_NATIONS)],
        "supplier": list(_suppliers(chance)),
        "part": parts,
        "partsupp": list(_offers(chance)),
        "customer": list(_customers(chance)),
        "orders": orders,
        "lineitem": lines,
    }


def _cents(chance: random.Random, low: int, high: int) -> str:
    return f"{chance.randint(low, high) / 100:.2f}"


def _phone(nation: int, chance: random.Random) -> str:
    return f"{nation + 10}-{chance.randint(100, 999)}-{chance.randint(1000, 9999)}"


def _suppliers(chance: random.Random) -> Iterator[Row]:
    for key in range(1, _SUPPLIERS + 1):
        nation = key % len(_NATIONS)
        comment = "Customer insists on Complaints" if key % 11 == 0 else "quick requests"
        balance = _cents(chance, -99_999, 999_999)
        yield key, f"Supplier#{key:09}", nation, _phone(nation, chance), balance, comment


def _parts(chance: random.Random) -> Iterator[Row]:
    for key in range(1, _PARTS + 1):
        name, maker = " ".join(chance.sample(_COLOURS, 3)), chance.randint(1, 5)
        kind = " ".join(map(chance.choice, _TYPES))
        container = " ".join(map(chance.choice, _CONTAINERS))
        brand, size = f"Brand#{maker}{chance.randint(1, 5)}", chance.randint(1, 50)
        price = (90_000 + key // 10 % 20_001 + 100 * (key % 1000)) / 100
        yield key, name, f"Manufacturer#{maker}", brand, kind, size, container, f"{price:.2f}"


def _supplier_of(part: int, which: int) -> int:
    """Return one of the four suppliers of a part (clause 4.2.3)."""
    return (part + which * (_SUPPLIERS // _SUPPLIERS_OF_A_PART + (part - 1) // _SUPPLIERS)) % _SUPPLIERS + 1


def _offers(chance: random.Random) -> Iterator[Row]:
    for part in range(1, _PARTS + 1):
        for supplier in sorted({_supplier_of(part, which) for which in range(_SUPPLIERS_OF_A_PART)}):
            yield part, supplier, chance.randint(1, 9999), _cents(chance, 100, 100_000)


def _customers(chance: random.Random) -> Iterator[Row]:
    for key in range(1, _CUSTOMERS + 1):
        nation = chance.randrange(len(_NATIONS))
        balance, segment = _cents(chance, -99_999, 999_999), chance.choice(_SEGMENTS)
        yield key, f"Customer#{key:09}", nation, _phone(nation, chance), balance, segment


def _orders(chance: random.Random, prices: Mapping[int, str]) -> tuple[list[Row], list[Row]]:
    """Return orders and their lines; every third customer has no orders."""
    orders: list[Row] = []
    lines: list[Row] = []
    for number in range(_ORDERS):
        key = number // 8 * 32 + number % 8 + 1
        customer = chance.randrange(_CUSTOMERS // 3) * 3 + chance.randint(1, 2)
        day = _FIRST_DAY + timedelta(days=chance.randint(0, _LAST_ORDER))
        own = [_line(chance, key, line, day, prices) for line in range(1, chance.randint(1, 7) + 1)]
        states = {row[9] for row in own}
        status = states.pop() if len(states) == 1 else "P"
        comment = "special packages requests" if chance.random() < 0.1 else "quiet deposits"
        orders.append((key, customer, status, day, chance.choice(_PRIORITIES), 0, comment))
        lines += own
    return orders, lines


def _line(chance: random.Random, order: int, line: int, day: date, prices: Mapping[int, str]) -> Row:
    part, quantity = chance.randint(1, _PARTS), chance.randint(1, 50)
    supplier = _supplier_of(part, chance.randrange(_SUPPLIERS_OF_A_PART))
    price = quantity * round(float(prices[part]) * 100) / 100
    rates = (f"{chance.randint(0, 10) / 100:.2f}", f"{chance.randint(0, 8) / 100:.2f}")
    shipped = day + timedelta(days=chance.randint(1, 121))
    promised = day + timedelta(days=chance.randint(30, 90))
    received = shipped + timedelta(days=chance.randint(1, 30))
    flag = chance.choice("RA") if received <= _CURRENT else "N"
    status = "O" if shipped > _CURRENT else "F"
    amounts = (quantity, f"{price:.2f}", *rates, flag, status)
    words = (chance.choice(_INSTRUCTIONS), chance.choice(_MODES))
    return (order, line, part, supplier, *amounts, shipped, promised, received, *words)
