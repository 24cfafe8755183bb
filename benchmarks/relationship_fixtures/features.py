"""What real databases add to a clean model: lookups, audit columns, history, notes on anything, odd tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form, Reference
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.growth import with_authors, with_extensions, with_free_attributes, with_kinds
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.pools import listed
from benchmarks.relationship_fixtures.sampling import STRAY
from benchmarks.relationship_fixtures.structure import (
    with_junction_references,
    with_more_attributes,
    with_second_surrogates,
    with_supertypes,
)

_PEOPLE = ("app_user", "employee", "member", "agent", "staff", "officer", "clerk", "sales_rep", "profile", "operator")
_AUDIT_ROLES = (("created_by", "updated_by"), ("created_by",), ("entered_by", "changed_by"), ("owner",), ("author",))
_NOTES = (
    ("comment", "body:text created_at:timestamp", "subject"),
    ("attachment", "file_name:label bytes:big uploaded_at:timestamp", "owner"),
    ("activity", "at:timestamp action:status", "item"),
    ("note", "text:text written_on:date", "entity"),
    ("tagging", "tag_name:label", "target"),
    ("address", "street:street city_name:city postal_code:zip", "holder"),
    ("translation", "language_code:code value:label", "object"),
    ("ledger_posting", "amount:money booked_on:date", "source"),
)
_ODD = (
    ("schema_version", Form.LOG, "version:sequence description:text applied_at:timestamp"),
    ("app_setting", Form.LOOKUP, "name:label value:label"),
    ("import_buffer", Form.LOG, "line_number:sequence raw_text:text status:status"),
    ("calendar", Form.LOOKUP, "day:date holiday:flag quarter:small"),
    ("number_range", Form.LOOKUP, "object_name:label last_value:quantity"),
    ("error_log", Form.LOG, "at:timestamp message:text severity:small"),
    ("report_cache", Form.LOG, "key_text:hash payload:json expires_at:timestamp"),
    ("monthly_summary", Form.LOG, "year:year month:month amount:money quantity:quantity"),
)
_MISLEADING = listed(
    "external_id:stray_number legacy_number:stray_number sort_order:sequence version:small "
    "external_code:code status:stray_number import_batch:stray_number source_system:status row_version:small "
    "batch_number:stray_number level:small display_order:sequence revision:small flags:small year:year "
    "old_key:stray_number rank:sequence"
)


def attributes_of(text: str) -> tuple[Attribute, ...]:
    """Read `name:kind` words."""
    pairs = (word.split(":") for word in text.split())
    return tuple(Attribute(name, kind) for name, kind in pairs)


def with_features(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Return the entities with every feature the knobs ask for, each drawn on its own."""
    steps: tuple[Callable[[Dice, Knobs, list[Entity]], list[Entity]], ...] = (
        with_supertypes,
        with_junction_references,
        _with_lookups,
        with_kinds,
        with_free_attributes,
        with_extensions,
        _with_history,
        with_more_attributes,
        _with_notes,
        _with_audit,
        with_authors,
        _with_strays,
        _with_odd_tables,
        with_second_surrogates,
    )
    for step in steps:
        entities = step(dice, knobs, entities)
    return entities


def _with_lookups(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Turn some enumerated attributes into references to a lookup of their own, shared ones too."""
    added: dict[str, Entity] = {}
    taken = {entity.name for entity in entities}
    shared = dice.chance(0.3)
    changed = []
    for entity in entities:
        for attribute in entity.attributes:
            if attribute.kind != "status" or not dice.chance(knobs.lookup_share):
                continue
            name = attribute.name if shared else f"{entity.name}_{attribute.name}"
            if name in taken:
                continue
            added[name] = Entity(name, Form.LOOKUP, attributes_of(dice.pick(("name:label", "code:code name:label"))))
            role = Reference(dice.pick((attribute.name, name)), name, attribute.optional)
            left = tuple(other for other in entity.attributes if other is not attribute)
            entity = replace(entity, attributes=left, references=(*entity.references, role))
        changed.append(entity)
    return [*changed, *added.values()]


def _with_history(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    masters = [entity for entity in entities if entity.form in (Form.MASTER, Form.DOC) and entity.attributes]
    if not masters or not dice.chance(0.25):
        return entities
    taken = {entity.name for entity in entities}
    for master in dice.sample(masters, dice.between(1, 2)):
        name = master.name + dice.pick(("_history", "_audit", "_snapshot", "_archive"))
        if name not in taken:
            dates = attributes_of("valid_from:timestamp valid_until:timestamp")
            roles = (Reference(master.name, master.name), *(r for r in master.references if dice.chance(0.6)))
            entities = [*entities, Entity(name, Form.LOG, (*master.attributes, *dates), roles)]
    return entities


def _with_notes(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Add tables whose rows belong to one of several tables, told by a type column."""
    targets = [entity.name for entity in entities if entity.form in (Form.MASTER, Form.DOC)]
    if len(targets) < 2 or not dice.chance(knobs.polymorphic_share):
        return entities
    taken = {entity.name for entity in entities}
    for name, attributes, role in dice.sample(_NOTES, dice.between(1, 2)):
        chosen = tuple(dice.sample(targets, dice.between(2, 4)))
        if name not in taken:
            reference = Reference(role, chosen[0], dice.chance(0.2), chosen)
            entities = [*entities, Entity(name, Form.LOG, attributes_of(attributes), (reference,))]
    return entities


def _with_audit(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Add who and when to most tables, with a table of users where the model has no people."""
    if not dice.chance(knobs.audit_share):
        return _with_times(dice, entities)
    person = next((name for name in _PEOPLE if any(entity.name == name for entity in entities)), None)
    if person is None:
        person = "app_user"
        entities = [*entities, Entity(person, Form.MASTER, attributes_of("login_name:label email:email active:flag"))]
    roles, share, changed = dice.pick(_AUDIT_ROLES), dice.uniform(0.3, 1.0), []
    for entity in entities:
        used = {reference.role for reference in entity.references}
        wanted = entity.form not in (Form.LOOKUP, Form.LINK) and dice.chance(share)
        new = tuple(Reference(role, person, dice.chance(0.4)) for role in roles if role not in used) if wanted else ()
        changed.append(replace(entity, references=(*entity.references, *new)))
    return _with_times(dice, changed)


def _with_times(dice: Dice, entities: list[Entity]) -> list[Entity]:
    if not dice.chance(0.4):
        return entities
    names = dice.pick((("created_at", "updated_at"), ("updated_at",), ("inserted_on", "changed_on"), ("loaded_at",)))
    times = tuple(Attribute(name, "timestamp") for name in names)
    return [_with_attributes(entity, times) if dice.chance(0.8) else entity for entity in entities]


def _with_strays(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Add columns that look like keys or references and are none."""
    share = knobs.mislead_share * 0.5
    out = []
    for entity in entities:
        if dice.chance(share):
            entity = _with_attributes(entity, attributes_of(" ".join(dice.sample(_MISLEADING, dice.between(1, 3)))))
        if entity.form in (Form.MASTER, Form.DOC) and dice.chance(share * 0.3):
            entity = _with_attributes(entity, (Attribute(f"legacy_{entity.name}", STRAY),))
        out.append(entity)
    return out


def _with_attributes(entity: Entity, attributes: tuple[Attribute, ...]) -> Entity:
    taken = {attribute.name for attribute in entity.attributes}
    new = tuple(attribute for attribute in attributes if attribute.name not in taken)
    return replace(entity, attributes=entity.attributes + new)


def _with_odd_tables(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    taken = {entity.name for entity in entities}
    count = dice.weighted({0: 6, 1: 3, 2: 1})
    odd = [Entity(name, form, attributes_of(text)) for name, form, text in dice.sample(_ODD, count)]
    return [*entities, *(entity for entity in odd if entity.name not in taken)]
