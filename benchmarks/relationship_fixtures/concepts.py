"""The conceptual model of a business domain, and the short notation domains are written in.

One entity a line, `name form: attributes | references`:

    customer master: name email phone? credit_limit | customer_group region? account_manager>employee?
    order_line line(order): quantity unit_price | product

Forms: `lookup` (a short list of codes), `master`, `doc` (a transaction or header), `line(parent)` and `slot(parent)`
(identified by the parent and a number or a date), `link(a,b)` (a junction), `sub(parent)` (one to one, sharing the
key), `log` (events). A `?` marks what may be NULL. `word:kind` overrides the kind of values the name implies,
`role>target` names a reference by its role.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.relationship_fixtures.kinds_of_values import kind_of

_LINE = re.compile(
    r"(?P<name>\w+) (?P<form>\w+)(\((?P<parents>[\w,>]+)\))?:(?P<attributes>[^|]*)(\|(?P<references>.*))?"
)


class Form(StrEnum):
    """What an entity is in its model."""

    LOOKUP = "lookup"
    MASTER = "master"
    DOC = "doc"
    LINE = "line"
    SLOT = "slot"
    LINK = "link"
    SUB = "sub"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property; `kind` says what its values look like (see `kinds_of_values`)."""

    name: str
    kind: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to `target` in a `role`; `targets` of a polymorphic one are the entities it may point at."""

    role: str
    target: str
    optional: bool = False
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity type; `parents` identify it (line, slot, link, sub)."""

    name: str
    form: Form
    attributes: tuple[Attribute, ...] = ()
    references: tuple[Reference, ...] = ()
    parents: tuple[Reference, ...] = ()

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The entities it refers to, the identifying ones first."""
        return tuple(reference.target for reference in (*self.parents, *self.references))


@dataclass(frozen=True, slots=True)
class Domain:
    """A named set of entities whose references all stay inside it."""

    name: str
    entities: tuple[Entity, ...]


def parse_domain(name: str, text: str) -> Domain:
    """Read a domain; raise `ValueError` for a line that is none, a name used twice or a reference to nothing."""
    entities = tuple(_entity(line.strip()) for line in text.strip().splitlines() if line.strip())
    names = {entity.name for entity in entities}
    if len(names) != len(entities):
        raise ValueError(f"domain {name}: an entity is there twice")
    for entity in entities:
        missing = set(entity.neighbours) - names
        if missing:
            raise ValueError(f"domain {name}: {entity.name} refers to {', '.join(sorted(missing))}")
    return Domain(name, entities)


def _entity(line: str) -> Entity:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"not an entity: {line}")
    return Entity(
        found["name"],
        Form(found["form"]),
        tuple(_attribute(word) for word in found["attributes"].split()),
        tuple(_reference(word) for word in (found["references"] or "").split()),
        tuple(_reference(word) for word in (found["parents"] or "").split(",") if word),
    )


def _attribute(word: str) -> Attribute:
    name, _, kind = word.rstrip("?").partition(":")
    return Attribute(name, kind or kind_of(name), word.endswith("?"))


def _reference(word: str) -> Reference:
    role, _, target = word.rstrip("?").partition(">")
    return Reference(role, target or role, word.endswith("?"))
