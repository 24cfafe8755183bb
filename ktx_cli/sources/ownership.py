"""Ownership of parts of a YAML file: pointers such as `measures.revenue`, and merges that respect people's edits.

    pointer = step { "." step }
    step    = a word without dots and quotes | '"' text with '""' for each '"' in it '"'

A step is a key of a mapping, or the identity of a list item: its `name`; for a join its `alias`, else its `to`
and `on` (`customers on customer_id = customers.id`), or `to` alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, UsageError, yaml
from ktx_cli.project import DATABASE_SOURCE, RAW_NAME, Tree, Workspace
from ktx_cli.semantic import is_shard_path
from ktx_cli.sources.deliveries import NAME, ONLY_DECLARED, Steps, join_step, parse_delivery, text_of

if TYPE_CHECKING:
    from ktx_cli.semantic import Model
    from ktx_cli.sources.port import Owned

Pointer = str | Steps
"""A pointer as a string or as its steps."""

LISTS: Final = frozenset(
    {"columns", "column_overrides", "measures", "proposed_measures", "segments", "policies", "parameters", "joins"}
)
"""Keys under which a missing container is created as a list of items with an identity."""

_STEP: Final = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The result for a pointer to a value that does not exist."""


def steps_of(pointer: Pointer) -> Steps:
    """Return the steps. Raises `UsageError` for a string that is not a pointer."""
    if not isinstance(pointer, str):
        return pointer
    found: list[str] = []
    position = 0
    while (match := _STEP.match(pointer, position)) is not None:
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
        if position == len(pointer):
            return tuple(found)
        if pointer[position] != ".":
            break
        position += 1
    raise UsageError(f"`{pointer}` is not a valid pointer", hint='use the form measures.revenue or columns."a.b".expr')


def get(document: Any, steps: Steps) -> Any:
    """Return the value at a pointer, or `MISSING` if it does not exist."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, MISSING)
        else:
            place = _index(document, step)
            document = MISSING if place is None else document[place]
    return document


def put(document: Any, steps: Steps, value: Any, under: str = "") -> Any:
    """Return the document with the value set; containers on the path are copied, and missing ones are created.

    `under`: the key that contains the document. Raises `ValueError` if a value on the path is not a collection.
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if document is None or document is MISSING:
        document = [] if under in LISTS else {}
    if isinstance(document, dict):
        return {**document, step: put(document.get(step, MISSING), rest, value, step)}
    if not isinstance(document, list):
        raise ValueError(f"`{step}` is inside a value that is not a collection")
    place = _index(document, step)
    if place is None:
        return [*document, put({"name": step}, rest, value) if rest else value]
    return [*document[:place], put(document[place], rest, value), *document[place + 1 :]]


def drop(document: Any, steps: Steps) -> Any:
    """Return the document without the value, and without collections that become empty.

    A list item with only its name left is also removed.
    """
    step, rest = steps[0], steps[1:]
    if isinstance(document, dict):
        if step not in document:
            return document
        below = drop(document[step], rest) if rest else MISSING
        if below is MISSING or below in ({}, []):
            return {key: item for key, item in document.items() if key != step}
        return {**document, step: below}
    place = _index(document, step)
    if place is None:
        return document
    below = drop(document[place], rest) if rest else MISSING
    left = [] if below is MISSING or below in ({}, {"name": step}) else [below]
    return [*document[:place], *left, *document[place + 1 :]]


def _index(document: Any, step: str) -> int | None:
    """Return the index of the list item that a step identifies, or None."""
    for names in (_names_join, _names_item, _names_target) if isinstance(document, list) else ():
        for index, item in enumerate(document):
            if isinstance(item, dict) and names(item, step):
                return index
    return None


def _names_join(item: Mapping[str, Any], step: str) -> bool:
    return "to" in item and join_step(item) == step


def _names_item(item: Mapping[str, Any], step: str) -> bool:
    return item.get("name") == step


def _names_target(item: Mapping[str, Any], step: str) -> bool:
    return item.get("to") == step and "alias" not in item


def is_below(steps: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a pointer refers to part of the value that another one refers to."""
    return len(steps) > len(other) and tuple(steps[: len(other)]) == tuple(other)


_NAME: Final[Steps] = ("name",)
_COMMENTS: Final = re.compile(rb"(?:#[^\r\n]*\n)*")
_ORIGINS: Final = (("table",), ("sql",))


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a merge, with pointers as strings.

    `text`: the file's content, or None without a file. `owned`: what to store for the next merge. `kept`: items that
    differ in the source but were edited. `gone`: items that were deleted but that the source still has.
    """

    text: bytes | None
    owned: Mapping[str, str]
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_changed: bool = False
    """Return whether a file in an overlay changed; see `write`."""


@dataclass(slots=True)
class _Merge:
    document: Any
    owned: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def want(self, steps: Steps, value: Any, known: str | None) -> None:
        """Update an item in the document from the source. `known`: the hash of the source's last value."""
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
        except ValueError:  # Somebody wrote a text where the item needs a mapping.
            self.kept.append(text_of(steps))
        else:
            self.owned[text_of(steps)] = digest_of(value)

    def forget(self, steps: Steps, known: str) -> None:
        """Remove an item that the source no longer has, unless it was edited."""
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
    """Return the file merged with a source's items.

    `wanted`: every item of the source, none inside another one; missing parts of the file are added in this order.
    `owned`: the result of the last merge. `where` names the file in errors. A deleted file stays deleted; one of the
    source's files that only has its `name` left is deleted.

    Raises `ConfigError` if the text is not a YAML mapping or the change cannot be placed.
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


def write(
    workspace: Workspace, path: str, wanted: Mapping[Pointer, Any], owned: Mapping[str, str], *, overwrite: bool = False
) -> Applied:
    """Update a file in an overlay with a source's items; see `apply`. `overwrite`: ignore its content."""
    before = workspace.read(path)
    applied = apply(None if overwrite else before, wanted, owned, where=path)
    if applied.text == before:
        return applied
    workspace.apply({path: applied.text})
    return replace(applied, is_changed=True)


def where_now(owned: Owned, models: Mapping[str, Model]) -> Owned:
    """Return the items that a source owns, with manifest items at the current shards of their tables.

    A scan moves tables to other shards when `semantic.layout` changes. `models`: the semantic layers as they are.
    """
    found: dict[str, dict[str, str]] = {}
    for path, items in owned.items():
        model = models.get(path.split("/")[1]) if is_shard_path(path) else None
        for pointer, digest in items.items():
            found.setdefault(path if model is None else _shard_of(model, pointer, path), {})[pointer] = digest
    return found


def _shard_of(model: Model, pointer: str, path: str) -> str:
    """Return the shard of the table that a pointer is in, or `path` if the model does not have that table."""
    source = model.sources.get(str(steps_of(pointer)[1])) if len(steps_of(pointer)) > 1 else None
    return path if source is None or source.place is None or not source.generated else source.place.path


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON in hexadecimal."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _check_apart(items: Mapping[Steps, Any]) -> None:
    for one, other in pairwise(sorted(items)):
        if is_below(other, one):
            raise ValueError(f"{text_of(other)} is part of {text_of(one)}: own only one of them")


def _loaded(text: bytes | None, where: str) -> dict[str, Any]:
    document = None if text is None else yaml.load(text, where=where)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{where}:1: it must be a mapping", hint=f"use keys such as `name:` in {where}")
    return document


def _others(document: dict[str, Any], left: Mapping[Steps, str]) -> tuple[str, ...]:
    """Return which identity of a source in the file (`table`, `sql`) was written by others; the file is then kept."""
    if not any(steps in left for steps in _ORIGINS):
        return ()
    rest = _Merge(document)
    for steps, digest in left.items():
        rest.forget(steps, digest)
    named = [] if _NAME in left else ["name"]
    return tuple(dict.fromkeys([*rest.kept, *(key for key in rest.document if key not in (*named, "name"))]))


def _written(text: bytes | None, before: dict[str, Any], after: dict[str, Any], where: str) -> bytes | None:
    from ktx_cli.project import same_data, set_value

    if same_data(before, after):
        return text
    if not after:
        return None
    if text is None or not before:
        return (text or b"") + yaml.dump(after).encode("utf-8")
    comments = _COMMENTS.match(text)
    head = comments[0] if comments else b""
    if text == head + yaml.dump(before).encode(
        "utf-8"
    ):  # Text that ktx wrote stays text, without a search for positions.
        return head + yaml.dump(after).encode("utf-8")
    return set_value(text, (), after, where=where)


def wrote_join(written: Mapping[str, str], source: str, join: Mapping[str, Any]) -> bool:
    """Return whether a source such as dbt declares a join of a generated source, and nobody changed what it wrote."""
    pointer = text_of(("tables", source, "joins", join_step(join)))
    return written.get(pointer) in (ONLY_DECLARED, digest_of(join))


def leftovers(tree: Tree, connection: str) -> dict[str, tuple[str, ...]]:
    """Return path -> pointers to existing items that a connection's sources wrote without a model.

    A wiki page is owned as a whole. Raises `ConfigError` for a manifest or a file that cannot be read.
    """
    found: dict[str, set[str]] = {}
    for path in tree.paths(f"{RAW_NAME}/{connection}/"):
        parts = path.split("/")
        if len(parts) != 4 or parts[3] != NAME or parts[2] == DATABASE_SOURCE:
            continue
        for written, items in parse_delivery(tree.read(path), path).owned.items():
            content = tree.read(written)
            if content is not None:
                found.setdefault(written, set()).update(_still_there(content, written, items))
    return {path: tuple(sorted(items)) for path, items in sorted(found.items()) if items}


def _still_there(content: bytes, path: str, items: Mapping[str, str]) -> Iterator[str]:
    if path.endswith(".md"):
        yield from items
        return
    document = _loaded(content, path)
    yield from (pointer for pointer in items if get(document, steps_of(pointer)) is not MISSING)
