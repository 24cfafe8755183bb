"""Structures of real models that clean ones lack: supertypes, references to junctions, second surrogates."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form, Reference
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.pools import listed

_SUPERTYPES = ("party", "business_entity", "person", "actor", "resource", "base_object", "subject_entity", "node")
_TENANTS = ("tenant", "company", "organization", "workspace", "client", "school", "site", "branch")
_MORE = listed(
    "priority:small sort_order:sequence comment:text remark:text internal_note:text is_default:flag is_public:flag"
    " is_locked:flag tax_amount:money net_amount:money gross_amount:money weight:float width:float height:float"
    " color:status size:status language_name:status origin:status channel:status risk_class:small rating:rating"
    " visits:count attempts:count retries:small reminder_level:small follow_up_date:date checked_on:date"
    " released_on:date expires_at:timestamp synced_at:timestamp phone:phone fax:phone email:email website:url"
    " reference_number:docno legacy_number:stray_number group_number:stray_number checksum:hash payload:json"
    " free_field_1:label free_field_2:label custom_1:status custom_2:quantity custom_3:money quota:quantity"
    " percentage:percent days:duration short_name:label search_text:label version:small revision:small"
)
_SECONDS = (("row_guid", "guid"), ("record_number", "counter"), ("sequence_number", "counter"), ("sync_id", "guid"))


def with_supertypes(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Let two to four masters share the key of a common supertype; references to them stay where they are."""
    taken = {entity.name for entity in entities}
    masters = [entity for entity in entities if entity.form is Form.MASTER]
    name = dice.pick(_SUPERTYPES)
    if len(masters) < 2 or name in taken or not dice.chance(knobs.supertype_share):
        return entities
    subtypes = {entity.name for entity in dice.sample(masters, dice.between(2, 4))}
    common = tuple(Attribute(word, kind) for word, kind in (("kind", "status"), ("created_at", "timestamp")))
    parent = Entity(name, Form.MASTER, common[: dice.between(1, 2)])
    return [parent, *(_subtype(entity, name) if entity.name in subtypes else entity for entity in entities)]


def _subtype(entity: Entity, supertype: str) -> Entity:
    return replace(entity, form=Form.SUB, parents=(Reference(supertype, supertype),))


def with_junction_references(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Let a transaction refer to a junction or a line, by all the columns of its key."""
    if not dice.chance(knobs.junction_reference_share):
        return entities
    identified = [entity.name for entity in entities if entity.form in (Form.LINK, Form.LINE, Form.SLOT)]
    others = [entity for entity in entities if entity.form in (Form.DOC, Form.LOG)]
    if not identified or not others:
        return entities
    target, child = dice.pick(identified), dice.pick(others).name
    new = (Reference(target, target, dice.chance(0.4)),)
    return [
        replace(entity, references=entity.references + new)
        if entity.name == child and target not in entity.neighbours
        else entity
        for entity in entities
    ]


def with_tenant(dice: Dice, entities: list[Entity]) -> list[Entity]:
    """Let most tables refer to the client they belong to; keys stay as they are."""
    name = dice.pick(_TENANTS)
    if any(entity.name == name for entity in entities):
        return entities
    tenant = Entity(name, Form.LOOKUP, (Attribute("name", "label"), Attribute("created_at", "timestamp")))
    owner = (Reference(name, name),)
    share = dice.uniform(0.5, 1.0)
    return [
        tenant,
        *(
            replace(entity, references=owner + entity.references) if dice.chance(share) else entity
            for entity in entities
        ),
    ]


def with_more_attributes(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Widen the tables of some databases by what grows over the years: flags, free fields, amounts, dates."""
    if not dice.chance(knobs.wide_share):
        return entities
    most = dice.pick((4, 8, 16, 30))
    return [replace(entity, attributes=_wider(dice, entity, dice.between(0, most))) for entity in entities]


def _wider(dice: Dice, entity: Entity, count: int) -> tuple[Attribute, ...]:
    taken = {attribute.name for attribute in entity.attributes}
    pairs = (word.split(":") for word in dice.sample(_MORE, count) if word.split(":")[0] not in taken)
    return entity.attributes + tuple(Attribute(name, kind, dice.chance(0.5)) for name, kind in pairs)


def with_second_surrogates(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Add a second unique column to most tables, as replication and migrations leave them."""
    if not dice.chance(knobs.second_surrogate_share):
        return entities
    second, share = Attribute(*dice.pick(_SECONDS)), dice.uniform(0.3, 1.0)
    return [
        replace(entity, attributes=(*entity.attributes, second)) if dice.chance(share) else entity
        for entity in entities
    ]
