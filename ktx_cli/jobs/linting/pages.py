"""The KTX2 rules: what `ktx wiki lint` finds, pages that are empty, twice there, or out of date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.graph import Graph
from ktx_cli.context.wiki.loading import load_wiki
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.page import body_line, field_line
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.linting.model import Finding, Level
from ktx_cli.jobs.linting.registry import (
    PAGE_EMPTY,
    PAGE_MARKED,
    PAGE_STALE,
    PAGE_SUBJECT_GONE,
    PAGE_TWICE,
    WIKI,
    Selection,
    rule_of,
)
from ktx_cli.jobs.linting.staleness import stale_pages
from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree

_NO_TEXT: Final = re.compile(r"^\s*(?:#.*|[-*_]{3,})?\s*$")
"""A line that is blank, a heading or a rule."""


def lint_pages(
    layout: Layout, config: KtxConfig, models: Mapping[str, Model], connection: str | None, selection: Selection
) -> tuple[list[Finding], int, list[ResultWarning]]:
    """Return the findings, how many pages were looked at, and warnings; `connection`: only pages that may refer to it.

    `models`: the layers of all connections, whichever is looked at.
    """
    wiki = load_wiki(WorkingTree(layout.root))
    graph = Graph(wiki)
    paths = None if connection is None else {page.path for page in graph.layer_readers(connection)}
    pages = [page for path, page in sorted(wiki.pages.items()) if paths is None or path in paths]
    found = [
        Finding(rule.code, rule.level, each.message, each.hint or _reading(each.path), each.path, each.line)
        for each in lint_wiki(layout, config, wiki=wiki, models=models).findings
        if (paths is None or each.path in paths) and (rule := rule_of(WIKI, each.code))
    ]
    found += [*_empty(pages), *_twice(pages), *_marked(pages)]
    if not selection.any((PAGE_STALE, PAGE_SUBJECT_GONE)):
        return found, len(pages), []
    stale = stale_pages(layout, config, graph, models, pages)
    about = [each for each in stale.findings if connection in (None, each.connection)]
    return found + about, len(pages), stale.warnings


def _reading(path: str) -> str:
    return f"correct {path}"


def _empty(pages: Iterable[Page]) -> Iterator[Finding]:
    for page in pages:
        if all(_NO_TEXT.match(line) for line in page.body.splitlines()):
            fix = f"write what it is about, or remove it: {shell_words('git', 'rm', page.path)}"
            yield _finding(PAGE_EMPTY, "the page has no text", fix, page, body_line(page))


def _twice(pages: Iterable[Page]) -> Iterator[Finding]:
    """Yield the pages whose text, blanks and letter case apart, is that of one before in the same scope."""
    first: dict[tuple[str, str], Page] = {}
    for page in pages:
        text = " ".join(page.body.split()).casefold()
        other = first.setdefault((page.scope, text), page)
        if text and other is not page:
            said = f"the text is that of {other.path}"
            fix = f"keep one of them, and refer to it: {shell_words('git', 'rm', page.path)}"
            yield _finding(PAGE_TWICE, said, fix, page, body_line(page))


def _marked(pages: Iterable[Page]) -> Iterator[Finding]:
    for page in pages:
        name = next((each for each in ("archived_since", "stale_since") if page.fields.get(each) is not None), None)
        if name is not None:
            said = f"the page is marked as out of date: {name} {page.fields[name]}"
            fix = f"bring it up to date and take {name} out, or remove it: {shell_words('git', 'rm', page.path)}"
            yield _finding(PAGE_MARKED, said, fix, page, field_line(page, name), Level.INFO)


def _finding(code: str, said: str, fix: str, page: Page, line: int, level: Level = Level.WARNING) -> Finding:
    return Finding(code, level, said, fix, page.path, line)
