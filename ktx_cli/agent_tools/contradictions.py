"""The tool that every agent uses to record that sources contradict each other."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ktx_cli.agent_tools.session import Input, ToolSession, tool
from ktx_cli.core import ConfigError, did_you_mean, listing, one_line
from ktx_cli.documents import dates_of
from ktx_cli.llm import RuntimeTool, ToolOutput
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.protection import Refused
from ktx_cli.semantic import Source, VisibleModel
from ktx_cli.wiki import DATA, Contradiction, Statement, load_contradictions, read_page, settled

TEXT: Final = "text"
"""The name that a capture uses for the text to remember."""

_LONGEST_TEXT: Final = 1_000


class StatementInput(Input):
    """One side of a contradiction."""

    text: str = Field(min_length=1, max_length=_LONGEST_TEXT, description="The statement, in the words of the source.")
    source: str = Field(
        min_length=1,
        max_length=500,
        description="A raw file of this task, `wiki:<key>`, `sl:<connection>/<source>[.<measure>]`, `data` "
        "for rows you queried, or `text` for the text to remember.",
    )
    effect: str = Field(
        min_length=1, max_length=500, description="What would change if this were true: which measure, page or number."
    )
    date: str | None = Field(None, max_length=60, description="The date that the source states, if it states one.")


class RecordContradiction(Input):
    """Two or more statements that cannot all be true."""

    topic: str = Field(min_length=1, max_length=120, description="What they disagree about, in a few words.")
    statements: list[StatementInput] = Field(min_length=2, max_length=6, description="One statement per side.")
    evidence: str | None = Field(
        None, max_length=2_000, description="Further evidence, such as a query and its result."
    )


@tool(reads=False)
def record_contradiction(session: ToolSession, value: RecordContradiction) -> ToolOutput:
    """Record that sources contradict each other. Prefers neither: a person decides. Call it once for each
    contradiction, also where one source is newer or looks more reliable.
    """
    found = Contradiction(
        " ".join(value.topic.split()),
        tuple(
            Statement(
                each.text,
                source := checked_source(session, each.source),
                each.effect,
                each.date or _date(session, source),
            )
            for each in value.statements
        ),
        value.evidence,
    )
    texts = [value.topic, value.evidence or "", *(part for each in value.statements for part in _parts(each))]
    wrong = [f"the text contains {spot.message}" for text in texts for spot in (*secrets(text), *personal_data(text))]
    if wrong:
        raise Refused("\n".join(wrong[:20]))
    if session.accepted is not None:
        _settle(session, found)
    else:
        decided = settled(_kept(session), found)
        if decided is not None:
            return ToolOutput(
                f"A person has decided this already: {decided.decision_summary}. Nothing was recorded. "
                "Write what was decided; do not write that the sources disagree.",
                {"success": True, "topic": decided.topic, "decision": decided.decision},
            )
    session.records.contradicted(found)
    return ToolOutput(
        f"Recorded: sources disagree about {found.topic}. A person decides; do not change either statement.",
        {"success": True, "topic": found.topic, "sources": list(found.sources)},
    )


def _date(session: ToolSession, source: str) -> str | None:
    """Return the first date that a raw file states for itself; None if there is none, or the source is not a file."""
    connection, _, path = source.partition("/")
    candidates = (session.raw.get(source), session.raw.get(path), session.citable.get(connection, {}).get(path))
    raw = next((each for each in candidates if each is not None), None)
    return next(iter(dates_of(raw)), None) if raw is not None else None


def _kept(session: ToolSession) -> list[Contradiction]:
    try:
        return load_contradictions(session.workspace)
    except ConfigError:  # the end of the run reports a file that cannot be read
        return []


def _parts(statement: StatementInput) -> tuple[str, str, str]:
    return statement.text, statement.effect, statement.date or ""


def _settle(session: ToolSession, found: Contradiction) -> None:
    """Resolve the refused writes to accepted content, which stays; raises `Refused` if no accepted content is named."""
    accepted = [each for each in found.sources if each.startswith(("wiki:", "sl:"))]
    if not accepted:
        raise Refused(
            "one of the statements must be accepted content: a page (`wiki:<key>`) or a definition "
            "(`sl:<connection>/<source>`)"
        )
    for each in accepted:
        kind, _, name = each.partition(":")
        session.pending.made_good(f"wiki:{name.rpartition('/')[2]}" if kind == "wiki" else each)
        session.pending.made_good(each.rpartition(".")[0] if kind == "sl" and "." in name else each)


def checked_source(session: ToolSession, named: str) -> str:
    """Return a source as it is recorded; raises `Refused`, with the existing sources, if it does not exist."""
    text = named.strip()
    kind, _, name = text.partition(":")
    if text == DATA:
        if not session.connections:
            raise Refused("this task has no database, so `data` cannot be a source")
        return DATA
    if text == TEXT and session.accepted is not None:
        return TEXT
    if kind == "wiki":
        return _page(session, name)
    if kind == "sl":
        return _definition(session, name.partition("#")[0].strip())
    return _raw_file(session, text)


def _page(session: ToolSession, name: str) -> str:
    tree = session.workspace if session.accepted is None else session.accepted
    key = name.partition("#")[0].strip().rpartition("/")[2]
    if not key or read_page(tree, key, session.scope) is None:
        what = "page" if session.accepted is None else "accepted page"
        raise Refused(f"there is no {what} `{one_line(name, 120)}`; search with wiki_search")
    return f"wiki:{name.partition('#')[0].strip()}"


def _definition(session: ToolSession, name: str) -> str:
    connection, _, rest = name.partition("/")
    if connection not in session.connections:
        known = listing(sorted(session.connections), 20) or "none"
        raise Refused(f"the connection `{one_line(connection, 120)}` is not available here; available: {known}")
    model = session.model(connection)
    if session.accepted is not None:
        model = session.layers.model(session.accepted, connection)
    shown = VisibleModel(model, internal=True)
    sources = {source.name: source for source in shown.sources()}
    if rest in sources:
        return f"sl:{connection}/{rest}"
    outer, _, member = rest.rpartition(".")
    if outer in sources:
        members = _members(shown, sources[outer])
        if member in members:
            return f"sl:{connection}/{rest}"
        near = did_you_mean(member, members)
        advice = f"did you mean `{near}`?" if near else f"it has: {listing(members, 20)}"
        raise Refused(f"`{outer}` has no `{one_line(member, 120)}`; {advice}")
    near = did_you_mean(rest, list(sources))
    advice = f"did you mean `{near}`?" if near else "search with discover_data"
    raise Refused(f"there is no source `{one_line(rest, 120)}` in `{connection}`; {advice}")


def _members(shown: VisibleModel, source: Source) -> list[str]:
    measures = [each.name for each in shown.measures(source)]
    return [*measures, *source.segments, *(each.name for each in shown.columns(source))]


def _raw_file(session: ToolSession, named: str) -> str:
    path = session.known_path(named, session.raw)
    if path is not None:
        return session.full_path(path)
    source, _, rest = named.replace(":", "/", 1).partition("/")
    for connection, inner in ((source, rest), (session.source, named)):
        if inner in session.citable.get(connection, {}):
            return f"{connection}/{inner}"
    meant = did_you_mean(named, list(session.raw))
    advice = f"did you mean `{meant}`?" if meant else f"raw files: {listing(sorted(session.raw), 20) or 'none'}"
    raise Refused(
        f"`{one_line(named, 200)}` is not a source of this task; {advice}; "
        "a page is `wiki:<key>`, a definition `sl:<connection>/<source>[.<measure>]`, queried rows are `data`"
    )


TOOLS: Final = (record_contradiction,)


def contradiction_tool(session: ToolSession) -> RuntimeTool:
    """Return the tool for a loop that has no other tools, such as a repair."""
    return record_contradiction.on(session)
