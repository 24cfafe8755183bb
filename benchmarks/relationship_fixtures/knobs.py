"""What the kinds of fixtures differ in: every share and weight the generator draws by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from benchmarks.relationship_fixtures.dice import Dice

_KEYS = {"serial": 0.70, "uuid": 0.07, "text": 0.07, "code": 0.03, "big": 0.04, "hash": 0.03, "global": 0.06}
_LAYOUTS = {"plain": 0.76, "dimensional": 0.14, "tenant": 0.03, "flat_tenant": 0.07}


@dataclass(frozen=True, slots=True)
class Knobs:
    """The shares (0 to 1) and weights of one kind.

    `entities`: least and most entity types. `rows`: the most rows all tables have together. `languages`, `keys`,
    `layouts`, `namings`: what is drawn, by weight. `role_share`: references that lose their key suffix.
    `orphan_share`: links with orphans. `mixed_share`: tables named in another style than the rest.
    `sentinel_share`: databases that write 0 or a blank where others write NULL. `applications`: the domains of large
    applications are drawn from. `domain_count`: least and most domains. `few_rows`: tables as a demo or a new
    installation has them, of 0 to 20 rows. `blank_share`: optional texts that are `''` instead of NULL.
    `constant_share`: attributes with one value. `type_share`: masters whose kinds are a table.
    `free_attribute_share`: masters with a table of free attributes. `extension_share`: masters with 1:1 tables beside
    them. `everywhere_share`: databases that note who made every row. `prefix_share`: databases whose tables begin with
    the application's letters.
    """

    entities: tuple[int, int] = (5, 32)
    rows: int = 30_000
    languages: Mapping[str, float] = field(default_factory=lambda: {"english": 1.0})
    keys: Mapping[str, float] = field(default_factory=lambda: _KEYS)
    layouts: Mapping[str, float] = field(default_factory=lambda: _LAYOUTS)
    namings: Mapping[str, float] = field(default_factory=lambda: {"styled": 1.0})
    role_share: float = 0.15
    orphan_share: float = 0.06
    mixed_share: float = 0.04
    abbreviated: float = 0.2
    composite_share: float = 0.6
    polymorphic_share: float = 0.15
    lookup_share: float = 0.3
    natural_share: float = 0.35
    other_key_share: float = 0.08
    mislead_share: float = 0.35
    empty_share: float = 0.04
    null_column_share: float = 0.04
    keyless_share: float = 0.03
    copy_share: float = 0.15
    view_share: float = 0.25
    audit_share: float = 0.3
    supertype_share: float = 0.08
    junction_reference_share: float = 0.15
    second_surrogate_share: float = 0.08
    sentinel_share: float = 0.08
    wide_share: float = 0.3
    tiny: bool = False
    one_sequence: bool = False
    applications: bool = False
    domain_count: tuple[int, int] = (1, 1)
    few_rows: bool = False
    blank_share: float = 0.03
    constant_share: float = 0.01
    type_share: float = 0.03
    free_attribute_share: float = 0.0
    extension_share: float = 0.03
    everywhere_share: float = 0.05
    prefix_share: float = 0.03


_FOREIGN = dict.fromkeys(("german", "spanish", "french", "portuguese", "italian", "dutch", "polish"), 1.0)
_GENERAL = Knobs(languages={"english": 7.0} | dict.fromkeys(_FOREIGN, 0.3))

_APPLICATION = replace(
    _GENERAL,
    entities=(20, 90),
    applications=True,
    layouts={"plain": 1.0},
    languages={"english": 1.0},
    type_share=0.15,
    free_attribute_share=0.1,
    extension_share=0.1,
    everywhere_share=0.4,
    prefix_share=0.4,
    supertype_share=0.2,
    blank_share=0.15,
    constant_share=0.08,
    empty_share=0.08,
    copy_share=0.05,
)
_FEW_ROWS = {
    "few_rows": True,
    "rows": 5_000,
    "blank_share": 0.3,
    "constant_share": 0.25,
    "everywhere_share": 0.4,
    "empty_share": 0.0,
    "copy_share": 0.03,
}

KINDS: Mapping[str, Knobs] = MappingProxyType(
    {
        "general": _GENERAL,
        "abbreviated": replace(_GENERAL, abbreviated=1.0),
        "non_english": replace(_GENERAL, languages=_FOREIGN),
        "mixed_case": replace(_GENERAL, mixed_share=0.5),
        "no_convention": replace(_GENERAL, namings={"none": 1.0}, mixed_share=0.6, role_share=0.4),
        "role_named": replace(_GENERAL, role_share=0.9),
        "dirty": replace(
            _GENERAL, orphan_share=0.6, mislead_share=0.8, keyless_share=0.12, copy_share=0.4, sentinel_share=0.3
        ),
        "composite": replace(
            _GENERAL, composite_share=1.0, junction_reference_share=0.8, layouts={"plain": 0.75, "tenant": 0.25}
        ),
        "polymorphic": replace(_GENERAL, polymorphic_share=1.0, entities=(8, 32)),
        "surrogate_everywhere": replace(
            _GENERAL,
            keys={"serial": 1.0},
            natural_share=0.0,
            composite_share=0.1,
            other_key_share=0.0,
            one_sequence=True,
        ),
        "scrambled": replace(_GENERAL, namings={"scrambled": 1.0}),
        "tiny": replace(_GENERAL, tiny=True, entities=(3, 10), rows=200),
        "application": _APPLICATION,
        "few_rows": replace(_GENERAL, entities=(8, 60), domain_count=(1, 4), **_FEW_ROWS),
        "application_few_rows": replace(_APPLICATION, **_FEW_ROWS),
    }
)
"""The kinds made from domains; `scale` is made by `scale.py`."""


def mixture(dice: Dice) -> Knobs:
    """Return the knobs of the general kind with its shares varied, so that no two corpora are the same recipe."""
    return replace(
        _GENERAL,
        domain_count=dice.pick(((1, 1), (1, 1), (1, 2), (2, 3))),
        type_share=dice.pick((0.0, 0.0, 0.1, 0.4)),
        free_attribute_share=dice.pick((0.0, 0.0, 0.1)),
        extension_share=dice.pick((0.0, 0.0, 0.1)),
        everywhere_share=dice.pick((0.0, 0.0, 0.3)),
        blank_share=dice.pick((0.0, 0.0, 0.1, 0.4)),
        constant_share=dice.pick((0.0, 0.02, 0.1)),
        role_share=dice.pick((0.0, 0.05, 0.15, 0.4)),
        orphan_share=dice.pick((0.0, 0.0, 0.05, 0.2)),
        mixed_share=dice.pick((0.0, 0.0, 0.03, 0.2)),
        natural_share=dice.pick((0.0, 0.3, 0.6)),
        composite_share=dice.pick((0.2, 0.6, 1.0)),
        lookup_share=dice.pick((0.0, 0.3, 0.7)),
        mislead_share=dice.pick((0.0, 0.3, 0.7)),
        empty_share=dice.pick((0.0, 0.0, 0.04, 0.10)),
        tiny=dice.chance(0.04),
        one_sequence=dice.chance(0.3),
        rows=dice.around(4_000, 45_000),
    )
