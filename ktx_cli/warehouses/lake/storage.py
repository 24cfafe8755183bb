"""Remote files of a lake for DuckDB: opened in the worker by the library that knows the store, and only those named.

DuckDB sees a file as `ktxlake://3/17.parquet`, which a mapping translates to its location in the store. So a statement
cannot name any other file, bucket or host, whatever the session allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

PROTOCOL: Final = "ktxlake"
"""The scheme of remote files in DuckDB."""

_KEPT: Final = (
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCS_",
    "OSS_",
    "HADOOP_",
    "KRB5",
    "SSL_CERT_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
)
_NAMES: Final = frozenset({"HOME", "NO_PROXY", "no_proxy", "http_proxy", "https_proxy"})


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which the libraries of object stores find credentials and proxies."""
    return {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_KEPT)}


def filesystem(settings: Mapping[str, Any]) -> Any:
    """Return the file system that DuckDB uses for remote files; called in the worker.

    `settings`: `environment`, and `files`: for each path its location, its size in bytes and the number of its store
    in `stores`. A store is either `{"iceberg": properties}` or `{"delta": uri, "options": storage options}`.
    """
    base: Any = import_module("fsspec").AbstractFileSystem

    os.environ.update(settings["environment"])
    openers = [_opener(each) for each in settings["stores"]]
    files: Mapping[str, tuple[str, int, int]] = settings["files"]

    class LakeFiles(base):  # type: ignore[misc]
        """Reads the files of the mapping, and nothing else."""

        protocol = PROTOCOL
        cachable = False

        def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            if mode != "rb":
                raise PermissionError("ktx only reads")
            location, _, store = self._find(path)
            return openers[store](location)

        def info(self, path: str, **options: Any) -> dict[str, Any]:
            return {"name": path, "size": self._find(path)[1], "type": "file"}

        def modified(self, path: str) -> datetime:
            return datetime(2000, 1, 1, tzinfo=UTC)  # The files of a snapshot never change.

        def exists(self, path: str, **options: Any) -> bool:
            return self._strip(path) in files

        def isfile(self, path: str) -> bool:
            return self._strip(path) in files

        def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> list[str]:
            return [path] if self._strip(path) in files else []

        def _find(self, path: str) -> tuple[str, int, int]:
            found = files.get(self._strip(path))
            if found is None:
                raise FileNotFoundError(path)
            return found

        @staticmethod
        def _strip(path: str) -> str:
            return path if path.startswith(f"{PROTOCOL}://") else f"{PROTOCOL}://{path}"

    return LakeFiles()


def _opener(store: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return what opens a location for reading."""
    if "iceberg" in store:
        from pyiceberg.io import load_file_io

        properties = dict(store["iceberg"])
        ios: dict[str, Any] = {}

        def open_iceberg(location: str) -> Any:
            scheme = location.partition(":")[0]
            if scheme not in ios:
                ios[scheme] = load_file_io(properties, location)
            return ios[scheme].new_input(location).open()

        return open_iceberg
    from deltalake.fs import DeltaStorageHandler

    handler = import_module("pyarrow.fs").PyFileSystem(DeltaStorageHandler(store["delta"], dict(store["options"])))

    def open_delta(location: str) -> Any:
        return handler.open_input_file(location)

    return open_delta
