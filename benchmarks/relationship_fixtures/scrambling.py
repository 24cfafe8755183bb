"""Names that say nothing: `t07.c3`, `attr_12`, or words that are made up but used alike everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.tables import Database

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+")
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
INDEPENDENT, TOKENS = "independent", "tokens"


def scramble_names(dice: Dice, database: Database) -> None:
    """Rename all tables and columns in place."""
    shape = {table.name: [column.name for column in table.columns] for table in database.tables}
    way = dice.pick((INDEPENDENT, INDEPENDENT, TOKENS))
    tables, columns = scrambled(dice, shape, way)
    database.notes["scrambled"] = way
    for table in database.tables:
        for column in table.columns:
            column.name = columns[table.name, column.name]
        table.name = tables[table.name]


def scrambled(
    dice: Dice, shape: Mapping[str, Iterable[str]], way: str
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """Return new names for the tables and columns of `shape` (table: its columns).

    `independent`: every name is new, nothing links them. `tokens`: every word of the old names is exchanged for the
    same new one everywhere, so that names still tell what belongs together.
    """
    rename = _by_token(dice) if way == TOKENS else None
    numbering = dice.pick(("local", "global", "letters"))
    tables: dict[str, str] = {}
    columns: dict[tuple[str, str], str] = {}
    order = {name: place for place, name in enumerate(dice.shuffled(sorted(shape)), start=1)}
    form = dice.pick(("t{:02d}", "T{}", "table_{}", "x{:03d}", "rel{}"))
    for table, names in shape.items():
        tables[table] = _free(rename(table) if rename else form.format(order[table]), set(tables.values()))
        taken: set[str] = set()
        for place, column in enumerate(names, start=1):
            number = len(columns) + 1 if numbering == "global" else place
            new = rename(column) if rename else _numbered(numbering, number)
            columns[table, column] = _free(new, taken)
            taken.add(columns[table, column])
    return tables, columns


def _numbered(numbering: str, number: int) -> str:
    if numbering == "letters":
        return chr(97 + (number - 1) % 26) + (str((number - 1) // 26) if number > 26 else "")
    return f"attr_{number}" if numbering == "global" else f"c{number}"


def _by_token(dice: Dice) -> Callable[[str], str]:
    made: dict[str, str] = {}

    def word() -> str:
        pairs = zip(dice.many(_CONSONANTS, 3), dice.many(_VOWELS, 3), strict=True)
        return "".join(one + other for one, other in pairs)[: dice.between(3, 6)]

    def rename(name: str) -> str:
        tokens = [token.lower() for token in _TOKEN.findall(name) if token[0].isalnum()]
        for token in tokens:
            while token not in made:
                new = word()
                if new not in made.values():
                    made[token] = new
        return "_".join(made[token] for token in tokens) or "x"

    return rename


def _free(name: str, taken: set[str]) -> str:
    low = {other.lower() for other in taken}
    found, number = name, 2
    while found.lower() in low:
        found, number = f"{name}_{number}", number + 1
    return found
