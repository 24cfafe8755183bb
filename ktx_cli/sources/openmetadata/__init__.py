"""OpenMetadata, as its API and its file sink write its entities: files in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class OpenmetadataConnection(SourceConnection):
    """Entities of OpenMetadata as JSON or CSV, in a folder or a git repository."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["openmetadata"] = setting(REQUIRED, "OpenMetadata.")
    source_dir: str | None = setting(None, "Folder of the exports.", path=True, example="catalog")
    repo_url: str | None = setting(
        None,
        "Git URL, for example `git@github.com:acme/catalog.git`, or a local path.",
        path=True,
        example="https://git.example.com/data/catalog.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the exports in the repository.", path=True, example="exports")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    databases: dict[str, str | None] = setting(
        {},
        "Connection by database service or type of service. Null skips its tables. By default, the tables of a service "
        "belong to the connections with that kind of database.",
        example={"postgres_prod": "warehouse"},
    )
    restricted_tags: list[str] = setting(
        [],
        "Tags and glossary terms of columns whose values scans must not store, besides those whose names say so, such "
        "as `PII.Sensitive`.",
        example=["Classification.InternalHR"],
    )


SOURCE = SourceKind(
    driver="openmetadata",
    settings="ktx_cli.sources.openmetadata:OpenmetadataConnection",
    source="ktx_cli.sources.openmetadata.source:OpenmetadataSource",
    questions=(Question("dir", required=True),),
    noun="OpenMetadata export",
    detector="ktx_cli.sources.openmetadata.source:detect",
)
