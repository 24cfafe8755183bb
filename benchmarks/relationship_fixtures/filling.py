"""Fills a database with rows: keys and what identifies rows first, then references, then everything else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.keys import KeyMaker
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.orphans import add_orphans, write_sentinels
from benchmarks.relationship_fixtures.references import fill_link, spread, write_columns
from benchmarks.relationship_fixtures.tables import Column, Database, Link, Table
from benchmarks.relationship_fixtures.values import ValueMaker


def fill(dice: Dice, knobs: Knobs, database: Database) -> None:
    """Give every column of every table its values; sizes are set before."""
    maker = KeyMaker(dice, plain=knobs.one_sequence)
    filled: set[Column] = set()
    subtyped: dict[Table, list[int]] = {}
    for table in database.tables:
        identifying = [link for link in database.links_of(table) if link.identifying]
        if identifying:
            _identify(dice, table, identifying, filled, subtyped)
        for link in database.links_of(table):
            if link.shape == "tenant":
                fill_link(dice, knobs, link, filled)
        _fill_key(dice, maker, table, filled)
    values = ValueMaker(dice, knobs)
    for link in database.links:
        for target in link.parent_columns:
            if target.part == "attribute" and target not in filled:
                values.fill_column(link.parent, target, filled)
    for link in database.links:
        if not link.identifying and link.discriminator is None:
            fill_link(dice, knobs, link, filled)
    _fill_polymorphic(dice, database, filled)
    for table in database.tables:
        values.fill(table, filled)
    add_orphans(dice, knobs, database)
    if dice.chance(knobs.sentinel_share):
        write_sentinels(dice, database)


def _fill_key(dice: Dice, maker: KeyMaker, table: Table, filled: set[Column]) -> None:
    """Fill what is left of the key: the surrogate or code, counted within the tenant where there is one."""
    own = [column for column in table.key if column not in filled]
    for column in own:
        if len(table.key) > 1 and table.key[0] in filled:
            column.values = _counted(table.key[0].values)
        else:
            column.values = maker.values(column.kind, table, column, table.size)
        filled.add(column)


def _identify(
    dice: Dice, table: Table, links: list[Link], filled: set[Column], subtyped: dict[Table, list[int]]
) -> None:
    if any(link.parent.size == 0 for link in links):
        table.size = 0
    if table.form in (Form.LINE, Form.SLOT):
        _fill_lines(dice, table, links[0], filled)
    elif table.form is Form.SUB:
        _fill_subtype(dice, table, links[0], filled, subtyped)
    else:
        _fill_junction(dice, table, links, filled)


def _fill_subtype(dice: Dice, table: Table, link: Link, filled: set[Column], subtyped: dict[Table, list[int]]) -> None:
    """Give each row a supertype's row of its own, most often one no other subtype has (`subtyped`: those left)."""
    left = subtyped.get(link.parent) or list(range(link.parent.size))
    picked = sorted(dice.sample(left, min(table.size, max(1, len(left) * 2 // 3))))
    if dice.chance(0.8):
        used = set(picked)
        subtyped[link.parent] = [row for row in left if row not in used]
    table.size = len(picked)
    link.rows = list[int | None](picked)
    write_columns(link, filled)


def _fill_lines(dice: Dice, table: Table, link: Link, filled: set[Column]) -> None:
    """Number the children of each parent from 1 (or date them), most parents having a few."""
    wanted, parents = table.size, link.parent.size
    mean = max(1.0, wanted / max(parents, 1))
    rows: list[int | None] = []
    for row in range(parents):
        if len(rows) >= wanted:
            break
        rows += [row] * min(1 + int(dice.random.expovariate(1 / mean)), 400)
    table.size = len(rows)
    link.rows = rows
    write_columns(link, filled)
    number = next((c for key in (table.key, *table.alternates) for c in key if c.part == "number"), None)
    if number is not None:
        number.values = _numbers(dice, number, rows)
        filled.add(number)


def _numbers(dice: Dice, number: Column, rows: list[int | None]) -> list[Any]:
    counted = _counted(rows)
    if number.kind == "line":
        step = dice.weighted({1: 0.85, 10: 0.15})
        return [count * step for count in counted]
    if number.kind == "slot_year":
        return [1_980 + count for count in counted]
    first = [dice.between(0, 30) for _ in range(len(set(rows)))]
    return [
        _day(first[0 if row is None else row % len(first)] + 7 * count)
        for row, count in zip(rows, counted, strict=True)
    ]


def _day(number: int) -> str:
    year, rest = divmod(number, 336)
    return f"{2015 + year}-{rest // 28 + 1:02d}-{rest % 28 + 1:02d}"


def _counted(values: list[Any]) -> list[int]:
    """Return how many times each value has been seen so far, itself included."""
    seen: dict[Any, int] = defaultdict(int)
    out = []
    for value in values:
        seen[value] += 1
        out.append(seen[value])
    return out


def _fill_junction(dice: Dice, table: Table, links: list[Link], filled: set[Column]) -> None:
    """Fill a junction with different combinations of its parents' rows that agree in the columns they share."""
    first, rest = links[0], links[1:]
    columns = [spread(dice, "skewed", link.parent.size, table.size) if table.size else [] for link in links]
    pairs = list(dict.fromkeys(zip(*columns, strict=True)))
    for place, link in enumerate(rest, start=1):
        pairs = [pair for pair in pairs if _agree(first, pair[0], link, pair[place])]
    if dice.chance(0.6):
        pairs.sort()
    table.size = len(pairs)
    for place, link in enumerate(links):
        link.rows = [pair[place] for pair in pairs]
        write_columns(link, filled)


def _agree(one: Link, row: int, other: Link, other_row: int) -> bool:
    """Return whether two parents' rows have equal values where the links share a column."""
    values = {column: target.values[row] for column, target in zip(one.columns, one.parent_columns, strict=True)}
    shared = zip(other.columns, other.parent_columns, strict=True)
    return all(values.get(column, target.values[other_row]) == target.values[other_row] for column, target in shared)


def _fill_polymorphic(dice: Dice, database: Database, filled: set[Column]) -> None:
    groups: dict[Column, list[Link]] = defaultdict(list)
    for link in database.links:
        if link.discriminator is not None:
            groups[link.columns[0]].append(link)
    for column, links in groups.items():
        _fill_one_polymorphic(dice, column, links)
        filled.add(column)
        assert links[0].discriminator is not None
        filled.add(links[0].discriminator[0])


def _fill_one_polymorphic(dice: Dice, column: Column, links: list[Link]) -> None:
    """Let each row refer to one of the tables; the type column says which."""
    count = links[0].child.size
    usable = [place for place, link in enumerate(links) if link.parent.size]
    chosen = dice.skewed(usable, count, dice.pick((0.0, 0.7))) if usable else []
    spreads = {place: iter(spread(dice, "skewed", links[place].parent.size, count)) for place in set(chosen)}
    types: list[Any] = [None] * count
    column.values = [None] * count
    for row, place in enumerate(chosen):
        link = links[place]
        assert link.discriminator is not None
        column.values[row] = link.parent_columns[0].values[next(spreads[place])]
        types[row] = link.discriminator[1]
    assert links[0].discriminator is not None
    links[0].discriminator[0].values = types
