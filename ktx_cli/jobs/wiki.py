"""Read, write and lint the wiki pages in the working tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktx_cli.core import (
    Command,
    ConfigError,
    Diagnostic,
    Hint,
    KtxError,
    Placeholder,
    ResultWarning,
    Severity,
    UsageError,
    one_line,
    plural,
)
from ktx_cli.project import KtxConfig, Layout, WorkingTree, read_bytes, write_atomic
from ktx_cli.semantic import Model, layer_ids, load_layers
from ktx_cli.wiki import (
    DIAGNOSTIC_KEYS,
    GLOBAL,
    UNEXPECTED_LINK,
    Checker,
    Page,
    backlinks,
    case_twins,
    hosts_of,
    is_about,
    lint_page,
    load_wiki,
    no_such_page,
    page_path,
    parse,
    place_of,
    problems_of,
    read_page,
    refused,
    render,
    revised,
    user_scope,
    warnings_of,
)

if TYPE_CHECKING:
    from ktx_cli.documents import RawFile
    from ktx_cli.engine import SourceWork
    from ktx_cli.project import Mounts
    from ktx_cli.search import SearchAnswer
    from ktx_cli.wiki import NamedHosts, Revision, Wiki


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A written page. `created` pages are new; `changed` is false if the file is the same as before.

    `notes` are diagnostics about its new text that a person should review.
    """

    page: Page
    created: bool
    changed: bool
    notes: tuple[Diagnostic, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {**self.page.to_json(), "created": self.created, "changed": self.changed}


@dataclass(frozen=True, slots=True)
class WikiReport:
    """The diagnostics of a check, and the number of pages."""

    pages: int
    findings: tuple[Diagnostic, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of diagnostics with each code."""
        return dict(sorted(Counter(each.code for each in self.findings).items()))

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "pages": self.pages,
            "findings": [each.select(DIAGNOSTIC_KEYS) for each in self.findings],
            "counts": self.counts,
        }

    def error(self) -> KtxError | None:
        """Return the command's error, or None if there are no diagnostics."""
        if not self.findings:
            return None
        message, hint = f"the wiki has {plural(len(self.findings), 'problem')}", "edit the pages at the listed lines"
        return KtxError(message, hint=hint, details={"counts": self.counts}, code="wiki_problems")


def scope_of(user: str | None) -> str:
    """Return a user's scope, or the shared scope. Raises `UsageError` for an invalid user id."""
    return GLOBAL if user is None else user_scope(user)


def read_wiki(layout: Layout) -> Wiki:
    """Read all pages from the working tree that exist for the reader of the layout."""
    return _shown(layout, load_wiki(WorkingTree(layout.root)))


def _shown(layout: Layout, wiki: Wiki) -> Wiki:
    known = layout.connections
    if known is not None:
        wiki.pages = {path: page for path, page in wiki.pages.items() if is_about(page, known)}
        wiki.problems = {}
    return wiki


def broken_pages(wiki: Wiki) -> list[ResultWarning]:
    """Return warnings about wiki files that are not valid pages."""
    return warnings_of(wiki.problems.values())


def search_pages(
    layout: Layout,
    config: KtxConfig,
    query: str,
    *,
    environ: Mapping[str, str],
    user: str | None = None,
    tag: str | None = None,
    limit: int = 20,
) -> SearchAnswer:
    """Search the pages, best match first. With `tag`, only pages that have the tag."""
    from ktx_cli.agent_tools import search
    from ktx_cli.search import Scope

    return search(layout, config, query, environ=environ, scope=Scope(("page",), user=user, tag=tag), limit=limit)


def place_of_hit(layout: Layout, key: str, user: str | None) -> tuple[str, str]:
    """Return the path and scope of a search hit. The page of a user takes precedence over the shared page."""
    own = None if user is None else page_path(user_scope(user), key)
    if own is not None and (layout.root / own).is_file():
        return own, user_scope(str(user))
    return page_path(GLOBAL, key), GLOBAL


def find_page(layout: Layout, key: str, scope: str) -> Page:
    """Return the page with a key, as seen from a scope.

    Raises `UsageError` for an unknown key, and `ConfigError` for invalid front matter.
    """
    tree = WorkingTree(layout.root)
    found = read_page(tree, key, scope)
    if isinstance(found, Page) and layout.connections is not None and not is_about(found, layout.connections):
        found = None
    if found is None:
        raise no_such_page(key, _shown(layout, load_wiki(tree)), scope)
    if isinstance(found, Diagnostic):
        raise ConfigError(str(found), hint=found.hint, details={"path": found.path, "line": found.line})
    return found


def pages_of_mounts(mounts: Mounts, key: str) -> list[str]:
    """Return the pages that everybody sees under a key in the mounted projects, named as in the root."""
    projects = mounts.usable.values()
    return [each.qualified(key) for each in projects if _is_there(each.layout, key)]


def _is_there(layout: Layout, key: str) -> bool:
    try:
        return isinstance(find_page(layout, key, scope_of(None)), Page)
    except KtxError:  # a key that no page can have, or a file that cannot be read
        return False


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A visible passage of a document. `summary` is the document title with the headings above the passage."""

    id: str
    path: str
    summary: str
    text: str


def find_passage(layout: Layout, config: KtxConfig, key: str) -> DocumentPassage:
    """Return the passage with the id of a search hit. Raises `UsageError` if it does not exist."""
    from ktx_cli.agent_tools import passage_of, visible

    found = passage_of(layout, config, key)
    if found is None:
        search = Command("search", Placeholder("WORDS"), "--kind", "passage")
        hint = Hint("copy the id from {}, or run {} to read changed documents", search, Command("ingest"))
        raise UsageError(f"there is no passage `{one_line(key, 200)}`", hint=hint)
    summary = f"{found.title}: {found.heading}" if found.heading else found.title
    path = visible(key.partition(":")[2].rsplit(":", 2)[0])
    return DocumentPassage(found.id, path, one_line(visible(summary), 1_000), visible(found.text))


def referring(layout: Layout, page: Page) -> list[str]:
    """Return the sorted keys of the pages that link to a page."""
    return sorted({each.key for each in backlinks(WorkingTree(layout.root), page)})


def write_page(layout: Layout, config: KtxConfig, key: str, revision: Revision, scope: str) -> WrittenPage:
    """Check a page like an agent's page and write its file, without committing it.

    Raises the errors of `revised`, `KtxError` (`wiki_problems`) for a page with errors, and `StorageError`.
    """
    tree = WorkingTree(layout.root)
    page = revised(tree, key, revision, scope)
    before, content = tree.read(page.path), render(page)
    old = None if before is None else parse(page.scope, key, before)
    found = problems_of(page, tree, _models(layout, config), old=old if isinstance(old, Page) else None)
    broken = [each for each in found if each.severity is Severity.ERROR]
    if broken:
        raise refused(page, broken)
    if before != content:
        write_atomic(layout.root / page.path, content)
    return WrittenPage(page, before is None, before != content, tuple(found))


def lint_wiki(
    layout: Layout,
    config: KtxConfig,
    keys: Sequence[str] = (),
    *,
    wiki: Wiki | None = None,
    models: Mapping[str, Model] | None = None,
) -> WikiReport:
    """Lint the pages with these keys, or all, in every scope. Raises `UsageError` for an unknown key.

    `wiki` and `models` are the pages and semantic layers, if the caller has already read them.
    """

    tree = WorkingTree(layout.root)
    wiki = load_wiki(tree) if wiki is None else wiki
    paths = _wanted(wiki, keys)
    pages = [wiki.pages[path] for path in paths if path in wiki.pages]
    models = _models(layout, config) if models is None else models
    found = list(Checker(tree, models).files(wiki, paths))
    found += _suspicious(layout, config, pages)
    found += [each for each in case_twins(wiki.pages.values()) if each.path in set(paths)]
    ordered = sorted(set(found), key=lambda each: (each.path, each.line, each.code, each.message))
    return WikiReport(len(paths), tuple(ordered))


def _suspicious(layout: Layout, config: KtxConfig, pages: Sequence[Page]) -> Iterator[Diagnostic]:
    """Yield the diagnostics of `lint_page`. The hosts of sources are determined only if a page has external links."""
    known: NamedHosts | None = None
    for page in pages:
        found = list(lint_page(page, ()))
        if any(each.code == UNEXPECTED_LINK for each in found):
            known = known or hosts_known(layout, config)
            found = list(lint_page(page, known(page)))
        yield from found


def _wanted(wiki: Wiki, keys: Sequence[str]) -> list[str]:
    known = sorted([*wiki.pages, *wiki.problems])
    if not keys:
        return known
    by_key: dict[str, list[str]] = {}
    for path in known:
        place = place_of(path)
        by_key.setdefault(path if place is None else place[1], []).append(path)
    missing = next((key for key in keys if key not in by_key), None)
    if missing is not None:
        raise no_such_page(missing, wiki)
    return sorted({path for key in keys for path in by_key[key]})


def _models(layout: Layout, config: KtxConfig) -> Mapping[str, Model]:
    ids = layer_ids(layout)
    return dict(zip(ids, load_layers(layout, config, ids), strict=True))


def hosts_known(layout: Layout, config: KtxConfig) -> NamedHosts:
    """Return a function that returns the hosts mentioned in a page's sources, or None if they are unknown.

    For a page from raw files, these are the hosts in the files, if all can be read. Any other page has none if it
    states its `source`, whose host is always allowed; otherwise its hosts are unknown.
    """
    from ktx_cli.engine import Target, choose_sources

    made: dict[str, list[RawFile | None]] = {}
    targets = [Target(connection, entry.driver) for connection, entry in config.usable().items()]
    for work in choose_sources(config, targets, WorkingTree(layout.root), model=False):
        for artifact, file in _artifacts(layout, work):
            made.setdefault(artifact, []).append(file)
    return lambda page: _hosts(page, made)


def _hosts(page: Page, made: Mapping[str, list[RawFile | None]]) -> Collection[str] | None:
    files = made.get(f"wiki:{page.key}")
    if files is None:
        return () if page.fields.get("source") else None
    there = [file for file in files if file is not None]
    return hosts_of(there) if len(there) == len(files) else None


def _artifacts(layout: Layout, work: SourceWork) -> Iterator[tuple[str, RawFile | None]]:
    """Yield every artifact of a source with its raw files. A file that is not on this disk is None."""
    from ktx_cli.sources import RawStore

    store = RawStore(layout.raw_store)
    for path, state in work.delivered.files.items():
        if state.artifacts:
            file = store.find(path, state.sha256) or _on_disk(layout.root, work, path)
            yield from ((artifact, file) for artifact in state.artifacts)


def _on_disk(root: Path, work: SourceWork, path: str) -> RawFile | None:
    """Read a source file from disk, or return None if it does not exist."""
    from ktx_cli.documents import RawFile

    contents = (read_bytes(folder / path) for folder in work.source.folders(work.entry, root))
    content = next((each for each in contents if each is not None), None)
    return None if content is None else RawFile(path, "", len(content), lambda: content)
