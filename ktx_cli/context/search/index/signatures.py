"""The cheap signatures of what is searched: sizes and times of files, and stamps; no file is opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from ktx_cli.context.scan.snapshot import snapshot_path
from ktx_cli.context.semantic.loading.strays import stray_paths
from ktx_cli.core.text import escaped, is_utf8
from ktx_cli.project.files import storage_error
from ktx_cli.project.tree import WorkingTree

RULES: Final = "2"
"""By which rules is said what is shown: another number where an index that was written before shows more."""


def layer_signature(files: Mapping[str, str], stamp: str) -> str:
    """Return the signatures of all files of a semantic layer together, empty where there are none."""
    return "\n".join((f"{RULES} {stamp}", *(f"{path} {files[path]}" for path in sorted(files)))) if files else ""


def values_unit(layer: str) -> str:
    """Return the unit of the values beside the semantic layer in a folder."""
    return f"values of {layer}"


def values_signature(stamp: str, layer: str, scan: str) -> str:
    """Return the signature of values read under a stamp, beside a semantic layer and a scan of these signatures."""
    return hash_of((stamp, layer, scan))


def scan_signature(root: Path | None, connection: str) -> str:
    """Return the size and time of what lists the last scan of a connection, empty where there was none."""
    folder, _, name = snapshot_path(connection).rpartition("/")
    return signatures_below(root, folder, (name,)).get(f"{folder}/{name}", "")


def hash_of(parts: Iterable[str]) -> str:
    """Return one hash of several texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def stray_signatures(root: Path, configured: Collection[str]) -> dict[str, str]:
    """Return path -> `size mtime_ns` of the files in `semantic-layer/` outside the folders of all connections.

    `configured`: the ids of these. Raises `StorageError` for a folder that cannot be listed.
    """
    found = {}
    for path in stray_paths(WorkingTree(root), configured):
        try:
            stat = (root / path).stat()
        except OSError:  # a link that leads nowhere
            found[escaped(path)] = "0 0"
        else:
            found[escaped(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return found


def signatures_below(
    root: Path | None, folder: str, endings: tuple[str, ...], *, irregular: bool = False
) -> dict[str, str]:
    """Return path -> `size mtime_ns` of the files in a folder and below that have one of some endings.

    `irregular`: what is no file counts too, such as a folder or a link that leads nowhere. Links to folders are not
    followed, and names that are not UTF-8 are passed over. Raises `StorageError` for a folder that cannot be read.
    """
    found: dict[str, str] = {}
    folders = [folder]
    while root is not None and folders:
        here = folders.pop()
        try:
            with os.scandir(root / here) as entries:
                for entry in entries:
                    if not is_utf8(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{here}/{entry.name}")
                    if irregular and entry.name.endswith(endings) and not entry.is_file():
                        found[f"{here}/{entry.name}"] = "0 0"
                    elif entry.name.endswith(endings) and entry.is_file():
                        found[f"{here}/{entry.name}"] = _signature(entry)
        except (FileNotFoundError, NotADirectoryError):  # there is none
            continue
        except OSError as error:
            raise storage_error(root / here, error, "read") from error
    return {path: signature for path, signature in found.items() if signature}


def _signature(entry: os.DirEntry[str]) -> str:
    try:
        stat = entry.stat()
    except FileNotFoundError:  # it went while the folder was read
        return ""
    return f"{stat.st_size} {stat.st_mtime_ns}"
