"""Paths as the store takes them: POSIX strings relative to the project, any bytes git allows in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktx_cli.core.errors import GitError

_GIT_NAMES = (".git", "git~1")


def encode(path: str) -> bytes:
    """Return the path as git has it; lone surrogates stand for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")


def decode(path: bytes) -> str:
    """Return the inverse of `encode`."""
    return path.decode("utf-8", "surrogateescape")


def joined(paths: Iterable[str]) -> bytes:
    """Return paths for a `-z --stdin`: each ended by NUL."""
    return b"".join(encode(path) + b"\0" for path in paths)


def full_paths(prefix: str, paths: Iterable[str]) -> list[str]:
    """Return project paths as seen from the top level, where the project lies below `prefix`."""
    return [prefix + path for path in paths]


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders above a path, outermost first: `a`, `a/b` for `a/b/c`."""
    position = path.find("/")
    while position != -1:
        yield path[:position]
        position = path.find("/", position + 1)


def check_paths(paths: Iterable[str]) -> None:
    """Raise `GitError` for a path that ktx must not write, or two of which one would have to be the other's folder."""
    known = set(paths)
    for path in known:
        reason = _objection(path)
        if reason is not None:
            raise GitError(f"ktx does not write {path!r}: {reason}", details={"path": path})


def check_folders(written: Iterable[str]) -> None:
    """Raise `GitError` when one written path would have to be the folder of another."""
    known = set(written)
    for path in known:
        for folder in ancestors(path):
            if folder in known:
                raise GitError(f"{folder!r} cannot be a file and the folder of {path!r}", details={"path": path})


def _objection(path: str) -> str | None:
    parts = path.split("/")
    if path.startswith("/"):
        return "it is not relative to the project"
    if "\0" in path:
        return "it holds a NUL character"
    if any(part in ("", ".") for part in parts):
        return "it is not a plain path of a file"
    if ".." in parts:
        return "it leaves the project"
    if any(part.casefold() in _GIT_NAMES for part in parts):
        return "it is git's own"
    if parts[0].casefold() == ".ktx" and path != ".ktx/.gitignore":
        return "what is under .ktx is never committed"
    return None
