"""Metabase queries: both forms of `dataset_query`, read into one form and resolved to SQL."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ktx_cli.core import KtxError, one_line

_CARD: Final = re.compile(r"#(\d{1,9})(?:-.*)?", re.DOTALL)
_SNIPPET: Final = re.compile(r"snippet:\s*(.*)", re.DOTALL)
_VOLATILE: Final = frozenset(("lib/uuid", "ident"))
_TAG_KEYS: Final = (
    "type", "name", "display-name", "default", "required", "dimension", "widget-type", "card-id", "snippet-name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a card. `text`: its SQL with templates, or None if it was built in the UI; then `built` is set.

    `tags`: Metabase's facts about the parameters in the text, by name.
    """

    database: int | None
    text: str | None = None
    tags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    built: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the query in its raw file form."""
        if self.text is None:
            return {"kind": "built", "query": dict(self.built)}
        return {"kind": "native", "text": self.text, "tags": {name: dict(tag) for name, tag in self.tags.items()}}


def id_of(value: Any) -> int | None:
    """Return a Metabase id, a whole number from 1, or None for other values."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def read_query(value: Any) -> Query:
    """Return the query of a card. A card that cannot be read has an empty query."""
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
    """Return the query from the result of `Query.to_json`."""
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
    """Return JSON without the IDs that Metabase recreates every time."""
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in _VOLATILE}
    return [_stable(item) for item in value] if isinstance(value, list) else value


def card_named(name: str) -> int | None:
    """Return the card that a parameter name (`#12-orders`) refers to, or None."""
    found = _CARD.fullmatch(name)
    return int(found[1]) if found else None


def snippet_named(name: str) -> str | None:
    """Return the snippet that a parameter name (`snippet: paid`) refers to, or None."""
    found = _SNIPPET.fullmatch(name)
    return found[1].strip() if found else None


def cards_used(query: Query) -> tuple[int, ...]:
    """Return the sorted IDs of the cards that a query depends on, except those in its snippets."""
    if query.text is not None:
        found = [card for name in names(query.text) if (card := card_named(name)) is not None]
    else:
        found = list(_cards_in(query.built))
    return tuple(sorted(set(found)))


def _cards_in(value: Any) -> Iterator[int]:
    """Yield the cards that a query-builder query reads: `source-table: "card__12"` or, in stages, `source-card: 12`."""
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


LONGEST: Final = 200_000
"""The maximum length of a card's SQL in characters."""

DEEPEST: Final = 30
"""The maximum depth of dependencies between cards."""


class Reason(StrEnum):
    """Why a card's SQL is unknown."""

    CYCLE = "cycle"
    MISSING_CARD = "missing_card"
    MISSING_SNIPPET = "missing_snippet"
    MISSING_NATIVE = "missing_native"
    TOO_DEEP = "too_deep"
    TOO_LONG = "too_long"
    API = "api"


class UnresolvedError(KtxError):
    """Raised if a card's SQL cannot be determined; `reason` says why."""

    code = "definition"

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message, hint="open the card in Metabase and fix it there")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sql:
    """A card's SQL. `stand_ins`: parameter -> the value inserted for it.

    `asked`: digest of the query that Metabase converted, empty if ktx built the SQL itself.
    """

    text: str
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the SQL in its raw file form."""
        document: dict[str, Any] = {"text": self.text}
        if self.stand_ins:
            document["stand_ins"] = dict(self.stand_ins)
        return document | ({"asked": self.asked} if self.asked else {})


Compile = Callable[[Mapping[str, Any]], str]
"""Converts a query to SQL through Metabase. Raises `UnresolvedError`."""


class Resolver:
    """Resolves each card once. `cards`: all cards, by id. `snippets`: name -> content.

    `known`: query digest -> the SQL that Metabase previously generated for it.
    """

    def __init__(
        self, cards: Mapping[int, Query], snippets: Mapping[str, str], compiled: Compile, known: Mapping[str, str]
    ) -> None:
        self._cards, self._snippets, self._compiled, self._known = cards, snippets, compiled, known
        self._done: dict[int, Sql | UnresolvedError] = {}
        self._open: list[int] = []

    def resolve(self, card: int) -> Sql | UnresolvedError:
        """Return a card's SQL, or why it is unknown."""
        if card not in self._done:
            try:
                self._done[card] = self._resolved(card)
            except UnresolvedError as error:
                if self._open and error.reason is Reason.TOO_DEEP:
                    return error  # It may be reachable through another card.
                self._done[card] = error
        return self._done[card]

    def _resolved(self, card: int) -> Sql:
        self._check_way(card)
        query = self._cards[card]
        self._open.append(card)
        try:
            return self._built(query) if query.text is None else self._native(query)
        finally:
            self._open.pop()

    def _check_way(self, card: int) -> None:
        if card in self._open:
            way = " -> ".join(map(str, [*self._open[self._open.index(card) :], card]))
            raise UnresolvedError(Reason.CYCLE, f"cards depend on each other in a cycle: {way}")
        if card not in self._cards:
            raise UnresolvedError(Reason.MISSING_CARD, f"card {card} does not exist or cannot be read")
        if len(self._open) >= DEEPEST:
            raise UnresolvedError(Reason.TOO_DEEP, f"more than {DEEPEST} cards depend on each other")

    def _built(self, query: Query) -> Sql:
        if not query.built:
            raise UnresolvedError(Reason.MISSING_NATIVE, "it has no query")
        text, asked = self._asked(query.built)
        return Sql(text, {}, asked)

    def _native(self, query: Query) -> Sql:
        if not (query.text or "").strip():
            raise UnresolvedError(Reason.MISSING_NATIVE, "its query is empty")
        text = self._inlined(query.text or "", query, ())
        left = names(text)
        if not left:
            return Sql(text.strip())
        given = parameters_for(left, query.tags)
        made, asked = self._asked(_native_request(query, text, given))
        return Sql(made, given.values, asked)

    def _inlined(self, text: str, query: Query, within: tuple[str, ...]) -> str:
        """Return a query without its optional blocks and with snippets and cards inserted."""
        if len(within) > DEEPEST:
            raise UnresolvedError(Reason.TOO_DEEP, f"more than {DEEPEST} snippets depend on each other")
        room = LONGEST - len(text)

        def value(name: str) -> str | None:
            nonlocal room
            found = self._value(name, query, within) if room >= 0 else None
            room -= len(found or "")
            if room < 0:
                raise UnresolvedError(Reason.TOO_LONG, f"its SQL is longer than {LONGEST:,} characters")
            return found

        return filled(without_optional(text), value)

    def _value(self, name: str, query: Query, within: tuple[str, ...]) -> str | None:
        card = card_named(name)
        if card is not None:
            return self._card(card)
        snippet = snippet_named(name)
        if snippet is None:
            return None
        if snippet in within:
            raise UnresolvedError(Reason.CYCLE, f"the snippet `{one_line(snippet, 80)}` includes itself")
        if snippet not in self._snippets:
            raise UnresolvedError(Reason.MISSING_SNIPPET, f"the snippet `{one_line(snippet, 80)}` does not exist")
        return self._inlined(self._snippets[snippet], query, (*within, snippet))

    def _card(self, card: int) -> str:
        found = self.resolve(card)
        if isinstance(found, Sql):
            return _in_brackets(found.text)
        if found.reason in (Reason.CYCLE, Reason.TOO_DEEP, Reason.TOO_LONG):
            raise found
        raise UnresolvedError(found.reason, f"card {card}, which it depends on: {found.message}")

    def _asked(self, request: Mapping[str, Any]) -> tuple[str, str]:
        """Return the SQL that Metabase generates for a query, and the query's digest; only new queries are sent."""
        shape = json.dumps(request, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(shape).hexdigest()
        made = self._known.get(digest)
        return (self._compiled(request) if made is None else made), digest


def _in_brackets(text: str) -> str:
    """Return a query as part of another one, protecting the closing parenthesis from a trailing comment."""
    body = text.rstrip().rstrip(";").rstrip()
    last = body.rpartition("\n")[2]
    return f"({body}\n)" if "--" in last or "#" in last else f"({body})"


def _native_request(query: Query, text: str, given: Parameters) -> dict[str, Any]:
    return {
        "database": query.database,
        "type": "native",
        "native": {"query": text, "template-tags": {name: dict(tag) for name, tag in given.tags.items()}},
        "parameters": list(given.parameters),
    }


_MARK: Final = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|['\"`]|\[\[|\]\]|\{\{[^{}]{1,300}\}\}", re.DOTALL)


class _Mark(NamedTuple):
    kind: str
    start: int
    end: int
    name: str = ""


def without_optional(text: str) -> str:
    """Return a query without its optional blocks, as it runs if no parameter is set."""
    kept: list[str] = []
    opened: list[tuple[int, bool]] = []
    position = 0
    for mark in _marks(text):
        kept.append(text[position : mark.start])
        position = mark.end
        if mark.kind == "[[":
            opened.append((len(kept), False))
        elif mark.kind == "{{" and opened:
            opened[-1] = (opened[-1][0], True)
        if mark.kind == "]]" and opened:
            _close(kept, opened)
        else:
            kept.append(text[mark.start : mark.end])
    return "".join([*kept, text[position:]])


def _close(kept: list[str], opened: list[tuple[int, bool]]) -> None:
    """End the innermost block, which is dropped if it contains a parameter and kept otherwise."""
    start, has_parameter = opened.pop()
    if not has_parameter:
        kept.append("]]")
        return
    del kept[start:]
    if opened:
        opened[-1] = (opened[-1][0], True)


def filled(text: str, value: Callable[[str], str | None]) -> str:
    """Return a query with each `{{name}}` replaced by `value(name)`, or unchanged if that is None."""
    pieces: list[str] = []
    position = 0
    for mark in _marks(text):
        found = value(mark.name) if mark.kind == "{{" else None
        pieces += [text[position : mark.start], text[mark.start : mark.end] if found is None else found]
        position = mark.end
    return "".join([*pieces, text[position:]])


def names(text: str) -> tuple[str, ...]:
    """Return the names in `{{...}}` without duplicates, in order."""
    return tuple(dict.fromkeys(mark.name for mark in _marks(text) if mark.kind == "{{"))


def _marks(text: str) -> Iterator[_Mark]:
    """Yield `[[`, `]]` and `{{` outside comments; inside quotes, comment markers do not count."""
    quote = ""
    position = 0
    while found := _MARK.search(text, position):
        position = found.end()
        shown = found[0]
        if shown in ("'", '"', "`"):
            quote = "" if quote == shown else quote or shown
        elif shown.startswith(("--", "/*")):
            position = found.start() + 2 if quote else position
        elif shown in ("[[", "]]"):
            yield _Mark(shown, found.start(), found.end())
        else:
            yield _Mark("{{", found.start(), found.end(), shown[2:-2].strip())


_STAND_INS: Final[Mapping[str, tuple[str, Any]]] = {
    "text": ("category", "ktx"),
    "number": ("number/=", 1),
    "date": ("date/single", "2000-01-01"),
    "boolean": ("boolean/=", True),
    "temporal-unit": ("temporal-unit", "month"),
}
"""Parameter type -> the type of its value in Metabase, and a value."""

_WIDGETS: Final[tuple[tuple[str, Any], ...]] = (
    ("date/range", "2000-01-01~2000-12-31"),
    ("date/relative", "past30days"),
    ("date/month-year", "2000-01"),
    ("date/quarter-year", "Q1-2000"),
    ("date/all-options", "2000-01-01~2000-12-31"),
    ("date", "2000-01-01"),
    ("number/between", [1, 2]),
    ("number", [1]),
    ("id", [1]),
    ("boolean", [True]),
)
"""Prefix of a field filter's widget -> a value for it; the first match counts."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The `tags` and `parameters` for Metabase. `values`: the inserted values, by parameter."""

    tags: Mapping[str, Mapping[str, Any]]
    parameters: tuple[Mapping[str, Any], ...]
    values: Mapping[str, Any]


def parameters_for(names: Iterable[str], tags: Mapping[str, Mapping[str, Any]]) -> Parameters:
    """Return values for the named parameters: their defaults, else placeholder values.

    An optional field filter does not get a value: Metabase writes a condition that is always true.
    """
    known: dict[str, Mapping[str, Any]] = {}
    given: list[Mapping[str, Any]] = []
    values: dict[str, Any] = {}
    for name in sorted(names):
        tag = tags.get(name, {"type": "text"})
        known[name] = {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)), "display-name": name, **tag, "name": name}
        if tag.get("type") == "dimension" and not tag.get("required") and _is_unset(tag):
            continue
        kind, value = _value(tag)
        values[name] = value
        target = "dimension" if tag.get("type") == "dimension" else "variable"
        given.append({"type": kind, "target": [target, ["template-tag", name]], "value": value})
    return Parameters(known, tuple(given), values)


def _value(tag: Mapping[str, Any]) -> tuple[str, Any]:
    kind, stand_in = _STAND_INS.get(str(tag.get("type")), _STAND_INS["text"])
    if tag.get("type") == "dimension":
        kind = str(tag.get("widget-type") or "category")
        stand_in = next((value for start, value in _WIDGETS if kind.startswith(start)), ["ktx"])
    return kind, stand_in if _is_unset(tag) else tag["default"]


def _is_unset(tag: Mapping[str, Any]) -> bool:
    return tag.get("default") in (None, "", [])
