"""Power BI models in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class PowerBiConnection(SourceConnection):
    """Power BI models in a folder or a git repository: projects (.pbip), `model.bim` and templates (.pbit)."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["powerbi"] = setting(REQUIRED, "Power BI.")
    source_dir: str | None = setting(None, "Folder of the models.", path=True, example="powerbi")
    repo_url: str | None = setting(
        None,
        "Git URL, for example `git@github.com:acme/reports.git`, or a local path.",
        path=True,
        example="https://git.example.com/bi/reports.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the models in the repository.", path=True, example="models")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")


SOURCE = SourceKind(
    driver="powerbi",
    settings="ktx_cli.sources.powerbi:PowerBiConnection",
    source="ktx_cli.sources.powerbi.source:PowerBiSource",
    questions=(Question("dir", required=True),),
    noun="Power BI model",
    detector="ktx_cli.sources.powerbi.source:detect",
)
