"""A wiki page: its key and file, its front matter with structured fields, its Markdown body, and its diagnostics."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, Diagnostic, Location, Record, Severity, UsageError, is_device_name, one_line, yaml

if TYPE_CHECKING:
    from ktx_cli.project import Edit

FOLDER: Final = "wiki/"
"""The path prefix of every wiki file."""

GLOBAL: Final = "global"
"""The scope of global pages."""

CATALOG: Final = "document-catalog"
"""The `source` of pages that list documents, which ktx writes and agents do not change."""

LONGEST_KEY: Final = 120

_USER: Final = "user/"
_ENDING: Final = ".md"
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_USER_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PLACES: Final = re.compile(r"\A(?:\.?/)*(?:wiki/)?(?:global/|user/[^/]+/)?|\.md\Z", re.IGNORECASE)


def user_scope(user: str) -> str:
    """Return the scope of one user's pages; raises `UsageError` for an id that cannot name a folder."""
    if not _USER_ID.fullmatch(user) or user.endswith(".") or is_device_name(user):
        message = f"`{one_line(user, 60)}` is not a valid user id"
        raise UsageError(message, hint="use letters, digits and . _ @ + - (ada@example.com)")
    return _USER + user


def user_of(scope: str) -> str | None:
    """Return the user of a scope, or None for the global scope."""
    return scope.removeprefix(_USER) if scope.startswith(_USER) else None


def page_path(scope: str, key: str) -> str:
    """Return the path of a page's file."""
    return f"{FOLDER}{scope}/{key}{_ENDING}"


def place_of(path: str) -> tuple[str, str] | None:
    """Return (scope, key) of a page's file, or None for a path that no page can have."""
    inside = path.removeprefix(FOLDER)
    if inside == path or not inside.endswith(_ENDING):
        return None
    scope, _, name = inside.rpartition("/")
    key = name.removesuffix(_ENDING)
    is_scope = scope == GLOBAL or (scope.startswith(_USER) and "/" not in scope[len(_USER) :] and scope != _USER)
    return (scope, key) if is_scope and could_be_key(key) else None


def scopes_seen_from(scope: str) -> tuple[str, ...]:
    """Return the scopes whose pages a page of `scope` can refer to, in order of precedence."""
    return (GLOBAL,) if scope == GLOBAL else (scope, GLOBAL)


def could_be_key(text: str) -> bool:
    """Return whether a page's file could have this key, even if it is too long or a device name."""
    return _KEY.fullmatch(text) is not None


def key_problem(key: str) -> str | None:
    """Return what is wrong with a page key, or None if it is valid."""
    if not could_be_key(key):
        return "is not a valid key: keys are letters, digits, - and _, without folders"
    if len(key) > LONGEST_KEY:
        return f"has {len(key)} characters; the maximum is {LONGEST_KEY}"
    return "is the name of a device on Windows" if is_device_name(key) else None


def check_key(key: str) -> str:
    """Return the key; raises `UsageError` with a valid alternative if no page can have it."""
    problem = key_problem(key)
    if problem is not None:
        suggested = suggested_key(key)
        message = f"`{one_line(key, 60)}` {problem}"
        raise UsageError(message, hint=f"use `{suggested}`", details={"key": key, "suggested": suggested})
    return key


def suggested_key(text: str) -> str:
    """Return a key for any text: `Finance/Net Revenue.md` becomes `finance-net-revenue`; a key is unchanged.

    The location of a file (`wiki/global/`, `.md`) is not part of it.
    """
    text = _PLACES.sub("", text.strip())
    if key_problem(text) is None:
        return text
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:LONGEST_KEY].rstrip("-_") or "page"
    return f"{slug}-page" if is_device_name(slug) else slug


def same_but_for_case(key: str, others: Iterable[str]) -> str | None:
    """Return the key among `others` that some file systems cannot distinguish from `key`."""
    folded = key.casefold()
    return next((other for other in others if other != key and other.casefold() == folded), None)


FIELDS: Final[Mapping[str, str]] = {
    "summary": "text",
    "questions": "texts",
    "synonyms": "texts",
    "tags": "texts",
    "refs": "texts",
    "sl_refs": "texts",
    "usage_mode": "mode",
    "sort_order": "number",
    "source": "text",
    "intent": "text",
    "tables": "texts",
    "representative_sql": "text",
    "usage": "mapping",
    "fingerprints": "texts",
    "stale_since": "text",
    "archived_since": "text",
}
"""The front matter fields that ktx interprets, in the order used for new pages, and their types."""

USAGE_MODES: Final = ("always", "auto", "never")


NOTES: Final = frozenset(
    {"instruction", "html_comment", "html", "unexpected_link", "image", "data_uri", "personal_data"}
)
"""Codes of warnings, which a person should review; every other diagnostic keeps a page from being saved."""

PRIVATE: Final = frozenset({"secret", "personal_data"})
"""Codes for content that agents must not write into a page."""

ORDER: Final = frozenset({"instruction", "unexpected_link"})
"""Codes that together tell an agent to contact a host that no source of the page names."""

DIAGNOSTIC_KEYS: Final[Mapping[str, str]] = {name: name for name in ("path", "line", "code", "message", "hint")}
"""A page's diagnostic in the JSON output."""


def page_diagnostic(path: str, line: int, code: str, message: str, hint: str | None = None) -> Diagnostic:
    """Return a diagnostic for a page; its code determines its severity."""
    severity = Severity.WARNING if code in NOTES else Severity.ERROR
    return Diagnostic(code, severity, message, Location(path, line), hint)


@dataclass(frozen=True, slots=True)
class Page(Record):
    """A page as stored: `head` and `body` concatenated are the file, byte for byte.

    `scope` is `global` or `user/<id>`. `head`: the front matter with its fences and the blank lines below it, empty if
    a page has none. `fields`: the content of the front matter, in order, including unknown keys.
    """

    key: str
    scope: str = GLOBAL
    fields: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    head: str = field(default="", repr=False)

    @property
    def path(self) -> str:
        """The page's file."""
        return page_path(self.scope, self.key)

    @property
    def text(self) -> str:
        """The whole file."""
        return self.head + self.body

    @property
    def summary(self) -> str:
        """One sentence about the content of the page; empty if the page has no summary."""
        found = self.fields.get("summary")
        return found.strip() if isinstance(found, str) else ""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.texts("tags")

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions that the page answers, including the one in `intent`."""
        return tuple(dict.fromkeys((*self.texts("questions"), *self.texts("intent"))))

    @property
    def synonyms(self) -> tuple[str, ...]:
        """Synonyms of its subject."""
        return self.texts("synonyms")

    @property
    def refs(self) -> tuple[str, ...]:
        """Keys of the pages that this page refers to."""
        return self.texts("refs")

    @property
    def sl_refs(self) -> tuple[str, ...]:
        """The parts of the semantic layer that the page refers to: `[connection/]source[.entity]`."""
        return self.texts("sl_refs")

    @property
    def is_stale(self) -> bool:
        """Whether the page is marked as outdated or archived."""
        return any(self.fields.get(name) is not None for name in ("stale_since", "archived_since"))

    @property
    def is_catalog(self) -> bool:
        """Whether the page lists documents, and is maintained by ktx."""
        return self.fields.get("source") == CATALOG

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list in the front matter; a single text counts as a list of one."""
        found = self.fields.get(name)
        items = found if isinstance(found, list) else [found]
        return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())

    json_keys = ("key", "path", "scope", "summary", "tags", "stale=is_stale")


_OPENING: Final = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\n|\Z)")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*\r?\n)*")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_EMPTY_HEAD: Final = "---\n---\n"


def parse(scope: str, key: str, content: bytes) -> Page | Diagnostic:
    """Return the page in a file, or what is wrong with its front matter; text without front matter is also valid."""
    path = page_path(scope, key)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return page_diagnostic(path, line, "front_matter", "the text is not UTF-8", f"save {path} as UTF-8")
    span = _front(text)
    if span is None:
        return Page(key, scope, {}, text, "")
    start, end, body = span
    if end < 0:
        hint = f"add a line of --- below the fields of {path}"
        return page_diagnostic(path, 1, "front_matter", "the front matter is not closed", hint)
    fields = _fields(text[start:end], path)
    return fields if isinstance(fields, Diagnostic) else Page(key, scope, fields, text[body:], text[:body])


def render(page: Page) -> bytes:
    """Return the page's file."""
    return page.text.encode("utf-8")


def new_page(key: str, fields: Mapping[str, Any], body: str, scope: str = GLOBAL) -> Page:
    """Return a new page: known fields in their order, then all others; fields that are None are omitted.

    Raises `UsageError` for text that no file can contain (lone surrogates).
    """
    known = [name for name in FIELDS if name in fields]
    names = [*known, *(name for name in fields if name not in FIELDS)]
    page = Page(key, scope, {}, "", _EMPTY_HEAD)
    return changed(page, {name: fields[name] for name in names}, body)


def changed(page: Page, fields: Mapping[str, Any] | None = None, body: str | None = None) -> Page:
    """Return the page with the given fields and body; fields set to None are removed, and fields not given are kept.

    Comments, order and layout of the rest of the front matter stay. Raises `UsageError` for text that no file can
    contain, `ConfigError` if the form of the front matter does not allow the change.
    """
    if fields:
        from ktx_cli.project import Edit

        edits = [Edit("delete" if v is None else "set", (name,), _plain(v)) for name, v in fields.items()]
        page = edited(page, edits)
    if body is not None:
        page = _with_body(page, body)
    if _SURROGATE.search(page.text):
        raise UsageError(
            f"the text of `{page.key}` contains half of a character", hint="remove the surrogate characters"
        )
    return page


def edited(page: Page, edits: Sequence[Edit]) -> Page:
    """Return the page with edited front matter; raises the same errors as `changed`."""
    from ktx_cli.project import apply

    text = page.text if page.head else _EMPTY_HEAD + "\n" + page.body
    span = _front(text)
    if span is None or span[1] < 0:
        raise ConfigError(f"the front matter of {page.path} is not closed", hint=f"correct {page.path}")
    start, end, body = span
    try:
        front = apply(text[start:end].encode("utf-8"), edits, where=page.path).decode("utf-8")
    except ValueError as error:
        message = f"cannot write a field of `{page.key}`: {error}"
        raise UsageError(message, hint="write it as plain text") from error
    if front and not front.endswith("\n"):
        front += "\n"
    data = _fields(front, page.path)
    if isinstance(data, Diagnostic):
        raise ConfigError(str(data), hint=data.hint)
    return replace(page, fields=data, head=text[:start] + front + text[end:body], body=text[body:])


def body_line(page: Page) -> int:
    """Return the line of the file on which the body begins."""
    return page.head.count("\n") + 1


def field_line(page: Page, *path: str | int) -> int:
    """Return the line in the file of a field (or of an item in it), or 1 if it does not exist."""
    span = _front(page.text)
    if span is None or span[1] < 0:
        return 1
    place = yaml.locate("\n" + page.text[span[0] : span[1]], path)
    return 1 if place is None else place[0]


def split(text: str) -> tuple[str, str]:
    """Return (front matter with its fences and the blank lines below it, body) of a page's file, without parsing it."""
    span = _front(text)
    place = 0 if span is None or span[1] < 0 else span[2]
    return text[:place], text[place:]


def _front(text: str) -> tuple[int, int, int] | None:
    """Return where the YAML begins and ends and where the body begins; an end of -1 means no closing fence."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        return opening.end(), -1, -1
    blank = _BLANK_LINES.match(text, closing.end())
    return opening.end(), closing.start(), closing.end() if blank is None else blank.end()


def _fields(front: str, path: str) -> Mapping[str, Any] | Diagnostic:
    try:
        # The blank line replaces the opening fence, so that lines are those of the file.
        data = yaml.load("\n" + front, where=path)
    except ConfigError as error:
        what = f"cannot read the front matter: {error.problem}"
        return page_diagnostic(path, error.details.get("line", 1), "front_matter", what, error.hint)
    if data is None:
        return {}
    if not isinstance(data, dict):
        hint = f"write `name: value` lines between the --- lines of {path}"
        return page_diagnostic(path, 2, "front_matter", "the front matter is not a mapping", hint)
    return data


def _with_body(page: Page, body: str) -> Page:
    """Return the page with a body that begins with text after a blank line, and ends with a line break."""
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
    """Return a value made of mappings, lists and scalars, ready to be written as YAML."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
