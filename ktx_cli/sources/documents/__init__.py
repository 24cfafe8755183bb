"""Documents in a folder or a git repository."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import GIT_TOKEN, SourceKind, page_creates, page_updates


class DocumentsConnection(SourceConnection):
    """A folder of documents: Markdown, HTML, PDF, text and SQL files."""

    driver: Literal["documents"] = setting(REQUIRED, "Documents in a folder or a git repository.")
    path: str = setting(
        REQUIRED,
        "Folder with the documents, relative to the project folder; `~` is expanded.",
        path=True,
        example="handbook",
        min_length=1,
    )
    repo_url: str | None = setting(
        None,
        "Git URL or local path of a repository. `path` is then a folder in it; `.` is its root.",
        path=True,
        example="https://git.example.com/docs/handbook.git",
    )
    branch: str | None = setting(None, "Branch to read. Defaults to the repository's default branch.", example="main")
    auth_token_ref: str | None = setting(None, GIT_TOKEN, secret=True, example="env:GIT_TOKEN")
    max_knowledge_creates: int = page_creates()
    max_knowledge_updates: int = page_updates()


SOURCE = SourceKind(
    driver="documents",
    settings="ktx_cli.sources.documents:DocumentsConnection",
    source="ktx_cli.sources.documents.source:DocumentsSource",
    kind="files",
    documents=True,
    questions=(Question("dir", required=True),),
    detector="ktx_cli.sources.documents.source:detect",
)
