"""LookML in a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class LookMlMappings(Block):
    """The Looker settings of the project."""

    expected_looker_connection_name: str | None = setting(
        None,
        "Looker name of the connection that the models use.",
        alias="expectedLookerConnectionName",
        example="looker_dwh",
    )


class LookMlConnection(SourceConnection):
    """A git repository with LookML."""

    driver: Literal["lookml"] = setting(REQUIRED, "LookML.")
    repo_url: str = setting(
        REQUIRED,
        "Git URL, for example `git@github.com:acme/looker.git`, or a local path.",
        alias="repoUrl",
        path=True,
        example="https://git.example.com/bi/lookml.git",
        min_length=1,
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the LookML project in the repository.", path=True, example="models")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    mappings: LookMlMappings = setting(LookMlMappings, "Looker settings of the project.")


SOURCE = SourceKind(
    driver="lookml",
    settings="ktx_cli.sources.lookml:LookMlConnection",
    source="ktx_cli.sources.lookml.source:LookMlSource",
    questions=(Question("repo", required=True), Question("branch"), Question("folder")),
    noun="LookML",
    detector="ktx_cli.sources.lookml.source:detect",
)
