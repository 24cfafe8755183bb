"""What is wrong in a wiki page, and the page itself: front matter with facts about it, and a Markdown body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.wiki.keys import GLOBAL, page_path

FIELDS: Final[Mapping[str, str]] = {
    "summary": "text",
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
"""The fields of the front matter that have a meaning, in the order a new page has them, and what they hold."""

USAGE_MODES: Final = ("always", "auto", "never")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a file: `path` as git sees it, `line` from 1, `code` a word for programs."""

    path: str
    line: int
    code: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in an envelope."""
        return {
            "path": self.path,
            "line": self.line,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its file has it: `head` and `body` one behind the other are the file, byte for byte.

    `scope` is `global` or `user/<id>`. `head`: the front matter with its fences and the blank lines below it, empty
    where a page has none. `fields`: what the front matter says, in its order, unknown keys too.
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
        """One sentence on what the page says; empty where it has none."""
        found = self.fields.get("summary")
        return found.strip() if isinstance(found, str) else ""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.texts("tags")

    @property
    def refs(self) -> tuple[str, ...]:
        """Keys of the pages it refers to."""
        return self.texts("refs")

    @property
    def sl_refs(self) -> tuple[str, ...]:
        """What of the semantic layer it refers to: `[connection/]source[.entity]`."""
        return self.texts("sl_refs")

    @property
    def is_stale(self) -> bool:
        """Whether the page is marked as out of date or put away."""
        return any(self.fields.get(name) is not None for name in ("stale_since", "archived_since"))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list in the front matter; a single text counts as a list of one."""
        found = self.fields.get(name)
        items = found if isinstance(found, list) else [found]
        return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())

    def to_json(self) -> dict[str, Any]:
        """Return the page without its body, as a list shows it."""
        return {
            "key": self.key,
            "path": self.path,
            "scope": self.scope,
            "summary": self.summary,
            "tags": list(self.tags),
            "stale": self.is_stale,
        }
