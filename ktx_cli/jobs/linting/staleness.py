"""Pages that may be out of date: what they refer to is defined otherwise now than when they were committed last.

A page was written when the newest commit that changed its file was made; with edits that are not committed, now. What
it refers to, as `ktx wiki lint` reads references, is looked up in the semantic layer of that commit and in that of the
working files, and the definitions are compared. Times of files and of commits decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.scan.shards import Shard, parse_shard
from ktx_cli.context.semantic.loading.load import load_tree
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.graph import Graph
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, line_of
from ktx_cli.context.wiki.resolving import Resolver
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing, one_line, plural, shell_words
from ktx_cli.jobs.linting.model import Finding, Level
from ktx_cli.jobs.linting.registry import PAGE_STALE, PAGE_SUBJECT_GONE
from ktx_cli.jobs.linting.targets import Target, changes, part_of, targets_of
from ktx_cli.jobs.semantic.layers import calendar_of
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import SEMANTIC_NAME, WIKI_NAME, Layout
from ktx_cli.project.repository import Repository, TreeView
from ktx_cli.project.repository.history import LastChange

_NO_DIALECT = ""


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
    states = history.states({last.commit for _, last in known}, SEMANTIC_NAME)
    earlier = _Earlier(repository, config, states)
    found = Stale()
    for page, last in known:
        if last.commit in states:
            found.findings += _findings(graph, page, last, earlier.models(last.commit), models)
    if len(known) < len(dated):
        why = f"the history of {plural(len(dated) - len(known), 'page')} is cut off in this shallow clone"
        found.warnings.append(_unknown(why, "git fetch --unshallow"))
    return found


def _same(committed: TreeView, page: Page) -> bool:
    """Whether a page is as it was committed, but for the ends of its lines."""
    content = committed.read(page.path)
    return content is not None and content.replace(b"\r\n", b"\n") == page.text.encode().replace(b"\r\n", b"\n")


@dataclass(slots=True)
class _Earlier:
    """The semantic layers of earlier commits; equal folders are read once. `states`: commit -> id of the folder."""

    repository: Repository
    config: KtxConfig
    states: Mapping[str, str]
    _models: dict[str, dict[str, Model]] = field(default_factory=dict)
    _shards: dict[bytes, Shard] = field(default_factory=dict)

    def models(self, commit: str) -> dict[str, Model]:
        """Return the layers of a commit by connection."""
        state = self.states[commit]
        if state not in self._models:
            tree = self.repository.tree(commit)
            ids = dict.fromkeys(path.split("/")[1] for path in tree.blobs(SEMANTIC_NAME) if path.count("/") > 1)
            self._models[state] = {each: self._model(tree, each) for each in ids}
        return self._models[state]

    def _model(self, tree: TreeView, connection: str) -> Model:
        entry = self.config.connections.get(connection)
        dialect = None if entry is None else dialect_of(entry.driver)
        calendar = calendar_of(self.config)
        return load_tree(_Files(tree), connection, dialect or _NO_DIALECT, calendar, parse=self._parsed)

    def _parsed(self, content: bytes, where: str) -> Shard:
        if content not in self._shards:
            self._shards[content] = parse_shard(content, where)
        return self._shards[content]


@dataclass(frozen=True, slots=True)
class _Files:
    """A commit in the shape of a tree of files."""

    view: TreeView

    def read(self, path: str) -> bytes | None:
        return self.view.read(path)

    def paths(self, prefix: str) -> list[str]:
        return [path for path in self.view.blobs(prefix.rpartition("/")[0]) if path.startswith(prefix)]


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
    return f"{seen} shows it; correct the page and commit it (a page that is still right: with a line `reviewed: DATE`)"
