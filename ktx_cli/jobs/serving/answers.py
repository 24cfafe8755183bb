"""Answers kept for a while, so that the pages of one are pages of the same answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core.clock import monotonic

SECONDS: Final = 300.0
MOST: Final = 32
MOST_BYTES: Final = 64_000_000
"""Of all kept answers together, as `row_memory` counts: what is used least goes first."""


@dataclass(frozen=True, slots=True)
class _Kept:
    proof: tuple[object, ...]
    answer: Any
    size: int
    until: float


@dataclass(slots=True)
class KeptAnswers:
    """Answers by what was asked; may be used by many threads.

    `proof`: the objects an answer was made with (settings, model). With others in their place it is not given any more:
    what was hidden in the meantime is hidden on the next page too.
    """

    seconds: float = SECONDS
    most: int = MOST
    most_bytes: int = MOST_BYTES
    clock: Callable[[], float] = monotonic
    _kept: OrderedDict[str, _Kept] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: str, proof: tuple[object, ...]) -> Any | None:
        """Return the answer of a key, None where it is not kept (any more)."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            same = len(kept.proof) == len(proof) and all(a is b for a, b in zip(kept.proof, proof, strict=True))
            if not same or kept.until < self.clock():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return kept.answer

    def put(self, key: str, proof: tuple[object, ...], answer: Any, size: int) -> None:
        """Keep an answer of so many bytes, unless it is too large."""
        with self._lock:
            self._kept.pop(key, None)
            now = self.clock()
            for old in [each for each, kept in self._kept.items() if kept.until < now]:
                del self._kept[old]
            if size > self.most_bytes:
                return
            self._kept[key] = _Kept(proof, answer, size, now + self.seconds)
            while len(self._kept) > self.most or sum(each.size for each in self._kept.values()) > self.most_bytes:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
