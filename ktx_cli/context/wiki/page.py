"""Reads pages and writes them without losing a byte, and changes of a page only what was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ktx_cli.context.wiki.keys import GLOBAL, page_path
from ktx_cli.context.wiki.model import FIELDS, Finding, Page
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.project.edit import Edit, apply

_OPENING: Final = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*\r?\n)*")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_EMPTY_HEAD: Final = "---\n---\n"


def parse(scope: str, key: str, content: bytes) -> Page | Finding:
    """Return the page a file holds, or what is wrong with its front matter; a text without any is a page too."""
    path = page_path(scope, key)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Finding(path, line, "front_matter", "the text is not UTF-8", f"save {path} as UTF-8")
    span = _front(text)
    if span is None:
        return Page(key, scope, {}, text, "")
    start, end, body = span
    if end < 0:
        hint = f"put a line of --- below the fields of {path}"
        return Finding(path, 1, "front_matter", "the front matter has no end", hint)
    fields = _fields(text[start:end], path)
    return fields if isinstance(fields, Finding) else Page(key, scope, fields, text[body:], text[:body])


def render(page: Page) -> bytes:
    """Return the page's file."""
    return page.text.encode("utf-8")


def new_page(key: str, fields: Mapping[str, Any], body: str, scope: str = GLOBAL) -> Page:
    """Return a new page: known fields in their order, then the others; those that are None are left out.

    Raises `UsageError` for text that no file can hold (lone surrogates).
    """
    known = [name for name in FIELDS if name in fields]
    names = [*known, *(name for name in fields if name not in FIELDS)]
    page = Page(key, scope, {}, "", _EMPTY_HEAD)
    return changed(page, {name: fields[name] for name in names}, body)


def changed(page: Page, fields: Mapping[str, Any] | None = None, body: str | None = None) -> Page:
    """Return the page with these fields and this body; a field that is None goes, what is not named stays as it is.

    Comments, order and layout of the rest of the front matter stay. Raises `UsageError` for text no file can hold,
    `ConfigError` where the front matter's form allows no such change.
    """
    if fields:
        page = edited(page, [_field_edit(name, value) for name, value in fields.items()])
    if body is not None:
        page = _with_body(page, body)
    if _SURROGATE.search(page.text):
        raise UsageError(f"the text of `{page.key}` holds half of a character", hint="remove the surrogate characters")
    return page


def edited(page: Page, edits: Sequence[Edit]) -> Page:
    """Return the page with its front matter edited; errors as in `changed`."""
    text = page.text if page.head else _EMPTY_HEAD + "\n" + page.body
    span = _front(text)
    if span is None or span[1] < 0:
        raise ConfigError(f"{page.path} has no front matter that ends", hint=f"correct {page.path}")
    start, end, body = span
    try:
        front = apply(text[start:end].encode("utf-8"), edits, where=page.path).decode("utf-8")
    except ValueError as error:
        raise UsageError(
            f"a field of `{page.key}` cannot be written: {error}", hint="write it as plain text"
        ) from error
    if front and not front.endswith("\n"):
        front += "\n"
    data = _fields(front, page.path)
    if isinstance(data, Finding):
        raise ConfigError(str(data), hint=data.hint)
    return replace(page, fields=data, head=text[:start] + front + text[end:body], body=text[body:])


def body_line(page: Page) -> int:
    """Return the line of the file the body begins on."""
    return page.head.count("\n") + 1


def field_line(page: Page, *path: str | int) -> int:
    """Return the line of the file a field (or an item of one) stands on, 1 where it is not there."""
    span = _front(page.text)
    if span is None or span[1] < 0:
        return 1
    place = yaml.locate("\n" + page.text[span[0] : span[1]], path)
    return 1 if place is None else place[0]


def _front(text: str) -> tuple[int, int, int] | None:
    """Return where the YAML begins and ends and where the body begins; an end of -1: there is no closing fence."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return opening.end(), -1, -1
    blank = _BLANK_LINES.match(text, closing.end())
    return opening.end(), closing.start(), closing.end() if blank is None else blank.end()


def _fields(front: str, path: str) -> Mapping[str, Any] | Finding:
    try:
        # The blank line stands for the opening fence, so that lines are those of the file.
        data = yaml.load("\n" + front, where=path)
    except ConfigError as error:
        line, column = error.details.get("line", 1), error.details.get("column", 1)
        message = error.message.removeprefix(f"{path}:{line}:{column}: ")
        return Finding(path, line, "front_matter", f"the front matter cannot be read: {message}", error.hint)
    if data is None:
        return {}
    if not isinstance(data, dict):
        hint = f"write `name: value` lines between the --- of {path}"
        return Finding(path, 2, "front_matter", "the front matter is no mapping", hint)
    return data


def _field_edit(name: str, value: Any) -> Edit:
    return Edit("delete", (name,)) if value is None else Edit("set", (name,), _plain(value))


def _with_body(page: Page, body: str) -> Page:
    """Return the page with a body that begins with a line of text below a blank one, and ends with a line's end."""
    blank = _BLANK_LINES.match(body)
    body = (body if blank is None else body[blank.end() :]).rstrip()
    head = page.head or (_EMPTY_HEAD if _OPENING.match(body) else "")
    if "\r\n" in head:
        body = re.sub(r"\r?\n", "\r\n", body)
    if head and body and not re.search(r"\n[ \t]*\r?\n\Z", head):
        head += ("" if head.endswith("\n") else "\n") + "\n"
    ending = "\r\n" if "\r\n" in head else "\n"
    return replace(page, body=body + ending if body else "", head=head)


def _plain(value: Any) -> Any:
    """Return a value of mappings, lists and scalars as YAML is written from."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
