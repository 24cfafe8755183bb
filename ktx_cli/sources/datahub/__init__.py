"""DataHub, as its file sink writes its metadata: files in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class DatahubConnection(SourceConnection):
    """Metadata of DataHub that its file sink wrote, in a folder or a git repository."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["datahub"] = setting(REQUIRED, "DataHub.")
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
        "Connection by DataHub platform or platform instance. Null skips its datasets. By default, the datasets of a "
        "platform belong to the connections with that kind of database.",
        example={"postgres": "warehouse"},
    )
    environment: str = setting("PROD", "Environment (`env`) of the datasets to read.", example="PROD")
    restricted_tags: list[str] = setting(
        [],
        "Tags and glossary terms of columns whose values scans must not store, besides those whose names say so, such "
        "as `PII` or `Confidential`.",
        example=["Internal HR"],
    )


SOURCE = SourceKind(
    driver="datahub",
    settings="ktx_cli.sources.datahub:DatahubConnection",
    source="ktx_cli.sources.datahub.source:DatahubSource",
    questions=(Question("dir", required=True),),
    noun="DataHub export",
    detector="ktx_cli.sources.datahub.source:detect",
)
