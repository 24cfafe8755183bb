"""Tableau workbooks and data source files in a folder or a git repository, or on Tableau Server and Tableau Cloud."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind, WebAddress


class TableauConnection(SourceConnection):
    """Tableau workbooks and data sources: files in a folder or a git repository, or the content of a Tableau site."""

    needs_one_of = ("source_dir", "repo_url", "server_url")

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
    server_url: WebAddress | None = setting(
        None, "Address of Tableau Server or Tableau Cloud.", example="https://tableau.example.com"
    )
    site: str = setting(
        "", "Name of the site in its address. Defaults to the default site of a server.", example="acme"
    )
    token_name: str | None = setting(None, "Name of the personal access token.", example="ktx")
    token_secret: str | None = setting(
        None, "Secret of the personal access token.", secret=True, example="env:TABLEAU_TOKEN"
    )
    projects: list[str] = setting(
        [], "Names of the Tableau projects to read. Defaults to all that the token can read.", example=["Finance"]
    )
    max_files: int = setting(500, "Maximum number of files that a run downloads from the site.", ge=1, le=10000)
    database: str | None = setting(
        None,
        "Connection whose tables the files use. Defaults to the connection that has the tables.",
        example="warehouse",
    )


SOURCE = SourceKind(
    driver="tableau",
    settings="ktx_cli.sources.tableau:TableauConnection",
    source="ktx_cli.sources.tableau.source:TableauSource",
    questions=(
        Question("dir", text="Folder of the Tableau files, relative to the project; empty to read a Tableau site"),
        Question("url", required=True, text="Address of Tableau Server or Tableau Cloud", unless="dir"),
        Question("site", unless="dir"),
        Question("user", required=True, text="Name of the personal access token", unless="dir"),
        Question("token-secret", required=True, unless="dir"),
    ),
    noun="Tableau files",
    detector="ktx_cli.sources.tableau.source:detect",
)
