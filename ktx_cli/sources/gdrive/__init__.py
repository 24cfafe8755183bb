"""Google Drive, read through its API: Docs, Sheets, Slides, PDF and text files."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress, page_creates, page_updates


class GoogleDriveConnection(SourceConnection):
    """Folders or shared drives in Google Drive."""

    needs_one_of = ("folder_ids", "folder_id", "drive_ids")

    driver: Literal["gdrive"] = setting(REQUIRED, "Google Drive.")
    folder_ids: list[str] = setting(
        [], "IDs or addresses of the folders to read, with everything below them.", example=["0AbCdEfGhIjKlUk9PVA"]
    )
    folder_id: str | None = setting(
        None, "A single folder to read, as in the TypeScript ktx.", example="0AbCdEfGhIjKlUk9PVA"
    )
    recursive: bool | None = setting(
        None,
        "Whether to read the folders below as well. Defaults to true, except with `folder_id` alone.",
        example=True,
    )
    drive_ids: list[str] = setting([], "IDs of the shared drives to read.", example=["0AbCdEfGhIjKlUk9PVA"])
    credentials_json: str | None = setting(
        None, "Service account key (JSON).", secret=True, example="file:~/keys/drive.json"
    )
    service_account_key_ref: str | None = setting(
        None, "Alias of `credentials_json` from the TypeScript ktx.", secret=True, example="file:~/keys/drive.json"
    )
    subject: str | None = setting(
        None, "User that the service account acts for, with domain-wide delegation.", example="ktx@example.com"
    )
    client_id: str | None = setting(
        None,
        "OAuth client ID, for a refresh token instead of a service account.",
        example="123-abc.apps.googleusercontent.com",
    )
    client_secret: str | None = setting(None, "OAuth client secret.", secret=True, example="env:GOOGLE_CLIENT_SECRET")
    refresh_token: str | None = setting(
        None, "OAuth refresh token with the scope drive.readonly.", secret=True, example="env:GOOGLE_REFRESH_TOKEN"
    )
    base_url: WebAddress | None = setting(
        None, "Address of the APIs. Defaults to Google's own.", example="https://google.example.com"
    )
    max_pages: int = setting(1000, "Maximum number of files per run.", ge=1, le=10000)
    max_knowledge_creates: int = page_creates()
    max_knowledge_updates: int = page_updates()


SOURCE = SourceKind(
    driver="gdrive",
    settings="ktx_cli.sources.gdrive:GoogleDriveConnection",
    source="ktx_cli.sources.gdrive.source:GoogleDriveSource",
    documents=True,
    package="google.auth",
    requirement="ktx-cli[gdrive]",
    questions=(Question("credentials", required=True), Question("root", required=True, text="ID of a folder to read")),
)
"""Read Google Docs, Sheets, Slides, PDF and text files in folders and shared drives."""
