"""The SQL a card runs when nobody fills in anything: optional blocks dropped, snippets and cards put in their place.

What is left of parameters gets values that Metabase itself puts in. A card whose SQL cannot be known is named as such,
with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.context.sources.metabase.parameters import Parameters, parameters_for
from ktx_cli.context.sources.metabase.queries import Query, card_named, snippet_named
from ktx_cli.context.sources.metabase.template import filled, names, without_optional
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line

LONGEST: Final = 200_000
"""Characters of the longest SQL a card may come to."""

DEEPEST: Final = 30
"""How many cards may stand on each other."""


class Reason(StrEnum):
    """Why the SQL of a card is not known."""

    CYCLE = "cycle"
    MISSING_CARD = "missing_card"
    MISSING_SNIPPET = "missing_snippet"
    MISSING_NATIVE = "missing_native"
    TOO_DEEP = "too_deep"
    TOO_LONG = "too_long"
    API = "api"


class UnresolvedError(KtxError):
    """The SQL of a card cannot be known; `reason` says why."""

    code = "definition"

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message, hint="open the card in Metabase and mend it there")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sql:
    """The SQL of a card. `stand_ins`: parameters that got a value -> that value.

    `asked`: digest of what Metabase was asked to put together, empty where ktx did it alone.
    """

    text: str
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a raw file."""
        document: dict[str, Any] = {"text": self.text}
        if self.stand_ins:
            document["stand_ins"] = dict(self.stand_ins)
        return document | ({"asked": self.asked} if self.asked else {})


Compile = Callable[[Mapping[str, Any]], str]
"""Has Metabase turn a query into SQL; raises `UnresolvedError`."""


class Resolver:
    """Resolves cards, each once. `cards`: all there are, by id; `snippets`: name -> content.

    `known`: digest of a query -> the SQL Metabase made of it before.
    """

    def __init__(
        self, cards: Mapping[int, Query], snippets: Mapping[str, str], compiled: Compile, known: Mapping[str, str]
    ) -> None:
        self._cards, self._snippets, self._compiled, self._known = cards, snippets, compiled, known
        self._done: dict[int, Sql | UnresolvedError] = {}
        self._open: list[int] = []

    def resolve(self, card: int) -> Sql | UnresolvedError:
        """Return the SQL of a card, or why it is not known."""
        if card not in self._done:
            try:
                self._done[card] = self._resolved(card)
            except UnresolvedError as error:
                if self._open and error.reason is Reason.TOO_DEEP:
                    return error  # it may be near enough for another card
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
            raise UnresolvedError(Reason.CYCLE, f"cards stand on each other in a circle: {way}")
        if card not in self._cards:
            raise UnresolvedError(Reason.MISSING_CARD, f"card {card} is not there, or may not be read")
        if len(self._open) >= DEEPEST:
            raise UnresolvedError(Reason.TOO_DEEP, f"more than {DEEPEST} cards stand on each other")

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
        """Return a text with its optional blocks dropped, its snippets and cards in their place."""
        if len(within) > DEEPEST:
            raise UnresolvedError(Reason.TOO_DEEP, f"more than {DEEPEST} snippets stand on each other")
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
            raise UnresolvedError(Reason.CYCLE, f"the snippet `{one_line(snippet, 80)}` stands on itself")
        if snippet not in self._snippets:
            raise UnresolvedError(Reason.MISSING_SNIPPET, f"the snippet `{one_line(snippet, 80)}` is not there")
        return self._inlined(self._snippets[snippet], query, (*within, snippet))

    def _card(self, card: int) -> str:
        found = self.resolve(card)
        if isinstance(found, Sql):
            return _in_brackets(found.text)
        if found.reason in (Reason.CYCLE, Reason.TOO_DEEP, Reason.TOO_LONG):
            raise found
        raise UnresolvedError(found.reason, f"card {card}, which it stands on: {found.message}")

    def _asked(self, request: Mapping[str, Any]) -> tuple[str, str]:
        """Return the SQL Metabase makes of a query and the digest of that query; asks only for what is new."""
        shape = json.dumps(request, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(shape).hexdigest()
        made = self._known.get(digest)
        return (self._compiled(request) if made is None else made), digest


def _in_brackets(text: str) -> str:
    """Return a query as part of another one; a comment at its end must not take the bracket with it."""
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
