"""The tool of agents that read a query history: what they say of a raw file, checked against it, written by others."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ktx_cli.context.sources.query_history.evidence import QueryPattern, TableUsage, problems
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.page_names import missing_references
from ktx_cli.context.tools.records import QueryEvidence
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.wiki.secret_texts import secrets
from ktx_cli.core.text import listing
from ktx_cli.llm.tools import ToolOutput


class EmitEvidence(Input):
    """What is said of a raw file."""

    raw_path: str = Field(description="The raw file of this task it is about.")
    evidence: TableUsage | QueryPattern = Field(
        discriminator="kind", description="`table_usage` for a file of a table, `pattern` for a file of patterns."
    )


def _emit(session: ToolSession, value: EmitEvidence) -> ToolOutput:
    if value.raw_path not in session.files:
        raise Refused(f"`{value.raw_path}` is no file of this task; they are: {listing(session.files, 20) or 'none'}")
    found = list(problems(value.evidence, value.raw_path, session.raw[value.raw_path].read()))
    if isinstance(value.evidence, QueryPattern):
        found += missing_references(value.evidence.sl_refs, session.models())
    found += [f"the text holds {each.message}" for each in secrets(value.evidence.narrative)]
    if found:
        raise Refused("\n".join(found[:20]))
    made = QueryEvidence(value.raw_path, value.evidence.model_dump(mode="json"))
    session.records.evidence = [each for each in session.records.evidence if each.subject != made.subject]
    session.records.evidence.append(made)
    return ToolOutput(f"Noted: {made.subject}.", {"success": True, "subject": made.subject})


def _target(session: ToolSession, value: EmitEvidence) -> str:
    return f"evidence:{value.raw_path}"


TOOLS: Final = (
    Tool(
        "emit_historic_sql_evidence",
        "Say what a table is used for, or which question statements of a file ask. Pages are written from it later.",
        EmitEvidence,
        _emit,
        target=_target,
        reads=False,
    ),
)
