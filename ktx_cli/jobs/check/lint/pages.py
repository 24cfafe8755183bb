"""The KTX2 rules: what `ktx wiki lint` finds, pages that are empty, twice there, or out of date."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.core import KtxError, ResultWarning, listing, one_line, plural, shell_words
from ktx_cli.jobs.check.lint.history import EarlierLayers, Target, changes, part_of, targets_of
from ktx_cli.jobs.check.lint.registry import (
    PAGE_EMPTY,
    PAGE_MARKED,
    PAGE_STALE,
    PAGE_SUBJECT_GONE,
    PAGE_TWICE,
    WIKI,
    Finding,
    Level,
    Selection,
    rule_of,
)
from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.project import (
    SEMANTIC_NAME,
    WIKI_NAME,
    History,
    KtxConfig,
    LastChange,
    Layout,
    Repository,
    TreeView,
    WorkingTree,
)
from ktx_cli.semantic import Model
from ktx_cli.wiki import Graph, Kind, Page, Reference, Resolver, body_line, field_line, line_of, load_wiki

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


Dated = tuple[Page, LastChange]
"""A page with its last change."""


@dataclass(slots=True)
class Stale:
    """What was found, and what a person should know of what was not looked at."""

    findings: list[Finding] = field(default_factory=list)
    warnings: list[ResultWarning] = field(default_factory=list)


def stale_pages(
    layout: Layout, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: Iterable[Page]
) -> Stale:
    """Return the findings of pages, compared with the layers as they were; `models`: the layers as they are."""
    wanted = [page for page in pages if not page.is_stale and layer_references(graph, page)]
    if not wanted:
        return Stale()
    try:
        repository = Repository.discover(layout.root)
        if repository is None:
            return Stale(warnings=[_unknown("the project is in no git repository", shell_words("git", "init"))])
        return _compared(repository, config, graph, models, wanted)
    except KtxError as error:
        return Stale(warnings=[_unknown(error.message, error.hint)])


def layer_references(graph: Graph, page: Page) -> list[Reference]:
    """Return the references of a page that are about a semantic layer."""
    return [each for each in graph.references(page) if each.kind is not Kind.PAGE]


def _unknown(why: str, hint: str | None) -> ResultWarning:
    return ResultWarning("staleness_unknown", f"whether pages are out of date was not looked at: {why}", hint=hint)


def _compared(
    repository: Repository, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: list[Page]
) -> Stale:
    history = repository.history()
    committed = repository.tree(history.commit)
    changed = history.last_changes(WIKI_NAME)
    dated = [(page, changed[page.path]) for page in pages if page.path in changed and _same(committed, page)]
    known = [(page, last) for page, last in dated if not last.cut_off]
    layers = EarlierLayers(repository, config)
    found = Stale()
    for group in _by_state(history, known):
        names = {name for page, _ in group for each in layer_references(graph, page) for name in _names(each)}
        then = layers.models(group[0][1].commit, names)
        found.findings += [each for page, last in group for each in _findings(graph, page, last, then, models)]
    if len(known) < len(dated):
        why = f"the history of {plural(len(dated) - len(known), 'page')} is cut off in this shallow clone"
        found.warnings.append(_unknown(why, "git fetch --unshallow"))
    return found


def _by_state(history: History, pages: Iterable[Dated]) -> Iterable[list[Dated]]:
    """Return pages in groups for which the semantic layer was the same when they were committed."""
    dated = list(pages)
    states = history.states({last.commit for _, last in dated}, SEMANTIC_NAME)
    groups: dict[str, list[Dated]] = defaultdict(list)
    for page, last in dated:
        if last.commit in states:
            groups[states[last.commit]].append((page, last))
    return groups.values()


def _names(reference: Reference) -> list[str]:
    """Return every name a reference may have of a source or a table, folded."""
    parts = [part.strip('"').casefold() for part in reference.name.split(".")]
    return [*parts, *(".".join(parts[:count]) for count in range(2, len(parts) + 1))]


def _same(committed: TreeView, page: Page) -> bool:
    """Whether a page is as it was committed, but for the ends of its lines."""
    content = committed.read(page.path)
    return content is not None and content.replace(b"\r\n", b"\n") == page.text.encode().replace(b"\r\n", b"\n")


def _findings(
    graph: Graph, page: Page, last: LastChange, then: Mapping[str, Model], now: Mapping[str, Model]
) -> Iterator[Finding]:
    """Yield what is another for a page; what `ktx wiki lint` takes for dangling is said there."""
    resolver, about = Resolver(now), layer_references(graph, page)
    told = {each for ref in about if resolver.missing(ref) is not None for each in targets_of(then, ref)}
    for reference in about:
        for target in targets_of(then, reference):
            finding = None if target in told else _staleness_finding(page, reference, target, last, then, now)
            told.add(target)
            if finding is not None:
                yield finding


def _staleness_finding(
    page: Page,
    reference: Reference,
    target: Target,
    last: LastChange,
    then: Mapping[str, Model],
    now: Mapping[str, Model],
) -> Finding | None:
    before = part_of(then[target.connection], target)
    model = now.get(target.connection)
    after = None if model is None else part_of(model, target)
    if before is None or (model is not None and after is None and _is_broken(model, target)):
        return None
    since = f"since the page was committed ({last.commit[:10]}, {last.day})"
    what = [] if after is None else list(changes(before, after))
    if after is not None and not what:
        return None
    code = PAGE_SUBJECT_GONE if after is None else PAGE_STALE
    said = f"`{target.name}` was changed {since}: {one_line(listing(what, 3), 400)}"
    if after is None:
        said = f"`{target.name}`, which the page is about, is gone {since}"
    line = line_of(page, reference)
    return Finding(code, Level.WARNING, said, _fix(target, last), page.path, line, target.connection)


def _is_broken(model: Model, target: Target) -> bool:
    """Whether a source is away because its file has an error, which is said of the file."""
    return any(each.source == target.source and each.severity == "error" for each in model.problems)


def _fix(target: Target, last: LastChange) -> str:
    seen = shell_words("git", "diff", last.commit[:10], "--", f"{SEMANTIC_NAME}/{target.connection}")
    return f"correct the page and commit it; what changed: {seen}"
