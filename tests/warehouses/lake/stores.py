"""An object store and a catalog on this machine, which only read: the files of a folder as a bucket, and its tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

KEY_ID = "KTXTESTKEY"
SECRET = "canary-store-secret"
CREDENTIAL = "client:canary-client-secret"
TOKEN = "canary-bearer-token"
BUCKET = "s3://lake"


class MappedIO(PyArrowFileIO):
    """Writes the files of a bucket to a folder."""

    def _local(self, location: Any) -> str:
        return str(location).replace(BUCKET, f"file://{self.properties['folder']}")

    def new_input(self, location: str) -> Any:
        return super().new_input(self._local(location))

    def new_output(self, location: str) -> Any:
        found = super().new_output(self._local(location))
        found._location = location  # Lists of files contain it.
        return found


class Server(ThreadingHTTPServer):
    """A server with what was requested from it."""

    def __init__(self, folder: Path, catalog: SqlCatalog | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.catalog = catalog
        self.requested: list[str] = []
        self.store: Server | None = None

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of pyiceberg for the store."""
        own = {"s3.endpoint": self.url, "s3.region": "us-east-1", "s3.access-key-id": KEY_ID}
        return {**own, "s3.secret-access-key": SECRET}

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake for the store."""
        own = {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY_ID}
        return {**own, "AWS_ALLOW_HTTP": "true"}

    def data_files(self) -> list[str]:
        """Return the data files that were read, and forget them."""
        found = [each for each in self.requested if each.endswith(".parquet")]
        self.requested.clear()
        return found


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the block is left."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        known = body.get("client_secret") == [CREDENTIAL.partition(":")[2]]
        self._json(
            {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600} if known else {}, 200 if known else 401
        )

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        self.server.requested.append(path)
        if self.server.catalog is not None:
            return self._catalog(path, parse_qs(parts.query), self.server.catalog)
        if KEY_ID not in self.headers.get("Authorization", ""):
            return self._send(b"<Error><Code>AccessDenied</Code></Error>", 403)
        query = parse_qs(parts.query)
        if "list-type" in query:
            return self._listing(query)
        file = self.server.folder / path.removeprefix("/lake/")
        if not file.is_file():
            return self._send(b"<Error><Code>NoSuchKey</Code></Error>", 404)
        self._file(file.read_bytes())
        return None

    def _file(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            return self._send(data, 200)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else len(data) - int(last)
        end = min(int(last), len(data) - 1) if first and last else len(data) - 1
        self._send(data[start : end + 1], 206, {"Content-Range": f"bytes {start}-{end}/{len(data)}"})
        return None

    def _listing(self, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys, folders = [], set()
        after = query.get("start-after", [""])[0]
        for file in sorted(self.server.folder.rglob("*")):
            key = file.relative_to(self.server.folder).as_posix()
            if not file.is_file() or not key.startswith(prefix) or key <= after:
                continue
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append((key, file.stat().st_size))
        when = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key>{when}<ETag>x</ETag><Size>{size}</Size></Contents>"
            for key, size in keys
        )
        found += "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        head = f"<Name>lake</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount>"
        text = (
            f"<ListBucketResult>{head}<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        )
        self._send(text.encode(), 200, {"Content-Type": "application/xml"})

    def _catalog(self, path: str, query: dict[str, list[str]], catalog: SqlCatalog) -> None:
        """Answer as an Iceberg REST catalog does."""
        if path == "/v1/config":
            return self._json({"defaults": {}, "overrides": {}})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json(
                {"error": {"message": "not authorized", "type": "NotAuthorizedException", "code": 401}}, 401
            )
        steps = path.removeprefix("/v1/namespaces").strip("/").split("/")
        if steps == [""]:
            parent = tuple(query["parent"][0].split("\x1f")) if "parent" in query else ()
            if parent == ("flat",):
                error = {"message": "no nested namespaces", "type": "BadRequestException", "code": 400}
                self._json({"error": error}, 400)
                return None
            return self._json({"namespaces": [list(each) for each in catalog.list_namespaces(parent)]})
        namespace = tuple(steps[0].split("\x1f"))
        if len(steps) == 2 and namespace == ("closed",):
            error = {"message": "not yours", "type": "ForbiddenException", "code": 403}
            self._json({"error": error}, 403)
            return None
        if len(steps) == 2:
            names = [{"namespace": list(each[:-1]), "name": each[-1]} for each in catalog.list_tables(namespace)]
            return self._json({"identifiers": names})
        table = catalog.load_table((*namespace, steps[2]))
        config = self.server.store.properties if self.server.store is not None else {}
        metadata = json.loads(table.metadata.model_dump_json())
        self._json({"metadata-location": table.metadata_location, "metadata": metadata, "config": config})
        return None

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json"})

    def _send(self, data: bytes, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        own = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "ETag": '"x"', "Accept-Ranges": "bytes"}
        for name, value in {**own, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
