"""The raw files of a query history: JSON that a person can read and compare, none larger than an agent may read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ktx_cli.core.errors import KtxError

MAX_BYTES: Final = 110_000
"""Bytes of a raw file: a little less than a reading agent gets at once."""

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
_CAPS: Final = (500, 200, 100, 50, 20, 10, 5, 1, 0)


def rendered(document: Mapping[str, Any]) -> bytes:
    """Return a document's bytes: keys sorted, a line for each item."""
    return (json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode("utf-8", "surrogatepass")


def fitted(make: Callable[[int], Mapping[str, Any]]) -> bytes:
    """Return a document that is small enough; `make` returns it with at most so many items in each list."""
    content = b""
    for cap in _CAPS:
        content = rendered(make(cap))
        if len(content) <= MAX_BYTES:
            break
    return content


def parsed(content: bytes, path: str) -> dict[str, Any]:
    """Return a raw file's document. Raises `KtxError` for one that is damaged."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(document, dict):
        raise _damaged(path)
    return document


def _damaged(path: str) -> KtxError:
    return KtxError(f"the raw file {path} of the query history is damaged", hint="ktx ingest fetches it again")
