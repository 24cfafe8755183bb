"""dbt projects in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class DbtConnection(SourceConnection):
    """A dbt project in a folder or a git repository."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["dbt"] = setting(REQUIRED, "dbt.")
    source_dir: str | None = setting(None, "Folder of the dbt project.", path=True, example="dbt")
    repo_url: str | None = setting(
        None,
        "Git URL, for example `git@github.com:acme/dbt.git`, or a local path.",
        path=True,
        example="https://git.example.com/data/dbt.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the dbt project in the repository.", path=True, example="transform")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    profiles_path: str | None = setting(
        None,
        "Path of `profiles.yml`. ktx does not read it because it contains passwords.",
        path=True,
        example="dbt/profiles.yml",
        status="dead",
    )
    target: str | None = setting(None, "Target of the profile, used as `{{ target.name }}`.", example="prod")
    project_name: str | None = setting(
        None, "Name of the project. Defaults to the name in `dbt_project.yml`.", example="shop"
    )


SOURCE = SourceKind(
    driver="dbt",
    settings="ktx_cli.sources.dbt:DbtConnection",
    source="ktx_cli.sources.dbt.source:DbtSource",
    questions=(Question("dir", required=True),),
    noun="dbt project",
    detector="ktx_cli.sources.dbt.source:detect",
)
