"""The large fixture: 400 tables of 50 columns, 1,900 links, 3 rows each, named like a generated warehouse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.pools import listed
from benchmarks.relationship_fixtures.truth import DATA_FILE, PrimaryKey, Reference, Truth, write_truth
from benchmarks.relationship_fixtures.writing import new_database, quoted

TABLES, COLUMNS, LINKS, ROWS = 400, 50, 1_900, 3
_FOURTH = 4
"""Every fourth table is a dimension."""
_AREAS = listed("sales finance supply people web store plant fleet risk support")
_THINGS = listed("account branch channel contract cohort device driver event item offer order party region shift unit")
_MEASURES = listed("amount count ratio score flag label note rank span total")


def write_scale(folder: Path, seed: int, count: int = TABLES, width: int = COLUMNS) -> Truth:
    """Write the fixture into `folder`; dimensions come first, every other table refers to some of them.

    `count`: another number of tables, with as many dimensions and links a table. `width`: of columns.
    """
    dice = Dice(seed, "scale")
    tables = _table_names(dice, count)
    parents = _parents(dice, count)
    folder.mkdir(parents=True, exist_ok=True)
    links: list[Reference] = []
    with closing(new_database(folder / DATA_FILE)) as connection:
        for number, (table, key) in enumerate(tables):
            references = [tables[parent] for parent in parents[number]]
            columns = _columns(dice, key, [name for _, name in references], width)
            typed = ", ".join(f"{quoted(c)} {'INTEGER' if c.endswith('_key') else 'TEXT'}" for c in columns)
            connection.execute(f"CREATE TABLE {quoted(table)} ({typed})")
            rows = [_row(dice, columns, len(references), row) for row in range(ROWS)]
            connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * width)})", rows)
            links += [Reference(table, (name,), parent, (name,)) for parent, name in references]
        connection.commit()
    keys = tuple(PrimaryKey(table, (key,)) for table, key in tables)
    truth = Truth(keys, tuple(links))
    write_truth(folder, truth)
    return truth


def _table_names(dice: Dice, count: int) -> list[tuple[str, str]]:
    """Return (table, its key) of all tables, the dimensions first."""
    numbers = range(1, max(3, 1 + count // (len(_AREAS) * len(_THINGS))) + 1)
    words = [f"{area}_{thing}_{number}" for area in _AREAS for thing in _THINGS for number in numbers]
    chosen = dice.sample(words, count)
    layers = ["dim" if number < count // _FOURTH else "fct" for number in range(count)]
    return [(f"{layer}_{word}", f"{word}_key") for layer, word in zip(layers, chosen, strict=True)]


def _parents(dice: Dice, count: int) -> list[list[int]]:
    """Return for each table the dimensions it refers to: `LINKS` together where there are `TABLES` tables."""
    dimensions = count // _FOURTH
    facts = count - dimensions
    base, more = divmod(LINKS * count // TABLES, facts)
    counts = [0] * dimensions + [base + (number < more) for number in range(facts)]
    return [dice.sample(range(dimensions), min(each, dimensions)) for each in counts]


def _columns(dice: Dice, key: str, references: list[str], width: int) -> list[str]:
    names = [f"{word}_{number}" for number in range(1, 6) for word in _MEASURES]
    return [key, *references, *dice.sample(names, width - 1 - len(references))]


def _row(dice: Dice, columns: list[str], references: int, row: int) -> list[object]:
    keys: list[object] = [row + 1, *(dice.between(1, ROWS) for _ in range(references))]
    return keys + [f"{name[:3]} {dice.between(1, 99)}" for name in columns[len(keys) :]]
