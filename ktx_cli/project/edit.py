"""The only editor for YAML files that a person may own: it changes the requested value and no other character.

An edit is spliced into the text and then verified: the new text must parse to the old data with exactly that change.
Edits that cannot be placed this way are refused, and the text stays unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ktx_cli.core import ConfigError, yaml
from ktx_cli.project.yaml_splice import CannotEdit, Document, Edit, Path, change, diff, lookup, placed, same_data, shown

__all__ = [
    "Edit", "EditRefusedError", "Path", "append_value", "apply", "delete_value", "diff", "same_data", "set_value",
]  # fmt: skip


class EditRefusedError(ConfigError):
    """An edit that cannot be placed: the value is valid, but only a person can write it into the text."""


_BOM = b"\xef\xbb\xbf"


def set_value(text: bytes, path: Path, value: Any, *, where: str) -> bytes:
    """Return `text` with `value` at `path`.

    Creates missing parent mappings; changes nothing if the value is already equal; in a mapping (and a list of named
    mappings), only touches the entries that differ. `where` names the file in errors. Raises `ConfigError` if the text
    is not YAML or the edit cannot be placed without touching anything else.
    """
    return apply(text, [Edit("set", path, value)], where=where)


def delete_value(text: bytes, path: Path, *, where: str) -> bytes:
    """Return `text` without the entry or item at `path`; a missing key changes nothing.

    A collection that loses its last entry becomes `{}` or `[]`. Errors as in `set_value`.
    """
    return apply(text, [Edit("delete", path)], where=where)


def append_value(text: bytes, path: Path, value: Any, *, where: str) -> bytes:
    """Return `text` with `value` at the end of the list at `path`, which is created if it does not exist.

    Errors as in `set_value`.
    """
    return apply(text, [Edit("append", path, value)], where=where)


def apply(text: bytes, edits: Sequence[Edit], *, where: str) -> bytes:
    """Return `text` with the edits made in order: all of them, or (`ConfigError`) none."""
    bom, body = (_BOM, text[len(_BOM) :]) if text.startswith(_BOM) else (b"", text)
    data = yaml.load(body, where=where)
    if body.startswith((_BOM, b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise ConfigError(f"{where} is not plain UTF-8, so ktx cannot edit it", hint=f"save {where} as UTF-8")
    edited, _ = _apply(body.decode("utf-8"), data, _primitives(data, edits, where), where)
    return bom + edited.encode("utf-8")


def _primitives(data: Any, edits: Sequence[Edit], where: str) -> list[Edit]:
    """Return the smallest equivalent edits: `set`, `delete` and `insert` for what really changes."""
    primitives: list[Edit] = []
    for edit in edits:
        try:
            there, old = lookup(data, edit.path)
            if edit.op == "set" and there:
                primitives += diff(old, edit.value, edit.path)
            elif edit.op != "delete" or there:
                primitives.append(placed(data, edit))
            else:
                continue
            data = change(data, edit)
        except CannotEdit as error:
            raise _refusal(edit, str(error), where) from error
    return primitives


def _apply(text: str, data: Any, edits: list[Edit], where: str) -> tuple[str, Any]:
    """Return the new text and data: all edits at once if they do not overlap, else in halves."""
    if not edits:
        return text, data
    wanted = functools.reduce(change, edits, data)
    try:
        edited = _spliced(text, edits, wanted, where)
    except CannotEdit as error:
        if len(edits) == 1:
            raise _refusal(edits[0], str(error), where) from error
    else:
        return edited, wanted
    middle = len(edits) // 2
    text, data = _apply(text, data, edits[:middle], where)
    return _apply(text, data, edits[middle:], where)


def _spliced(text: str, edits: list[Edit], wanted: Any, where: str) -> str:
    """Return the edited text, verified to contain `wanted`."""
    document = Document(text, where)
    edited = document.spliced(edits)
    if not holds(edited, wanted, where):
        document.write_no_literals()
        edited = document.spliced(edits)
        if not holds(edited, wanted, where):
            raise CannotEdit("the surrounding text leaves no safe place, or the change would affect other values")
    return edited


def holds(text: str | bytes, wanted: Any, where: str) -> bool:
    """Return whether a text is YAML for these values."""
    try:
        return same_data(yaml.load(text, where=where), wanted)
    except ConfigError:
        return False


def _refusal(edit: Edit, reason: str, where: str) -> EditRefusedError:
    done = {"set": "set", "delete": "delete", "append": "append to", "insert": "insert into"}[edit.op]
    message = f"{where}: cannot {done} {shown(edit.path)} in place: {reason}"
    hint = f"edit {where} by hand: {done} {shown(edit.path)}"
    return EditRefusedError(message, hint=hint, details={"path": where, "key": shown(edit.path)})
