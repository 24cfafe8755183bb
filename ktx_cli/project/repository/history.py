"""Committed content as git reads it: names, bytes, their conversion, file history, and missing files."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import struct
import tempfile
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import GitError
from ktx_cli.project.files import can_read, read_bytes
from ktx_cli.project.git import Git, unreadable
from ktx_cli.project.repository.index import IndexView, read_index
from ktx_cli.project.repository.model import Held, HeldReason, TreeEntry, commit_of, decode, encode, joined, read_config
from ktx_cli.project.repository.working_files import naming, obstacle, signature_of

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import GitConfig, RepositoryLayout


class TreeView:
    """The project's files in a commit; empty for an unborn branch.

    Paths are relative to the project. Only regular files count: symbolic links and submodules are not content. Contents
    are as git stores them, so without the `\\r` that a checkout may add. Safe to use from several threads.
    """

    def __init__(self, git: Git, prefix: str, commit: str | None) -> None:
        self.commit = commit
        self._git = git
        self._prefix = prefix
        self._folders: dict[str, Mapping[str, TreeEntry]] = {}

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""
        entry = self._entry(path)
        return _stored(self._git, entry.oid)[1] if entry is not None and entry.is_file else None

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content of the files that exist."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def id_of(self, path: str) -> str | None:
        """Return the id of a file or folder, or None if there is none; the id differs if anything in it differs."""
        entry = self._entry(path)
        return None if entry is None else entry.oid

    def blobs(self, prefix: str = "") -> dict[str, str]:
        """Return path -> blob id for all files below a folder (`""`: all), sorted by path."""
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        if start and "entries" not in vars(self):  # other folders are not listed
            folder = self._entry(start[:-1])
            below = self._below(folder.oid, start) if folder is not None and folder.mode == _FOLDER else ()
            return {path: entry.oid for path, entry in sorted(below) if entry.is_file}
        found = {}
        for path in self._names[bisect_left(self._names, start) :]:
            if not path.startswith(start):
                break
            if self.entries[path].is_file:
                found[path] = self.entries[path].oid
        return found

    def has_folder(self, path: str) -> bool:
        """Return whether anything exists below `path`."""
        start = path + "/"
        position = bisect_left(self._names, start)
        return position < len(self._names) and self._names[position].startswith(start)

    @cached_property
    def entries(self) -> Mapping[str, TreeEntry]:
        """Everything that the commit contains for the project: files, symbolic links, submodules."""
        found = self._listed_in(self._prefix.rstrip("/"))
        return {path: entry for name in found for path, entry in self._found(found[name], name)}

    def _entry(self, path: str) -> TreeEntry | None:
        """Return the entry of a file or folder; lists only the folders on the way, each once."""
        if "entries" in vars(self) and path in self.entries:
            return self.entries[path]
        folder, _, name = f"{self._prefix}{path}".rpartition("/")
        return self._listed_in(folder).get(name)

    def _listed_in(self, folder: str) -> Mapping[str, TreeEntry]:
        """Return the direct entries of a repository folder; empty if the commit does not have the folder."""
        if self.commit is None:
            return {}
        if folder not in self._folders:
            above, _, name = folder.rpartition("/")
            found = self._listed_in(above).get(name) if folder else TreeEntry(_FOLDER, f"{self.commit}^{{tree}}")
            is_folder = found is not None and found.mode == _FOLDER
            self._folders[folder] = dict(_listed(self._git, found.oid)) if found is not None and is_folder else {}
        return self._folders[folder]

    def _found(self, entry: TreeEntry, path: str) -> Iterator[tuple[str, TreeEntry]]:
        if entry.mode == _FOLDER:
            yield from self._below(entry.oid, f"{path}/")
        else:
            yield path, entry

    def _below(self, tree: str, start: str) -> Iterator[tuple[str, TreeEntry]]:
        for name, entry in _listed(self._git, tree):
            yield from self._found(entry, start + name)

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.entries)


_FOLDER: Final = "040000"


def _stored(git: Git, name: str) -> tuple[str, bytes]:
    """Return the id and content of an object; raises `GitError` if the repository does not have it."""
    found = git.object(name)
    if found is None:
        raise unreadable(git, name)
    return found[0], found[2]


def _listed(git: Git, tree: str) -> Iterator[tuple[str, TreeEntry]]:
    """Yield the direct entries of a tree: each is `<mode> <name>`, NUL, and the id as bytes."""
    oid, content = _stored(git, tree)
    at, width = 0, len(oid) // 2
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + width
        yield decode(name), TreeEntry(_canonical(int(mode, 8)), content[end + 1 : at].hex())


def _canonical(mode: int) -> str:
    """Return the mode as git shows it: odd permissions of old commits are reduced to whether a file is executable."""
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return f"{stat.S_IFMT(mode):06o}"


_ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
_OFF = ("unspecified", "unset")


@dataclass(frozen=True, slots=True)
class Blob:
    """An object of content: its id and its bytes, or None if the object is already stored."""

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
    """Turns contents of given paths into blobs, and blobs into the bytes on disk, as git itself would.

    Contents are what a program reads and writes: UTF-8 text, before a path's filter driver. Paths are full (relative to
    the top level).
    """

    def __init__(self, git: Git, config: GitConfig, object_format: str, paths: Iterable[str]) -> None:
        self._git = git
        self._object_format = object_format
        self._rules = _read_rules(git, config, list(paths))

    def is_filtered(self, path: str) -> bool:
        """Return whether a filter driver converts between the stored content and the content on disk."""
        return self._rules[path].filtered

    def blob(self, path: str, content: bytes) -> Blob:
        """Return the object that git would create for `content` at `path`."""
        rules = self._rules[path]
        if rules.encoded:  # ktx's content is already UTF-8, only the file on disk has the other encoding
            content = content.replace(b"\r\n", b"\n") if rules.line_ends else content
        elif rules.filtered or (rules.line_ends and b"\r" in content) or (rules.ident and b"$Id" in content):
            return Blob(self.stored(path, content), None)
        return Blob(object_id(content, self._object_format), content)

    def stored(self, path: str, on_disk: bytes) -> str:
        """Store the bytes of a file at `path` as git would, and return the id of the object."""
        if self._rules[path].plain:
            return object_id(on_disk, self._object_format)
        output = self._git.write("hash-object", "-w", "--stdin", b"--path=" + encode(path), stdin=on_disk)
        return output.out.decode("ascii").strip()

    def on_disk(self, blobs: Mapping[str, Blob]) -> dict[str, bytes]:
        """Return path -> the bytes on disk. The blobs must be stored."""
        plain = {path: blob.data for path, blob in blobs.items() if self._rules[path].plain}
        found = {path: data for path, data in plain.items() if data is not None}
        unread = {path: blob.oid for path, blob in blobs.items() if path not in found}
        return found | smudged(self._git, unread)


def object_id(content: bytes, object_format: str, kind: str = "blob") -> str:
    """Return the id of an object with that content."""
    digest = hashlib.new(object_format, b"%s %d\0" % (kind.encode("ascii"), len(content)), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


Objects = dict[str, tuple[str, bytes]]
"""Objects to store: id -> type and content."""


def changed_tree(
    git: Git, object_format: str, tree: str | None, changes: Mapping[str, TreeEntry | None], objects: Objects
) -> str | None:
    """Return the id of a tree (None: an empty one) with changed entries; None if nothing is left in it.

    Its new objects, and those of the trees below it, are added to `objects`.
    """
    listed = {} if tree is None else dict(_listed(git, tree))
    own = {path: entry for path, entry in changes.items() if "/" not in path}
    below: dict[str, dict[str, TreeEntry | None]] = {}
    for path, entry in changes.items():
        folder, slash, rest = path.partition("/")
        if slash:
            below.setdefault(folder, {})[rest] = entry
    for name, entry in own.items():
        if entry is None and name in listed and listed[name].mode != _FOLDER:
            del listed[name]
    for name, inner in below.items():
        known = listed.pop(name, None)
        if known is not None and known.mode != _FOLDER:
            if any(inner.values()):
                raise GitError(f"{name!r} is a folder of another path, but not a folder in {git.folder}")
            listed[name] = known
        elif oid := changed_tree(git, object_format, None if known is None else known.oid, inner, objects):
            listed[name] = TreeEntry(_FOLDER, oid)
    for name, entry in own.items():
        if entry is not None:
            if name in listed and listed[name].mode == _FOLDER:
                raise GitError(f"{name!r} cannot be a file: it is a folder in {git.folder}")
            listed[name] = entry
    return add_tree(object_format, listed, objects) if listed else None


def add_tree(object_format: str, listed: Mapping[str, TreeEntry], objects: Objects) -> str:
    """Add the tree with these entries; git sorts a folder as if its name ended with a slash."""
    lines = {
        encode(f"{name}/" if entry.mode == _FOLDER else name): b"%s %s\0%s"
        % (entry.mode.lstrip("0").encode("ascii"), encode(name), bytes.fromhex(entry.oid))
        for name, entry in listed.items()
    }
    content = b"".join(lines[key] for key in sorted(lines))
    oid = object_id(content, object_format, "tree")
    objects[oid] = ("tree", content)
    return oid


_TYPES: Final = {"tree": 2, "blob": 3}
_LOOSE: Final = 100
"""Number of objects at which they stay in a pack, like those from a fetch (`fetch.unpackLimit`)."""


def store_objects(git: Git, layout: RepositoryLayout, objects: Objects) -> None:
    """Store objects with one process that touches no ref; it reads them as a pack from an anonymous file."""
    with naming(layout.git_dir), tempfile.TemporaryFile(dir=layout.git_dir) as stream:
        digest = hashlib.new(layout.object_format, usedforsecurity=False)
        for part in _pack(objects):
            stream.write(part)
            digest.update(part)
        stream.write(digest.digest())
        stream.seek(0)
        git.write(*(("unpack-objects", "-q") if len(objects) < _LOOSE else ("index-pack", "--stdin")), stdin=stream)


def _pack(objects: Objects) -> Iterator[bytes]:
    """Yield a pack without its checksum: for each object, type and size in groups of bits, then deflated content."""
    yield b"PACK" + struct.pack(">II", 2, len(objects))
    for kind, content in objects.values():
        head, bits, size = bytearray(), _TYPES[kind] << 4 | len(content) & 15, len(content) >> 4
        while size:
            head.append(bits | 128)
            bits, size = size & 127, size >> 7
        yield bytes((*head, bits))
        yield zlib.compress(content, 1)


def smudged(git: Git, oids: Mapping[str, str]) -> dict[str, bytes]:
    """Return path -> the bytes that a checkout would write to disk for that blob.

    The size that `cat-file --batch` prints is the stored one, so the answers are separated by a question about an
    object that cannot exist. Paths that its line format cannot represent are queried one by one.
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
    output = git.read("cat-file", "--batch=%(objectname)", "--filters", stdin=questions)
    answers = output.out.split(b"\n" + mark + b" missing\n")[:-1]
    if len(answers) != len(batched):
        raise GitError(f"git returned {len(answers)} of {len(batched)} converted contents in {git.folder}")
    for (path, oid), answer in zip(batched.items(), answers, strict=True):
        header, _, content = answer.partition(b"\n")
        if header.decode("ascii", "replace") != oid:
            raise GitError(f"cannot read the object {oid} of {path!r} in {git.folder}")
        found[path] = content
    return found


def _read_rules(git: Git, config: GitConfig, paths: list[str]) -> dict[str, _Rules]:
    output = git.read("check-attr", "-z", "--stdin", *_ATTRIBUTES, stdin=joined(paths))
    fields = output.out.split(b"\0")[:-1]
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


def absent_paths(git: Git, layout: RepositoryLayout, committed: Iterable[str]) -> list[Held]:
    """Return which committed paths are not readable files, and why; `skip_worktree`: a sparse checkout.

    Inspects each file once; reads the index only if one is missing. Names a missing folder instead of its files.
    """
    gone = [path for path in committed if not can_read(layout.project_dir / path)]
    if not gone:
        return []
    index = read_index(git, layout)
    held = {}
    for path in gone:
        reason = _reason(layout.project_dir, path, index)
        if reason is not None:
            shown = _outermost(layout.project_dir, path)
            held[shown, reason] = Held(shown, reason)
    return sorted(held.values(), key=lambda found: found.path)


def _reason(project_dir: Path, path: str, index: IndexView) -> HeldReason | None:
    found = signature_of(project_dir / path)
    blocked = obstacle(project_dir, path, found, {})
    if blocked is not None or found is not None:
        return blocked
    if path in index.unmerged:
        return HeldReason.UNMERGED
    entry = index.entries.get(path)
    if entry is None:
        return HeldReason.STAGED
    return HeldReason.SKIP_WORKTREE if entry.skip_worktree else HeldReason.DELETED


def _outermost(project_dir: Path, path: str) -> str:
    """Return the outermost missing folder above a path, else the path."""
    folder = path.rpartition("/")[0]
    while folder and not os.path.lexists(project_dir / folder):
        path, folder = folder, folder.rpartition("/")[0]
    return path


_FIELDS: Final = {b"1": 8, b"u": 10, b"?": 1}
"""Number of fields before the path, by line type."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The branch (None: a detached HEAD), its upstream, how many commits are only on one of them (None: no upstream),

    and what is not committed.
    """

    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()


def working_changes(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> Changes:
    """Return the branch, and which of some files and folders differ from the last commit, including new ones.

    A new folder is named instead of its files. Paths are relative to the project. The index is not refreshed, and no
    filter is run, because both could write: a touched file with a filter counts as changed.
    """
    options = (
        "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all",
    )  # fmt: skip
    names = (encode(f"{layout.prefix}{path}") for path in paths)
    output = git.read("status", *options, "--", *names, variables=_without_filters(git))
    facts: dict[str, str] = {}
    found: list[str] = []
    for line in output.out.split(b"\0"):
        kind = line[:1]
        if line.startswith(b"# branch."):
            name, _, value = decode(line[9:]).partition(" ")
            facts[name] = value
        elif kind in _FIELDS:
            found.append(decode(line.split(b" ", _FIELDS[kind])[-1]).removeprefix(layout.prefix))
    ahead, _, behind = facts.get("ab", "").partition(" ")
    head = facts.get("head")
    return Changes(
        branch=None if head == "(detached)" else head,
        upstream=facts.get("upstream"),
        ahead=int(ahead) if ahead else None,
        behind=-int(behind) if behind else None,
        uncommitted=tuple(sorted(found)),
    )


def _without_filters(git: Git) -> dict[str, str]:
    """Return the variables that keep git from running filter drivers."""
    filters = sorted(read_config(git).filters())
    settings = [
        (f"filter.{name}.{key}", value)
        for name in filters
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


DECIDED_BY: Final = "Ktx-Decided-By"
"""The trailer of a commit that ktx makes on behalf of a person, so that it counts as that person's decision."""

_TRAILERS: Final = tuple(f"%(trailers:key={key},valueonly,separator=%x2C)" for key in ("Ktx-Run", DECIDED_BY))
_FACTS: Final = "%x01".join(("%H", "%cs", "%ae", "%an", "%P", *_TRAILERS))
_RECORD: Final = re.compile(rb"\x01([0-9a-f]{40,64}) (\d{4}-\d\d-\d\d)(?:\n|\0|\Z)")


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest commit that changed a file, and its date. `cut_off`: a shallow clone ends there, so
    it may be older.
    """

    commit: str
    day: str
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class FileCommit:
    """A commit of the main line (first parents) that changed a file, and the file's content in it.

    `run`: the id of the ktx run that made it, None for a commit of a person. `merged`: whether it is a merge. `content`
    None: the commit removed the file.
    """

    commit: str
    day: str
    author: str
    email: str
    run: str | None
    merged: bool
    content: bytes | None


_CHANGE: Final = re.compile(rb"\x02([0-9a-f]{40,64}\x01[^\x02]*)\x02")
_MANY: Final = 20
"""Number of files at which the history of their folder is read instead of one file after the other."""


def _file_commit(fields: Sequence[str], content: bytes | None) -> FileCommit:
    commit, day, email, author, parents, run, decided = fields
    own = None if decided.strip() else run.strip() or None
    return FileCommit(commit, day, author, email, own, len(parents.split()) > 1, content)


_CHECKERS: Final = {"gpg.openpgp.program": "gpg", "gpg.x509.program": "gpgsm", "gpg.ssh.program": "ssh-keygen"}
"""The settings that name the programs for checking a signature, with git's defaults."""


class History:
    """The history of a commit, as seen from the project folder."""

    def __init__(self, git: Git, layout: RepositoryLayout, commit: str | None) -> None:
        self.commit = commit
        self._git, self._layout = git, layout

    def before(self, commit: str) -> History:
        """Return the history up to a commit's first parent; the history of the root commit is empty."""
        return History(self._git, self._layout, commit_of(self._git, f"{commit}^"))

    def tree(self) -> TreeView:
        """Return the project's files as contained in the commit."""
        return TreeView(self._git, self._layout.prefix, self.commit)

    def last_changes(self, folder: str) -> dict[str, LastChange]:
        """Return path -> its last change, for every file that ever existed below a folder."""
        if self.commit is None:
            return {}
        where = f"{self._layout.prefix}{folder}"
        wanted = ("--format=format:%x01%H %cs", "--name-only", "--no-renames", "--no-show-signature", "-z")
        output = self._git.read("log", *wanted, self.commit, "--", where).out
        ends = self._boundaries()
        found: dict[str, LastChange] = {}
        _, *parts = _RECORD.split(output)
        for commit, day, names in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            change = LastChange(commit.decode(), day.decode(), commit.decode() in ends)
            for path in filter(None, names.split(b"\0")):
                found.setdefault(decode(path[len(encode(self._layout.prefix)) :]), change)
        return found

    def of_file(self, path: str, most: int) -> list[FileCommit]:
        """Return the main-line commits that changed a file, newest first and at most `most`.

        A branch that was merged counts as its merge commit.
        """
        if self.commit is None:
            return []
        wanted = ("--first-parent", "--no-renames", "--no-show-signature", f"--max-count={most}", "-z")
        output = self._git.read(
            "log", f"--format=format:{_FACTS}", *wanted, self.commit, "--", f"{self._layout.prefix}{path}"
        ).out
        records = [decode(each).split("\x01") for each in output.split(b"\0") if each]
        contents = self._contents([f"{fields[0]}:{self._layout.prefix}{path}" for fields in records])
        return [_file_commit(fields, content) for fields, content in zip(records, contents, strict=True)]

    def of_files(self, folder: str, paths: Collection[str], most: int) -> Iterator[tuple[str, list[FileCommit]]]:
        """Yield files below a folder with their commits; see `of_file`. Git reads the history of all at once."""
        if self.commit is None or len(paths) < _MANY:
            yield from ((path, self.of_file(path, most)) for path in paths)
            return
        prefix = self._layout.prefix
        wanted = ("--first-parent", "-m", "--name-only", "--no-renames", "--no-show-signature", "-z")
        output = self._git.read("log", f"--format=format:%x02{_FACTS}%x02", *wanted, self.commit, "--", prefix + folder)
        commits: dict[str, list[list[str]]] = {path: [] for path in paths}
        _, *parts = _CHANGE.split(output.out)
        for facts, names in zip(parts[::2], parts[1::2], strict=True):
            fields = decode(facts).split("\x01")
            for name in names.strip(b"\n\0").split(b"\0"):
                known = commits.get(decode(name).removeprefix(prefix))
                if known is not None and len(known) < most:
                    known.append(fields)
        for path, records in commits.items():
            contents = (self._git.object(f"{fields[0]}:{prefix}{path}") for fields in records)
            read = (each[2] if each is not None and each[1] == "blob" else None for each in contents)
            yield path, [_file_commit(fields, content) for fields, content in zip(records, read, strict=True)]

    def _contents(self, names: Collection[str]) -> Iterator[bytes | None]:
        """Yield the content of each object, or None if it does not exist or is not a file."""
        output = self._git.read("cat-file", "--batch", stdin=b"".join(encode(name) + b"\n" for name in names)).out
        position = 0
        for _ in names:
            end = output.index(b"\n", position)
            facts = output[position:end].rsplit(b" ", 2)
            position = end + 1
            if len(facts) < 3 or not facts[2].isdigit():
                yield None
                continue
            size = int(facts[2])
            yield output[position : position + size] if facts[1] == b"blob" else None
            position += size + 1

    def has_good_signature(self, commit: str) -> bool:
        """Whether a commit's signature is valid and made with a key that this machine's git trusts."""
        return self._git.read(*self._checkers, "log", "-1", "--format=%G?", commit).out.strip() == b"G"

    @cached_property
    def _checkers(self) -> list[str]:
        """The git options that make git use this user's signature programs, never one that the repository names."""
        known = dict(_CHECKERS)
        asked = ("config", "--null", "--show-scope", "--get-regexp", r"^gpg\.(.*\.)?program$")
        words = decode(self._git.read(*asked, ok=(0, 1)).out).split("\0")
        for scope, setting in zip(words[::2], words[1::2], strict=False):
            key, _, program = setting.partition("\n")
            if scope in ("system", "global") and program:
                known["gpg.openpgp.program" if key == "gpg.program" else key] = program
        return [part for key, program in known.items() for part in ("-c", f"{key}={program}")]

    def states(self, commits: Collection[str], folder: str) -> dict[str, str]:
        """Return commit -> the id of a folder in it, omitting commits without the folder. Equal ids: equal files."""
        ordered = sorted(commits)
        asked = b"".join(encode(f"{commit}:{self._layout.prefix}{folder}") + b"\n" for commit in ordered)
        output = self._git.read("cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=asked).out.splitlines()
        facts = zip(ordered, (line.split() for line in output), strict=True)
        return {commit: words[1].decode() for commit, words in facts if words[0] == b"tree"}

    def _boundaries(self) -> frozenset[str]:
        text = read_bytes(self._layout.common_dir / "shallow") or b""
        return frozenset(text.decode("ascii", "replace").split())
