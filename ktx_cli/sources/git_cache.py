"""Copies of git repositories: addresses, cheap fetching of one branch, and errors from a remote."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ktx_cli.core import (
    Command,
    ConfigError,
    Hint,
    KtxError,
    NotReadyError,
    SettingPath,
    SourceError,
    StorageError,
    did_you_mean,
    listing,
)
from ktx_cli.project import Git, GitResult, condensed, find_git, mask, redact, storage_error
from ktx_cli.project import remember as remember_secret

PROTOCOLS: Final = "file:http:https:ssh"
"""The protocols that git may use, as in `GIT_ALLOW_PROTOCOL`."""

_USERS: Final = {"github.com": "x-access-token", "gitlab.com": "oauth2", "bitbucket.org": "x-token-auth"}
"""The user name to send with a token, by host."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]+::")
_SCP: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+|\[[0-9A-Fa-f:]+\]):(?!//)(.+)")
_FORMS: Final = "use https://host/org/repo.git, ssh://git@host/org/repo.git, git@host:org/repo.git or a path"


@dataclass(frozen=True, slots=True)
class Address:
    """The location of a repository: `url` without credentials, `path` of a local repository.

    `user` and `password`: the credentials in the URL.
    """

    url: str
    host: str = ""
    path: Path | None = None
    user: str = ""
    password: str = ""

    @property
    def is_web(self) -> bool:
        """Whether the repository is reached over HTTP or HTTPS."""
        return self.url.startswith(("https://", "http://"))

    @property
    def is_plain(self) -> bool:
        """Whether traffic can be intercepted, which is not the case for a server on this machine."""
        return self.url.startswith("http://") and self.host not in ("localhost", "127.0.0.1", "::1")

    def header(self, token: str | None) -> str | None:
        """Return the HTTP header with a token or the credentials of the URL, or None if there are none.

        A token with a colon is `user:password`. The header is registered as a secret.
        """
        if not self.is_web:
            return None
        pair = self._pair(token.strip()) if token and token.strip() else self._own_pair()
        if pair is None:
            return None
        value = base64.b64encode(pair.encode("utf-8")).decode("ascii")
        remember_secret(value)
        return f"Authorization: Basic {value}"

    def _pair(self, token: str) -> str:
        return token if ":" in token else f"{self.user or _USERS.get(self.host, 'token')}:{token}"

    def _own_pair(self) -> str | None:
        if self.password:
            return f"{self.user}:{self.password}"
        return f"{self.user}:" if self.user else None


def parse_address(text: str, *, base: Path, where: str) -> Address:
    """Return the address in a setting; a relative path starts at `base`. `where` names the setting.

    Raises `ConfigError` for an invalid address, and for protocols that run programs (`ext::`) or are not encrypted
    (`git://`).
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("-") or _HELPER.match(stripped) or not stripped.isprintable():
        raise ConfigError(f"{where} is not a git repository address that ktx supports", hint=_FORMS)
    scheme = _SCHEME.match(stripped)
    if scheme is not None:
        return _url(stripped, scheme[1].lower(), where)
    path = _local(stripped, base)
    scp = _SCP.fullmatch(stripped)
    if scp is not None and not path.exists() and not stripped.startswith(("/", ".", "~")):
        return Address(stripped, scp[1].strip("[]").lower())
    return Address(path.as_uri(), path=path)


def _local(text: str, base: Path) -> Path:
    try:
        return (base / Path(text).expanduser()).resolve()
    except RuntimeError:  # This user has no home folder.
        return (base / text).resolve()


def _url(text: str, scheme: str, where: str) -> Address:
    if scheme == "file":
        path = Path(unquote(urlsplit(text).path)).resolve()
        return Address(path.as_uri(), path=path)
    if scheme not in ("https", "http", "ssh"):
        raise ConfigError(f"{where} uses {scheme}://, which ktx does not support", hint=_FORMS)
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if not host or host.startswith("-"):
        raise ConfigError(f"{where} does not contain a valid host", hint=_FORMS)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None else f"{shown}:{port}"
    if scheme == "ssh":
        user = f"{parts.username}@" if parts.username else ""
        return Address(f"ssh://{user}{place}{parts.path}", host)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    for secret in (password, user if not password else ""):
        if secret:
            remember_secret(secret)
    return Address(f"{scheme}://{place}{parts.path}", host, user=user, password=password)


FOLDER: Final = "repositories"
"""The folder for the copies in the cache."""

MOST_LISTED: Final = 100_000_000
"""The maximum size of a repository's file list in bytes, which is about a million files."""

_TIP: Final = "refs/ktx/tip"
_HEADS: Final = "refs/heads/"
_MOST_PACKS: Final = 100
"""The number of fetches after which a copy is recreated, because only that makes it smaller."""

_DROPPED: Final = ("SSH_ASKPASS", "GIT_CURL_VERBOSE", "GIT_CREDENTIAL_HELPER")
_SSH: Final = "ssh -o BatchMode=yes -o ConnectTimeout=20"


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository to copy: its address, the branch (None for the default branch) and the resolved token.

    `where`: the connection in `ktx.yaml`, for errors, such as `connections.analytics`. `project_dir`: the project,
    whose programs are not run.
    """

    address: Address
    branch: str | None
    token: str | None
    where: str
    token_setting: str
    project_dir: Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a commit: `mode` as in git, `blob` as its ID, and `size` in bytes."""

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
        """Return everything below a folder (empty for the root) with relative paths, or nothing if the folder does not
        exist.
        """
        tree = f"{self.commit}:{below}" if below else f"{self.commit}^{{tree}}"
        listed = self._listed(tree, missing=(128,) if below else ())
        return [_entry(line) for line in listed.split(b"\0") if line]

    def _listed(self, tree: str, missing: tuple[int, ...]) -> bytes:
        """Return a tree's file list; empty for exit codes in `missing`. Trees nested in themselves are not read."""
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
            message = f"the repository has too many files: the file list is longer than {MOST_LISTED:,} bytes"
            raise SourceError(message, hint="use a smaller repository")
        if process.returncode in missing:
            return b""
        if process.returncode:
            message = f"the copy of a repository in {self._folder} is damaged"
            raise StorageError(message, hint=Hint("run `{}` again", Command("ingest")))
        return listed

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return blob id -> content. Raises `StorageError` if the copy lacks a blob."""
        wanted = list(dict.fromkeys(blobs))
        if not wanted:
            return {}
        output = self._run("cat-file", "--batch", stdin="\n".join(wanted).encode() + b"\n").out
        found: dict[str, bytes] = {}
        position = 0
        for blob in wanted:
            end = output.find(b"\n", position)
            size = _size(output[position:end], blob)
            if size is None:
                hint = Hint("delete it with {}; ktx recreates it", Command("-r", self._folder, program="rm"))
                raise StorageError(f"the copy of a repository in {self._folder} is damaged", hint=hint)
            found[blob] = output[end + 1 : end + 1 + size]
            position = end + size + 2
        return found

    def _run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> GitResult:
        return self._git.read(*arguments, stdin=stdin, ok=ok, variables={"GIT_DIR": str(self._folder)})


def open_copy(remote: Remote, cache: Path, connection: str, environ: Mapping[str, str]) -> Copy:
    """Return an up-to-date copy of a repository.

    Raises `RepositoryUnreachableError`, `RepositoryDeniedError`, `BranchMissingError`, `StorageError`,
    `GitMissingError`.
    """
    folder = cache / FOLDER / connection / hashlib.sha256(remote.address.url.encode()).hexdigest()[:16]
    _prepare(folder)
    return _Fetch(remote, folder, environ).copy()


def look_at(remote: Remote, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the branch that would be read and its commit, without copying. Raises the errors of `open_copy`."""
    with tempfile.TemporaryDirectory(prefix="ktx-look-") as folder:
        return _Fetch(remote, Path(folder), environ).look()


def _prepare(folder: Path) -> None:
    """Create the folder, and delete copies from the connection's earlier addresses."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise storage_error(folder, error) from error


class _Fetch:
    """A single refresh of a copy."""

    def __init__(self, remote: Remote, folder: Path, environ: Mapping[str, str]) -> None:
        self._remote, self._folder = remote, folder
        kept = {name: value for name, value in environ.items() if name not in _DROPPED}
        self._git = Git(find_git(environ.get("PATH"), project_dir=remote.project_dir), folder, environ=kept)
        self._header = remote.address.header(remote.token)
        self._shown = [each for each in (remote.token, self._header and self._header.rpartition(" ")[2]) if each]

    def copy(self) -> Copy:
        """Return the refreshed copy. A damaged copy is recreated."""
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
        """Return the branch, its commit (None if the branch does not exist), and all branches."""
        output = self._ask("ls-remote", "--symref", "--", self._remote.address.url, "HEAD", f"{_HEADS}*")
        lines = [line.split("\t") for line in output.out.decode("utf-8", "replace").splitlines() if "\t" in line]
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
        copy.entries("")  # A copy that lost objects fails here.
        return copy

    def _shrink(self) -> None:
        if len(list(self._folder.glob("objects/pack/*.pack"))) >= _MOST_PACKS:
            self._clear()

    def _tip(self) -> str | None:
        """Return the commit of the copy, or None if it does not have a readable one."""
        if not (self._folder / "HEAD").is_file():
            return None
        output = self._local("rev-parse", "--verify", "--quiet", f"{_TIP}^{{commit}}", ok=range(256))
        return output.out.decode().strip() or None if output.code == 0 else None

    def _clear(self) -> None:
        try:
            shutil.rmtree(self._folder)
            self._folder.mkdir(mode=0o700)
        except OSError as error:
            raise storage_error(self._folder, error, "replace") from error

    def _local(self, *arguments: str, ok: Iterable[int] = (0,)) -> GitResult:
        return self._git.read(*arguments, ok=tuple(ok), variables={"GIT_DIR": str(self._folder)})

    def _ask(self, *arguments: str) -> GitResult:
        """Run a command that talks to the repository. If ktx is interrupted, the command is killed, as it leaves
        nothing behind.
        """
        variables = {"GIT_DIR": str(self._folder), "GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_ASKPASS": "",
                     "SSH_ASKPASS_REQUIRE": "never", **self._settings()}  # fmt: skip
        if not {"GIT_SSH_COMMAND", "GIT_SSH"} & self._git.environ.keys() and not self._has_ssh_command():
            variables["GIT_SSH_COMMAND"] = _SSH
        output = self._git.read(*arguments, ok=range(256), variables=variables)
        if output.code:
            raise self._error(output.err)
        return output

    def _error(self, stderr: bytes) -> KtxError:
        return remote_error(stderr, self._remote.address.url, self._remote.token_setting, shown=self._shown)

    def _has_ssh_command(self) -> bool:
        if self._remote.address.is_web or self._remote.address.path is not None:
            return True
        own = {"GIT_CONFIG_COUNT": "0"}  # without the one that `Git` sets
        return self._git.read("config", "--get", "core.sshCommand", ok=(0, 1), variables=own).code == 0

    def _settings(self) -> dict[str, str]:
        """Return git settings as environment variables, which keep the token out of arguments and files."""
        settings = [("fetch.unpackLimit", "1"), ("http.lowSpeedLimit", "1000"), ("http.lowSpeedTime", "60")]
        if self._header is not None:
            # Prevent other credential helpers from answering, and redirects from carrying the header to another host.
            settings += [("credential.helper", ""), ("http.followRedirects", "false")]
            settings += [(f"http.{self._remote.address.url}.extraHeader", self._header)]
        keys = {f"GIT_CONFIG_KEY_{index}": key for index, (key, _) in enumerate(settings)}
        values = {f"GIT_CONFIG_VALUE_{index}": value for index, (_, value) in enumerate(settings)}
        return {"GIT_CONFIG_COUNT": str(len(settings)), **keys, **values}


def _likely(heads: Mapping[str, str]) -> str:
    """Return the likely default branch of a server that does not announce one."""
    return next((name for name in ("main", "master") if name in heads), min(heads, default="main"))


def _algorithm(commit: str) -> str:
    return "sha256" if len(commit) == 64 else "sha1"


def _entry(line: bytes) -> Entry:
    facts, _, path = line.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    return Entry(os.fsdecode(path), mode, blob, int(size) if size.isdigit() else 0)


def _size(line: bytes, blob: str) -> int | None:
    """Return the size in a line of `cat-file --batch`, or None if the copy does not have the blob."""
    name, kind, size = (*line.decode("ascii", "replace").split(), "", "", "")[:3]
    return int(size) if name == blob and kind == "blob" else None


class RepositoryUnreachableError(SourceError):
    """Raised for a repository that does not respond or does not exist."""


class RepositoryDeniedError(NotReadyError):
    """Raised for a repository that rejects the credentials or requires some."""


class BranchMissingError(ConfigError):
    """Raised for a branch that does not exist in the repository. `details.branches` lists its branches."""


_DENIED: Final = (
    "Authentication failed", "could not read Username", "could not read Password", "error: 401", "error: 403",
    "Permission denied (", "Access denied", "invalid credentials", "HTTP Basic: Access denied",
)  # fmt: skip
_UNKNOWN_HOST_KEY: Final = "Host key verification failed"
_MOVED: Final = ("error: 301", "error: 302", "error: 307", "error: 308")


def remote_error(stderr: bytes, origin: str, token_setting: str, *, shown: Collection[str]) -> KtxError:
    """Return the error for a failed request to a repository. `stderr` is git's output.

    `origin`: its address. `token_setting`: the setting with the token. `shown`: secrets that were sent.
    """
    output = redact(mask(stderr.decode("utf-8", "replace")), shown)
    reason = condensed(output.encode()) or "no response"
    details = {"repository": origin}
    if any(sign in output for sign in _DENIED):
        what = "the token was rejected" if shown else "it requires credentials"
        hint = Hint("set {} to a token with read access, for example env:GIT_TOKEN", SettingPath(token_setting))
        if not origin.startswith("http"):
            what, hint = (
                "the SSH key was rejected",
                Hint("check that this works: {}", Command("ls-remote", origin, program="git")),
            )
        return RepositoryDeniedError(f"{origin} {what}: {reason}", hint=hint, details=details)
    if _UNKNOWN_HOST_KEY in output:
        hint = Hint("connect once manually to accept the host key: {}", Command("ls-remote", origin, program="git"))
        return RepositoryDeniedError(f"the host key of {origin} is unknown to ssh", hint=hint, details=details)
    hint = Hint("check the address and the network, then run `{}` again", Command("ingest"))
    if any(sign in output for sign in _MOVED) or "redirect" in output:
        hint = Hint("the repository has moved; use its new address, because ktx never sends a token to another address")
    return RepositoryUnreachableError(f"cannot read {origin}: {reason}", hint=hint, details=details)


def no_branch(branch: str, branches: Iterable[str], origin: str, where: str) -> BranchMissingError:
    """Return the error for a branch that does not exist in the repository. `where` is the setting."""
    known = sorted(branches)
    near = did_you_mean(branch, known)
    hint = (
        Hint("set {} to {}", SettingPath(where), near)
        if near
        else Hint("set {} to one of: {}", SettingPath(where), listing(known, 20))
    )
    there = f"; available branches: {listing(known, 20)}" if known else "; it has no branches"
    message = f"{origin} has no branch `{branch}`{there}"
    return BranchMissingError(message, hint=hint, details={"repository": origin, "branches": known})
