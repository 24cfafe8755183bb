"""What a source wrote into files that people and agents write too is owned item by item.

Of each item (`measures.revenue`, `columns.net.descriptions.dbt`) the hash of what the source wrote last is kept. An
item that still has that hash is the source's: it is replaced, or removed when it is no longer wanted. One that has
another is somebody's edit: it stays. One that is gone was deleted by somebody: it stays gone. Comments and layout stay.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from ktx_cli.context.sources.pointers import MISSING, Pointer, Steps, drop, get, is_below, put, steps_of, text_of
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.project import edit

_NAME: Final[Steps] = ("name",)
_COMMENTS: Final = re.compile(rb"(?:#[^\r\n]*\n)*")
_ORIGINS: Final = (("table",), ("sql",))


@dataclass(frozen=True, slots=True)
class Applied:
    """What a merge gives, pointers as text.

    `text`: of the file, None where there is none. `owned`: to be kept for the next merge. `kept`: items the source has
    otherwise, left as somebody wrote them. `gone`: items somebody deleted that the source still has.
    """

    text: bytes | None
    owned: Mapping[str, str]
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(slots=True)
class _Merge:
    document: Any
    owned: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def want(self, steps: Steps, value: Any, known: str | None) -> None:
        """Bring the document to what the source wants of an item; `known`: the hash of what it wrote last."""
        pointer, present, digest = text_of(steps), get(self.document, steps), digest_of(value)
        if known is None and present is MISSING:
            self._write(steps, value)
            return
        if known is None:
            if digest_of(present) != digest:
                self.kept.append(pointer)
            return
        if present is MISSING:
            self.owned[pointer] = known
            self.gone.append(pointer)
            return
        now = digest_of(present)
        if now == digest:
            self.owned[pointer] = digest
        elif now == known:
            self._write(steps, value)
        else:
            self.owned[pointer] = known
            self.kept.append(pointer)

    def _write(self, steps: Steps, value: Any) -> None:
        try:
            self.document = put(self.document, steps, value)
        except ValueError:  # somebody wrote a text where the item would need a mapping
            self.kept.append(text_of(steps))
        else:
            self.owned[text_of(steps)] = digest_of(value)

    def forget(self, steps: Steps, known: str) -> None:
        """Take an item the source no longer has out of the document, unless somebody changed it."""
        present = get(self.document, steps)
        if present is MISSING:
            return
        if digest_of(present) != known:
            self.kept.append(text_of(steps))
        elif steps != _NAME or self.document.keys() == {"name"}:
            self.document = drop(self.document, steps)


def apply(
    text: bytes | None, wanted: Mapping[Pointer, Any], owned: Mapping[str, str], *, where: str = "the file"
) -> Applied:
    """Return the file with what a source wants of it now.

    `wanted`: every item the source has, none inside another one; missing parts of the file come in this order. `owned`:
    what the last merge returned. `where` names the file in errors. A file that somebody deleted stays deleted; one
    of the source's that has nothing but its `name` left is deleted.

    Raises `ConfigError` for a text that is no YAML mapping, and where the change cannot be placed.
    """
    items = {steps_of(pointer): value for pointer, value in wanted.items()}
    _check_apart(items)
    if text is None and owned:
        return Applied(None, {p: h for p, h in owned.items() if steps_of(p) in items}, gone=tuple(map(text_of, items)))
    document = _loaded(text, where)
    merge = _Merge(document)
    left = {steps_of(pointer): digest for pointer, digest in owned.items() if steps_of(pointer) not in items}
    if not items and (others := _others(document, left)):
        return Applied(text, {}, others)
    for steps in sorted(left, key=lambda steps: (steps == _NAME, steps)):
        merge.forget(steps, left[steps])
    for steps, value in items.items():
        merge.want(steps, value, owned.get(text_of(steps)))
    result = _written(text, document, merge.document, where)
    return Applied(result, merge.owned, tuple(merge.kept), tuple(merge.gone))


def digest_of(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON, in hex."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _check_apart(items: Mapping[Steps, Any]) -> None:
    for one, other in pairwise(sorted(items)):
        if is_below(other, one):
            raise ValueError(f"{text_of(other)} is a part of {text_of(one)}: own one of them")


def _loaded(text: bytes | None, where: str) -> dict[str, Any]:
    document = None if text is None else yaml.load(text, where=where)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{where}:1: it must be a mapping", hint=f"write keys such as name: into {where}")
    return document


def _others(document: dict[str, Any], left: Mapping[Steps, str]) -> tuple[str, ...]:
    """Return what of a source the file itself makes (`table`, `sql`) is somebody else's; the file then stays whole."""
    if not any(steps in left for steps in _ORIGINS):
        return ()
    rest = _Merge(document)
    for steps, digest in left.items():
        rest.forget(steps, digest)
    named = [] if _NAME in left else ["name"]
    return tuple(dict.fromkeys([*rest.kept, *(key for key in rest.document if key not in (*named, "name"))]))


def _written(text: bytes | None, before: dict[str, Any], after: dict[str, Any], where: str) -> bytes | None:
    if edit.same_data(before, after):
        return text
    if not after:
        return None
    if text is None or not before:
        return (text or b"") + yaml.dump(after).encode("utf-8")
    comments = _COMMENTS.match(text)
    head = comments[0] if comments else b""
    if text == head + yaml.dump(before).encode("utf-8"):  # a text as we write it stays one, without a search for places
        return head + yaml.dump(after).encode("utf-8")
    return edit.set_value(text, (), after, where=where)
