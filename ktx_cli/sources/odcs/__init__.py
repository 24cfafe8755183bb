"""Data contracts in the Open Data Contract Standard (ODCS), in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind


class OdcsConnection(SourceConnection):
    """Data contracts in the Open Data Contract Standard (v3 and v2.2), in a folder or a git repository."""

    needs_one_of = ("source_dir", "repo_url")

    driver: Literal["odcs"] = setting(REQUIRED, "Open Data Contract Standard.")
    source_dir: str | None = setting(None, "Folder of the contracts.", path=True, example="contracts")
    repo_url: str | None = setting(
        None,
        "Git URL, for example `git@github.com:acme/contracts.git`, or a local path.",
        path=True,
        example="https://git.example.com/data/contracts.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    path: str | None = setting(None, "Folder of the contracts in the repository.", path=True, example="contracts")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    database: str | None = setting(
        None,
        "Connection whose tables the contracts describe. Defaults to the connection that has the tables.",
        example="warehouse",
    )


SOURCE = SourceKind(
    driver="odcs",
    settings="ktx_cli.sources.odcs:OdcsConnection",
    source="ktx_cli.sources.odcs.source:OdcsSource",
    questions=(Question("dir", required=True),),
    noun="data contracts",
    detector="ktx_cli.sources.odcs.source:detect",
)
