"""`ktx wiki`: search, list, read, write and lint pages, and decide contradictions between sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands.completion import open_topics, page_keys
from ktx_cli.cli.commands.search import hits_data
from ktx_cli.cli.contract import Result, Session, command, own_command
from ktx_cli.cli.help import own_group
from ktx_cli.cli.streams import text_of
from ktx_cli.core import CancelledError, Command, Placeholder, UsageError, one_line, picked, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.contradictions import RecordedContradiction
    from ktx_cli.project import KtxConfig, Layout, Mount, Mounts
    from ktx_cli.search import Found
    from ktx_cli.wiki import Page

commands = own_group()


_SUMMARY: Final = 100


User = Annotated[
    str | None,
    Option("--user", metavar="ID", help="Also use the pages of this user, which take precedence over global pages."),
]
Key = Annotated[str, Argument(metavar="KEY", help="Key of the page.", autocompletion=page_keys)]
KeyOrPassage = Annotated[
    str, Argument(metavar="KEY", help="Key of the page, or ID of a passage.", autocompletion=page_keys)
]


Tags = Annotated[
    list[str] | None, Option("--tag", metavar="TAG", help='Set a tag, or "" to remove all tags. Can be repeated.')
]
Refs = Annotated[
    list[str] | None,
    Option(
        "--ref",
        metavar="KEY",
        help='Set a reference to a page, or "" to remove all references. Can be repeated.',
        autocompletion=page_keys,
    ),
]
SlRefs = Annotated[
    list[str] | None,
    Option(
        "--sl-ref",
        metavar="REF",
        help='Set a reference to a definition, as [CONNECTION/]SOURCE[.NAME], or "" to remove all. Can be repeated.',
    ),
]


@own_command(commands, schema="wiki")
def wiki(
    session: Session,
    words: Annotated[
        list[str] | None, Argument(metavar="QUERY", help="Words to search for. Lists all pages if omitted.")
    ] = None,
    tag: Annotated[str | None, Option("--tag", metavar="TAG", help="Only list pages with this tag.")] = None,
    user: User = None,
    limit: Annotated[int, Option("--limit", min=1, max=1000, help="Maximum number of results.")] = 20,
) -> Result:
    """Search, read and write wiki pages.

    With QUERY, searches pages; without it, lists all pages. Pages for everyone are in wiki/global/KEY.md, the pages of
    one user in wiki/user/ID/KEY.md.

    Examples:
        ktx wiki
        ktx wiki fiscal year
        ktx wiki --tag revenue
    """
    query = " ".join(words or ()).strip()
    mounts = session.mounts()
    if query and mounts is not None:
        return _found_everywhere(session, mounts, query, user=user, tag=tag, limit=limit)
    if query:
        from ktx_cli.jobs.wiki import place_of_hit, search_pages

        layout, config = session.load_project(with_mounts=True)
        answer = search_pages(layout, config, query, environ=os.environ, user=user, tag=tag, limit=limit)
        session.warn(*answer.warnings)
        return _found(session, query, answer.found, lambda key: place_of_hit(layout, key, user))
    results = [result for _, result in session.run_all(None, lambda session, _: _listed(session, user, tag))]
    data: dict[str, Any] = {"query": None, "hits": [], "total": 0, "corrected": {}, "suggested": {}}
    data |= {"pages": [], "tags": []}
    for result in results:
        data["pages"] += result.data["pages"]
        data["tags"] += [each for each in result.data["tags"] if each not in data["tags"]]
    if not data["pages"]:
        return Result(data, [Fields((("pages", "none"),))], next_steps=results[0].next_steps)
    rows = tuple(
        (each["key"], each["scope"], one_line(each["summary"], _SUMMARY), ", ".join(each["tags"]))
        for each in data["pages"]
    )
    return Result(data, [Table(("page", "scope", "summary", "tags"), rows)])


@command(commands, "read", schema="wiki-read")
def read(
    session: Session,
    key: KeyOrPassage,
    user: User = None,
    raw: Annotated[bool, Option("--raw", help="Print the file unchanged.")] = False,
) -> Result:
    """Show a page or a passage of a document.

    Shows the front matter, the text and the pages that refer to the page. `ktx search` prints the IDs of passages.
    Secrets, personal contact data and instructions to agents are hidden in passages.

    Examples:
        ktx wiki read documents-handbook
        ktx wiki read documents-handbook --raw
    """
    mounts = session.mounts()
    mount, own = (None, key) if mounts is None else mounts.split_page(key)
    if mount is not None:
        return session.run_in(mount, lambda session: _read(session, own, user, raw=raw))
    try:
        return _read(session, key, user, raw=raw)
    except UsageError as error:
        if mounts is not None:
            from ktx_cli.jobs.wiki import pages_of_mounts

            found = pages_of_mounts(mounts, key)
            error.hint = Command("wiki", "read", found[0]) if found else error.hint
        raise


def _read(session: Session, key: str, user: str | None, *, raw: bool) -> Result:
    from ktx_cli.jobs.wiki import find_page, referring, scope_of

    layout, config = session.load_project(with_mounts=True)
    if ":" in key:
        return _passage(session, layout, config, key, raw=raw)
    page = find_page(layout, key, scope_of(user))
    data = _of_mount(session.mount, _page_data(page, referring(layout, page)))
    if raw:
        return Result({**data, "text": page.text}, [Lines(tuple(page.text.splitlines()))])
    return Result(data, _page_blocks(page, data))


def _passage(session: Session, layout: Layout, config: KtxConfig, key: str, *, raw: bool) -> Result:
    from ktx_cli.jobs.wiki import find_passage

    if raw:
        raise UsageError("--raw only applies to pages, and this is the ID of a passage", hint="omit --raw")
    found = find_passage(layout, config, key)
    facts = {"key": session.qualified(found.id), "path": found.path, "scope": "document", "summary": found.summary}
    nothing: dict[str, Any] = {"tags": [], "stale": False, "refs": [], "sl_refs": [], "fields": {}, "backlinks": []}
    rows = (("passage", facts["key"]), ("document", found.path), ("below", found.summary))
    blocks: list[Block] = [Fields(rows), Lines(("", *found.text.splitlines()))]
    return Result({**facts, **nothing, "content": found.text}, blocks)


@command(commands, "write", schema="wiki-write")
def write(
    session: Session,
    key: Key,
    content: Annotated[str | None, Option("--content", metavar="TEXT", help="Text of the page.")] = None,
    file: Annotated[
        str | None, Option("--file", metavar="FILE", help="Read the text from a file, or from stdin with `-`.")
    ] = None,
    summary: Annotated[
        str | None, Option("--summary", metavar="TEXT", help="One-sentence summary of the page.")
    ] = None,
    tag: Tags = None,
    ref: Refs = None,
    sl_ref: SlRefs = None,
    user: User = None,
) -> Result:
    """Create or update a page.

    Fields that are not given stay unchanged, and nothing is committed. Broken links, too much text and secrets are
    refused. Other diagnostics of `ktx wiki lint` are printed as warnings.

    Examples:
        ktx wiki write guest-cards --summary "Cards of guests." --file notes.md
        ktx wiki write documents-handbook --tag handbook --tag docs
    """
    from ktx_cli.jobs.wiki import scope_of, write_page
    from ktx_cli.wiki import Revision, warnings_of

    mounts = session.mounts()
    mount, own = (None, key) if mounts is None else mounts.split_page(key)
    if mount is not None:
        message = f"`{key}` is a page of the mount `{mount.name}`, and this command works on one project alone"
        hint = mount.placed(Command("wiki", "write", own))
        raise UsageError(message, hint=hint, details={"mount": mount.name})
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
        list[str] | None, Argument(metavar="KEY", help="Only check these pages.", autocompletion=page_keys)
    ] = None,
) -> Result:
    """Check pages for broken links and unsafe text.

    Reports broken links, instructions to agents, hidden text, secrets and suspicious links. Exits 1 if it reports
    anything.

    Examples:
        ktx wiki lint
        ktx wiki lint documents-handbook
    """
    mounts = session.mounts()
    if keys and mounts is not None:
        places = [mounts.split_page(key) for key in keys]
        mount, own = places[0][0], [key for _, key in places]
        if any(each is not mount for each, _ in places):
            raise UsageError("the pages are of several projects", hint="check those of one project at a time")
        if mount is not None:
            return session.run_in(mount, lambda session: _linted(session, own))
    if keys:
        return _linted(session, keys)
    return session.run_each(None, lambda session, _: _linted(session, ()))


def _linted(session: Session, keys: Sequence[str]) -> Result:
    from ktx_cli.jobs.wiki import lint_wiki

    layout, config = session.load_project(with_mounts=not keys)
    done = lint_wiki(layout, config, keys)
    rows = tuple(
        (f"{session.shown_path(each.path)}:{each.line}", each.code, each.message, each.hint or "")
        for each in done.findings
    )
    table = [Table(("place", "code", "problem", "hint"), rows)] if rows else []
    facts = (("pages", str(done.pages)), ("diagnostics", str(len(rows)) if rows else "none"))
    return Result(done.to_json(), [*table, Fields(facts)], done.error(), is_report=True)


@command(commands, "contradictions", schema="wiki-contradictions")
def contradictions(
    session: Session,
    topic: Annotated[
        str | None, Argument(metavar="TOPIC", help="Topic or number of a contradiction.", autocompletion=open_topics)
    ] = None,
    all: Annotated[bool, Option("--all", help="Also list decided contradictions.")] = False,
    review: Annotated[bool, Option("--review", help="Review each open contradiction on the terminal.")] = False,
    holds: Annotated[
        list[int] | None,
        Option("--holds", metavar="N", min=1, help="Number of a statement that holds. Can be repeated."),
    ] = None,
    neither: Annotated[bool, Option("--neither", help="Decide that none of the statements holds.")] = False,
    because: Annotated[
        str | None,
        Option(
            "--because", metavar="TEXT", help="Reason for the decision. Required unless exactly one statement holds."
        ),
    ] = None,
    by: Annotated[
        str | None,
        Option("--by", metavar="NAME", help="Name of the person who decides. Defaults to your git author name."),
    ] = None,
    reopen: Annotated[bool, Option("--reopen", help="Withdraw the decision about TOPIC.")] = False,
) -> Result:
    """List and resolve contradictions between sources.

    A decision is written to contradictions.yaml but not committed. Agents see it in later runs.

    Examples:
        ktx wiki contradictions
        ktx wiki contradictions --all
        ktx wiki contradictions "fiscal year" --holds 1
    """
    from ktx_cli.jobs.contradictions import Answer, decide, find_contradiction, list_contradictions
    from ktx_cli.jobs.contradictions import reopen as reopened

    decides = bool(holds) or neither
    _check_decision(session, topic, decides=decides, neither=neither, holds=holds, review=review, reopen=reopen)
    if (because or by) and not (decides or review):
        raise UsageError("--because and --by require a decision", hint="add --holds N or --neither")
    layout = session.load_project()[0]
    recorded = list_contradictions(layout)
    chosen = recorded if topic is None else [find_contradiction(recorded, topic)]
    if decides or reopen:
        answer = Answer(tuple(holds or ()), because, by)
        done = reopened(layout, chosen[0]) if reopen else decide(layout, chosen[0], answer)
        return _contradictions_result([done], decided=[done])
    if review:
        waiting = [each for each in chosen if topic is not None or not each.contradiction.is_decided]
        return _reviewed(session, layout, waiting, because, by)
    shown = [each for each in chosen if all or topic is not None or not each.contradiction.is_decided]
    return _contradictions_result(shown, hidden=len(chosen) - len(shown))


def _check_decision(
    session: Session,
    topic: str | None,
    *,
    decides: bool,
    neither: bool,
    holds: list[int] | None,
    review: bool,
    reopen: bool,
) -> None:
    """Raise `UsageError` for options that cannot be combined, and if prompts are impossible."""
    from ktx_cli.jobs.contradictions import COMMAND

    if neither and holds:
        raise UsageError("--holds and --neither cannot be used together", hint="remove one of them")
    if sum((decides, review, reopen)) > 1:
        raise UsageError("a decision, --review and --reopen cannot be used together", hint="remove all but one")
    if (decides or reopen) and topic is None:
        raise UsageError("--holds, --neither and --reopen require a TOPIC", hint=COMMAND)
    if review and not session.settings.interactive:
        message = "--review requires a terminal, and cannot be used with --no-input or --json"
        raise UsageError(message, hint=COMMAND.with_words(Placeholder("TOPIC"), "--holds", "1"))


def _reviewed(
    session: Session, layout: Layout, waiting: list[RecordedContradiction], because: str | None, by: str | None
) -> Result:
    """Ask about contradictions one by one, and write each answer immediately."""
    from ktx_cli.cli.prompts import ask_contradiction
    from ktx_cli.jobs.contradictions import COMMAND, Answer, decide

    decided: list[RecordedContradiction] = []
    stop: CancelledError | None = None
    try:
        for number, each in enumerate(waiting, start=1):
            answer = ask_contradiction(each, f"{number} of {len(waiting)}", because)
            if answer is None:
                break
            if answer.reason is not None or answer.holds:
                decided.append(decide(layout, each, Answer(answer.holds, answer.reason, by)))
    except (KeyboardInterrupt, EOFError):
        streams.write_err("\n")
        kept = f"{plural(len(decided), 'decision')} kept" if decided else "nothing was changed"
        stop = CancelledError(f"the review was interrupted: {kept}", hint=COMMAND.with_words("--review"))
        if not decided:
            raise stop from None
    result = _contradictions_result(decided, decided=decided)
    return Result(result.data, result.blocks, stop, result.next_steps)


def _contradictions_result(
    shown: list[RecordedContradiction], *, hidden: int = 0, decided: list[RecordedContradiction] | None = None
) -> Result:
    from ktx_cli.jobs.contradictions import COMMAND
    from ktx_cli.project import CONTRADICTIONS_NAME

    waiting = [each for each in shown if not each.contradiction.is_decided]
    data = {"contradictions": [each.to_json() for each in shown], "open": len(waiting)}
    rows = tuple(
        (str(each.number), each.contradiction.topic, str(number), statement.source, statement.date or "", text)
        for each in shown
        for number, statement in enumerate(each.contradiction.statements, 1)
        for text in (one_line(statement.text),)
    )
    blocks: list[Block] = [Table(("number", "topic", "statement", "source", "date", "text"), rows)] if rows else []
    answers = tuple((each.contradiction.topic, each.contradiction.decision_summary) for each in shown)
    answers = tuple(each for each in answers if each[1])
    blocks += [Table(("topic", "decision"), answers)] if answers else []
    if not shown:
        nothing = "nothing" if decided is not None else "none"
        blocks = [Fields((("decided" if decided is not None else "open contradictions", nothing),))]
    if decided:
        commit = Command("commit", "-m", "Decide contradictions", "--", CONTRADICTIONS_NAME, program="git")
        return Result(data, blocks, next_steps=[commit])
    steps = [COMMAND.with_words("--review")] if waiting else [COMMAND.with_words("--all")] if hidden else []
    return Result(data, blocks, next_steps=steps)


def _listed(session: Session, user: str | None, tag: str | None) -> Result:
    """Return the pages of one project and their tags."""
    from ktx_cli.jobs.setup.request import first_step
    from ktx_cli.jobs.wiki import broken_pages, read_wiki, scope_of

    layout, config = session.load_project(with_mounts=True)
    scope, book = scope_of(user), read_wiki(layout)
    session.warn(*broken_pages(book))
    pages = [page.to_json() for page in book.seen_from(scope) if tag is None or tag in page.tags]
    steps = [] if pages else [first_step(layout.root, config), Command("wiki", "write", "--help")]
    return Result(
        {"pages": [_of_mount(session.mount, each) for each in pages], "tags": book.tags(scope)}, (), None, steps
    )


def _of_mount(mount: Mount | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a page, under the name that the root uses for it."""
    if mount is None:
        return facts
    pages: dict[str, Any] = {
        name: list(map(mount.qualified, facts[name])) for name in ("refs", "backlinks") if name in facts
    }
    return {**facts, "key": mount.qualified(facts["key"]), "path": mount.shown_path(facts["path"]), **pages}


def _found(session: Session, query: str, found: Found, place: Callable[[str], tuple[str, str]]) -> Result:
    """Return the search results; `place` returns the path and the scope of a page."""
    hits = [{**hit.to_json(), **dict(zip(("path", "scope"), place(hit.id), strict=True))} for hit in found.hits]
    data = {**hits_data(session, query, found, group=("wiki", commands)), "hits": hits, "pages": []}
    if not hits:
        return Result(data, [Fields((("found", "nothing"),))], next_steps=[Command("wiki")])
    rows = tuple((hit.id, one_line(hit.summary, _SUMMARY), ", ".join(hit.matched_on)) for hit in found.hits)
    return Result(data, [Table(("page", "summary", "matched on"), rows, optional=frozenset({"matched on"}))])


def _found_everywhere(
    session: Session, mounts: Mounts, query: str, *, user: str | None, tag: str | None, limit: int
) -> Result:
    from ktx_cli.agent_tools import search_mounts
    from ktx_cli.jobs.wiki import place_of_hit
    from ktx_cli.search import Scope

    scope = Scope(("page",), user=user, tag=tag)
    answer = search_mounts(mounts, query, environ=os.environ, scope=scope, limit=limit)
    session.warn(*answer.warnings)

    def place(key: str) -> tuple[str, str]:
        mount, own = mounts.split_page(key)
        path, scope = place_of_hit(mounts.root if mount is None else mount.layout, own, user)
        return path if mount is None else mount.shown_path(path), scope

    return _found(session, query, answer.found, place)


def _page_data(page: Page, referring: list[str]) -> dict[str, Any]:
    return {**page.to_json(), **picked(page, ("refs", "sl_refs", "fields", "content=body")), "backlinks": referring}


def _page_blocks(page: Page, data: dict[str, Any]) -> list[Block]:
    facts = [("page", data["key"]), ("path", data["path"])]
    facts += [(name, _cell(value)) for name, value in page.fields.items() if value not in (None, [], {}, "")]
    facts += [("referred to by", ", ".join(data["backlinks"]))] if data["backlinks"] else []
    from ktx_cli.agent_tools import visible

    body = visible(page.body).splitlines()
    return [Fields(tuple((visible(str(name)), visible(value)) for name, value in facts)), Lines(("", *body))]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _content(content: str | None, file: str | None) -> str | None:
    if content is not None and file is not None:
        raise UsageError("--content and --file cannot be used together", hint="remove one of them")
    return content if file is None else text_of(file, too_large="split it into several pages")
