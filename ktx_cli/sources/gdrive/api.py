"""The Drive and Sheets APIs of Google: access tokens, folders, files and cells. Everything is read-only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, NotReadyError, Placeholder, SecretError, SettingPath, SourceError
from ktx_cli.project import remember as remember_secret
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.fetch import PageTokens, entries
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpResponse, HttpStatusError, Site

if TYPE_CHECKING:
    from ktx_cli.sources.port import FetchContext

SCOPES: Final = ("https://www.googleapis.com/auth/drive.readonly",)
"""The only scope that ktx requests; it covers the Sheets API as well."""

DRIVE, SHEETS, TOKENS = (
    "https://www.googleapis.com",
    "https://sheets.googleapis.com",
    "https://oauth2.googleapis.com/token",
)

FOLDER: Final = "application/vnd.google-apps.folder"
SHORTCUT: Final = "application/vnd.google-apps.shortcut"

BUSY: Final = frozenset(("userRateLimitExceeded", "rateLimitExceeded", "backendError", "RATE_LIMIT_EXCEEDED"))
"""Reasons with which Google answers 403 although a retry helps."""

DISABLED: Final = frozenset(("accessNotConfigured", "SERVICE_DISABLED"))
TOO_LARGE: Final = "exportSizeLimitExceeded"

FOLDERS_PER_QUERY: Final = 40
_PAGE_SIZE: Final = 1000
_NOT_SEEN: Final = (403, 404)
_FIELDS: Final = (
    "id,name,mimeType,modifiedTime,md5Checksum,size,trashed,driveId,parents,"
    "shortcutDetails(targetId,targetMimeType),capabilities(canDownload)"
)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_ADDRESS: Final = re.compile(r"/(?:folders|drives|d)/([A-Za-z0-9_-]{5,200})")

Open = Callable[[Site], HttpClient]
"""Opens a client for a site; the caller of `GoogleApi` decides on limits, retries and cancellation."""


@dataclass(frozen=True, slots=True)
class DriveFile:
    """A file or a folder. `moment` changes whenever its content, name or `folder` (the path to it) does.

    `target` and `target_kind`: the object of a shortcut. `size` is in bytes, 0 if unknown. `drive`: the ID of its
    shared drive.
    """

    id: str
    name: str
    mime: str
    modified: str = ""
    digest: str = ""
    size: int = 0
    drive: str = ""
    target: str = ""
    target_kind: str = ""
    is_trashed: bool = False
    can_download: bool = True
    folder: str = ""

    @property
    def moment(self) -> str:
        """Return the attributes that change whenever the document does, or an empty string if Google returned none."""
        return " ".join((self.modified, self.digest, self.folder, self.name)) if self.modified else ""


def id_in(value: str, where: str) -> str:
    """Return the ID in a setting: the ID itself, or one in the address of a folder. Raises `ConfigError`."""
    found = _ADDRESS.search(value)
    text = found[1] if found else value.strip()
    if _ID.fullmatch(text):
        return text
    hint = Hint("set `{}` to the last part of the address of the folder", SettingPath(where))
    raise ConfigError(f"`{where}` contains a value that is not an ID of Google Drive", hint=hint)


def folders_of(entry: Any) -> dict[str, str]:
    """Return the folders to read, each with the setting that names it."""
    single = {entry.folder_id: "folder_id"} if entry.folder_id else {}
    return {**single, **dict.fromkeys(entry.folder_ids, "folder_ids")}


def reads_below(entry: Any) -> bool:
    """Return whether the folders below the configured ones are read."""
    if entry.recursive is not None:
        return bool(entry.recursive)
    return bool(not entry.folder_id or entry.folder_ids or entry.drive_ids)


class GoogleApi:
    """Requests to Drive and Sheets with one account. Leaving its `with` block closes the clients."""

    def __init__(self, entry: Any, context: FetchContext, open: Open) -> None:
        where = f"connections.{context.connection}"
        base = _resolved(entry.base_url, f"{where}.base_url", context).rstrip("/") if entry.base_url else ""
        given = {"credentials_json": entry.credentials_json, "service_account_key_ref": entry.service_account_key_ref}
        key = next((name for name, value in given.items() if value), "refresh_token")
        address = "base_url" if base else next(iter(folders_of(entry).values()), "drive_ids")
        self._site = Site(
            "Google Drive", where, base or DRIVE, credential=key, address=address, is_fixed=not base, busy=BUSY
        )  # Tokens are added later.
        self._credentials = _credentials(entry, where, key, context, f"{base}/token" if base else "")
        self._open = open
        self._drive = open(self._site)
        self._sheets = open(replace(self._site, name="Google Sheets", base_url=base or SHEETS))

    def __enter__(self) -> GoogleApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._drive.close()
        self._sheets.close()

    def file(self, id: str) -> DriveFile | None:
        """Return a file or a folder, or None if the account cannot see it."""
        params = {"fields": _FIELDS, "supportsAllDrives": "true"}
        found = self._seen(lambda: self._get(self._drive, f"drive/v3/files/{quote(id, safe='')}", params))
        if found is not None and found.get("id") != id:
            raise SourceError("Google Drive returned another object than the requested one", hint="retry later")
        return None if found is None else _file(found)

    def drive(self, id: str) -> DriveFile | None:
        """Return a shared drive as its top folder, or None if the account cannot see it."""
        found = self._seen(lambda: self._get(self._drive, f"drive/v3/drives/{quote(id, safe='')}", {"fields": "name"}))
        return None if found is None else DriveFile(id, _name(found), FOLDER, drive=id)

    def children(self, folders: Sequence[str], drive: str) -> Iterator[tuple[str, DriveFile]]:
        """Yield the contents of folders in one shared drive, or outside all of them, with the folder of each.

        Raises `SourceError` if Google did not search everything.
        """
        parents = " or ".join(f"'{folder}' in parents" for folder in folders)
        params = {
            "q": f"({parents}) and trashed = false",
            "fields": f"nextPageToken,incompleteSearch,files({_FIELDS})",
            "pageSize": _PAGE_SIZE,
            "supportsAllDrives": "true",
            "includeItemsFromAllDrives": "true",
            "corpora": "drive" if drive else "user",
            "driveId": drive or None,
        }
        tokens, token = PageTokens("Google Drive"), None
        while True:
            listed = self._get(self._drive, "drive/v3/files", {**params, "pageToken": token})
            if listed.get("incompleteSearch"):
                raise SourceError("Google Drive did not search all files", hint="retry later")
            for each in entries(listed, "files", "Google Drive", "GET /drive/v3/files"):
                parent = next((folder for folder in each.get("parents") or () if folder in folders), folders[0])
                yield parent, _file(each)
            following = listed.get("nextPageToken")
            if not following:
                return
            token = tokens.following(following)

    def exported(self, id: str, mime: str) -> bytes:
        """Return a file of Google's own kinds in another format; Google limits it to 10 MB."""
        return self._sent(self._drive, f"drive/v3/files/{quote(id, safe='')}/export", {"mimeType": mime}).content

    def content(self, id: str) -> bytes:
        """Return the bytes of an uploaded file."""
        params = {"alt": "media", "supportsAllDrives": "true"}
        return self._sent(self._drive, f"drive/v3/files/{quote(id, safe='')}", params).content

    def tabs(self, id: str) -> list[Mapping[str, Any]]:
        """Return the properties of the sheets of a spreadsheet, in order."""
        wanted = "sheets(properties(title,index,sheetType,hidden,gridProperties(rowCount,columnCount)))"
        found = self._get(self._sheets, f"v4/spreadsheets/{quote(id, safe='')}", {"fields": wanted})
        listed = [
            each.get("properties") for each in entries(found, "sheets", "Google Sheets", f"the sheets of {id}", id="")
        ]
        return sorted((each for each in listed if isinstance(each, Mapping)), key=lambda each: each.get("index") or 0)

    def values(self, id: str, ranges: Sequence[str]) -> list[list[list[Any]]]:
        """Return the shown values of ranges as rows of cells."""
        params = {"ranges": list(ranges), "valueRenderOption": "FORMATTED_VALUE", "majorDimension": "ROWS"}
        found = self._get(self._sheets, f"v4/spreadsheets/{quote(id, safe='')}/values:batchGet", params)
        listed = found.get("valueRanges") or ()
        if len(listed) != len(ranges):
            raise SourceError("Google Sheets did not return all requested ranges", hint="retry later")
        return [_rows(each.get("values") if isinstance(each, Mapping) else None) for each in listed]

    def _seen(self, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
        try:
            return call()
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN and reason_of(error) not in BUSY | DISABLED:
                return None
            raise

    def _get(self, client: HttpClient, path: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        found = client.decoded(self._sent(client, path, params), f"GET /{path}")
        if not isinstance(found, Mapping):
            raise SourceError(f"{client.site.name} returned a response that is not a JSON object", hint="retry later")
        return found

    def _sent(self, client: HttpClient, path: str, params: Mapping[str, Any]) -> HttpResponse:
        if not self._credentials.valid:
            self._sign_in()
        return client.send("GET", path, params=params, headers={"Accept": "*/*"})

    def _sign_in(self) -> None:
        """Get an access token through ktx's own HTTP client, and send it to both APIs."""
        from google.auth.exceptions import GoogleAuthError

        def request(url: str, method: str = "POST", body: bytes = b"", **_: Any) -> _TokenAnswer:
            place = urlsplit(url)
            with self._open(replace(self._site, base_url=f"{place.scheme}://{place.netloc}")) as client:
                answer = client.send(method, place.path, form=dict(parse_qsl(body.decode())))
            return _TokenAnswer(answer.status, answer.headers, answer.content)

        try:
            self._credentials.refresh(request)
        except HttpStatusError as error:
            if error.status != 400:
                raise
            raise self._refused() from error
        except GoogleAuthError as error:
            raise self._refused() from error
        for client in (self._drive, self._sheets):
            client.use_headers({"Authorization": f"Bearer {self._credentials.token}"})

    def _refused(self) -> HttpAuthError:
        refused = HttpAuthError("Google rejected the credentials", hint=self._site.hints["credential"])
        refused.status = 401
        return refused


@dataclass(frozen=True, slots=True)
class _TokenAnswer:
    """A response in the shape that google-auth expects."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def reason_of(error: HttpStatusError | HttpAuthError) -> str:
    """Return the reason in an error response of Google, such as `rateLimitExceeded`, or an empty string."""
    return str(error.details.get("reason") or "")


def _credentials(entry: Any, where: str, key: str, context: FetchContext, token_uri: str) -> Any:
    """Return google-auth credentials. Raises `SecretError` or `ConfigError`, or `NotReadyError` without google-auth."""
    try:
        from google.oauth2 import credentials, service_account
    except ImportError as error:
        install = Command("install", Placeholder("'ktx-cli[gdrive]'"), program="pip")
        raise NotReadyError(
            "Google Drive requires the package google-auth, which is not installed", hint=install
        ) from error

    account: Any = service_account.Credentials
    user: Any = credentials.Credentials
    if key != "refresh_token":
        info = _key(_resolved(getattr(entry, key), f"{where}.{key}", context), f"{where}.{key}")
        info["token_uri"] = token_uri or info.get("token_uri") or TOKENS
        try:
            return account.from_service_account_info(info, scopes=SCOPES, subject=entry.subject)
        except ValueError:
            raise _not_a_key(f"{where}.{key}") from None
    given = {"client_id": entry.client_id, "client_secret": entry.client_secret, "refresh_token": entry.refresh_token}
    missing = [name for name, value in given.items() if not value]
    if missing:
        hint = Hint(
            "set `{}`, or all of client_id, client_secret and refresh_token", SettingPath(f"{where}.credentials_json")
        )
        raise SecretError(f"{where} has no credentials", hint=hint)
    values = {name: _resolved(str(value), f"{where}.{name}", context) for name, value in given.items()}
    return user(None, token_uri=token_uri or TOKENS, scopes=SCOPES, **values)


def _key(text: str, where: str) -> dict[str, Any]:
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_a_key(where) from None
    if not isinstance(info, dict) or not isinstance(info.get("private_key"), str):
        raise _not_a_key(where)
    remember_secret(info["private_key"])
    return info


def _not_a_key(where: str) -> ConfigError:
    hint = Hint("set `{}` to the JSON file that Google Cloud created for the key", SettingPath(where))
    return ConfigError(f"`{where}` is not the key of a service account in JSON", hint=hint)


def _resolved(value: str, where: str, context: FetchContext) -> str:
    return resolve_secret(value, project_dir=context.layout.root, environ=context.environ, where=where).strip()


def _file(found: Mapping[str, Any]) -> DriveFile:
    shortcut, can = found.get("shortcutDetails") or {}, found.get("capabilities") or {}
    size = str(found.get("size") or "")
    return DriveFile(
        str(found.get("id")),
        _name(found),
        str(found.get("mimeType") or ""),
        modified=str(found.get("modifiedTime") or ""),
        digest=str(found.get("md5Checksum") or ""),
        size=int(size) if size.isdecimal() else 0,
        drive=str(found.get("driveId") or ""),
        target=str(shortcut.get("targetId") or ""),
        target_kind=str(shortcut.get("targetMimeType") or ""),
        is_trashed=bool(found.get("trashed")),
        can_download=can.get("canDownload") is not False,
    )


def _name(found: Mapping[str, Any]) -> str:
    return " ".join(str(found.get("name") or "Untitled").split())


def _rows(values: Any) -> list[list[Any]]:
    return [row for row in values if isinstance(row, list)] if isinstance(values, list) else []


def batches(items: Iterable[str], size: int = FOLDERS_PER_QUERY) -> Iterator[list[str]]:
    """Yield the items in lists of at most `size`."""
    listed = list(items)
    yield from (listed[start : start + size] for start in range(0, len(listed), size))
