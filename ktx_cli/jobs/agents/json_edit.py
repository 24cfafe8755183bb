"""One entry put into a JSON file that people own, and taken out of it: no other character changes."""

from __future__ import annotations

import json
from typing import Any

from ktx_cli.core.errors import ConfigError
from ktx_cli.jobs.agents.edits import Edited, Path, inserted, newline_of, refusal
from ktx_cli.jobs.agents.jsonc import BOM, Member, Parsed, Value, parse


def entries(text: str, container: Path, where: str) -> dict[str, Any]:
    """Return the entries of an object in the text, {} where it is not there; `ConfigError` for what is no object."""
    value = _inner(parse(text, where).root, container, where)
    return {} if value is None else {member.key: member.value.data for member in value.members}


def add(text: str, container: Path, name: str, entry: dict[str, Any], where: str) -> Edited:
    """Return the text with a new entry as the last of an object, which is made where it is missing."""
    parsed = parse(text, where)
    if parsed.root is None:
        new, insertions = inserted(text, [(len(text), _document(text, parsed, _nested((*container, name), entry)))])
        return _proved(parsed, Edited(new, insertions, 0), (*container, name), where)
    path, here, there = (*container, name), _object(parsed.root, (), where), 0
    while (found := _only(here, path[: there + 1], where)) is not None:
        if there == len(container):
            raise refusal(where, path, "it is there already")
        there += 1
        here = _object(found.value, path[:there], where)
    places = _into(parsed, here, path[there], _nested(path[there + 1 :], entry))
    new, insertions = inserted(text, places)
    return _proved(parsed, Edited(new, insertions, there), path, where)


def remove(text: str, container: Path, name: str, there: int, where: str) -> str:
    """Return the text without an entry, and without objects on the way to it that are empty then.

    The first `there` of them are people's and stay.
    """
    text = _without(text, (*container, name), where)
    for depth in range(len(container), there, -1):
        parsed = parse(text, where)
        value = _inner(parsed.root, container[:depth], where)
        if value is None or value.members or _has_comment(parsed, value):
            break
        text = _without(text, container[:depth], where)
    return text


def is_blank(text: str) -> bool:
    """Say whether a text says nothing: no comment, and no member but the schema that a client adds by itself."""
    parsed = parse(text, "")
    root = parsed.root
    return not parsed.comments and (
        root is None or (root.kind == "object" and all(member.key == "$schema" for member in root.members))
    )


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _inner(root: Value | None, path: Path, where: str) -> Value | None:
    """Return the object at a path, None where it is not there."""
    value = None if root is None else _object(root, (), where)
    for depth in range(1, len(path) + 1):
        member = None if value is None else _only(value, path[:depth], where)
        value = None if member is None else _object(member.value, path[:depth], where)
    return value


def _object(value: Value, path: Path, where: str) -> Value:
    if value.kind == "object":
        return value
    what = f"`{'.'.join(path)}`" if path else "what the file holds"
    raise ConfigError(
        f"{where}: {what} is not an object",
        hint=f"correct {where}, then run the command again; nothing was written",
        details={"path": where, "key": ".".join(path)},
    )


def _only(value: Value, path: Path, where: str) -> Member | None:
    """Return the member of an object with the last key of a path; `ConfigError` where it is written twice."""
    found = value.named(path[-1])
    if len(found) > 1:
        raise refusal(where, path, "the key stands there more than once")
    return found[0] if found else None


# -- putting in ------------------------------------------------------------------------------------------------


def _document(text: str, parsed: Parsed, value: Any) -> str:
    newline = newline_of(text)
    begun = "" if text in ("", BOM) or text.endswith("\n") else newline
    return begun + _written(value, "  ", "", newline) + newline


def _into(parsed: Parsed, here: Value, key: str, value: Any) -> list[tuple[int, str]]:
    """Return what to put where for a new last member of an object."""
    text = parsed.text
    between = text[here.start : here.end] if here.members else text.strip().lstrip(BOM)
    if "\n" not in between and (here.members or here is not parsed.root):
        written = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return _behind_last(here, here.members[-1], written) if here.members else [(here.start + 1, written)]
    unit, newline = _unit(parsed), newline_of(text)
    base = _indent(text, here.start)
    indent = _indent_of_members(text, here) or base + unit
    written = f"{newline}{indent}{json.dumps(key)}: {_written(value, unit, indent, newline)}"
    if here.members:
        return _behind_last(here, here.members[-1], written, text)
    at = _past_comments(text, here.start + 1)
    return [(at, written + ("" if "\n" in text[at : here.end] else newline + base))]


def _behind_last(here: Value, last: Member, written: str, text: str | None = None) -> list[tuple[int, str]]:
    """Put a member behind the last one, on the same line (no `text`) or behind the comments of that line."""
    end = last.value.end if last.comma is None else last.comma + 1
    at = end if text is None else _past_comments(text, end)
    gap = " " if text is None else ""
    if last.comma is not None:
        return [(at, f"{gap}{written},")]
    return [(end, f",{gap}{written}")] if at == end else [(end, ","), (at, written)]


def _past_comments(text: str, at: int) -> int:
    """Return where the comments behind a place on its line end; the place itself where there are none."""
    place, found = at, at
    while True:
        while text[place : place + 1] in (" ", "\t"):
            place += 1
        if text.startswith("//", place):
            ends = (text.find(mark, place) for mark in "\r\n")
            return min((end for end in ends if end >= 0), default=len(text))
        end = text.find("*/", place + 2) + 2 if text.startswith("/*", place) else 0
        if end < 2 or "\n" in text[place:end]:
            return found
        place = found = end


def _written(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _indent(text: str, at: int) -> str:
    """Return the blanks that the line of a place begins with."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at].lstrip(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_of_members(text: str, here: Value) -> str:
    """Return the blanks before the last member that begins a line, empty where none does."""
    for member in reversed(here.members):
        before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
        if not before.strip(" \t"):
            return before
    return ""


def _unit(parsed: Parsed) -> str:
    """Return by how much the text indents: what its first member begins with."""
    root = parsed.root
    return (root and _indent_of_members(parsed.text, root)) or "  "


# -- taking out ------------------------------------------------------------------------------------------------


def _without(text: str, path: Path, where: str) -> str:
    """Return the text without a member, with the blanks before it; of the commas around it one goes."""
    parsed = parse(text, where)
    above = _inner(parsed.root, path[:-1], where)
    member = None if above is None else _only(above, path, where)
    if above is None or member is None:
        return text
    index = above.members.index(member)
    end = member.value.end if member.comma is None else member.comma + 1
    before = above.members[index - 1].comma if index and member.comma is None else None
    wanted = _tree_without(parsed, path)
    for start in (len(text[: member.start].rstrip(" \t\r\n")), member.start):
        head = text[:start] if before is None else text[:before] + text[before + 1 : start]
        new = head + text[end:]
        if _tree(new, where) == wanted:
            return new
    raise refusal(where, path, "the text around it leaves no safe place")


def _has_comment(parsed: Parsed, value: Value) -> bool:
    return any(value.start < start < value.end for start, _ in parsed.comments)


# -- proving ---------------------------------------------------------------------------------------------------


def _proved(parsed: Parsed, edited: Edited, path: Path, where: str) -> Edited:
    """Return an edit when the new text holds the old data and the new entry, nothing else."""
    new = parse(edited.text, where)
    kept = path[: edited.there + 1]
    if _tree_without(new, kept) != (parsed.root.tree if parsed.root else ("object",)):
        raise refusal(where, path, "the text around it leaves no safe place")
    return edited


def _tree(text: str, where: str) -> Any:
    try:
        root = parse(text, where).root
    except ConfigError:
        return None
    return root.tree if root else None


def _tree_without(parsed: Parsed, path: Path) -> Any:
    """Return what a text says but for one member."""
    return _dropped(parsed.root.tree, path) if parsed.root else None


def _dropped(tree: Any, path: Path) -> Any:
    kind, *members = tree
    if len(path) == 1:
        return (kind, *(each for each in members if each[0] != path[0]))
    return (kind, *((key, _dropped(item, path[1:]) if key == path[0] else item) for key, item in members))
