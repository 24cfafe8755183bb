"""The whole of `ktx.yaml` as one model."""

from __future__ import annotations

import re
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from ktx_cli.core import UsageError, did_you_mean, listing
from ktx_cli.project.config.base import Block, setting, wrong
from ktx_cli.project.config.blocks import Ingest, Llm, Scan, Semantic
from ktx_cli.project.config.connections import (
    ID_PATTERN,
    Connection,
    ConnectionId,
    Database,
    DisabledConnection,
    SourceConnection,
    example_connection,
    parse_connection,
)


def _mount_name(name: str) -> str:
    if not re.fullmatch(ID_PATTERN, name):
        hint = "a name begins with a letter or a digit and has only letters, digits, `_` and `-`"
        raise wrong("is not a name of a mount", hint=hint)
    return name


MountName = Annotated[str, AfterValidator(_mount_name)]
"""The name of a mounted project: it stands in front of the ids of its connections and the keys of its pages."""


def _attribute(value: Any) -> Any:
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise wrong("must be a text, a number or a boolean", of_value=True)


Attribute = Annotated[
    str | int | float | bool, PlainValidator(_attribute), WithJsonSchema({"type": ["string", "number", "boolean"]})
]


class Mcp(Block):
    """The server for agents."""

    user_attributes: dict[str, Attribute] = setting(
        {},
        "Attributes of the caller, used by row policies, for every question of an agent. A server that was started with"
        " `--user-attribute` uses its own value of the attributes it names.",
        example={"region": "EU"},
    )


class Setup(Block):
    """What `ktx setup` chose."""

    database_connection_ids: list[str] = setting(
        [], "The databases that matter most, by connection id.", example=["my-postgres"]
    )


class GitStorage(Block):
    """How runs commit."""

    author: str | None = setting(
        None,
        "Author of ktx's commits, `Name <address>`. Without it: git's own `user.name` and `user.email`.",
        min_length=1,
        pattern=r"^[^<>\n]*[^<>\s]\s*<[^<>\s]+>\s*$",
        example="ktx <ktx@example.com>",
    )
    auto_commit: Any = setting(None, "Of older versions: a run always commits.", status="dead")


class Storage(Block):
    """Where ktx keeps what it knows."""

    state: Literal["sqlite", "postgres"] = setting(
        "sqlite", "Of other versions: the state is always a SQLite file under `.ktx/`.", status="dead"
    )
    search: Literal["sqlite-fts5", "postgres-hybrid"] = setting(
        "sqlite-fts5", "Of other versions: the search index is always in the state database.", status="dead"
    )
    git: GitStorage = setting(GitStorage, "How runs commit.")


class RunResearch(Block):
    """The research agent of other versions."""

    enabled: bool = setting(False, "Run it.", status="dead")
    max_iterations: int = setting(20, "Its turns.", status="dead", ge=0)
    default_toolset: list[str] = setting(["sl_query", "wiki_search", "sl_read_source"], "Its tools.", status="dead")


class Agent(Block):
    """An agent of other versions."""

    run_research: RunResearch = setting(RunResearch, "The research agent.", status="dead")


class KtxConfig(Block):
    """The settings of one project."""

    setup: Setup = setting(Setup, "What `ktx setup` chose.")
    connections: dict[
        ConnectionId, Annotated[Connection, PlainValidator(parse_connection), WithJsonSchema({"type": "object"})]
    ] = setting({}, "Databases and context sources, by id.")
    mounts: dict[MountName, Annotated[str, Field(min_length=1)]] = setting(
        {},
        "Other projects that commands and agents read here too: name -> folder with a `ktx.yaml`, relative to this"
        " project. Their connections are `NAME/ID`, their pages `NAME/KEY`.",
        path=True,
        example={"finance": "domains/finance"},
    )
    llm: Llm = setting(Llm, "Models.")
    ingest: Ingest = setting(Ingest, "How a run works.")
    scan: Scan = setting(Scan, "How databases are read.")
    semantic: Semantic = setting(Semantic, "How questions to the semantic layer cut time.")
    mcp: Mcp = setting(Mcp, "The server for agents.")
    storage: Storage = setting(Storage, "Where ktx keeps what it knows.")
    agent: Agent = setting(Agent, "Of other versions.", status="dead")
    memory: Any = setting(None, "Of other versions, where it was documented and never read.", status="dead")

    def model_post_init(self, context: Any, /) -> None:
        """Tell each connection its id."""
        for connection_id, connection in self.connections.items():
            connection._id = connection_id

    def disabled(self) -> dict[str, DisabledConnection]:
        """Return the connections that cannot be used, by id, as ordered in the file."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, DisabledConnection)}

    def usable(self) -> dict[str, Connection]:
        """Return the connections that are not disabled, by id, as ordered in the file."""
        return {key: each for key, each in self.connections.items() if not isinstance(each, DisabledConnection)}

    def databases(self) -> dict[str, Database]:
        """Return the connections to databases by id, as ordered in the file."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, Database)}

    def sources(self) -> dict[str, SourceConnection]:
        """Return the connections to context sources by id, as ordered in the file."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, SourceConnection)}


def connection_of(config: KtxConfig, connection: str) -> Connection:
    """Return the usable connection with this id.

    Raises `UsageError` with the nearest id when there is none, `ConfigError` when it is disabled.
    """
    entry = known_connection(config, connection)
    if isinstance(entry, DisabledConnection):
        raise entry.error()
    return entry


def known_connection(config: KtxConfig, connection: str) -> Connection:
    """Return the connection with this id, a disabled one too; `UsageError` with the nearest id when there is none."""
    entry = config.connections.get(connection)
    mount = connection.partition("/")[0]
    if entry is None and mount in config.mounts:
        message = f"`{connection}` belongs to the mount `{mount}`, and this command works on one project alone"
        hint = f"run it on that project: --project-dir {config.mounts[mount]} (from the folder of this project)"
        raise UsageError(message, hint=hint, details={"mount": mount})
    if entry is None:
        near = did_you_mean(connection, config.connections)
        known = f"known: {listing(config.connections)}" if config.connections else example_connection(connection)
        message = f"there is no connection `{connection}` in ktx.yaml"
        raise UsageError(message, hint=f"did you mean `{near}`?" if near else known)
    return entry
