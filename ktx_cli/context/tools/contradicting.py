"""The tool of a capture whose text contradicts what is accepted: both are recorded for a person, nothing is changed."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.records import Conflict, page_artifact
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.wiki.keys import scopes_seen_from
from ktx_cli.context.wiki.loading import own_page
from ktx_cli.core.text import one_line
from ktx_cli.llm.tools import ToolOutput
from ktx_cli.project.tree import Tree

NAME: Final = "memory_conflict"
_LONGEST: Final = 1_000


class MemoryConflict(Input):
    """What stands, what the text says in its place, and why both cannot be right."""

    artifact: str = Field(max_length=300, description="`wiki:<key>` or `sl:<connection>/<source>`.")
    accepted: str = Field(min_length=1, max_length=_LONGEST, description="What is accepted, in its own words.")
    captured: str = Field(min_length=1, max_length=_LONGEST, description="What the text says in place of it.")
    why: str = Field(min_length=1, max_length=_LONGEST, description="Why both cannot be right.")


def _record(session: ToolSession, value: MemoryConflict) -> ToolOutput:
    artifact = value.artifact.partition("#")[0].strip()
    if session.accepted is not None and not _is_accepted(session, session.accepted, artifact):
        raise Refused(f"nothing accepted is called `{one_line(artifact, 120)}`; look with discover_data")
    kind = "definitional_contradiction"
    made = Conflict(kind, artifact, value.why, True, accepted=value.accepted, captured=value.captured)
    if made not in session.records.conflicts:
        session.records.conflicts.append(made)
    for target in {artifact, f"wiki:{artifact.rpartition('/')[2].removeprefix('wiki:')}"}:
        session.pending.made_good(target)
    return ToolOutput(f"Recorded: {artifact} stays as it is, a person will look at it.", {"success": True})


def _is_accepted(session: ToolSession, accepted: Tree, artifact: str) -> bool:
    kind, _, name = artifact.partition(":")
    if kind == "wiki":
        places = [each for each in scopes_seen_from(session.scope) if name in _names(each, name)]
        return any(own_page(accepted, name.rpartition("/")[2], scope) is not None for scope in places)
    connection, _, source = name.partition("/")
    return connection in session.connections and source in session.layers.model(accepted, connection).sources


def _names(scope: str, name: str) -> tuple[str, str]:
    """Return how a page of a scope may be called: as its artifact is, and by its key alone."""
    key = name.rpartition("/")[2]
    return page_artifact(scope, key).removeprefix("wiki:"), key


TOOLS: Final = (
    Tool(
        NAME,
        "Record that the text contradicts what is accepted. What is accepted stays; a person decides.",
        MemoryConflict,
        _record,
        reads=False,
    ),
)
