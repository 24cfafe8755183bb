"""Diagnostic, reading, writing and linting wiki pages of a project as its files are now."""

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
    from ktx_cli.search import SearchAnswer
    from ktx_cli.wiki import NamedHosts, Revision, Wiki


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written. `created`: it was not there before; `changed`: its file is not as it was.

    `notes`: what a person should look at, of what is new in it.
    """

    page: Page
    created: bool
    changed: bool
    notes: tuple[Diagnostic, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in an envelope."""
        return {**self.page.to_json(), "created": self.created, "changed": self.changed}


@dataclass(frozen=True, slots=True)
class WikiReport:
    """The diagnostics of a check, and the number of pages."""

    pages: int
    findings: tuple[Diagnostic, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of diagnostics of each code."""
        return dict(sorted(Counter(each.code for each in self.findings).items()))

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in an envelope."""
        return {
            "pages": self.pages,
            "findings": [each.select(DIAGNOSTIC_KEYS) for each in self.findings],
            "counts": self.counts,
        }

    def error(self) -> KtxError | None:
        """Return the error to end with, None where nothing was found."""
        if not self.findings:
            return None
        message, hint = f"the wiki has {plural(len(self.findings), 'problem')}", "change the pages at the places named"
        return KtxError(message, hint=hint, details={"counts": self.counts}, code="wiki_problems")


def scope_of(user: str | None) -> str:
    """Return the scope to read and write in: one user's, or everybody's. `UsageError` for an id that is none."""
    return GLOBAL if user is None else user_scope(user)


def read_wiki(layout: Layout) -> Wiki:
    """Return all pages as their files are now."""
    return load_wiki(WorkingTree(layout.root))


def broken_pages(wiki: Wiki) -> list[ResultWarning]:
    """Say which files of the wiki hold no page that can be read."""
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
    """Return the pages that fit a query, best first, as `search` finds them; `tag`: only those that have it."""
    from ktx_cli.agent_tools import search
    from ktx_cli.search import Scope

    return search(layout, config, query, environ=environ, scope=Scope(("page",), user=user, tag=tag), limit=limit)


def place_of_hit(layout: Layout, key: str, user: str | None) -> tuple[str, str]:
    """Return the path and the scope of a page that was found: a user's own stands in for everybody's."""
    own = None if user is None else page_path(user_scope(user), key)
    if own is not None and (layout.root / own).is_file():
        return own, user_scope(str(user))
    return page_path(GLOBAL, key), GLOBAL


def find_page(layout: Layout, key: str, scope: str) -> Page:
    """Return the page somebody in `scope` sees under a key.

    Raises `UsageError` where there is none, `ConfigError` where its front matter cannot be read.
    """
    tree = WorkingTree(layout.root)
    found = read_page(tree, key, scope)
    if found is None:
        raise no_such_page(key, load_wiki(tree), scope)
    if isinstance(found, Diagnostic):
        raise ConfigError(str(found), hint=found.hint, details={"path": found.path, "line": found.line})
    return found


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A passage of a document as it may be shown. `summary`: the title of the document, and the headings above it."""

    id: str
    path: str
    summary: str
    text: str


def find_passage(layout: Layout, config: KtxConfig, key: str) -> DocumentPassage:
    """Return the passage that a search gave the id of; `UsageError` where there is none now."""
    from ktx_cli.agent_tools import passage_of, visible

    found = passage_of(layout, config, key)
    if found is None:
        search = Command("search", Placeholder("WORDS"), "--kind", "passage")
        hint = Hint("copy the id from {}; {} reads documents that changed", search, Command("ingest"))
        raise UsageError(f"there is no passage `{one_line(key, 200)}`", hint=hint)
    summary = f"{found.title}: {found.heading}" if found.heading else found.title
    path = visible(key.partition(":")[2].rsplit(":", 2)[0])
    return DocumentPassage(found.id, path, one_line(visible(summary), 1_000), visible(found.text))


def referring(layout: Layout, page: Page) -> list[str]:
    """Return the keys of the pages that refer to a page, sorted."""
    return sorted({each.key for each in backlinks(WorkingTree(layout.root), page)})


def write_page(layout: Layout, config: KtxConfig, key: str, revision: Revision, scope: str) -> WrittenPage:
    """Write a page's file, checked as an agent's page is; nothing is committed.

    Raises what `revised` does, `KtxError` (`wiki_problems`) for a page with something wrong in it, `StorageError`.
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
    """Look through the pages of these keys, or all, in every scope; `UsageError` for a key without a file.

    `wiki` and `models`: the pages and the semantic layers, where somebody has read them already.
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
    """Yield what `lint_page` finds; which hosts sources name is looked up only where a page has a link to judge."""
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
    """Return who tells which hosts the sources of a page name; None where they are not known.

    A page that manifests say came of raw files: the hosts those name, if all can be read. Any other page: none where it
    says what its `source` is (whose host is always named), else they are not known.
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
    """Yield every artifact of a source with a raw file it came of, None for one that is not on this disk."""
    from ktx_cli.sources import RawStore

    store = RawStore(layout.raw_store)
    for path, state in work.delivered.files.items():
        if state.artifacts:
            file = store.find(path, state.sha256) or _on_disk(layout.root, work, path)
            yield from ((artifact, file) for artifact in state.artifacts)


def _on_disk(root: Path, work: SourceWork, path: str) -> RawFile | None:
    """Return a file that is read where it is, as it is now; None where there is none."""
    from ktx_cli.documents import RawFile

    contents = (read_bytes(folder / path) for folder in work.source.folders(work.entry, root))
    content = next((each for each in contents if each is not None), None)
    return None if content is None else RawFile(path, "", len(content), lambda: content)
