"""Naming styles: what a team decided, or did not decide, about the names in its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs

CASES = {
    "snake": 0.40,
    "pascal": 0.17,
    "camel": 0.09,
    "upper_snake": 0.12,
    "flat": 0.08,
    "upper_flat": 0.05,
    "pascal_snake": 0.05,
    "spaced": 0.04,
}
"""How words become one name, by weight."""

CONVENTIONS: Mapping[tuple[str, str], float] = {
    ("id", "{r} id"): 20,
    ("{t} id", "{r} id"): 24,
    ("{t} id", "{t} id"): 4,
    ("{t} id", "{r} {p} id"): 8,
    ("{t} key", "{r} {p} key"): 1,
    ("id {t}", "id {r}"): 7,
    ("id", "id {r}"): 2,
    ("pk {t}", "fk {r}"): 3,
    ("pk {t} id", "fk {r} id"): 1,
    ("id", "fk {r}"): 2,
    ("id", "{r} fk"): 1,
    ("{t} pk", "{r} fk"): 1,
    ("id", "{r}"): 4,
    ("{t} id", "{r}"): 3,
    ("{t}", "{r}"): 3,
    ("{t} key", "{r} key"): 4,
    ("{t} sk", "{r} sk"): 2,
    ("key", "{r} key"): 1,
    ("{t} no", "{r} no"): 4,
    ("no", "{r} no"): 1,
    ("{t} number", "{r} number"): 2,
    ("number", "{r}"): 1,
    ("{t} code", "{r} code"): 3,
    ("code {t}", "code {r}"): 1,
    ("{t} cd", "{r} cd"): 1,
    ("{t} uid", "{r} uid"): 1,
    ("uuid", "{r} uuid"): 1,
    ("guid", "{r} guid"): 1,
    ("{t} id", "{r} ref"): 1,
    ("id", "ref {r}"): 1,
    ("oid", "{r} oid"): 1,
    ("row id", "{r} id"): 1,
    ("sys id", "{r}"): 1,
    ("seq", "{r} seq"): 1,
    ("{t} ident", "{r} ident"): 1,
    ("rec id", "{r} rec id"): 1,
    ("id", "{r} {p} id"): 2,
    ("nr", "{r} nr"): 1,
}
"""Pairs of a surrogate's name and a reference's: {t} the table, {r} the role, {p} the parent table; by weight."""

WAREHOUSE_CONVENTIONS: Mapping[tuple[str, str], float] = {
    ("{t} key", "{r} key"): 5,
    ("{t} sk", "{r} sk"): 4,
    ("{t} id", "{r} id"): 3,
    ("sk {t}", "sk {r}"): 2,
    ("dim {t} id", "dim {r} id"): 1,
    ("{t} dim id", "{r} dim id"): 1,
    ("{t} wid", "{r} wid"): 1,
}
"""The same for a warehouse of facts and dimensions."""


@dataclass(frozen=True, slots=True)
class Style:
    """How names are made.

    `own_prefix`: every column begins with letters of its table (`cst_name`); `parent` then keeps the parent's own
    column name in a reference. `qualify`: attributes such as `name` take the table's words. `bare_roles`: the share
    of references that lose their suffix. `short_roles`: a reference to `product_variant` is called `variant` (`last`)
    or `product` (`first`). `headers`: what has lines is called a header. `full_tables`: only columns are shortened.
    `own_shared_key`: a subtype names the shared key after itself. `abbreviation`: how words are shortened (see
    `shortening`).
    """

    language: str
    table_case: str
    column_case: str
    plural: bool
    convention: tuple[str, str]
    abbreviation: str = ""
    table_prefix: str = ""
    own_prefix: str = ""
    qualify: bool = False
    bare_roles: float = 0.0
    upper_id: bool = False
    accents: bool = False
    short_tables: bool = False
    short_roles: str = ""
    headers: bool = False
    full_tables: bool = False
    own_shared_key: bool = False

    @property
    def label(self) -> str:
        """A short description for a corpus's statistics."""
        return f"{self.convention[0]} / {self.convention[1]}"


def sample_style(dice: Dice, knobs: Knobs, layout: str, language: str | None = None) -> Style:
    """Draw a style."""
    column_case = dice.weighted(CASES)
    table_case = column_case if dice.chance(0.75) else dice.weighted(CASES)
    warehouse = layout == "dimensional" and dice.chance(0.75)
    return Style(
        language=language or dice.weighted(knobs.languages),
        table_case=table_case,
        column_case=column_case if column_case != "spaced" or table_case == "spaced" else "pascal",
        plural=dice.chance(0.45),
        convention=dice.weighted(WAREHOUSE_CONVENTIONS if warehouse else CONVENTIONS),
        abbreviation=dice.pick(("vowels", "cut3", "cut4", "usual", "usual", "initials"))
        if dice.chance(knobs.abbreviated)
        else "",
        table_prefix=dice.weighted(
            {"": 0.7, "tbl": 0.06, "t": 0.04, "tb": 0.01, "module": 0.11, "dot": 0.04, "code": 0.04}
        )
        if not dice.chance(knobs.prefix_share)
        else "application",
        own_prefix=dice.weighted({"": 0.9, "own": 0.05, "parent": 0.05}),
        qualify=dice.chance(0.2),
        bare_roles=knobs.role_share * dice.pick((0.3, 1.0, 1.5)),
        upper_id=dice.chance(0.5),
        accents=dice.chance(0.08),
        short_tables=dice.chance(0.08),
        short_roles=dice.weighted({"": 0.84, "last": 0.12, "first": 0.04}),
        headers=dice.chance(0.12),
        full_tables=dice.chance(0.4),
        own_shared_key=dice.chance(0.4),
    )


def other_style(dice: Dice, knobs: Knobs, layout: str, style: Style) -> Style:
    """Draw the style of a part another team added: another case or convention, most often the same language."""
    drawn = sample_style(dice, knobs, layout, style.language if dice.chance(0.85) else None)
    if dice.chance(0.5):
        return replace(style, column_case=drawn.column_case, table_case=drawn.table_case, plural=drawn.plural)
    if dice.chance(0.5):
        return replace(style, convention=drawn.convention, bare_roles=drawn.bare_roles)
    return replace(drawn, own_prefix=style.own_prefix)
