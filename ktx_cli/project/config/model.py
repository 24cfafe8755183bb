"""The complete `ktx.yaml` as one model."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator, PrivateAttr, WithJsonSchema

from ktx_cli.core import UsageError, did_you_mean, listing
from ktx_cli.project.config.base import REQUIRED, Block, setting, wrong
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
from ktx_cli.project.config.serving import Attribute, Serving


def _mount_name(name: str) -> str:
    if not re.fullmatch(ID_PATTERN, name):
        hint = "a name begins with a letter or a digit and contains only letters, digits, `_` and `-`"
        raise wrong("is not a valid mount name", hint=hint)
    return name


MountName = Annotated[str, AfterValidator(_mount_name)]
"""The name of a mounted project. It prefixes the ids of its connections and the keys of its pages."""


class Mcp(Block):
    """The MCP server for agents."""

    user_attributes: dict[str, Attribute] = setting(
        {},
        "Attributes of the caller, used by row policies and masks, for every question from an agent. A server started "
        "with `--user-attribute` uses its own values for the attributes it sets.",
        example={"region": "EU"},
    )


class Setup(Block):
    """What `ktx setup` recorded."""

    database_connection_ids: list[str] = setting(
        [], "The most important databases, by connection id.", example=["my-postgres"]
    )


class GitStorage(Block):
    """How runs commit."""

    author: str | None = setting(
        None,
        "Author of ktx's commits, `Name <address>`. Defaults to git's `user.name` and `user.email`.",
        min_length=1,
        pattern=r"^[^<>\n]*[^<>\s]\s*<[^<>\s]+>\s*$",
        example="ktx <ktx@example.com>",
    )
    auto_commit: Any = setting(None, "Only older versions use this setting; a run now always commits.", status="dead")


SHARED_STORAGE: Final = frozenset({"postgres", "postgres-hybrid"})
"""The values of `storage.state` and `storage.search` that stand for the database of `storage.postgres`."""


LONGEST_SCHEMA: Final = 57
"""Postgres allows 63 characters, and the schema of the queue has a longer name."""

_SCHEMA: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = re.compile(r"public|information_schema|pg_.*", re.IGNORECASE)


def _schema_name(name: str) -> str:
    if not _SCHEMA.fullmatch(name) or len(name) > LONGEST_SCHEMA:
        rule = (
            f"must consist of at most {LONGEST_SCHEMA} letters, digits and underscores, and must not begin with a digit"
        )
        raise wrong(rule, of_value=True)
    if _RESERVED.fullmatch(name):
        raise wrong("must be a schema that only this project uses", of_value=True)
    return name


SchemaName = Annotated[
    str,
    AfterValidator(_schema_name),
    WithJsonSchema({"type": "string", "pattern": rf"^{_SCHEMA.pattern}$", "maxLength": LONGEST_SCHEMA}),
]


class PostgresStorage(Block):
    """The Postgres database that several hosts share. Sessions must be pinned: pool them by session, not statement."""

    url: str = setting(
        REQUIRED,
        "URL of the database. Its user must own the schema, or be allowed to create it. The URL must come from this "
        "machine: `env:NAME`, `keyring:NAME`, or a `file:` that is not part of the project.",
        secret=True,
        example="env:KTX_STATE_URL",
        min_length=1,
    )
    schema_name: SchemaName = setting(
        REQUIRED,
        "Schema that only this project uses, so not `public`: letters, digits and underscores. ktx creates it if it "
        "does not exist.",
        alias="schema",
        example="ktx_sales",
    )


class Storage(Block):
    """Where ktx stores its state."""

    state: Literal["sqlite", "postgres"] = setting(
        "sqlite",
        "Where runs, locks, usage, journals and stored results are. `sqlite`: in a file under `.ktx/`. `postgres`: in "
        "the database of `storage.postgres`, which several hosts share.",
    )
    search: Literal["sqlite-fts5", "postgres", "postgres-hybrid"] = setting(
        "sqlite-fts5",
        "Where the search index is. `sqlite-fts5`: in a file under `.ktx/`. `postgres`: in the database of "
        "`storage.postgres`. `postgres-hybrid` is another name for `postgres`.",
    )
    postgres: PostgresStorage | None = setting(
        None, "The shared database, for `storage.state: postgres` and `storage.search: postgres`."
    )
    git: GitStorage = setting(GitStorage, "How runs commit.")


class RunResearch(Block):
    """The research agent in other versions."""

    enabled: bool = setting(False, "Run the research agent.", status="dead")
    max_iterations: int = setting(20, "Maximum number of turns.", status="dead", ge=0)
    default_toolset: list[str] = setting(
        ["sl_query", "wiki_search", "sl_read_source"], "Tools for the research agent.", status="dead"
    )


class Agent(Block):
    """An agent in other versions."""

    run_research: RunResearch = setting(RunResearch, "The research agent.", status="dead")


class KtxConfig(Block):
    """The settings for one project."""

    setup: Setup = setting(Setup, "What `ktx setup` recorded.")
    connections: dict[
        ConnectionId, Annotated[Connection, PlainValidator(parse_connection), WithJsonSchema({"type": "object"})]
    ] = setting({}, "Databases and context sources, by id.")
    mounts: dict[MountName, Annotated[str, Field(min_length=1)]] = setting(
        {},
        "Other projects that commands and agents can read from here: NAME -> folder with a `ktx.yaml`, "
        "relative to this project. Their connections are `NAME/ID`, their pages `NAME/KEY`.",
        path=True,
        example={"finance": "domains/finance"},
    )
    llm: Llm = setting(Llm, "Models.")
    ingest: Ingest = setting(Ingest, "How runs work.")
    scan: Scan = setting(Scan, "How databases are scanned.")
    semantic: Semantic = setting(
        Semantic, "The semantic layer files, how dates are truncated, and which definitions answers may use."
    )
    mcp: Mcp = setting(Mcp, "The MCP server for agents.")
    serving: Serving = setting(Serving, "Who may use the MCP server.")
    storage: Storage = setting(Storage, "Where ktx stores its state.")
    agent: Agent = setting(Agent, "Only other versions use these settings.", status="dead")
    memory: Any = setting(None, "Documented by other versions, but never used.", status="dead")

    _configured: frozenset[str] | None = PrivateAttr(None)

    @property
    def configured(self) -> Collection[str]:
        """The ids of all connections in the file, even of those that `within` removes."""
        return self.connections.keys() if self._configured is None else self._configured

    def within(self, connections: Collection[str], mounts: Collection[str]) -> KtxConfig:
        """Return these settings as if there were only these connections and mounts."""
        part = self.model_copy(
            update={
                "connections": {name: each for name, each in self.connections.items() if name in connections},
                "mounts": {name: each for name, each in self.mounts.items() if name in mounts},
                "setup": Setup(
                    database_connection_ids=[i for i in self.setup.database_connection_ids if i in connections]
                ),
            }
        )
        part._configured = frozenset(self.configured)
        return part

    def model_post_init(self, context: Any, /) -> None:
        """Set the id of each connection."""
        for connection_id, connection in self.connections.items():
            connection._id = connection_id

    def disabled(self) -> dict[str, DisabledConnection]:
        """Return the connections that cannot be used, by id, in file order."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, DisabledConnection)}

    def usable(self) -> dict[str, Connection]:
        """Return the connections that are not disabled, by id, in file order."""
        return {key: each for key, each in self.connections.items() if not isinstance(each, DisabledConnection)}

    def databases(self) -> dict[str, Database]:
        """Return the connections to databases by id, in file order."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, Database)}

    def sources(self) -> dict[str, SourceConnection]:
        """Return the connections to context sources by id, in file order."""
        return {key: entry for key, entry in self.connections.items() if isinstance(entry, SourceConnection)}


def connection_of(config: KtxConfig, connection: str) -> Connection:
    """Return the usable connection with this id.

    Raises `UsageError` with the closest id if there is none, `ConfigError` if the connection is disabled.
    """
    entry = known_connection(config, connection)
    if isinstance(entry, DisabledConnection):
        raise entry.error()
    return entry


def known_connection(config: KtxConfig, connection: str) -> Connection:
    """Return the connection with this id, even if it is disabled; `UsageError` with the closest id if there is none."""
    entry = config.connections.get(connection)
    mount = connection.partition("/")[0]
    if entry is None and mount in config.mounts:
        message = f"`{connection}` belongs to the mount `{mount}`, but this command only works on a single project"
        hint = f"run it on that project: --project-dir {config.mounts[mount]} (from the folder of this project)"
        raise UsageError(message, hint=hint, details={"mount": mount})
    if entry is None:
        near = did_you_mean(connection, config.connections)
        known = f"connections: {listing(config.connections)}" if config.connections else example_connection(connection)
        message = f"there is no connection `{connection}` in ktx.yaml"
        raise UsageError(message, hint=f"did you mean `{near}`?" if near else known)
    return entry
