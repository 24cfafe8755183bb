"""Reading committed content: one `ls-tree` for the names, one `cat-file --batch` process for the bytes."""

from __future__ import annotations

import subprocess
import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property

from ktx_cli.core.errors import GitError
from ktx_cli.core.text import shell_words
from ktx_cli.project.git import Git
from ktx_cli.project.repository.model import TreeEntry
from ktx_cli.project.repository.paths import decode, encode


class BlobReader:
    """Objects by id, from a process that starts with the first question and ends with this object."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def read(self, oid: str) -> bytes:
        """Return an object's content; `GitError` when the repository does not have it."""
        with self._turn:
            try:
                content = self._asked(oid)
            except BrokenPipeError:  # somebody ended the process, or the object is so damaged that git gave up
                content = self._asked_again(oid)
            if content is None:
                raise GitError(
                    f"the object {oid} cannot be read in {self._git.folder}",
                    hint=shell_words("git", "-C", self._git.folder, "fsck"),
                )
            return content

    def _asked(self, oid: str) -> bytes | None:
        """Return an object's content, None where there is no such; `BrokenPipeError` where the process is gone."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(oid.encode("ascii") + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        header = line.split()
        if line and len(header) != 3:
            return None
        content = process.stdout.read(int(header[2]) + 1) if line else b""
        if not line or len(content) != int(header[2]) + 1:
            raise BrokenPipeError
        return content[:-1]

    def _asked_again(self, oid: str) -> bytes | None:
        if self._process is not None:
            _end(self._process)
            self._process = None
        try:
            return self._asked(oid)
        except BrokenPipeError:
            return None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = self._git.start_reader("cat-file", "--batch")
            weakref.finalize(self, _end, self._process)
        return self._process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


class TreeView:
    """The project's files as a commit has them; of no commit (an unborn branch), none.

    Paths are relative to the project. Only regular files count: symbolic links and submodules are not content.
    Contents are as git stores them, so without the `\\r` a checkout may add. Safe to use from several threads.
    """

    def __init__(self, git: Git, prefix: str, commit: str | None) -> None:
        self.commit = commit
        self._git = git
        self._prefix = prefix
        self._reader = BlobReader(git)

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None where there is no such file."""
        entry = self.entries.get(path)
        return self._reader.read(entry.oid) if entry is not None and entry.is_file else None

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content of those that exist."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str = "") -> dict[str, str]:
        """Return path -> blob id of all files below a folder (`""`: all), sorted by path."""
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        found = {}
        for path in self._names[bisect_left(self._names, start) :]:
            if not path.startswith(start):
                break
            if self.entries[path].is_file:
                found[path] = self.entries[path].oid
        return found

    def has_folder(self, path: str) -> bool:
        """Say whether anything at all lies below `path`."""
        start = path + "/"
        position = bisect_left(self._names, start)
        return position < len(self._names) and self._names[position].startswith(start)

    @cached_property
    def entries(self) -> Mapping[str, TreeEntry]:
        """Everything the commit has in the project: files, symbolic links, submodules."""
        if self.commit is None:
            return {}
        where = ("--", self._prefix) if self._prefix else ()
        said = self._git.read("ls-tree", "-r", "-z", "--full-tree", self.commit, *where)
        return dict(_entry(record, len(encode(self._prefix))) for record in said.out.split(b"\0") if record)

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.entries)


def _entry(record: bytes, skipped: int) -> tuple[str, TreeEntry]:
    facts, _, path = record.partition(b"\t")
    mode, _, oid = facts.decode("ascii").split(" ")
    return decode(path[skipped:]), TreeEntry(mode, oid)
