"""A Google Drive for tests: answers in the shapes of the Drive v3 and Sheets v4 APIs, on the scripted web site."""

from __future__ import annotations

import base64
import functools
import json
import re
from typing import Any
from urllib.parse import parse_qs

from tests.sources.web_site import Asked, Reply

DOC, SHEET = "application/vnd.google-apps.document", "application/vnd.google-apps.spreadsheet"
SLIDES, FORM = "application/vnd.google-apps.presentation", "application/vnd.google-apps.form"
FOLDER, SHORTCUT = "application/vnd.google-apps.folder", "application/vnd.google-apps.shortcut"
TOP = "folder-top"
SECRET = "refresh-secret-value"
JWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@functools.cache
def private_key() -> str:
    """Return a new RSA key as PEM."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@functools.cache
def service_key() -> str:
    """Return the key of a service account."""
    email = "ktx@shop.iam.gserviceaccount.com"
    fields = {"type": "service_account", "client_email": email, "private_key": private_key(), "private_key_id": "k1"}
    return json.dumps({**fields, "token_uri": "https://oauth2.googleapis.com/token"})


def refusal(status: int, reason: str, message: str = "no") -> Reply:
    """Return an error as Google sends it."""
    errors = [{"domain": "global", "reason": reason, "message": message}]
    return Reply({"error": {"code": status, "message": message, "errors": errors}}, status)


class FakeGoogle:
    """An account that sees folders and files; lists come in parts of two. `claims`: of the tokens asked for."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.cells: dict[str, dict[str, list[list[Any]]]] = {}
        self.drives: dict[str, str] = {}
        self.claims: list[dict[str, Any]] = []
        self.refused: dict[str, Reply] = {}
        self.grid = (1000, 26)
        self.folder(TOP, "Handbook", "")

    def add(self, id: str, name: str, mime: str, parent: str = TOP, **fields: Any) -> None:
        edition = int(self.files[id]["modifiedTime"][5:7]) + 1 if id in self.files else 1
        modified = f"2026-{edition:02}-01T10:00:00.000Z"
        common = {"id": id, "name": name, "mimeType": mime, "modifiedTime": modified, "trashed": False}
        self.files[id] = {**common, "parents": [parent], "capabilities": {"canDownload": True}, **fields}

    def folder(self, id: str, name: str, parent: str = TOP, **fields: Any) -> None:
        self.add(id, name, FOLDER, parent, **fields)

    def document(self, id: str, name: str, markdown: str, parent: str = TOP, **fields: Any) -> None:
        self.add(id, name, DOC, parent, **fields)
        self.contents[id] = markdown.encode()

    def upload(self, id: str, name: str, mime: str, content: bytes, parent: str = TOP, **fields: Any) -> None:
        self.add(id, name, mime, parent, **{"size": str(len(content)), "md5Checksum": f"md5-{hash(content)}", **fields})
        self.contents[id] = content

    def sheet(self, id: str, name: str, tabs: dict[str, list[list[Any]]], parent: str = TOP, **fields: Any) -> None:
        self.add(id, name, SHEET, parent, **fields)
        self.cells[id] = tabs

    def shortcut(self, id: str, name: str, target: str, parent: str = TOP) -> None:
        mime = self.files[target]["mimeType"] if target in self.files else DOC
        self.add(id, name, SHORTCUT, parent, shortcutDetails={"targetId": target, "targetMimeType": mime})

    def answer(self, asked: Asked) -> Any:
        if asked.path == "/token":
            return self._token(asked)
        assert asked.method == "GET" and asked.headers["authorization"] == f"Bearer token-{len(self.claims)}"
        if asked.path in self.refused:
            return self.refused[asked.path]
        parts = asked.path.strip("/").split("/")
        if parts[0] == "v4":
            return self._sheets(parts[2], asked)
        if parts[2] == "drives":
            name = self.drives.get(parts[3])
            return {"name": name} if name else refusal(404, "notFound")
        return self._list(asked) if len(parts) == 3 else self._file(parts, asked)

    def _token(self, asked: Asked) -> Any:
        form = {name: values[0] for name, values in parse_qs(asked.body).items()}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != SECRET:
                return Reply({"error": "invalid_grant", "error_description": "Token has been revoked."}, 400)
            self.claims.append(form)
        else:
            assert form["grant_type"] == JWT
            claims = form["assertion"].split(".")[1]
            self.claims.append(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))))
        return {"access_token": f"token-{len(self.claims)}", "expires_in": 3599, "token_type": "Bearer"}

    def _list(self, asked: Asked) -> Any:
        assert (asked.query["supportsAllDrives"], asked.query["includeItemsFromAllDrives"]) == ("true", "true")
        assert asked.query["corpora"] == ("drive" if "driveId" in asked.query else "user")
        parents = set(re.findall(r"'([\w-]+)' in parents", asked.query["q"]))
        assert asked.query["q"].endswith("and trashed = false")
        found = [each for each in self.files.values() if parents & set(each["parents"]) and not each["trashed"]]
        found = [each for each in found if each.get("driveId") == asked.query.get("driveId")]
        start = int(asked.query.get("pageToken", 0))
        more = {"nextPageToken": str(start + 2)} if start + 2 < len(found) else {}
        return {"incompleteSearch": False, "files": found[start : start + 2], **more}

    def _file(self, parts: list[str], asked: Asked) -> Any:
        file = self.files.get(parts[3])
        if file is None:
            return refusal(404, "notFound")
        if parts[4:] == ["export"]:
            assert file["mimeType"].startswith("application/vnd.google-apps.")
            return Reply(self.contents[parts[3]])
        return Reply(self.contents[parts[3]]) if asked.query.get("alt") == "media" else file

    def _sheets(self, name: str, asked: Asked) -> Any:
        tabs = self.cells[name.removesuffix(":batchGet")]
        if not asked.path.endswith("/values:batchGet"):
            rows, columns = self.grid
            shape = {"rowCount": rows, "columnCount": columns}
            listed = [
                {"title": title, "index": number, "sheetType": "GRID", "gridProperties": shape}
                | ({"hidden": True} if title.startswith("_") else {})
                for number, title in enumerate(tabs)
            ]
            return {"sheets": [{"properties": each} for each in reversed(listed)]}
        found = []
        for wanted in asked.queries["ranges"]:
            title, last = re.fullmatch(r"'(.*)'!A1:[A-Z]+(\d+)", wanted).groups()  # type: ignore[union-attr]
            found.append({"range": wanted, "values": tabs[title.replace("''", "'")][: int(last)]})
        return {"spreadsheetId": name, "valueRanges": found}
