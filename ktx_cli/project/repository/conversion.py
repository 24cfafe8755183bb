"""What git does to a file's bytes on the way in and out (line ends, encodings, filters), path by path."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.core.errors import GitError, KtxError
from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import GitConfig
from ktx_cli.project.repository.paths import decode, encode, joined
from ktx_cli.project.repository.working_files import naming

_ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
_OFF = ("unspecified", "unset")


@dataclass(frozen=True, slots=True)
class Blob:
    """An object of content: its id and its bytes, or None when the object is stored already."""

    oid: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class _Rules:
    """What git does to one path."""

    filtered: bool = False
    line_ends: bool = False
    ident: bool = False
    encoded: bool = False

    @property
    def plain(self) -> bool:
        return not (self.filtered or self.line_ends or self.ident or self.encoded)


class Conversion:
    """Turns contents of given paths into blobs, and blobs into what belongs on disk, as git itself would.

    Contents are what a program reads and writes: UTF-8 text, before a path's filter driver. Paths are full
    (relative to the top level).
    """

    def __init__(self, git: Git, config: GitConfig, object_format: str, paths: Iterable[str]) -> None:
        self._git = git
        self._object_format = object_format
        self._rules = _read_rules(git, config, list(paths))

    def is_filtered(self, path: str) -> bool:
        """Say whether a filter driver stands between what is stored and what is on disk."""
        return self._rules[path].filtered

    def blob(self, path: str, content: bytes) -> Blob:
        """Return the object git would make of `content` at `path`."""
        rules = self._rules[path]
        if rules.encoded:  # our content is UTF-8 already, only the file on disk has the other encoding
            content = content.replace(b"\r\n", b"\n") if rules.line_ends else content
        elif rules.filtered or (rules.line_ends and b"\r" in content) or (rules.ident and b"$Id" in content):
            return Blob(self.stored(path, content), None)
        return Blob(object_id(content, self._object_format), content)

    def stored(self, path: str, on_disk: bytes) -> str:
        """Return the id of what git would store for the bytes of a file at `path`, after storing it."""
        if self._rules[path].plain:
            return object_id(on_disk, self._object_format)
        said = self._git.write("hash-object", "-w", "--stdin", b"--path=" + encode(path), stdin=on_disk)
        return said.out.decode("ascii").strip()

    def on_disk(self, blobs: Mapping[str, Blob]) -> dict[str, bytes]:
        """Return path -> the bytes that belong on disk. The blobs must be stored."""
        plain = {path: blob.data for path, blob in blobs.items() if self._rules[path].plain}
        found = {path: data for path, data in plain.items() if data is not None}
        unread = {path: blob.oid for path, blob in blobs.items() if path not in found}
        return found | smudged(self._git, unread)


def object_id(content: bytes, object_format: str) -> str:
    """Return the id of a blob with that content."""
    digest = hashlib.new(object_format, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def store_blobs(git: Git, git_dir: Path, contents: Iterable[bytes]) -> None:
    """Store blobs by one `fast-import` that touches no ref.

    It reads from an anonymous file, not a pipe: a stream that is cut off when ktx is killed would make it leave a
    crash report in the git directory. The one it leaves on a full disk is removed.
    """
    with naming(git_dir), tempfile.TemporaryFile(dir=git_dir) as stream:
        for content in contents:
            stream.write(b"blob\ndata %d\n" % len(content) + content + b"\n")
        stream.write(b"done\n")
        stream.seek(0)
        try:
            git.write("fast-import", "--quiet", "--done", stdin=stream)
        except KtxError as error:
            (git_dir / f"fast_import_crash_{error.details.get('pid')}").unlink(missing_ok=True)
            raise


def smudged(git: Git, oids: Mapping[str, str]) -> dict[str, bytes]:
    """Return path -> the bytes a checkout would put on disk for that blob.

    The size `cat-file --batch` prints is the stored one, so the answers are told apart by a question about an
    object that cannot exist. Paths its line format cannot carry are asked one by one.
    """
    batched = {path: oid for path, oid in oids.items() if "\n" not in path and path[:1] not in (" ", "\t")}
    found = {}
    for path in oids.keys() - batched.keys():
        found[path] = git.read("cat-file", "--filters", b"--path=" + encode(path), oids[path]).out
    if not batched:
        return found
    mark = f"none-{secrets.token_hex(16)}".encode("ascii")
    questions = b"".join(
        oid.encode("ascii") + b" " + encode(path) + b"\n" + mark + b" x\n" for path, oid in batched.items()
    )
    said = git.read("cat-file", "--batch=%(objectname)", "--filters", stdin=questions)
    answers = said.out.split(b"\n" + mark + b" missing\n")[:-1]
    if len(answers) != len(batched):
        raise GitError(f"git gave {len(answers)} of {len(batched)} converted contents in {git.folder}")
    for (path, oid), answer in zip(batched.items(), answers, strict=True):
        header, _, content = answer.partition(b"\n")
        if header.decode("ascii", "replace") != oid:
            raise GitError(f"the object {oid} of {path!r} cannot be read in {git.folder}")
        found[path] = content
    return found


def _read_rules(git: Git, config: GitConfig, paths: list[str]) -> dict[str, _Rules]:
    said = git.read("check-attr", "-z", "--stdin", *_ATTRIBUTES, stdin=joined(paths))
    fields = said.out.split(b"\0")[:-1]
    attributes: dict[str, dict[str, str]] = {path: {} for path in paths}
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        attributes[decode(path)][decode(name)] = decode(value)
    drivers = config.filters()
    converts_all = config.last("core.autocrlf") == "input" or config.flag("core.autocrlf", False)
    return {path: _rules(found, drivers, converts_all) for path, found in attributes.items()}


def _rules(attributes: Mapping[str, str], drivers: frozenset[str], converts_all: bool) -> _Rules:
    text = [attributes.get(name, "unspecified") for name in ("text", "crlf")]
    asked = any(value != "unspecified" for value in (*text, attributes.get("eol", "unspecified")))
    return _Rules(
        filtered=attributes.get("filter", "unspecified") in drivers,
        line_ends="unset" not in text and (asked or converts_all),
        ident=attributes.get("ident") == "set",
        encoded=attributes.get("working-tree-encoding", "unspecified") not in (*_OFF, "set"),
    )
