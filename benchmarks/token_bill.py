"""What the Messages API would bill for the requests a scripted server really gets: prompt caching, simulated.

The rules are those of the API. A request is read in the order tools, system prompt, messages. At each `cache_control`
mark the longest prefix that an earlier request stored is looked for, up to `LOOK_BACK` blocks back; it is read from the
cache, what follows it up to the last mark is written, and the rest is fresh. An entry lives for the time its mark
names, from its last use on. Tokens are estimated as `CHARACTERS` characters each: the tokenizer of these models is not
public.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import cost_of

CHARACTERS: Final = 3.6
"""Characters of a token, about."""

LOOK_BACK: Final = 20
"""Blocks before a mark at which a stored prefix is found."""

SHORTEST: Final = 1_024
"""Tokens a prefix needs to be stored."""

MOST_MARKS: Final = 4
LIFETIMES: Final = {"5m": 300.0, "1h": 3_600.0}


@dataclass(frozen=True)
class Bill:
    """The tokens of one request and their price. `long_writes` of the cache writes are kept for an hour."""

    usage: Usage
    long_writes: int
    cost: Cost


@dataclass
class CacheSimulation:
    """The prompt cache of the provider. `seconds` pass with every request."""

    seconds: float = 10.0
    _now: float = 0.0
    _entries: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Hash of a prefix -> when it is forgotten, and the lifetime that a use renews."""

    def bill(self, body: Mapping[str, Any], output_tokens: int) -> Bill:
        """Return what a request costs, and keep what it stores; raises `ValueError` for too many marks."""
        self._now += self.seconds
        blocks = list(_blocks(body))
        ends = [end for *_, end in blocks]
        marks = [(place, ttl) for place, (_, ttl, _) in enumerate(blocks) if ttl is not None]
        if len(marks) > MOST_MARKS:
            raise ValueError(f"a request has {len(marks)} cache marks; the API takes {MOST_MARKS}")
        marks = [(place, ttl) for place, ttl in marks if ends[place] >= SHORTEST]
        hit = max((self._found(blocks, place) for place, _ in marks), default=-1)
        read = ends[hit] if hit >= 0 else 0
        for place, ttl in marks:
            self._store(blocks[place][0], LIFETIMES[ttl])
        last = max((ends[place] for place, _ in marks), default=0)
        long = max((ends[place] for place, ttl in marks if ttl == "1h"), default=0)
        usage = Usage(ends[-1] - max(read, last), output_tokens, read, max(0, last - read))
        long_writes = max(0, long - read)
        return Bill(usage, long_writes, cost_of("anthropic", body["model"], usage, long_writes=long_writes))

    def _found(self, blocks: list[tuple[str, str | None, int]], mark: int) -> int:
        """Return the last block at or before a mark whose prefix is stored, -1 where there is none."""
        for place in range(mark, max(-1, mark - LOOK_BACK), -1):
            key = blocks[place][0]
            ends, lifetime = self._entries.get(key, (0.0, 0.0))
            if ends > self._now:
                self._entries[key] = (self._now + lifetime, lifetime)
                return place
        return -1

    def _store(self, key: str, lifetime: float) -> None:
        known = self._entries.get(key, (0.0, 0.0))
        self._entries[key] = max(known, (self._now + lifetime, lifetime))


def tokens(value: Any) -> int:
    """Return the tokens of a block or a text, about."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return round(len(text) / CHARACTERS)


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, str | None, int]]:
    """Yield every block: the hash of the prefix that ends with it, the lifetime of its mark, the tokens so far."""
    shape = {name: body.get(name) for name in ("model", "output_config", "tool_choice", "thinking")}
    digest = hashlib.sha256(json.dumps(shape, sort_keys=True).encode())
    so_far = 0
    for place, block in _placed(body):
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        digest.update(json.dumps([place, bare], sort_keys=True).encode())
        so_far += tokens(_shown(bare))
        mark = block.get("cache_control")
        yield digest.hexdigest(), None if mark is None else mark.get("ttl", "5m"), so_far


def _placed(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in body.get("tools") or ():
        yield "tools", tool
    for block in _listed(body.get("system") or ()):
        yield "system", block
    for number, message in enumerate(body["messages"]):
        for block in _listed(message["content"]):
            yield f"{number}:{message['role']}", block


def _listed(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _shown(block: Mapping[str, Any]) -> Any:
    """Return what of a block the model reads: the text alone where it is one."""
    if block.get("type") == "text":
        return block["text"]
    if block.get("type") == "tool_result":
        return block["content"]
    return block
