"""What is wrong with a `ktx.yaml` whatever its settings mean: merge keys, ids equal but for case, broken texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.core.text import listing
from ktx_cli.project.config.issues import Issue, Keys, named, placed

MERGE_KEY: Final = "<<"


def merge_keys(value: Any, at: Keys = ()) -> Iterator[Issue]:
    """Refuse every `<<`: YAML 1.2, which ktx.yaml is written in, has no merge keys, so it would be an unknown setting.

    `value` may be of any shape, with texts as keys.
    """
    if isinstance(value, dict):
        if MERGE_KEY in value:
            yield _merge_key(value[MERGE_KEY], (*at, MERGE_KEY))
        for key, item in value.items():
            yield from merge_keys(item, (*at, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from merge_keys(item, (*at, str(position)))


def _merge_key(merged: Any, keys: Keys) -> Issue:
    settings = list(merged) if isinstance(merged, dict) else []
    instead = f"`{listing((f'{key}: ...' for key in settings), 8)}`" if settings else "the settings themselves"
    return Issue(
        keys,
        f"{named(keys)} is a merge key, which ktx.yaml does not support",
        f"write {instead} in its place; an alias (`*name`) may stand for a whole value, never for a part of one",
        code="merge_key",
    )


def half_characters(value: Any, at: Keys) -> Iterator[Issue]:
    """Refuse texts no file can hold: words of a command line that are no UTF-8 come with lone surrogates."""
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        yield Issue(at, f"{named(at)} cannot be a text that is not UTF-8", "type it again in a UTF-8 terminal")
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from half_characters(item, (*at, key))
    for position, item in enumerate(value if isinstance(value, list) else ()):
        yield from half_characters(item, (*at, str(position)))


def id_collisions(raw: Mapping[str, Any], text: bytes) -> Iterator[Issue]:
    """Refuse connection ids that are equal but for case: on many systems `semantic-layer/<id>` is one folder then."""
    connections = raw.get("connections")
    first: dict[str, str] = {}
    for connection in connections if isinstance(connections, dict) else ():
        other = first.setdefault(connection.lower(), connection)
        if other != connection:
            yield _collision(connection, other, text)


def _collision(connection: str, other: str, text: bytes) -> Issue:
    here, there = (_line(("connections", name), text) for name in (connection, other))
    return Issue(
        ("connections", connection),
        f"the connection ids {named([other])} (line {there}) and {named([connection])} (line {here}) differ only in"
        " case, so on many systems their files would be the same",
        f"rename one of the two, for example `{connection}` to `{connection}-2`",
        code="id",
    )


def _line(keys: Keys, text: bytes) -> int | None:
    (issue,) = placed([Issue(keys, "")], text)
    return issue.line
