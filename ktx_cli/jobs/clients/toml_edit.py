"""Adds one table at the end of a user-owned TOML file, or removes it, without changing any other character.

tomlkit does not help here: deleting a table with it (0.15) also deletes the comment before the next one, and what it
adds to a file of CRLF lines ends in LF.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from ktx_cli.core import ConfigError
from ktx_cli.jobs.clients.json_edit import BOM, Edited, Path, inserted, newline_of, refusal

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"(?:^|(?<=\ufeff))[ \t]*\[.*$", re.MULTILINE)
"""A possible table header; the final check detects matches inside a multi-line string, which are not headers."""

_FILLING = re.compile(r"(?:^[ \t]*(?:#[^\n]*)?(?:\n|\Z))+\Z", re.MULTILINE)
"""Blank lines and comments at the end of a piece of text, which belong to the text that follows."""


def entries(text: str, container: Path, where: str) -> dict[str, Any]:
    """Return the tables below a key, {} if it does not exist; raises `ConfigError` for invalid TOML,
    or anything else.
    """
    data: Any = _data(text, where)
    for step in container:
        data = data.get(step, {})
        if not isinstance(data, dict):
            message = f"{where}: `{'.'.join(container)}` is not a table"
            hint = f"correct {where}, then run the command again; nothing was written"
            raise ConfigError(message, hint=hint, details={"path": where, "key": ".".join(container)})
    return dict(data)


def add(text: str, container: Path, name: str, entry: dict[str, Any], where: str) -> Edited:
    """Return the text with a new table at its end."""
    path = (*container, name)
    if name in entries(text, container, where):
        raise refusal(where, path, "it already exists")
    newline, body = newline_of(text), text.removeprefix(BOM)
    gap = "" if not body else newline if body.endswith("\n") else newline * 2
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]
    new, insertions = inserted(text, [(len(text), gap + "".join(line + newline for line in lines))])
    try:
        placed = entries(new, container, where).get(name) == entry
    except ConfigError:
        placed = False
    if not placed or _stripped(new, path, where) != _stripped(text, path, where):
        raise refusal(where, path, f"no table can follow `{'.'.join(container)}` in its current form")
    return Edited(new, insertions, len(container))


def remove(text: str, container: Path, name: str, there: int, where: str) -> str:
    """Return the text without a table and those below it; the surrounding comments stay.

    `there` only applies to JSON files: a table that contains others exists without its own header.
    """
    path = (*container, name)
    while name in entries(text, container, where):
        cut = next(_cuts(text, path, where), None)
        if cut is None:
            raise refusal(where, path, "it is not a separate table")
        text = cut
    return text


def is_blank(text: str) -> bool:
    """Return whether a text is empty, without even a comment."""
    return not text.removeprefix(BOM).strip()


def _data(text: str, where: str) -> dict[str, Any]:
    """Return the data in a text, with floats as written (so that two NaN are equal)."""
    try:
        return tomllib.loads(text.removeprefix(BOM), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        hint = f"correct {where}, then run the command again; nothing was written"
        raise ConfigError(f"{where} is not TOML: {error}", hint=hint, details={"path": where}) from error


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _cuts(text: str, path: Path, where: str) -> Iterator[str]:
    """Yield the text without one of the tables at a path, provided that everything else stays the same."""
    heads = [found.start() for found in _HEADER.finditer(text)]
    wanted = _stripped(text, path, where)
    for index, start in enumerate(heads):
        if _named(text, start)[: len(path)] != path:
            continue
        for end in [*heads[index + 1 :], len(text)]:
            new = _cut(text, start, end)
            if _stripped(new, path, where) == wanted:
                yield new
                break


def _named(text: str, start: int) -> Path:
    """Return the keys in a possible table header, or () if it is not one."""
    found = _HEADER.match(text, start)
    line = found[0].rstrip("\r") if found else ""
    try:
        data: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(data, dict) and len(data) == 1:
        key, data = next(iter(data.items()))
        keys.append(key)
    return tuple(keys)


def _cut(text: str, start: int, end: int) -> str:
    """Return the text without a table: what precedes the next table stays, and one of two surrounding blank lines is
    removed.
    """
    filling = _FILLING.search(text[start:end])
    rest = text[start + filling.start() if filling else end :]
    head = text[:start]
    blank = re.search(r"(?:(?<=\n)|\A)[ \t]*\r?\n\Z", head)
    if blank and (not rest or re.match(r"[ \t]*\r?\n", rest)):
        head = head[: blank.start()]
    return head + rest


def _stripped(text: str, path: Path, where: str) -> Any:
    """Return the data in a text without one table and the tables around it that become empty; None for invalid TOML."""
    try:
        return _dropped(_data(text, where), path)
    except ConfigError:
        return None


def _dropped(data: Any, path: Path) -> Any:
    if not isinstance(data, dict) or path[0] not in data:
        return data
    inner = None if len(path) == 1 else _dropped(data[path[0]], path[1:])
    rest = {key: value for key, value in data.items() if key != path[0]}
    return rest if not inner and isinstance(inner, dict | None) else {**rest, path[0]: inner}
