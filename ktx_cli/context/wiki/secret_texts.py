"""Texts that look like passwords, keys and tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ktx_cli.context.scan.profiling.privacy_values import LONGEST, sign_of
from ktx_cli.context.scan.profiling.privacy_words import Sign
from ktx_cli.context.wiki.spots import Spot
from ktx_cli.project.secrets import MASK, has_password, is_reference

_PEM: Final = "-----BEGIN"
_TOKEN: Final = re.compile(rf"[^\s\"'`<>|,;()\[\]{{}}]{{14,}}|{_PEM}[A-Z ]*PRIVATE KEY")
_DIGEST: Final = re.compile(r"(?:[a-z0-9]+[:=])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:[\w.@+-]*/)+[\w.@+-]*")
_ASSIGNED: Final = re.compile(
    r"\b(?P<name>[\w-]{0,40}(?:password|passwd|pwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|token))"
    r"[\"'`*]*\s*(?:[:=]|\bis\b)\s*[\"'`*]*(?P<value>[^\s\"'`<>,;|]{6,})",
    re.IGNORECASE,
)
_NAMES: Final = ("pass", "pwd", "secret", "key", "token")
_HINT: Final = "delete it here and at its source, and change the secret: it has been read"


def secrets(text: str) -> Iterator[Spot]:
    """Yield what looks like a secret, one for each line.

    Known forms of keys, random texts, URLs with a password, and values behind names such as `password`. Digests and
    commits (32, 40 or 64 hexadecimal digits) are none unless such a name stands in front of them.
    """
    found = {text.rfind("\n", 0, spot.at): spot for spot in (*_assigned(text), *_tokens(text))}
    yield from (found[line] for line in sorted(found))


def _tokens(text: str) -> Iterator[Spot]:
    for token in _TOKEN.finditer(text):
        value = token[0]
        if value.startswith(_PEM):
            yield Spot(token.start(), "secret", "a private key", _HINT)
        elif "://" in value:
            if has_password(value) and MASK not in value:
                yield Spot(token.start(), "secret", "a URL with a secret in it", _HINT)
        elif not _DIGEST.fullmatch(value) and not _PATH.fullmatch(value) and _is_secret(value):
            yield Spot(token.start(), "secret", "a text that looks like a key or a token", _HINT)


def _assigned(text: str) -> Iterator[Spot]:
    folded = text.casefold()
    if not any(name in folded for name in _NAMES):
        return
    for found in _ASSIGNED.finditer(text):
        value = found["value"].rstrip(".:!?*)]}")
        if _could_be_secret(value):
            yield Spot(found.start("value"), "secret", f"what looks like the value of `{found['name'][:40]}`", _HINT)


def _could_be_secret(value: str) -> bool:
    """Whether a value is more than a word or a placeholder: letters with digits or signs, and no reference."""
    if (
        len(value) < 6
        or is_reference(value)
        or re.search(r"[$<>{}()\[\]…]|\*\*\*|\.\.\.|xxx|://", value, re.IGNORECASE)
    ):
        return False
    return bool(re.search(r"\d", value)) and bool(re.search(r"[^\W\d_]", value))


def _is_secret(value: str) -> bool:
    """Whether a part of a text is a secret by the rules for values of columns."""
    parts = re.split(r"[=:](?=[^=:])", value)
    pieces = (part[start : start + LONGEST] for part in parts for start in range(0, len(part), LONGEST))
    return any(sign_of(piece) is Sign.SECRET for piece in pieces)
