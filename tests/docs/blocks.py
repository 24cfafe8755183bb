"""The code blocks of the documentation: where each stands, of which kind it is, what the comments before it say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"<!--\s*(not run|first|model|start|wrong|file):\s*(.*?)\s*-->", re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
RUN = ("console", "sh", "yaml", "markdown", "python", "json", "sql")
"""The kinds that are run; a block of any other kind needs a reason."""


@dataclass(frozen=True)
class Block:
    """A fenced or an indented block. `kind` is empty where none is written; `reason`: why it is not run.

    `title` is the path of the file it stands for, `file` that of a file of this repository which it quotes. `first` are
    commands that run before it and are not shown, `model` is the backend that answers from here on, `start` the folder
    the page begins in. `wrong`: what the check of a definition says that is wrong on purpose.
    """

    page: str
    line: int
    kind: str
    text: str
    title: str | None = None
    reason: str | None = None
    first: tuple[str, ...] = ()
    model: str | None = None
    start: str | None = None
    wrong: str | None = None
    file: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return all pages of the documentation, and those beside it."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(text: str, page: str) -> list[Block]:
    """Return the blocks of a page in their order. A comment belongs to the next block."""
    return list(_blocks(text, page))


def _blocks(text: str, page: str) -> Iterator[Block]:
    said: list[tuple[str, str]] = []
    for token in MarkdownIt().parse(text):
        if token.type == "html_block":
            said += COMMENT.findall(token.content)
        elif token.type in ("fence", "code_block"):
            kind, _, rest = token.info.strip().partition(" ")
            title = TITLE.search(rest)
            yield Block(
                page,
                (token.map or [0])[0] + 1,
                kind,
                token.content,
                title[1] if title else None,
                _last(said, "not run"),
                tuple(value for name, value in said if name == "first"),
                _last(said, "model"),
                _last(said, "start"),
                _last(said, "wrong"),
                _last(said, "file"),
            )
            said = []


def _last(said: list[tuple[str, str]], wanted: str) -> str | None:
    return next((" ".join(value.split()) for name, value in reversed(said) if name == wanted), None)


def quotes_wrongly(block: Block, file: str) -> str | None:
    """Return what is wrong with a block that quotes lines of a file."""
    path = ROOT / file
    if not path.is_file():
        return f"there is no file {file}"
    return None if block.text.strip() in path.read_text("utf-8") else f"this is not what {file} says"


def wrong_form(block: Block) -> str | None:
    """Return what is wrong with a block before anything is run."""
    if not block.kind:
        return "a block without a kind: write one behind the fence, indented blocks have none"
    if block.file is not None:
        return quotes_wrongly(block, block.file)
    if block.kind not in RUN and not block.reason:
        return f"a block of kind `{block.kind}` is not run, and no `<!-- not run: REASON -->` says why"
    if block.reason == "":
        return "`not run` without a reason"
    if block.kind == "yaml" and not block.title and not block.reason:
        return 'a block of YAML says which file it is: ```yaml title="ktx.yaml"'
    return None
