"""Finds what pages refer to that has changed since they were committed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, plural
from ktx_cli.jobs.check.lint.history import EarlierLayers, Target, changes, part_of, targets_of
from ktx_cli.project import SEMANTIC_NAME, WIKI_NAME, History, KtxConfig, LastChange, Layout, Repository, TreeView
from ktx_cli.semantic import Model
from ktx_cli.wiki import Graph, Kind, Page, Reference, Resolver, line_of


@dataclass(frozen=True, slots=True)
class ChangedTarget:
    """A part of a semantic layer that is not what it was when a page that refers to it was committed."""

    page: Page
    reference: Reference
    target: Target
    last: LastChange
    """The commit of the page."""
    changes: tuple[str, ...]
    """What changed, in words; empty: the part is gone."""

    @property
    def line(self) -> int:
        """The line of the reference in the page."""
        return line_of(self.page, self.reference)

    @property
    def since(self) -> str:
        """The commit and its day, in words."""
        return f"since the page was committed ({self.last.commit[:10]}, {self.last.day})"

    @property
    def hint(self) -> Hint:
        """What to do about it, with the command that shows the change."""
        difference = Command(
            "diff", self.last.commit[:10], "--", f"{SEMANTIC_NAME}/{self.target.connection}", program="git"
        )
        return Hint("correct the page and commit it; what changed: {}", difference)


DatedPage = tuple[Page, LastChange]
"""A page with its last change."""


def changed_targets(
    layout: Layout, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: Iterable[Page]
) -> tuple[list[ChangedTarget], list[ResultWarning]]:
    """Return what changed for the pages, and warnings of what could not be compared; `models`: the layers as they are.

    Pages that are marked as out of date are passed over.
    """
    wanted = [page for page in pages if not page.is_stale and layer_references(graph, page)]
    if not wanted:
        return [], []
    try:
        repository = Repository.discover(layout.root)
        if repository is None:
            return [], [_unknown("the project is in no git repository", Command("init", program="git"))]
        return _compared(repository, config, graph, models, wanted)
    except KtxError as error:
        return [], [_unknown(error.message, error.hint)]


def layer_references(graph: Graph, page: Page) -> list[Reference]:
    """Return the references of a page that are about a semantic layer."""
    return [reference for reference in graph.references(page) if reference.kind is not Kind.PAGE]


def _unknown(why: str, hint: str | None) -> ResultWarning:
    return ResultWarning("staleness_unknown", f"whether pages are out of date was not looked at: {why}", hint=hint)


def _compared(
    repository: Repository, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: list[Page]
) -> tuple[list[ChangedTarget], list[ResultWarning]]:
    history = repository.history()
    committed = repository.tree(history.commit)
    last_changes = history.last_changes(WIKI_NAME)
    dated = [(page, last_changes[page.path]) for page in pages if page.path in last_changes and _same(committed, page)]
    known = [(page, last) for page, last in dated if not last.cut_off]
    layers = EarlierLayers(repository, config)
    changed: list[ChangedTarget] = []
    for group in _by_state(history, known):
        names = {name for page, _ in group for reference in layer_references(graph, page) for name in _names(reference)}
        then = layers.models(group[0][1].commit, names)
        for page, last in group:
            changed += _changed_of_page(graph, page, last, then, models)
    if len(known) == len(dated):
        return changed, []
    why = f"the history of {plural(len(dated) - len(known), 'page')} is cut off in this shallow clone"
    return changed, [_unknown(why, Command("fetch", "--unshallow", program="git"))]


def _by_state(history: History, dated: list[DatedPage]) -> Iterable[list[DatedPage]]:
    """Return pages in groups for which the semantic layer was the same when they were committed."""
    states = history.states({last.commit for _, last in dated}, SEMANTIC_NAME)
    groups: dict[str, list[DatedPage]] = defaultdict(list)
    for page, last in dated:
        if last.commit in states:
            groups[states[last.commit]].append((page, last))
    return groups.values()


def _names(reference: Reference) -> list[str]:
    """Return every name a reference may have of a source or a table, folded."""
    parts = [part.strip('"').casefold() for part in reference.name.split(".")]
    return [*parts, *(".".join(parts[:count]) for count in range(2, len(parts) + 1))]


def _same(committed: TreeView, page: Page) -> bool:
    """Whether a page is as it was committed, except for the ends of its lines."""
    content = committed.read(page.path)
    return content is not None and content.replace(b"\r\n", b"\n") == page.text.encode().replace(b"\r\n", b"\n")


def _changed_of_page(
    graph: Graph, page: Page, last: LastChange, then: Mapping[str, Model], now: Mapping[str, Model]
) -> Iterator[ChangedTarget]:
    """Yield what changed for a page, each target once; the check of references reports dangling ones."""
    resolver, references = Resolver(now), layer_references(graph, page)
    dangling = [reference for reference in references if resolver.missing(reference) is not None]
    seen = {target for reference in dangling for target in targets_of(then, reference)}
    for reference in references:
        for target in targets_of(then, reference):
            differences = None if target in seen else _differences(target, then, now)
            seen.add(target)
            if differences is not None:
                yield ChangedTarget(page, reference, target, last, differences)


def _differences(target: Target, then: Mapping[str, Model], now: Mapping[str, Model]) -> tuple[str, ...] | None:
    """Return what changed of a target, nothing where it is gone; None where it is the same."""
    before = part_of(then[target.connection], target)
    model = now.get(target.connection)
    after = None if model is None else part_of(model, target)
    if before is None or (model is not None and after is None and _is_broken(model, target)):
        return None
    if after is None:
        return ()
    return tuple(changes(before, after)) or None


def _is_broken(model: Model, target: Target) -> bool:
    """Whether a source is missing because its file has an error, which is reported for the file."""
    return any(problem.location.object == target.source and problem.severity == "error" for problem in model.problems)
