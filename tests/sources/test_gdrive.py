"""Google Drive over its API: what is read, what is not read again, and how files become Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError, ConfigError, NotReadyError, SecretError, SourceError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.documents.reader import read_document
from ktx_cli.project.secrets import mask
from ktx_cli.sources.gdrive import GoogleDriveConnection
from ktx_cli.sources.gdrive import source as module
from ktx_cli.sources.gdrive.api import id_in
from ktx_cli.sources.gdrive.source import GoogleDriveSource, canonical_links, without_images
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.port import FetchContext, Projection
from tests.documents.test_reader import pdf
from tests.sources.scripted_google import (
    DOC,
    FORM,
    SECRET,
    SHEET,
    SLIDES,
    TOP,
    FakeGoogle,
    private_key,
    refusal,
    service_key,
)  # fmt: skip
from tests.sources.web_site import Asked, Reply

Fetch = Callable[..., Snapshot]


@pytest.fixture
def google(web_site: Any) -> FakeGoogle:
    fake = FakeGoogle()
    fake.document("doc-1", "Refunds", "# Refunds\n\nWithin **30** days.\n")
    fake.folder("sub", "Finance")
    fake.sheet("sheet-1", "Metrics", {"Terms": [["Term", "Meaning"], ["GMV", "Paid | open orders"]]}, "sub")
    fake.upload("pdf-1", "Policy.pdf", "application/pdf", pdf("Orders count when they are paid."), "sub")
    fake.upload("md-1", "notes.md", "text/markdown", b"# Notes\n\nNet of tax.\n", "sub")

    def answers(asked: Asked) -> Reply | None:
        found = fake.answer(asked)
        return found if isinstance(found, Reply) or found is None else Reply(found)

    web_site.answers = answers
    return fake


@pytest.fixture
def fetch(web_site: Any, fetch_context: Callable[..., FetchContext]) -> Fetch:
    def run(last: Snapshot | None = None, *, stopped: Any = None, **fields: Any) -> Snapshot:
        given: dict[str, Any] = {"environ": {"KEY": service_key(), "SECRET": SECRET}}
        if last is not None:
            given |= {"cursor": last.cursor, "previous": {path: raw.sha256 for path, raw in last.files.items()}}
        if stopped is not None:
            given["stopped"] = stopped
        common = {"driver": "gdrive", "base_url": web_site.url, "folder_ids": [TOP], "credentials_json": "env:KEY"}
        web_site.asked.clear()
        entry = GoogleDriveConnection.model_validate({**common, **fields})
        return GoogleDriveSource(sleep=lambda seconds: None).fetch(entry, fetch_context(**given))

    return run


def texts(found: Snapshot) -> dict[str, str]:
    return {path: read_document(raw).markdown.strip() for path, raw in found.files.items()}


def test_a_folder_is_read_with_everything_below(google: FakeGoogle, fetch: Fetch) -> None:
    found = fetch()
    assert (found.complete, found.fetched, found.origin, found.skipped) == (True, 4, "Google Drive, Handbook", ())
    assert texts(found) == {
        "pages/doc-1.md": "# Refunds\n\nWithin **30** days.",
        "pages/md-1.md": "# Notes\n\nNet of tax.",
        "pages/pdf-1.md": "## Page 1\n\nOrders count when they are paid.",
        "pages/sheet-1.md": "## Terms\n\n| Term | Meaning |\n| --- | --- |\n| GMV | Paid \\| open orders |",
    }
    sheet = read_document(found.files["pages/sheet-1.md"])
    assert (sheet.title, sheet.parent) == ("Metrics", "Handbook/Finance")
    assert sheet.url == "https://docs.google.com/spreadsheets/d/sheet-1/edit"
    assert sheet.properties == {"id": "sheet-1", "folder": "Handbook/Finance"}
    assert "2026-" not in found.files["pages/sheet-1.md"].text()


@pytest.mark.parametrize("body", [{}, {"files": None}, {"files": {}}, {"files": [{"name": "x"}]}], ids=str)
def test_a_list_of_another_shape_deletes_nothing(
    google: FakeGoogle, fetch: Fetch, web_site: Any, body: dict[str, Any]
) -> None:
    first = fetch()
    web_site.fail("/drive/v3/files", Reply(body))
    with pytest.raises(SourceError, match="`files` is not a list of objects with an ID"):
        fetch(first)
    web_site.fail(f"/drive/v3/files/{TOP}", Reply({}))
    with pytest.raises(SourceError, match="another object than the requested one"):
        fetch(first)


def test_page_tokens_that_go_round_end(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    web_site.fail("/drive/v3/files", *[Reply({"files": [], "nextPageToken": token}) for token in "ABABABAB"])
    with pytest.raises(SourceError, match="the same part of a list twice"):
        fetch()
    assert web_site.paths().count("/drive/v3/files") == 3


@pytest.mark.parametrize(
    ("fields", "below"),
    [
        ({"folder_ids": [], "folder_id": TOP}, False),
        ({"folder_ids": [], "folder_id": TOP, "recursive": True}, True),
        ({"folder_ids": [TOP], "folder_id": TOP}, True),
        ({"recursive": False}, False),
    ],
)
def test_the_settings_of_the_typescript_ktx(
    fields: dict[str, Any], below: bool, google: FakeGoogle, fetch: Fetch
) -> None:
    found = fetch(credentials_json=None, service_account_key_ref="env:KEY", **fields)
    assert found.complete
    assert set(found.files) == {
        "pages/doc-1.md",
        *(("pages/md-1.md", "pages/pdf-1.md", "pages/sheet-1.md") if below else ()),
    }


def test_tokens_are_read_only_and_masked(google: FakeGoogle, fetch: Fetch) -> None:
    fetch(subject="ada@example.com")
    (claims,) = google.claims
    assert claims["scope"] == "https://www.googleapis.com/auth/drive.readonly"
    assert (claims["iss"], claims["sub"]) == ("ktx@shop.iam.gserviceaccount.com", "ada@example.com")
    assert "PRIVATE KEY" not in mask(private_key()) and "token-1" not in mask("Bearer token-1")


def test_a_refresh_token(google: FakeGoogle, fetch: Fetch) -> None:
    user = {"credentials_json": None, "client_id": "id", "client_secret": "s", "refresh_token": "env:SECRET"}
    assert fetch(**user).complete
    assert google.claims[0]["client_id"] == "id"
    with pytest.raises(HttpAuthError) as refused:
        fetch(**user | {"refresh_token": "revoked-token-value"})
    assert refused.value.message == "Google rejected the credentials"
    assert "connections.notes.refresh_token" in (refused.value.hint or "")
    with pytest.raises(SecretError, match="has no credentials"):
        fetch(credentials_json=None, client_id="id")


@pytest.mark.table("key", ["{", "[]", '{"private_key": "x", "client_email": "a@b"}', '{"client_email": "a@b"}'])
def test_what_is_no_key(google: FakeGoogle, fetch: Fetch, key: str) -> None:
    with pytest.raises(ConfigError, match=r"credentials_json` is not the key of a service account in JSON"):
        fetch(credentials_json=key)


def test_without_google_auth(google: FakeGoogle, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.oauth2", None)
    with pytest.raises(NotReadyError, match="requires the package google-auth") as error:
        fetch()
    assert "ktx-cli[gdrive]" in str(error.value.hint)


def test_a_second_run_reads_only_what_changed(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    second = fetch(first)
    assert (second.files, second.cursor, second.fetched) == (first.files, first.cursor, 0)
    assert web_site.paths() == ["/token", "/drive/v3/files/folder-top", *["/drive/v3/files"] * 3]
    google.document("doc-1", "Refunds", "Never.")
    google.files["md-1"]["trashed"] = True
    third = fetch(second)
    assert [path for path in web_site.paths() if "export" in path] == ["/drive/v3/files/doc-1/export"]
    assert (third.complete, third.fetched, set(second.files) - set(third.files)) == (True, 1, {"pages/md-1.md"})
    google.files["doc-1"]["parents"] = ["sub"]
    assert read_document(fetch(third).files["pages/doc-1.md"]).parent == "Handbook/Finance"


def test_a_failure_in_the_middle_ends_the_fetch(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    google.document("doc-1", "Refunds", "Never.")
    web_site.fail("/drive/v3/files/doc-1/export", *[Reply({"error": {"message": "down"}}, 500)] * 8)
    with pytest.raises(HttpStatusError, match="status 500"):
        fetch(first)
    answers, broken = web_site.answers, Reply(b'{"files": [', cut=4)
    web_site.answers = lambda asked: broken if "pageToken" in asked.query else answers(asked)
    with pytest.raises(SourceError, match="cannot reach"):
        fetch(first)
    web_site.answers = answers
    with pytest.raises(CancelledError):
        fetch(first, stopped=lambda: True)


def test_an_incomplete_search_ends_the_fetch(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    web_site.fail("/drive/v3/files", Reply({"incompleteSearch": True, "files": []}))
    with pytest.raises(SourceError, match="did not search all files"):
        fetch()
    answers = web_site.answers
    again = Reply({"files": [], "nextPageToken": "2"})
    web_site.answers = lambda asked: again if asked.path == "/drive/v3/files" else answers(asked)
    with pytest.raises(SourceError, match="the same part of a list twice"):
        fetch()


@pytest.mark.table(
    "busy",
    [Reply({}, 429, {"Retry-After": "2"}), refusal(403, "userRateLimitExceeded"), refusal(403, "rateLimitExceeded")],
)
def test_a_busy_google_is_asked_again(google: FakeGoogle, fetch: Fetch, web_site: Any, busy: Reply) -> None:
    web_site.fail("/drive/v3/files/doc-1/export", busy, busy)
    assert (fetch().fetched, web_site.paths().count("/drive/v3/files/doc-1/export")) == (4, 3)


def test_a_google_that_stays_busy_is_not_a_question_of_permission(
    google: FakeGoogle, fetch: Fetch, web_site: Any
) -> None:
    web_site.fail("/drive/v3/files/doc-1/export", *[refusal(403, "rateLimitExceeded", "Too fast")] * 8)
    with pytest.raises(HttpStatusError, match="status 403 for GET /drive/v3/files/doc-1/export: Too fast") as error:
        fetch()
    assert error.value.hint == "retry when Google Drive responds again"


def test_a_limit_leaves_the_rest_for_the_next_runs(google: FakeGoogle, fetch: Fetch) -> None:
    first = fetch(max_pages=3)
    assert (first.complete, len(first.files), first.skipped[0].what) == (False, 3, "1 more file")
    second = fetch(first, max_pages=3)
    assert (second.complete, len(second.files), second.fetched) == (True, 4, 1)


def test_files_that_cannot_be_read_are_named_once(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    google.upload("locked", "Locked.md", "text/markdown", b"x", capabilities={"canDownload": False})
    google.document("denied", "Denied", "x")
    google.document("huge", "Huge", "x")
    google.upload("large", "Large.pdf", "application/pdf", b"x", size="99000000")
    google.upload("scan", "Scan.pdf", "application/pdf", pdf(""))
    google.upload("word", "Plan.docx", "application/x-docx", b"x")
    google.add("form", "Survey", FORM)
    google.refused["/drive/v3/files/denied/export"] = refusal(403, "insufficientFilePermissions")
    google.refused["/drive/v3/files/huge/export"] = refusal(403, "exportSizeLimitExceeded")
    found = fetch()
    assert (found.complete, len(found.files)) == (True, 4)
    assert {each.what: each.reason for each in found.skipped} == {
        "Handbook/Locked.md": "its owner does not allow this account to download it",
        "Handbook/Denied": "this account cannot download it",
        "Handbook/Huge": "Google exports at most 10 MB of a file, and this one is larger",
        "Handbook/Large.pdf": "it is larger than 20,000,000 bytes",
        "Handbook/Scan.pdf": "Scan.pdf contains only images and no text",
        "2 files (Plan.docx, Survey)": "ktx has no reader for .docx, Google form",
    }
    fetch(found)
    assert not [path for path in web_site.paths() if path.endswith(("/scan", "/large"))]


def test_a_document_that_became_too_large_keeps_its_copy(google: FakeGoogle, fetch: Fetch) -> None:
    first = fetch()
    google.document("doc-1", "Refunds", "x")
    google.refused["/drive/v3/files/doc-1/export"] = refusal(403, "exportSizeLimitExceeded")
    assert fetch(first).files == first.files


def test_shortcuts_are_followed_once(google: FakeGoogle, fetch: Fetch) -> None:
    google.folder("elsewhere", "Elsewhere", "away")
    google.document("doc-2", "Stock", "Counted on Mondays.", "elsewhere")
    google.document("doc-3", "Tax", "19 %.", "away")
    google.shortcut("s1", "To elsewhere", "elsewhere")
    google.shortcut("s2", "Back", TOP, "elsewhere")
    google.shortcut("s3", "Tax", "doc-3")
    google.shortcut("s4", "Refunds again", "doc-1", "sub")
    google.shortcut("s5", "Gone", "nothing")
    found = fetch()
    assert sorted(found.files)[1:3] == ["pages/doc-2.md", "pages/doc-3.md"] and len(found.files) == 6
    folders = {path: read_document(raw).parent for path, raw in found.files.items()}
    assert (folders["pages/doc-1.md"], folders["pages/doc-2.md"]) == ("Handbook", "Handbook/Elsewhere")
    assert [each.what for each in found.skipped] == ["shortcut Handbook/Gone"]


def test_files_of_the_same_name_stay_apart(google: FakeGoogle, fetch: Fetch) -> None:
    google.document("doc-0", "Refunds", "The old rule.")
    assert {"pages/doc-0.md", "pages/doc-1.md"} < set(fetch().files)


def test_a_shared_drive(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    google.drives["0AShared"] = "Data team"
    google.document("doc-9", "Churn", "90 days without an order.", "0AShared", driveId="0AShared")
    found = fetch(folder_ids=[], drive_ids=["0AShared"])
    assert (list(found.files), found.origin) == (["pages/doc-9.md"], "Google Drive, Data team")
    assert read_document(found.files["pages/doc-9.md"]).parent == "Data team"


def test_a_folder_that_is_not_shown_deletes_nothing(google: FakeGoogle, fetch: Fetch) -> None:
    first = fetch()
    found = fetch(first, folder_ids=[TOP, "secret-folder"])
    assert (found.complete, [warning.code for warning in found.warnings]) == (False, ["folder_not_seen"])
    with pytest.raises(SourceError, match="cannot see any of the configured folders in Google Drive: secret-folder"):
        fetch(folder_ids=["secret-folder"])


def test_too_many_folders_delete_nothing(google: FakeGoogle, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FOLDERS", 1)
    found = fetch()
    assert (found.complete, list(found.files)) == (False, ["pages/doc-1.md"])


def test_markdown_that_google_does_not_offer(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    google.document("doc-1", "Refunds", "<html><style>p{}</style><p>Within <b>30</b> days.</p></html>")
    web_site.fail("/drive/v3/files/doc-1/export", refusal(400, "badRequest"))
    assert texts(fetch())["pages/doc-1.md"] == "Within **30** days."
    assert [each.query["mimeType"] for each in web_site.asked if "export" in each.path] == [
        "text/markdown",
        "text/html",
    ]


def test_presentations_are_texts(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    google.add("deck", "Kick-off", SLIDES)
    google.contents["deck"] = b"Revenue is net.\r\n"
    assert texts(fetch())["pages/deck.md"] == "Revenue is net."
    assert {each.query["mimeType"] for each in web_site.asked if "deck" in each.path} == {"text/plain"}


def test_spreadsheets_are_bounded(google: FakeGoogle, fetch: Fetch, web_site: Any) -> None:
    rows = [["day", "x" * 2000], *([str(number), "1"] for number in range(400))]
    google.grid = (5000, 200)
    google.sheet("sheet-1", "Metrics", {
        "It's data": rows, "_hidden": [["a"]], "Empty": [], "Two": [["Only lines"], [], ["", "a", "b"], ["", None, 2]],
    }, "sub")  # fmt: skip
    found = fetch()
    text = texts(found)["pages/sheet-1.md"]
    assert "## It's data" in text and "| 298 | 1 |" in text and "| 299 | 1 |" not in text
    assert "x" * 1000 in text and "x" * 1001 not in text
    assert text.endswith("## Two\n\nOnly lines\n\n| a | b |\n| --- | --- |\n|  | 2 |")
    assert [each.what for each in found.skipped] == ["the rest of Handbook/Finance/Metrics"]
    asked = next(each for each in web_site.asked if each.path.endswith("/values:batchGet"))
    assert asked.queries["ranges"] == ["'It''s data'!A1:AD301", "'Empty'!A1:AD301", "'Two'!A1:AD301"]


def test_a_sheets_api_that_is_off(google: FakeGoogle, fetch: Fetch) -> None:
    error = {"code": 403, "status": "PERMISSION_DENIED", "details": [{"reason": "SERVICE_DISABLED"}], "message": "Off"}
    google.refused["/v4/spreadsheets/sheet-1"] = Reply({"error": error}, 403)
    found = fetch()
    assert ([warning.code for warning in found.warnings], len(found.files)) == (["sheets_disabled"], 3)
    google.refused["/drive/v3/files/folder-top"] = Reply({"error": error}, 403)
    with pytest.raises(HttpAuthError, match="Off"):
        fetch()


def test_units_of_a_folder(google: FakeGoogle, fetch: Fetch) -> None:
    found = fetch()
    units = GoogleDriveSource().units(None, found, Changes(added=tuple(found.files)), Projection())
    assert [unit.files for unit in units] == [
        ("pages/doc-1.md",), ("pages/md-1.md", "pages/pdf-1.md", "pages/sheet-1.md"),
    ]  # fmt: skip


@pytest.mark.table(
    ("value", "id"),
    [
        ("0AbC-d_9", "0AbC-d_9"),
        ("https://drive.google.com/drive/folders/1AbCdEfGh?usp=sharing", "1AbCdEfGh"),
        ("https://drive.google.com/drive/u/0/folders/1AbCdEfGh", "1AbCdEfGh"),
        ("x' or name contains 'a", None),
        ("", None),
    ],
)
def test_ids_of_folders(value: str, id: str | None) -> None:
    if id is None:
        with pytest.raises(ConfigError, match="is not an ID of Google Drive"):
            id_in(value, "connections.notes.folder_ids")
    else:
        assert id_in(value, "") == id


@pytest.mark.table(
    ("text", "links"),
    [
        (
            "[a](https://docs.google.com/document/d/A-1/edit?usp=sharing#h)",
            "[a](https://docs.google.com/document/d/A-1/edit)",
        ),
        ("https://docs.google.com/spreadsheets/u/0/d/S_1", "https://docs.google.com/spreadsheets/d/S_1/edit"),
        ("(https://drive.google.com/open?id=F1&x=2)", "(https://drive.google.com/file/d/F1/view)"),
        ("[b](https://www.google.com/url?q=https://example.com/a%3Fb%3D1&sa=D)", "[b](https://example.com/a?b=1)"),
        ("see https://example.com/d/x", "see https://example.com/d/x"),
    ],
)
def test_links_between_files(text: str, links: str) -> None:
    assert canonical_links(text) == links


def test_images_are_left_out() -> None:
    text = "A ![chart][image1] and ![x](data:image/png;base64,AAAA).\n\n[image1]: <data:image/png;base64,iVBOR>\n"
    assert without_images(text) == "A chart and x.\n\n"


def test_kinds_are_those_of_google() -> None:
    assert {DOC, SHEET, SLIDES} == {module._DOCUMENT, module._SHEET, module._SLIDES}
