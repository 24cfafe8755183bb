"""Tableau workbooks and data source files in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class TableauConnection(SourceConnection):
    """Tableau files in a folder or a git repository: `.twb`, `.twbx`, `.tds` and `.tdsx`."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["tableau"] = setting(REQUIRED, "Tableau.")
    source_dir: str | None = setting(None, "Folder of the Tableau files.", path=True, example="tableau")
    repo_url: str | None = setting(
        None,
        "Git URL, for example `git@github.com:acme/workbooks.git`, or a local path.",
        path=True,
        example="https://git.example.com/bi/workbooks.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the Tableau files in the repository.", path=True, example="workbooks")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    database: str | None = setting(
        None,
        "Connection whose tables the files use. Defaults to the connection that has the tables.",
        example="warehouse",
    )


SOURCE = SourceKind(
    driver="tableau",
    settings="ktx_cli.sources.tableau:TableauConnection",
    source="ktx_cli.sources.tableau.source:TableauSource",
    questions=(Question("dir", required=True),),
    noun="Tableau files",
    detector="ktx_cli.sources.tableau.source:detect",
)
