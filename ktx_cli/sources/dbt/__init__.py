"""dbt projects: a folder, or a repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class DbtConnection(SourceConnection):
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
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
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


SOURCE = SourceKind(
    driver="dbt",
    settings="ktx_cli.sources.dbt:DbtConnection",
    source="ktx_cli.sources.dbt.source:DbtSource",
    questions=(Question("dir", required=True),),
    noun="dbt project",
    detector="ktx_cli.sources.dbt.source:detect",
)
