"""The tool that an agent begins with: what a question needs of the project, in one answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ktx_cli.jobs.pack.pack import BUDGET, LEAST_BUDGET, LONGEST_QUESTION, MOST_BUDGET
from ktx_cli.mcp.tool import Call, Connection, Input, Output, User, tool, warning_texts


class AskContext(Input):
    """The question, and how much to read."""

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, description="In the words of who asks.")]
    budget: int = Field(BUDGET, ge=LEAST_BUDGET, le=MOST_BUDGET, description="Tokens of the answer at most.")
    connection: Connection | None = None
    user: User | None = None


class Context(Output):
    """What the question needs."""

    context: str = Field(description="Draft, sources, open decisions, rules, values; `[n]` is the file of a line.")
    sources: list[str] = Field(description="Sources in it, as connection/source, the best first.")
    left_out: int = Field(description="Lines for which there was no room.")


@tool("Context of a question")
def context_pack(call: Call, value: AskContext) -> Context:
    """Begin here. Give the question as it was asked, and get all it needs at once: a draft for sl_query, sources with
    columns, measures and joins, rules of documents and SQL, open decisions, values for filters. Check the draft
    against the rules, then ask with sl_query. Example: {"question": "Net revenue by region in 2025?"}"""
    from ktx_cli.jobs.pack.pack import PackRequest, context_pack

    project = call.project
    config = project.config()
    values = not call.options.privacy and config.scan.privacy != "strict"
    request = PackRequest(value.question, value.budget, value.connection, value.user, values, call.attributes)
    pack = context_pack(project.layout, config, request, searcher=project.searcher(config), load=project.load_layer)
    return Context(
        context=pack.text, sources=list(pack.sources), left_out=pack.left_out, warnings=warning_texts(pack.warnings)
    )
