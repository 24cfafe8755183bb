"""Tools that read the wiki as the overlay has it: what the loop wrote is there too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from ktx_cli import wiki
from ktx_cli.agent_tools.accepted import check_kept
from ktx_cli.agent_tools.discovery import raw_text
from ktx_cli.agent_tools.fence import LONGEST, RESERVE, Parts, cut_lines, joined, visible, wrapped
from ktx_cli.agent_tools.ledger import hit_line, member_need, refusal_of, source_need
from ktx_cli.agent_tools.session import Action, Input, ToolSession, named_page, tool
from ktx_cli.core import (
    Command,
    ConfigError,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    Severity,
    did_you_mean,
    listing,
    one_line,
    plural,
    yaml,
)
from ktx_cli.documents import RawFile
from ktx_cli.llm import ToolOutput
from ktx_cli.project import SEMANTIC_NAME, Tree
from ktx_cli.protection import Need, Refused, column_need, names_in, needs_of, sources_of, table_need
from ktx_cli.search import Scope
from ktx_cli.semantic import Model, Source, VisibleModel, table_parts


class Search(Input):
    """The search."""

    query: str = Field(max_length=500, description="Words about the topic.")
    limit: int = Field(10, ge=1, le=50, description="Maximum number of pages.")


class ReadPage(Input):
    """The page to read."""

    key: str = Field(description="Key of the page.")
    start_line: int = Field(1, ge=1, description="First line of the body to read, if the page was cut.")


class ListTags(Input):
    """No arguments."""


@tool()
def wiki_search(session: ToolSession, value: Search) -> ToolOutput:
    """Search the wiki by words. This includes what you wrote."""
    found = session.search(value.query, Scope(("page",), user=wiki.user_of(session.scope)), value.limit)
    if not found:
        return ToolOutput("No matching page. Try different words.", {"success": True, "keys": []})
    parts = Parts()
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("pages", "use a lower limit")
    keys = [each.id for each in found]
    return ToolOutput(joined(wrapped(parts.text(), "search: wiki pages"), more), {"success": True, "keys": keys})


@tool()
def wiki_read(session: ToolSession, value: ReadPage) -> ToolOutput:
    """Read a wiki page: its front matter and its body."""
    found = the_page(session, value.key)
    if found is None:
        raise no_page(session, value.key)
    if isinstance(found, Diagnostic):
        raise Refused(f"the page `{value.key}` cannot be read: {found.message}")
    markdown, structured = page_text(found, value.start_line)
    return ToolOutput(markdown, structured)


def no_page(session: ToolSession, key: str) -> Refused:
    """Return the refusal for a key without a page."""
    keys = keys_of(session)
    near = next((each for each in (wiki.suggested_key(key), did_you_mean(key, sorted(keys))) if each in keys), None)
    advice = f"did you mean `{near}`?" if near else "search with wiki_search"
    return Refused(f"there is no page `{one_line(key, 120)}`; {advice}")


def keys_of(session: ToolSession) -> set[str]:
    """Return the keys of the pages that this session sees, using only the paths of their files."""
    paths = (
        path
        for scope in wiki.scopes_seen_from(session.scope)
        for path in session.workspace.paths(f"{wiki.FOLDER}{scope}/")
    )
    return {place[1] for place in map(wiki.place_of, paths) if place is not None}


def the_page(session: ToolSession, key: str) -> wiki.Page | Diagnostic | None:
    """Return the page with a key in the overlay."""
    return wiki.read_page(session.workspace, key, session.scope) if wiki.suggested_key(key) == key else None


def page_text(page: wiki.Page, start_line: int = 1) -> tuple[str, dict[str, Any]]:
    """Return a page as a model reads it: front matter first, truncated if it is long."""
    head = visible(yaml.dump(dict(page.fields))) if page.fields else ""
    head, _ = cut_lines(head, LONGEST // 4)
    lines = visible(page.body).split("\n")
    kept, count = cut_lines("\n".join(lines[start_line - 1 :]), LONGEST - RESERVE - len(head))
    last = start_line + count - 1
    cut = last < len(lines)
    note = f"(cut: lines {start_line} to {last} of {plural(len(lines), 'line')}; continue with start_line {last + 1})"
    text = wrapped(f"{head}---\n{kept}" if head else kept, f"wiki page {page.key}")
    return joined(text, note if cut else ""), {"success": True, "key": page.key, "fields": dict(page.fields)}


@tool()
def wiki_list_tags(session: ToolSession, value: ListTags) -> ToolOutput:
    """List the existing tags, so that a new page can use one of them."""
    tags = wiki.load_wiki(session.workspace).tags(session.scope)
    if not tags:
        return ToolOutput("No page has a tag yet.", {"success": True, "tags": []})
    parts = Parts()
    for tag, count in tags.items():
        parts.add(f"- {tag} ({plural(count, 'page')})")
    more = parts.more("tags", "search with wiki_search for the rest")
    return ToolOutput(joined(wrapped(parts.text(), "tags of the wiki"), more), {"success": True, "tags": list(tags)})


READING_TOOLS: Final = (wiki_search, wiki_read, wiki_list_tags)


_FIELDS: Final = (
    "summary", "questions", "synonyms", "tags", "refs", "sl_refs", "source", "intent", "tables", "representative_sql",
    "usage", "fingerprints",
)  # fmt: skip
_RAW_PATHS: Final = Field(
    None, description="The raw files it comes from, from the list of this task. Can be omitted if there is only one."
)
_Text = Annotated[str, Field(min_length=1, max_length=wiki.LONGEST_TEXT)]


class PageEdit(Input):
    """A passage and its replacement."""

    old_text: str = Field(min_length=1, description="A passage of the body, copied exactly; it must occur once.")
    new_text: str = Field(description="The replacement.")


class WritePage(Input):
    """A page, or changes to one. Omitted fields stay unchanged; an empty list clears a field."""

    key: str = Field(description="Key of the page: letters, digits, - and _, no folders.")
    summary: str | None = Field(
        None, max_length=wiki.LONGEST_SUMMARY, description="One sentence; required for a new page."
    )
    content: str | None = Field(
        None, description=f"The whole body as Markdown, at most {wiki.LONGEST_BODY} characters."
    )
    replacements: list[PageEdit] | None = Field(
        None, max_length=50, description="Edits of the body of an existing page, instead of `content`."
    )
    tags: list[str] | None = Field(None, max_length=20, description="Tags; prefer existing ones.")
    refs: list[str] | None = Field(None, max_length=50, description="Keys of pages it refers to.")
    sl_refs: list[str] | None = Field(
        None, max_length=50, description="Definitions it is about, as `[connection/]source[.entity]`."
    )
    source: str | None = Field(None, max_length=500, description="The address of the original.")
    questions: list[_Text] | None = Field(
        None,
        max_length=wiki.MOST_TEXTS,
        description="Three to five questions that it answers, in the words people use.",
    )
    synonyms: list[_Text] | None = Field(
        None, max_length=wiki.MOST_TEXTS, description="Other names for its topic that the page does not contain yet."
    )
    intent: str | None = Field(None, max_length=500, description="The question that the page was written for.")
    tables: list[str] | None = Field(None, max_length=50, description="Database tables it is about.")
    representative_sql: str | None = Field(None, max_length=10_000, description="One statement as an example.")
    usage: dict[str, Any] | None = Field(None, description="Usage counts of a query.")
    fingerprints: list[str] | None = Field(None, max_length=200, description="Ids of the queries it represents.")
    raw_paths: list[str] | None = _RAW_PATHS


class RemovePage(Input):
    """The page to remove."""

    key: str = Field(description="Key of the page.")
    raw_paths: list[str] | None = _RAW_PATHS


def _target(session: ToolSession, value: WritePage | RemovePage) -> str:
    return f"wiki:{wiki.suggested_key(value.key)}"


@tool(target=_target, reads=False)
def wiki_write(session: ToolSession, value: WritePage) -> ToolOutput:
    """Create or change a wiki page.

    Look up every table, column, source and measure that it names in this session first. To change an existing page,
    read it and pass `replacements`.
    """
    key = wiki.check_key(value.key)
    raw_paths = session.raw_paths(value.raw_paths)
    old = _old(session, key)
    page = wiki.revised(session.workspace, key, _revision(value, key, old), session.scope)
    _check_fields(page, old)
    if page.is_catalog:
        raise Refused(
            f"the source `{wiki.CATALOG}` is reserved for pages that ktx writes: pass the address of the original"
        )
    if old is not None and page.text == old.text:
        session.confirmed(Action("wiki", "confirmed", named_page(page.scope, key), None, raw_paths))
        return ToolOutput(f"The page `{key}` already says this; nothing was changed.", {"success": True})
    check_kept(session, page.path, wiki.render(page))
    notes = check_page(session, page, old, raw_paths)
    _spend(session, created=old is None)
    session.workspace.write(page.path, wiki.render(page))
    named = named_page(page.scope, key)
    action = Action("wiki", "created" if old is None else "updated", named, None, raw_paths, page.summary)
    session.acted(action, page.path)
    shown = page_text(page)[0] if value.replacements else ""
    structured = {"success": True, "target": action.identity, "path": page.path, "notes": notes}
    return ToolOutput(joined(f"{action.kind}: {page.path}", "\n".join(notes), shown), structured)


def _old(session: ToolSession, key: str) -> wiki.Page | None:
    found = wiki.own_page(session.workspace, key, session.scope)
    if isinstance(found, Diagnostic):
        raise Refused(
            f"the page `{key}` cannot be changed because its file is invalid: {found.message}; a person must correct it"
        )
    _check_owner(found)
    return found


def _check_owner(page: wiki.Page | None) -> None:
    """Refuse to change a page that ktx writes from the documents themselves."""
    if page is not None and page.is_catalog:
        raise Refused(f"ktx writes the page `{page.key}` from the documents: write to another page")


def _revision(value: WritePage, key: str, old: wiki.Page | None) -> wiki.Revision:
    """Return the requested revision of the page; raises `Refused` if the arguments do not form one."""
    if value.content is not None and value.replacements:
        raise Refused("pass `content` or `replacements`, not both")
    if old is None and value.replacements:
        raise Refused(f"there is no page `{key}` to edit: pass `summary` and `content`")
    if old is None and not (value.content or "").strip():
        raise Refused(_new_needs(key))
    fields = {name: found for name in _FIELDS if (found := getattr(value, name)) is not None}
    edits = [wiki.Replacement(each.old_text, each.new_text) for each in value.replacements or ()]
    return wiki.Revision(fields, value.content, edits)


def _check_fields(page: wiki.Page, old: wiki.Page | None) -> None:
    """Refuse a page without a summary, and fields in `content` that only people may set."""
    before: Mapping[str, Any] = {} if old is None else old.fields
    if old is None and not page.summary:
        raise Refused(_new_needs(page.key))
    if old is not None and old.summary and not page.summary:
        raise Refused("a page must have a summary: omit the argument, or pass a sentence")
    others = sorted({*page.fields, *before} - {*_FIELDS})
    foreign = [name for name in others if page.fields.get(name) != before.get(name)]
    if foreign:
        raise Refused(f"only people set these fields: {listing(foreign)}; remove them from `content`")


def _new_needs(key: str) -> str:
    return f"there is no page `{key}` yet: a new page requires `summary` and `content`"


def _spend(session: ToolSession, *, created: bool) -> None:
    """Subtract a page from the budget; raises `Refused` if none is left."""
    if session.budget is None:
        return
    name = "creates" if created else "updates"
    left = getattr(session.budget, name)
    if left <= 0:
        what = "new pages" if created else "page changes"
        raise Refused(f"the budget of this run for {what} is used up: do not write any more")
    setattr(session.budget, name, left - 1)


@tool(target=_target, reads=False)
def wiki_remove(session: ToolSession, value: RemovePage) -> ToolOutput:
    """Remove a wiki page."""
    raw_paths = session.raw_paths(value.raw_paths)
    found = (
        wiki.own_page(session.workspace, value.key, session.scope)
        if wiki.suggested_key(value.key) == value.key
        else None
    )
    if found is None:
        raise no_page(session, value.key)
    _check_owner(found if isinstance(found, wiki.Page) else None)
    path = found.path
    check_kept(session, path, None)
    found_readers = wiki.graph_about(session.workspace, (value.key,)).readers(value.key)
    readers = sorted({page.key for page in found_readers if page.key != value.key})[:50]
    session.workspace.delete(path)
    action = Action("wiki", "removed", named_page(session.scope, value.key), None, raw_paths)
    session.acted(action, path)
    note = f"These pages still refer to it; change them: {', '.join(readers)}" if readers else ""
    structured = {"success": True, "target": action.identity, "path": path, "readers": readers}
    return ToolOutput(joined(f"removed: {path}", note), structured)


WRITING_TOOLS: Final = (wiki_write, wiki_remove)


def check_page(session: ToolSession, page: wiki.Page, old: wiki.Page | None, raw_paths: Collection[str]) -> list[str]:
    """Return notes about a page; raises `Refused` with everything that keeps the page from being saved.

    The page's previous content is not checked again.
    """
    models = session.models()
    known = {} if old is None else page_needs(old, models)
    needs = [need for shown, need in page_needs(page, models).items() if shown not in known]
    findings = list(wiki.lint_page(page, _hosts(session, raw_paths), old))
    refused = wiki.refused_codes(findings)
    broken = [each for each in findings if each.severity is Severity.ERROR or each.code in refused]
    later = missing_pages(page, keys_of(session))
    gone = [] if session.refs_later or not later else [f"there is no page {listing(f'`{key}`' for key in later)}"]
    invented, unknown = unknown_names(session, page, old, models)
    nowhere = [*dangling(page, models, () if old is None else wiki.references(old)), *invented, *gone]
    twins = [] if old is not None else wiki.SimilarPages.of(wiki.outlines(session.workspace, page.scope)).like(page)
    repeated = [_repeated(each) for each in twins if each.is_duplicate]
    reasons = joined(
        _lines("Nothing was saved, because these references do not exist:", nowhere),
        _lines(
            "Nothing was saved, because a page must not contain this:", [_finding_text(each, page) for each in broken]
        ),
        refusal_of(session.ledger.missing(needs)),
    )
    same = [named_page(page.scope, each.page.key) for each in twins if each.is_duplicate]
    session.pending.repeats(f"wiki:{page.key}", [] if reasons else [f"wiki:{each}" for each in same])
    if reasons or repeated:
        raise Refused(joined(_lines(_REPEATS, repeated), reasons))
    if any(path in session.raw for path in raw_paths):
        findings += figures_nobody_states(page, _texts(session), old)
    notes = [*(f"note: {each.message} (line {each.line})" for each in findings), *(f"note: {each}" for each in unknown)]
    notes += [f"note: {each.share:.0%} of the text is also in the page `{each.page.key}`" for each in twins]
    return [*notes[:20], *([f"note: no page yet: {listing(later, 20)}"] if later else [])]


def figures_nobody_states(
    page: wiki.Page, sources: Iterable[str], old: wiki.Page | None = None
) -> Iterator[Diagnostic]:
    """Yield the large figures of a page that neither its sources nor its previous version (`old`) states.

    Such figures are query results, which change from day to day, or invented.
    """
    texts = sources if old is None else itertools.chain([old.text], sources)
    for line, figure in wiki.unstated_figures(page.body, texts):
        message = f"no source of the page states the figure {int(figure):,}"
        hint = "delete it: query results change from day to day"
        place = Location(page.path, wiki.body_line(page) + line - 1)
        yield Diagnostic("figure", Severity.WARNING, message, place, hint)


def _hosts(session: ToolSession, raw_paths: Collection[str]) -> frozenset[str] | None:
    """Return the hosts that a page's raw files name, or None if the page has no raw files."""
    files = [session.raw[path] for path in raw_paths if path in session.raw]
    return wiki.hosts_of(files) if files else None


def _finding_text(finding: Diagnostic, page: wiki.Page) -> str:
    return f"{finding.message} (line {finding.line} of {page.key}): {finding.hint}"


def _lines(heading: str, lines: list[str]) -> str:
    shown = "\n".join(f"- {one_line(line, 600)}" for line in lines[:30])
    return f"{heading}\n{shown}" if lines else ""


_SQL_BLOCK: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*sql\b[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


def page_needs(page: wiki.Page, models: Mapping[str, Model]) -> dict[str, Need]:
    """Return the names in a page that must have been looked up, by their form in messages."""
    found: dict[str, Need] = {}
    for need in _needs(page, list(models.values())):
        known = found.get(need.shown)
        found[need.shown] = need if known is None else Need(need.shown, known.ids | need.ids, known.tool)
    return found


def dangling(page: wiki.Page, models: Mapping[str, Model], known: Iterable[wiki.Reference] = ()) -> list[str]:
    """Return why a page's references to the semantic layer are broken. References in `known` are skipped."""
    resolver = wiki.Resolver(models)
    before = {(each.kind, each.written, each.field) for each in known}
    messages = []
    for each in wiki.references(page):
        if (each.kind, each.written, each.field) not in before:
            missing = resolver.missing(each)
            if missing is not None:
                messages.append(_reason(missing))
    return list(dict.fromkeys(messages))


def _reason(missing: wiki.Missing) -> str:
    """Return why a reference is broken, with a hint for an agent, because commands in hints are for people."""
    if not isinstance(Hint(missing.hint).parts[0], Command):
        return f"{missing.message} ({missing.hint})"
    return f"{missing.message} (it has: {listing(missing.names, 12)})" if missing.names else missing.message


_REPEATS: Final = (
    "Nothing was saved, because another page already says this. Read that page and edit it with `replacements`. If it "
    "already says everything, call wiki_write with only its key and `raw_paths`:"
)


def _repeated(twin: wiki.Likeness) -> str:
    """Return which page a new one repeats, and how much of it."""
    if twin.same_summary:
        return f"`{twin.page.key}` has the same summary"
    return f"`{twin.page.key}` has {'all' if twin.share == 1 else f'{twin.share:.0%}'} of the text"


_ORDINARY: Final = 3
"""Minimum number of characters in each part of a name, because `np.array` and `e.g` are not such names."""


def unknown_names(
    session: ToolSession, page: wiki.Page, old: wiki.Page | None, models: Mapping[str, Model]
) -> tuple[list[str], list[str]]:
    """Return messages about dotted names in inline code that do not exist: refusals, then notes.

    A name is refused if it looks like a column or a measure and appears neither in the task's files nor in the wiki or
    the semantic layer, so that it can only be invented.
    """
    resolver = wiki.Resolver(models)
    before = set() if old is None else {each.written for each in wiki.references(old)}
    found = {
        each.name: each
        for each in wiki.references(page)
        if each.written not in before and _is_invented(each, resolver) and not _was_seen(session, each.name, models)
    }
    mentioned = _mentioned(session, found) if found else frozenset()
    refused = [name for name in found if session.raw and name not in mentioned and _reads_like_one(name, models)]
    notes = [f"the semantic layer contains nothing named `{name}`" for name in found if name not in refused]
    return [_unknown(name, models) for name in refused], notes


def invented_names(
    before: Tree, after: Tree, paths: Iterable[str], models: Mapping[str, Model], texts: Iterable[str] = ()
) -> list[Diagnostic]:
    """Return the dotted names in changed pages that do not exist and can only be invented.

    They look like a column or a measure, and appear in no page or definition of the tree `before`, nor in `texts`.
    """
    resolver = wiki.Resolver(models)
    found: dict[str, tuple[wiki.Page, wiki.Reference]] = {}
    for path in sorted(paths):
        place, content = wiki.place_of(path), after.read(path)
        page = None if place is None or content is None else wiki.parse(*place, content)
        if not isinstance(page, wiki.Page):
            continue
        for each in wiki.references(page):
            if _is_invented(each, resolver):
                found.setdefault(each.name, (page, each))
    unseen = {name for name in found if _reads_like_one(name, models)}
    for text in itertools.chain(texts, _own_texts(before)) if unseen else ():
        folded = text.casefold()
        unseen = {name for name in unseen if name.casefold() not in folded}
    return [
        Diagnostic(
            "unknown_name",
            Severity.ERROR,
            f"`{name}`: the semantic layer has no source, table or column with this name, and nothing else mentions it",
            Location(page.path, wiki.line_of(page, reference)),
            "describe it in words, or use a name that exists",
        )
        for name, (page, reference) in sorted(found.items())
        if name in unseen
    ]


def _is_invented(reference: wiki.Reference, resolver: wiki.Resolver) -> bool:
    return min(map(len, reference.name.split("."))) >= _ORDINARY and resolver.is_unknown(reference)


def _unknown(name: str, models: Mapping[str, Model]) -> str:
    sources = {each.name for model in models.values() for each in VisibleModel(model).sources()}
    near = did_you_mean(name.rpartition(".")[0], sorted(sources))
    meant = f" (did you mean `{near}`?)" if near else ""
    return (
        f"`{name}`: the semantic layer has no source, table or column with this name{meant}, and no file of this task "
        "mentions it: describe it in words"
    )


def _was_seen(session: ToolSession, name: str, models: Mapping[str, Model]) -> bool:
    """Whether a statement in this session read a table with this name, or a column with this name."""
    parts = _parts(name)
    needs = (
        need for each in models.values() for need in (table_need(each, parts), column_need(each, parts[:-1], parts[-1]))
    )
    return any(not session.ledger.missing([need]) for need in needs)


def _reads_like_one(name: str, models: Mapping[str, Model]) -> bool:
    owner, _, member = name.rpartition(".")
    if name != name.lower():
        return False
    return "_" in owner or any(_entity(each, member) for model in models.values() for each in model.sources.values())


def _mentioned(session: ToolSession, names: Collection[str]) -> frozenset[str]:
    """Return the names that occur in the task's files, in pages or in the semantic layer."""
    found: set[str] = set()
    for text in _texts(session):
        folded = text.casefold()
        found.update(name for name in names if name.casefold() in folded)
    return frozenset(found)


def _texts(session: ToolSession) -> Iterator[str]:
    """Return the texts of the task's files, the wiki and the semantic layer, one after another."""
    return itertools.chain(map(_text_of, session.raw.values()), _own_texts(session.workspace))


def _own_texts(tree: Tree) -> Iterator[str]:
    contents = (tree.read(path) or b"" for folder in _OWN for path in tree.paths(folder))
    return (content.decode("utf-8", "replace") for content in contents)


def _text_of(file: RawFile) -> str:
    try:
        return raw_text(file)
    except KtxError:  # nobody can have read a name in a file that cannot be read
        return ""


_OWN: Final = (wiki.FOLDER, f"{SEMANTIC_NAME}/")


def missing_references(names: Iterable[str], models: Mapping[str, Model]) -> list[str]:
    """Return why semantic layer names (`[connection/]source[.entity]`) do not exist."""
    return dangling(wiki.Page("it", fields={"sl_refs": list(names)}), models)


def missing_pages(page: wiki.Page, keys: Iterable[str]) -> list[str]:
    """Return the keys of pages that a page refers to and that are not among `keys`."""
    there = {*keys, page.key}
    found = (each.name for each in wiki.references(page) if each.kind is wiki.Kind.PAGE and each.binding)
    return sorted({name for name in found if name not in there})


def _needs(page: wiki.Page, models: list[Model]) -> Iterator[Need]:
    for reference in wiki.references(page):
        yield from _named(reference, [each for each in models if reference.connection in (None, each.connection)])
    for table in page.texts("tables"):
        yield from _table(table, models)
    statements = [found[2] for found in _SQL_BLOCK.finditer(page.body)]
    for sql in (*page.texts("representative_sql"), *statements):
        yield from _statement(sql, models)


def _named(reference: wiki.Reference, models: list[Model]) -> Iterator[Need]:
    """Yield the needs for one reference. Broken references only need tables, which a database may have."""
    if reference.kind is wiki.Kind.PAGE:
        return
    if reference.kind in wiki.MEMBERS and "." not in reference.name:
        yield from _of_any_source(reference.name, models)
        return
    found = [need for model in models for need in _in_layer(model, reference.name)]
    if found:
        yield from found
    elif reference.kind in (wiki.Kind.TABLE, wiki.Kind.COLUMN) or any(
        _is_table(each, reference.name) for each in models
    ):
        yield from _table(reference.name, models)


def _of_any_source(name: str, models: list[Model]) -> Iterator[Need]:
    """Yield the need for a measure, segment or column without a named source: any source that has it will do."""
    for model in models:
        for source in model.sources.values():
            entity = _entity(source, name)
            if entity is not None:
                yield replace(member_need(model, source, entity), shown=name)


def _in_layer(model: Model, name: str) -> Iterator[Need]:
    if name in model.sources:
        yield source_need(model, model.sources[name])
        return
    outer, _, member = name.rpartition(".")
    source = model.sources.get(outer)
    if source is not None and (entity := _entity(source, member)) is not None:
        yield member_need(model, source, entity)


def _entity(source: Source, name: str) -> str | None:
    column = source.column(name)
    if column is not None:
        return column.name
    return name if name in source.measures or name in source.segments else None


def _is_table(model: Model, name: str) -> bool:
    parts = _parts(name)
    return bool(parts) and bool(sources_of(model, parts))


def _table(name: str, models: list[Model]) -> Iterator[Need]:
    """Yield the need for a table in any of the databases; `shop.orders.amount` may also be a column of a table."""
    parts = _parts(name)
    if not parts:
        return
    for model in models:
        direct = list(_in_layer(model, name))
        if direct:
            yield from direct
        elif not sources_of(model, parts) and len(parts) > 1 and sources_of(model, parts[:-1]):
            yield column_need(model, parts[:-1], parts[-1])
        else:
            yield table_need(model, parts)


def _parts(name: str) -> tuple[str, ...]:
    try:
        return table_parts(name)
    except ConfigError:
        return ()


def _statement(sql: str, models: list[Model]) -> Iterator[Need]:
    """Yield the names in a statement; a statement that none of these databases can parse has none."""
    for model in models:
        named = names_in(sql, model.dialect, tags=True)
        if named is not None:
            yield from needs_of(named, model)
