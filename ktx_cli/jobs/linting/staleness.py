"""Pages that may be out of date: what they refer to is defined otherwise now than when they were committed last.

A page was written when the newest commit that changed its file was made; with edits that are not committed, now. What
it refers to, as `ktx wiki lint` reads references, is looked up in the semantic layer of that commit and in that of the
working files, and the definitions are compared. Times of files and of commits decide nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.graph import Graph
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, line_of
from ktx_cli.context.wiki.resolving import Resolver
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing, one_line, plural, shell_words
from ktx_cli.jobs.linting.earlier import EarlierLayers
from ktx_cli.jobs.linting.model import Finding, Level
from ktx_cli.jobs.linting.registry import PAGE_STALE, PAGE_SUBJECT_GONE
from ktx_cli.jobs.linting.targets import Target, changes, part_of, targets_of
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import SEMANTIC_NAME, WIKI_NAME, Layout
from ktx_cli.project.repository import Repository, TreeView
from ktx_cli.project.repository.history import History, LastChange

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
            finding = None if target in told else _finding(page, reference, target, last, then, now)
            told.add(target)
            if finding is not None:
                yield finding


def _finding(
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
