"""Small helpers for text a person reads: suggestions, plurals, safe one-liners."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable

_PLAIN_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_DEVICE_NAME = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word nearest to `word`, or None when nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Return `1 table`, `2 tables`, `1,204 tables`."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def one_line(text: str, limit: int = 300) -> str:
    """Return `text` on one line, control characters blanked, cut to `limit` characters."""
    flat = re.sub(r"\s+", " ", _CONTROL.sub(" ", text)).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def listing(words: Iterable[str], limit: int = 5) -> str:
    """Return `a, b, c and 4 more`."""
    items = list(words)
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def file_stem(name: str) -> str:
    """Return a file name (without ending) for an in-file name, the same for every program that writes the project.

    A plain lower-case name is its own; any other becomes `slug-<first 8 hex digits of its sha256>`.
    """
    if _PLAIN_FILE_NAME.fullmatch(name) and not _DEVICE_NAME.fullmatch(name):
        return name
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:48] or "x"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
