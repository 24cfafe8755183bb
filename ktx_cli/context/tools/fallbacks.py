"""The tool that says what of a raw file could not become a source, and why: the report is honest about it."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.discovery import named
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.records import REASONS, Fallback
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.core.text import listing
from ktx_cli.llm.tools import ToolOutput

Reason = Literal[
    "no_connection_mapping",
    "looker_template_unresolved",
    "derived_table_not_supported",
    "no_physical_table",
    "multiple_table_references",
    "unsupported_dialect",
    "parse_error",
    "missing_target_table",
    "cumulative_metric_unsupported",
    "conversion_metric_unsupported",
]
_TABLELESS: Final = ("no_physical_table", "missing_target_table")


class UnmappedFallback(Input):
    """What was not taken over, why, and what was done in its place."""

    raw_path: str = Field(description="The raw file it stands in.")
    reason: Reason = Field(description="Why it did not become a source.")
    fallback: Literal["sql_standalone", "wiki_only", "flagged"] = Field(
        description="In its place: a source with `sql`, a wiki page, or nothing but this note."
    )
    table_ref: str | None = Field(None, max_length=300, description="The table or source it is about.")
    clarification: str | None = Field(None, max_length=500, description="One sentence more, where that helps.")


def _emit(session: ToolSession, value: UnmappedFallback) -> ToolOutput:
    if value.raw_path not in session.files:
        raise Refused(f"`{value.raw_path}` is no file of this task; they are: {listing(session.files, 20) or 'none'}")
    if value.reason in _TABLELESS and value.table_ref is not None:
        found = [
            f"{connection}: {source.name}"
            for connection in sorted(session.connections)
            for source in named(session.shown(connection), value.table_ref)
        ]
        if found:
            raise Refused(f"`{value.table_ref}` is there: {listing(found)}; look at it with entity_details and use it")
    made = Fallback(
        value.raw_path, value.reason, value.fallback, REASONS[value.reason], value.table_ref, value.clarification
    )
    same = [(each.raw_path, each.reason, each.fallback, each.table_ref) for each in session.records.fallbacks]
    session.pending.fell_back(value.table_ref)
    if (made.raw_path, made.reason, made.fallback, made.table_ref) not in same:
        session.records.fallbacks.append(made)
    return ToolOutput(f"Noted for {value.raw_path}: {made.detail}.", {"success": True})


TOOLS: Final = (
    Tool(
        "emit_unmapped_fallback",
        "Note that something of a raw file did not become a source, and why. Once for a file, a reason and a table.",
        UnmappedFallback,
        _emit,
        reads=False,
    ),
)
