"""Metabase's `dataset_query` in its two shapes, the older one and the one of stages, read as one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.sources.metabase.template import names

_CARD: Final = re.compile(r"#(\d{1,9})(?:-.*)?", re.DOTALL)
_SNIPPET: Final = re.compile(r"snippet:\s*(.*)", re.DOTALL)
_VOLATILE: Final = frozenset(("lib/uuid", "ident"))
_TAG_KEYS: Final = (
    "type", "name", "display-name", "default", "required", "dimension", "widget-type", "card-id", "snippet-name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """What a card asks. `text`: its SQL with templates, None where it was clicked together; then `built` is it.

    `tags`: by name, what Metabase knows of the parameters in the text.
    """

    database: int | None
    text: str | None = None
    tags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    built: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a raw file."""
        if self.text is None:
            return {"kind": "built", "query": dict(self.built)}
        return {"kind": "native", "text": self.text, "tags": {name: dict(tag) for name, tag in self.tags.items()}}


def id_of(value: Any) -> int | None:
    """Return an id of Metabase, a whole number from 1; None for everything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none where it is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def read_query(value: Any) -> Query:
    """Return the query of a card; one that cannot be read asks nothing."""
    if not isinstance(value, dict):
        return Query(None)
    database = id_of(value.get("database"))
    stages = value.get("stages")
    stage = stages[0] if isinstance(stages, list) and len(stages) == 1 and isinstance(stages[0], dict) else {}
    if stage.get("lib/type") == "mbql.stage/native":
        return _native(database, stage.get("native"), stage)
    if value.get("type") == "native" and isinstance(value.get("native"), dict):
        return _native(database, value["native"].get("query"), value["native"])
    return Query(database, built=_stable(value))


def stored_query(database: Any, value: Any) -> Query:
    """Return the query as `Query.to_json` gave it."""
    if not isinstance(value, dict) or value.get("kind") == "built":
        return Query(database, built=value.get("query") or {} if isinstance(value, dict) else {})
    return Query(database, str(value.get("text") or ""), value.get("tags") or {})


def _native(database: int | None, text: Any, holder: Mapping[str, Any]) -> Query:
    tags = holder.get("template-tags")
    known = {str(n): _tag(tag) for n, tag in tags.items() if isinstance(tag, dict)} if isinstance(tags, dict) else {}
    return Query(database, text if isinstance(text, str) else "", known)


def _tag(tag: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _stable(tag[key]) for key in _TAG_KEYS if tag.get(key) is not None}


def _stable(value: Any) -> Any:
    """Return JSON without the ids Metabase makes anew each time."""
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in _VOLATILE}
    return [_stable(item) for item in value] if isinstance(value, list) else value


def card_named(name: str) -> int | None:
    """Return the card a parameter's name (`#12-orders`) stands for, None where it is none."""
    found = _CARD.fullmatch(name)
    return int(found[1]) if found else None


def snippet_named(name: str) -> str | None:
    """Return the snippet a parameter's name (`snippet: paid`) stands for, None where it is none."""
    found = _SNIPPET.fullmatch(name)
    return found[1].strip() if found else None


def cards_used(query: Query) -> tuple[int, ...]:
    """Return the ids of the cards a query stands on, sorted; not those its snippets name."""
    if query.text is not None:
        found = [card for name in names(query.text) if (card := card_named(name)) is not None]
    else:
        found = list(_cards_in(query.built))
    return tuple(sorted(set(found)))


def _cards_in(value: Any) -> Iterator[int]:
    """Yield the cards a built query reads: `source-table: "card__12"`, in stages `source-card: 12`."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack += each
        elif isinstance(each, dict):
            stack += each.values()
            table, card = each.get("source-table"), each.get("source-card")
            if isinstance(table, str) and re.fullmatch(r"card__\d{1,9}", table):
                yield int(table[6:])
            if isinstance(card, int):
                yield card
