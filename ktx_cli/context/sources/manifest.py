"""`raw-sources/<connection>/<kind>/manifest.yaml`: what of a source was worked through, committed with what came of it.

The next run compares with it, on any clone. A file whose work failed is in it with its status, and counts as new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from ktx_cli.context.sources.model import Changes, Snapshot
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.layout import Layout

NAME: Final = "manifest.yaml"
_HEADER: Final = "# Written by ktx: the files of this source as they were when the context was made from them.\n"
_FORMAT: Final = 1


class FileStatus(StrEnum):
    """What became of a raw file.

    `failed`: its work did not land, so it counts as new. `waiting`: no model has read it, so it counts as new once
    there is one. `skipped`: it was found not to be worth work.
    """

    DONE = "done"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FileState:
    """A raw file as it was worked through. `artifacts`: what came of it, such as `wiki:refunds`, sorted."""

    sha256: str
    status: FileStatus = FileStatus.DONE
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a source by path, and what of project files is the source's own (see `sources.owned`).

    `projected`: a digest of all that the last projection read, empty where it has to be made again.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    owned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    projected: str = ""

    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """Return artifact -> the raw files it came of, sorted."""
        found: dict[str, list[str]] = {}
        for path, state in self.files.items():
            for artifact in state.artifacts:
                found.setdefault(artifact, []).append(path)
        return {artifact: tuple(sorted(paths)) for artifact, paths in sorted(found.items())}


def manifest_path(connection: str, kind: str) -> str:
    """Return where the manifest of a source is."""
    return Layout.raw_path(connection, kind, NAME)


def parse_manifest(content: bytes | None, where: str) -> Manifest:
    """Return the manifest, an empty one for None; raises `ConfigError` for a text that is none."""
    if content is None:
        return Manifest()
    document = yaml.load(content, where=where)
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        raise ConfigError(
            f"{where} is no manifest this version of ktx can read",
            hint=f"take it from an earlier commit, or delete {where}: then everything of the source is read anew",
        )
    files = document.get("files") or {}
    owned = document.get("owned") or {}
    try:
        states = {path: _state(value) for path, value in files.items()}
        return Manifest(states, {**owned}, str(document.get("projected", "")))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{where} has an entry that is no state of a file", hint=f"take {where} from an earlier commit"
        ) from None


def render_manifest(manifest: Manifest) -> bytes:
    """Return the text of a manifest: the same for the same states."""
    document: dict[str, Any] = {
        "version": _FORMAT,
        "files": {path: _entry(manifest.files[path]) for path in sorted(manifest.files)},
    }
    if manifest.owned:
        document["owned"] = {path: dict(sorted(items.items())) for path, items in sorted(manifest.owned.items())}
    if manifest.projected:
        document["projected"] = manifest.projected
    return (_HEADER + yaml.dump(document)).encode()


def compare(manifest: Manifest, snapshot: Snapshot, *, model: bool) -> Changes:
    """Return what changed; `model`: whether one reads the files. An incomplete snapshot deletes nothing."""
    found: dict[str, list[str]] = {each.name: [] for each in fields(Changes)}
    for path, file in snapshot.files.items():
        found[_change(manifest.files.get(path), file.sha256, model=model)].append(path)
    if snapshot.complete:
        found["deleted"] += [path for path in manifest.files if path not in snapshot.files]
    return Changes(**{name: tuple(sorted(paths)) for name, paths in found.items()})


def _change(state: FileState | None, sha256: str, *, model: bool) -> str:
    """Return which of the changes a file is, by its state as it was worked through."""
    if state is None:
        return "added"
    if state.sha256 != sha256:
        return "modified"
    if state.status is FileStatus.FAILED:
        return "retried"
    return "unread" if model and state.status is FileStatus.WAITING else "unchanged"


def _state(value: Mapping[str, Any]) -> FileState:
    return FileState(str(value["sha256"]), FileStatus(value.get("status", "done")), tuple(value.get("artifacts") or ()))


def _entry(state: FileState) -> dict[str, Any]:
    entry: dict[str, Any] = {"sha256": state.sha256, "status": state.status.value}
    return entry | ({"artifacts": sorted(state.artifacts)} if state.artifacts else {})
