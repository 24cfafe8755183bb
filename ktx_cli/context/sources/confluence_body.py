"""The storage format of Confluence as HTML: macros, links between pages, tasks, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ktx_cli.context.documents.html_tokens import Token, text_token, tokens
from ktx_cli.context.documents.html_visible import visible
from ktx_cli.context.documents.read_html import MAX_HTML, markdown_of

_RENAMED: Final = {
    "ac:plain-text-body": "pre",
    "ac:rich-text-body": "div",
    "ac:task-list": "ul",
    "ac:task": "li",
    "ac:layout-section": "div",
    "ac:layout-cell": "div",
}
_SILENT: Final = frozenset(
    ("ac:parameter", "ac:task-id", "ac:task-uuid", "ac:task-status", "ac:emoticon", "ac:placeholder")
)
"""Elements whose text is of the program, not of the page."""

_PANELS: Final = {"info": "Info", "note": "Note", "warning": "Warning", "tip": "Tip"}


def body_markdown(storage: str) -> str:
    """Return the body of a page as Markdown; what a macro would compute is not in it."""
    return markdown_of(visible(_html(tokens(storage[:MAX_HTML]))))


def is_cut(storage: str) -> bool:
    """Say whether a body is too long to be read whole."""
    return len(storage) > MAX_HTML


def _html(stream: Iterable[Token]) -> Iterator[Token]:
    return _Converter().read(stream)


class _Converter:
    def __init__(self) -> None:
        self._silent = ""
        self._parameter = ""
        self._status = ""
        self._target = ""
        self._languages: list[str] = []
        self._linked = False

    def read(self, stream: Iterable[Token]) -> Iterator[Token]:
        for token in stream:
            if self._silent:
                self._listen(token)
            elif token.name.startswith(("ac:", "ri:")):
                yield from self._special(token)
            else:
                self._linked = self._linked or (token.kind == "text" and bool(token.value.strip()))
                yield token

    def _listen(self, token: Token) -> None:
        """Keep what a silent element says that matters: the language of code, whether a task is done."""
        if token.kind == "end" and token.name == self._silent:
            self._silent = self._parameter = ""
        elif token.kind == "text" and self._parameter == "language" and self._languages:
            self._languages[-1] = token.value.strip()
        elif token.kind == "text" and self._silent == "ac:task-status":
            self._status = token.value.strip()

    def _special(self, token: Token) -> Iterator[Token]:
        name, starts = token.name, token.kind == "start"
        if name in _SILENT:
            if starts and not token.empty:
                self._silent, self._parameter = name, token.attributes.get("ac:name", "")
        elif name in ("ac:structured-macro", "ac:macro"):
            yield from self._macro(token)
        elif name in ("ac:link", "ac:image"):
            yield from self._link(token)
        elif name.startswith("ri:") and starts:
            self._target = _named(token)
        elif name == "ac:task-body" and starts:
            yield text_token("[x] " if self._status == "complete" else "[ ] ")
        elif name in _RENAMED and not token.empty:
            yield self._renamed(token)

    def _renamed(self, token: Token) -> Token:
        name = _RENAMED[token.name]
        language = self._languages[-1] if self._languages and name == "pre" else ""
        attributes = {"class": f"language-{language}"} if language and token.kind == "start" else {}
        return Token(token.kind, name, attributes=attributes)

    def _macro(self, token: Token) -> Iterator[Token]:
        if token.empty:
            return
        if token.kind == "end":
            if self._languages:
                self._languages.pop()
            yield Token("end", "section")
            return
        self._languages.append("")
        yield Token("start", "section")
        label = _PANELS.get(token.attributes.get("ac:name", ""))
        if label:
            yield from (Token("start", "p"), Token("start", "strong"), text_token(f"{label}:"))
            yield from (Token("end", "strong"), Token("end", "p"))

    def _link(self, token: Token) -> Iterator[Token]:
        """Write what a link without words of its own leads to."""
        if token.kind == "start":
            self._target, self._linked = "", False
        if (token.kind == "end" or token.empty) and self._target and not self._linked:
            yield text_token(self._target)


def _named(token: Token) -> str:
    """Return what a reference to a page, a file or an address is called."""
    for key in ("ri:content-title", "ri:filename", "ri:value", "ri:space-key"):
        if token.attributes.get(key):
            return token.attributes[key]
    return ""
