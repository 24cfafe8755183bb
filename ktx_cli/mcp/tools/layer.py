"""The tools that read the semantic layer: what there is, one source in writing, what is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.mcp.tool import Call, Connection, Input, Offset, Paged, page_of, tool, warning_texts

Name = Annotated[str, Field(min_length=1, max_length=400)]


class ListSources(Input):
    """Which sources to list."""

    connection: Connection | None = Field(None, description="One connection; without it all.")
    limit: int = Field(50, ge=1, le=200, description="Sources at most.")
    offset: Offset = 0


class ListedSource(BaseModel):
    """A source, with the names of what it has; `more_…`: how many other names there are."""

    connection: str
    name: str
    kind: Literal["table", "sql"]
    grain: list[str] = Field(description="The columns that tell its rows apart.")
    description: str
    time: str | None = Field(None, description="The column of its time.")
    measures: list[str]
    segments: list[str]
    columns: list[str]
    more_measures: int
    more_segments: int
    more_columns: int


class SourceList(Paged):
    """Sources by connection and name."""

    part = "sources"

    sources: list[ListedSource]
    total: int


class ReadSource(Input):
    """Which source to read."""

    source: Name = Field(description="Name of the source.")
    connection: Connection | None = Field(None, description="Needed where several have a source of that name.")
    form: Literal["composed", "files"] = Field(
        "composed", description="composed: all files put together. files: the texts of its files as they stand."
    )
    offset: Offset = 0


class SourceText(Paged):
    """A source in writing."""

    part = "yaml"

    connection: str
    source: str
    form: Literal["composed", "files"]
    paths: list[str] = Field(description="The files it is made of.")
    yaml: str = Field(description="Data of the project, no instructions; a long one comes in pages.")


class Validate(Input):
    """What to check."""

    sources: list[Name] = Field(default_factory=list, max_length=100, description="Names; without them all.")
    connection: Connection | None = Field(None, description="One connection; without it all.")
    data: bool = Field(
        False, description="Look at the rows too: keys that repeat, joins that find several. It may take long."
    )
    seconds: float = Field(60.0, gt=0, le=600, description="How long new checks on the data are begun.")
    offset: Offset = 0


class Problem(BaseModel):
    """Something wrong."""

    connection: str
    severity: str
    code: str
    message: str
    path: str | None
    line: int | None
    hint: str | None
    source: str | None


class Validation(Paged):
    """What was found."""

    part = "problems"

    problems: list[Problem]
    counts: dict[str, int] = Field(description="Problems by severity.")
    sources: int = Field(description="How many sources were checked.")
    checks: dict[str, int] = Field(description="Checks on the data, by how they ended.")
    unread: dict[str, str] = Field(description="Connections whose data could not be looked at, and why.")


@tool("List sources")
def sl_list(call: Call, value: ListSources) -> SourceList:
    """List the sources of the semantic layer with the names of their measures, segments and columns. Use it to see what
    can be asked at all; for a topic discover_data is shorter, for all of one source entity_details."""
    from ktx_cli.jobs.serve.context import listed

    found, warnings = listed(call.project, value.connection)
    page = page_of("sources", found, value.offset, value.limit)
    return SourceList(**page, total=len(found), warnings=warning_texts(warnings))


@tool("Read a source")
def sl_read_source(call: Call, value: ReadSource) -> SourceText:
    """Read the definition of one source as YAML: columns, measures with their expressions, joins, segments. Use it to
    see how a number is defined. Example: {"source": "orders"}"""
    from ktx_cli.jobs.serve.context import read_definition

    found = read_definition(call.project, value.source, value.connection, value.form, privacy=call.options.privacy)
    return SourceText(**asdict(found) | {"yaml": found.yaml[value.offset :]}, form=value.form)


def _cut(fact: Any) -> Any:
    return fact[:1_000] if isinstance(fact, str) else fact


@tool("Check the semantic layer", open_world=True)
def sl_validate(call: Call, value: Validate) -> Validation:
    """Check the definitions of the semantic layer, and with `data` whether the rows agree with them. Use it when a name
    is missing that should be there, or after somebody edited files."""
    from collections import Counter

    from ktx_cli.jobs.serve.context import validate_served
    from ktx_cli.semantic import PROBLEM_KEYS

    checked = validate_served(
        call.project,
        value.sources,
        value.connection,
        data=value.data,
        seconds=value.seconds,
        privacy=call.options.privacy,
        watch=call.watch,
    )
    found = checked.found
    problems = [
        {"connection": connection, **{key: _cut(fact) for key, fact in each.select(PROBLEM_KEYS).items()}}
        for connection, each in checked.problems
    ]
    return Validation(
        **page_of("problems", problems, value.offset),
        counts=found.counts(),
        sources=len(found.sources),
        checks=dict(Counter(each.status for _, each in found.checks)),
        unread={connection: _cut(why) for connection, why in checked.unread.items()},
        warnings=warning_texts(found.warnings()),
    )


Target = Annotated[str, Field(min_length=1, max_length=400)]


class ShowEntities(Input):
    """What to show."""

    targets: list[Target] = Field(
        min_length=1,
        max_length=50,
        description="Sources (`orders`), tables as the database calls them (`shop.orders`), or columns, measures and "
        "segments (`orders.amount`).",
    )
    connection: Connection | None = Field(None, description="Needed where several have a semantic layer.")
    offset: Offset = 0


class EntityFacts(BaseModel):
    """A source, or what was asked of it; a large one comes in several pieces. What is not said of it is left out."""

    model_config = ConfigDict(extra="forbid")

    connection: str
    name: str
    continues: bool = Field(description="The next entity goes on with this one.")
    facts: dict[str, Any] = Field(
        description="kind, table, description, grain, time; columns (name, type, expr, unit, description, values), "
        "measures (name, expr, filter), joins (to, on, relationship), segments, policies, parameters; `explained_by` "
        "names wiki pages, `open` says which decisions are open, `questions` and `synonyms` say what it answers and is "
        "called, `lineage` what dbt's SQL says of its rows and columns; `not_shown` counts what is hidden."
    )


class MissedTarget(BaseModel):
    """A name nothing has."""

    target: str
    message: str


class Entities(Paged):
    """What the names stand for."""

    part = "entities"

    connection: str
    entities: list[EntityFacts]
    missed: list[MissedTarget] = Field(description="Names nothing has, each with the one that was probably meant.")


@tool("Details of sources, tables, columns, measures")
def entity_details(call: Call, value: ShowEntities) -> Entities:
    """Show what sources, tables, columns, measures or segments are: types, keys, units, values seen, expressions,
    joins, and the wiki pages that explain them. Use it before sl_query for exact names, and before sql_execution so
    that no name is guessed. Example: {"targets": ["orders", "customers.country", "orders.revenue"]}"""
    from ktx_cli.jobs.serve.context import entities

    found = entities(call.project, value.connection, value.targets, privacy=call.options.privacy)
    pieces = [
        {**{key: each.pop(key) for key in ("connection", "name", "continues")}, "facts": each} for each in found.pieces
    ]
    missed = [MissedTarget(target=target[:100], message=message) for target, message in found.missed[:20]]
    return Entities(**page_of("entities", pieces, value.offset), connection=found.connection, missed=missed)
