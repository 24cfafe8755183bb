"""`ktx wiki`: pages found by words, listed, read, written and linted."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands.completion import page_keys
from ktx_cli.cli.commands.search import hits_data
from ktx_cli.cli.contract import Result, Session, command, own_command
from ktx_cli.cli.help import own_group
from ktx_cli.cli.streams import text_of
from ktx_cli.core import Command, UsageError, one_line, picked

if TYPE_CHECKING:
    from ktx_cli.search import Found
    from ktx_cli.wiki import Page

commands = own_group()


_SUMMARY: Final = 100


User = Annotated[
    str | None, Option("--user", metavar="ID", help="The pages of this user too; theirs come before everybody's.")
]
Key = Annotated[str, Argument(metavar="KEY", help="The page's key.", autocompletion=page_keys)]


Tags = Annotated[list[str] | None, Option("--tag", metavar="TAG", help='A tag. Repeatable; "" for none.')]
Refs = Annotated[
    list[str] | None,
    Option(
        "--ref",
        metavar="KEY",
        help='The key of a page this one refers to. Repeatable; "" for none.',
        autocompletion=page_keys,
    ),
]
SlRefs = Annotated[
    list[str] | None,
    Option(
        "--sl-ref",
        metavar="REF",
        help='What of the semantic layer it is about: [connection/]source[.entity]. Repeatable; "" for none.',
    ),
]


@own_command(commands, schema="wiki")
def wiki(
    session: Session,
    words: Annotated[list[str] | None, Argument(metavar="QUERY", help="Words to look for.")] = None,
    tag: Annotated[str | None, Option("--tag", metavar="TAG", help="Only pages with this tag.")] = None,
    user: User = None,
    limit: Annotated[int, Option("--limit", min=1, max=1000, help="How many to show.")] = 20,
) -> Result:
    """Find wiki pages. Without words: list them."""
    from ktx_cli.jobs.wiki import broken_pages, place_of_hit, read_wiki, scope_of, search_pages

    layout, config = session.load_project()
    scope = scope_of(user)
    query = " ".join(words or ()).strip()
    if query:
        answer = search_pages(layout, config, query, environ=os.environ, user=user, tag=tag, limit=limit)
        session.warn(*answer.warnings)
        return _found(session, query, answer.found, lambda key: place_of_hit(layout, key, user))
    book = read_wiki(layout)
    session.warn(*broken_pages(book))
    pages = [page for page in book.seen_from(scope) if tag is None or tag in page.tags]
    if pages:
        return _listing(pages, list(book.tags(scope)))
    from ktx_cli.jobs.setup.request import first_step

    nothing = [Fields((("pages", "none"),))]
    steps = [first_step(layout.root, config), Command("wiki", "write", "--help")]
    return Result(_listed([], list(book.tags(scope))), nothing, next_steps=steps)


@command(commands, "read", schema="wiki-read")
def read(
    session: Session,
    key: Key,
    user: User = None,
    raw: Annotated[bool, Option("--raw", help="The file as it stands.")] = False,
) -> Result:
    """Show a page: what its front matter says, its text, and which pages refer to it."""
    from ktx_cli.jobs.wiki import find_page, referring, scope_of

    layout, _ = session.load_project()
    page = find_page(layout, key, scope_of(user))
    data = _page_data(page, referring(layout, page))
    if raw:
        return Result({**data, "text": page.text}, [Lines(tuple(page.text.splitlines()))])
    return Result(data, _page_blocks(page, data))


@command(commands, "write", schema="wiki-write")
def write(
    session: Session,
    key: Key,
    content: Annotated[str | None, Option("--content", metavar="TEXT", help="The page's text.")] = None,
    file: Annotated[
        str | None, Option("--file", metavar="FILE", help="Read the page's text there; `-`: stdin.")
    ] = None,
    summary: Annotated[str | None, Option("--summary", metavar="TEXT", help="What it says, in a sentence.")] = None,
    tag: Tags = None,
    ref: Refs = None,
    sl_ref: SlRefs = None,
    user: User = None,
) -> Result:
    """Write a page, new or again: what is not given stays as it is. Nothing is committed.

    The page is checked first, as a page of an agent is: a reference that leads nowhere, too long a text and what
    looks like a secret keep it from being written; what else `ktx wiki lint` would find in it is a warning.
    """
    from ktx_cli.jobs.wiki import scope_of, write_page
    from ktx_cli.wiki import Revision, warnings_of

    layout, config = session.load_project()
    lists = {"tags": tag, "refs": ref, "sl_refs": sl_ref}
    fields: dict[str, Any] = {name: [each for each in value if each] for name, value in lists.items() if value}
    fields |= {} if summary is None else {"summary": summary}
    revision = Revision(fields, _content(content, file))
    done = write_page(layout, config, key, revision, scope_of(user))
    session.warn(*warnings_of(done.notes))
    what = "created" if done.created else "changed" if done.changed else "unchanged"
    return Result(done.to_json(), [Fields(((what, done.page.path),))], None, [Command("index")] if done.changed else [])


@command(commands, "lint", schema="wiki-lint")
def lint(
    session: Session,
    keys: Annotated[
        list[str] | None, Argument(metavar="KEY", help="Only these pages.", autocompletion=page_keys)
    ] = None,
) -> Result:
    """Look for what is wrong in pages: dangling references, sentences to agents, hidden text, secrets, odd links.

    Exits 1 when it found something.
    """
    from ktx_cli.jobs.wiki import lint_wiki

    layout, config = session.load_project()
    done = lint_wiki(layout, config, keys or ())
    rows = tuple((f"{each.path}:{each.line}", each.code, each.message, each.hint or "") for each in done.findings)
    table = [Table(("place", "code", "problem", "hint"), rows)] if rows else []
    facts = (("pages", str(done.pages)), ("problems", str(len(rows)) if rows else "none"))
    return Result(done.to_json(), [*table, Fields(facts)], done.error())


def _listing(pages: list[Page], tags: list[str]) -> Result:
    rows = tuple((page.key, page.scope, one_line(page.summary, _SUMMARY), ", ".join(page.tags)) for page in pages)
    return Result(_listed(pages, tags), [Table(("page", "scope", "summary", "tags"), rows)])


def _listed(pages: list[Page], tags: list[str]) -> dict[str, Any]:
    listed = [page.to_json() for page in pages]
    return {"query": None, "hits": [], "total": 0, "corrected": {}, "pages": listed, "tags": tags}


def _found(session: Session, query: str, found: Found, place: Callable[[str], tuple[str, str]]) -> Result:
    """Return what was found; `place` gives the path and the scope of a page."""
    hits = [{**hit.to_json(), **dict(zip(("path", "scope"), place(hit.id), strict=True))} for hit in found.hits]
    data = {**hits_data(session, query, found), "hits": hits, "pages": []}
    if not hits:
        return Result(data, [Fields((("found", "nothing"),))], next_steps=[Command("wiki")])
    rows = tuple((hit.id, one_line(hit.summary, _SUMMARY), ", ".join(hit.matched_on)) for hit in found.hits)
    return Result(data, [Table(("page", "summary", "matched on"), rows)])


def _page_data(page: Page, referring: list[str]) -> dict[str, Any]:
    return {**page.to_json(), **picked(page, ("refs", "sl_refs", "fields", "content=body")), "backlinks": referring}


def _page_blocks(page: Page, data: dict[str, Any]) -> list[Block]:
    facts = [("page", page.key), ("path", page.path)]
    facts += [(name, _cell(value)) for name, value in page.fields.items() if value not in (None, [], {}, "")]
    facts += [("referred to by", ", ".join(data["backlinks"]))] if data["backlinks"] else []
    return [Fields(tuple((str(name), value) for name, value in facts)), Lines(("", *page.body.splitlines()))]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _content(content: str | None, file: str | None) -> str | None:
    if content is not None and file is not None:
        raise UsageError("--content and --file exclude each other", hint="drop one")
    return content if file is None else text_of(file, too_large="make several pages of it")
