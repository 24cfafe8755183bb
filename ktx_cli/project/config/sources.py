"""Connections to context sources: BI tools, dbt, documents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from ktx_cli.project.config.base import REFERENCE_PATTERN, REQUIRED, Block, checked, setting, wrong
from ktx_cli.project.config.connections import Source
from ktx_cli.project.secrets import is_reference

_GIT_TOKEN: Final = "Token for a private repository, as a secret reference."


def _is_web_address(value: str) -> bool:
    return is_reference(value) or re.match(r"https?://[^/\s]+", value) is not None


WebAddress = Annotated[
    str,
    checked(
        _is_web_address, "must be a URL that begins with https:// or http://", hint="for example https://bi.example.com"
    ),
    WithJsonSchema({"type": "string", "pattern": f"^(?:https?://|{REFERENCE_PATTERN})"}),
]


class MetabaseSelections(Block):
    """What of Metabase is read."""

    collections: list[Any] = setting([], "Collections, by id; `root`: those in no other.")
    items: list[Any] = setting([], "Cards and dashboards: `12`, `card:12`, `dashboard:12`.")


def _database_ids(value: Any) -> Any:
    if isinstance(value, dict) and not all(re.fullmatch(r"[1-9][0-9]*", str(key)) for key in value):
        raise wrong("must have database ids of Metabase (whole numbers from 1) as keys")
    return value


class MetabaseMappings(Block):
    """Which database of Metabase is which connection, and what is read."""

    database_mappings: Annotated[
        dict[str, str | None],
        BeforeValidator(_database_ids),
        WithJsonSchema(
            {
                "type": "object",
                "propertyNames": {"pattern": "^[1-9][0-9]*$"},
                "additionalProperties": {"type": ["string", "null"]},
            }
        ),
    ] = setting(
        {},
        "Connection by database id of Metabase; null: not read.",
        alias="databaseMappings",
        example={"1": "warehouse"},
    )
    sync_enabled: Any = setting(
        None, "Whether to read, by database id of Metabase.", alias="syncEnabled", example={"1": True}
    )
    sync_mode: str = setting("ALL", "`ALL`, `ONLY` the selections, or all `EXCEPT` them.", alias="syncMode")
    selections: MetabaseSelections = setting(MetabaseSelections, "What is read.")
    default_tag_names: list[str] = setting([], "Tags given to what comes from here.", alias="defaultTagNames")


class MetabaseSource(Source):
    """Metabase."""

    driver: Literal["metabase"] = setting(REQUIRED, "Metabase.")
    api_url: WebAddress = setting(REQUIRED, "Address of Metabase.", example="https://metabase.example.com")
    api_key: str | None = setting(None, "API key.", secret=True, example="env:METABASE_API_KEY")
    api_key_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:METABASE_API_KEY"
    )
    network_proxy: Any = setting(None, "Proxy on the way to Metabase.", example="http://proxy.example.com:3128")
    mappings: MetabaseMappings = setting(MetabaseMappings, "Its databases, and what is read.")


class LookerMappings(Block):
    """Which connection of Looker is which connection here."""

    connection_mappings: dict[str, str | None] = setting(
        {},
        "Connection by Looker's name; null: not read.",
        alias="connectionMappings",
        example={"looker_dwh": "warehouse"},
    )


class LookerSource(Source):
    """A Looker instance, over its API."""

    driver: Literal["looker"] = setting(REQUIRED, "Looker.")
    base_url: WebAddress = setting(REQUIRED, "Address of Looker.", example="https://looker.example.com")
    client_id: str = setting(REQUIRED, "Client id of the API key.", example="env:LOOKER_CLIENT_ID", min_length=1)
    client_secret: str | None = setting(
        None, "Client secret of the API key.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    client_secret_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    mappings: LookerMappings = setting(LookerMappings, "Its connections.")


class LookMlMappings(Block):
    """What the project says about Looker."""

    expected_looker_connection_name: str | None = setting(
        None,
        "Looker's name of the connection its models use.",
        alias="expectedLookerConnectionName",
        example="looker_dwh",
    )


class LookMlSource(Source):
    """A repository of LookML."""

    driver: Literal["lookml"] = setting(REQUIRED, "LookML.")
    repo_url: str = setting(
        REQUIRED,
        "Git URL, `git@host:org/repo.git` or a local path.",
        alias="repoUrl",
        path=True,
        example="https://git.example.com/bi/lookml.git",
        min_length=1,
    )
    branch: str | None = setting(None, "Branch. Without it: the repository's own.", example="main")
    path: str | None = setting(None, "Folder in the repository.", path=True, example="models")
    auth_token_ref: str | None = setting(None, _GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    mappings: LookMlMappings = setting(LookMlMappings, "What the project says about Looker.")


class DbtSource(Source):
    """A dbt project: a folder, or a repository."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["dbt"] = setting(REQUIRED, "dbt.")
    source_dir: str | None = setting(None, "Folder of the dbt project.", path=True, example="dbt")
    repo_url: str | None = setting(
        None,
        "Git URL, `git@host:org/repo.git` or a local path.",
        path=True,
        example="https://git.example.com/data/dbt.git",
    )
    branch: str | None = setting(None, "Branch. Without it: the repository's own.", example="main")
    path: str | None = setting(None, "Folder in the repository.", path=True, example="transform")
    auth_token_ref: str | None = setting(None, _GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    profiles_path: str | None = setting(
        None,
        "The `profiles.yml`, which ktx does not read: it holds passwords.",
        path=True,
        example="dbt/profiles.yml",
        status="dead",
    )
    target: str | None = setting(None, "Target of the profile: what `{{ target.name }}` is.", example="prod")
    project_name: str | None = setting(
        None, "Name of the project, where it is not that of `dbt_project.yml`.", example="shop"
    )


class MetricFlowRepository(Block):
    """Where the MetricFlow definitions are."""

    repo_url: str = setting(
        REQUIRED,
        "Git URL, `git@host:org/repo.git` or a local path.",
        alias="repoUrl",
        path=True,
        example="https://git.example.com/data/metrics.git",
        min_length=1,
    )
    branch: str | None = setting(None, "Branch. Without it: the repository's own.", example="main")
    path: str | None = setting(None, "Folder in the repository.", path=True, example="metrics")
    auth_token_ref: str | None = setting(None, _GIT_TOKEN, secret=True, example="env:GIT_TOKEN")


class MetricFlowSource(Source):
    """A repository of MetricFlow definitions."""

    driver: Literal["metricflow"] = setting(REQUIRED, "MetricFlow.")
    metricflow: MetricFlowRepository = setting(REQUIRED, "Where the definitions are.")


def _creates() -> Any:
    return setting(25, "Most wiki pages a run may create from here; candidates beyond that wait.", ge=0, le=25)


def _updates() -> Any:
    return setting(20, "Most wiki pages a run may change from here; candidates beyond that wait.", ge=0, le=100)


def _older(limit: str, **limits: Any) -> Any:
    return setting(None, f"The same as `{limit}`, as the TypeScript ktx names it.", **limits)


class NotionSource(Source):
    """A Notion workspace."""

    driver: Literal["notion"] = setting(REQUIRED, "Notion.")
    auth_token: str | None = setting(None, "Token of the integration.", secret=True, example="env:NOTION_TOKEN")
    auth_token_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:NOTION_TOKEN"
    )
    crawl_mode: Literal["selected_roots", "all_accessible"] = setting(
        "selected_roots", "What is read: the roots named here and what is below, or all the token sees."
    )
    base_url: WebAddress | None = setting(
        None, "Address of the API. Without it: Notion's own.", example="https://api.notion.com"
    )
    root_page_ids: list[str] = setting([], "Pages to begin with, by id.", example=["0123456789abcdef0123456789abcdef"])
    root_database_ids: list[str] = setting([], "Databases to begin with, by id.")
    root_data_source_ids: list[str] = setting([], "Data sources to begin with, by id.")
    max_pages: int = setting(1000, "Most pages of a run.", ge=1, le=10000)
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()
    max_pages_per_run: int | None = _older("max_pages", ge=1, le=10000)
    max_knowledge_creates_per_run: int | None = _older("max_knowledge_creates", ge=0, le=25)
    max_knowledge_updates_per_run: int | None = _older("max_knowledge_updates", ge=0, le=100)


class ConfluenceSource(Source):
    """A Confluence site."""

    driver: Literal["confluence"] = setting(REQUIRED, "Confluence.")
    base_url: WebAddress = setting(REQUIRED, "Address of the site.", example="https://example.atlassian.net/wiki")
    email: str | None = setting(None, "Account of the API token.", example="ktx@example.com")
    api_token: str | None = setting(None, "API token.", secret=True, example="env:CONFLUENCE_TOKEN")
    space_keys: list[str] = setting([], "Spaces to read; empty: all the token sees.", example=["DATA"])
    max_pages: int = setting(1000, "Most pages of a run.", ge=1, le=10000)
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()


class DocumentsSource(Source):
    """A folder of documents: Markdown, HTML, PDF, text and SQL files."""

    driver: Literal["documents"] = setting(REQUIRED, "A folder of documents.")
    path: str = setting(
        REQUIRED, "Folder, relative to the project; `~` works.", path=True, example="handbook", min_length=1
    )
    repo_url: str | None = setting(
        None,
        "Git URL, `git@host:org/repo.git` or a local path; `path` is then a folder in it, `.` its root.",
        path=True,
        example="https://git.example.com/docs/handbook.git",
    )
    branch: str | None = setting(None, "Branch. Without it: the repository's own.", example="main")
    auth_token_ref: str | None = setting(
        None, "Token for a private repository, as a secret reference.", secret=True, example="env:GIT_TOKEN"
    )
    max_knowledge_creates: int = _creates()
    max_knowledge_updates: int = _updates()
