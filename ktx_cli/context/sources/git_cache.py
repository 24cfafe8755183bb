"""Copies of repositories: bare, shallow, without a working tree, so that no hook, filter, link or submodule acts.

A copy is refreshed by one request for the branch's tip and, where that moved, a fetch of depth 1. It knows no remote:
neither address nor credentials are ever in its files. A copy that does not work is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.context.sources.git_address import PROTOCOLS, Address
from ktx_cli.context.sources.git_errors import no_branch, remote_error
from ktx_cli.core.errors import KtxError, SourceError, StorageError
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import storage_error
from ktx_cli.project.git import Answer, Git, find_git

FOLDER: Final = "repositories"
"""Where the copies are, below the cache."""

MOST_LISTED: Final = 100_000_000
"""The longest list of a repository's files, in bytes: about a million of them."""

_TIP: Final = "refs/ktx/tip"
_HEADS: Final = "refs/heads/"
_MOST_PACKS: Final = 100
"""Fetches after which a copy is made anew, because nothing else makes it smaller."""

_DROPPED: Final = ("SSH_ASKPASS", "GIT_CURL_VERBOSE", "GIT_CREDENTIAL_HELPER")
_SSH: Final = "ssh -o BatchMode=yes -o ConnectTimeout=20"


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository to copy: its address, the branch wanted (None: its own default) and the token, resolved.

    `where`: the connection in `ktx.yaml`, for errors, such as `connections.analytics`. `project_dir`: where it is asked
    from, whose programs are not run.
    """

    address: Address
    branch: str | None
    token: str | None
    where: str
    token_setting: str
    project_dir: Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a commit: `mode` as git has it, `blob` its id, `size` in bytes."""

    path: str
    mode: str
    blob: str
    size: int


class Copy:
    """The copy of one repository, at one commit."""

    def __init__(self, git: Git, folder: Path, commit: str, branch: str) -> None:
        self.commit, self.branch = commit, branch
        self._git, self._folder = git, folder

    def entries(self, below: str) -> list[Entry]:
        """Return all that is below a folder (empty: everything), paths relative to it; none where there is no such."""
        tree = f"{self.commit}:{below}" if below else f"{self.commit}^{{tree}}"
        listed = self._listed(tree, missing=(128,) if below else ())
        return [_entry(line) for line in listed.split(b"\0") if line]

    def _listed(self, tree: str, missing: tuple[int, ...]) -> bytes:
        """Return the list of a tree, empty for exit codes in `missing`; a tree of itself ten times over is not read."""
        where = ("--git-dir", str(self._folder))
        with self._git.start_reader(*where, "ls-tree", "-r", "-z", "--long", "--full-tree", tree) as process:
            assert process.stdout is not None
            try:
                listed = process.stdout.read(MOST_LISTED + 1)
                too_long = len(listed) > MOST_LISTED
            except BaseException:
                process.kill()
                raise
            if too_long:
                process.kill()
        if too_long:
            raise SourceError(
                f"the repository has more files than ktx reads: their list is longer than {MOST_LISTED:,} bytes",
                hint="read a smaller one",
            )
        if process.returncode in missing:
            return b""
        if process.returncode:
            raise StorageError(f"the copy of a repository in {self._folder} is broken", hint="run `ktx ingest` again")
        return listed

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return blob id -> content; raises `StorageError` where the copy lost one."""
        wanted = list(dict.fromkeys(blobs))
        if not wanted:
            return {}
        said = self._run("cat-file", "--batch", stdin="\n".join(wanted).encode() + b"\n").out
        found: dict[str, bytes] = {}
        position = 0
        for blob in wanted:
            end = said.find(b"\n", position)
            size = _size(said[position:end], blob)
            if size is None:
                hint = f"take it away, it is made anew: {shell_words('rm', '-r', self._folder)}"
                raise StorageError(f"the copy of a repository in {self._folder} is broken", hint=hint)
            found[blob] = said[end + 1 : end + 1 + size]
            position = end + size + 2
        return found

    def _run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> Answer:
        return self._git.read(*arguments, stdin=stdin, ok=ok, variables={"GIT_DIR": str(self._folder)})


def open_copy(remote: Remote, cache: Path, connection: str, environ: Mapping[str, str]) -> Copy:
    """Return the copy of a repository as the repository is now.

    Raises `RepositoryUnreachableError`, `RepositoryDeniedError`, `BranchMissingError`, `StorageError`,
    `GitMissingError`.
    """
    name = hashlib.sha256(remote.address.url.encode()).hexdigest()[:16]
    folder = cache / FOLDER / connection / name
    _prepare(folder)
    return _Fetch(remote, folder, environ).copy()


def look_at(remote: Remote, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the branch that would be read, and its commit; nothing is copied. Errors as `open_copy`."""
    with tempfile.TemporaryDirectory(prefix="ktx-look-") as folder:
        return _Fetch(remote, Path(folder), environ).look()


def _prepare(folder: Path) -> None:
    """Make the folder, and forget the copies of addresses the connection had before."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise storage_error(folder, error) from error


class _Fetch:
    """One refresh of one copy."""

    def __init__(self, remote: Remote, folder: Path, environ: Mapping[str, str]) -> None:
        self._remote, self._folder = remote, folder
        kept = {name: value for name, value in environ.items() if name not in _DROPPED}
        self._git = Git(find_git(environ.get("PATH"), project_dir=remote.project_dir), folder, environ=kept)
        self._header = remote.address.header(remote.token)
        self._shown = [each for each in (remote.token, self._header and self._header.rpartition(" ")[2]) if each]

    def copy(self) -> Copy:
        """Return the copy, refreshed; one that does not work is made anew."""
        branch, tip = self.look()
        if self._tip() != tip:
            self._shrink()
        try:
            return self._refresh(branch, tip)
        except (KtxError, ValueError):
            self._clear()
        try:
            return self._refresh(branch, tip)
        except ValueError as error:
            raise self._error(str(error).encode()) from None

    def look(self) -> tuple[str, str]:
        """Return the branch and its commit; raises `BranchMissingError`."""
        branch, tip, heads = self._look()
        if tip is None:
            raise no_branch(branch, heads, self._remote.address.url, f"{self._remote.where}.branch")
        return branch, tip

    def _look(self) -> tuple[str, str | None, list[str]]:
        """Return the branch, its commit (None: there is no such branch), and all branches."""
        said = self._ask("ls-remote", "--symref", "--", self._remote.address.url, "HEAD", f"{_HEADS}*")
        lines = [line.split("\t") for line in said.out.decode("utf-8", "replace").splitlines() if "\t" in line]
        heads = {name.removeprefix(_HEADS): tip for tip, name in lines if name.startswith(_HEADS)}
        default = next((ref for ref, name in lines if name == "HEAD" and ref.startswith("ref: ")), "")
        branch = self._remote.branch or default.removeprefix("ref: ").removeprefix(_HEADS) or _likely(heads)
        return branch, heads.get(branch), list(heads)

    def _refresh(self, branch: str, tip: str) -> Copy:
        if self._tip() != tip:
            self._local("init", "--quiet", "--bare", "--template=", f"--object-format={_algorithm(tip)}")
            self._ask(
                "fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
                "--", self._remote.address.url, f"+{_HEADS}{branch}:{_TIP}",
            )  # fmt: skip
        found = self._tip()
        if found is None:
            raise ValueError("the branch has no commit")
        copy = Copy(self._git, self._folder, found, branch)
        copy.entries("")  # a copy that lost objects says so here
        return copy

    def _shrink(self) -> None:
        if len(list(self._folder.glob("objects/pack/*.pack"))) >= _MOST_PACKS:
            self._clear()

    def _tip(self) -> str | None:
        """Return the commit the copy has, None where it has none that can be read."""
        if not (self._folder / "HEAD").is_file():
            return None
        said = self._local("rev-parse", "--verify", "--quiet", f"{_TIP}^{{commit}}", ok=range(256))
        return said.out.decode().strip() or None if said.code == 0 else None

    def _clear(self) -> None:
        try:
            shutil.rmtree(self._folder)
            self._folder.mkdir(mode=0o700)
        except OSError as error:
            raise storage_error(self._folder, error, "replace") from error

    def _local(self, *arguments: str, ok: Iterable[int] = (0,)) -> Answer:
        return self._git.read(*arguments, ok=tuple(ok), variables={"GIT_DIR": str(self._folder)})

    def _ask(self, *arguments: str) -> Answer:
        """Run a command that talks to the repository; killed when ktx is interrupted, as nothing of it is needed."""
        variables = {"GIT_DIR": str(self._folder), "GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_ASKPASS": "",
                     "SSH_ASKPASS_REQUIRE": "never", **self._settings()}  # fmt: skip
        if not {"GIT_SSH_COMMAND", "GIT_SSH"} & self._git.environ.keys() and not self._has_ssh_command():
            variables["GIT_SSH_COMMAND"] = _SSH
        said = self._git.read(*arguments, ok=range(256), variables=variables)
        if said.code:
            raise self._error(said.err)
        return said

    def _error(self, stderr: bytes) -> KtxError:
        return remote_error(stderr, self._remote.address.url, self._remote.token_setting, shown=self._shown)

    def _has_ssh_command(self) -> bool:
        if self._remote.address.is_web or self._remote.address.path is not None:
            return True
        return self._git.read("config", "--get", "core.sshCommand", ok=(0, 1)).code == 0

    def _settings(self) -> dict[str, str]:
        """Return git settings as variables: the token is in no argument and no file."""
        settings = [("fetch.unpackLimit", "1"), ("http.lowSpeedLimit", "1000"), ("http.lowSpeedTime", "60")]
        if self._header is not None:
            # Other helpers must not answer, nor a redirect carry the header to another host.
            settings += [("credential.helper", ""), ("http.followRedirects", "false")]
            settings += [(f"http.{self._remote.address.url}.extraHeader", self._header)]
        keys = {f"GIT_CONFIG_KEY_{index}": key for index, (key, _) in enumerate(settings)}
        values = {f"GIT_CONFIG_VALUE_{index}": value for index, (_, value) in enumerate(settings)}
        return {"GIT_CONFIG_COUNT": str(len(settings)), **keys, **values}


def _likely(heads: Mapping[str, str]) -> str:
    """Return the default branch of a server that names none."""
    return next((name for name in ("main", "master") if name in heads), min(heads, default="main"))


def _algorithm(commit: str) -> str:
    return "sha256" if len(commit) == 64 else "sha1"


def _entry(line: bytes) -> Entry:
    facts, _, path = line.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    return Entry(os.fsdecode(path), mode, blob, int(size) if size.isdigit() else 0)


def _size(line: bytes, blob: str) -> int | None:
    """Return the size a line of `cat-file --batch` says, None where the copy has no such blob."""
    name, kind, size = (*line.decode("ascii", "replace").split(), "", "", "")[:3]
    return int(size) if name == blob and kind == "blob" else None
