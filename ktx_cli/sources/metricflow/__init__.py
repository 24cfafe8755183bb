"""MetricFlow definitions in a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class MetricFlowRepository(Block):
    """The location of the MetricFlow definitions."""

    repo_url: str = setting(
        REQUIRED,
        "Git URL, for example `git@github.com:acme/metrics.git`, or a local path.",
        alias="repoUrl",
        path=True,
        example="https://git.example.com/data/metrics.git",
        min_length=1,
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the definitions in the repository.", path=True, example="metrics")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")


class MetricFlowConnection(SourceConnection):
    """A git repository with MetricFlow definitions."""

    driver: Literal["metricflow"] = setting(REQUIRED, "MetricFlow.")
    metricflow: MetricFlowRepository = setting(REQUIRED, "Location of the definitions.")


SOURCE = SourceKind(
    driver="metricflow",
    settings="ktx_cli.sources.metricflow:MetricFlowConnection",
    source="ktx_cli.sources.dbt.source:MetricFlowSource",
    questions=(Question("repo", required=True), Question("branch"), Question("folder")),
)
