"""Keys of pages and the paths of their files: `wiki/global/<key>.md` and `wiki/user/<id>/<key>.md`, without folders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from ktx_cli.core import UsageError, is_device_name, one_line

FOLDER: Final = "wiki/"
"""What the path of every file of the wiki begins with."""

GLOBAL: Final = "global"
"""The scope of pages that are everybody's."""

LONGEST_KEY: Final = 120

_USER: Final = "user/"
_ENDING: Final = ".md"
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_USER_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PLACES: Final = re.compile(r"\A(?:\.?/)*(?:wiki/)?(?:global/|user/[^/]+/)?|\.md\Z", re.IGNORECASE)


def user_scope(user: str) -> str:
    """Return the scope of one user's pages; `UsageError` for an id that cannot name a folder."""
    if not _USER_ID.fullmatch(user) or user.endswith(".") or is_device_name(user):
        raise UsageError(
            f"`{one_line(user, 60)}` cannot be a user's id", hint="use letters, digits and . _ @ + - (ada@example.com)"
        )
    return _USER + user


def user_of(scope: str) -> str | None:
    """Return the user whose pages a scope is, None for everybody's."""
    return scope.removeprefix(_USER) if scope.startswith(_USER) else None


def page_path(scope: str, key: str) -> str:
    """Return the path of a page's file."""
    return f"{FOLDER}{scope}/{key}{_ENDING}"


def place_of(path: str) -> tuple[str, str] | None:
    """Return (scope, key) of a page's file, None for a path no page can have."""
    inside = path.removeprefix(FOLDER)
    if inside == path or not inside.endswith(_ENDING):
        return None
    scope, _, name = inside.rpartition("/")
    key = name.removesuffix(_ENDING)
    is_scope = scope == GLOBAL or (scope.startswith(_USER) and "/" not in scope[len(_USER) :] and scope != _USER)
    return (scope, key) if is_scope and could_be_key(key) else None


def scopes_seen_from(scope: str) -> tuple[str, ...]:
    """Return the scopes whose pages a page of `scope` can refer to, the one that counts first in front."""
    return (GLOBAL,) if scope == GLOBAL else (scope, GLOBAL)


def could_be_key(text: str) -> bool:
    """Whether some page's file could have this key, be it too long or a device's name; no other text makes a path."""
    return _KEY.fullmatch(text) is not None


def key_problem(key: str) -> str | None:
    """Return what is wrong with a key, None where a page may have it."""
    if not could_be_key(key):
        return "is no key: keys are letters, digits, - and _, without folders"
    if len(key) > LONGEST_KEY:
        return f"has {len(key)} characters, {LONGEST_KEY} are allowed"
    return "is the name of a device on Windows" if is_device_name(key) else None


def check_key(key: str) -> str:
    """Return the key; `UsageError` with one that can be used in its place where a page cannot have it."""
    problem = key_problem(key)
    if problem is not None:
        suggested = suggested_key(key)
        raise UsageError(
            f"`{one_line(key, 60)}` {problem}", hint=f"use `{suggested}`", details={"key": key, "suggested": suggested}
        )
    return key


def suggested_key(text: str) -> str:
    """Return a key for any text: `Finance/Net Revenue.md` gives `finance-net-revenue`; a key stays as it is.

    The place of a file (`wiki/global/`, `.md`) is no part of it.
    """
    text = _PLACES.sub("", text.strip())
    if key_problem(text) is None:
        return text
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:LONGEST_KEY].rstrip("-_") or "page"
    return f"{slug}-page" if is_device_name(slug) else slug


def same_but_for_case(key: str, others: Iterable[str]) -> str | None:
    """Return the key among `others` that only some file systems tell from `key`."""
    folded = key.casefold()
    return next((other for other in others if other != key and other.casefold() == folded), None)
