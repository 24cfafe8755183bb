"""Gives every table and column of a generated database its name, by its style."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.namer import Namer, key_tokens, pattern_tokens, unique
from benchmarks.relationship_fixtures.reference_names import reference_name
from benchmarks.relationship_fixtures.scrambling import scramble_names
from benchmarks.relationship_fixtures.shortening import letters
from benchmarks.relationship_fixtures.styles import Style, other_style, sample_style
from benchmarks.relationship_fixtures.tables import Column, Database, Table

_QUALIFIED = {"name", "code", "number", "type", "status", "description", "date", "title", "kind", "amount"}
_PLURALS = {"english": "s", "spanish": "s", "french": "s", "portuguese": "s", "dutch": "en", "german": "en"}
_MODULES = ("crm", "fin", "hr", "inv", "core", "ops", "app", "mst", "trx", "sls", "erp", "cfg")
_APPLICATIONS = ("qx", "nova", "wb", "mdx", "hr3", "bbs", "oz", "x2", "pz", "shop", "app", "cms", "ak", "jx")
_SCHEMAS = ("Sales", "Production", "Person", "dbo", "core", "Finance", "ops", "public")


def name_database(dice: Dice, knobs: Knobs, database: Database, layout: str) -> None:
    """Name everything; the style drawn is noted for `describe`."""
    style = sample_style(dice, knobs, layout)
    namer = Namer(dice, knobs, style, layout)
    way = dice.weighted(knobs.namings)
    for table in database.tables:
        if way == "none" or dice.chance(knobs.mixed_share):
            namer.others[table.words] = other_style(dice, knobs, layout, style)
    _name_tables(namer, database)
    for table in database.tables:
        _name_own_columns(namer, table)
    for _ in range(len(database.tables)):
        if not _name_references(namer, database, way):
            break
    database.notes |= {"language": style.language, "case": style.column_case, "convention": style.label}
    database.notes |= {
        "abbreviation": style.abbreviation or "none",
        "own_prefix": style.own_prefix or "none",
        "naming": way,
    }
    if way == "scrambled":
        scramble_names(dice, database)


def _name_tables(namer: Namer, database: Database) -> None:
    taken: set[str] = set()
    module = namer.dice.sample(_MODULES, 3)
    schemas = namer.dice.sample(_SCHEMAS, 3)
    application = namer.dice.pick(_APPLICATIONS)
    used: set[str] = set()
    headed = {link.parent for link in database.links if link.identifying and link.child.form is Form.LINE}
    for number, table in enumerate(database.tables):
        style = namer.style_of(table)
        words = f"{table.words}_header" if style.headers and table in headed else table.words
        tokens = namer.tokens(words, replace(style, abbreviation="") if style.full_tables else style)
        if style.plural and tokens[-1][-1:] != "s":
            tokens[-1] = _plural(tokens[-1], style.language)
        before = {
            "application": application,
            "module": module[len(table.words) % 3],
            "code": f"{letters(table.words, 1)}{number:02d}",
        }
        prefix = [before.get(style.table_prefix, style.table_prefix)] if style.table_prefix not in ("", "dot") else []
        layer = [table.prefix_words] if table.prefix_words else []
        name = namer.join([*(layer or prefix), *tokens], style.table_case, style)
        if style.table_prefix == "dot":
            name = f"{schemas[len(table.words) % 3]}.{name}"
        table.name = unique(name, taken)
        namer.prefixes[table] = unique(letters(table.words, namer.dice.pick((2, 3, 3))), used)


def _plural(token: str, language: str) -> str:
    if language == "english" and token.endswith("y") and token[-2:-1] not in "aeou":
        return token[:-1] + "ies"
    if language == "english" and token.endswith(("ch", "sh", "x")):
        return token + "es"
    if language in ("spanish", "portuguese") and token[-1] not in "aeo":
        return token + "es"
    if language in ("german", "dutch") and token.endswith("e"):
        return token + "n"
    return token + _PLURALS.get(language, "")


def _name_own_columns(namer: Namer, table: Table) -> None:
    style = namer.style_of(table)
    taken: set[str] = set()
    for column in table.columns:
        if column.part == "reference":
            continue
        column.name = unique(_own_name(namer, table, column, style), taken)


def _own_name(namer: Namer, table: Table, column: Column, style: Style) -> str:
    prefix = [namer.prefixes[table]] if style.own_prefix else []
    if column.part == "key" and not column.words:
        return namer.join(prefix + key_tokens(namer, table, style), style.column_case, style)
    if column.part == "stray":
        return namer.join(
            prefix + pattern_tokens(namer, style.convention[1], "", column.words, "", style), style.column_case, style
        )
    tokens = namer.tokens(column.words, style)
    qualified = style.qualify and not prefix and column.words in _QUALIFIED
    if qualified or (column.part == "key" and not prefix and namer.dice.chance(0.4)):
        tokens = namer.tokens(f"{table.words}_{column.words}", style)
    return namer.join(prefix + tokens, style.column_case, style)


def _name_references(namer: Namer, database: Database, way: str) -> bool:
    """Name the references whose target has a name; return whether there was one."""
    found = False
    for link in database.links:
        style = namer.style_of(link.child)
        for column in link.columns:
            if column.name or column.target is None or not column.target.name:
                continue
            found = True
            if way == "none" and namer.dice.chance(0.5):
                style = other_style(namer.dice, namer.knobs, namer.layout, style)
            taken = {other.name.lower() for other in link.child.columns if other.name}
            column.name = unique(reference_name(namer, link.child, column, style, taken), taken)
    return found
