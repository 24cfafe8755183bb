"""Files in a folder on disk or in a git repository, as a source's raw files.

In a repository, only committed files are read, directly from the git objects: nothing is checked out. Links are not
followed; submodules and LFS files are reported as skipped.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core import (
    CancelledError,
    Command,
    ConfigError,
    Hint,
    ResultWarning,
    SettingPath,
    SourceError,
    StorageError,
)
from ktx_cli.documents import RawFile, Skipped, Snapshot
from ktx_cli.project import CONFIG_NAME, OWN_NAMES, read_bytes, storage_error
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.git_cache import Address, Copy, Entry, Remote, look_at, open_copy, parse_address
from ktx_cli.sources.port import FetchContext

MAX_BYTES: Final = 5_000_000
"""The maximum size of a file, unless a source sets a different one."""

LEFT_OUT: Final = frozenset({"node_modules", "dbt_packages", "dbt_modules", "logs", "__pycache__", "venv"})
"""Folders for packages and tool output, in addition to hidden folders."""

_LFS: Final = b"version https://git-lfs.github.com/spec/"

Wanted = Callable[[str], int]
"""Takes a path and returns the maximum number of bytes to read from it, or 0 if it is not needed."""


@dataclass(frozen=True, slots=True)
class Guided:
    """A selection of files that depends on the content of some files, such as `dbt_project.yml`.

    `is_guide` takes a path. `wanted` takes the contents of all guides, by path.
    """

    is_guide: Callable[[str], bool]
    wanted: Callable[[Mapping[str, bytes]], Wanted]


Lack = Callable[[str, Iterable[str]], ConfigError | None]
"""Takes a location and the paths in it, and returns the problem if a required file is missing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The location of a source's files from `ktx.yaml`: a `folder`, or the `url` of a repository.

    `path`: a folder in the repository. `token`: a secret reference or the token itself. `where`: the connection in
    `ktx.yaml`, for errors. `keys`: the names of its settings there, if different.
    """

    where: str
    folder: str | None = None
    url: str | None = None
    branch: str | None = None
    path: str | None = None
    token: str | None = None
    url_key: str = "repo_url"
    folder_key: str = "source_dir"


def fetch_files(origin: Origin, context: FetchContext, wanted: Wanted | Guided) -> Snapshot:
    """Return the selected files, but never those that ktx itself keeps in a project.

    Raises `ConfigError` for settings whose target does not exist, `RepositoryUnreachableError`,
    `RepositoryDeniedError`, `BranchMissingError`, `SecretError`, `StorageError`, `CancelledError`.
    """
    folder = _folder(origin, context)
    if folder is not None:
        return _from_folder(folder, context, wanted)
    return _from_repository(_address(origin, context), origin, context, wanted)


def check_files(origin: Origin, context: FetchContext, lack: Lack | None = None) -> str:
    """Return a one-line description of where the files are, without reading them. Raises the errors of `fetch_files`.

    In a folder on disk, the names are checked, and missing files are an error.
    """
    folder = _folder(origin, context)
    if folder is not None:
        error = lack and lack(str(folder), (path for path, _ in _walk(folder)))
        if error:
            raise error
        return f"folder {folder}"
    address = _address(origin, context)
    inner_path(origin.path, origin.where)
    branch, commit = look_at(_remote(address, origin, context), context.environ)
    return f"{address.url} ({branch}, {commit[:10]})"


def _folder(origin: Origin, context: FetchContext) -> Path | None:
    """Return the folder on disk, or None for a repository."""
    if origin.folder:
        return _below(context.layout.root / Path(origin.folder).expanduser(), origin)
    path = _address(origin, context).path
    return None if path is None or _is_repository(path) else _below(path, origin)


def _address(origin: Origin, context: FetchContext) -> Address:
    return parse_address(origin.url or "", base=context.layout.root, where=f"`{origin.where}.{origin.url_key}`")


def _is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def inner_path(path: str | None, where: str) -> str:
    """Return the normalized path of a folder in a repository, or an empty string for the root. Raises `ConfigError`."""
    parts = [part for part in (path or "").replace("\\", "/").split("/") if part not in ("", ".")]
    if (path or "").startswith(("/", "~")) or ".." in parts or any(not part.isprintable() for part in parts):
        raise ConfigError(
            f"`{where}.path` is outside the repository", hint="use a folder inside it, for example `transform`"
        )
    return "/".join(parts)


def _below(folder: Path, origin: Origin) -> Path:
    """Return the folder to read, which must be inside the base even after resolving links."""
    inner = inner_path(origin.path, origin.where)
    base = folder.resolve()
    found = (base / inner).resolve()
    key = origin.folder_key if origin.folder else origin.url_key
    if not found.is_relative_to(base):
        raise ConfigError(
            f"`{origin.where}.path` is outside {base}", hint="use a folder inside it, for example `transform`"
        )
    if not found.is_dir():
        hint = Hint("correct {}", SettingPath(f"{origin.where}.{key}"))
        raise SourceError(f"folder {found} does not exist", hint=hint, details={"path": str(found)})
    return found


def _from_folder(folder: Path, context: FetchContext, choice: Wanted | Guided) -> Snapshot:
    files: dict[str, RawFile] = {}
    skipped: list[Skipped] = []
    places = list(_walk(folder))
    wanted = choice if not isinstance(choice, Guided) else choice.wanted(_guides_of(folder, places, choice))
    for path, place in places:
        _look_up(context)
        limit = wanted(path)
        if not limit:
            continue
        reason = _why_not(folder, path, place, limit)
        content = None if reason else read_bytes(place)
        if content is None:
            skipped.append(Skipped(_shown(path), reason or "it no longer exists", retry=reason is None))
        else:
            files[path] = RawFile(path, hashlib.sha256(content).hexdigest(), len(content), _reader(place))
    return _snapshot(files, skipped, context, origin=str(folder))


def _guides_of(folder: Path, places: Iterable[tuple[str, Path]], choice: Guided) -> dict[str, bytes]:
    readable = (each for each in places if choice.is_guide(each[0]) and _why_not(folder, *each, MAX_BYTES) is None)
    contents = ((path, read_bytes(place)) for path, place in readable)
    return {path: content for path, content in contents if content is not None}


def _reader(place: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        content = read_bytes(place)
        if content is None:
            raise StorageError(f"{place} no longer exists", hint=Hint("run `{}` again", Command("ingest")))
        return content

    return read


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (path, location) of all files below a folder, without linked folders and ktx's own files."""

    def refuse(error: OSError) -> None:
        raise storage_error(Path(error.filename or folder), error, "read") from error

    for name, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in LEFT_OUT)
        own = OWN_NAMES if CONFIG_NAME in names else frozenset()
        folders[:] = [each for each in folders if each not in own]
        place = Path(name)
        for each in sorted(set(names) - own):
            yield (place / each).relative_to(folder).as_posix(), place / each


def _why_not(folder: Path, path: str, place: Path, limit: int) -> str | None:
    """Return why a file is not read, or None if it can be read."""
    if place.is_symlink():
        real = Path(os.path.realpath(place))
        if not real.is_relative_to(folder):
            return "it is a link to a target outside the folder"
        if any(each.startswith(".") for each in real.relative_to(folder).parts):
            return "it is a link to a hidden file"
    try:
        found = place.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return "it is a broken link"
        raise storage_error(place, error, "read") from error
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    return _odd_name(path) or _too_large(found.st_size, limit)


def _odd_name(path: str) -> str | None:
    return None if path.isprintable() else "its name is not printable or not UTF-8"


def _shown(path: str) -> str:
    """Return a path in a form that reports can show."""
    return path.encode("utf-8", "backslashreplace").decode()


def _too_large(size: int, limit: int) -> str | None:
    return f"it has {size:,} bytes, more than the limit of {limit:,}" if size > limit else None


def _from_repository(address: Address, origin: Origin, context: FetchContext, choice: Wanted | Guided) -> Snapshot:
    inner = inner_path(origin.path, origin.where)
    remote = _remote(address, origin, context)
    _look_up(context)
    copy = open_copy(remote, context.cache_folder, context.connection, context.environ)
    entries = copy.entries(inner)
    if inner and not entries:
        hint = Hint("correct {}", SettingPath(f"{origin.where}.path"))
        raise ConfigError(f"{address.url} has no folder `{inner}` on branch `{copy.branch}`", hint=hint)
    _look_up(context)
    entries = _without_own(entries)
    wanted = choice if not isinstance(choice, Guided) else choice.wanted(_guides_in(copy, entries, choice))
    files, skipped = _read(copy, entries, context, wanted)
    shown = f"{address.url} ({copy.branch}, {copy.commit[:10]})"
    return _snapshot(files, skipped, context, origin=shown, warnings=_token_warnings(remote))


def _without_own(entries: list[Entry]) -> list[Entry]:
    """Return the entries, except those that ktx keeps in projects among them."""
    roots = {folder for entry in entries for folder, _, name in [entry.path.rpartition("/")] if name == CONFIG_NAME}
    own = {f"{root}/{name}".lstrip("/") for root in roots for name in OWN_NAMES}
    return [entry for entry in entries if not own.intersection(_ancestry(entry.path))]


def _ancestry(path: str) -> Iterator[str]:
    """Yield a path and its parent folders."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _guides_in(copy: Copy, entries: Iterable[Entry], choice: Guided) -> dict[str, bytes]:
    guides = [
        entry
        for entry in entries
        if choice.is_guide(entry.path)
        and _is_wanted_place(entry.path)
        and not (_strange(entry.mode) or _too_large(entry.size, MAX_BYTES))
    ]
    contents = copy.contents(entry.blob for entry in guides)
    return {entry.path: contents[entry.blob] for entry in guides}


def _read(
    copy: Copy, entries: list[Entry], context: FetchContext, wanted: Wanted
) -> tuple[dict[str, RawFile], list[Skipped]]:
    skipped: list[Skipped] = []
    chosen: list[Entry] = []
    for entry in entries:
        limit = wanted(entry.path) if _is_wanted_place(entry.path) else 0
        reason = _strange(entry.mode) or _odd_name(entry.path) or _too_large(entry.size, limit)
        if limit and reason:
            skipped.append(Skipped(_shown(entry.path), reason))
        elif limit:
            chosen.append(entry)
    contents = copy.contents(entry.blob for entry in chosen)
    lfs = {entry.path for entry in chosen if contents[entry.blob].startswith(_LFS)}
    skipped += [Skipped(path, "it is stored in git LFS, which ktx does not fetch") for path in sorted(lfs)]
    kept = (entry for entry in chosen if entry.path not in lfs)
    return {entry.path: context.raw.put(entry.path, contents[entry.blob]) for entry in kept}, skipped


def _is_wanted_place(path: str) -> bool:
    return not any(part.startswith(".") or part in LEFT_OUT for part in path.split("/")[:-1])


def _strange(mode: str) -> str | None:
    """Return why an entry is not a regular file."""
    return {
        "120000": "it is a link, which ktx does not follow",
        "160000": "it is a submodule, which ktx does not fetch",
    }.get(mode)


def _remote(address: Address, origin: Origin, context: FetchContext) -> Remote:
    """Return the repository with its resolved token."""
    setting = f"{origin.where}.auth_token_ref"
    token = None
    if origin.token:
        token = resolve_secret(origin.token, project_dir=context.layout.root, environ=context.environ, where=setting)
    return Remote(address, origin.branch, token, origin.where, setting, context.layout.root)


def _token_warnings(remote: Remote) -> tuple[ResultWarning, ...]:
    address, token, setting = remote.address, remote.token, remote.token_setting
    if token and not address.is_web:
        what = f"{setting} is ignored because {address.url} is not read over HTTPS"
        return (ResultWarning("token_unused", what, hint=Hint("remove {}", SettingPath(setting))),)
    if (token or address.password) and address.is_plain:
        what = f"the token for {address.url} would be sent unencrypted"
        return (ResultWarning("token_unencrypted", what, hint="use an https:// address"),)
    return ()


def _snapshot(
    files: Mapping[str, RawFile],
    skipped: list[Skipped],
    context: FetchContext,
    *,
    origin: str,
    warnings: tuple[ResultWarning, ...] = (),
) -> Snapshot:
    ordered = {path: files[path] for path in sorted(files)}
    fetched = sum(context.previous.get(path) != file.sha256 for path, file in ordered.items())
    return Snapshot(ordered, origin=origin, fetched=fetched, skipped=tuple(skipped), warnings=warnings)


def _look_up(context: FetchContext) -> None:
    if context.stopped():
        raise CancelledError("stopped while reading the source")
